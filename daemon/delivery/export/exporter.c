/* SPDX-License-Identifier: Apache-2.0 */

/* Takes batches; makes and ends it all. */

#include "delivery/export/exporter.h"

#include <errno.h>
#include <string.h>

#include "base/util/clock.h"
#include "base/util/error.h"
#include "base/util/log.h"
#include "delivery/export/endpoint.h"
#include "delivery/export/exporter-private.h"

void exporter_add_lost(Exporter *exporter, enum counter counter, const QueueDropped *dropped) {
        exporter_add(exporter, counter, dropped->n_events);
        exporter_add(exporter, COUNTER_EXPORT_DROPPED, dropped->n_batches);
}

void exporter_lose(Exporter *exporter, Batch *batch, enum counter counter) {
        exporter_leave_spool(exporter, batch);
        exporter_add(exporter, counter, batch->n_events);
        exporter_add(exporter, COUNTER_EXPORT_DROPPED, 1);
        batch_free(batch);
}

void exporter_lose_overflow(Exporter *exporter, const QueueDropped *dropped) {
        if (!dropped->n_batches)
                return;
        exporter_add_lost(exporter, COUNTER_LOST_EXPORT_QUEUE, dropped);
        export_log_overflow(&exporter->journal, exporter->queue.max_bytes, dropped->n_events);
}

/* What the disk has is not lost. */
static void discard(Batch *batch, QueueDropped *dropped) {
        dropped->n_batches += !batch->is_spooled;
        dropped->n_events += batch->is_spooled ? 0 : batch->n_events;
        batch_free(batch);
}

/*
 * Everything that is left goes to the spool; without one it is counted as LOST_STOP. A request under way is
 * forgotten: whether the receiver has it is not known, and what is not known to be delivered is not.
 */
static QueueDropped abandon(Exporter *exporter) {
        QueueDropped dropped = { 0 };
        Batch *batch;

        exporter->ending = true;
        if (exporter->flying) {
                http_cancel(exporter->http);
                batch = take(exporter->flying);
                if (!exporter_put_away(exporter, batch))
                        discard(batch, &dropped);
        }
        exporter_keep_queue(exporter);
        queue_clear(&exporter->queue, &dropped);
        exporter_add_lost(exporter, COUNTER_LOST_STOP, &dropped);
        exporter_finish_spool(exporter);
        return dropped;
}

static int on_retry_time(sd_event_source *source, uint64_t usec, void *userdata) {
        Exporter *exporter = userdata;

        exporter->waiting = false;
        exporter_send_next(exporter);
        return 0;
}

static int on_deadline(sd_event_source *source, uint64_t usec, void *userdata) {
        Exporter *exporter = userdata;
        QueueDropped dropped = abandon(exporter);

        if (dropped.n_batches)
                log_warning("export: %llu samples in %llu requests could not be sent in the time to stop",
                            (unsigned long long)dropped.n_events, (unsigned long long)dropped.n_batches);
        exporter_finish_stop(exporter);
        return 0;
}

static int on_finished(sd_event_source *source, void *userdata) {
        Exporter *exporter = userdata;

        exporter->ending = true;
        exporter_finish_spool(exporter);        /* we may be freed by done(), and its results want us */
        exporter->done(exporter->userdata);
        return 0;
}

static int new_http(Exporter *exporter, const ExporterConfig *config) {
        char **headers = NULL;
        HttpConfig http = {
                .url = config->endpoint,
                .gzip = config->gzip,
                .json = config->convert != NULL,
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
        return r == HTTP_E_LIBRARY ? EXPORTER_E_LIBRARY : r;
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
        exporter->convert = config->convert;
        exporter->secondary = config->secondary;
        exporter->flush_after_ns = config->spool_flush_after_ns ? config->spool_flush_after_ns
                                                                : 2 * NS_PER_SEC;
        exporter->time_limit_ns = config->spool_time_limit_ns ? config->spool_time_limit_ns : 3 * NS_PER_SEC;
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
        if (config->spool) {
                r = exporter_open_spool(exporter, config);
                if (r < 0 || (r && config->spool_required))
                        return r;
                if (!r)                 /* what an earlier one left */
                        exporter_hold_off(exporter, 0);
        }
        *exporterp = take(exporter);
        return 0;
}

Exporter *exporter_free(Exporter *exporter) {
        if (!exporter)
                return NULL;
        abandon(exporter);
        spool_worker_free(exporter->spool);
        http_free(exporter->http);
        sd_event_source_disable_unref(exporter->retry_timer);
        sd_event_source_disable_unref(exporter->flush_timer);
        sd_event_source_disable_unref(exporter->deadline_timer);
        sd_event_source_disable_unref(exporter->finished);
        sd_event_unref(exporter->event);
        free(exporter->journal.url);
        free(exporter);
        return NULL;
}

/* Into memory; what has no room there goes to the disk, the oldest first. */
static void enqueue(Exporter *exporter, Batch *batch) {
        QueueDropped dropped = { 0 };
        Batch *oldest;

        while (batch->size > exporter->queue.max_bytes - exporter->queue.bytes &&
               (oldest = queue_pop(&exporter->queue)))
                if (!exporter_put_away(exporter, oldest))
                        discard(oldest, &dropped);
        if (batch->size <= exporter->queue.max_bytes || !exporter_put_away(exporter, batch))
                queue_push(&exporter->queue, batch, &dropped);
        exporter_lose_overflow(exporter, &dropped);
}

static int make_batch(Exporter *exporter, Batch **batchp, const ExportRequest *request) {
        _cleanup_(freep) uint8_t *json = NULL;
        ExportRequest converted = *request;
        int r;

        if (!exporter->convert)
                return batch_new(batchp, request, exporter->gzip, false);
        r = exporter->convert(request->data, request->size, true, &json, &converted.size);
        converted.data = json;
        if (!r)
                r = batch_new(batchp, &converted, exporter->gzip, true);
        return r > 0 ? error_origin(-EINVAL) : r;       /* not ours, or not whole: a bug */
}

int exporter_submit(Exporter *exporter, const ExportRequest *request) {
        Batch *batch;
        int r;

        r = make_batch(exporter, &batch, request);
        if (r)
                return error_fold(r);
        exporter->submitted_bytes += batch->size;
        if (!exporter->n_failures)
                exporter_store_ahead(exporter, batch);
        if (!exporter->n_failures || !exporter_put_away(exporter, batch))
                enqueue(exporter, batch);
        exporter_send_next(exporter);
        return 0;
}

int exporter_stop(Exporter *exporter, uint64_t deadline_ns, void (*done)(void *userdata), void *userdata) {
        int r;

        if (exporter->stopping)
                return error_origin(-EALREADY);
        r = sd_event_add_time(exporter->event, &exporter->deadline_timer, CLOCK_MONOTONIC,
                              deadline_ns / NS_PER_US, 1000, on_deadline, exporter);
        if (r < 0)
                return error_origin(r);
        r = sd_event_add_defer(exporter->event, &exporter->finished, on_finished, exporter);
        if (r < 0)
                return error_origin(r);
        sd_event_source_set_enabled(exporter->finished, SD_EVENT_OFF);
        sd_event_source_set_enabled(exporter->retry_timer, SD_EVENT_OFF);
        exporter->deadline_ns = deadline_ns;
        exporter->done = done;
        exporter->userdata = userdata;
        exporter->stopping = true;
        exporter->waiting = false;
        exporter_send_next(exporter);
        return 0;
}

/* One that came from the spool is counted there. */
static bool is_in_memory(const Batch *flying) {
        return flying && (!flying->is_spooled || flying->is_held);
}

uint64_t exporter_queued_events(const Exporter *exporter) {
        return exporter->queue.n_events + (is_in_memory(exporter->flying) ? exporter->flying->n_events : 0) +
               exporter->alone_events + exporter->released_events;
}

size_t exporter_queued_bytes(const Exporter *exporter) {
        return exporter->queue.bytes + (exporter->flying ? exporter->flying->size : 0) +
                exporter->alone_bytes;
}

uint64_t exporter_unsaved_events(const Exporter *exporter) {
        uint64_t n = exporter->alone_events;

        for (const Batch *batch = exporter->queue.first; batch; batch = batch->next)
                n += batch->is_spooled ? 0 : batch->n_events;
        return n + (exporter->flying && !exporter->flying->is_spooled ? exporter->flying->n_events : 0);
}

uint64_t exporter_submitted_bytes(const Exporter *exporter) {
        return exporter->submitted_bytes;
}

uint64_t exporter_spooled_events(const Exporter *exporter) {
        return exporter->spool ? spool_worker_file_events(exporter->spool) : 0;
}

size_t exporter_spooled_batches(const Exporter *exporter) {
        return exporter->spool ? spool_worker_n_files(exporter->spool) : 0;
}

uint64_t exporter_count(const Exporter *exporter, enum counter counter) {
        return exporter->counts[counter];
}

bool exporter_is_failing(const Exporter *exporter) {
        return exporter->n_failures;
}

uint64_t exporter_accepted_ns(const Exporter *exporter) {
        return exporter->accepted_ns;
}
