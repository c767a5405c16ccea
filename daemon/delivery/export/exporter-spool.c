/* SPDX-License-Identifier: Apache-2.0 */

/* Batches on their way between memory and the disk. */

#include <errno.h>

#include "base/util/clock.h"
#include "base/util/error.h"
#include "base/util/log.h"
#include "delivery/export/exporter-private.h"

bool exporter_is_tried(const Exporter *exporter, const Batch *batch) {
        return batch->is_spooled && batch->spooled.time_ns == exporter->tried.time_ns &&
               batch->spooled.sequence == exporter->tried.sequence;
}

void exporter_leave_spool(Exporter *exporter, Batch *batch) {
        atomic_store(&batch->done, true);
        if (!batch->is_spooled)
                return;
        if (exporter_is_tried(exporter, batch))
                exporter->tried = (SpoolEntry){ 0 };
        exporter_add(exporter, COUNTER_SPOOL_TAKEN, batch->n_events);
        spool_worker_remove(exporter->spool, &batch->spooled);
}

/* Takes a reference over if there is a spool, and if it keeps up. */
static bool give(Exporter *exporter, Batch *batch, unsigned how) {
        if (!exporter->spool)
                return false;
        if (!exporter->ending &&
            (spool_worker_is_stuck(exporter->spool) ||
             spool_worker_waiting_bytes(exporter->spool) + batch->size > exporter->queue.max_bytes))
                return false;
        return !spool_worker_put(exporter->spool, batch, how);
}

void exporter_store_ahead(Exporter *exporter, Batch *batch) {
        unsigned how = SPOOL_PUT_HELD |
                (exporter->spool_mode == EXPORTER_SPOOL_FLUSH ? SPOOL_PUT_FLUSHED : 0);

        if (!exporter->spool || exporter->spool_mode == EXPORTER_SPOOL_FAILED)
                return;
        if (!give(exporter, batch_ref(batch), how)) {
                batch_free(batch);
                exporter->is_behind = true;
        }
}

/* What did not fit on its way to the disk may now. */
static void catch_up(Exporter *exporter) {
        if (!exporter->is_behind)
                return;
        exporter->is_behind = false;
        if (exporter->flying && !exporter_is_safe(exporter->flying))
                exporter_store_ahead(exporter, exporter->flying);
        for (Batch *batch = exporter->queue.first; batch && !exporter->is_behind; batch = batch->next)
                if (!exporter_is_safe(batch))
                        exporter_store_ahead(exporter, batch);
}

/* Memory lets go of it, and the spool's thread has it alone. */
static void leave_alone(Exporter *exporter, Batch *batch) {
        exporter->n_alone++;
        exporter->alone_events += batch->n_events;
        exporter->alone_bytes += batch->size;
}

/* Return: it will be, on_released() is called then. */
static bool release(Exporter *exporter, const Batch *batch) {
        if (spool_worker_release(exporter->spool, &batch->spooled))
                return false;
        exporter->released_events += batch->n_events;
        return true;
}

bool exporter_put_away(Exporter *exporter, Batch *batch) {
        if (batch->is_spooled) {
                if (batch->is_held && !release(exporter, batch))
                        return false;
                if (!batch->is_held)
                        spool_worker_release(exporter->spool, &batch->spooled);
                batch_free(batch);
        } else if (batch->is_being_stored) {
                leave_alone(exporter, batch);
                batch_free(batch);
        } else {
                if (!give(exporter, batch, SPOOL_PUT_FLUSHED))
                        return false;
                leave_alone(exporter, batch);
        }
        return true;
}

void exporter_keep(Exporter *exporter, Batch *batch) {
        QueueDropped dropped = { 0 };

        if (!exporter_put_away(exporter, batch))
                queue_return(&exporter->queue, batch, &dropped);
        exporter_lose_overflow(exporter, &dropped);
}

void exporter_keep_queue(Exporter *exporter) {
        Queue stay = { .max_bytes = exporter->queue.max_bytes };
        QueueDropped none = { 0 };
        Batch *batch;

        if (!exporter->spool)
                return;
        while ((batch = queue_pop(&exporter->queue)))
                if (!exporter_put_away(exporter, batch))
                        queue_push(&stay, batch, &none);        /* has room: it was in one of this size */
        exporter->queue = stay;
}

/*
 * The oldest of the spool and the newest of the machine take turns, so that neither waits for all of the
 * other.
 */
bool exporter_fetch(Exporter *exporter) {
        bool other;

        if (!exporter->spool || exporter->stopping ||
            (!exporter->fetching && !spool_worker_n_files(exporter->spool)) ||
            spool_worker_is_stuck(exporter->spool)) /* memory does not wait for it */
                return false;
        if (exporter->fetching)
                return true;
        if (exporter->queue.first && exporter->was_spooled)
                return false;
        /* after each failure another one: that of a batch that breaks the connection is not the receiver's */
        other = exporter->n_failures % 2 && exporter->tried.time_ns && !exporter->no_other &&
                !exporter->is_away;
        exporter->fetching = !spool_worker_next(exporter->spool, other ? &exporter->tried : NULL);
        return exporter->fetching;
}

static void on_fetched(Batch *batch, void *userdata) {
        Exporter *exporter = userdata;

        exporter->fetching = false;
        catch_up(exporter);
        if (exporter->stopping || exporter->ending || exporter->flying || exporter->waiting) {
                if (batch)              /* memory did not wait for it; it is still in the spool */
                        spool_worker_release(exporter->spool, &batch->spooled);
                batch_free(batch);
                return;
        }
        if (batch) {
                exporter_post(exporter, batch);
                return;
        }
        if (spool_worker_n_files(exporter->spool) && exporter->no_other)
                /* there is one, but no memory for it */
                exporter_hold_off(exporter, exporter->policy.first_ns);
        exporter->no_other = !exporter->no_other && !batch;
        exporter_send_next(exporter);
}

/* Flushes @batch if its answer is overdue. Return: when it is to be looked at again, UINT64_MAX = no more. */
static uint64_t flush_overdue(Exporter *exporter, Batch *batch, uint64_t now_ns) {
        if (!batch || !batch->is_held || batch->spooled.flushed)
                return UINT64_MAX;
        if (now_ns < batch->stored_ns + exporter->flush_after_ns)
                return batch->stored_ns + exporter->flush_after_ns;
        if (!spool_worker_flush(exporter->spool, &batch->spooled))
                batch->spooled.flushed = true;
        return UINT64_MAX;
}

static int on_flush_time(sd_event_source *source, uint64_t usec, void *userdata) {
        Exporter *exporter = userdata;
        uint64_t now_ns = clock_monotonic_ns(), next_ns, other_ns;

        if (!exporter->spool)
                return 0;
        next_ns = flush_overdue(exporter, exporter->flying, now_ns);
        for (Batch *batch = exporter->queue.first; batch; batch = batch->next) {
                other_ns = flush_overdue(exporter, batch, now_ns);
                next_ns = MIN(next_ns, other_ns);
        }
        if (next_ns == UINT64_MAX)
                return 0;
        sd_event_source_set_time(source, next_ns / NS_PER_US + 1);
        sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
        return 0;
}

/* Most are answered long before, and cost no flush. */
static void flush_later(Exporter *exporter) {
        int enabled = SD_EVENT_OFF;

        sd_event_source_get_enabled(exporter->flush_timer, &enabled);
        if (enabled != SD_EVENT_OFF)
                return;
        sd_event_source_set_time_relative(exporter->flush_timer, exporter->flush_after_ns / NS_PER_US);
        sd_event_source_set_enabled(exporter->flush_timer, SD_EVENT_ONESHOT);
}

static void stored(Exporter *exporter, Batch *batch, bool alone) {
        exporter_add(exporter, COUNTER_SPOOL_WRITTEN, batch->n_events);
        batch->stored_ns = clock_monotonic_ns();
        if (atomic_load(&batch->done))
                exporter_leave_spool(exporter, batch);
        else if (alone && batch->is_held)
                release(exporter, batch);
        else if (!batch->spooled.flushed)
                flush_later(exporter);
        batch_free(batch);
}

static void not_stored(Exporter *exporter, Batch *batch, int error, bool alone) {
        QueueDropped dropped = { 0 };

        if (error != ECANCELED) {
                exporter_add(exporter, COUNTER_SPOOL_FAILED, 1);
                export_log_spool(&exporter->journal, error, batch->n_events);
        }
        if (!alone)
                batch_free(batch);      /* it is in memory still, or done with */
        else if (exporter->ending)
                exporter_lose(exporter, batch, COUNTER_LOST_STOP);
        else
                queue_return(&exporter->queue, batch, &dropped);
        exporter_lose_overflow(exporter, &dropped);
}

static void on_stored(Batch *batch, int error, void *userdata) {
        Exporter *exporter = userdata;
        bool alone = batch->n_refs == 1 && !atomic_load(&batch->done);

        if (alone) {
                exporter->n_alone--;
                exporter->alone_events -= batch->n_events;
                exporter->alone_bytes -= batch->size;
        }
        if (error)
                not_stored(exporter, batch, error, alone);
        else
                stored(exporter, batch, alone);
        catch_up(exporter);
        exporter_send_next(exporter);
}

static void on_released(const SpoolEntry *entry, void *userdata) {
        Exporter *exporter = userdata;

        exporter->released_events -= entry->n_events;
        exporter_send_next(exporter);
}

static void on_spool_counts(const SpoolCounts *counts, void *userdata) {
        Exporter *exporter = userdata;

        exporter_add(exporter, COUNTER_LOST_SPOOL_FULL, counts->lost_full);
        exporter_add(exporter, COUNTER_LOST_SPOOL_AGE, counts->lost_age);
        exporter_add(exporter, COUNTER_LOST_SPOOL_CORRUPT, counts->lost_corrupt);
        exporter_add(exporter, COUNTER_LOST_SPOOL_SCHEMA, counts->lost_schema);
        exporter_add(exporter, COUNTER_SPOOL_TAKEN,
                     counts->lost_full + counts->lost_age + counts->lost_corrupt + counts->lost_schema);
        exporter_add(exporter, COUNTER_SPOOL_CORRUPT, counts->n_files_corrupt);
        if (counts->n_directories)
                export_log_spool_moved(&exporter->journal);
        if (counts->lost_full + counts->lost_age + counts->n_files_corrupt + counts->n_files_gone +
            counts->n_files_schema)
                export_log_spool_lost(&exporter->journal, counts);
}

/* One disk under several exporters is waited for about once, since they have the same deadline. */
void exporter_finish_spool(Exporter *exporter) {
        uint64_t now_ns = clock_monotonic_ns();
        uint64_t until_ns = (exporter->deadline_ns ? MIN(exporter->deadline_ns, now_ns) : now_ns) +
                exporter->time_limit_ns;

        if (!exporter->spool ||
            spool_worker_finish(exporter->spool, MAX(until_ns, now_ns + exporter->time_limit_ns / 8)))
                return;
        exporter->spool = spool_worker_leave(exporter->spool);
        export_log_spool_left(&exporter->journal, exporter->n_alone, exporter->alone_events);
        exporter_add(exporter, COUNTER_SPOOL_FAILED, exporter->n_alone);
        exporter_add_lost(
                exporter, COUNTER_LOST_STOP,
                &(QueueDropped){ .n_batches = exporter->n_alone, .n_events = exporter->alone_events });
        exporter->n_alone = exporter->alone_events = exporter->alone_bytes = exporter->released_events = 0;
}

static int new_flush_timer(Exporter *exporter) {
        int r = sd_event_add_time_relative(exporter->event, &exporter->flush_timer, CLOCK_MONOTONIC, 0, 0,
                                           on_flush_time, exporter);

        if (r >= 0)
                r = sd_event_source_set_enabled(exporter->flush_timer, SD_EVENT_OFF);
        if (r < 0)
                return error_origin(r);
        sd_event_source_set_description(exporter->flush_timer, "spool-flush");
        return 0;
}

/* Without its spool an exporter is what it would be without one: samples wait in memory. */
int exporter_open_spool(Exporter *exporter, const ExporterConfig *config) {
        SpoolWorkerConfig spool = {
                .path = config->spool,
                .limits = { config->spool_max_bytes, 0, config->spool_max_age_ns },
                .gzip = exporter->gzip,
                .json = exporter->convert != NULL,
                .convert = config->spool_convert,
                .on_put = on_stored,
                .on_next = on_fetched,
                .on_released = on_released,
                .on_counts = on_spool_counts,
                .userdata = exporter,
        };
        SpoolProblem problem;
        int r = new_flush_timer(exporter);

        if (r)
                return r;
        r = spool_worker_new(&exporter->spool, exporter->event, &spool, &problem);
        exporter->spool_mode = config->spool_mode;
        if (r < 0)
                return error_fold(r);
        if (r)
                log_error("spool %s: %s; samples that cannot be sent wait in memory alone", config->spool,
                          problem.text);
        else if (spool_worker_n_files(exporter->spool))
                log_info("spool %s: %zu requests with %llu samples are still to be sent", config->spool,
                         spool_worker_n_files(exporter->spool),
                         (unsigned long long)spool_worker_file_events(exporter->spool));
        return r ? EXPORTER_E_SPOOL : 0;
}
