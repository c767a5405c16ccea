/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The way of a batch
 *
 *      submit ──▶ queue ──▶ in flight ──▶ done: delivered, or lost and counted
 *                 │   ▲      │     ▲
 *            keep │   └──────┤     │ fetch
 *                 │    retry │     │
 *                 └────▶ store ────┘
 *
 * A batch is in one of these states. The queue has batches in memory, oldest first. The transport sends one
 * and tells its outcome: it is in flight. The store has batches on a disk (batch-store.h), if there is one.
 * A batch that is done is delivered, or counted as lost for one reason.
 *
 * One request at a time. A receiver in trouble is in trouble for all batches. While it is given time
 * everything waits: in the store if there is one, else in the queue, which drops its oldest when it is full.
 *
 * A status decides, however the connection ends after it. A 200 whose body never comes is not sent again:
 * that would count each sample twice for certain, to avoid the chance of a lost message.
 *
 * The age of a batch counts from its first attempt, so a long outage does not make everything behind it too
 * old. A batch that always breaks the connection blocks the others for that time once.
 *
 * Batches of the store and of the queue take turns, so that neither waits for all of the other. After each
 * second failure, the batch behind the one that failed is fetched: the batch may be at fault, and not the
 * receiver. Such a batch is given up only if others were accepted meanwhile. Where a status refuses the batch
 * behind it, too, the next such fetch goes on behind that one. Without a status it does not: each batch that
 * is tried may have arrived, and would arrive twice.
 *
 *      stored       A  B  C          A and B are refused
 *      attempts     1  2             B is behind A
 *                   3     4          C is behind B, and is accepted
 *
 * The stop makes one attempt for each batch. What is left then is kept by the store, or is lost.
 *
 * Pure functions decide: retry.c (status, fault, Retry-After and chance → verdict), response.c (bytes of a
 * receiver → rejected profiles and a line of text), trouble.c (outcome → what to do about it).
 */

#include "host/delivery/export/exporter.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/http/response.h"
#include "host/delivery/export/queue.h"
#include "host/delivery/export/retry.h"

/* The receiver, as far as attempts tell. */
typedef struct Receiver {
        unsigned n_failures;            /* in a row */
        bool is_away;                   /* the last attempt found no receiver: no batch is to blame */
        uint64_t trouble_since_ns, accepted_ns;
} Receiver;

/* Turns of the oldest batch in the store, and in the queue. */
typedef struct Turns {
        bool fetching;                  /* the store reads its oldest batch */
        bool was_stored;                /* the last batch that was sent came from the store */
        SpoolEntry tried;               /* batch of the store that failed, and since when */
        uint64_t tried_since_ns;
        SpoolEntry passed;              /* the last one behind it that a status refused */
        bool is_other;                  /* the batch that was fetched last is one behind it */
        bool no_other;                  /* the store has nothing behind the one that was tried */
} Turns;

typedef enum Phase {
        PHASE_RUNNING,
        PHASE_STOPPING,                 /* each batch gets one attempt */
        PHASE_ENDING,                   /* batches that the store does not take now are lost */
} Phase;

typedef struct Stop {
        uint64_t deadline_ns;
        sd_event_source *deadline_timer, *finished;
        void (*done)(void *userdata);
        void *userdata;
} Stop;

struct Exporter {
        sd_event *event;
        bool gzip;
        ExportConvert convert;          /* requests are sent as JSON; NULL = as protobuf */
        RetryPolicy policy;
        uint64_t max_draft_ns;          /* see ExporterConfig */
        char *too_old;                  /* words of a refusal, or NULL */

        Queue queue;
        Batch *in_flight;
        Transport transport;
        BatchStore store;
        bool lacks_spool;               /* there should be one */
        /* end of the receiver's certificate, as it was shown last; 0 = it was not */
        time_t certificate_end;
        bool is_behind;                 /* the store had no room for a batch in memory */

        Receiver receiver;
        Turns turns;
        sd_event_source *retry_timer;
        bool waiting;                   /* nothing is sent until retry_timer */

        Phase phase;
        Stop stop;

        ExportBooks books;
        uint64_t submitted_bytes;
};

/* ---- ends of a batch ---- */

static bool is_tried(const Turns *turns, const Batch *batch) {
        return batch_is_on_disk(batch) && batch->entry.time_ns == turns->tried.time_ns &&
                batch->entry.sequence == turns->tried.sequence;
}

static void end_batch(Exporter *exporter, Batch *batch) {
        if (is_tried(&exporter->turns, batch))
                exporter->turns.tried = exporter->turns.passed = (SpoolEntry){ 0 };
        exporter->store.ops->remove(exporter->store.self, batch);
        batch_free(batch);
}

static void lose(Exporter *exporter, Batch *batch, enum counter counter) {
        books_add_lost(&exporter->books, counter, 1, batch->n_events);
        end_batch(exporter, batch);
}

static void lose_overflow(Exporter *exporter, const QueueDropped *dropped) {
        if (!dropped->n_batches)
                return;
        books_add_lost(&exporter->books, COUNTER_LOST_EXPORT_QUEUE, dropped->n_batches, dropped->n_events);
        export_log_overflow(&exporter->books.log, exporter->queue.max_bytes, dropped->n_events);
}

/* Memory lets go of @batch. What the disk has is not lost. */
static void discard(Batch *batch, QueueDropped *dropped) {
        dropped->n_batches += !batch_is_on_disk(batch);
        dropped->n_events += batch_is_on_disk(batch) ? 0 : batch->n_events;
        batch_free(batch);
}

/* ---- between memory and the store ---- */

/* The store has @batch, or is about to. */
static bool is_safe(const Batch *batch) {
        return batch->copy != BATCH_UNSTORED;
}

static BatchStoreLevel store_level(const Exporter *exporter) {
        return exporter->store.ops->level(exporter->store.self);
}

static void hold(Exporter *exporter, Batch *batch) {
        exporter->is_behind |= !exporter->store.ops->hold(exporter->store.self, batch);
}

/* Batches that did not fit on their way to the store may now. */
static void catch_up(Exporter *exporter) {
        if (!exporter->is_behind)
                return;
        exporter->is_behind = false;
        if (exporter->in_flight && !is_safe(exporter->in_flight))
                hold(exporter, exporter->in_flight);
        for (Batch *batch = exporter->queue.first; batch && !exporter->is_behind; batch = batch->next)
                if (!is_safe(batch))
                        hold(exporter, batch);
}

/* The store takes @batch over, or it stays the caller's. */
static bool keep(Exporter *exporter, Batch *batch) {
        return exporter->store.ops->keep(exporter->store.self, batch, exporter->phase == PHASE_ENDING);
}

/* A batch that was out comes back: into the store, else as the oldest of the queue. */
static void keep_or_return(Exporter *exporter, Batch *batch) {
        QueueDropped dropped = { 0 };

        if (!keep(exporter, batch))
                queue_return(&exporter->queue, batch, &dropped);
        lose_overflow(exporter, &dropped);
}

/* With the receiver in trouble, what waits in memory goes to the store, oldest first. */
static void keep_queue(Exporter *exporter) {
        Queue stay = { .max_bytes = exporter->queue.max_bytes };
        QueueDropped none = { 0 };
        Batch *batch;

        if (!exporter->store.self)
                return;
        while ((batch = queue_pop(&exporter->queue)))
                if (!keep(exporter, batch))
                        queue_push(&stay, batch, &none);        /* has room: it was in one of this size */
        exporter->queue = stay;
}

/* Into memory; what has no room there goes to the store, the oldest first. */
static void enqueue(Exporter *exporter, Batch *batch) {
        QueueDropped dropped = { 0 };
        Batch *oldest;

        while (batch->size > exporter->queue.max_bytes - exporter->queue.bytes &&
               (oldest = queue_pop(&exporter->queue)))
                if (!keep(exporter, oldest))
                        discard(oldest, &dropped);
        if (batch->size <= exporter->queue.max_bytes || !keep(exporter, batch))
                queue_push(&exporter->queue, batch, &dropped);
        lose_overflow(exporter, &dropped);
}

/* ---- into flight ---- */

static void on_reply(const HttpReply *reply, void *userdata);

/* Nothing is sent until this time has passed. */
static void hold_off(Exporter *exporter, uint64_t wait_ns) {
        sd_event_source *timer = exporter->retry_timer;

        if (exporter->phase != PHASE_RUNNING)
                return;
        exporter->waiting = sd_event_source_set_time_relative(timer, wait_ns / NS_PER_US) >= 0 &&
                sd_event_source_set_enabled(timer, SD_EVENT_ONESHOT) >= 0;
}

/* No request could be made, for want of memory most likely: the same as a receiver that is not there. */
static void not_sent(Exporter *exporter, int error) {
        HttpReply reply = { .fault = HTTP_FAULT_INTERNAL };

        response_clean(reply.error, sizeof(reply.error), strerror(-error), strlen(strerror(-error)));
        on_reply(&reply, exporter);
}

static void send_batch(Exporter *exporter, Batch *batch) {
        Transport *transport = &exporter->transport;
        int r;

        if (!batch->first_try_ns)
                batch->first_try_ns = clock_monotonic_ns();
        exporter->in_flight = batch;
        exporter->turns.was_stored = batch->copy == BATCH_STORED;
        exporter->turns.no_other = false;
        books_add(&exporter->books, COUNTER_EXPORT_REQUESTS, 1);
        r = transport->ops->send(transport->self, batch->data, batch->size, on_reply, exporter);
        if (r)
                not_sent(exporter, r);
}

/* Asks for the oldest of the store if it is its turn. Return: it will come. */
static bool fetch(Exporter *exporter) {
        const Receiver *receiver = &exporter->receiver;
        BatchStoreLevel level = store_level(exporter);
        Turns *turns = &exporter->turns;
        const SpoolEntry *after = NULL;

        if (exporter->phase != PHASE_RUNNING || level.is_stuck)         /* memory does not wait for it */
                return false;
        if (turns->fetching)
                return true;
        if (!level.n_stored || (exporter->queue.first && turns->was_stored))
                return false;
        turns->is_other = receiver->n_failures % 2 && turns->tried.time_ns && !turns->no_other &&
                !receiver->is_away;
        if (turns->is_other)
                after = turns->passed.time_ns ? &turns->passed : &turns->tried;
        turns->fetching = exporter->store.ops->fetch(exporter->store.self, after);
        return turns->fetching;
}

/* All is sent, or time is up: done() is called from the loop. */
static void finish_stop(Exporter *exporter) {
        sd_event_source_set_enabled(exporter->stop.deadline_timer, SD_EVENT_OFF);
        sd_event_source_set_enabled(exporter->stop.finished, SD_EVENT_ONESHOT);
}

/* Begins with the next batch if there is nothing to wait for. */
static void send_next(Exporter *exporter) {
        Batch *batch;

        if (exporter->in_flight || exporter->waiting || exporter->phase == PHASE_ENDING || fetch(exporter))
                return;
        batch = queue_pop(&exporter->queue);
        if (batch)
                send_batch(exporter, batch);
        else if (exporter->phase == PHASE_STOPPING)
                finish_stop(exporter);
}

static int on_retry_time(sd_event_source *source, uint64_t usec, void *userdata) {
        Exporter *exporter = userdata;

        exporter->waiting = false;
        send_next(exporter);
        return 0;
}

/* ---- out of flight ---- */

static void well_again(Exporter *exporter) {
        Receiver *receiver = &exporter->receiver;

        if (!receiver->n_failures)
                return;
        export_log_well_again(&exporter->books.log, clock_monotonic_ns() - receiver->trouble_since_ns,
                              receiver->n_failures, exporter->queue.n_batches);
        receiver->n_failures = 0;
}

static void failed(Receiver *receiver) {
        if (receiver->n_failures++ == 0)
                receiver->trouble_since_ns = clock_monotonic_ns();
}

/* Another server answers there: it is no use to send it the same again. */
static void not_otlp(Exporter *exporter, Batch *batch, const HttpReply *reply) {
        exporter->receiver.n_failures = 0;
        exporter->store.ops->bury(exporter->store.self, batch);
        export_log_not_otlp(&exporter->books.log, reply, batch);
        lose(exporter, batch, COUNTER_LOST_EXPORT_NOT_OTLP);
}

static void accepted(Exporter *exporter, Batch *batch, const HttpReply *reply) {
        ExportBooks *books = &exporter->books;
        Response response;
        uint64_t n_lost;

        response_read_reply(&response, reply);
        if (response.is_other) {
                not_otlp(exporter, batch, reply);
                return;
        }
        well_again(exporter);
        n_lost = batch_rejected_events(batch, response.n_rejected);
        books_add(books, COUNTER_EXPORT_OK, 1);
        books_add(books, COUNTER_EXPORT_BYTES, batch->size);
        books_add(books, COUNTER_SAMPLES_DELIVERED, batch->n_events - n_lost);
        books_add(books, COUNTER_LOST_EXPORT_REJECTED, n_lost);
        if (response.n_rejected)
                export_log_rejected(&books->log, &response, batch, n_lost);
        else
                export_log_accepted(&books->log, reply, &response);
        exporter->receiver.accepted_ns = clock_monotonic_ns();
        end_batch(exporter, batch);
}

/* By its words: the receiver takes nothing that is so old, and nothing else is wrong with it. */
static bool is_past(const Exporter *exporter, const HttpReply *reply) {
        return exporter->too_old && !reply->fault && reply->status < 500 &&
                response_says(reply, exporter->too_old);
}

static void refused(Exporter *exporter, Batch *batch, const HttpReply *reply) {
        bool past = is_past(exporter, reply);
        bool buried = !past && exporter->store.ops->bury(exporter->store.self, batch);

        /* A status, if a bad one, shows that the receiver is there: the next batch has its own chance. */
        if (!reply->fault)
                exporter->receiver.n_failures = 0;
        export_log_failed(&exporter->books.log, LOG_LEVEL_ERROR, reply, "%s%llu samples%s",
                          past ? "they are too old for it: dropped " : "dropped ",
                          (unsigned long long)batch->n_events,
                          buried ? " (the spool keeps them: `spanprof spool retry`)" : "");
        lose(exporter, batch, past ? COUNTER_LOST_EXPORT_TOO_OLD : COUNTER_LOST_EXPORT_REFUSED);
}

static void too_old(Exporter *exporter, Batch *batch, const HttpReply *reply, uint64_t wait_ns) {
        failed(&exporter->receiver);
        export_log_failed(&exporter->books.log, LOG_LEVEL_ERROR, reply,
                          "tried for too long, dropped %llu samples", (unsigned long long)batch->n_events);
        lose(exporter, batch, COUNTER_LOST_EXPORT_AGE);
        hold_off(exporter, wait_ns);
}

/* No batch has reached a receiver. */
static bool is_unreached(HttpFault fault) {
        return fault == HTTP_FAULT_RESOLVE || fault == HTTP_FAULT_CONNECT || fault == HTTP_FAULT_TLS;
}

/* Remembers that @batch has failed, with a status or without one. */
static void note_failure(Turns *turns, const Batch *batch, bool has_status) {
        bool is_from_store = turns->was_stored;

        if (!batch_is_on_disk(batch) || is_tried(turns, batch))
                return;
        if (is_from_store && turns->is_other) {
                if (has_status)
                        turns->passed = batch->entry;
        } else if (is_from_store || !turns->tried.time_ns) {
                turns->tried = batch->entry;
                turns->tried_since_ns = clock_monotonic_ns();
                turns->passed = (SpoolEntry){ 0 };
        }
}

static void try_later(Exporter *exporter, Batch *batch, const HttpReply *reply, uint64_t wait_ns) {
        failed(&exporter->receiver);
        exporter->receiver.is_away = is_unreached(reply->fault);
        books_add(&exporter->books, COUNTER_EXPORT_RETRIES, 1);
        note_failure(&exporter->turns, batch, !reply->fault);
        keep_or_return(exporter, batch);
        keep_queue(exporter);
        export_log_failed(
                &exporter->books.log, LOG_LEVEL_WARNING, reply, "%llu samples wait, next try in %.1f s",
                (unsigned long long)(exporter_queued_events(exporter) + exporter_spooled_events(exporter)),
                (double)wait_ns / NS_PER_SEC);
        hold_off(exporter, wait_ns);
}

/* A single attempt was enough to know: the store keeps everything; without one this batch is lost. */
static void fail_at_stop(Exporter *exporter, Batch *batch, const HttpReply *reply) {
        if (exporter->store.self) {
                failed(&exporter->receiver);
                keep_or_return(exporter, batch);
                keep_queue(exporter);
                return;
        }
        export_log_failed(&exporter->books.log, LOG_LEVEL_WARNING, reply, "stopping, lost %llu samples",
                          (unsigned long long)batch->n_events);
        lose(exporter, batch, COUNTER_LOST_STOP);
}

/* A batch of the store is not in memory between two attempts: the one that was tried is remembered. */
static uint64_t age_of(const Exporter *exporter, const Batch *batch, uint64_t now_ns) {
        if (!is_safe(batch))
                return now_ns - batch->first_try_ns;
        return is_tried(&exporter->turns, batch) ? now_ns - exporter->turns.tried_since_ns : 0;
}

/*
 * Batches in the store may wait for days while nothing is accepted. Only when others are accepted, and this
 * one never is, it is the batch that breaks the connection.
 */
static bool is_hopeless(const Exporter *exporter, const Batch *batch) {
        return !is_safe(batch) || exporter->receiver.accepted_ns > exporter->turns.tried_since_ns;
}

/*
 * A receiver of another draft refuses each batch until it is upgraded, so the store keeps them all. When it
 * accepts others, it is the batch that it cannot read: that is clear soon, and each attempt holds them up.
 */
static bool waits_for_upgrade(const Exporter *exporter, const Batch *batch, const HttpReply *reply,
                              uint64_t age_ns) {
        uint64_t max_ns = is_safe(batch) ? MIN(exporter->max_draft_ns, exporter->policy.max_age_ns)
                : exporter->policy.max_age_ns;
        Response response;

        if (reply->fault || reply->status < 300 || !exporter->store.self ||
            (age_ns > max_ns && is_hopeless(exporter, batch)))
                return false;
        if (trouble_is_draft(reply, ""))        /* by the status alone */
                return true;
        response_read_reply(&response, reply);
        return trouble_is_draft(reply, response.message);
}

static RetryVerdict judge(const Exporter *exporter, const Batch *batch, const HttpReply *reply,
                          uint64_t *wait_nsp) {
        RetryAttempt attempt = {
                .fault = reply->fault,
                .status = reply->status,
                .retry_after = reply->retry_after,
                .now_s = (int64_t)(clock_read_ns(CLOCK_REALTIME) / NS_PER_SEC),
                .n_failures = exporter->receiver.n_failures,
                .age_ns = age_of(exporter, batch, clock_monotonic_ns()),
        };
        RetryVerdict verdict;

        attempt.wants_upgrade = waits_for_upgrade(exporter, batch, reply, attempt.age_ns);
        /* chance only spreads the waits: without entropy all machines wait alike */
        if (getrandom(&attempt.random, sizeof(attempt.random), GRND_NONBLOCK) < 0)
                attempt.random = UINT32_MAX / 2;
        verdict = retry_judge(&exporter->policy, &attempt, wait_nsp);
        return verdict == RETRY_TOO_OLD && !is_hopeless(exporter, batch) ? RETRY_LATER : verdict;
}

static void on_reply(const HttpReply *reply, void *userdata) {
        Exporter *exporter = userdata;
        Batch *batch = take(exporter->in_flight);
        uint64_t wait_ns = 0;

        if (reply->certificate_end)
                exporter->certificate_end = reply->certificate_end;
        switch (judge(exporter, batch, reply, &wait_ns)) {
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
                if (exporter->phase == PHASE_RUNNING)
                        try_later(exporter, batch, reply, wait_ns);
                else
                        fail_at_stop(exporter, batch, reply);
                break;
        }
        send_next(exporter);
}

/* ---- events of the store ---- */

static void on_fetched(Batch *batch, void *userdata) {
        Exporter *exporter = userdata;
        Turns *turns = &exporter->turns;

        turns->fetching = false;
        catch_up(exporter);
        if (exporter->phase != PHASE_RUNNING || exporter->in_flight || exporter->waiting) {
                if (batch)              /* memory did not wait for it */
                        keep_or_return(exporter, batch);
                return;
        }
        if (batch) {
                send_batch(exporter, batch);
                return;
        }
        if (turns->no_other && store_level(exporter).n_stored)  /* there is one, but no memory for it */
                hold_off(exporter, exporter->policy.first_ns);
        turns->no_other = !turns->no_other;
        turns->passed = (SpoolEntry){ 0 };
        send_next(exporter);
}

static void on_returned(Batch *batch, void *userdata) {
        Exporter *exporter = userdata;
        QueueDropped dropped = { 0 };

        if (exporter->phase == PHASE_ENDING)
                lose(exporter, batch, COUNTER_LOST_STOP);
        else
                queue_return(&exporter->queue, batch, &dropped);
        lose_overflow(exporter, &dropped);
}

static void on_progressed(void *userdata) {
        Exporter *exporter = userdata;

        catch_up(exporter);
        send_next(exporter);
}

/* ---- submit and stop ---- */

static int make_batch(const Exporter *exporter, Batch **batchp, const ExportRequest *request) {
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
        bool is_failing = exporter->receiver.n_failures;
        Batch *batch;
        int r;

        r = make_batch(exporter, &batch, request);
        if (r)
                return error_fold(r);
        exporter->submitted_bytes += batch->size;
        if (!is_failing)
                hold(exporter, batch);
        if (!is_failing || !keep(exporter, batch))
                enqueue(exporter, batch);
        send_next(exporter);
        return 0;
}

/*
 * Everything that is left goes to the store; what it does not take is counted as LOST_STOP. A request under
 * way is forgotten: what is not known to be delivered is not.
 */
static QueueDropped abandon(Exporter *exporter) {
        BatchStore *store = &exporter->store;
        QueueDropped dropped = { 0 };
        Batch *batch;

        exporter->phase = PHASE_ENDING;
        if (exporter->in_flight) {
                exporter->transport.ops->cancel(exporter->transport.self);
                batch = take(exporter->in_flight);
                if (!keep(exporter, batch))
                        discard(batch, &dropped);
        }
        keep_queue(exporter);
        queue_clear(&exporter->queue, &dropped);
        books_add_lost(&exporter->books, COUNTER_LOST_STOP, dropped.n_batches, dropped.n_events);
        store->ops->finish(store->self, exporter->stop.deadline_ns);
        return dropped;
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

void exporter_give_up(Exporter *exporter) {
        uint64_t n_queued = exporter_queued_events(exporter);
        QueueDropped dropped = abandon(exporter);

        if (dropped.n_events)
                log_warning("export: %llu samples in %llu requests are given up: they are not sent",
                            (unsigned long long)dropped.n_events, (unsigned long long)dropped.n_batches);
        if (n_queued > dropped.n_events)
                log_notice("export: %llu samples are not sent now, and go to the spool",
                           (unsigned long long)(n_queued - dropped.n_events));
}

static int on_finished(sd_event_source *source, void *userdata) {
        Exporter *exporter = userdata;
        BatchStore *store = &exporter->store;

        exporter->phase = PHASE_ENDING;
        /* done() may free the exporter, which the store's events need */
        store->ops->finish(store->self, exporter->stop.deadline_ns);
        exporter->stop.done(exporter->stop.userdata);
        return 0;
}

int exporter_stop(Exporter *exporter, uint64_t deadline_ns, void (*done)(void *userdata), void *userdata) {
        Stop *stop = &exporter->stop;
        int r;

        if (exporter->phase != PHASE_RUNNING)
                return error_origin(-EALREADY);
        r = sd_event_add_time(exporter->event, &stop->deadline_timer, CLOCK_MONOTONIC,
                              deadline_ns / NS_PER_US, 1000, on_deadline, exporter);
        if (r < 0)
                return error_origin(r);
        r = sd_event_add_defer(exporter->event, &stop->finished, on_finished, exporter);
        if (r < 0)
                return error_origin(r);
        sd_event_source_set_enabled(stop->finished, SD_EVENT_OFF);
        sd_event_source_set_enabled(exporter->retry_timer, SD_EVENT_OFF);
        stop->deadline_ns = deadline_ns;
        stop->done = done;
        stop->userdata = userdata;
        exporter->phase = PHASE_STOPPING;
        exporter->waiting = false;
        send_next(exporter);
        return 0;
}

/* ---- its life ---- */

static int new_retry_timer(Exporter *exporter) {
        int r = sd_event_add_time(exporter->event, &exporter->retry_timer, CLOCK_MONOTONIC, UINT64_MAX, 0,
                                  on_retry_time, exporter);

        if (r >= 0)
                r = sd_event_source_set_enabled(exporter->retry_timer, SD_EVENT_OFF);
        if (r < 0)
                return error_origin(r);
        sd_event_source_set_description(exporter->retry_timer, "export-retry");
        return 0;
}

static void free_ports(Transport *transport, BatchStore *store) {
        store->ops->free(store->self);
        transport->ops->free(transport->self);
}

int exporter_new_on(Exporter **exporterp, sd_event *event, const ExporterConfig *config, Transport transport,
                    BatchStore store) {
        static const BatchStoreEvents events = { on_fetched, on_returned, on_progressed };
        _cleanup_(exporter_freep) Exporter *exporter = calloc(1, sizeof(*exporter));
        int r;

        if (!exporter) {
                free_ports(&transport, &store);
                return error_origin(-ENOMEM);
        }
        exporter->event = sd_event_ref(event);
        exporter->transport = transport;
        exporter->store = store;
        exporter->lacks_spool = config->spool && !store.self;
        store.ops->listen(store.self, &events, &exporter->books, exporter);
        exporter->gzip = config->gzip;
        exporter->convert = config->convert;
        exporter->books.secondary = config->secondary;
        exporter->queue.max_bytes = config->max_queue_bytes;
        exporter->policy = (RetryPolicy){ config->retry_first_ns, config->max_age_ns,
                                          config->dialect.starting_ns };
        exporter->max_draft_ns = config->max_draft_ns;
        r = new_retry_timer(exporter);
        if (r)
                return error_fold(r);
        exporter->books.log.url = strdup(config->endpoint);
        exporter->too_old = config->dialect.too_old ? strdup(config->dialect.too_old) : NULL;
        if (!exporter->books.log.url || (config->dialect.too_old && !exporter->too_old))
                return error_origin(-ENOMEM);
        if (store.self)                 /* batches that an earlier exporter left */
                hold_off(exporter, 0);
        *exporterp = take(exporter);
        return 0;
}

Exporter *exporter_free(Exporter *exporter) {
        if (!exporter)
                return NULL;
        abandon(exporter);
        free_ports(&exporter->transport, &exporter->store);
        sd_event_source_disable_unref(exporter->retry_timer);
        sd_event_source_disable_unref(exporter->stop.deadline_timer);
        sd_event_source_disable_unref(exporter->stop.finished);
        sd_event_unref(exporter->event);
        free(exporter->books.log.url);
        free(exporter->too_old);
        free(exporter);
        return NULL;
}

/* ---- numbers ---- */

uint64_t exporter_queued_events(const Exporter *exporter) {
        const Batch *batch = exporter->in_flight;
        BatchStoreLevel level = store_level(exporter);

        /* a batch that came from the store counts there */
        return exporter->queue.n_events + (batch && batch->copy != BATCH_STORED ? batch->n_events : 0) +
                level.unsaved_events + level.released_events;
}

size_t exporter_queued_bytes(const Exporter *exporter) {
        return exporter->queue.bytes + (exporter->in_flight ? exporter->in_flight->size : 0) +
                store_level(exporter).unsaved_bytes;
}

uint64_t exporter_unsaved_events(const Exporter *exporter) {
        uint64_t n = store_level(exporter).unsaved_events;

        for (const Batch *batch = exporter->queue.first; batch; batch = batch->next)
                n += batch_is_on_disk(batch) ? 0 : batch->n_events;
        if (exporter->in_flight && !batch_is_on_disk(exporter->in_flight))
                n += exporter->in_flight->n_events;
        return n;
}

uint64_t exporter_submitted_bytes(const Exporter *exporter) {
        return exporter->submitted_bytes;
}

uint64_t exporter_spooled_events(const Exporter *exporter) {
        return store_level(exporter).stored_events;
}

size_t exporter_spooled_batches(const Exporter *exporter) {
        return store_level(exporter).n_stored;
}

uint64_t exporter_spooled_bytes(const Exporter *exporter) {
        return store_level(exporter).stored_bytes;
}

uint64_t exporter_max_spool_bytes(const Exporter *exporter) {
        return store_level(exporter).max_bytes;
}

time_t exporter_certificate_end(const Exporter *exporter) {
        return exporter->certificate_end;
}

bool exporter_lacks_spool(const Exporter *exporter) {
        return exporter->lacks_spool;
}

bool exporter_is_failing(const Exporter *exporter) {
        return exporter->receiver.n_failures;
}

uint64_t exporter_accepted_ns(const Exporter *exporter) {
        return exporter->receiver.accepted_ns;
}

void exporter_add_lost(Exporter *exporter, enum counter counter, uint64_t n_events) {
        books_add(&exporter->books, counter, n_events);
}

uint64_t exporter_count(const Exporter *exporter, enum counter counter) {
        return exporter->books.counts[counter];
}
