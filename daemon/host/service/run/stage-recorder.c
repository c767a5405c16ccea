/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The flight recorder, with --recorder: takes each window once it was exported, and hands out what it has.
 *
 *     POST /recorder/close       ends the window, so that all until now is in the recorder; once a second
 *     GET  /recorder/list[/…]    what may have it (recorder-ask.h), a line each: NUMBER START END SIZE; after
 *                                32,768 of them, `more`
 *     GET  /recorder/get/NUMBER  one of these: an OTLP request, packed by gzip
 *     POST /recorder/keep/…      ends the window, then ships what is meant to the receivers, as kept_… types
 *
 * Who asks gets one request at a time, which is 256 KiB at most: an answer is a copy, and the cap of the
 * recorder counts none. What is shipped is read back and filtered here, one request each turn of the loop, so
 * that samples are read meanwhile, and not while much else waits for the receivers. Rules of the
 * configuration ask as a window closes. The recorder outlives a reload, as what it has was sampled before;
 * rules do not.
 */

#include "host/service/run/stages.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "host/service/config/backend.h"
#include "host/service/recorder/recorder-keep.h"
#include "host/service/recorder/recorder-rules.h"
#include "host/service/run/daemon-flow.h"
#include "host/service/run/daemon-govern.h"

/* From one end of a window on request to the next: each is work, and one more request for the receivers. */
#define CLOSES_APART_NS NS_PER_SEC
/* Of what was asked for at the stop: time for it, and bytes that may wait for receivers. */
#define LAST_NS NS_PER_SEC
#define LAST_BYTES (4 << 20)

static size_t max_bytes(const Daemon *daemon) {
        return recorder_room(group_limit_spare(&daemon->limits.group),
                             daemon->config->daemon.max_memory_bytes);
}

static bool is_wanted(const Daemon *daemon) {
        return !daemon->sink && daemon->config->sampling.recorder_ns;
}

/* A reload's predecessor leaves what it has as it is: the new configuration may still be refused. */
static int make(Daemon *daemon) {
        const char *tokens = daemon->config->sampling.recorder_token;
        DaemonTotals *totals = daemon->totals;
        int r = *tokens ? bearer_read(&daemon->keeps.tokens, "recorder-token", tokens) : 0;

        if (r)
                return r > 0 ? DAEMON_E_UNUSABLE : error_fold(r);
        if (is_wanted(daemon) && !totals->recorder)
                r = recorder_new(&totals->recorder);
        if (!r && is_wanted(daemon))
                daemon->stages.recorder = totals->recorder;
        return error_fold(r);
}

static int start(Daemon *daemon) {
        const ConfigSampling *config = &daemon->config->sampling;

        if (!is_wanted(daemon)) {
                daemon->totals->recorder = recorder_free(daemon->totals->recorder);
                return 0;
        }
        if (config->recorder_slower_ns || config->recorder_above_usual) {
                int r = recorder_rules_new(&daemon->stages.recorder_rules);

                if (r)
                        return error_fold(r);
        }
        recorder_set_paths(daemon->stages.recorder, backend_payload(daemon->config).reshape.paths);
        recorder_set_limits(daemon->stages.recorder, config->recorder_ns, max_bytes(daemon),
                            clock_read_ns(CLOCK_REALTIME));
        log_info("a flight recorder keeps %" PRIu64 " s at %u Hz, in %zu MiB at most",
                 config->recorder_ns / NS_PER_SEC,
                 (uint32_t)config->frequency * config_ticks_per_sample(daemon->config),
                 max_bytes(daemon) >> 20);
        return 0;
}

typedef struct List {
        Text *page;
        uint32_t n;
} List;

static int list_request(void *userdata, const RecorderRequest *request, uint64_t start_ns, uint64_t end_ns) {
        List *list = userdata;

        if (list->n == RECORDER_LIST_LINES) {
                text_printf(list->page, RECORDER_LIST_MORE "\n");
                return 1;
        }
        list->n++;
        text_printf(list->page, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %zu\n", request->number, start_ns, end_ns,
                    request->size);
        return 0;
}

/* Return: HTTP status. */
static int parse(const char *path, RecorderAsk *ask, Text *page) {
        if (!recorder_ask_parse(path, ask)) {
                recorder_ask_begin(ask, clock_read_ns(CLOCK_REALTIME));
                return 200;
        }
        text_printf(page, "asked are trace/ID, span/ID, process/PID, start/NS, last/SECONDS, end/NS and reason/WORD, "
                    "each once\n");
        return 400;
}

static int show_list(const Recorder *recorder, const char *path, Text *page) {
        RecorderAsk ask;
        int status = parse(path, &ask, page);

        if (status == 200)
                recorder_each(recorder, &ask.query, list_request, &(List){ page, 0 });
        return status;
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

        if (now_ns - daemon->keeps.closed_ns >= CLOSES_APART_NS && !daemon->stop.time_ns &&
            !daemon->pause.is_on) {
                daemon->keeps.closed_ns = now_ns;
                if (daemon_drain_window(daemon))
                        return 500;
        }
        text_printf(page, "closed\n");
        return 200;
}

/* ---- shipping ---- */

/* The first request from a number on. */
typedef struct Next {
        uint64_t number;
        const RecorderRequest *request; /* NULL = there is none */
} Next;

static int take_next(void *userdata, const RecorderRequest *request, uint64_t start_ns, uint64_t end_ns) {
        Next *next = userdata;

        if (request->number >= next->number)
                next->request = request;
        return next->request != NULL;
}

/* Bytes that were asked for: no frequency is lowered for them. */
static int ship(Daemon *daemon, const RecorderRequest *request, const RecorderAsk *ask) {
        _cleanup_(window_freep) Window *window = NULL;
        uint64_t n_before = exports_submitted_bytes(daemon->stages.exports);
        int r = recorder_keep(request, ask, &window);

        if (r)
                return MIN(r, 0);
        stat_add(COUNTER_RECORDER_SHIPPED, window_n_events(window));
        r = exports_window(daemon->stages.exports, window, NULL);
        daemon->limits.sent_bytes += exports_submitted_bytes(daemon->stages.exports) - n_before;
        return r;
}

/* Windows that the receivers take late would displace the export, in memory and in a spool. */
static bool must_wait(const Daemon *daemon) {
        return exports_are_failing(daemon->stages.exports) ||
                exports_queued_bytes(daemon->stages.exports) >= RECORDER_REQUEST_BYTES;
}

static int set_turns(const DaemonKeeps *keeps, int enabled) {
        int r = sd_event_source_set_enabled(keeps->turn, enabled);

        return r < 0 ? error_origin(r) : 0;
}

/* Ships one request of the first ask, or ends that. */
static int ship_next(Daemon *daemon) {
        DaemonKeeps *keeps = &daemon->keeps;
        Next next = { .number = keeps->items[0].next };

        recorder_each(daemon->stages.recorder, &keeps->items[0].ask.query, take_next, &next);
        if (next.request && next.request->number < keeps->items[0].end) {
                keeps->items[0].next = next.request->number + 1;
                return error_fold(ship(daemon, next.request, &keeps->items[0].ask));
        }
        keeps->n--;
        memmove(keeps->items, keeps->items + 1, keeps->n * sizeof(*keeps->items));
        return 0;
}

/* Those that must wait go on with the next second. */
static int on_keep(sd_event_source *source, void *userdata) {
        Daemon *daemon = userdata;
        int r = must_wait(daemon) ? 0 : ship_next(daemon);

        if (r)
                return error_fold(r);
        return daemon->keeps.n && !must_wait(daemon) ? 0 : set_turns(&daemon->keeps, SD_EVENT_OFF);
}

/* Room for one more request, of any size, beside what waits, and beside what went since @n_before. */
static bool has_last_room(const Daemon *daemon, uint64_t n_before) {
        uint64_t n_since = exports_submitted_bytes(daemon->stages.exports) - n_before,
                 n = MAX((uint64_t)exports_queued_bytes(daemon->stages.exports), n_since);

        return n + RECORDER_REQUEST_BYTES <=
                MIN((uint64_t)LAST_BYTES, daemon->config->delivery.max_queue_bytes / 2);
}

static void refuse_rest(DaemonKeeps *keeps) {
        stat_add(COUNTER_RECORDER_KEEPS_REFUSED, keeps->n + keeps->n_later);
        keeps->n = keeps->n_later = 0;
}

/*
 * At the stop nothing waits any more: what was asked for goes behind the last window, to the receivers or
 * into the spool, as far as both hold it without losing what is exported.
 */
static int ship_rest(Daemon *daemon) {
        const uint64_t end_ns = clock_monotonic_ns() + LAST_NS,
                       n_before = exports_submitted_bytes(daemon->stages.exports);
        DaemonKeeps *keeps = &daemon->keeps;
        int r = 0;

        while (!r && keeps->n && clock_monotonic_ns() < end_ns && has_last_room(daemon, n_before) &&
               (config_spool_is_chosen(daemon->config) || !exports_are_failing(daemon->stages.exports)))
                r = ship_next(daemon);
        refuse_rest(keeps);             /* counters are told before the stage is released */
        return error_fold(r);
}

/* Samples come first: this waits while the rings are read. */
static int begin_turns(Daemon *daemon) {
        DaemonKeeps *keeps = &daemon->keeps;
        int r = keeps->turn ? 0 : sd_event_add_defer(daemon->loop.event, &keeps->turn, on_keep, daemon);

        if (r >= 0)
                r = sd_event_source_set_priority(keeps->turn, SD_EVENT_PRIORITY_IDLE);
        if (r >= 0)
                r = sd_event_source_set_exit_on_failure(keeps->turn, true);
        return r < 0 ? error_origin(r) : set_turns(keeps, SD_EVENT_ON);
}

static bool is_full(const Daemon *daemon) {
        return daemon->keeps.n == ARRAY_SIZE(daemon->keeps.items);
}

/* Ships what is meant of all that the recorder has now. */
static int keep_ask(Daemon *daemon, const RecorderAsk *ask) {
        DaemonKeeps *keeps = &daemon->keeps;

        if (is_full(daemon)) {
                stat_add(COUNTER_RECORDER_KEEPS_REFUSED, 1);
                return 0;
        }
        keeps->items[keeps->n].ask = *ask;
        keeps->items[keeps->n].next = ask->from;
        keeps->items[keeps->n++].end = recorder_next_number(daemon->stages.recorder);
        return daemon->stop.time_ns ? 0 : begin_turns(daemon);
}

/* Traces without room wait for the next window. */
static int keep_chosen(Daemon *daemon) {
        DaemonKeeps *keeps = &daemon->keeps;
        size_t n = 0;
        int r = 0;

        while (!r && n < keeps->n_later && !is_full(daemon))
                r = keep_ask(daemon, &keeps->later[n++]);
        keeps->n_later -= n;
        memmove(keeps->later, keeps->later + n, keeps->n_later * sizeof(*keeps->later));
        return r;
}

static int keep(Daemon *daemon, const char *path, Text *page) {
        RecorderAsk ask;
        int status = parse(path, &ask, page);

        if (status == 200)
                status = close_window(daemon, page);
        if (status != 200)
                return status;
        stat_add(COUNTER_RECORDER_KEEPS, 1);
        if (is_full(daemon) || daemon->stop.time_ns) {
                stat_add(COUNTER_RECORDER_KEEPS_REFUSED, 1);
                text_printf(page, "there is enough to ship already: ask again in a moment\n");
                return 503;
        }
        if (exports_are_failing(daemon->stages.exports)) {
                stat_add(COUNTER_RECORDER_KEEPS_REFUSED, 1);
                text_printf(page, "a receiver fails: ask again when it takes profiles, or write a file with -o\n");
                return 503;
        }
        return keep_ask(daemon, &ask) ? 500 : 200;
}

/* Rules look first: what the recorder has taken in cannot be read any more. */
int daemon_record_window(Daemon *daemon, Window *window, int64_t period_ns) {
        const ConfigSampling *config = &daemon->config->sampling;
        const RecorderLimits limits = { config->recorder_slower_ns, config->recorder_above_usual };
        int64_t tick_ns = period_ns / daemon->window.ticks;
        RecorderAsk asks[RECORDER_RULES_MINUTE];
        size_t n_asks = 0;
        int r = 0;

        if (!daemon->stages.recorder)
                return 0;
        if (daemon->stages.recorder_rules)
                r = recorder_rules_window(daemon->stages.recorder_rules, &limits, window,
                                          recorder_next_number(daemon->stages.recorder), asks, &n_asks);
        if (!r)
                r = recorder_add(daemon->stages.recorder, window, tick_ns, clock_read_ns(CLOCK_REALTIME));
        for (size_t i = 0; i < n_asks && !r; i++)
                r = keep_ask(daemon, &asks[i]);
        if (!r)
                r = keep_chosen(daemon);
        return r || !daemon->stop.time_ns ? error_fold(r) : ship_rest(daemon);
}

static int second(Daemon *daemon) {
        if (daemon->stages.recorder)
                recorder_expire(daemon->stages.recorder, clock_read_ns(CLOCK_REALTIME));
        return daemon->keeps.n ? set_turns(&daemon->keeps, SD_EVENT_ON) : 0;
}

static void stop(Daemon *daemon) {
        daemon->keeps.turn = sd_event_source_disable_unref(daemon->keeps.turn);
}

static void release(Daemon *daemon) {
        stop(daemon);
        refuse_rest(&daemon->keeps);
        daemon->stages.recorder_rules = recorder_rules_free(daemon->stages.recorder_rules);
        bearer_deinit(&daemon->keeps.tokens);
}

/* The rest of @path behind @start; NULL = it begins otherwise. */
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
        rest = is_post ? after(path, "/keep") : NULL;
        if (rest)
                return keep(daemon, rest, page);
        rest = is_post ? NULL : after(path, "/list");
        if (rest)
                return show_list(recorder, rest, page);
        rest = is_post ? NULL : after(path, "/get/");
        if (rest)
                return show_request(recorder, rest, page, typep);
        text_printf(page, "there are /recorder/list, /recorder/get/NUMBER and, by POST, /recorder/close and "
                    "/recorder/keep\n");
        return 404;
}

static void describe(Daemon *daemon, Metrics *metrics) {
        metrics->has_recorder = daemon->stages.recorder;
        if (daemon->stages.recorder)
                metrics->recorder = recorder_state(daemon->stages.recorder);
}

const Stage stage_recorder = {
        .name = "recorder",
        .make = make,
        .start = start,
        .second = second,
        .stop = stop,
        .describe = describe,
        .release = release,
};
