/* SPDX-License-Identifier: Apache-2.0 */
#include "export/exporter.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "export/batch.h"
#include "export/endpoint.h"
#include "export/http.h"
#include "export/queue.h"
#include "export/response.h"
#include "export/retry.h"
#include "export/trouble.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/gzip.h"
#include "util/log.h"
#include "util/stat.h"

#define LOG_INTERVAL_NS (60 * NS_PER_SEC)

struct Exporter {
        sd_event *event;
        char *url;
        bool gzip;
        RetryPolicy policy;
        Http *http;
        Queue queue;
        Batch *flying;
        sd_event_source *retry_timer;   /* on while a receiver in trouble is given time */
        bool waiting;

        unsigned n_failures;            /* in a row */
        uint64_t trouble_since_ns;
        LogLimit limits[TROUBLE_N];

        bool stopping;
        sd_event_source *deadline_timer, *finished;
        void (*done)(void *userdata);
        void *userdata;
};

static void send_next(Exporter *exporter);

/* One line per minute and kind of trouble. Takes @text over. */
static void complain(Exporter *exporter, TroubleKind kind, int level, Text *text) {
        uint64_t n_skipped = 0;

        if (!text->failed && text->data && log_limit(&exporter->limits[kind], LOG_INTERVAL_NS, &n_skipped)) {
                if (n_skipped)
                        text_printf(text, " (%llu like this were not logged)", (unsigned long long)n_skipped);
                log_write(level, "export: %s", text->data);
        }
        text_deinit(text);
}

static void count_lost(enum counter counter, const QueueDropped *dropped) {
        stat_add(counter, dropped->n_events);
        stat_add(COUNTER_EXPORT_DROPPED, dropped->n_batches);
}

static void lose(Batch *batch, enum counter counter) {
        stat_add(counter, batch->n_events);
        stat_add(COUNTER_EXPORT_DROPPED, 1);
        batch_free(batch);
}

static void lose_overflow(Exporter *exporter, const QueueDropped *dropped) {
        Text text = { 0 };

        if (!dropped->n_batches)
                return;
        count_lost(COUNTER_LOST_EXPORT_QUEUE, dropped);
        text_printf(&text, "queue is full (%zu bytes), dropped the oldest %llu samples", exporter->queue.max_bytes,
                    (unsigned long long)dropped->n_events);
        complain(exporter, TROUBLE_QUEUE, LOG_LEVEL_WARNING, &text);
}

/*
 * Counts all that is left as LOST_STOP and forgets a request under way: whether the receiver has it
 * is not known, and what is not known to be delivered is lost.
 */
static QueueDropped abandon(Exporter *exporter) {
        QueueDropped dropped = { 0 };

        if (exporter->flying) {
                http_cancel(exporter->http);
                dropped = (QueueDropped){ 1, exporter->flying->n_events };
                exporter->flying = batch_free(exporter->flying);
        }
        queue_clear(&exporter->queue, &dropped);
        count_lost(COUNTER_LOST_STOP, &dropped);
        return dropped;
}

static void well_again(Exporter *exporter) {
        uint64_t seconds = (clock_monotonic_ns() - exporter->trouble_since_ns) / NS_PER_SEC;
        Text text = { 0 };

        if (!exporter->n_failures)
                return;
        trouble_url(&text, exporter->url);
        log_notice("export: %s takes samples again, after %llu s and %u failed requests; %zu requests wait",
                   text.data ? text.data : "receiver", (unsigned long long)seconds, exporter->n_failures,
                   exporter->queue.n_batches);
        text_deinit(&text);
        exporter->n_failures = 0;
        /* new trouble is news */
        memset(exporter->limits, 0, sizeof(exporter->limits));
}

/* The reply's body in the clear, or nothing. @expandedp keeps what was allocated. */
static void body_of(const HttpReply *reply, const uint8_t **bodyp, size_t *sizep, uint8_t **expandedp) {
        *bodyp = reply->body;
        *sizep = reply->body_size;
        if (!reply->gzip)
                return;
        if (gzip_expand(reply->body, reply->body_size, HTTP_BODY_MAX, expandedp, sizep))
                *sizep = 0;
        *bodyp = *expandedp;
}

static void warn_success(Exporter *exporter, const HttpReply *reply, const Response *response) {
        Text text = { 0 };

        if (!response->message[0] && !response->malformed)
                return;
        trouble_url(&text, exporter->url);
        if (response->malformed)
                text_printf(&text, " answered %d with a body that is no OTLP response (%s); is it a receiver of profiles?",
                            reply->status, reply->content_type[0] ? reply->content_type : "without a type");
        else
                text_printf(&text, " took the samples and says: \"%s\"", response->message);
        complain(exporter, TROUBLE_WARNING, LOG_LEVEL_WARNING, &text);
}

static void warn_rejected(Exporter *exporter, const Batch *batch, const Response *response, uint64_t n_lost) {
        Text text = { 0 };

        trouble_url(&text, exporter->url);
        text_printf(&text, " rejected %llu of %llu profiles (%llu of %llu samples)%s%s%s",
                    (unsigned long long)response->n_rejected, (unsigned long long)batch->n_profiles,
                    (unsigned long long)n_lost, (unsigned long long)batch->n_events,
                    response->message[0] ? ": \"" : "", response->message, response->message[0] ? "\"" : "");
        complain(exporter, TROUBLE_REJECTED, LOG_LEVEL_WARNING, &text);
}

static void accepted(Exporter *exporter, Batch *batch, const HttpReply *reply) {
        _cleanup_(freep) uint8_t *expanded = NULL;
        const uint8_t *body;
        Response response;
        uint64_t n_lost;
        size_t size;

        well_again(exporter);
        body_of(reply, &body, &size, &expanded);
        response_read_success(&response, reply->content_type, body, size);
        /* the rest of a body that was cut off is anybody's guess */
        if (reply->cut || (reply->gzip && !expanded))
                response = (Response){ .malformed = true };
        n_lost = batch_rejected_events(batch, response.n_rejected);
        stat_add(COUNTER_EXPORT_OK, 1);
        stat_add(COUNTER_EXPORT_BYTES, batch->size);
        stat_add(COUNTER_SAMPLES_DELIVERED, batch->n_events - n_lost);
        stat_add(COUNTER_LOST_EXPORT_REJECTED, n_lost);
        if (response.n_rejected)
                warn_rejected(exporter, batch, &response, n_lost);
        else
                warn_success(exporter, reply, &response);
        batch_free(batch);
}

static void describe(Exporter *exporter, Text *text, const HttpReply *reply) {
        _cleanup_(freep) uint8_t *expanded = NULL;
        const uint8_t *body;
        Response response = { 0 };
        size_t size;

        if (!reply->fault) {
                body_of(reply, &body, &size, &expanded);
                response_read_error(&response, reply->content_type, body, size);
        }
        trouble_describe(text, exporter->url, reply, response.message);
}

static void refused(Exporter *exporter, Batch *batch, const HttpReply *reply) {
        Text text = { 0 };

        /* A status, if a bad one, shows that the receiver is there: the next batch has its own chance. */
        if (!reply->fault)
                exporter->n_failures = 0;
        describe(exporter, &text, reply);
        text_printf(&text, "; dropped %llu samples", (unsigned long long)batch->n_events);
        complain(exporter, trouble_kind(reply), LOG_LEVEL_ERROR, &text);
        lose(batch, COUNTER_LOST_EXPORT_REFUSED);
}

static void failed(Exporter *exporter) {
        if (exporter->n_failures++ == 0)
                exporter->trouble_since_ns = clock_monotonic_ns();
}

static void hold_off(Exporter *exporter, uint64_t wait_ns) {
        if (exporter->stopping)
                return;
        exporter->waiting = sd_event_source_set_time_relative(exporter->retry_timer, wait_ns / NS_PER_US) >= 0 &&
                            sd_event_source_set_enabled(exporter->retry_timer, SD_EVENT_ONESHOT) >= 0;
}

static void too_old(Exporter *exporter, Batch *batch, const HttpReply *reply, uint64_t wait_ns) {
        Text text = { 0 };

        failed(exporter);
        describe(exporter, &text, reply);
        text_printf(&text, "; tried for too long, dropped %llu samples", (unsigned long long)batch->n_events);
        complain(exporter, trouble_kind(reply), LOG_LEVEL_ERROR, &text);
        lose(batch, COUNTER_LOST_EXPORT_AGE);
        hold_off(exporter, wait_ns);
}

static void try_later(Exporter *exporter, Batch *batch, const HttpReply *reply, uint64_t wait_ns) {
        QueueDropped dropped = { 0 };
        Text text = { 0 };

        failed(exporter);
        stat_add(COUNTER_EXPORT_RETRIES, 1);
        queue_return(&exporter->queue, batch, &dropped);
        describe(exporter, &text, reply);
        text_printf(&text, "; %llu samples wait, next try in %.1f s", (unsigned long long)exporter->queue.n_events,
                    (double)wait_ns / NS_PER_SEC);
        complain(exporter, trouble_kind(reply), LOG_LEVEL_WARNING, &text);
        lose_overflow(exporter, &dropped);
        hold_off(exporter, wait_ns);
}

static void lose_at_stop(Exporter *exporter, Batch *batch, const HttpReply *reply) {
        Text text = { 0 };

        describe(exporter, &text, reply);
        text_printf(&text, "; stopping, lost %llu samples", (unsigned long long)batch->n_events);
        complain(exporter, trouble_kind(reply), LOG_LEVEL_WARNING, &text);
        lose(batch, COUNTER_LOST_STOP);
}

static void on_reply(const HttpReply *reply, void *userdata) {
        Exporter *exporter = userdata;
        Batch *batch = take(exporter->flying);
        RetryAttempt attempt = {
                .fault = reply->fault,
                .status = reply->status,
                .retry_after = reply->retry_after,
                .now_s = (int64_t)(clock_read_ns(CLOCK_REALTIME) / NS_PER_SEC),
                .n_failures = exporter->n_failures,
                .age_ns = clock_monotonic_ns() - batch->first_try_ns,
        };
        uint64_t wait_ns = 0;

        /* spread only: without entropy everybody waits alike */
        if (getrandom(&attempt.random, sizeof(attempt.random), GRND_NONBLOCK) < 0)
                attempt.random = UINT32_MAX / 2;
        switch (retry_judge(&exporter->policy, &attempt, &wait_ns)) {
        case RETRY_ACCEPTED:
                accepted(exporter, batch, reply);
                break;
        case RETRY_REFUSED:
                refused(exporter, batch, reply);
                break;
        case RETRY_TOO_OLD:
                too_old(exporter, batch, reply, wait_ns);
                break;
        case RETRY_LATER:
                if (exporter->stopping)
                        lose_at_stop(exporter, batch, reply);
                else
                        try_later(exporter, batch, reply, wait_ns);
                break;
        }
        send_next(exporter);
}

/* No request could be made, for want of memory most likely: the same as a receiver that is not there. */
static void not_posted(Exporter *exporter, int error) {
        HttpReply reply = { .fault = HTTP_FAULT_INTERNAL };

        response_clean(reply.error, sizeof(reply.error), strerror(-error), strlen(strerror(-error)));
        on_reply(&reply, exporter);
}

static void finish_stop(Exporter *exporter) {
        sd_event_source_set_enabled(exporter->deadline_timer, SD_EVENT_OFF);
        sd_event_source_set_enabled(exporter->finished, SD_EVENT_ONESHOT);
}

static void send_next(Exporter *exporter) {
        Batch *batch;
        int r;

        if (exporter->flying || exporter->waiting)
                return;
        batch = queue_pop(&exporter->queue);
        if (!batch) {
                if (exporter->stopping)
                        finish_stop(exporter);
                return;
        }
        if (!batch->first_try_ns)
                batch->first_try_ns = clock_monotonic_ns();
        exporter->flying = batch;
        stat_add(COUNTER_EXPORT_REQUESTS, 1);
        r = http_post(exporter->http, batch->data, batch->size, on_reply, exporter);
        if (r)
                not_posted(exporter, r);
}

static int on_retry_time(sd_event_source *source, uint64_t usec, void *userdata) {
        Exporter *exporter = userdata;

        exporter->waiting = false;
        send_next(exporter);
        return 0;
}

static int on_deadline(sd_event_source *source, uint64_t usec, void *userdata) {
        Exporter *exporter = userdata;
        QueueDropped dropped = abandon(exporter);

        if (dropped.n_batches)
                log_warning("export: %llu samples in %llu requests could not be sent in the time to stop",
                            (unsigned long long)dropped.n_events, (unsigned long long)dropped.n_batches);
        finish_stop(exporter);
        return 0;
}

static int on_finished(sd_event_source *source, void *userdata) {
        Exporter *exporter = userdata;

        exporter->done(exporter->userdata);
        return 0;
}

static int new_http(Exporter *exporter, const ExporterConfig *config) {
        char **headers = NULL;
        HttpConfig http = {
                .url = config->endpoint,
                .gzip = config->gzip,
                .timeout_ns = config->timeout_ns ? config->timeout_ns : 10 * NS_PER_SEC,
                .certificate = config->certificate,
                .client_certificate = config->client_certificate,
                .client_key = config->client_key,
        };
        char why[128];
        int r;

        if (!config->endpoint || endpoint_check_url(config->endpoint, why, sizeof(why))) {
                log_error("export: %s", config->endpoint ? why : "no endpoint");
                return EXPORTER_E_ENDPOINT;
        }
        r = endpoint_parse_headers(config->headers ? config->headers : "", &headers, why, sizeof(why));
        if (r == ENDPOINT_E_INVALID) {
                log_error("export: %s", why);
                return EXPORTER_E_HEADERS;
        }
        if (r)
                return error_fold(r);
        http.headers = (const char *const *)headers;
        r = http_new(&exporter->http, exporter->event, &http);
        endpoint_headers_free(headers);
        return r;
}

static int new_sources(Exporter *exporter) {
        int r;

        r = sd_event_add_time(exporter->event, &exporter->retry_timer, CLOCK_MONOTONIC, UINT64_MAX, 0,
                              on_retry_time, exporter);
        if (r < 0)
                return error_origin(r);
        r = sd_event_source_set_enabled(exporter->retry_timer, SD_EVENT_OFF);
        if (r < 0)
                return error_origin(r);
        sd_event_source_set_description(exporter->retry_timer, "export-retry");
        return 0;
}

int exporter_new(Exporter **exporterp, sd_event *event, const ExporterConfig *config) {
        _cleanup_(exporter_freep) Exporter *exporter = calloc(1, sizeof(*exporter));
        int r;

        if (!exporter)
                return error_origin(-ENOMEM);
        exporter->event = sd_event_ref(event);
        exporter->gzip = config->gzip;
        exporter->queue.max_bytes = config->max_queue_bytes ? config->max_queue_bytes : 4 << 20;
        exporter->policy = (RetryPolicy){
                .first_ns = config->retry_first_ns ? config->retry_first_ns : 5 * NS_PER_SEC,
                .max_age_ns = config->max_age_ns ? config->max_age_ns : 900 * NS_PER_SEC,
        };
        if ((r = new_http(exporter, config)) || (r = new_sources(exporter)))
                return r;
        exporter->url = strdup(config->endpoint);
        if (!exporter->url)
                return error_origin(-ENOMEM);
        *exporterp = take(exporter);
        return 0;
}

Exporter *exporter_free(Exporter *exporter) {
        if (!exporter)
                return NULL;
        abandon(exporter);
        http_free(exporter->http);
        sd_event_source_disable_unref(exporter->retry_timer);
        sd_event_source_disable_unref(exporter->deadline_timer);
        sd_event_source_disable_unref(exporter->finished);
        sd_event_unref(exporter->event);
        free(exporter->url);
        free(exporter);
        return NULL;
}

int exporter_submit(Exporter *exporter, const uint8_t *data, size_t size, uint64_t n_events) {
        QueueDropped dropped = { 0 };
        Batch *batch;
        int r;

        r = batch_new(&batch, data, size, n_events, exporter->gzip);
        if (r)
                return error_fold(r);
        queue_push(&exporter->queue, batch, &dropped);
        lose_overflow(exporter, &dropped);
        send_next(exporter);
        return 0;
}

int exporter_stop(Exporter *exporter, uint64_t deadline_ns, void (*done)(void *userdata), void *userdata) {
        int r;

        if (exporter->stopping)
                return error_origin(-EALREADY);
        r = sd_event_add_time(exporter->event, &exporter->deadline_timer, CLOCK_MONOTONIC, deadline_ns / NS_PER_US,
                              1000, on_deadline, exporter);
        if (r < 0)
                return error_origin(r);
        r = sd_event_add_defer(exporter->event, &exporter->finished, on_finished, exporter);
        if (r < 0)
                return error_origin(r);
        sd_event_source_set_enabled(exporter->finished, SD_EVENT_OFF);
        sd_event_source_set_enabled(exporter->retry_timer, SD_EVENT_OFF);
        exporter->done = done;
        exporter->userdata = userdata;
        exporter->stopping = true;
        exporter->waiting = false;
        send_next(exporter);
        return 0;
}

uint64_t exporter_queued_events(const Exporter *exporter) {
        return exporter->queue.n_events + (exporter->flying ? exporter->flying->n_events : 0);
}

size_t exporter_queued_bytes(const Exporter *exporter) {
        return exporter->queue.bytes + (exporter->flying ? exporter->flying->size : 0);
}
