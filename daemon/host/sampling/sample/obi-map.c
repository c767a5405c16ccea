/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Opens the pinned map for reading, compares its type and sizes with OBI's, and puts it into the slot of the
 * kernel half. All that it holds as it is taken up is copied into a map of the same form, in the second slot:
 *
 *     nothing at the path      the slots are emptied
 *     a map of another id      it takes the slot; taken up below
 *     somebody has it          what it holds is copied; the kernel half reads it from then on
 *     nobody has it            OBI has ended, and its pin is left; once somebody has it again, from above
 *
 * Its descriptor is closed at once: what the kernel half counts as references must be those of others.
 */

#include "host/sampling/sample/obi-map.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/util/error.h"
#include "core/base/util/log.h"

enum {
        MAX_ENTRIES = 1 << 17,          /* eight times as many as OBI's */
        BATCH = 1024,                   /* entries of one turn of a copy */
        MAX_TURNS = 1 << 12,
        CPU_HOARD = 128,                /* free elements that each CPU may keep from the others */
};

struct ObiMap {
        const char *path;
        KernelHalf *half;
        int slots_fd;
        uint32_t id;                    /* of the map in the slot; 0 = there is none */
        char said[160];                 /* the last trouble that was logged */
};

typedef struct Entries {
        uint64_t *keys;
        struct abi_obi_ids *values;
        uint32_t n, room;
} Entries;

static void entries_deinit(Entries *entries) {
        free(entries->keys);
        free(entries->values);
}

/* Return: a descriptor for reading, or -errno. */
static int open_pin(const char *path) {
        LIBBPF_OPTS(bpf_obj_get_opts, options, .file_flags = BPF_F_RDONLY);
        int fd = bpf_obj_get_opts(path, &options);

        return fd < 0 ? -errno : fd;
}

/* Return: whether the map is as OBI makes it; if not, @reason says what it is. */
static bool is_of_obi(int fd, struct bpf_map_info *info, char *reason, size_t size) {
        uint32_t info_size = sizeof(*info);

        memset(info, 0, sizeof(*info));
        if (bpf_obj_get_info_by_fd(fd, info, &info_size)) {
                snprintf(reason, size, "is no map: %s", strerror(errno));
                return false;
        }
        if (info->type == BPF_MAP_TYPE_LRU_HASH && info->key_size == sizeof(uint64_t) &&
            info->value_size == sizeof(struct abi_obi_ids) && !info->map_flags &&
            info->max_entries <= MAX_ENTRIES)
                return true;
        snprintf(reason, size,
                 "is another map than OBI's: type %u, keys of %u bytes, values of %u, flags %u, %u entries",
                 info->type, info->key_size, info->value_size, info->map_flags, info->max_entries);
        return false;
}

ObiMapState obi_map_look(const char *path, char *reason, size_t size) {
        bool is_there = !faccessat(AT_FDCWD, path, F_OK, AT_EACCESS);
        _cleanup_(closep) int fd = is_there ? open_pin(path) : -1;
        struct bpf_map_info info;
        uint64_t key;

        *reason = 0;
        if (!is_there)
                return OBI_MAP_ABSENT;
        if (fd < 0) {
                snprintf(reason, size, "cannot be opened as a map: %s", strerror(-fd));
                return OBI_MAP_CLOSED;
        }
        if (!is_of_obi(fd, &info, reason, size))
                return OBI_MAP_FOREIGN;
        return bpf_map_get_next_key(fd, NULL, &key) ? OBI_MAP_EMPTY : OBI_MAP_FILLED;
}

/* ---- the slots ---- */

static int fill_slot(const ObiMap *map, uint32_t slot, int fd) {
        return bpf_map_update_elem(map->slots_fd, &slot, &fd, BPF_ANY) ? -errno : 0;
}

static void empty_slots(ObiMap *map) {
        const uint32_t slots[] = { ABI_OBI_MAP, ABI_OBI_LEFT };

        kernel_half_read_obi(map->half, false);
        if (!map->id)
                return;
        for (size_t i = 0; i < ARRAY_SIZE(slots); i++)
                bpf_map_delete_elem(map->slots_fd, &slots[i]);
        map->id = 0;
        log_info("%s: OBI's map is gone", map->path);
}

static void complain(ObiMap *map, const char *what) {
        if (strcmp(map->said, what))
                log_warning("obi-map: %s %s; samples have no spans of OBI", map->path, what);
        snprintf(map->said, sizeof(map->said), "%s", what);
}

/* ---- what it held before ---- */

static int reserve(Entries *entries, uint32_t n) {
        uint32_t room = entries->n + n;
        void *keys, *values;

        if (room <= entries->room)
                return 0;
        keys = realloc(entries->keys, room * sizeof(*entries->keys));
        if (keys)
                entries->keys = keys;
        values = realloc(entries->values, room * sizeof(*entries->values));
        if (values)
                entries->values = values;
        if (!keys || !values)
                return error_origin(-ENOMEM);
        entries->room = room;
        return 0;
}

/*
 * Copies the entries, bucket by bucket, which marks none of them as used. One that comes meanwhile is new.
 * Return: 0, -errno.
 */
static int copy_entries(int fd, Entries *entries) {
        uint32_t at = 0, batch = BATCH;

        for (int turn = 0; turn < MAX_TURNS; turn++) {
                uint32_t n = batch;
                int r = reserve(entries, n);

                if (r)
                        return r;
                r = bpf_map_lookup_batch(fd, turn ? &at : NULL, &at, entries->keys + entries->n,
                                         entries->values + entries->n, &n, NULL);
                if (r && errno == ENOSPC && batch < MAX_ENTRIES) {
                        batch *= 2;     /* a bucket has more than that */
                        continue;
                }
                if (r && errno != ENOENT)
                        return -errno;
                entries->n += n;
                if (r || entries->n > MAX_ENTRIES)
                        return entries->n > MAX_ENTRIES ? -E2BIG : 0;
        }
        return -EAGAIN;
}

/* Twice the size: none of these entries must go for those that births add. */
static int make_left(const ObiMap *map, const Entries *entries, uint32_t max_entries) {
        uint32_t size = 2 * max_entries + CPU_HOARD * (uint32_t)kernel_half_n_cpus(map->half);
        _cleanup_(closep) int fd = bpf_map_create(BPF_MAP_TYPE_LRU_HASH, "obi_left", sizeof(*entries->keys),
                                                  sizeof(*entries->values), size, NULL);

        if (fd < 0)
                return -errno;
        for (uint32_t i = 0; i < entries->n; i++)
                if (bpf_map_update_elem(fd, &entries->keys[i], &entries->values[i], BPF_ANY))
                        return -errno;
        return fill_slot(map, ABI_OBI_LEFT, fd);
}

/* Return: 0, -errno. */
static int take_up(ObiMap *map, int fd, uint32_t max_entries) {
        _cleanup_(entries_deinit) Entries entries = { 0 };
        int r = copy_entries(fd, &entries);

        if (!r)
                r = make_left(map, &entries, max_entries);
        if (r)
                return r;
        kernel_half_mark_obi(map->half, entries.keys, entries.n);
        kernel_half_read_obi(map->half, true);
        *map->said = 0;
        log_info("%s: reading spans of OBI; %u entries that were there count from their first change on",
                 map->path, entries.n);
        return 0;
}

/* ---- following ---- */

/* Return: 0, -errno. */
static int put_map(ObiMap *map, int fd, uint32_t id) {
        int r;

        if (map->id == id)
                return 0;
        kernel_half_read_obi(map->half, false);
        r = fill_slot(map, ABI_OBI_MAP, fd);
        map->id = r ? map->id : id;
        return r;
}

/* @fd is closed before it is asked who else has the map. */
static void follow(ObiMap *map, int fd) {
        _cleanup_(closep) int pin = fd;
        struct bpf_map_info info;
        char reason[128];
        int r;

        if (!is_of_obi(pin, &info, reason, sizeof(reason))) {
                empty_slots(map);
                complain(map, reason);
                return;
        }
        if (map->id == info.id && kernel_half_reads_obi(map->half))
                return;
        r = put_map(map, pin, info.id);
        closep(&pin);
        pin = -1;
        if (!r && !kernel_half_obi_is_held(map->half))
                return;
        if (!r)
                pin = open_pin(map->path);
        if (!r)
                r = pin < 0 ? pin : take_up(map, pin, info.max_entries);
        if (!r)
                return;
        snprintf(reason, sizeof(reason), "cannot be taken up: %s", strerror(-r));
        empty_slots(map);
        complain(map, reason);
}

void obi_map_follow(ObiMap *map) {
        char reason[128];
        int fd;

        if (!*map->path)
                return;
        fd = open_pin(map->path);
        if (fd >= 0) {
                follow(map, fd);
                return;
        }
        empty_slots(map);
        if (fd == -ENOENT || fd == -ENOTDIR)
                return;
        snprintf(reason, sizeof(reason), "cannot be opened as a map: %s", strerror(-fd));
        complain(map, reason);
}

int obi_map_new(ObiMap **mapp, const char *path, KernelHalf *half) {
        ObiMap *map = calloc(1, sizeof(*map));

        if (!map)
                return error_origin(-ENOMEM);
        map->path = path;
        map->half = half;
        map->slots_fd = kernel_half_map_fd(half, "obi_maps");
        *mapp = map;
        return 0;
}

ObiMap *obi_map_free(ObiMap *map) {
        free(map);
        return NULL;
}
