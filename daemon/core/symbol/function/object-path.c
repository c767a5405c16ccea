/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Opens an object by its path, inside the mount namespace of its container where it has one, and checks
 * kind and build id at the descriptor. A packed ELF file is expanded into memory, up to a cap.
 */

#include "core/symbol/function/object-path.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "core/base/file/file.h"
#include "core/base/file/unpack.h"
#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "core/symbol/object/htlhash.h"
#include "core/symbol/object/object-file.h"
#include "core/symbol/object/remote-files.h"

enum {
        VDSO_MAX_BYTES = 16 << 10,      /* x86-64: two pages; reads stop at the end of its mapping */
        MAX_PACKED = 32 << 20,          /* .gnu_debugdata: libLLVM's is under 1 MiB … */
        MAX_UNPACKED = 128 << 20,       /* … and this many come out of it */
};

void symbol_file_deinit(SymbolFile *file) {
        elf_image_deinit(&file->image);
        closep(&file->fd);
        free(file->memory);
        *file = (SymbolFile)SYMBOL_FILE_NULL;
}

/*
 * A path that is seen from inside a container: its links must not lead out of there. /proc/PID/root is itself
 * such a way out, which is why it is opened by its own path and only what follows is confined.
 */
static int look_at(const char *root, const char *path) {
        struct open_how how = { .flags = O_PATH | O_CLOEXEC,
                                .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
        _cleanup_(closep) int directory = -1;

        if (!root)
                return open(path, O_PATH | O_CLOEXEC);
        directory = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
        return directory < 0 ? -1 : (int)syscall(SYS_openat2, directory, path, &how, sizeof(how));
}

/*
 * A FIFO or a device would block or act on open(): look first (O_PATH touches neither), then open what was
 * seen.
 */
int symbol_file_look(const char *root, const char *path, int *fdp, uint64_t *sizep, SymbolState *statep) {
        _cleanup_(closep) int seen = look_at(root, path);
        char link[64];
        struct stat st;

        *statep = SYMBOL_STATE_ABSENT;
        if (seen < 0)
                return 1;
        *statep = SYMBOL_STATE_UNREADABLE;
        if (fstat(seen, &st) < 0 || !S_ISREG(st.st_mode))
                return 1;
        snprintf(link, sizeof(link), "/proc/self/fd/%d", seen);
        *fdp = open(link, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        *sizep = (uint64_t)st.st_size;
        return *fdp < 0;
}

/* Opens by the source. The descriptor may be of anything too, and its size is needed. */
int symbol_source_open(const SymbolSource *source, int *fdp, uint64_t *sizep, SymbolState *statep) {
        _cleanup_(closep) int fd = source->open(source->userdata);
        struct stat st;

        *statep = SYMBOL_STATE_ABSENT;
        if (fd < 0)
                return 1;
        *statep = SYMBOL_STATE_UNREADABLE;
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return 1;
        *fdp = take_fd(fd);
        *sizep = (uint64_t)st.st_size;
        return 0;
}

/* The file is on FUSE or a network filesystem: by its path its server would be asked. */
static int open_copy(uint64_t number, int *fdp, uint64_t *sizep) {
        _cleanup_(closep) int fd = -1;
        struct stat st;

        if (remote_files_open_number(number, &fd) || fstat(fd, &st) < 0)
                return 1;
        *fdp = take_fd(fd);
        *sizep = (uint64_t)st.st_size;
        return 0;
}

/* A file that took the place of the one that is meant has its path, and may have any build id. */
static int open_by_path(const SymbolObject *object, int *fdp, uint64_t *sizep, SymbolState *statep) {
        _cleanup_(closep) int fd = -1;
        uint64_t number, size;
        uid_t owner;

        *statep = SYMBOL_STATE_ABSENT;
        if (object_number_is_remote(object->file))
                return open_copy(object->file, fdp, sizep);
        if (object->path[0] != '/' ||
            symbol_file_look(symbol_object_root(object), object->path, &fd, &size, statep))
                return 1;
        *statep = SYMBOL_STATE_OTHER;
        if (object->file && (object_file_number_of(fd, &number, &owner) || number != object->file))
                return 1;
        *fdp = take_fd(fd);
        *sizep = size;
        return 0;
}

int symbol_object_open(const SymbolObject *object, int *fdp, uint64_t *sizep, SymbolState *statep) {
        if (object->source && object->source->open)
                return symbol_source_open(object->source, fdp, sizep, statep);
        return open_by_path(object, fdp, sizep, statep);
}

static int read_shape(SymbolFile *file, int fd, uint64_t base, uint64_t size, SymbolState *statep) {
        SymbolFile new = { .fd = fd, .image = { .fd = -1 } };
        int r = elf_image_init_any(&new.image, fd, base, size);

        if (r) {
                *statep = SYMBOL_STATE_UNREADABLE;
                closep(&fd);
                return r < 0 ? error_fold(r) : 1;
        }
        *file = new;
        return 0;
}

int symbol_file_take(SymbolFile *file, int fd, uint64_t size, SymbolState *statep) {
        int r = read_shape(file, fd, 0, size, statep);

        return r < 0 ? error_fold(r) : r;
}

static int open_vdso(SymbolFile *file, SymbolState *statep) {
        uint64_t base = getauxval(AT_SYSINFO_EHDR);
        int fd, r;

        *statep = SYMBOL_STATE_ABSENT;
        if (!base)
                return 1;
        fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return 1;
        r = read_shape(file, fd, base, VDSO_MAX_BYTES, statep);
        return r < 0 ? error_fold(r) : r;
}

static int open_any(SymbolFile *file, const SymbolObject *object, SymbolState *statep) {
        uint64_t size;
        int fd, r;

        if (!strcmp(object->path, "[vdso]"))
                return open_vdso(file, statep);
        if (symbol_object_open(object, &fd, &size, statep))
                return 1;
        r = read_shape(file, fd, 0, size, statep);
        return r < 0 ? error_fold(r) : r;
}

static bool is_set(const char *id) {
        return id && id[0];
}

bool symbol_object_has_id(const SymbolObject *object) {
        return is_set(object->build_id_gnu) || is_set(object->build_id_go) ||
                is_set(object->build_id_htlhash);
}

/*
 * A file counts by the GNU id if the profile has one, else by Go's, else by the content, unless it was opened
 * as the file itself.
 */
int symbol_file_check(const SymbolObject *object, const SymbolFile *file) {
        char hash[HTLHASH_HEX_SIZE];
        ImageIds ids;
        int r = elf_image_ids(&file->image, &ids);

        if (r)
                return error_fold(r);
        if (is_set(object->build_id_gnu))
                return strcmp(object->build_id_gnu, ids.gnu) != 0;
        if (is_set(object->build_id_go))
                return strcmp(object->build_id_go, ids.go) != 0;
        if (object->file)
                return 0;
        r = htlhash_read(file->fd, file->image.size, hash);
        return r ? r : strcmp(object->build_id_htlhash, hash) != 0;
}

int symbol_file_open(SymbolFile *file, const SymbolObject *object, SymbolState *statep) {
        _cleanup_(symbol_file_deinit) SymbolFile new = SYMBOL_FILE_NULL;
        int r;

        *statep = SYMBOL_STATE_NO_ID;
        if (!symbol_object_has_id(object) && !object->file)
                return 1;
        r = open_any(&new, object, statep);
        if (!r) {
                *statep = SYMBOL_STATE_OTHER;
                r = symbol_file_check(object, &new);
        }
        if (r)
                return r < 0 ? error_fold(r) : 1;
        *file = new;
        new = (SymbolFile)SYMBOL_FILE_NULL;
        return 0;
}

/* Room for unpacked bytes. */
typedef struct Unpacked {
        char *data;
        size_t size, room;
} Unpacked;

static int keep(const uint8_t *data, size_t size, void *userdata) {
        Unpacked *unpacked = userdata;
        int r;

        if (size > MAX_UNPACKED - unpacked->size)
                return 1;
        r = array_reserve(&unpacked->data, &unpacked->room, unpacked->size + size, UNPACK_PIECE);
        if (r)
                return r;
        memcpy(unpacked->data + unpacked->size, data, size);
        unpacked->size += size;
        return 0;
}

static int unpack_data(const char *data, uint64_t size, Unpacked *unpacked) {
        _cleanup_(unpack_freep) Unpack *unpack = NULL;
        int r;

        if (!unpack_is_packed((const uint8_t *)data, size))
                return 1;
        r = unpack_new(&unpack, (const uint8_t *)data, size);
        if (!r)
                r = unpack_feed(unpack, (const uint8_t *)data, size, keep, unpacked);
        if (!r)
                r = unpack_end(unpack);
        return r < 0 ? error_fold(r) : r;
}

int symbol_file_open_packed(SymbolFile *file, const ElfImage *own) {
        _cleanup_(freep) char *data = NULL;
        SymbolFile new = SYMBOL_FILE_NULL;
        Unpacked unpacked = { 0 };
        uint64_t size;
        int r;

        r = elf_image_read_section(own, ".gnu_debugdata", MAX_PACKED, &data, &size);
        if (r)
                return r < 0 ? error_fold(r) : 1;
        r = unpack_data(data, size, &unpacked);
        new.memory = unpacked.data;
        if (!r)
                r = elf_image_init_memory_any(&new.image, (const uint8_t *)new.memory, unpacked.size);
        if (r) {
                symbol_file_deinit(&new);
                return r < 0 ? error_fold(r) : 1;
        }
        *file = new;
        return 0;
}
