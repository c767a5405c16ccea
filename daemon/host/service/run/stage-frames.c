/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Makes frames of addresses. A frame that lies in no known mapping has its process read again.
 */

#include "host/service/run/stages.h"

#include "core/base/util/error.h"

static int refresh(void *userdata, Process *process) {
        Daemon *daemon = userdata;

        return targets_refresh(daemon->stages.targets, process);
}

static int make(Daemon *daemon) {
        int r = frames_new(&daemon->stages.frames);

        if (!r)
                frames_set_refresh(daemon->stages.frames, refresh, daemon);
        return error_fold(r);
}

static void describe(Daemon *daemon, Metrics *metrics) {
        metrics->n_kernel_symbols = frames_kernel_symbols(daemon->stages.frames,
                                                          &metrics->has_kernel_symbols);
}

static void release(Daemon *daemon) {
        frames_free(daemon->stages.frames);
}

const Stage stage_frames = { .name = "frames", .make = make, .describe = describe, .release = release };
