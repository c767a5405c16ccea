/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Daemon State
 *
 * What the daemon holds, one struct for each subject. Its files share it, and no other file includes it:
 *
 *     daemon.c            starts, and reports at the end
 *     stages.c            the table of stages; stage-*.c: a row each, which makes one and turns it
 *     daemon-flow.c       hands things from stage to stage: records, rows, tables
 *     daemon-window.c     closes windows and hands them on
 *     daemon-loop.c       decides when: timers, signals, the stop
 *     daemon-calls.c      drains at once when the kernel half calls
 *     daemon-govern.c     decides whether and how fast: pauses, limits
 */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "core/base/util/minute-limit.h"
#include "core/base/util/stop-signals.h"
#include "core/http/bearer.h"
#include "core/http/receiver.h"
#include "host/coro/join.h"
#include "host/heap/heaps.h"
#include "host/jfr/recordings.h"
#include "host/naming/debug-fetcher.h"
#include "host/naming/naming.h"
#include "host/naming/uploads.h"
#include "host/runtime/beam/beam-wire.h"
#include "host/runtime/go/go-runtime.h"
#include "host/runtime/go/goroutines.h"
#include "host/runtime/hotspot/hotspot-link.h"
#include "host/runtime/python/python-link.h"
#include "host/runtime/php/php-wire.h"
#include "host/runtime/ruby/ruby-wire.h"
#include "host/runtime/v8/v8-link.h"
#include "host/sampling/aggregate/aggregate.h"
#include "host/sampling/aggregate/live-set.h"
#include "host/sampling/aggregate/span-cpu.h"
#include "host/sampling/context/thread-reader.h"
#include "host/sampling/discover/targets.h"
#include "host/sampling/frames/frames.h"
#include "host/sampling/process/environment.h"
#include "host/sampling/runtime/runtimes.h"
#include "host/sampling/sample/other-profilers.h"
#include "host/sampling/sample/sampler.h"
#include "host/sampling/unwind/tables/tables.h"
#include "host/sampling/walks/deferred.h"
#include "host/sampling/walks/long-waits.h"
#include "host/sampling/walks/wait-locks.h"
#include "host/sampling/walks/thread-waits.h"
#include "host/service/config/config-selector.h"
#include "host/service/config/config.h"
#include "host/service/config/host-share.h"
#include "host/service/control/control.h"
#include "host/service/control/exports.h"
#include "host/service/limits/boosts.h"
#include "host/service/limits/call-budget.h"
#include "host/service/limits/clock-watch.h"
#include "host/service/limits/governor.h"
#include "host/service/limits/group-limit.h"
#include "host/service/limits/memory-hold.h"
#include "host/service/limits/memory-watch.h"
#include "host/service/limits/switch-limit.h"
#include "host/service/limits/volume.h"
#include "host/service/recorder/recorder-rules.h"
#include "host/service/run/daemon.h"
#include "host/service/run/pod-api.h"

/* Why nothing is sampled; bits of DaemonPause.reasons. */
enum daemon_pause {
        DAEMON_PAUSE_DISABLED,          /* /etc/spanprof/disabled is there */
        DAEMON_PAUSE_COMMAND,           /* `spanprof pause` */
        DAEMON_PAUSE_MEMORY,            /* the daemon is above max-memory */
        DAEMON_PAUSE_GROUP,             /* the control group is near the limit of its memory */
        DAEMON_PAUSE_HOSTS,             /* the turn of other hosts */
};

/* How often the loop reads the rings: daemon-loop.c. */
enum daemon_pace {
        DAEMON_PACE_NEWS,               /* something is new */
        DAEMON_PACE_CALM,               /* samples flow, and can wait */
        DAEMON_PACE_ASLEEP,             /* no sample flows */
};

/* The event loop: its sources, and when it looks next. Times are MONOTONIC, here and below. */
typedef struct DaemonLoop {
        sd_event *event;
        sd_event_source *drain_timer, *window_timer, *second_timer, *work_timer;
        sd_event_source *wake_source;   /* on while the loop sleeps */
        sd_event_source *call_source;
        sd_event_source *turn;          /* on while the first samples are on their way */
        sd_event_source *tables_work, *tables_ready, *threads_ready, *copies_ready, *recordings_ready;
        ClockWatch *clock_watch;
        enum daemon_pace pace;
        uint64_t clock_ns, news_ns;     /* last drain by its own clock; last one that found something new */
        bool found_none;                /* … no sample since the one before */
        bool listens, was_called;       /* since the last drain: calls are wanted; one came */
        uint64_t woken_ns, woken_before_ns;     /* the last two wake-ups; 0 = none */
        uint64_t drained_ns;            /* when the last read of the rings began: all from before is known */
        uint64_t n_lost_notices;        /* lost notices that a resync has answered */
} DaemonLoop;

/* Wakes the loop for the rings before its own clock does. */
typedef struct DaemonCalls {
        sd_event_source *notices;       /* edges of the notices' ring */
        sd_event_source *timer;         /* the answer, or a look; NULL = the loop is not set up, or ends */
        CallBudget budget;
        bool hears;                     /* the kernel half has been told to call */
        bool is_called;                 /* the timer is for the answer */
        unsigned n_looks;               /* looks that have followed the last answer */
        SamplerDrained drained;         /* by such drains since the loop's own clock drained last */
} DaemonCalls;

/* The stages that a sample passes, and what they share. */
typedef struct DaemonStages {
        ObjectCache *objects;
        ThreadReader *threads;          /* NULL = this process reads thread symbols itself */
        Targets *targets;
        Sampler *sampler;
        CoroJoin *coroutines;
        sd_event_source *coroutines_timer;      /* as often as their stations need it */
        Tables *tables;
        Frames *frames;
        Naming *naming;
        Runtimes *runtimes;
        ReaderLinks *readers;           /* NULL = this process reads memory of runtimes itself, as below */
        HotspotLinks *jvms;             /* NULL = the same of JVMs */
        FileLinks *pythons;             /* NULL = the same of CPython */
        FileLinks *v8s;                 /* NULL = the same of V8 */
        FileLinks *phps;                /* NULL = the same of PHP */
        FileLinks *beams;               /* NULL = the same of Erlang */
        FileLinks *rubies;              /* NULL = the same of Ruby */
        GoWants go_wants;
        Aggregator *aggregator;
        LiveSet *live;                  /* NULL = allocations are not kept */
        SpanCpu *span_cpu;              /* NULL = no sums are shown */
        SpanCpu *span_bytes;            /* what threads of Java allocate; NULL = it is not read */
        Exports *exports;               /* NULL with a sink */
        Recordings *recordings;         /* NULL = not wanted, or not possible */
        Heaps *heaps;                   /* the same, as the next */
        MemoryWatch *memory_watch;      /* for heaps */
        uint64_t memory_told_ns;        /* when it was told of programs last */
        sd_event_source *memory_timer;
        Recorder *recorder;             /* NULL = none is wanted; of the totals */
        RecorderRules *recorder_rules;  /* NULL = there are no rules */
        Uploads *uploads;               /* NULL = not wanted, or not possible */
        DebugFetcher *fetcher;          /* the same */
        Text exports_json;              /* part of the summary: what each receiver got, at the end */
} DaemonStages;

/* The open window, and the sampler's counts when it began. */
typedef struct DaemonWindow {
        uint64_t start_ns;
        uint64_t n_entries, n_throttled;
        double programmed;              /* entries that the periods stand for */
        double sampled;                 /* samples that those of all windows before stand for */
        uint64_t n_boosted;             /* ticks of boosted processes */
        uint64_t n_unknown_losses;      /* COUNTER_FREES_LOSERS_FULL, as what is alive was checked */
        uint32_t ticks;                 /* of a CPU, for one sample of who is not boosted */
        uint64_t tick_ns;               /* from one tick to the next while there were more; 0 = never */
        uint64_t target_cpu_ns;         /* CPU time of all targets, as seen until then */
        uint32_t n_cpus;                /* sampled CPUs, when sampling began or went on */
} DaemonWindow;

/* Walks on the host: stage-walks.c. */
typedef struct DaemonWalks {
        WalkStages stages;
        Deferred *deferred;
        Goroutines *goroutines;         /* NULL = not wanted, and so are the next two */
        LongWaits *long_waits;
        WaitLocks *wait_locks;
        EarlyWaits early;
        sd_event_source *goroutines_timer;
        sd_event_source *wait_locks_timer;
        sd_event_source *long_waits_timer;      /* off while no wait is without a stack */
} DaemonWalks;

/* Other spanprofs that sample a target, too: stage-others.c. */
typedef struct DaemonOthers {
        OtherProfilers profilers;
        bool warned;
} DaemonOthers;

typedef struct DaemonPause {
        unsigned reasons;               /* bits, by enum daemon_pause */
        bool is_on;                     /* the samplers are off */
        uint64_t since_ns;
        uint64_t disabled_look_ns;      /* no earlier look for /etc/spanprof/disabled */
} DaemonPause;

typedef struct DaemonLimits {
        GroupLimit group;               /* limits of our control group */
        MemoryHold hold;
        Governor governor;
        Volume volume;
        SwitchLimit switches;
        uint64_t sent_bytes;            /* bytes of all requests until the window began */
        Boosts boosts;
        HostShare hosts;                /* `sample-hosts` */
        uint64_t host;                  /* host_share_number() */
} DaemonLimits;

typedef struct DaemonStop {
        DaemonReload reload;            /* NULL = SIGHUP stops */
        void *reload_userdata;
        uint64_t time_ns;               /* 0 = still sampling */
        StopSignals signals;
        bool is_reload;                 /* the stop is for a new configuration */
        bool lost_workers;              /* the reason: there are no workers any more */
} DaemonStop;

enum {
        DAEMON_KEEPS_LATER = 60,        /* in a minute, too */
        DAEMON_KEEPS_KNOWN = 256,       /* chosen traces, whose spans come in several requests */
};

/* Asks of the flight recorder whose samples are not shipped yet, oldest first: stage-recorder.c. */
typedef struct DaemonKeeps {
        struct {
                RecorderAsk ask;
                uint64_t next, end;     /* numbers of requests: the next one, and behind the last one */
        } items[128];
        size_t n;
        sd_event_source *turn;          /* on while there are some */
        uint64_t closed_ns;             /* MONOTONIC: when a window was ended on request last */
        /* Traces that others have chosen, asked for as the window closes: stage-recorder-spans.c. */
        RecorderAsk later[DAEMON_KEEPS_LATER];
        size_t n_later;
        MinuteLimit chosen;
        uint8_t known[DAEMON_KEEPS_KNOWN][16];
        uint32_t n_known;               /* in all: the oldest goes first */
        Receiver *receiver;             /* NULL = nobody chooses */
        uint64_t retry_ns;              /* MONOTONIC: its place is taken until then; 0 = it is not */
        uint64_t n_unauthorized, n_unread;      /* requests of the receiver that were counted */
        Bearer tokens;                  /* tokens that let one ask by HTTP, or choose */
} DaemonKeeps;

/* Of a resource of the open window: its process and build. */
typedef struct DaemonWatchSlot {
        uint32_t pid;                   /* 0 = none yet */
        bool is_mixed;                  /* of several programs */
        uint64_t start_time_ns;
        char build[SKETCH_BUILD];       /* "" = not known */
        char program[WATCH_PROGRAM];
} DaemonWatchSlot;

/* Builds that are watched: stage-watch.c. */
typedef struct DaemonWatch {
        DaemonWatchSlot *slots;         /* by resource */
        uint32_t room;
        uint64_t saved_ns;              /* MONOTONIC */
        bool has_failed;                /* the last attempt to save them: it was said */
} DaemonWatch;

struct Daemon {
        const Config *config;
        DaemonTotals *totals;
        const DaemonSink *sink;         /* NULL = the exports take the windows */
        ConfigSelector selection;
        const Selector *selector;       /* selector of `selection` */
        DaemonLoop loop;
        DaemonCalls calls;
        DaemonStages stages;
        DaemonWindow window;
        DaemonWalks walks;
        DaemonKeeps keeps;
        DaemonWatch watch;
        DaemonOthers others;
        DaemonPause pause;
        DaemonLimits limits;
        DaemonStop stop;
        Environment own;                /* `resource-attributes` */
        AttributeFilter filter;         /* attributes that may be sent */
        PodNames *pods;                 /* NULL = not wanted */
        PodApi *pod_api;                /* lists for them; NULL = not wanted */
        Control *control;
        uint64_t start_ns;
        uint64_t sampling_ns;           /* when the events were opened */
        uint64_t target_cpu_ns;         /* CPU time of all targets, when sampling stopped */
        CoverageFacts coverage;         /* when the last window ended */
};

/* Only processes by their number were chosen: when they are gone, the daemon is done. */
static inline bool daemon_has_pids_alone(const Daemon *daemon) {
        return !selector_takes_publishers(daemon->selector) && !selector_is_by_name(daemon->selector);
}

/* Samples that are exported, Hz: what all limits allow. */
static inline uint32_t daemon_frequency(const Daemon *daemon) {
        const DaemonLimits *limits = &daemon->limits;

        return MIN(MIN(limits->governor.frequency, limits->volume.frequency), limits->hold.frequency);
}

/* Ticks of a CPU for one sample of who is not boosted: a flight recorder has all of them. */
static inline uint32_t daemon_ticks_per_sample(const Daemon *daemon) {
        const DaemonLimits *limits = &daemon->limits;
        uint32_t recorded = limits->governor.holds_more ? 1 : config_ticks_per_sample(daemon->config);

        return MAX(recorded, boosts_ticks(&limits->boosts, (uint32_t)daemon->config->sampling.frequency));
}

/* Ticks of a CPU, Hz. */
static inline uint32_t daemon_tick_frequency(const Daemon *daemon) {
        return daemon_frequency(daemon) * daemon_ticks_per_sample(daemon);
}

/* The open window has these ticks from its begin on. */
static inline void daemon_begin_ticks(Daemon *daemon) {
        daemon->window.ticks = daemon_ticks_per_sample(daemon);
        if (daemon->window.ticks > 1)
                daemon->window.tick_ns = NS_PER_SEC / daemon_tick_frequency(daemon);
}

/* What one tick stands for that runs of @process are split by, in the open window. */
static inline uint64_t daemon_tick_ns(const Daemon *daemon, const Process *process) {
        const uint32_t ticks = daemon->window.ticks;
        bool has_all = ticks > 1 && (config_ticks_per_sample(daemon->config) > 1 ||
                                     boosts_mean(&daemon->limits.boosts, process));

        return NS_PER_SEC / (daemon_frequency(daemon) * (has_all ? ticks : 1));
}
