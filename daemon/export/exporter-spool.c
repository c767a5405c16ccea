/* SPDX-License-Identifier: Apache-2.0 */

/* Batches on their way between memory and the disk. */

#include "export/exporter-private.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/log.h"

bool exporter_is_tried(const Exporter *exporter, const Batch *batch) {
        return batch->is_spooled && batch->spooled.time_ns == exporter->tried.time_ns &&
               batch->spooled.sequence == exporter->tried.sequence;
}

void exporter_leave_spool(Exporter *exporter, const Batch *batch) {
        if (!batch->is_spooled)
                return;
        if (exporter_is_tried(exporter, batch))
                exporter->tried = (SpoolEntry){ 0 };
        exporter_add(exporter, COUNTER_SPOOL_TAKEN, batch->n_events);
        spool_worker_remove(exporter->spool, &batch->spooled);
}

bool exporter_spool(Exporter *exporter, Batch *batch) {
        if (!exporter->spool)
                return false;
        if (!exporter->ending && spool_worker_waiting_bytes(exporter->spool) + batch->size > exporter->queue.max_bytes)
                return false;
        return !spool_worker_put(exporter->spool, batch);
}

void exporter_keep(Exporter *exporter, Batch *batch) {
        QueueDropped dropped = { 0 };

        if (batch->is_spooled)
                batch_free(batch);
        else if (!exporter_spool(exporter, batch))
                queue_return(&exporter->queue, batch, &dropped);
        exporter_lose_overflow(exporter, &dropped);
}

void exporter_keep_queue(Exporter *exporter) {
        Batch *batch;

        while (exporter->spool && (batch = queue_pop(&exporter->queue)))
                if (!exporter_spool(exporter, batch)) {
                        exporter_keep(exporter, batch);
                        return;
                }
}

/* The oldest of the spool and the newest of the machine take turns, so that neither waits for all of the other. */
bool exporter_fetch(Exporter *exporter) {
        if (!exporter->spool || exporter->stopping || !spool_worker_n_files(exporter->spool))
                return false;
        if (exporter->queue.first && exporter->was_spooled)
                return false;
        /* after each failure another one: that of a batch that breaks the connection is not the receiver's */
        exporter->fetching = !spool_worker_next(exporter->spool, exporter->n_failures % 2 && exporter->tried.time_ns &&
                                                                 !exporter->no_other ? &exporter->tried : NULL);
        return exporter->fetching;
}

static void on_fetched(Batch *batch, void *userdata) {
        Exporter *exporter = userdata;

        exporter->fetching = false;
        if (exporter->stopping || exporter->ending)
                batch_free(batch);
        else if (batch) {
                exporter_post(exporter, batch);
                return;
        } else if (spool_worker_n_files(exporter->spool) && exporter->no_other)
                exporter_hold_off(exporter, exporter->policy.first_ns);  /* there is one, but no memory for it */
        exporter->no_other = !exporter->no_other && !batch;
        exporter_send_next(exporter);
}

static void on_stored(Batch *batch, int error, void *userdata) {
        Exporter *exporter = userdata;
        QueueDropped dropped = { 0 };

        if (!error) {
                exporter_add(exporter, COUNTER_SPOOL_WRITTEN, batch->n_events);
                batch_free(batch);
                return;
        }
        exporter_add(exporter, COUNTER_SPOOL_FAILED, 1);
        journal_spool(&exporter->journal, error, batch->n_events);
        if (exporter->ending) {
                exporter_lose(exporter, batch, COUNTER_LOST_STOP);
                return;
        }
        queue_return(&exporter->queue, batch, &dropped);
        exporter_lose_overflow(exporter, &dropped);
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
        if (counts->lost_full + counts->lost_age + counts->n_files_corrupt + counts->n_files_schema)
                journal_spool_lost(&exporter->journal, counts);
}

/* Without its spool an exporter is what it would be without one: samples wait in memory. */
int exporter_open_spool(Exporter *exporter, const ExporterConfig *config) {
        SpoolWorkerConfig spool = {
                .path = config->spool, .limits = { config->spool_max_bytes, 0, config->spool_max_age_ns },
                .gzip = exporter->gzip, .json = exporter->convert != NULL, .convert = config->spool_convert,
                .on_put = on_stored, .on_next = on_fetched, .on_counts = on_spool_counts, .userdata = exporter,
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
