/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Makes the queue of each receiver of closed windows. A daemon with a sink has none.
 */

#include "host/service/run/stages.h"

#include "core/base/util/error.h"

static int make(Daemon *daemon) {
        const Config *config = daemon->config;
        int r = daemon->sink ? 0 : exports_new(&daemon->stages.exports, daemon->loop.event, config);

        return r > 0 ? DAEMON_E_UNUSABLE : error_fold(r);
}

static void describe(Daemon *daemon, Metrics *metrics) {
        Exports *exports = daemon->stages.exports;

        metrics->queued_events = exports_queued_events(exports);
        metrics->queued_bytes = exports_queued_bytes(exports);
        metrics->unsaved_events = exports_unsaved_events(exports);
        metrics->lacking_spools = exports_lacking_spools(exports);
        metrics->exports = exports;
}

static void release(Daemon *daemon) {
        exports_free(daemon->stages.exports);
        text_deinit(&daemon->stages.exports_json);
}

const Stage stage_exports = { .name = "exports", .make = make, .describe = describe, .release = release };
