/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Region
 *
 * The file of stations, mapped: a region of our own, or one of another program, which is mapped read-only.
 * Its owner may cut the file at any time. The part behind the new end is then replaced by zeros, and
 * region_is_cut() tells.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/util/macro.h"
#include "spanprof/station.h"

typedef struct Region {
        struct spanprof_station_region *header;         /* the mapping */
        const struct spanprof_station *stations;
        uint64_t size_bytes;
        uint32_t n_stations;            /* number in the header, for which the file has room */
        bool writable;
        uint64_t device, inode;
        int guard;                      /* index in the list of guarded mappings */
} Region;

enum {
        REGION_MAX_STATIONS = 1 << 24,
        REGION_MAX_OPEN = 256,          /* mapped at once */
};

typedef enum RegionHeader {
        REGION_HEADER_VALID,
        REGION_HEADER_ABSENT,           /* no magic */
        REGION_HEADER_VERSION,          /* another version */
        REGION_HEADER_SIZE,             /* more stations than the file has room for, or none at all */
} RegionHeader;

/* Pure. @header: the first bytes of a file of @file_size bytes. *n_stationsp is set if VALID. */
RegionHeader region_check_header(const struct spanprof_station_region *header, uint64_t file_size,
                                 uint32_t *n_stationsp);
const char *region_header_text(RegionHeader header);

enum {
        _REGION_E_SUCCESS,
        REGION_E_EXISTS,                /* the path is taken by a file that is no region; it is left alone */
        REGION_E_SYSTEM,                /* errno says what failed */
        REGION_E_INVALID,               /* *headerp says why */
        REGION_E_MANY,                  /* REGION_MAX_OPEN are open */
};

/*
 * Makes a region at @path, and replaces an old one. Return: 0, REGION_E_EXISTS, REGION_E_SYSTEM,
 * REGION_E_MANY, -ENOMEM.
 */
int region_create(Region **regionp, const char *path, uint32_t n_stations, mode_t mode);

/*
 * Maps the file of @fd for reading. *headerp is set if REGION_E_INVALID. Return: 0, REGION_E_*, -ENOMEM.
 */
int region_open(Region **regionp, int fd, RegionHeader *headerp);
Region *region_free(Region *region);
DEFINE_CLEANUP(Region, region_free)

/*
 * Number of stations that coroutines have taken, at most n_stations. *n_withoutp: coroutines that found no
 * free station; 0 if the count is so large that the header must be damaged.
 */
uint32_t region_allocated(const Region *region, uint32_t *n_withoutp);

/* Whether both map the same file. */
bool region_is_same(const Region *a, const Region *b);

/* Whether its owner has cut the file. */
bool region_is_cut(const Region *region);

/* Whether the header has changed to what no writer makes of it. */
bool region_is_damaged(const Region *region);

/*
 * Asks writers for a byte at the next event, or no longer. An event that was stored before a writer could
 * see the flag is seen by a reader that looks for events after this call: the fence does that, as the
 * writer's own does between its event and the flag. A sequentially consistent store alone does not order the
 * loads behind it, unless they are sequentially consistent, too.
 */
static inline void region_set_sleeping(struct spanprof_station_region *header, uint32_t sleeping) {
        __atomic_store_n(&header->tracer_sleeping, sleeping, __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
