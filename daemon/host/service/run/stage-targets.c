/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Makes the targets: processes that are sampled, files that they map, and workers that read thread symbols of
 * these files.
 */

#include "host/service/run/stages.h"

#include <sys/epoll.h>

#include "core/base/util/error.h"
#include "core/symbol/object/remote-files.h"
#include "host/service/run/daemon-flow.h"

/* Files that stay known though no target maps them: the next target may. */
enum { UNUSED_OBJECTS = 256 };

int daemon_step_threads(Daemon *daemon) {
        if (!daemon->stages.threads || !thread_reader_step(daemon->stages.threads))
                return 0;
        return error_fold(targets_resolve_waiting(daemon->stages.targets));
}

static int on_threads_ready(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        return daemon_step_threads(userdata);
}

static int make_threads(Daemon *daemon) {
        int r = thread_reader_new(&daemon->stages.threads, daemon->totals->zygotes);

        if (r)
                return error_fold(r);
        object_cache_set_ask(daemon->stages.objects, thread_reader_ask, daemon->stages.threads);
        r = sd_event_add_io(daemon->loop.event, &daemon->loop.threads_ready,
                            thread_reader_fd(daemon->stages.threads), EPOLLIN, on_threads_ready, daemon);
        if (r >= 0)
                r = sd_event_source_set_exit_on_failure(daemon->loop.threads_ready, true);
        return r < 0 ? error_origin(r) : 0;
}

/* Copies of files on FUSE and network filesystems: once they are there, the stacks in them can be walked. */
static int look_for_copies(Daemon *daemon) {
        return remote_files_tend() ? error_fold(targets_reread_awaiting(daemon->stages.targets)) : 0;
}

static int on_copies_ready(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        return look_for_copies(userdata);
}

static int watch_copies(Daemon *daemon) {
        int fd = remote_files_fd(), r = 0;

        if (fd >= 0)
                r = sd_event_add_io(daemon->loop.event, &daemon->loop.copies_ready, fd, EPOLLIN,
                                    on_copies_ready, daemon);
        if (r >= 0 && fd >= 0)
                r = sd_event_source_set_exit_on_failure(daemon->loop.copies_ready, true);
        return r < 0 ? error_origin(r) : 0;
}

static bool is_boosted(void *userdata, const Process *process) {
        const Daemon *daemon = userdata;

        return boosts_mean(&daemon->limits.boosts, process);
}

static int make(Daemon *daemon) {
        TargetsConfig targets = {
                .selector = daemon->selector,
                .environment = daemon->config->targets.environment,
                .names = daemon_names(daemon),
                .callbacks = { .row_set = daemon_set_row,
                               .row_remove = daemon_remove_row,
                               .adopt = daemon_adopt,
                               .found = daemon_on_found,
                               .mapped = daemon_on_mapped,
                               .looked = daemon_on_looked,
                               .waits = daemon_on_waits,
                               .is_boosted = is_boosted,
                               .stations = daemon_on_stations,
                               .reject_name = daemon_on_rejected_name,
                               .userdata = daemon },
        };
        int r = object_cache_new(&daemon->stages.objects, UNUSED_OBJECTS);

        if (r)
                return error_fold(r);
        if (daemon_starts(daemon))
                targets.callbacks.settle_name = daemon_on_settled_name;
        targets.objects = daemon->stages.objects;
        r = targets_new(&daemon->stages.targets, &targets);
        if (!r && daemon->totals->zygotes)
                r = make_threads(daemon);
        if (!r)
                r = watch_copies(daemon);
        return error_fold(r);
}

static void describe(Daemon *daemon, Metrics *metrics) {
        metrics->n_targets = targets_count(daemon->stages.targets);
        metrics->n_processes = targets_count_all(daemon->stages.targets);
}

static void release(Daemon *daemon) {
        sampler_end_probes(daemon->stages.sampler);     /* which have files of the cache */
        targets_free(daemon->stages.targets);
        sd_event_source_disable_unref(daemon->loop.threads_ready);
        sd_event_source_disable_unref(daemon->loop.copies_ready);
        thread_reader_free(daemon->stages.threads);
        object_cache_free(daemon->stages.objects);
}

const Stage stage_targets = { .name = "targets", .make = make, .drained = look_for_copies,
                              .second = look_for_copies, .describe = describe, .release = release };
