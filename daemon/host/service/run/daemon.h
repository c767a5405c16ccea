/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Daemon
 *
 * Wires the stages together and turns the event loop:
 *
 *     targets ──rows──▶ sampler ──records──▶ decode ─▶ aggregate ─window─▶ encode ─▶ exporter
 *        ▲                 │
 *        └────notices──────┘
 *
 * Time, counters and errors flow one way. This folder alone knows every stage.
 */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "core/base/sandbox/zygotes.h"
#include "core/base/util/macro.h"
#include "core/base/util/stop-signals.h"
#include "core/profile/window.h"
#include "host/runtime/go/goroutines.h"
#include "host/sampling/discover/targets.h"
#include "host/sampling/sample/event-opener.h"
#include "host/sampling/walks/thread-waits.h"
#include "host/service/config/config.h"
#include "host/service/control/control-servers.h"
#include "host/service/control/coverage.h"
#include "host/service/control/summary.h"
#include "host/service/recorder/recorder.h"
#include "host/service/watch/watch.h"
#include "host/service/run/kernel-files.h"

typedef struct Daemon Daemon;
typedef struct RowCache RowCache;      /* host/sampling/unwind/tables/row-cache.h */

enum {
        _DAEMON_E_SUCCESS,
        /* the kernel or the configuration cannot be used; the reason was logged */
        DAEMON_E_UNUSABLE,
        DAEMON_E_SUMMARY,               /* the daemon ran, but its summary could not be written; logged */
        /* a process that was asked for does not exist, or all are excluded; logged */
        DAEMON_E_NO_TARGET,
        /* the daemon stopped since no worker can be had any more: to be started again; logged */
        DAEMON_E_WORKERS,
        /* the daemon stopped for a new configuration: make another with that */
        DAEMON_E_RELOAD,
};

/* Messages on samples that the ring had no room for. */
typedef struct DaemonLosses {
        uint64_t n_told;                /* samples that were told of by then */
        uint64_t next_ns;               /* MONOTONIC: nothing is said before */
} DaemonLosses;

/* Sums over the daemons of one process, which run one after the other, each with its configuration. */
typedef struct DaemonTotals {
        uint64_t start_ns;              /* start of the first daemon, MONOTONIC; 0 = there was none */
        uint64_t duration_ns;           /* time of sampling */
        uint64_t target_cpu_ns;
        uint64_t sampler_entries;
        double programmed;
        uint64_t n_boosted;             /* ticks beyond those that others have */
        uint64_t first_sample_ns, first_delivery_ns;    /* MONOTONIC, 0 = none yet; so is the next */
        uint64_t exported_ns;           /* when a request was accepted last */
        uint64_t n_exported;            /* requests accepted until then */
        DaemonLosses losses;
        /* files of the kernel that the last daemon could read, at its start */
        KernelFiles files;
        bool has_files;
        CoverageClock clock;            /* at the first start */
        bool paused;                    /* `spanprof pause` is in force */
        bool is_reload;                 /* the next one has a new configuration, that a reload has read */
        /* makes workers that read targets' files for all daemons, borrowed; NULL = none */
        Zygotes *zygotes;
        /* the same of a desk, for recordings of JVMs alone: it reads all else itself; NULL = none */
        Zygotes *desk_zygotes;
        RowCache *rows;                 /* owned, as the next; NULL = none */
        char *rows_path;                /* … directory of the spool that it lies beside */
        EventOpener *opener;            /* borrowed; NULL = none */
        ControlServers *servers;        /* borrowed; NULL with a sink alone */
        Recorder *recorder;             /* the flight recorder; NULL = there is none */
        Watch *watch;                   /* sketches of builds; NULL = there are none */
} DaemonTotals;

/*
 * Takes the windows in the exporters' place, in this process: nothing is encoded or sent, and there is no
 * socket for `status` and no metrics.
 */
typedef struct DaemonSink {
        /*
         * A closed window, borrowed for the call. *n_lostp: events of it that were not kept (0 before the
         * call), the others are delivered. Return: 0, or -errno, which ends the daemon.
         */
        int (*window)(void *userdata, const Window *window, uint64_t *n_lostp);
        int (*started)(void *userdata); /* sampling is on. Return: 0, -errno. May be NULL */
        void (*ending)(void *userdata); /* before what is still to be read is. May be NULL */
        /* windows are parts of one: samples may come in a later one, when their stacks can be walked */
        bool has_one_window;
        void *userdata;
} DaemonSink;

/*
 * Makes everything, samples nothing yet. @config and @totals are borrowed, and so is @sink, which is NULL for
 * a daemon that exports. Return: 0, DAEMON_E_UNUSABLE, -errno.
 */
int daemon_new(Daemon **daemonp, const Config *config, DaemonTotals *totals, const DaemonSink *sink);
Daemon *daemon_free(Daemon *daemon);
DEFINE_CLEANUP(Daemon, daemon_free)

/*
 * Reads the configuration again, as SIGHUP asks for. Return: 0 = the daemon shall end with DAEMON_E_RELOAD,
 * anything else = it goes on as it is; the reason was logged. Without such a function SIGHUP stops the
 * daemon, as it does for one whose terminal hangs up.
 */
typedef int (*DaemonReload)(void *userdata);
void daemon_set_reload(Daemon *daemon, DaemonReload reload, void *userdata);

/* Runs until a signal or the configured duration ends it, and flushes. Return: 0, DAEMON_E_*, -errno. */
int daemon_run(Daemon *daemon);

/*
 * Says before daemon_run() that a target will execute a program of this name: the walk over frames of its
 * runtime is there when it begins.
 */
void daemon_expect(Daemon *daemon, const char *name);

/* The event loop, for sources of the user of a sink. The daemon owns it. */
sd_event *daemon_loop(Daemon *daemon);

/* Ends daemon_run(), as a signal would. Return: 0, -errno. */
int daemon_stop(Daemon *daemon);

/* Signals that have ended it; number 0 = none has. They stay blocked after daemon_run(). */
const StopSignals *daemon_stop_signals(const Daemon *daemon);

/* How many processes are sampled now, and what was done until now or, after daemon_run(), in all. */
size_t daemon_n_targets(const Daemon *daemon);
/* As naming_late(): after daemon_run(), in a session. */
int daemon_name_late(Daemon *daemon, Window *window, uint32_t *n_namedp);
/* As targets_each(). */
void daemon_each_target(const Daemon *daemon,
                        void (*visit)(void *userdata, const Process *process, SelectorReason reason),
                        void *userdata);

/* As thread_waits_add(), for a daemon that samples. Return: 0, DAEMON_E_UNUSABLE (logged), -errno. */
int daemon_look_at_threads(Daemon *daemon, ThreadWaits *threads);

/* As goroutines_look_once(), for a daemon that samples. Without `goroutines`, none. Return: 0, -errno. */
int daemon_look_at_goroutines(Daemon *daemon, GoroutinesSeen *seen);

/* As tables_progress(). */
void daemon_tables_progress(const Daemon *daemon, uint32_t *n_madep, uint32_t *np);

void daemon_summarize(const Daemon *daemon, Summary *summary);
