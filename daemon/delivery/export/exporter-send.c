/* SPDX-License-Identifier: Apache-2.0 */

/* Which batch is sent next, and what becomes of it by the reply. */

#include <string.h>
#include <sys/random.h>

#include "base/util/clock.h"
#include "base/util/log.h"
#include "delivery/export/exporter-private.h"
#include "delivery/export/response.h"

static void on_reply(const HttpReply *reply, void *userdata);

static void well_again(Exporter *exporter) {
        if (!exporter->n_failures)
                return;
        export_log_well_again(&exporter->journal, clock_monotonic_ns() - exporter->trouble_since_ns,
                              exporter->n_failures, exporter->queue.n_batches);
        exporter->n_failures = 0;
}

static void accepted(Exporter *exporter, Batch *batch, const HttpReply *reply) {
        Response response;
        uint64_t n_lost;

        well_again(exporter);
        response_read_reply(&response, reply);
        n_lost = batch_rejected_events(batch, response.n_rejected);
        exporter_add(exporter, COUNTER_EXPORT_OK, 1);
        exporter_add(exporter, COUNTER_EXPORT_BYTES, batch->size);
        exporter_add(exporter, COUNTER_SAMPLES_DELIVERED, batch->n_events - n_lost);
        exporter_add(exporter, COUNTER_LOST_EXPORT_REJECTED, n_lost);
        if (response.n_rejected)
                export_log_rejected(&exporter->journal, &response, batch, n_lost);
        else
                export_log_accepted(&exporter->journal, reply, &response);
        exporter->accepted_ns = clock_monotonic_ns();
        exporter_leave_spool(exporter, batch);
        batch_free(batch);
}

static void refused(Exporter *exporter, Batch *batch, const HttpReply *reply) {
        /* A status, if a bad one, shows that the receiver is there: the next batch has its own chance. */
        if (!reply->fault)
                exporter->n_failures = 0;
        export_log_failed(&exporter->journal, LOG_LEVEL_ERROR, reply, "dropped %llu samples",
                       (unsigned long long)batch->n_events);
        exporter_lose(exporter, batch, COUNTER_LOST_EXPORT_REFUSED);
}

static void failed(Exporter *exporter) {
        if (exporter->n_failures++ == 0)
                exporter->trouble_since_ns = clock_monotonic_ns();
}

void exporter_hold_off(Exporter *exporter, uint64_t wait_ns) {
        if (exporter->stopping)
                return;
        exporter->waiting = sd_event_source_set_time_relative(exporter->retry_timer, wait_ns / NS_PER_US) >=
                        0 &&
                sd_event_source_set_enabled(exporter->retry_timer, SD_EVENT_ONESHOT) >= 0;
}

static void too_old(Exporter *exporter, Batch *batch, const HttpReply *reply, uint64_t wait_ns) {
        failed(exporter);
        export_log_failed(&exporter->journal, LOG_LEVEL_ERROR, reply,
                          "tried for too long, dropped %llu samples", (unsigned long long)batch->n_events);
        exporter_lose(exporter, batch, COUNTER_LOST_EXPORT_AGE);
        exporter_hold_off(exporter, wait_ns);
}

static void try_later(Exporter *exporter, Batch *batch, const HttpReply *reply, uint64_t wait_ns) {
        failed(exporter);
        exporter->is_away = reply->fault == HTTP_FAULT_RESOLVE || reply->fault == HTTP_FAULT_CONNECT;
        exporter_add(exporter, COUNTER_EXPORT_RETRIES, 1);
        if (batch->is_spooled && !exporter->tried.time_ns) {
                exporter->tried = batch->spooled;
                exporter->tried_since_ns = clock_monotonic_ns();
        }
        exporter_keep(exporter, batch);
        exporter_keep_queue(exporter);
        export_log_failed(
                &exporter->journal, LOG_LEVEL_WARNING, reply, "%llu samples wait, next try in %.1f s",
                (unsigned long long)(exporter_queued_events(exporter) + exporter_spooled_events(exporter)),
                (double)wait_ns / NS_PER_SEC);
        exporter_hold_off(exporter, wait_ns);
}

static void lose_at_stop(Exporter *exporter, Batch *batch, const HttpReply *reply) {
        if (exporter->spool) {
                failed(exporter);
                exporter_keep(exporter, batch);
                exporter_keep_queue(exporter);   /* one attempt was enough to know */
                return;
        }
        export_log_failed(&exporter->journal, LOG_LEVEL_WARNING, reply, "stopping, lost %llu samples",
                       (unsigned long long)batch->n_events);
        exporter_lose(exporter, batch, COUNTER_LOST_STOP);
}

/*
 * A batch from the spool is not in memory between two attempts: the one that stands in the way is remembered.
 */
static uint64_t age_of(const Exporter *exporter, const Batch *batch, uint64_t now_ns) {
        if (!exporter_is_safe(batch))
                return now_ns - batch->first_try_ns;
        return exporter_is_tried(exporter, batch) ? now_ns - exporter->tried_since_ns : 0;
}

/*
 * What is in the spool may wait for days while nothing is taken. Only when others are, and this one never is,
 * is it the batch that breaks the connection.
 */
static bool is_hopeless(const Exporter *exporter, const Batch *batch) {
        return !exporter_is_safe(batch) || exporter->accepted_ns > exporter->tried_since_ns;
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
        exporter_send_next(exporter);
}

/* No request could be made, for want of memory most likely: the same as a receiver that is not there. */
static void not_posted(Exporter *exporter, int error) {
        HttpReply reply = { .fault = HTTP_FAULT_INTERNAL };

        response_clean(reply.error, sizeof(reply.error), strerror(-error), strlen(strerror(-error)));
        on_reply(&reply, exporter);
}

void exporter_finish_stop(Exporter *exporter) {
        sd_event_source_set_enabled(exporter->deadline_timer, SD_EVENT_OFF);
        sd_event_source_set_enabled(exporter->finished, SD_EVENT_ONESHOT);
}

void exporter_post(Exporter *exporter, Batch *batch) {
        int r;

        if (!batch->first_try_ns)
                batch->first_try_ns = clock_monotonic_ns();
        exporter->flying = batch;
        exporter->was_spooled = batch->is_spooled && !batch->is_held;
        exporter->no_other = false;
        exporter_add(exporter, COUNTER_EXPORT_REQUESTS, 1);
        r = http_post(exporter->http, batch->data, batch->size, on_reply, exporter);
        if (r)
                not_posted(exporter, r);
}

void exporter_send_next(Exporter *exporter) {
        Batch *batch;

        if (exporter->flying || exporter->waiting || exporter->ending || exporter_fetch(exporter))
                return;
        batch = queue_pop(&exporter->queue);
        if (batch)
                exporter_post(exporter, batch);
        else if (exporter->stopping)
                exporter_finish_stop(exporter);
}
