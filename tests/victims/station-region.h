/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A region of stations that a test program makes for itself; its file is deleted right after it was mapped.
 */

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "spanprof/station.h"

static inline struct spanprof_station_region *station_region_map(unsigned n) {
        char path[] = "/tmp/victim-region-XXXXXX";
        size_t size = (1 + (size_t)n) * SPANPROF_STATION_SIZE;
        int fd = mkstemp(path);
        void *data = fd < 0 || ftruncate(fd, (off_t)size)
                ? MAP_FAILED
                : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        if (data == MAP_FAILED)
                abort();
        unlink(path);
        close(fd);
        return data;
}

/* From now on it is one, with all stations taken. */
static inline void station_region_publish(struct spanprof_station_region *region, unsigned n) {
        region->version = SPANPROF_STATION_VERSION;
        region->max_stations = n;
        region->allocated_count = n;
        region->magic = SPANPROF_STATION_MAGIC;
}
