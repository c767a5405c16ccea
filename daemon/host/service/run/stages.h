/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Stages
 *
 * What a sample passes, and what stands beside its way, as one table (stages.c). A new stage is a file
 * stage-NAME.c with its row, and a line in that table.
 */

#include "host/service/run/daemon-state.h"

/* Members may be NULL, but for the name. Those that return int: 0, -errno. */
typedef struct Stage {
        const char *name;
        /* All stages before it in the table are made. Return: 0, DAEMON_E_UNUSABLE (logged), -errno. */
        int (*make)(Daemon *daemon);
        int (*start)(Daemon *daemon);   /* sampling has begun: timers of its own */
        int (*drained)(Daemon *daemon); /* the rings were read */
        int (*second)(Daemon *daemon);  /* each second */
        int (*window)(Daemon *daemon, Window *window);  /* a window was closed, and goes out next */
        void (*stop)(Daemon *daemon);   /* no sample is taken any more: its timers go */
        int (*flush)(Daemon *daemon);   /* then: what it holds back goes into the last window */
        void (*describe)(Daemon *daemon, Metrics *metrics);     /* for `status` and /metrics */
        void (*release)(Daemon *daemon);        /* call also after a make() that failed or was never called */
} Stage;

/*
 * Each goes through the table, and ends at the first stage that fails. stages_drained() and stages_flush()
 * begin at its end. Return: as the member's.
 */
int stages_make(Daemon *daemon);
int stages_start(Daemon *daemon);
int stages_drained(Daemon *daemon);
int stages_second(Daemon *daemon);
int stages_window(Daemon *daemon, Window *window);
int stages_flush(Daemon *daemon);
void stages_stop(Daemon *daemon);
void stages_describe(Daemon *daemon, Metrics *metrics);
/* From the last to the first. */
void stages_release(Daemon *daemon);

extern const Stage stage_exports, stage_recorder, stage_recorder_spans, stage_sampler, stage_others,
        stage_tables, stage_targets, stage_frames, stage_runtimes, stage_coroutines, stage_aggregate,
        stage_walks, stage_names, stage_recordings, stage_heaps, stage_watch;
