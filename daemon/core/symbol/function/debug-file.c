/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Searches the places of a debug file in gdb's order, and checks each file that is there by its build id,
 * or by the sum in the object's link.
 */

#include "core/symbol/function/debug-file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/file/file.h"
#include "core/base/file/gzip.h"
#include "core/base/util/error.h"
#include "core/symbol/object/object-file.h"

enum {
        MAX_LINK = 512,                 /* bytes of .gnu_debuglink */
        CRC_PIECE = 64 << 10,
};

#define MAX_CRC_BYTES (UINT64_C(4) << 30)       /* the whole debug file is read */

int debug_link_parse(const char *data, size_t size, const char **namep, uint32_t *crcp) {
        size_t n = strnlen(data, size), at = (n + 4) & ~(size_t)3;

        /*
         * The section holds the name, zeros up to a multiple of 4 bytes, and the sum. A name with a folder in
         * it is refused.
         */
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
                return (!elf_image_find_section(image, ".debug_info", &section) ||
                        !elf_image_find_section(image, ".zdebug_info", &section)) &&
                        section->sh_type != SHT_NOBITS;
        for (uint32_t i = 0; i < image->n_sections; i++)
                if (image->sections[i].sh_type == SHT_SYMTAB)
                        return true;
        return false;
}

bool elf_image_has_lines(const ElfImage *image) {
        const Elf64_Shdr *section;
        ImageIds ids;

        return elf_image_serves(image, DEBUG_FOR_LINES) ||
                !elf_image_find_section(image, ".gopclntab", &section) ||
                (!elf_image_ids(image, &ids) && ids.go[0]);
}

/* Checks the sum over the whole file. Return: 0, 1 = it is another file, -ENOMEM. */
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

/* A file counts by its build id, or, if the object has none, by the sum in the object's link. */
int debug_file_check(const SymbolObject *object, const SymbolFile *file, const uint32_t *crcp, DebugUse use) {
        ImageIds ids;
        int r;

        if (!elf_image_serves(&file->image, use))
                return 1;
        r = elf_image_ids(&file->image, &ids);
        if (r)
                return error_fold(r);
        if (object->build_id_gnu && object->build_id_gnu[0] && (ids.gnu[0] || !crcp))
                return strcmp(object->build_id_gnu, ids.gnu) != 0;
        return crcp ? check_crc(file, *crcp) : 1;
}

int debug_link_read(const ElfImage *own, DebugLink *link) {
        _cleanup_(freep) char *data = NULL;
        const char *name;
        uint64_t size;
        int r;

        r = elf_image_read_section(own, ".gnu_debuglink", MAX_LINK, &data, &size);
        if (r < 0)
                return error_fold(r);
        if (r || debug_link_parse(data, size, &name, &link->crc) || strlen(name) >= sizeof(link->name))
                return 1;
        strcpy(link->name, name);
        return 0;
}

/* ---- where it may be ---- */

/* Whether the id may become part of a path: it comes from a payload. */
static bool is_plain_id(const char *id) {
        return id && strlen(id) >= 4 && strspn(id, "0123456789abcdef") == strlen(id);
}

/* Return: whether there is such a place, and its path fits. */
static bool place_by_id(DebugSearch *search, const char *root) {
        const char *id = search->object->build_id_gnu;
        int n;

        if (!is_plain_id(id))
                return false;
        n = snprintf(search->path, sizeof(search->path), "%s/.build-id/%.2s/%s.debug", search->directory, id,
                     id + 2);
        search->root = root;
        search->by_link = search->is_beside = false;
        return n >= 0 && (size_t)n < sizeof(search->path);
}

static bool place_by_link(DebugSearch *search, const char *before, const char *between) {
        const char *path = search->object->path, *slash = strrchr(path, '/');
        int n = slash ? (int)(slash - path) : 0;

        if (!search->link || path[0] != '/' || n >= DEBUG_MAX_PATH)
                return false;
        n = snprintf(search->path, sizeof(search->path), "%s%.*s/%s%s", before, n, path, between,
                     search->link->name);
        search->root = symbol_object_root(search->object);
        search->by_link = true;
        search->is_beside = !*before;
        return n >= 0 && (size_t)n < sizeof(search->path);
}

static bool place(DebugSearch *search, unsigned at) {
        const char *root = symbol_object_root(search->object);
        bool is_remote = object_number_is_remote(search->object->file);

        switch (at) {
        case 0:
                return place_by_id(search, NULL);
        case 1:
                return root && !is_remote && place_by_id(search, root);
        case 2:
                return !is_remote && place_by_link(search, "", "");
        case 3:
                return !is_remote && place_by_link(search, "", ".debug/");
        default:
                return place_by_link(search, search->directory, "");
        }
}

/* Whether the file @fd beside the object belongs to the object's owner or to root. */
static bool may_lie_beside(const DebugSearch *search, int fd) {
        const SymbolObject *object = search->object;
        _cleanup_(closep) int own = -1;
        uint64_t size, number;
        SymbolState state;
        struct stat st;
        uid_t owner;

        if (!object->file)
                return true;
        return !symbol_file_look(search->root, object->path, &own, &size, &state) &&
                !object_file_number_of(own, &number, &owner) && number == object->file && !fstat(fd, &st) &&
                (st.st_uid == owner || st.st_uid == 0) && !(st.st_mode & S_IWOTH);
}

static int fetch(const SymbolRemote *remote, const char *id, int *fdp, uint64_t *sizep) {
        return remote && is_plain_id(id) ? remote->fetch(remote, id, fdp, sizep) : 1;
}

int debug_search_next(DebugSearch *search, int *fdp, uint64_t *sizep) {
        while (search->at < DEBUG_N_PLACES) {
                _cleanup_(closep) int fd = -1;
                SymbolState state;

                if (!place(search, search->at++) ||
                    symbol_file_look(search->root, search->path, &fd, sizep, &state) ||
                    (search->is_beside && !may_lie_beside(search, fd)))
                        continue;
                *fdp = take_fd(fd);
                return 0;
        }
        search->by_link = search->is_beside = false;
        return fetch(take(search->remote), search->object->build_id_gnu, fdp, sizep);
}

int debug_file_open(SymbolFile *file, const SymbolObject *object, const ElfImage *own,
                    const char *debug_directory, DebugUse use) {
        DebugSearch search = { .object = object, .directory = debug_directory };
        DebugLink link;
        int r = own ? debug_link_read(own, &link) : 1, fd;
        uint64_t size;

        search.link = r ? NULL : &link;
        while (r >= 0 && !debug_search_next(&search, &fd, &size)) {
                SymbolFile new = SYMBOL_FILE_NULL;
                SymbolState state;

                r = symbol_file_take(&new, fd, size, &state);
                if (!r)
                        r = debug_file_check(object, &new, search.by_link ? &link.crc : NULL, use);
                if (!r) {
                        *file = new;
                        return 0;
                }
                symbol_file_deinit(&new);
        }
        return r < 0 ? error_fold(r) : 1;
}
