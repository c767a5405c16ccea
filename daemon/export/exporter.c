/* SPDX-License-Identifier: Apache-2.0 */
#include "export/exporter.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "export/batch.h"
#include "export/endpoint.h"
#include "export/http.h"
#include "export/journal.h"
#include "export/queue.h"
#include "export/response.h"
#include "export/retry.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/log.h"
#include "util/stat.h"

struct Exporter {
        sd_event *event;
        bool gzip;
        RetryPolicy policy;
        Http *http;
        Queue queue;
        Batch *flying;
        sd_event_source *retry_timer;   /* on while a receiver in trouble is given time */
        bool waiting;

        unsigned n_failures;            /* in a row */
        uint64_t trouble_since_ns;
        ExportJournal journal;

        bool stopping;
        sd_event_source *deadline_timer, *finished;
        void (*done)(void *userdata);
        void *userdata;
};

static void send_next(Exporter *exporter);

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
        if (!dropped->n_batches)
                return;
        count_lost(COUNTER_LOST_EXPORT_QUEUE, dropped);
        journal_overflow(&exporter->journal, exporter->queue.max_bytes, dropped->n_events);
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
        if (!exporter->n_failures)
                return;
        journal_well_again(&exporter->journal, clock_monotonic_ns() - exporter->trouble_since_ns, exporter->n_failures,
                           exporter->queue.n_batches);
        exporter->n_failures = 0;
}

static void accepted(Exporter *exporter, Batch *batch, const HttpReply *reply) {
        Response response;
        uint64_t n_lost;

        well_again(exporter);
        response_read_reply(&response, reply);
        n_lost = batch_rejected_events(batch, response.n_rejected);
        stat_add(COUNTER_EXPORT_OK, 1);
        stat_add(COUNTER_EXPORT_BYTES, batch->size);
        stat_add(COUNTER_SAMPLES_DELIVERED, batch->n_events - n_lost);
        stat_add(COUNTER_LOST_EXPORT_REJECTED, n_lost);
        if (response.n_rejected)
                journal_rejected(&exporter->journal, &response, batch, n_lost);
        else
                journal_accepted(&exporter->journal, reply, &response);
        batch_free(batch);
}

static void refused(Exporter *exporter, Batch *batch, const HttpReply *reply) {
        /* A status, if a bad one, shows that the receiver is there: the next batch has its own chance. */
        if (!reply->fault)
                exporter->n_failures = 0;
        journal_failed(&exporter->journal, LOG_LEVEL_ERROR, reply, "dropped %llu samples",
                       (unsigned long long)batch->n_events);
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
        failed(exporter);
        journal_failed(&exporter->journal, LOG_LEVEL_ERROR, reply, "tried for too long, dropped %llu samples",
                       (unsigned long long)batch->n_events);
        lose(batch, COUNTER_LOST_EXPORT_AGE);
        hold_off(exporter, wait_ns);
}

static void try_later(Exporter *exporter, Batch *batch, const HttpReply *reply, uint64_t wait_ns) {
        QueueDropped dropped = { 0 };

        failed(exporter);
        stat_add(COUNTER_EXPORT_RETRIES, 1);
        queue_return(&exporter->queue, batch, &dropped);
        journal_failed(&exporter->journal, LOG_LEVEL_WARNING, reply, "%llu samples wait, next try in %.1f s",
                       (unsigned long long)exporter->queue.n_events, (double)wait_ns / NS_PER_SEC);
        lose_overflow(exporter, &dropped);
        hold_off(exporter, wait_ns);
}

static void lose_at_stop(Exporter *exporter, Batch *batch, const HttpReply *reply) {
        journal_failed(&exporter->journal, LOG_LEVEL_WARNING, reply, "stopping, lost %llu samples",
                       (unsigned long long)batch->n_events);
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
        exporter->journal.url = strdup(config->endpoint);
        if (!exporter->journal.url)
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
        free(exporter->journal.url);
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
