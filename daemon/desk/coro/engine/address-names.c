/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A suspended coroutine of C++20 gives the address of its frame. GCC and clang lay a frame out so:
 *
 *      last_addr = 0x55a40e02b110     ┌ 0x000055a409b5d4f0   the function that resumes it   ◀ the name
 *      (in the program's heap)        │ 0x000055a409b5d9c0   the function that destroys it
 *                                     └ …                    promise, parameters, locals
 *
 * So while the program lives, the first word of the frame is read from /proc/PID/mem. It is believed only if
 * it is an address of code (code-map.c), and if the coroutine was suspended there before the word was read
 * and still is after it: memory may have been freed and used again.
 *
 * The thread looks through all stations when there were events, and reads them itself, so scans know nothing
 * of it. One look takes 30 ns a station, 1.5 µs a word; a pause a hundred times as long follows. What could
 * not be told yet (a library that was just mapped) is looked at again after 200 ms without events, too.
 */

#include "desk/coro/engine/address-names.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "core/base/data/hashmap.h"
#include "core/base/thread/thread.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/short-turns.h"
#include "desk/coro/engine/code-map.h"

enum {
        /* processes that wait for a look; further ones are found by their events */
        MAX_ADDED = 64,
        /* stations, some 100 µs, for which a thread is taken to be in its process still */
        TRUST = 4096,
};

#define PAUSE_NS (20 * NS_PER_MS)
#define PAUSE_STATION_NS 3000           /* added for each station, which takes some 30 ns */
/* added for each word that named a function, which happens once a coroutine */
#define PAUSE_LEARNED_NS 15000
/* added for each word that did not: 1.5 µs, and some programs' addresses are no frames at all */
#define PAUSE_VAIN_NS 150000
#define PAUSE_MAX_NS (5 * NS_PER_SEC)
/* wait before unknown addresses are looked at again without an event */
#define PENDING_NS (200 * NS_PER_MS)
#define FORGET_NS NS_PER_SEC            /* then a thread that had no process with a region may have one */
#define TIME_LIMIT_NS (2 * NS_PER_SEC)

/* Knowledge of a station. */
typedef struct Known {
        uint64_t frame, address;
        uint32_t process;               /* number of the process in the code map + 1; 0 = not known */
} Known;

struct AddressNames {
        const RegionScan *scans;
        size_t n_scans;
        Known **known;                  /* by scan and station */
        CodeMap *map;
        Hashmap unowned;                /* threads of no process with a region */
        uint64_t forgot_ns;
        bool pending;                   /* a later look may explain some addresses */
        uint64_t n_learned, n_vain;     /* words read in this look */

        Thread *thread;
        bool runs, left_behind;
        pthread_mutex_t mutex;
        pthread_cond_t changed;
        pid_t added[MAX_ADDED];         /* under the mutex */
        size_t n_added;
        unsigned n_pokes;               /* atomic, as are the next two */
        int stop;                       /* enum */
        bool asleep;
};

enum { STOP_NOT, STOP_SOON, STOP_AT_ONCE };

/* The newest event of a station; its fields may be of two events, since the writer may be at work. */
typedef struct Newest {
        uint64_t time_ns, tid, address, seq;
        bool active, dead;
} Newest;

static uint64_t load(const uint64_t *word) {
        return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static Newest newest_of(const struct spanprof_station *station) {
        const struct spanprof_epoch *newest = &station->epochs[0];
        uint64_t newest_ns = load(&newest->time_ns);

        for (unsigned i = 1; i < SPANPROF_STATION_EPOCHS; i++) {
                uint64_t ns = load(&station->epochs[i].time_ns);

                if (ns > newest_ns) {
                        newest = &station->epochs[i];
                        newest_ns = ns;
                }
        }
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        return (Newest){ .time_ns = newest_ns,
                         .tid = load(&newest->tid),
                         .address = load(&newest->address),
                         .seq = load(&newest->seq),
                         .active = __atomic_load_n(&newest->is_active, __ATOMIC_RELAXED),
                         .dead = __atomic_load_n(&station->is_dead, __ATOMIC_RELAXED) };
}

static bool is_suspended_still(const struct spanprof_station *station, const Newest *before) {
        Newest now = newest_of(station);

        return !now.dead && !now.active && now.time_ns == before->time_ns && now.address == before->address &&
                now.seq == before->seq;
}

/* The process that wrote the event. *is_guessp: it is taken since it is the only one. */
static int process_of(AddressNames *names, const RegionScan *scan, const Known *known, const Newest *newest,
                      bool *is_guessp) {
        uint64_t inode = scan->region->inode;
        int process = CODE_MAP_NONE;
        bool is_nested;

        *is_guessp = false;
        if (known->process)
                return (int)known->process - 1;
        if (newest->tid && newest->tid <= 1 << 22 && !hashmap_get(&names->unowned, newest->tid)) {
                process = code_map_process(names->map, (pid_t)newest->tid, inode);
                if (process == CODE_MAP_NONE)
                        hashmap_put(&names->unowned, newest->tid, names);
        }
        if (process != CODE_MAP_NONE)
                return process;
        process = code_map_only(names->map, &is_nested);
        *is_guessp = !is_nested;
        return process;
}

static int stop_of(const AddressNames *names) {
        return __atomic_load_n(&names->stop, __ATOMIC_SEQ_CST);
}

/* Reads the first word of a frame (see the top). */
static void learn_frame(AddressNames *names, const struct spanprof_station *station, Known *known,
                        int process, const Newest *newest) {
        uint64_t word;

        if (newest->dead || newest->active || !newest->address || newest->address == known->frame)
                return;
        names->n_vain++;
        short_turns_offer();
        if (code_map_read_word(names->map, process, newest->address, &word))
                return;
        if (!code_map_has(names->map, process, word)) {
                code_map_look_again(names->map, process, clock_monotonic_ns());
                names->pending = true;
                return;
        }
        if (!is_suspended_still(station, newest))
                return;
        *known = (Known){ .frame = newest->address, .address = word, .process = (uint32_t)process + 1 };
        names->n_vain--;
        names->n_learned++;
}

static void learn(AddressNames *names, const RegionScan *scan, const struct spanprof_station *station,
                  Known *known) {
        Newest newest = newest_of(station);
        bool is_guess;
        int process;

        if (!newest.time_ns || (known->process && newest.address == known->frame))
                return;
        process = process_of(names, scan, known, &newest, &is_guess);
        if (process == CODE_MAP_NONE)
                return;
        if (!is_guess)
                known->process = (uint32_t)process + 1;
        if (newest.address && !code_map_has(names->map, process, newest.address))
                learn_frame(names, station, known, process, &newest);
}

/*
 * Looks through all stations. Return: the pause before the next look, so that looks take a hundredth of the
 * time.
 */
static uint64_t look(AddressNames *names, int stop_before) {
        uint64_t now_ns = clock_monotonic_ns(), n_stations = 0;

        if (now_ns - names->forgot_ns >= FORGET_NS) {
                hashmap_deinit(&names->unowned);
                names->forgot_ns = now_ns;
        }
        names->pending = false;
        names->n_learned = names->n_vain = 0;
        for (size_t i = 0; i < names->n_scans; i++) {
                const RegionScan *scan = &names->scans[i];
                uint32_t n_without, n = region_allocated(scan->region, &n_without);

                for (uint32_t k = 0; k < n && stop_of(names) < stop_before; k++) {
                        if (k % TRUST == 0)
                                code_map_begin_look(names->map);
                        learn(names, scan, &scan->region->stations[k], &names->known[i][k]);
                }
                n_stations += n;
        }
        return MIN(MAX(n_stations * PAUSE_STATION_NS + names->n_learned * PAUSE_LEARNED_NS +
                               names->n_vain * PAUSE_VAIN_NS,
                       PAUSE_NS),
                   PAUSE_MAX_NS);
}

/* Looks at the processes that were added, by their connection or from the command line. */
static void look_at_added(AddressNames *names) {
        while (names->n_added) {
                pid_t pid = names->added[--names->n_added];
                int process = CODE_MAP_NONE;

                pthread_mutex_unlock(&names->mutex);
                for (size_t i = 0; process == CODE_MAP_NONE && i < names->n_scans; i++)
                        process = code_map_process(names->map, pid, names->scans[i].region->inode);
                pthread_mutex_lock(&names->mutex);
        }
}

/* With the mutex held. */
static void wait_for(AddressNames *names, uint64_t ns) {
        thread_condition_wait(&names->changed, &names->mutex, clock_monotonic_ns() + ns);
}

/*
 * Sleeps until a poke. A poke signals only a sleeping thread, so the count is read again after `asleep` is
 * set.
 */
static void wait_for_events(AddressNames *names, unsigned n_pokes) {
        __atomic_store_n(&names->asleep, true, __ATOMIC_SEQ_CST);
        if (!stop_of(names) && !names->n_added &&
            __atomic_load_n(&names->n_pokes, __ATOMIC_SEQ_CST) == n_pokes) {
                if (names->pending)
                        wait_for(names, PENDING_NS);
                else
                        pthread_cond_wait(&names->changed, &names->mutex);
        }
        __atomic_store_n(&names->asleep, false, __ATOMIC_SEQ_CST);
}

static void run(void *data) {
        AddressNames *names = data;
        bool last = false;

        short_turns_leave();
        pthread_mutex_lock(&names->mutex);
        while (!last) {
                unsigned n_pokes = __atomic_load_n(&names->n_pokes, __ATOMIC_SEQ_CST);
                uint64_t pause_ns;

                last = stop_of(names);
                look_at_added(names);
                pthread_mutex_unlock(&names->mutex);
                pause_ns = look(names, last ? STOP_AT_ONCE : STOP_SOON);
                pthread_mutex_lock(&names->mutex);
                if (!last && !stop_of(names) && !names->n_added)
                        wait_for(names, pause_ns);
                if (!last)
                        wait_for_events(names, n_pokes);
        }
        pthread_mutex_unlock(&names->mutex);
}

static int allocate(AddressNames *names) {
        names->known = calloc(names->n_scans, sizeof(*names->known));
        for (size_t i = 0; names->known && i < names->n_scans; i++) {
                /* pages of unused stations are never touched */
                names->known[i] = calloc(names->scans[i].region->n_stations, sizeof(Known));
                if (!names->known[i])
                        return error_origin(-ENOMEM);
        }
        return names->known ? code_map_new(&names->map) : error_origin(-ENOMEM);
}

/* All but the thread, which may call this. */
static void destroy(void *data) {
        AddressNames *names = data;

        for (size_t i = 0; names->known && i < names->n_scans; i++)
                free(names->known[i]);
        free(names->known);
        code_map_free(names->map);
        hashmap_deinit(&names->unowned);
        pthread_cond_destroy(&names->changed);
        pthread_mutex_destroy(&names->mutex);
        free(names);
}

int address_names_new(AddressNames **namesp, const RegionScan *scans, size_t n_scans) {
        _cleanup_(address_names_freep) AddressNames *names = calloc(1, sizeof(*names));
        const ThreadConfig config = { .run = run, .destroy = destroy, .userdata = names };
        int r;

        if (!names)
                return error_origin(-ENOMEM);
        names->scans = scans;
        names->n_scans = n_scans;
        pthread_mutex_init(&names->mutex, NULL);
        thread_condition_init(&names->changed);
        r = allocate(names);
        if (r)
                return error_fold(r);
        for (size_t i = 0; i < n_scans; i++)
                if (scans[i].pid && names->n_added < MAX_ADDED)
                        names->added[names->n_added++] = (pid_t)scans[i].pid;
        r = thread_new(&names->thread, &config);
        if (r)
                return r < 0 ? error_fold(r) : error_origin(-EAGAIN);
        names->runs = true;
        *namesp = take(names);
        return 0;
}

void address_names_add_process(AddressNames *names, pid_t pid) {
        pthread_mutex_lock(&names->mutex);
        if (names->n_added < MAX_ADDED)
                names->added[names->n_added++] = pid;
        pthread_cond_signal(&names->changed);
        pthread_mutex_unlock(&names->mutex);
}

void address_names_poke(AddressNames *names) {
        __atomic_add_fetch(&names->n_pokes, 1, __ATOMIC_SEQ_CST);
        if (!__atomic_load_n(&names->asleep, __ATOMIC_SEQ_CST))
                return;
        pthread_mutex_lock(&names->mutex);
        pthread_cond_signal(&names->changed);
        pthread_mutex_unlock(&names->mutex);
}

static void stop(AddressNames *names, int how) {
        __atomic_store_n(&names->stop, how, __ATOMIC_SEQ_CST);
        pthread_mutex_lock(&names->mutex);
        pthread_cond_signal(&names->changed);
        pthread_mutex_unlock(&names->mutex);
}

bool address_names_finish(AddressNames *names) {
        if (!names->runs)
                return !names->left_behind;
        stop(names, STOP_SOON);
        names->runs = false;
        if (thread_wait(names->thread, clock_monotonic_ns() + TIME_LIMIT_NS)) {
                if (code_map_n_left_out(names->map))
                        log_notice(
                                "more processes and mappings than are kept: some addresses of the trace will have no names");
                return true;
        }
        stop(names, STOP_AT_ONCE);
        names->left_behind = true;
        log_warning("a process does not let its memory be read: addresses of the trace will have no names");
        return false;
}

StationCode address_names_station(const AddressNames *names, size_t scan, uint32_t station) {
        const Known *known = &names->known[scan][station];

        return (StationCode){ .process = code_map_number(names->map, (int)known->process - 1),
                              .frame = known->frame,
                              .address = known->address };
}

size_t address_names_n_mappings(const AddressNames *names) {
        return code_map_n_mappings(names->map);
}

const TraceMapping *address_names_mapping(const AddressNames *names, size_t i) {
        return code_map_mapping(names->map, i);
}

AddressNames *address_names_free(AddressNames *names) {
        if (!names)
                return NULL;
        if (names->runs)
                address_names_finish(names);
        /* a thread that was left behind frees what it has itself */
        if (!names->thread || thread_end(names->thread, 0) == 0)
                destroy(names);
        return NULL;
}
