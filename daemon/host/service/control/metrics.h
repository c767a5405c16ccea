/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Metrics
 *
 * The daemon's state as text: for Prometheus, for people, and as JSON. Counters come from the one table
 * (bpf/border/counters.h), so that none can be forgotten here. Values in, text out.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/util/text.h"
#include "host/naming/debug-fetcher.h"
#include "host/naming/naming.h"
#include "host/naming/uploader.h"
#include "host/sampling/aggregate/span-cpu.h"
#include "host/sampling/runtime/runtimes.h"
#include "host/service/config/config.h"
#include "host/service/control/coverage.h"
#include "host/service/control/exports.h"
#include "host/service/control/self.h"
#include "host/service/limits/boosts.h"
#include "host/service/recorder/recorder.h"
#include "host/service/run/kernel-files.h"

typedef struct Metrics {
        uint32_t pid;
        uint64_t age_ns;                /* since the first start */
        uint32_t frequency, nominal_frequency;  /* Hz */
        uint32_t n_cpus;                /* sampled now */
        const char *pause;              /* why nothing is sampled (daemon_pause_reason()); NULL = it is */
        const char *waits_lack;         /* daemon_waits_lack(): NULL = nothing */
        unsigned wait_limit;            /* enum abi_wait_limit */
        const char *unready;            /* the reason why it is not ready, NULL = ready */
        uint64_t n_targets, n_processes;
        uint64_t queued_events, queued_bytes, unsaved_events;
        size_t lacking_spools;          /* receivers whose spool could not be used */
        const Exports *exports;         /* NULL = nothing is shown of single receivers */
        uint64_t exported_ns;           /* since a request was accepted, UINT64_MAX = none was */
        const char *url;                /* URL that profiles go to */
        uint64_t map_bytes;
        NamingState naming;
        const Runtimes *runtimes;       /* NULL = nothing is said of them */
        bool has_uploads;               /* symbols = upload */
        UploaderState uploads;
        bool has_fetcher;               /* debuginfod = on */
        DebugFetcherState fetcher;
        const SpanCpu *span_cpu;        /* NULL = nothing is said of it, as of the next one */
        const SpanCpu *span_bytes;
        bool has_exemplars;             /* … and OpenMetrics may name spans */
        const Config *config;           /* NULL = nothing is said of settings */
        const KernelFiles *files;       /* NULL = nothing is said of them */
        bool has_kernel_symbols;        /* a kernel frame has come, and they were read for it … */
        size_t n_kernel_symbols;        /* … so many */
        bool has_recorder;              /* a flight recorder, */
        RecorderState recorder;         /* … and what it has */
        const Boosts *boosts;           /* what is boosted; NULL = nothing is said of it */
        uint32_t tick_frequency;        /* Hz, of these */
        bool is_held;                   /* max-cpu leaves a recorder no ticks of its own */
        CoverageFacts coverage;         /* until the last window ended */
        Self self;
} Metrics;

/* Text format 0.0.4 of Prometheus. */
void metrics_print(Text *text, const Metrics *metrics);

/* OpenMetrics 1.0, with exemplars. */
void metrics_print_open(Text *text, const Metrics *metrics);

/* Rights of the daemon itself, and files that it can read, as lines NAME VALUE: for `spanprof doctor`. */
void metrics_print_view(Text *text, const Metrics *metrics);

/* For `spanprof status`. */
void metrics_print_status(Text *text, const Metrics *metrics);
void metrics_print_json(Text *text, const Metrics *metrics);
