/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads recordings of JVMs, with --jfr: each second what is due is asked for, and each window takes along
 * what has come since the last (daemon-window.c).
 */

#include "host/service/run/stages.h"

#include <sys/epoll.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "host/jfr/recordings.h"

#define FINISH_NS (2 * NS_PER_SEC)              /* for what is still to be read at the end … */
#define FINISH_PATIENT_NS (30 * NS_PER_SEC)     /* … and with one window, which is to be whole */

static int on_ready(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        Daemon *daemon = userdata;

        return recordings_step(daemon->stages.recordings);
}

static int make(Daemon *daemon) {
        DaemonStages *stages = &daemon->stages;
        const DaemonTotals *totals = daemon->totals;
        RecordingsConfig config = { .targets = stages->targets,
                                    .filter = &daemon->filter,
                                    .start_ns = clock_read_ns(CLOCK_REALTIME) };
        int r;

        if (!daemon->config->sampling.jfr)
                return 0;
        config.zygotes = totals->zygotes ?: totals->desk_zygotes;
        if (!config.zygotes) {
                log_warning("jfr: there is no process without rights to read recordings: they are left out");
                return 0;
        }
        r = recordings_new(&stages->recordings, &config);
        if (r)
                return error_fold(r);
        r = sd_event_add_io(daemon->loop.event, &daemon->loop.recordings_ready,
                            recordings_fd(stages->recordings), EPOLLIN, on_ready, daemon);
        if (r >= 0)
                r = sd_event_source_set_exit_on_failure(daemon->loop.recordings_ready, true);
        return r < 0 ? error_origin(r) : 0;
}

static int second(Daemon *daemon) {
        Recordings *recordings = daemon->stages.recordings;

        return recordings && !daemon->pause.is_on ? recordings_second(recordings) : 0;
}

static int flush(Daemon *daemon) {
        Recordings *recordings = daemon->stages.recordings;
        bool is_patient = daemon->sink && daemon->sink->has_one_window;
        int r = 0;

        /* a JVM that is told to stop takes the file away: it has to be open, also in the first second */
        if (recordings && daemon->sink && daemon->sink->ending)
                r = recordings_second(recordings);
        if (daemon->sink && daemon->sink->ending)
                daemon->sink->ending(daemon->sink->userdata);
        if (r)
                return error_fold(r);
        return recordings ? recordings_finish(recordings, is_patient ? FINISH_PATIENT_NS : FINISH_NS) : 0;
}

static void release(Daemon *daemon) {
        sd_event_source_disable_unref(daemon->loop.recordings_ready);
        recordings_free(daemon->stages.recordings);
}

const Stage stage_recordings = {
        .name = "recordings", .make = make, .second = second, .flush = flush, .release = release
};
