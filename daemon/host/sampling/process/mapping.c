/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Copies and compares mappings, and makes one from a notice of the kernel: the file must be the one that
 * the notice names.
 */

#include "host/sampling/process/mapping.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/util/error.h"
#include "core/symbol/object/deleted.h"

void mapping_deinit(Mapping *mapping) {
        object_unref(mapping->object);
        free(mapping->path);
        *mapping = (Mapping){ 0 };
}

int mapping_copy(Mapping *to, const Mapping *from, uint64_t start, uint64_t end) {
        char *path = strdup(from->path);

        if (!path)
                return error_origin(-ENOMEM);
        *to = (Mapping){ .start = start, .end = end, .offset = from->offset + (start - from->start),
                         .kind = from->kind, .may_change = from->may_change, .path = path };
        to->object = from->object ? object_ref(from->object) : NULL;
        return 0;
}

/* Copies of a file are one; a file that could not be read goes by its path. */
bool mapping_is_same_file(const Mapping *a, const Mapping *b) {
        if (a->kind == MAPPING_ANONYMOUS || b->kind == MAPPING_ANONYMOUS)
                return a->kind == b->kind;
        if (a->start - a->offset != b->start - b->offset)
                return false;
        if (!a->object || !b->object)
                return !strcmp(a->path, b->path);
        return a->object == b->object ||
               (a->object->build_id_gnu[0] && !strcmp(a->object->build_id_gnu, b->object->build_id_gnu));
}

static bool is_named(const MappingNotice *notice, const char *name) {
        return notice->path_size == strlen(name) && !memcmp(notice->path, name, notice->path_size);
}

static bool is_file(const MappingNotice *notice) {
        static const char memfd[] = "/memfd:";

        /* JIT compilers keep their code in a memfd: memory in the shape of a file. */
        return notice->path_size && notice->path[0] == '/' && !is_named(notice, "//anon") &&
               !(notice->path_size >= sizeof(memfd) - 1 && !memcmp(notice->path, memfd, sizeof(memfd) - 1));
}

static size_t plain_path_size(const MappingNotice *notice) {
        return deleted_plain_size(notice->path, notice->path_size);
}

/* A 32-bit process has another vdso, of another size and below 4 GiB. */
static int find_vdso(Mapping *mapping, ObjectCache *objects) {
        uint64_t size;
        int r;

        if (mapping->start <= UINT32_MAX)
                return 0;
        r = object_vdso(objects, &mapping->object, &size);
        if (r)
                return r < 0 ? r : 0;
        if (size == mapping->end - mapping->start)
                mapping->kind = MAPPING_VDSO;
        else
                mapping->object = object_unref(mapping->object);
        return 0;
}

/* Whether @object is the file that the notice is about. */
static bool is_object(const Object *object, const MappingNotice *notice) {
        return notice->inode && object_is_file(object, notice->major, notice->minor, notice->inode);
}

/* *objectp stays NULL if it is not known. */
static int find_object(const MappingNotice *notice, const char *path, ObjectCache *objects, bool by_path,
                       Object **objectp) {
        Object *object;
        int r;

        if (notice->inode && object_find_seen(objects, notice->major, notice->minor, notice->inode, objectp))
                return 0;
        if (!by_path || plain_path_size(notice) != notice->path_size)
                return 0;
        r = object_open_path(objects, path, notice->pid, &object);
        if (r)
                return r < 0 ? r : 0;
        if (is_object(object, notice))
                *objectp = object;
        else
                object_unref(object);
        return 0;
}

int mapping_from_notice(Mapping *mapping, const MappingNotice *notice, ObjectCache *objects, bool by_path) {
        Mapping made = { .start = notice->start,
                         .end = notice->start + notice->size,
                         .offset = notice->offset,
                         .kind = MAPPING_ANONYMOUS };
        int r = 0;

        made.may_change = notice->prot & PROT_WRITE || (notice->flags & MAP_TYPE) != MAP_PRIVATE ||
                !is_named(notice, "//anon");
        made.path = strndup(notice->path, plain_path_size(notice));
        if (!made.path)
                return error_origin(-ENOMEM);
        if (is_file(notice)) {
                r = find_object(notice, made.path, objects, by_path, &made.object);
                made.kind = made.object ? MAPPING_FILE : MAPPING_UNREADABLE;
        } else if (is_named(notice, "[vdso]")) {
                r = find_vdso(&made, objects);
        }
        if (r) {
                mapping_deinit(&made);
                return r;
        }
        *mapping = made;
        return 0;
}
