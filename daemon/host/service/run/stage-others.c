/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Looks, as each window closes, whether another spanprof samples one of the targets, and says so once.
 */

#include "host/service/run/stages.h"

#include "core/base/util/log.h"

static int make(Daemon *daemon) {
        other_profilers_init(&daemon->others.profilers, sampler_processes_fd(daemon->stages.sampler));
        return 0;
}

typedef struct Shared {
        const OtherProfilers *others;
        const Process *first;           /* process that another profiler samples too */
        size_t n;
} Shared;

static void find_shared(void *userdata, const Process *process, SelectorReason reason) {
        Shared *shared = userdata;

        if (!other_profilers_sample(shared->others, process->pid, process->start_time_ns))
                return;
        if (!shared->first)
                shared->first = process;
        shared->n++;
}

/* Both daemons log this, since each learns of the other by itself; and again after a time without others. */
static int warn(Daemon *daemon, Window *window) {
        Shared shared = { .others = &daemon->others.profilers };

        other_profilers_refresh(&daemon->others.profilers);
        if (daemon->others.profilers.n)
                targets_each(daemon->stages.targets, find_shared, &shared);
        if (shared.n && !daemon->others.warned)
                log_write(daemon->sink ? LOG_LEVEL_NOTICE : LOG_LEVEL_WARNING,
                       "another spanprof samples %zu of these processes too (pid %u, %s): they pay twice%s", shared.n,
                       shared.first->pid, shared.first->comm,
                       daemon->sink ? "" : ", and their profiles are shipped twice");
        daemon->others.warned = shared.n;
        return 0;
}

const Stage stage_others = { .name = "other profilers", .make = make, .window = warn };
