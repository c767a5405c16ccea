/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Coroutine Stations: the layout that a program and a tracer share (cTP, version 1)
 *
 * A file that both map: a header of 1024 bytes, then `max_stations` stations of
 * 1024 bytes. A coroutine takes the next station by adding one to
 * `allocated_count` and keeps it to its end; nobody uses it again. Each event is
 * one epoch in a ring of eight. Integers are little endian.
 *
 * Writers of two kinds exist, and both call themselves version 1:
 *
 *      seqlock         event n (from 0) goes to epoch n % 8; its seq turns odd before the write and
 *                      even after it: 2 in the first lap, 4 in the second, …
 *      document        event n (from 0) has seq n + 1 and goes to epoch (n + 1) % 8; seq is written
 *                      last, and the old one stands while the rest changes
 */

#ifndef __cplusplus
#include <assert.h>
#include <stddef.h>
#endif
#include <stdint.h>

#define SPANPROF_STATION_MAGIC UINT64_C(0x434F524F54524352)     /* in memory the bytes R C R T O R O C */
#define SPANPROF_STATION_PATH "/tmp/corotracer.shm"

/* How the tracer tells the program where they are. */
#define SPANPROF_STATION_ENV_REGION "CTP_SHM_PATH"
#define SPANPROF_STATION_ENV_SOCKET "CTP_SOCK_PATH"
#define SPANPROF_STATION_ENV_MAX "CTP_MAX_STATIONS"

enum {
        SPANPROF_STATION_VERSION = 1,
        SPANPROF_STATION_SIZE = 1024,           /* bytes of a station, and of the header */
        SPANPROF_STATION_EPOCHS = 8,
        SPANPROF_STATION_PAYLOAD = 31,
};

struct spanprof_station_region {
        uint64_t magic;
        uint32_t version;
        uint32_t max_stations;
        uint32_t allocated_count;       /* atomic; goes beyond max_stations when there are more coroutines */
        uint32_t tracer_sleeping;       /* atomic; 1 = who sets it to 0 writes one byte to the socket */
        uint8_t reserved[1000];
};

struct spanprof_epoch {
        uint64_t time_ns;               /* CLOCK_MONOTONIC */
        uint64_t tid;                   /* as gettid() says in the program */
        uint64_t address;               /* the coroutine's frame when it suspends, 0 when it resumes */
        uint64_t seq;                   /* atomic */
        uint8_t payload[SPANPROF_STATION_PAYLOAD];
        uint8_t is_active;              /* 1 = runs from here on, 0 = is suspended */
};

struct spanprof_station {
        uint64_t probe_id;
        uint64_t birth_ns;
        uint8_t is_dead;
        uint8_t padding[47];
        struct spanprof_epoch epochs[SPANPROF_STATION_EPOCHS];
        uint8_t flexible[448];
};

#ifdef __cplusplus
#define SPANPROF_STATION_ASSERT static_assert
#else
#define SPANPROF_STATION_ASSERT _Static_assert
#endif
SPANPROF_STATION_ASSERT(sizeof(struct spanprof_station_region) == 1024, "header is 1024 bytes");
SPANPROF_STATION_ASSERT(sizeof(struct spanprof_epoch) == 64, "an epoch is a cache line");
SPANPROF_STATION_ASSERT(sizeof(struct spanprof_station) == 1024, "a station is 1024 bytes");
#ifndef __cplusplus
_Static_assert(offsetof(struct spanprof_station_region, magic) == 0 &&
                       offsetof(struct spanprof_station_region, version) == 8 &&
                       offsetof(struct spanprof_station_region, max_stations) == 12 &&
                       offsetof(struct spanprof_station_region, allocated_count) == 16 &&
                       offsetof(struct spanprof_station_region, tracer_sleeping) == 20 &&
                       offsetof(struct spanprof_station_region, reserved) == 24,
               "layout");
_Static_assert(offsetof(struct spanprof_station, probe_id) == 0 &&
                       offsetof(struct spanprof_station, birth_ns) == 8 &&
                       offsetof(struct spanprof_station, is_dead) == 16 &&
                       offsetof(struct spanprof_station, padding) == 17 &&
                       offsetof(struct spanprof_station, epochs) == 64 &&
                       offsetof(struct spanprof_station, flexible) == 576,
               "layout");
_Static_assert(offsetof(struct spanprof_epoch, time_ns) == 0 && offsetof(struct spanprof_epoch, tid) == 8 &&
                       offsetof(struct spanprof_epoch, address) == 16 &&
                       offsetof(struct spanprof_epoch, seq) == 24 &&
                       offsetof(struct spanprof_epoch, payload) == 32 &&
                       offsetof(struct spanprof_epoch, is_active) == 63,
               "layout");
#endif
