/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The daemon's own files among themselves: what it holds, and what its four parts ask of each other.
 *
 *     daemon.c            makes every stage, starts, reports at the end
 *     daemon-stages.c     hands things from stage to stage: records, rows, tables, windows
 *     daemon-loop.c       says when: timers, signals, the stop
 *     daemon-govern.c     says whether and how fast: pauses, limits
 */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "coro/station/join.h"
#include "sampling/aggregate/aggregate.h"
#include "sampling/context/thread-reader.h"
#include "sampling/discover/targets.h"
#include "sampling/frames/frames.h"
#include "sampling/sample/other-profilers.h"
#include "sampling/sample/sampler.h"
#include "sampling/unwind/tables.h"
#include "service/config/config-selector.h"
#include "service/config/config.h"
#include "service/run/clock-watch.h"
#include "service/run/control.h"
#include "service/run/daemon.h"
#include "service/run/exports.h"
#include "service/run/governor.h"
#include "service/run/volume.h"
#include "symbol/naming/naming.h"

/* Why nothing is sampled; bits of DaemonPause.reasons. */
enum daemon_pause {
        DAEMON_PAUSE_DISABLED,          /* /etc/spanprof/disabled is there */
        DAEMON_PAUSE_COMMAND,           /* `spanprof pause` */
        DAEMON_PAUSE_MEMORY,            /* the daemon is above max-memory */
};

/* The event loop: its sources, and when it looks next. Times are MONOTONIC, here and below. */
typedef struct DaemonLoop {
        sd_event *event;
        sd_event_source *drain_timer, *window_timer, *second_timer, *work_timer, *coroutines_timer;
        sd_event_source *wake_source;   /* on while the loop sleeps */
        sd_event_source *call_source;
        sd_event_source *tables_work, *tables_ready, *threads_ready;
        ClockWatch *clock_watch;
        bool is_asleep;                 /* no sample flows: see daemon-loop.c */
        bool listens, was_called;       /* since the last drain: calls are wanted; one came */
        uint64_t woken_ns, woken_before_ns;     /* the last two wake-ups; 0 = none */
        uint64_t drained_ns;            /* when the rings were read last */
        uint64_t n_lost_notices;        /* those that a resync has answered */
} DaemonLoop;

/* The stages that a sample passes, and what they share. */
typedef struct DaemonStages {
        ObjectCache *objects;
        ThreadReader *threads;          /* NULL = this process reads thread symbols itself */
        Targets *targets;
        Sampler *sampler;
        CoroJoin *coroutines;
        OtherProfilers other_profilers;
        bool warned_of_others;
        Tables *tables;
        Frames *frames;
        Naming *naming;
        Aggregator *aggregator;
        Exports *exports;               /* NULL with a sink */
        Text exports_json;              /* of the summary: what each receiver got, at the end */
} DaemonStages;

/* The open window, and the sampler's counts when it began. */
typedef struct DaemonWindow {
        uint64_t start_ns;
        uint64_t n_entries, n_throttled;
        double programmed;              /* entries that the periods stand for */
        uint32_t n_cpus;                /* sampled CPUs, when sampling began or went on */
} DaemonWindow;

typedef struct DaemonPause {
        unsigned reasons;               /* bits, by enum daemon_pause */
        bool is_on;                     /* the samplers are off */
        uint64_t since_ns;
} DaemonPause;

typedef struct DaemonLimits {
        Governor governor;
        Volume volume;
        uint64_t sent_bytes;            /* of all requests until the window began */
} DaemonLimits;

typedef struct DaemonStop {
        DaemonReload reload;            /* NULL = SIGHUP stops */
        void *reload_userdata;
        uint64_t time_ns;               /* 0 = still sampling */
        int signal;                     /* 0 = none */
        bool by_terminal;
        bool is_reload;                 /* this stop is for a new configuration */
        bool lost_workers;              /* the reason: there are no workers any more */
} DaemonStop;

struct Daemon {
        const Config *config;
        DaemonTotals *totals;
        const DaemonSink *sink;         /* NULL = the exports take the windows */
        ConfigSelector selection;
        const Selector *selector;       /* that of the selection */
        DaemonLoop loop;
        DaemonStages stages;
        DaemonWindow window;
        DaemonPause pause;
        DaemonLimits limits;
        DaemonStop stop;
        Control *control;
        uint64_t start_ns;
        uint64_t sampling_ns;           /* when the events were opened */
        uint64_t target_cpu_ns;         /* of all targets, when sampling stopped */
};

/* Callbacks of the stages; @userdata is the Daemon. */
int daemon_on_sample(const void *data, size_t size, void *userdata);
int daemon_on_notice(const void *data, size_t size, void *userdata);
int daemon_on_mapping(void *userdata, const SidebandRecord *record);
int daemon_on_mappings_end(void *userdata);
int daemon_on_mapped(void *userdata, const Process *process);
int daemon_set_row(void *userdata, uint32_t tgid, const struct abi_process *row);
int daemon_on_stations(void *userdata, const Process *process);
int daemon_on_suspended(void *userdata, const CoroSuspended *suspended);
int daemon_adopt(void *userdata, const struct abi_adoption *adoption);
int daemon_remove_row(void *userdata, uint32_t tgid);

/* Follows the stations of coroutines; turns coroutines_timer on or off. Return: 0, -errno. */
int daemon_scan_coroutines(Daemon *daemon);

/* What workers have found in files. Return: 0, -errno. */
int daemon_step_threads(Daemon *daemon);

/* One step of the work on unwind tables; turns tables_work on or off. Return: 0, -errno. */
int daemon_step_tables(Daemon *daemon);
int daemon_prepare_tables(Daemon *daemon);

/* Closes the window and hands its requests to the exporter. Return: 0, -errno. */
int daemon_close_window(Daemon *daemon);

/* Says once if another spanprof samples one of our targets. */
void daemon_warn_of_other_profilers(Daemon *daemon);

/* Nothing but processes by their number was asked for: when they are gone, it is done. */
bool daemon_has_pids_alone(const Daemon *daemon);

/* For /etc/spanprof/disabled, at each drain; for limits, each second; for commands. Return: 0, -errno. */
int daemon_check_disabled(Daemon *daemon);
int daemon_govern(Daemon *daemon);

/* Hz that all limits allow. */
uint32_t daemon_frequency(const Daemon *daemon);

/*
 * Looks at how much a window was that has just been closed and encoded; the next one may have another
 * frequency.
 */
int daemon_follow_volume(Daemon *daemon, const Window *window, uint64_t length_ns);
int daemon_pause_by_command(Daemon *daemon, bool paused);
void daemon_make_governor(Daemon *daemon);

/* disabled, command, memory; NULL = not paused. */
const char *daemon_pause_reason(const Daemon *daemon);

/* The event loop with its signals, before there are stages. Return: 0, -errno. */
int daemon_make_loop(Daemon *daemon);

/* From now on it is sampled: drain, window, housekeeping. Return: 0, -errno. */
int daemon_add_timers(Daemon *daemon);
void daemon_remove_timers(Daemon *daemon);
