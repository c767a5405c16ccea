/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Registers the runtimes of all-runtimes.c that `runtimes` names, with the workers that read them.
 */

#include "host/service/run/stages.h"

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "host/runtime/all-runtimes.h"
#include "host/service/run/daemon-flow.h"

static enum runtimes_walk want_runtimes(void *userdata, const RuntimeOps *ops) {
        Daemon *daemon = userdata;

        sampler_add_runtime(daemon->stages.sampler, ops->bit);
        switch (daemon_want_runtimes(daemon)) {
        case RUNTIME_WALK_ON:
                return RUNTIMES_WALK_ON;
        case RUNTIME_WALK_REFUSED:
                return RUNTIMES_WALK_REFUSED;
        default:
                return RUNTIMES_WALK_LOADING;
        }
}

/* Go has no reader of names; NULL = no more than labels is wanted of it. */
static GoWants *wants_of_go(Daemon *daemon) {
        GoWants *wants = &daemon->stages.go_wants;

        *wants = (GoWants){ .goroutines = daemon->config->sampling.goroutines,
                            .idle = daemon->config->waits.off_cpu };
        return wants->goroutines || wants->idle ? wants : NULL;
}

/* Links to a runtime's workers. */
static void *links_of(Daemon *daemon, const RuntimeOps *ops) {
        switch (ops->bit) {
        case RUNTIME_HAS_HOTSPOT:
                return daemon->stages.jvms;
        case RUNTIME_HAS_PYTHON:
                return daemon->stages.pythons;
        case RUNTIME_HAS_V8:
                return daemon->stages.v8s;
        case RUNTIME_HAS_PHP:
                return daemon->stages.phps;
        case RUNTIME_HAS_BEAM:
                return daemon->stages.beams;
        case RUNTIME_HAS_RUBY:
                return daemon->stages.rubies;
        case RUNTIME_HAS_GO:
                return wants_of_go(daemon);
        default:
                return NULL;
        }
}

static int make_links(Daemon *daemon) {
        DaemonStages *stages = &daemon->stages;
        int r = reader_links_new(&stages->readers, daemon->totals->zygotes);

        if (!r)
                r = hotspot_links_new(&stages->jvms, stages->readers);
        if (!r)
                r = file_links_new(&stages->pythons, stages->readers, &python_link_ops);
        if (!r)
                r = file_links_new(&stages->v8s, stages->readers, &v8_link_ops);
        if (!r)
                r = file_links_new(&stages->phps, stages->readers, &php_link_ops);
        if (!r)
                r = file_links_new(&stages->beams, stages->readers, &beam_link_ops);
        if (!r)
                r = file_links_new(&stages->rubies, stages->readers, &ruby_link_ops);
        return error_fold(r);
}

static int make(Daemon *daemon) {
        DaemonStages *stages = &daemon->stages;
        int r = runtimes_new(&stages->runtimes, want_runtimes, daemon);

        if (!r && daemon->config->sampling.java_signatures)
                runtimes_show_signatures(stages->runtimes);
        if (!r && daemon->totals->zygotes)
                r = make_links(daemon);
        for (size_t i = 0; i < ARRAY_SIZE(all_runtimes) && !r; i++)
                if (config_has_runtime(daemon->config, all_runtimes[i]->name))
                        r = runtimes_register(stages->runtimes, all_runtimes[i],
                                              sampler_runtime_fd(stages->sampler, all_runtimes[i]->bit),
                                              links_of(daemon, all_runtimes[i]));
        if (!r)
                frames_set_runtimes(stages->frames, stages->runtimes);
        return error_fold(r);
}

static int drained(Daemon *daemon) {
        return runtimes_work(daemon->stages.runtimes, clock_monotonic_ns());
}

static void describe(Daemon *daemon, Metrics *metrics) {
        metrics->runtimes = daemon->stages.runtimes;
}

static void release(Daemon *daemon) {
        runtimes_free(daemon->stages.runtimes);
        hotspot_links_free(daemon->stages.jvms);
        file_links_free(daemon->stages.pythons);
        file_links_free(daemon->stages.v8s);
        file_links_free(daemon->stages.phps);
        file_links_free(daemon->stages.beams);
        file_links_free(daemon->stages.rubies);
        reader_links_free(daemon->stages.readers);
}

const Stage stage_runtimes = {
        .name = "runtimes", .make = make, .drained = drained, .describe = describe, .release = release
};
