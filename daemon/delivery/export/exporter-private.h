/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Exporter, inside
 *
 * What its files share: exporter.c takes batches and makes and ends it all, exporter-send.c sends one and
 * does what the reply says, exporter-spool.c moves batches between memory and disk.
 */

#include "delivery/export/export-log.h"
#include "delivery/export/exporter.h"
#include "delivery/export/http.h"
#include "delivery/export/queue.h"
#include "delivery/export/retry.h"
#include "delivery/spool/batch.h"
#include "delivery/spool/spool-worker.h"

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
        bool is_away;                   /* the last one had no receiver: no batch is to blame */
        uint64_t trouble_since_ns, accepted_ns;

        SpoolWorker *spool;             /* NULL = none */
        ExporterSpoolMode spool_mode;
        bool fetching;                  /* its oldest batch is being read */
        bool was_spooled;               /* the last one that was sent came from it: old and new take turns */
        uint64_t alone_events, n_alone; /* of batches that the spool's thread alone has */
        size_t alone_bytes;
        sd_event_source *flush_timer;   /* on while a batch that is not flushed waits for its answer */
        uint64_t flush_after_ns, time_limit_ns;
        /* the spool did not keep up: something in memory is not on the disk */
        bool is_behind;
        uint64_t released_events;       /* of files that are about to be released */
        SpoolEntry tried;               /* of the spool, and since when without success */
        uint64_t tried_since_ns;
        bool no_other;                  /* the spool holds nothing behind the one that was tried */
        bool ending;                    /* what the disk does not take now is lost */

        ExportLog journal;

        bool secondary;
        uint64_t submitted_bytes;
        uint64_t counts[COUNTER_N];

        bool stopping;
        uint64_t deadline_ns;           /* of the stop */
        sd_event_source *deadline_timer, *finished;
        void (*done)(void *userdata);
        void *userdata;
};

static inline void exporter_add(Exporter *exporter, enum counter counter, uint64_t n) {
        exporter->counts[counter] += n;
        if (!exporter->secondary)
                stat_add(counter, n);
}

void exporter_add_lost(Exporter *exporter, enum counter counter, const QueueDropped *dropped);
/* @batch and its samples are lost for this reason. */
void exporter_lose(Exporter *exporter, Batch *batch, enum counter counter);
void exporter_lose_overflow(Exporter *exporter, const QueueDropped *dropped);

/* ---- exporter-send.c ---- */

/* Begins with the next batch if there is nothing to wait for. */
void exporter_send_next(Exporter *exporter);
void exporter_post(Exporter *exporter, Batch *batch);
/* All is sent, or time is up: done() is called from the loop. */
void exporter_finish_stop(Exporter *exporter);
/* Nothing is sent until this time has passed. */
void exporter_hold_off(Exporter *exporter, uint64_t wait_ns);

/* ---- exporter-spool.c ---- */

/* Return: 0, EXPORTER_E_SPOOL, -errno. */
int exporter_open_spool(Exporter *exporter, const ExporterConfig *config);
/* Writes @batch to the disk as well, if that is the mode. */
void exporter_store_ahead(Exporter *exporter, Batch *batch);
/* Takes @batch over if it is in the spool, on its way there, or the spool takes it now. */
bool exporter_put_away(Exporter *exporter, Batch *batch);
/* A batch that could not be sent now: it stays in the spool, goes there, or waits in memory. */
void exporter_keep(Exporter *exporter, Batch *batch);
/* With the receiver in trouble, what waits in memory goes to the disk, oldest first. */
void exporter_keep_queue(Exporter *exporter);
/* Takes a batch that is done with, one way or the other, out of the spool. */
void exporter_leave_spool(Exporter *exporter, Batch *batch);
/* Gives the disk the time it may have; what it does not do then is counted, and it is left alone. */
void exporter_finish_spool(Exporter *exporter);
/* Asks for the oldest of the spool if it is its turn. Return: it will come. */
bool exporter_fetch(Exporter *exporter);
/* The disk has it, or is about to. */
static inline bool exporter_is_safe(const Batch *batch) {
        return batch->is_spooled || batch->is_being_stored;
}

/* Is this the batch of the spool that was tried without success? */
bool exporter_is_tried(const Exporter *exporter, const Batch *batch);
