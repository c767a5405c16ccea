/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The seqlock dialect. Event n of a station goes to epoch n % 8:
 *
 *      seq = odd           relaxed
 *      release fence       nobody sees the fields change before the odd number (on aarch64, too: a release
 *                          *store* of the odd number would order what is before it, and let the fields
 *                          overtake it)
 *      fields              relaxed
 *      seq = even          release: a reader that sees it sees the fields
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "spanprof/coroutine.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static struct spanprof_station_region *the_region;
static struct spanprof_station *the_stations;
static uint32_t n_stations;
static uint64_t n_overflow;
static int wake_fd = -1;

static uint64_t now_ns(void) {
        struct timespec ts;

        clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/*
 * A system call costs more than the rest of an event, and a thread keeps its id; but a forked child's is
 * another one.
 */
static _Thread_local uint64_t cached_tid;

static void forget_tid(void) {
        cached_tid = 0;
}

static uint64_t thread_id(void) {
        if (!cached_tid)
                cached_tid = (uint64_t)syscall(SYS_gettid);
        return cached_tid;
}

static void connect_wake(void) {
        const char *path = getenv(SPANPROF_STATION_ENV_SOCKET);
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int fd;

        if (!path || strlen(path) >= sizeof(address.sun_path))
                return;
        strcpy(address.sun_path, path);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address))) {
                close(fd);
                fd = -1;
        }
        wake_fd = fd;
}

/*
 * The header's own number counts, if the file has room for it: CTP_MAX_STATIONS is for those who cannot ask.
 */
static int map_region(int fd) {
        struct spanprof_station_region header;
        struct stat st;
        size_t size;
        void *data;

        if (pread(fd, &header, sizeof(header), 0) != sizeof(header) ||
            header.magic != SPANPROF_STATION_MAGIC || header.version != SPANPROF_STATION_VERSION ||
            fstat(fd, &st))
                return -EINVAL;
        size = (1 + (size_t)header.max_stations) * SPANPROF_STATION_SIZE;
        if (!header.max_stations || (uint64_t)st.st_size < size)
                return -EINVAL;
        data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (data == MAP_FAILED)
                return -errno;
        the_stations = (struct spanprof_station *)((char *)data + SPANPROF_STATION_SIZE);
        n_stations = header.max_stations;
        __atomic_store_n(&the_region, (struct spanprof_station_region *)data, __ATOMIC_RELEASE);
        return 0;
}

int spanprof_coroutine_start(void) {
        const char *path = getenv(SPANPROF_STATION_ENV_REGION);
        int fd, r;

        if (the_region)
                return 0;
        if (!path)
                return -ENOENT;
        fd = open(path, O_RDWR | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        r = map_region(fd);
        close(fd);
        if (r)
                return r;
        pthread_atfork(NULL, NULL, forget_tid);
        connect_wake();
        return 0;
}

void spanprof_coroutine_begin(struct spanprof_coroutine *coroutine, uint64_t id) {
        struct spanprof_station_region *region = __atomic_load_n(&the_region, __ATOMIC_ACQUIRE);
        uint32_t index;

        *coroutine = (struct spanprof_coroutine){ 0 };
        if (!region)
                return;
        index = __atomic_fetch_add(&region->allocated_count, 1, __ATOMIC_RELAXED);
        if (index >= n_stations) {
                __atomic_fetch_add(&n_overflow, 1, __ATOMIC_RELAXED);
                return;
        }
        coroutine->station = &the_stations[index];
        __atomic_store_n(&coroutine->station->probe_id, id, __ATOMIC_RELAXED);
        __atomic_store_n(&coroutine->station->birth_ns, now_ns(), __ATOMIC_RELEASE);
}

/*
 * Sends one byte, and only to a tracer that has set the flag; send() because a write() to a closed socket
 * would end the program.
 */
static void wake(void) {
        uint32_t one = 1;

        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        if (__atomic_load_n(&the_region->tracer_sleeping, __ATOMIC_RELAXED) != 1 || wake_fd < 0)
                return;
        if (__atomic_compare_exchange_n(&the_region->tracer_sleeping, &one, 0, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED))
                (void)!send(wake_fd, "1", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void put_event(struct spanprof_coroutine *coroutine, uint64_t address, uint8_t is_active) {
        struct spanprof_epoch *epoch;
        uint64_t seq;

        if (!coroutine->station)
                return;
        epoch = &coroutine->station->epochs[coroutine->n_events++ % SPANPROF_STATION_EPOCHS];
        seq = __atomic_load_n(&epoch->seq, __ATOMIC_RELAXED);
        __atomic_store_n(&epoch->seq, seq + 1, __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_RELEASE);
        __atomic_store_n(&epoch->time_ns, now_ns(), __ATOMIC_RELAXED);
        __atomic_store_n(&epoch->tid, thread_id(), __ATOMIC_RELAXED);
        __atomic_store_n(&epoch->address, address, __ATOMIC_RELAXED);
        __atomic_store_n(&epoch->is_active, is_active, __ATOMIC_RELAXED);
        __atomic_store_n(&epoch->seq, seq + 2, __ATOMIC_RELEASE);
        wake();
}

void spanprof_coroutine_suspend(struct spanprof_coroutine *coroutine, const void *address) {
        put_event(coroutine, (uint64_t)(uintptr_t)address, 0);
}

void spanprof_coroutine_resume(struct spanprof_coroutine *coroutine) {
        put_event(coroutine, 0, 1);
}

void spanprof_coroutine_end(struct spanprof_coroutine *coroutine) {
        if (coroutine->station)
                __atomic_store_n(&coroutine->station->is_dead, 1, __ATOMIC_RELEASE);
        coroutine->station = NULL;
}

uint64_t spanprof_coroutine_overflow(void) {
        return __atomic_load_n(&n_overflow, __ATOMIC_RELAXED);
}
