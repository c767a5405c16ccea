/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Finds an address in the maps of a process, then the function in the file that is mapped there, and keeps
 * each name by its address.
 */

#include "desk/cli/process-names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/arena.h"
#include "core/base/data/hashmap.h"
#include "core/base/file/file.h"
#include "core/base/util/error.h"
#include "host/sampling/process/object.h"
#include "host/sampling/process/process.h"

struct ProcessNames {
        int proc_fd, memory_fd;
        char *maps;                     /* text of /proc/PID/maps; NULL = not read yet */
        size_t maps_size;
        Mounts mounts;
        ObjectCache *objects;
        Symbolizer *symbolizer;
        Hashmap known;                  /* address → text, or `names` where there is none */
        Arena texts;
};

/* A mapping that holds an address. */
typedef struct Place {
        MapsEntry entry;
        char path[MAPS_MAX_NAME];
        const ProcessNames *names;
        const Object *object;
} Place;

ProcessNames *process_names_free(ProcessNames *names) {
        if (!names)
                return NULL;
        closep(&names->proc_fd);
        closep(&names->memory_fd);
        object_cache_free(names->objects);
        symbolizer_free(names->symbolizer);
        hashmap_deinit(&names->known);
        arena_deinit(&names->texts);
        free(names->maps);
        mounts_deinit(&names->mounts);
        free(names);
        return NULL;
}

int process_names_new(ProcessNames **namesp, uint32_t pid) {
        _cleanup_(process_names_freep) ProcessNames *names = calloc(1, sizeof(*names));
        int r;

        if (!names)
                return error_origin(-ENOMEM);
        names->proc_fd = names->memory_fd = -1;
        r = process_open((pid_t)pid, 0, &names->proc_fd);
        if (r)
                return r < 0 ? error_fold(r) : 1;
        r = object_cache_new(&names->objects, 64);
        if (!r)
                r = symbolizer_new(&names->symbolizer, NULL);
        if (r)
                return error_fold(r);
        names->memory_fd = openat(names->proc_fd, "mem", O_RDONLY | O_CLOEXEC);
        *namesp = take(names);
        return 0;
}

/* Whether code lies there. */
static bool find_code(const ProcessNames *names, uint64_t address, MapsEntry *entry) {
        MapsCursor cursor = maps_cursor(names->maps, names->maps_size);
        int r;

        while ((r = maps_next(&cursor, entry)) != MAPS_E_EOF)
                if (!r && entry->start <= address && address < entry->end)
                        return entry->executable && maps_is_file(entry);
        return false;
}

static int reopen(void *userdata) {
        const Place *place = userdata;
        int fd;

        return object_reopen(place->object, place->names->proc_fd, place->entry.start, place->entry.end,
                             place->path, &fd)
                ? -1
                : fd;
}

static const char *name_in_object(ProcessNames *names, const Place *place, uint64_t address) {
        const SymbolSource source = { .open = reopen, .userdata = (void *)place };
        const Object *object = place->object;
        const SymbolObject of = { .path = place->path,
                                  .build_id_gnu = object->build_id_gnu,
                                  .build_id_go = object->build_id_go,
                                  .build_id_htlhash = object->htlhash,
                                  .file = object->file,
                                  .source = &source };
        uint32_t segment;
        uint64_t at;
        SymbolName name;

        if (object_address(object, place->entry.offset + (address - place->entry.start), &at, &segment) ||
            symbolizer_name(names->symbolizer, &of, at, &name) || !name.name)
                return NULL;
        return arena_string(&names->texts, name.name, strlen(name.name));
}

static const char *name_code(ProcessNames *names, uint64_t address) {
        Place place = { .names = names };
        ObjectSource source = {
                .proc_fd = names->proc_fd, .entry = &place.entry, .path = place.path, .mounts = &names->mounts
        };
        Object *object = NULL;
        const char *name;
        int r;

        if (!find_code(names, address, &place.entry))
                return NULL;
        maps_path(&place.entry, place.path, NULL);
        r = object_open(names->objects, &source, &object);
        if (r)
                return NULL;
        place.object = object;
        name = name_in_object(names, &place, address);
        object_unref(object);
        return name;
}

/*
 * As GCC and clang lay a frame out: the function that resumes it, then the one that destroys it. NULL after
 * its end.
 */
static const char *name_frame(ProcessNames *names, uint64_t frame) {
        uint64_t resume;

        if (names->memory_fd < 0 ||
            file_pread(names->memory_fd, &resume, sizeof(resume), frame) != sizeof(resume))
                return NULL;
        return name_code(names, resume);
}

const char *process_names_get(ProcessNames *names, uint64_t address) {
        const char *text = hashmap_get(&names->known, address);

        if (!address)
                return NULL;
        if (!names->maps &&
            file_read_at(names->proc_fd, "maps", MAPS_MAX_TEXT, &names->maps, &names->maps_size))
                names->maps_size = 0;
        if (!text) {
                MapsEntry entry;

                text = find_code(names, address, &entry) ? name_code(names, address)
                                                         : name_frame(names, address);
                if (hashmap_put(&names->known, address, text ? (void *)text : names))
                        return text;
        }
        return text == (const char *)names ? NULL : text;
}
