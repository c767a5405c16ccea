/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A sampler of traces at their end tells the flight recorder which ones were chosen, with --recorder-listen:
 * a receiver of OTLP spans, so that a Collector's tail_sampling needs nothing but one more exporter.
 *
 *     Collector: tail_sampling ─▶ otlp_http ─▶ POST /v1/traces, with a token ─▶ ids of traces alone
 *                       ─▶ as the window closes: the recorder ships what it has of them
 *
 * A trace is chosen when it is over, so the window that has its end is open or closed by then: it need not be
 * ended for it. Spans themselves are not looked at, and go nowhere.
 */

#include "host/service/run/stages.h"

#include <stdio.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "core/otlp/trace-ids.h"
#include "host/service/config/option-check.h"

enum { REQUEST_BYTES = 2 << 20 };

#define REASON "tail-sampling"
#define RETRY_NS (5 * NS_PER_SEC)

/* Ids come with each span, in several requests. Return: whether it is the first one of its trace. */
static bool is_new(DaemonKeeps *keeps, const uint8_t id[static 16]) {
        for (uint32_t i = 0; i < MIN(keeps->n_known, (uint32_t)DAEMON_KEEPS_KNOWN); i++)
                if (!memcmp(keeps->known[i], id, 16))
                        return false;
        memcpy(keeps->known[keeps->n_known++ % DAEMON_KEEPS_KNOWN], id, 16);
        return true;
}

static void on_id(void *userdata, const uint8_t id[static 16]) {
        Daemon *daemon = userdata;
        DaemonKeeps *keeps = &daemon->keeps;
        RecorderAsk ask = { .query = { .end_ns = UINT64_MAX, .has_trace = true }, .reason = REASON };

        if (!is_new(keeps, id))
                return;
        if (keeps->n_later == ARRAY_SIZE(keeps->later) ||
            !minute_limit(&keeps->chosen, ARRAY_SIZE(keeps->later), clock_monotonic_ns())) {
                stat_add(COUNTER_RECORDER_HOOKS_OVER_RATE, 1);
                return;
        }
        stat_add(COUNTER_RECORDER_HOOKS, 1);
        memcpy(ask.query.trace_id, id, 16);
        keeps->later[keeps->n_later++] = ask;
}

static ReceiverVerdict on_request(const ReceiverRequest *request, char *why, size_t why_size,
                                  void *userdata) {
        if (!request->json && !otlp_trace_ids(request->data, request->size, on_id, userdata))
                return RECEIVER_TAKEN;
        snprintf(why, why_size, "spans are taken as protobuf");
        return RECEIVER_MALFORMED;
}

/* Profiles go on, as without metrics. */
static int go_without(Daemon *daemon) {
        DaemonKeeps *keeps = &daemon->keeps;

        if (!keeps->retry_ns)
                log_write_event(LOG_LEVEL_WARNING, LOG_EVENT_UNSERVED, "recorder-listen",
                                "cannot listen on %s: another process does; runs without and tries again. Stop the "
                                "other one, or set `recorder-listen` to another place",
                                daemon->config->sampling.recorder_listen);
        keeps->retry_ns = clock_monotonic_ns() + RETRY_NS;
        return 0;
}

static int open_receiver(Daemon *daemon) {
        char host[256];
        ReceiverConfig config = { .address = host,
                                  .max_request_bytes = REQUEST_BYTES,
                                  .bearer = &daemon->keeps.tokens,
                                  .path_end = "/v1/traces",
                                  .on_request = on_request,
                                  .userdata = daemon };
        int r = 0;

        if (option_split_address(daemon->config->sampling.recorder_listen, host, sizeof(host), &config.port))
                return DAEMON_E_UNUSABLE;       /* the configuration's check has refused it */
        r = receiver_new(&daemon->keeps.receiver, daemon->loop.event, &config);
        if (r == RECEIVER_E_TAKEN)
                return go_without(daemon);
        daemon->keeps.retry_ns = 0;
        if (!r)
                log_info("chosen traces are taken at %s/v1/traces", receiver_url(daemon->keeps.receiver));
        return r > 0 ? DAEMON_E_UNUSABLE : error_fold(r);
}

static int make(Daemon *daemon) {
        bool is_wanted = daemon->stages.recorder && *daemon->config->sampling.recorder_listen;

        return is_wanted ? open_receiver(daemon) : 0;
}

static void count_refused(DaemonKeeps *keeps) {
        const ReceiverCounts none = { 0 };
        const ReceiverCounts *counts = keeps->receiver ? receiver_counts(keeps->receiver) : &none;
        uint64_t n = counts->n_unauthorized,
                 n_unread = counts->n_malformed + counts->n_misplaced + counts->n_too_large;

        stat_add(COUNTER_RECORDER_HOOKS_UNAUTHORIZED, n - MIN(n, keeps->n_unauthorized));
        stat_add(COUNTER_RECORDER_HOOKS_UNREAD, n_unread - MIN(n_unread, keeps->n_unread));
        keeps->n_unauthorized = n;
        keeps->n_unread = n_unread;
}

static int second(Daemon *daemon) {
        DaemonKeeps *keeps = &daemon->keeps;

        count_refused(keeps);
        return keeps->retry_ns && clock_monotonic_ns() >= keeps->retry_ns ? MIN(open_receiver(daemon), 0) : 0;
}

/* Nobody is told any more. What was goes with the last window. */
static void stop(Daemon *daemon) {
        daemon->keeps.retry_ns = 0;
        count_refused(&daemon->keeps);
        daemon->keeps.receiver = receiver_free(daemon->keeps.receiver);
}

const Stage stage_recorder_spans = {
        .name = "recorder-spans",
        .make = make,
        .second = second,
        .stop = stop,
        .release = stop,
};
