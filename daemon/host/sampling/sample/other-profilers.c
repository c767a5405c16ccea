/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Goes over the kernel's maps by id, recognises process tables by name and sizes of keys and values, and
 * looks up targets in them.
 */

#include "host/sampling/sample/other-profilers.h"

#include <linux/bpf.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "border/abi.h"
#include "core/base/util/macro.h"

enum {
        MAX_MAPS = 10000,               /* maps that one refresh looks at */
        /* row of 0.1.0; all that it has is the same */
        OLD_ROW_SIZE = offsetof(struct abi_process, watch),
};

_Static_assert(OLD_ROW_SIZE == 48, "rows of 0.1.0 are recognised by it");

/* Unknown fields must be zero, padding too. */
static int call(int command, union bpf_attr *attr) {
        return (int)syscall(SYS_bpf, command, attr, sizeof(*attr));
}

static int open_map(uint32_t id) {
        union bpf_attr attr;

        memset(&attr, 0, sizeof(attr));
        attr.map_id = id;
        return call(BPF_MAP_GET_FD_BY_ID, &attr);
}

static bool get_info(int fd, struct bpf_map_info *info) {
        union bpf_attr attr;

        memset(&attr, 0, sizeof(attr));
        memset(info, 0, sizeof(*info));
        attr.info.bpf_fd = (uint32_t)fd;
        attr.info.info_len = sizeof(*info);
        attr.info.info = (uint64_t)(uintptr_t)info;
        return call(BPF_OBJ_GET_INFO_BY_FD, &attr) == 0;
}

/* Smallest id above @id; 0 = none, or we may not ask. */
static uint32_t next_id(uint32_t id) {
        union bpf_attr attr;

        memset(&attr, 0, sizeof(attr));
        attr.start_id = id;
        return call(BPF_MAP_GET_NEXT_ID, &attr) ? 0 : attr.next_id;
}

/* Whether it is the map `processes` of bpf/walk/tables.bpf.h. A map of another layout cannot be understood. */
static bool is_process_table(const struct bpf_map_info *info) {
        return info->type == BPF_MAP_TYPE_HASH && info->key_size == sizeof(uint32_t) &&
                (info->value_size == sizeof(struct abi_process) || info->value_size == OLD_ROW_SIZE) &&
                !strncmp(info->name, "processes", sizeof(info->name));
}

void other_profilers_init(OtherProfilers *profilers, int processes_fd) {
        struct bpf_map_info info;

        *profilers = (OtherProfilers){ 0 };
        if (get_info(processes_fd, &info))
                profilers->own_id = info.id;
}

static bool exists(uint32_t id) {
        _cleanup_(closep) int fd = open_map(id);

        return fd >= 0;
}

static void forget_gone(OtherProfilers *profilers) {
        unsigned n = 0;

        for (unsigned i = 0; i < profilers->n; i++)
                if (exists(profilers->ids[i]))
                        profilers->ids[n++] = profilers->ids[i];
        profilers->n = n;
}

void other_profilers_refresh(OtherProfilers *profilers) {
        uint32_t id = profilers->last_id;

        forget_gone(profilers);
        for (int n = 0; n < MAX_MAPS && profilers->n < OTHER_PROFILERS_MAX && (id = next_id(id)); n++) {
                _cleanup_(closep) int fd = open_map(id);
                struct bpf_map_info info;

                profilers->last_id = id;
                if (fd >= 0 && id != profilers->own_id && get_info(fd, &info) && is_process_table(&info))
                        profilers->ids[profilers->n++] = id;
        }
}

static bool has_row(uint32_t id, uint32_t tgid, uint64_t start_time_ns) {
        _cleanup_(closep) int fd = open_map(id);
        struct abi_process row = { 0 };
        union bpf_attr attr;

        memset(&attr, 0, sizeof(attr));
        attr.map_fd = (uint32_t)fd;
        attr.key = (uint64_t)(uintptr_t)&tgid;
        attr.value = (uint64_t)(uintptr_t)&row;
        return fd >= 0 && call(BPF_MAP_LOOKUP_ELEM, &attr) == 0 && row.state == ABI_STATE_TARGET &&
               row.start_time_ns == start_time_ns;
}

bool other_profilers_sample(const OtherProfilers *profilers, uint32_t tgid, uint64_t start_time_ns) {
        for (unsigned i = 0; i < profilers->n; i++)
                if (has_row(profilers->ids[i], tgid, start_time_ns))
                        return true;
        return false;
}
