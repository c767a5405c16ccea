/* SPDX-License-Identifier: Apache-2.0 */
#include "coro/engine/address-names.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/util/clock.h"
#include "base/util/error.h"
#include "base/util/hashmap.h"
#include "base/util/log.h"
#include "base/util/thread.h"
#include "coro/engine/code-map.h"

enum {
        /* processes that wait to be looked at; others are found by their events */
        MAX_ADDED = 64,
        /* stations, some 100 µs, for which a thread is believed to be of its process */
        TRUST = 4096,
};

#define PAUSE_NS (20 * NS_PER_MS)
#define PAUSE_STATION_NS 3000           /* and for each station, of which a look takes some 30 ns */
/* for each word read that told a function, which is once a coroutine */
#define PAUSE_LEARNED_NS 15000
/* for one that did not: it takes 1.5 µs, and some programs' addresses are no frames at all */
#define PAUSE_VAIN_NS 150000
#define PAUSE_MAX_NS (5 * NS_PER_SEC)
/* before what could not be told is looked at again, though there were no events */
#define PENDING_NS (200 * NS_PER_MS)
#define FORGET_NS NS_PER_SEC            /* threads that were nobody's may be somebody's then */
#define TIME_LIMIT_NS (2 * NS_PER_SEC)

/* What is known of a station. Two of these in a cache line. */
typedef struct Known {
        uint64_t frame, address;
        uint32_t process;               /* + 1; 0 = not known */
} Known;

struct AddressNames {
        const RegionScan *scans;
        size_t n_scans;
        Known **known;                  /* by scan and station */
        CodeMap *map;
        Hashmap nobodys;                /* threads of no process with a region */
        uint64_t forgot_ns;
        bool pending;                   /* there are addresses that a later look may tell */
        uint64_t n_learned, n_vain;     /* words read in this look */

        Thread *thread;
        bool runs, left_behind;
        pthread_mutex_t mutex;
        pthread_cond_t changed;
        pid_t added[MAX_ADDED];         /* under the mutex */
        size_t n_added;
        unsigned n_pokes;               /* atomic, as are these */
        int stop;                       /* enum */
        bool asleep;
};

enum { STOP_NOT, STOP_SOON, STOP_AT_ONCE };

/* The newest event of a station, as far as it can be told without order: its writer may be at it. */
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

/* Which process wrote the event. *is_guessp: it is the only one, and nothing says otherwise. */
static int process_of(AddressNames *places, const RegionScan *scan, const Known *known, const Newest *newest,
                      bool *is_guessp) {
        uint64_t inode = scan->region->inode;
        int process = CODE_MAP_NONE;
        bool is_nested;

        *is_guessp = false;
        if (known->process)
                return (int)known->process - 1;
        if (newest->tid && newest->tid <= 1 << 22 && !hashmap_get(&places->nobodys, newest->tid)) {
                process = code_map_process(places->map, (pid_t)newest->tid, inode);
                if (process == CODE_MAP_NONE)
                        hashmap_put(&places->nobodys, newest->tid, places);
        }
        if (process != CODE_MAP_NONE)
                return process;
        process = code_map_only(places->map, &is_nested);
        *is_guessp = !is_nested;
        return process;
}

static int stop_of(const AddressNames *places) {
        return __atomic_load_n(&places->stop, __ATOMIC_SEQ_CST);
}

/* As GCC and clang lay a frame out: the function that resumes it comes first. */
static void learn_frame(AddressNames *places, const struct spanprof_station *station, Known *known,
                        int process, const Newest *newest) {
        uint64_t word;

        if (newest->dead || newest->active || !newest->address || newest->address == known->frame)
                return;
        places->n_vain++;
        if (code_map_read_word(places->map, process, newest->address, &word))
                return;
        if (!code_map_has(places->map, process, word)) {
                code_map_look_again(places->map, process, clock_monotonic_ns());
                places->pending = true;
                return;
        }
        if (!is_suspended_still(station, newest))
                return;
        *known = (Known){ .frame = newest->address, .address = word, .process = (uint32_t)process + 1 };
        places->n_vain--;
        places->n_learned++;
}

static void learn(AddressNames *places, const RegionScan *scan, const struct spanprof_station *station,
                  Known *known) {
        Newest newest = newest_of(station);
        bool is_guess;
        int process;

        if (!newest.time_ns || (known->process && newest.address == known->frame))
                return;
        process = process_of(places, scan, known, &newest, &is_guess);
        if (process == CODE_MAP_NONE)
                return;
        if (!is_guess)
                known->process = (uint32_t)process + 1;
        if (newest.address && !code_map_has(places->map, process, newest.address))
                learn_frame(places, station, known, process, &newest);
}

/* Return: how long to wait before the next one, so that it takes a hundredth of the time. */
static uint64_t look(AddressNames *places, int stop_before) {
        uint64_t now_ns = clock_monotonic_ns(), n_stations = 0;

        if (now_ns - places->forgot_ns >= FORGET_NS) {
                hashmap_deinit(&places->nobodys);
                places->forgot_ns = now_ns;
        }
        places->pending = false;
        places->n_learned = places->n_vain = 0;
        for (size_t i = 0; i < places->n_scans; i++) {
                const RegionScan *scan = &places->scans[i];
                uint32_t n_without, n = region_allocated(scan->region, &n_without);

                for (uint32_t k = 0; k < n && stop_of(places) < stop_before; k++) {
                        if (k % TRUST == 0)
                                code_map_begin_look(places->map);
                        learn(places, scan, &scan->region->stations[k], &places->known[i][k]);
                }
                n_stations += n;
        }
        return MIN(MAX(n_stations * PAUSE_STATION_NS + places->n_learned * PAUSE_LEARNED_NS +
                               places->n_vain * PAUSE_VAIN_NS,
                       PAUSE_NS),
                   PAUSE_MAX_NS);
}

/* Those that have told of themselves, by their connection or on the command line. */
static void look_at_added(AddressNames *places) {
        while (places->n_added) {
                pid_t pid = places->added[--places->n_added];
                int process = CODE_MAP_NONE;

                pthread_mutex_unlock(&places->mutex);
                for (size_t i = 0; process == CODE_MAP_NONE && i < places->n_scans; i++)
                        process = code_map_process(places->map, pid, places->scans[i].region->inode);
                pthread_mutex_lock(&places->mutex);
        }
}

/* With the mutex held. */
static void wait_for(AddressNames *places, uint64_t ns) {
        thread_condition_wait(&places->changed, &places->mutex, clock_monotonic_ns() + ns);
}

/*
 * Nobody pokes while it is awake: how many events there were is looked at once more after the word that it is
 * asleep.
 */
static void wait_for_events(AddressNames *places, unsigned n_pokes) {
        __atomic_store_n(&places->asleep, true, __ATOMIC_SEQ_CST);
        if (!stop_of(places) && !places->n_added &&
            __atomic_load_n(&places->n_pokes, __ATOMIC_SEQ_CST) == n_pokes) {
                if (places->pending)
                        wait_for(places, PENDING_NS);
                else
                        pthread_cond_wait(&places->changed, &places->mutex);
        }
        __atomic_store_n(&places->asleep, false, __ATOMIC_SEQ_CST);
}

static void run(void *data) {
        AddressNames *places = data;
        bool last = false;

        pthread_mutex_lock(&places->mutex);
        while (!last) {
                unsigned n_pokes = __atomic_load_n(&places->n_pokes, __ATOMIC_SEQ_CST);
                uint64_t pause_ns;

                last = stop_of(places);
                look_at_added(places);
                pthread_mutex_unlock(&places->mutex);
                pause_ns = look(places, last ? STOP_AT_ONCE : STOP_SOON);
                pthread_mutex_lock(&places->mutex);
                if (!last && !stop_of(places) && !places->n_added)
                        wait_for(places, pause_ns);
                if (!last)
                        wait_for_events(places, n_pokes);
        }
        pthread_mutex_unlock(&places->mutex);
}

static int allocate(AddressNames *places) {
        places->known = calloc(places->n_scans, sizeof(*places->known));
        for (size_t i = 0; places->known && i < places->n_scans; i++) {
                /* pages of stations that nobody takes are never touched */
                places->known[i] = calloc(places->scans[i].region->n_stations, sizeof(Known));
                if (!places->known[i])
                        return error_origin(-ENOMEM);
        }
        return places->known ? code_map_new(&places->map) : error_origin(-ENOMEM);
}

/* All but the thread, which may call this. */
static void destroy(void *data) {
        AddressNames *places = data;

        for (size_t i = 0; places->known && i < places->n_scans; i++)
                free(places->known[i]);
        free(places->known);
        code_map_free(places->map);
        hashmap_deinit(&places->nobodys);
        pthread_cond_destroy(&places->changed);
        pthread_mutex_destroy(&places->mutex);
        free(places);
}

int address_names_new(AddressNames **namesp, const RegionScan *scans, size_t n_scans) {
        _cleanup_(address_names_freep) AddressNames *places = calloc(1, sizeof(*places));
        const ThreadConfig config = { .run = run, .destroy = destroy, .userdata = places };
        int r;

        if (!places)
                return error_origin(-ENOMEM);
        places->scans = scans;
        places->n_scans = n_scans;
        pthread_mutex_init(&places->mutex, NULL);
        thread_condition_init(&places->changed);
        r = allocate(places);
        if (r)
                return error_fold(r);
        for (size_t i = 0; i < n_scans; i++)
                if (scans[i].pid && places->n_added < MAX_ADDED)
                        places->added[places->n_added++] = (pid_t)scans[i].pid;
        r = thread_new(&places->thread, &config);
        if (r)
                return r < 0 ? error_fold(r) : error_origin(-EAGAIN);
        places->runs = true;
        *namesp = take(places);
        return 0;
}

void address_names_add_process(AddressNames *places, pid_t pid) {
        pthread_mutex_lock(&places->mutex);
        if (places->n_added < MAX_ADDED)
                places->added[places->n_added++] = pid;
        pthread_cond_signal(&places->changed);
        pthread_mutex_unlock(&places->mutex);
}

void address_names_poke(AddressNames *places) {
        __atomic_add_fetch(&places->n_pokes, 1, __ATOMIC_SEQ_CST);
        if (!__atomic_load_n(&places->asleep, __ATOMIC_SEQ_CST))
                return;
        pthread_mutex_lock(&places->mutex);
        pthread_cond_signal(&places->changed);
        pthread_mutex_unlock(&places->mutex);
}

static void stop(AddressNames *places, int how) {
        __atomic_store_n(&places->stop, how, __ATOMIC_SEQ_CST);
        pthread_mutex_lock(&places->mutex);
        pthread_cond_signal(&places->changed);
        pthread_mutex_unlock(&places->mutex);
}

bool address_names_finish(AddressNames *places) {
        if (!places->runs)
                return !places->left_behind;
        stop(places, STOP_SOON);
        places->runs = false;
        if (thread_wait(places->thread, clock_monotonic_ns() + TIME_LIMIT_NS)) {
                if (code_map_n_left_out(places->map))
                        log_notice(
                                "more processes and mappings than are kept: some addresses of the trace will have no names");
                return true;
        }
        stop(places, STOP_AT_ONCE);
        places->left_behind = true;
        log_warning("a process does not let its memory be read: addresses of the trace will have no names");
        return false;
}

StationCode address_names_station(const AddressNames *places, size_t scan, uint32_t station) {
        const Known *known = &places->known[scan][station];

        return (StationCode){ .process = code_map_number(places->map, (int)known->process - 1),
                              .frame = known->frame,
                              .address = known->address };
}

size_t address_names_n_mappings(const AddressNames *places) {
        return code_map_n_mappings(places->map);
}

const TraceMapping *address_names_mapping(const AddressNames *places, size_t i) {
        return code_map_mapping(places->map, i);
}

AddressNames *address_names_free(AddressNames *places) {
        if (!places)
                return NULL;
        if (places->runs)
                address_names_finish(places);
        /* a thread that was left behind frees what it has itself */
        if (!places->thread || thread_end(places->thread, 0) == 0)
                destroy(places);
        return NULL;
}
