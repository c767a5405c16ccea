/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Makes frames of addresses. A frame that lies in no known mapping has its process read again.
 */

#include "host/service/run/stages.h"

#include "core/base/util/clock.h"
#include "core/base/util/error.h"

static int refresh(void *userdata, Process *process) {
        Daemon *daemon = userdata;

        return targets_refresh(daemon->stages.targets, process);
}

/* A failure here is told again in the next window. */
static void sampled(void *userdata, const Process *process, const Mapping *mapping) {
        Daemon *daemon = userdata;

        if (!tables_sampled(daemon->stages.tables, process, mapping, clock_monotonic_ns()) &&
            tables_have_work(daemon->stages.tables))
                (void)sd_event_source_set_enabled(daemon->loop.tables_work, SD_EVENT_ON);
}

static int make(Daemon *daemon) {
        int r = frames_new(&daemon->stages.frames);

        if (r)
                return error_fold(r);
        frames_set_refresh(daemon->stages.frames, refresh, daemon);
        frames_set_sampled(daemon->stages.frames, sampled, daemon);
        return 0;
}

static void describe(Daemon *daemon, Metrics *metrics) {
        metrics->n_kernel_symbols = frames_kernel_symbols(daemon->stages.frames,
                                                          &metrics->has_kernel_symbols);
}

static void release(Daemon *daemon) {
        frames_free(daemon->stages.frames);
}

const Stage stage_frames = { .name = "frames", .make = make, .describe = describe, .release = release };
