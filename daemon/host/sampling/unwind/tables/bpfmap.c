/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Calls bpf(2) for maps, and fills an array through mmap(), which is one copy instead of a call per block.
 */

#include "host/sampling/unwind/tables/bpfmap.h"

#include <errno.h>
#include <linux/bpf.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "border/unwind_abi.h"
#include "core/base/util/macro.h"

/* Unknown fields must be zero, padding too. */
static int call(int command, union bpf_attr *attr) {
        int r = (int)syscall(SYS_bpf, command, attr, sizeof(*attr));

        return r < 0 ? -errno : r;
}

/* An array's memory may be written like a file's: one copy, no call per block. */
static int fill(int fd, const void *data, size_t size) {
        void *blocks = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        if (blocks == MAP_FAILED)
                return -errno;
        memcpy(blocks, data, size);
        munmap(blocks, size);
        return 0;
}

int bpfmap_create_table(const void *data, size_t size) {
        _cleanup_(closep) int fd = -1;
        union bpf_attr attr;
        int r;

        memset(&attr, 0, sizeof(attr));
        attr.map_type = BPF_MAP_TYPE_ARRAY;
        attr.key_size = sizeof(uint32_t);
        attr.value_size = UNWIND_BLOCK_SIZE;
        attr.max_entries = (uint32_t)(size / UNWIND_BLOCK_SIZE);
        attr.map_flags = BPF_F_MMAPABLE | BPF_F_INNER_MAP;
        memcpy(attr.map_name, "row_table", sizeof("row_table"));
        fd = call(BPF_MAP_CREATE, &attr);
        if (fd < 0)
                return fd;
        r = fill(fd, data, size);
        return r ? r : take_fd(fd);
}

static int change(int command, int fd, const void *key, const void *value) {
        union bpf_attr attr;

        memset(&attr, 0, sizeof(attr));
        attr.map_fd = (uint32_t)fd;
        attr.key = (uint64_t)(uintptr_t)key;
        attr.value = (uint64_t)(uintptr_t)value;
        return call(command, &attr);
}

int bpfmap_update(int fd, const void *key, const void *value) {
        return change(BPF_MAP_UPDATE_ELEM, fd, key, value);
}

int bpfmap_lookup(int fd, const void *key, void *value) {
        return change(BPF_MAP_LOOKUP_ELEM, fd, key, value);
}

int bpfmap_delete(int fd, const void *key) {
        int r = change(BPF_MAP_DELETE_ELEM, fd, key, NULL);

        return r == -ENOENT ? 0 : r;
}

int bpfmap_update_batch(int fd, const uint32_t *slots, const int *fds, uint32_t n, uint32_t *n_donep) {
        union bpf_attr attr;
        int r;

        memset(&attr, 0, sizeof(attr));
        attr.batch.map_fd = (uint32_t)fd;
        attr.batch.keys = (uint64_t)(uintptr_t)slots;
        attr.batch.values = (uint64_t)(uintptr_t)fds;
        attr.batch.count = n;
        r = call(BPF_MAP_UPDATE_BATCH, &attr);
        /* The kernel writes the count only once it has begun. */
        *n_donep = r == 0 ? n : attr.batch.count < n ? attr.batch.count : 0;
        return r;
}
