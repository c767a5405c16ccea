/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The table of stages, in the order in which they are made: each may use those before it. The loop goes
 * through it after each drain, each second and at the end of each window (daemon-loop.c, daemon-window.c).
 *
 * After a drain, and at the end, the last is the first: walks hand on samples, whose frames ask the workers
 * of runtimes for names, which these are told right then, and not at the next drain.
 */

#include "host/service/run/stages.h"

#include "core/base/util/error.h"

static const Stage *const stages[] = {
        &stage_exports,  &stage_recorder, &stage_recorder_spans, &stage_sampler,    &stage_others,
        &stage_tables,   &stage_targets,  &stage_frames,         &stage_names,      &stage_runtimes,
        &stage_coroutines, &stage_aggregate, &stage_walks,       &stage_recordings,
        &stage_heaps,    &stage_watch,
};

int stages_make(Daemon *daemon) {
        int r = 0;

        for (size_t i = 0; i < ARRAY_SIZE(stages) && !r; i++)
                if (stages[i]->make)
                        r = stages[i]->make(daemon);
        return r;
}

int stages_start(Daemon *daemon) {
        int r = 0;

        for (size_t i = 0; i < ARRAY_SIZE(stages) && !r; i++)
                if (stages[i]->start)
                        r = stages[i]->start(daemon);
        return error_fold(r);
}

int stages_drained(Daemon *daemon) {
        int r = 0;

        for (size_t i = ARRAY_SIZE(stages); i-- > 0 && !r;)
                if (stages[i]->drained)
                        r = stages[i]->drained(daemon);
        return error_fold(r);
}

int stages_second(Daemon *daemon) {
        int r = 0;

        for (size_t i = 0; i < ARRAY_SIZE(stages) && !r; i++)
                if (stages[i]->second)
                        r = stages[i]->second(daemon);
        return error_fold(r);
}

int stages_window(Daemon *daemon, Window *window) {
        int r = 0;

        for (size_t i = 0; i < ARRAY_SIZE(stages) && !r; i++)
                if (stages[i]->window)
                        r = stages[i]->window(daemon, window);
        return error_fold(r);
}

int stages_flush(Daemon *daemon) {
        int r = 0;

        for (size_t i = ARRAY_SIZE(stages); i-- > 0 && !r;)
                if (stages[i]->flush)
                        r = stages[i]->flush(daemon);
        return error_fold(r);
}

void stages_stop(Daemon *daemon) {
        for (size_t i = 0; i < ARRAY_SIZE(stages); i++)
                if (stages[i]->stop)
                        stages[i]->stop(daemon);
}

void stages_describe(Daemon *daemon, Metrics *metrics) {
        for (size_t i = 0; i < ARRAY_SIZE(stages); i++)
                if (stages[i]->describe)
                        stages[i]->describe(daemon, metrics);
}

void stages_release(Daemon *daemon) {
        for (size_t i = ARRAY_SIZE(stages); i-- > 0;)
                if (stages[i]->release)
                        stages[i]->release(daemon);
}
