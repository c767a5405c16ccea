/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The flight recorder, with --recorder: takes each window once it was exported, and hands out what it has.
 *
 *     POST /recorder/close       ends the window, so that all until now is in the recorder
 *     GET  /recorder/list[/…]    what may have it (recorder-ask.h), a line each: NUMBER START END SIZE
 *     GET  /recorder/get/NUMBER  one of these: an OTLP request, packed by gzip
 *
 * Who asks gets one request at a time, which is 2 MiB at most: an answer is a copy, and the cap of the
 * recorder counts none. It outlives a reload, as what it has was sampled before.
 */

#include "host/service/run/stages.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "host/service/recorder/recorder-ask.h"
#include "host/service/run/daemon-flow.h"
#include "host/service/run/daemon-govern.h"

/* A window that is shorter is not ended on request: each end is work, and one more request. */
#define LEAST_WINDOW_NS NS_PER_SEC

/* In a small control group, or below a low max-memory, it has a quarter of what caches may have. */
static size_t max_bytes(const Daemon *daemon) {
        uint64_t most = MIN(group_limit_spare(&daemon->limits.group),
                            daemon->config->daemon.max_memory_bytes ?: UINT64_MAX);

        return (size_t)MIN((uint64_t)RECORDER_MAX_BYTES, most / 4);
}

static int make(Daemon *daemon) {
        const ConfigSampling *config = &daemon->config->sampling;
        DaemonTotals *totals = daemon->totals;
        int r = 0;

        if (daemon->sink || !config->recorder_ns) {
                totals->recorder = recorder_free(totals->recorder);
                return 0;
        }
        if (!totals->recorder)
                r = recorder_new(&totals->recorder);
        if (r)
                return error_fold(r);
        daemon->stages.recorder = totals->recorder;
        recorder_set_limits(totals->recorder, config->recorder_ns, max_bytes(daemon),
                            clock_read_ns(CLOCK_REALTIME));
        log_info("a flight recorder keeps %" PRIu64 " s at %u Hz, in %zu MiB at most",
                 config->recorder_ns / NS_PER_SEC,
                 (uint32_t)config->frequency * config_ticks_per_sample(daemon->config),
                 max_bytes(daemon) >> 20);
        return 0;
}

static int second(Daemon *daemon) {
        if (daemon->stages.recorder)
                recorder_expire(daemon->stages.recorder, clock_read_ns(CLOCK_REALTIME));
        return 0;
}

int daemon_record_window(Daemon *daemon, Window *window, int64_t period_ns) {
        int64_t tick_ns = period_ns / config_ticks_per_sample(daemon->config);

        if (!daemon->stages.recorder)
                return 0;
        return recorder_add(daemon->stages.recorder, window, tick_ns, clock_read_ns(CLOCK_REALTIME));
}

static int list_request(void *userdata, const RecorderRequest *request, uint64_t start_ns, uint64_t end_ns) {
        text_printf(userdata, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %zu\n", request->number, start_ns, end_ns,
                    request->size);
        return 0;
}

static int show_list(const Recorder *recorder, const char *path, Text *page) {
        RecorderQuery query;

        if (recorder_ask_parse(path, &query)) {
                text_printf(page, "asked are trace/ID, start/NS and end/NS, each once\n");
                return 400;
        }
        recorder_each(recorder, &query, list_request, page);
        return 200;
}

static int show_request(const Recorder *recorder, const char *number, Text *page, const char **typep) {
        const RecorderRequest *request;
        uint64_t value;

        if (text_u64(number, UINT64_MAX, &value)) {
                text_printf(page, "a number is asked for, of /recorder/list\n");
                return 400;
        }
        request = recorder_find(recorder, value);
        if (!request) {
                text_printf(page, "it is gone: newer windows have its place\n");
                return 410;
        }
        text_append(page, (const char *)request->data, request->size);
        *typep = "application/gzip";
        return 200;
}

static int close_window(Daemon *daemon, Text *page) {
        uint64_t now_ns = clock_monotonic_ns();

        if (now_ns - MIN(now_ns, daemon->window.start_ns) >= LEAST_WINDOW_NS && !daemon->stop.time_ns &&
            !daemon->pause.is_on && daemon_drain_window(daemon))
                return 500;
        text_printf(page, "closed\n");
        return 200;
}

/* What follows @start in @path; NULL = it begins otherwise. */
static const char *after(const char *path, const char *start) {
        return strncmp(path, start, strlen(start)) ? NULL : path + strlen(start);
}

int daemon_recorder_page(Daemon *daemon, bool is_post, const char *path, Text *page, const char **typep) {
        const Recorder *recorder = daemon->stages.recorder;
        const char *rest;

        if (!recorder) {
                text_printf(page, "there is no flight recorder: set recorder = 10m\n");
                return 404;
        }
        if (is_post && !strcmp(path, "/close"))
                return close_window(daemon, page);
        rest = is_post ? NULL : after(path, "/list");
        if (rest)
                return show_list(recorder, rest, page);
        rest = is_post ? NULL : after(path, "/get/");
        if (rest)
                return show_request(recorder, rest, page, typep);
        text_printf(page, "there are /recorder/list, /recorder/get/NUMBER and, by POST, /recorder/close\n");
        return 404;
}

static void describe(Daemon *daemon, Metrics *metrics) {
        metrics->has_recorder = daemon->stages.recorder;
        if (daemon->stages.recorder)
                metrics->recorder = recorder_state(daemon->stages.recorder);
}

const Stage stage_recorder = { .name = "recorder", .make = make, .second = second, .describe = describe };
