/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Looks at heap profiles of programs of Go, with --allocations. Each second who is due is asked for, and each
 * window takes along what has come since the last (daemon-window.c). A look at each is once in four windows.
 */

#include "host/service/run/stages.h"

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "host/heap/heaps.h"

enum { PERIOD_WINDOWS = 4 };

#define FINISH_NS (2 * NS_PER_SEC)      /* for the looks at the end */

/* `record` has one window for all looks, whose numbers in use would be added up. */
static int make(Daemon *daemon) {
        const Config *config = daemon->config;
        const HeapsConfig heaps = { .zygotes = daemon->totals->zygotes,
                                    .targets = daemon->stages.targets,
                                    .filter = &daemon->filter,
                                    .start_ns = clock_monotonic_ns(),
                                    .period_ns = PERIOD_WINDOWS * config->delivery.interval_ns };

        if (!config->sampling.allocations || daemon->sink || !config_has_runtime(config, "go"))
                return 0;
        if (!heaps.zygotes) {
                log_warning("allocations: there is no process without rights to read heaps of Go: they are left out");
                return 0;
        }
        return error_fold(heaps_new(&daemon->stages.heaps, &heaps));
}

static int second(Daemon *daemon) {
        Heaps *heaps = daemon->stages.heaps;

        return heaps && !daemon->pause.is_on ? heaps_second(heaps) : 0;
}

static int flush(Daemon *daemon) {
        Heaps *heaps = daemon->stages.heaps;

        return heaps && !daemon->pause.is_on ? heaps_finish(heaps, FINISH_NS) : 0;
}

static void release(Daemon *daemon) {
        heaps_free(daemon->stages.heaps);
}

const Stage stage_heaps = {
        .name = "heaps", .make = make, .second = second, .flush = flush, .release = release
};
