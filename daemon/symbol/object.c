/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/object.h"

#include <errno.h>
#include <stdarg.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "target/htlhash.h"
#include "util/error.h"
#include "util/file.h"
#include "util/gzip.h"
#include "util/unpack.h"

enum {
        MAX_PATH = 4096,
        VDSO_MAX_BYTES = 16 << 10,      /* x86-64: two pages; reads stop at the end of its mapping */
        MAX_LINK = 512,                 /* bytes of .gnu_debuglink */
        MAX_PACKED = 32 << 20,          /* .gnu_debugdata: libLLVM's is under 1 MiB … */
        MAX_UNPACKED = 128 << 20,       /* … and this many come out of it */
        CRC_PIECE = 64 << 10,
};

#define MAX_CRC_BYTES (UINT64_C(4) << 30)       /* the whole debug file is read */

void symbol_file_deinit(SymbolFile *file) {
        elf_image_deinit(&file->image);
        closep(&file->fd);
        file->fd = -1;
}

/*
 * A path that is seen from inside a container: its links must not lead out of there. /proc/PID/root is itself such a
 * way out, which is why it is opened by its own path and only what follows is confined.
 */
static int look_at(const char *root, const char *path) {
        struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
        _cleanup_(closep) int directory = -1;

        if (!root)
                return open(path, O_PATH | O_CLOEXEC);
        directory = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
        return directory < 0 ? -1 : (int)syscall(SYS_openat2, directory, path, &how, sizeof(how));
}

/* A FIFO or a device would block or act on open(): look first (O_PATH touches neither), then open what was seen. */
static int open_regular(const char *root, const char *path, int *fdp, uint64_t *sizep, SymbolState *statep) {
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

/* What a source hands out may be anything too, and its size is needed. */
static int open_source(const SymbolSource *source, int *fdp, uint64_t *sizep, SymbolState *statep) {
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

static const char *root_of(const SymbolObject *object) {
        return object->source ? object->source->root : NULL;
}

/* Return: 0, 1 with *statep, -ENOMEM. Takes the descriptor in any case. */
static int read_shape(SymbolFile *file, int fd, uint64_t base, uint64_t size, SymbolState *statep) {
        SymbolFile new = { .fd = fd, .image = { .fd = -1 } };
        int r = elf_image_init(&new.image, fd, base, size);

        if (r) {
                *statep = SYMBOL_STATE_UNREADABLE;
                closep(&fd);
                return r < 0 ? error_fold(r) : 1;
        }
        *file = new;
        return 0;
}

static int open_path(SymbolFile *file, const char *root, const char *path, SymbolState *statep) {
        uint64_t size;
        int fd, r;

        if (open_regular(root, path, &fd, &size, statep))
                return 1;
        r = read_shape(file, fd, 0, size, statep);
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

        *statep = SYMBOL_STATE_ABSENT;
        if (!strcmp(object->path, "[vdso]"))
                return open_vdso(file, statep);
        if (object->source && object->source->open) {
                if (open_source(object->source, &fd, &size, statep))
                        return 1;
                r = read_shape(file, fd, 0, size, statep);
                return r < 0 ? error_fold(r) : r;
        }
        return object->path[0] == '/' ? open_path(file, root_of(object), object->path, statep) : 1;
}

static bool is_set(const char *id) {
        return id && id[0];
}

/* By the GNU id if the profile has one, else by Go's, else by the content. Return: 0, 1 = another build, -ENOMEM. */
static int check_same(const SymbolObject *object, const SymbolFile *file) {
        char hash[HTLHASH_HEX_SIZE];
        ImageIds ids;
        int r = elf_image_ids(&file->image, &ids);

        if (r)
                return error_fold(r);
        if (is_set(object->build_id_gnu))
                return strcmp(object->build_id_gnu, ids.gnu) != 0;
        if (is_set(object->build_id_go))
                return strcmp(object->build_id_go, ids.go) != 0;
        r = htlhash_read(file->fd, file->image.size, hash);
        return r ? r : strcmp(object->build_id_htlhash, hash) != 0;
}

int symbol_file_open(SymbolFile *file, const SymbolObject *object, SymbolState *statep) {
        _cleanup_(symbol_file_deinit) SymbolFile new = SYMBOL_FILE_NULL;
        int r;

        *statep = SYMBOL_STATE_NO_ID;
        if (!is_set(object->build_id_gnu) && !is_set(object->build_id_go) && !is_set(object->build_id_htlhash))
                return 1;
        r = open_any(&new, object, statep);
        if (!r) {
                *statep = SYMBOL_STATE_OTHER;
                r = check_same(object, &new);
        }
        if (r)
                return r < 0 ? error_fold(r) : 1;
        *file = new;
        new = (SymbolFile)SYMBOL_FILE_NULL;
        return 0;
}

int debug_link_parse(const char *data, size_t size, const char **namep, uint32_t *crcp) {
        size_t n = strnlen(data, size), at = (n + 4) & ~(size_t)3;

        /* The name, zeros up to a border of 4 bytes, the sum. A name that leads elsewhere is nobody's debug file. */
        if (n == 0 || at > size || size - at < sizeof(*crcp) || memchr(data, '/', n) || !strcmp(data, ".") ||
            !strcmp(data, ".."))
                return 1;
        memcpy(crcp, data + at, sizeof(*crcp));
        *namep = data;
        return 0;
}

bool elf_image_serves(const ElfImage *image, DebugUse use) {
        const Elf64_Shdr *section;

        if (use == DEBUG_FOR_LINES)
                return !elf_image_find_section(image, ".debug_info", &section) && section->sh_type != SHT_NOBITS;
        for (uint32_t i = 0; i < image->n_sections; i++)
                if (image->sections[i].sh_type == SHT_SYMTAB)
                        return true;
        return false;
}

/* The sum over the whole file. Return: 0, 1 = it is another, -ENOMEM. */
static int check_crc(const SymbolFile *file, uint32_t expected) {
        _cleanup_(freep) uint8_t *piece = malloc(CRC_PIECE);
        uint32_t crc = 0;

        if (!piece)
                return error_origin(-ENOMEM);
        if (file->image.size > MAX_CRC_BYTES)
                return 1;
        for (uint64_t at = 0; at < file->image.size;) {
                ssize_t n = file_pread(file->fd, piece, CRC_PIECE, at);

                if (n <= 0)
                        return 1;
                crc = gzip_crc32(crc, piece, (size_t)n);
                at += (uint64_t)n;
        }
        return crc != expected;
}

/* A debug file is believed by its build id, or if the object has none, by the sum in the object's link. */
static int check_debug(const SymbolObject *object, const SymbolFile *file, const uint32_t *crcp, DebugUse use) {
        ImageIds ids;
        int r;

        if (!elf_image_serves(&file->image, use))
                return 1;
        r = elf_image_ids(&file->image, &ids);
        if (r)
                return error_fold(r);
        if (is_set(object->build_id_gnu) && (ids.gnu[0] || !crcp))
                return strcmp(object->build_id_gnu, ids.gnu) != 0;
        return crcp ? check_crc(file, *crcp) : 1;
}

_printf_(6, 7) static int try_debug(SymbolFile *file, const SymbolObject *object, const char *root, const uint32_t *crcp,
                                    DebugUse use, const char *format, ...) {
        _cleanup_(symbol_file_deinit) SymbolFile new = SYMBOL_FILE_NULL;
        char path[MAX_PATH];
        SymbolState state;
        va_list list;
        int r;

        va_start(list, format);
        r = vsnprintf(path, sizeof(path), format, list);
        va_end(list);
        if (r < 0 || (size_t)r >= sizeof(path))
                return 1;
        r = open_path(&new, root, path, &state);
        if (!r)
                r = check_debug(object, &new, crcp, use);
        if (r)
                return r < 0 ? error_fold(r) : 1;
        *file = new;
        new = (SymbolFile)SYMBOL_FILE_NULL;
        return 0;
}

/* The id names a file, and it comes from a payload. */
static bool is_plain_id(const char *id) {
        return id && strlen(id) >= 4 && strspn(id, "0123456789abcdef") == strlen(id);
}

static int try_build_id(SymbolFile *file, const SymbolObject *object, const char *directory, DebugUse use) {
        const char *id = object->build_id_gnu, *root = root_of(object);
        int r = 1;

        if (!is_plain_id(id))
                return 1;
        r = try_debug(file, object, NULL, NULL, use, "%s/.build-id/%.2s/%s.debug", directory, id, id + 2);
        if (r > 0 && root)
                r = try_debug(file, object, root, NULL, use, "%s/.build-id/%.2s/%s.debug", directory, id, id + 2);
        return r < 0 ? error_fold(r) : r;
}

static int try_link(SymbolFile *file, const SymbolObject *object, const ElfImage *own, const char *directory,
                    DebugUse use) {
        const char *root = root_of(object), *name, *slash = strrchr(object->path, '/');
        _cleanup_(freep) char *data = NULL;
        int r, n = slash ? (int)(slash - object->path) : 0;
        uint64_t size;
        uint32_t crc;

        r = elf_image_read_section(own, ".gnu_debuglink", MAX_LINK, &data, &size);
        if (r < 0)
                return error_fold(r);
        if (r || object->path[0] != '/' || n >= MAX_PATH || debug_link_parse(data, size, &name, &crc))
                return 1;
        r = try_debug(file, object, root, &crc, use, "%.*s/%s", n, object->path, name);
        if (r > 0)
                r = try_debug(file, object, root, &crc, use, "%.*s/.debug/%s", n, object->path, name);
        if (r > 0)
                r = try_debug(file, object, root, &crc, use, "%s%.*s/%s", directory, n, object->path, name);
        return r < 0 ? error_fold(r) : r;
}

int symbol_file_open_debug(SymbolFile *file, const SymbolObject *object, const ElfImage *own,
                           const char *debug_directory, DebugUse use) {
        int r = try_build_id(file, object, debug_directory, use);

        if (r > 0 && own)
                r = try_link(file, object, own, debug_directory, use);
        return r < 0 ? error_fold(r) : r;
}

/* Where the unpacked bytes go: memory that reads like a file. */
typedef struct Unpacked {
        int fd;
        uint64_t size;
} Unpacked;

static int keep(const uint8_t *data, size_t size, void *userdata) {
        Unpacked *unpacked = userdata;

        if (size > MAX_UNPACKED - unpacked->size || file_write(unpacked->fd, data, size) < 0)
                return 1;
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
        Unpacked unpacked = { .fd = -1 };
        SymbolState state;
        uint64_t size;
        int r;

        r = elf_image_read_section(own, ".gnu_debugdata", MAX_PACKED, &data, &size);
        if (r)
                return r < 0 ? error_fold(r) : 1;
        unpacked.fd = memfd_create("gnu_debugdata", MFD_CLOEXEC);
        if (unpacked.fd < 0)
                return 1;
        r = unpack_data(data, size, &unpacked);
        if (r) {
                closep(&unpacked.fd);
                return r < 0 ? error_fold(r) : 1;
        }
        r = read_shape(file, unpacked.fd, 0, unpacked.size, &state);
        return r < 0 ? error_fold(r) : r;
}
