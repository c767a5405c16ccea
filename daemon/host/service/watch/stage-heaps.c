/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Looks at heap profiles of programs of Go, with --allocations. Each second who is due is asked for, and each
 * window takes along what has come since the last (daemon-window.c). A look at each is once in four windows.
 *
 * One more is made when a control group comes near its limit of memory, or grows towards it fast
 * (memory-watch.c), and sent without the window: its program may not live that long.
 */

#include "host/service/run/stages.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "core/base/file/file.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "host/heap/heaps.h"
#include "host/service/limits/memory-watch.h"
#include "host/service/run/daemon-loop.h"
#include "host/service/run/daemon-window.h"

enum {
        PERIOD_WINDOWS = 4,
        MOUNTS_MAX = 1 << 20,           /* bytes of mountinfo */
};

#define FINISH_NS (2 * NS_PER_SEC)      /* for the looks at the end */
#define TELL_NS (5 * NS_PER_SEC)        /* between two lists of programs for the watch of memory */
#define HASTE_NS (10 * NS_PER_MS)       /* to the next step while a look is hurried */

/* ---- memory ---- */

static void on_sight(void *userdata, uint64_t program, enum memory_sight sight) {
        static const char *const reasons[] = {
                [MEMORY_SIGHT_NEAR] = "near_limit",
                [MEMORY_SIGHT_FAST] = "fast_growth",
                [MEMORY_SIGHT_OUT] = "out_of_memory",
        };
        Daemon *daemon = userdata;

        heaps_hurry(daemon->stages.heaps, program, reasons[sight], sight);
}

typedef struct Telling {
        MemoryWatch *watch;
        const char *mounts;
        int r;
} Telling;

static void tell_program(void *userdata, uint32_t pid, uint64_t generation, const ShareOwner *owner) {
        Telling *telling = userdata;
        char proc[32];

        snprintf(proc, sizeof(proc), "/proc/%" PRIu32, pid);
        if (!telling->r)
                telling->r = memory_watch_add(telling->watch, generation, owner, proc, telling->mounts);
}

/* Programs come and go, and change their groups. */
static int tell_all(Daemon *daemon) {
        DaemonStages *stages = &daemon->stages;
        _cleanup_(freep) char *mounts = NULL;
        Telling telling = { .watch = stages->memory_watch };
        uint64_t now_ns = clock_monotonic_ns();
        size_t n;

        if (!stages->memory_timer || (stages->memory_told_ns && now_ns - stages->memory_told_ns < TELL_NS))
                return 0;
        stages->memory_told_ns = now_ns;
        if (file_read("/proc/self/mountinfo", MOUNTS_MAX, &mounts, &n))
                return 0;
        telling.mounts = mounts;
        memory_watch_begin(stages->memory_watch);
        heaps_each(stages->heaps, tell_program, &telling);
        memory_watch_end(stages->memory_watch);
        return telling.r ? error_fold(telling.r) : daemon_set_timer(stages->memory_timer, 0);
}

static int on_memory(sd_event_source *source, uint64_t usec, void *userdata) {
        Daemon *daemon = userdata;
        Heaps *heaps = daemon->stages.heaps;
        uint64_t now_ns = clock_monotonic_ns(), next_ns;
        int r = 0;

        if (daemon->pause.is_on)
                return daemon_set_timer(source, NS_PER_SEC);
        next_ns = memory_watch_look(daemon->stages.memory_watch, now_ns);
        if (heaps_is_hurried(heaps))
                r = heaps_step(heaps);
        if (!r && heaps_is_urgent(heaps))
                r = daemon_hand_over_heaps(daemon);
        if (r)
                return error_fold(r);
        if (heaps_is_hurried(heaps))
                next_ns = MIN(next_ns, now_ns + HASTE_NS);
        if (next_ns == UINT64_MAX)
                next_ns = now_ns + NS_PER_SEC;
        return daemon_set_timer(source, next_ns - now_ns);
}

static int make_watch(Daemon *daemon) {
        DaemonStages *stages = &daemon->stages;
        size_t n_cpus = (size_t)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1L);
        int r = memory_watch_new(&stages->memory_watch, n_cpus, on_sight, daemon);

        return r ? error_fold(r)
                 : error_fold(daemon_add_timer(daemon, &stages->memory_timer, NS_PER_SEC, on_memory));
}

/* ---- the stage ---- */

/* `record` has one window for all looks, whose numbers in use would be added up. */
static int make(Daemon *daemon) {
        const Config *config = daemon->config;
        const HeapsConfig heaps = { .zygotes = daemon->totals->zygotes,
                                    .targets = daemon->stages.targets,
                                    .filter = &daemon->filter,
                                    .start_ns = clock_monotonic_ns(),
                                    .period_ns = PERIOD_WINDOWS * config->delivery.interval_ns };
        int r;

        if (!config->sampling.allocations || daemon->sink || !config_has_runtime(config, "go"))
                return 0;
        if (!heaps.zygotes) {
                log_warning("allocations: there is no process without rights to read heaps of Go: they are left out");
                return 0;
        }
        r = heaps_new(&daemon->stages.heaps, &heaps);
        return r ? error_fold(r) : error_fold(make_watch(daemon));
}

static int second(Daemon *daemon) {
        Heaps *heaps = daemon->stages.heaps;
        int r;

        if (!heaps || daemon->pause.is_on)
                return 0;
        r = heaps_second(heaps);
        return r ? error_fold(r) : error_fold(tell_all(daemon));
}

/* No haste any more: what is near its limit is among those that are looked at now. */
static int flush(Daemon *daemon) {
        Heaps *heaps = daemon->stages.heaps;

        daemon->stages.memory_timer = sd_event_source_disable_unref(daemon->stages.memory_timer);
        return heaps && !daemon->pause.is_on ? heaps_finish(heaps, FINISH_NS) : 0;
}

static void release(Daemon *daemon) {
        sd_event_source_disable_unref(daemon->stages.memory_timer);
        memory_watch_free(daemon->stages.memory_watch);
        heaps_free(daemon->stages.heaps);
}

const Stage stage_heaps = {
        .name = "heaps", .make = make, .second = second, .flush = flush, .release = release
};
