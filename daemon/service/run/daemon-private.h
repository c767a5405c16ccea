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

/* Why nothing is sampled; bits of Daemon.pauses. */
enum daemon_pause {
        DAEMON_PAUSE_DISABLED,          /* /etc/spanprof/disabled is there */
        DAEMON_PAUSE_COMMAND,           /* `spanprof pause` */
        DAEMON_PAUSE_MEMORY,            /* we are above max-memory */
};

struct Daemon {
        const Config *config;
        DaemonTotals *totals;
        const DaemonSink *sink;         /* NULL = the exports take the windows */
        DaemonReload reload;            /* NULL = SIGHUP stops */
        void *reload_userdata;
        bool reloading;                 /* this stop is for a new configuration */
        bool has_no_workers;            /* it is since there are none any more */
        int stop_signal;                /* 0 = none */
        bool stopped_by_terminal;
        ConfigSelector selection;
        const Selector *selector;
        sd_event *event;
        sd_event_source *drain_timer, *window_timer, *second_timer, *work_timer;
        sd_event_source *wake_source;   /* on while asleep */
        sd_event_source *call_source;
        bool is_asleep;                 /* nothing flows: see daemon-loop.c */
        bool listens, was_called;       /* since the last drain: to calls; one came */
        uint64_t woken_ns, woken_before_ns;     /* the last two wake-ups; 0 = none */
        sd_event_source *tables_work, *tables_ready;
        ClockWatch *clock_watch;
        ObjectCache *objects;
        ThreadReader *threads;          /* NULL = thread symbols are read here */
        sd_event_source *threads_ready;
        Targets *targets;
        Sampler *sampler;
        CoroJoin *coroutines;
        sd_event_source *coroutines_timer;
        OtherProfilers rivals;
        bool warned_of_others;
        Tables *tables;
        Frames *frames;
        Naming *naming;
        Aggregator *aggregator;
        Exports *exports;               /* NULL with a sink */
        Text exports_json;              /* of the summary: what each did, at the end */
        Control *control;
        Governor governor;
        Volume volume;
        uint64_t volume_bytes;          /* of all requests until the window began */
        unsigned pauses;
        bool is_paused;                 /* the samplers are off */
        uint64_t pause_ns;              /* MONOTONIC: when that began */
        uint64_t drained_ns;            /* when the rings were read last */
        uint64_t start_ns;              /* MONOTONIC, as all of these */
        uint64_t sampling_ns;           /* when the events were opened */
        uint64_t stop_ns;               /* 0 = still sampling */
        uint64_t target_cpu_ns;         /* of all targets until then */
        uint64_t window_start_ns;
        uint64_t window_entries;        /* of the sampler, when the window began; as the next two */
        double window_programmed;
        uint64_t lost_notices;          /* that were answered by a resync */
        uint64_t window_throttled;
        uint32_t n_cpus;                /* sampled at the start */
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
