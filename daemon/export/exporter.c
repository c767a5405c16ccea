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
#include "export/spool-worker.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/log.h"
#include "util/stat.h"

struct Exporter {
        sd_event *event;
        bool gzip;
        ExportConvert convert;          /* requests are sent as JSON */
        RetryPolicy policy;
        Http *http;
        Queue queue;
        Batch *flying;
        sd_event_source *retry_timer;   /* on while a receiver in trouble is given time */
        bool waiting;

        unsigned n_failures;            /* in a row */
        uint64_t trouble_since_ns, accepted_ns;

        SpoolWorker *spool;             /* NULL = none */
        bool fetching;                  /* its oldest batch is being read */
        bool was_spooled;               /* the last one that was sent: old and new take turns */
        SpoolEntry tried;               /* of the spool, and since when without success */
        uint64_t tried_since_ns;
        bool no_other;                  /* the spool holds nothing behind the one that was tried */
        bool ending;                    /* what the disk does not take now is lost */

        ExportJournal journal;

        bool secondary;
        uint64_t submitted_bytes;
        uint64_t counts[COUNTER_N];

        bool stopping;
        sd_event_source *deadline_timer, *finished;
        void (*done)(void *userdata);
        void *userdata;
};

static void send_next(Exporter *exporter);
static void on_reply(const HttpReply *reply, void *userdata);
static void not_posted(Exporter *exporter, int error);

static void count(Exporter *exporter, enum counter counter, uint64_t n) {
        exporter->counts[counter] += n;
        if (!exporter->secondary)
                stat_add(counter, n);
}

static void count_lost(Exporter *exporter, enum counter counter, const QueueDropped *dropped) {
        count(exporter, counter, dropped->n_events);
        count(exporter, COUNTER_EXPORT_DROPPED, dropped->n_batches);
}

static bool is_tried(const Exporter *exporter, const Batch *batch) {
        return batch->is_spooled && batch->spooled.time_ns == exporter->tried.time_ns &&
               batch->spooled.sequence == exporter->tried.sequence;
}

/* Takes a batch that is done with, one way or the other, out of the spool. */
static void leave_spool(Exporter *exporter, const Batch *batch) {
        if (!batch->is_spooled)
                return;
        if (is_tried(exporter, batch))
                exporter->tried = (SpoolEntry){ 0 };
        count(exporter, COUNTER_SPOOL_TAKEN, batch->n_events);
        spool_worker_remove(exporter->spool, &batch->spooled);
}

static void lose(Exporter *exporter, Batch *batch, enum counter counter) {
        leave_spool(exporter, batch);
        count(exporter, counter, batch->n_events);
        count(exporter, COUNTER_EXPORT_DROPPED, 1);
        batch_free(batch);
}

static void lose_overflow(Exporter *exporter, const QueueDropped *dropped) {
        if (!dropped->n_batches)
                return;
        count_lost(exporter, COUNTER_LOST_EXPORT_QUEUE, dropped);
        journal_overflow(&exporter->journal, exporter->queue.max_bytes, dropped->n_events);
}

/* Takes @batch over and gives it to the spool, if there is one and it keeps up. */
static bool spool(Exporter *exporter, Batch *batch) {
        if (!exporter->spool)
                return false;
        if (!exporter->ending && spool_worker_waiting_bytes(exporter->spool) + batch->size > exporter->queue.max_bytes)
                return false;
        return !spool_worker_put(exporter->spool, batch);
}

/* A batch that could not be sent now: it stays in the spool, goes there, or waits in memory. */
static void keep(Exporter *exporter, Batch *batch) {
        QueueDropped dropped = { 0 };

        if (batch->is_spooled)
                batch_free(batch);
        else if (!spool(exporter, batch))
                queue_return(&exporter->queue, batch, &dropped);
        lose_overflow(exporter, &dropped);
}

/* With the receiver in trouble, what waits in memory goes to the disk, oldest first. */
static void keep_queue(Exporter *exporter) {
        Batch *batch;

        while (exporter->spool && (batch = queue_pop(&exporter->queue)))
                if (!spool(exporter, batch)) {
                        keep(exporter, batch);
                        return;
                }
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
                if (batch->is_spooled || spool(exporter, batch)) {
                        if (batch->is_spooled)
                                batch_free(batch);
                } else {
                        dropped = (QueueDropped){ 1, batch->n_events };
                        batch_free(batch);
                }
        }
        keep_queue(exporter);
        queue_clear(&exporter->queue, &dropped);
        count_lost(exporter, COUNTER_LOST_STOP, &dropped);
        if (exporter->spool)
                spool_worker_finish(exporter->spool);
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
        count(exporter, COUNTER_EXPORT_OK, 1);
        count(exporter, COUNTER_EXPORT_BYTES, batch->size);
        count(exporter, COUNTER_SAMPLES_DELIVERED, batch->n_events - n_lost);
        count(exporter, COUNTER_LOST_EXPORT_REJECTED, n_lost);
        if (response.n_rejected)
                journal_rejected(&exporter->journal, &response, batch, n_lost);
        else
                journal_accepted(&exporter->journal, reply, &response);
        exporter->accepted_ns = clock_monotonic_ns();
        leave_spool(exporter, batch);
        batch_free(batch);
}

static void refused(Exporter *exporter, Batch *batch, const HttpReply *reply) {
        /* A status, if a bad one, shows that the receiver is there: the next batch has its own chance. */
        if (!reply->fault)
                exporter->n_failures = 0;
        journal_failed(&exporter->journal, LOG_LEVEL_ERROR, reply, "dropped %llu samples",
                       (unsigned long long)batch->n_events);
        lose(exporter, batch, COUNTER_LOST_EXPORT_REFUSED);
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
        lose(exporter, batch, COUNTER_LOST_EXPORT_AGE);
        hold_off(exporter, wait_ns);
}

static void try_later(Exporter *exporter, Batch *batch, const HttpReply *reply, uint64_t wait_ns) {
        failed(exporter);
        count(exporter, COUNTER_EXPORT_RETRIES, 1);
        if (batch->is_spooled && !exporter->tried.time_ns) {
                exporter->tried = batch->spooled;
                exporter->tried_since_ns = clock_monotonic_ns();
        }
        keep(exporter, batch);
        keep_queue(exporter);
        journal_failed(&exporter->journal, LOG_LEVEL_WARNING, reply, "%llu samples wait, next try in %.1f s",
                       (unsigned long long)(exporter_queued_events(exporter) + exporter_spooled_events(exporter)), (double)wait_ns / NS_PER_SEC);
        hold_off(exporter, wait_ns);
}

static void lose_at_stop(Exporter *exporter, Batch *batch, const HttpReply *reply) {
        if (exporter->spool) {
                failed(exporter);
                keep(exporter, batch);
                keep_queue(exporter);   /* one attempt was enough to know */
                return;
        }
        journal_failed(&exporter->journal, LOG_LEVEL_WARNING, reply, "stopping, lost %llu samples",
                       (unsigned long long)batch->n_events);
        lose(exporter, batch, COUNTER_LOST_STOP);
}

/* A batch from the spool is not in memory between two attempts: the one that stands in the way is remembered. */
static uint64_t age_of(const Exporter *exporter, const Batch *batch, uint64_t now_ns) {
        if (!batch->is_spooled)
                return now_ns - batch->first_try_ns;
        return is_tried(exporter, batch) ? now_ns - exporter->tried_since_ns : 0;
}

/*
 * What is in the spool may wait for days while nothing is taken. Only when others are, and this one never is, is it
 * the batch that breaks the connection.
 */
static bool is_hopeless(const Exporter *exporter, const Batch *batch) {
        return !batch->is_spooled || exporter->accepted_ns > exporter->tried_since_ns;
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
                .age_ns = age_of(exporter, batch, clock_monotonic_ns()),
        };
        RetryVerdict verdict;
        uint64_t wait_ns = 0;

        /* spread only: without entropy everybody waits alike */
        if (getrandom(&attempt.random, sizeof(attempt.random), GRND_NONBLOCK) < 0)
                attempt.random = UINT32_MAX / 2;
        verdict = retry_judge(&exporter->policy, &attempt, &wait_ns);
        if (verdict == RETRY_TOO_OLD && !is_hopeless(exporter, batch))
                verdict = RETRY_LATER;
        switch (verdict) {
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

static void post(Exporter *exporter, Batch *batch) {
        int r;

        if (!batch->first_try_ns)
                batch->first_try_ns = clock_monotonic_ns();
        exporter->flying = batch;
        exporter->was_spooled = batch->is_spooled;
        exporter->no_other = false;
        count(exporter, COUNTER_EXPORT_REQUESTS, 1);
        r = http_post(exporter->http, batch->data, batch->size, on_reply, exporter);
        if (r)
                not_posted(exporter, r);
}

/* The oldest of the spool and the newest of the machine take turns, so that neither waits for all of the other. */
static bool fetch(Exporter *exporter) {
        if (!exporter->spool || exporter->stopping || !spool_worker_n_files(exporter->spool))
                return false;
        if (exporter->queue.first && exporter->was_spooled)
                return false;
        /* after each failure another one: that of a batch that breaks the connection is not the receiver's */
        exporter->fetching = !spool_worker_next(exporter->spool, exporter->n_failures % 2 && exporter->tried.time_ns &&
                                                                 !exporter->no_other ? &exporter->tried : NULL);
        return exporter->fetching;
}

static void send_next(Exporter *exporter) {
        Batch *batch;

        if (exporter->flying || exporter->waiting || exporter->fetching || exporter->ending || fetch(exporter))
                return;
        batch = queue_pop(&exporter->queue);
        if (batch)
                post(exporter, batch);
        else if (exporter->stopping)
                finish_stop(exporter);
}

/* ---- results of the spool ---- */

static void on_fetched(Batch *batch, void *userdata) {
        Exporter *exporter = userdata;

        exporter->fetching = false;
        if (exporter->stopping || exporter->ending)
                batch_free(batch);
        else if (batch) {
                post(exporter, batch);
                return;
        } else if (spool_worker_n_files(exporter->spool) && exporter->no_other)
                hold_off(exporter, exporter->policy.first_ns);  /* there is one, but no memory for it */
        exporter->no_other = !exporter->no_other && !batch;
        send_next(exporter);
}

static void on_stored(Batch *batch, int error, void *userdata) {
        Exporter *exporter = userdata;
        QueueDropped dropped = { 0 };

        if (!error) {
                count(exporter, COUNTER_SPOOL_WRITTEN, batch->n_events);
                batch_free(batch);
                return;
        }
        count(exporter, COUNTER_SPOOL_FAILED, 1);
        journal_spool(&exporter->journal, error, batch->n_events);
        if (exporter->ending) {
                lose(exporter, batch, COUNTER_LOST_STOP);
                return;
        }
        queue_return(&exporter->queue, batch, &dropped);
        lose_overflow(exporter, &dropped);
        send_next(exporter);
}

static void on_spool_counts(const SpoolCounts *counts, void *userdata) {
        Exporter *exporter = userdata;

        count(exporter, COUNTER_LOST_SPOOL_FULL, counts->lost_full);
        count(exporter, COUNTER_LOST_SPOOL_AGE, counts->lost_age);
        count(exporter, COUNTER_LOST_SPOOL_CORRUPT, counts->lost_corrupt);
        count(exporter, COUNTER_LOST_SPOOL_SCHEMA, counts->lost_schema);
        count(exporter, COUNTER_SPOOL_TAKEN,
              counts->lost_full + counts->lost_age + counts->lost_corrupt + counts->lost_schema);
        count(exporter, COUNTER_SPOOL_CORRUPT, counts->n_files_corrupt);
        if (counts->lost_full + counts->lost_age + counts->n_files_corrupt + counts->n_files_schema)
                journal_spool_lost(&exporter->journal, counts);
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

        if (exporter->spool) {          /* it may be freed by done(), and its results want us */
                exporter->ending = true;
                spool_worker_finish(exporter->spool);
        }
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

/* Without its spool an exporter is what it would be without one: samples wait in memory. */
static int new_spool(Exporter *exporter, const ExporterConfig *config) {
        SpoolWorkerConfig spool = {
                .path = config->spool, .limits = { config->spool_max_bytes, 0, config->spool_max_age_ns },
                .gzip = exporter->gzip, .json = exporter->convert != NULL, .convert = config->spool_convert, .on_put = on_stored, .on_next = on_fetched, .on_counts = on_spool_counts,
                .userdata = exporter,
        };
        int r = spool_worker_new(&exporter->spool, exporter->event, &spool);

        if (r < 0)
                return error_fold(r);
        if (r)
                log_error("spool %s: %s; samples that cannot be sent wait in memory alone", config->spool,
                          r == SPOOL_E_LOCKED ? "another spanprof has it" : spool_problem());
        else if (spool_worker_n_files(exporter->spool))
                log_info("spool %s: %zu requests with %llu samples are still to be sent", config->spool,
                         spool_worker_n_files(exporter->spool),
                         (unsigned long long)spool_worker_file_events(exporter->spool));
        return r ? EXPORTER_E_SPOOL : 0;
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
                r = new_spool(exporter, config);
                if (r < 0 || (r && config->spool_required))
                        return r;
                if (!r)                 /* what an earlier one left */
                        hold_off(exporter, 0);
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

        while (exporter->spool && batch->size > exporter->queue.max_bytes - exporter->queue.bytes &&
               (oldest = queue_pop(&exporter->queue)))
                if (!spool(exporter, oldest)) {
                        queue_return(&exporter->queue, oldest, &dropped);
                        break;
                }
        queue_push(&exporter->queue, batch, &dropped);
        lose_overflow(exporter, &dropped);
}

static int make_batch(Exporter *exporter, Batch **batchp, const uint8_t *data, size_t size, uint64_t n_events) {
        _cleanup_(freep) uint8_t *json = NULL;
        size_t json_size;
        int r;

        if (!exporter->convert)
                return batch_new(batchp, data, size, n_events, exporter->gzip, false);
        r = exporter->convert(data, size, true, &json, &json_size);
        if (!r)
                r = batch_new(batchp, json, json_size, n_events, exporter->gzip, true);
        if (!r)
                (*batchp)->n_profiles = batch_count_profiles(data, size);
        return r > 0 ? error_origin(-EINVAL) : r;       /* not ours, or not whole: a bug */
}

int exporter_submit(Exporter *exporter, const uint8_t *data, size_t size, uint64_t n_events) {
        Batch *batch;
        int r;

        r = make_batch(exporter, &batch, data, size, n_events);
        if (r)
                return error_fold(r);
        exporter->submitted_bytes += batch->size;
        if (!exporter->n_failures || !spool(exporter, batch))
                enqueue(exporter, batch);
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
        return exporter->queue.n_events + (exporter->flying && !exporter->flying->is_spooled ? exporter->flying->n_events : 0) +
               (exporter->spool ? spool_worker_waiting_events(exporter->spool) : 0);
}

size_t exporter_queued_bytes(const Exporter *exporter) {
        return exporter->queue.bytes + (exporter->flying ? exporter->flying->size : 0) +
               (exporter->spool ? spool_worker_waiting_bytes(exporter->spool) : 0);
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
