/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Exporter
 *
 * Ships finished OTLP requests over HTTP: gzip, keep-alive, the retry rules of
 * OTLP, and a bounded queue in memory whose oldest batch is dropped and counted
 * when it is full. Runs on the daemon's event loop and never blocks it.
 *
 * With a spool, a batch is written to the disk while its first attempt runs (see ExporterSpoolMode) and taken
 * from it with the answer; without one it stays there, and is sent oldest first, in turns with new ones. A
 * batch may be delivered twice then (a receiver that took it and died before it said so; we, between its
 * answer and the removal), but none is forgotten, and a second time it is the same to the byte, with the same
 * profile ids.
 *
 * Each batch ends in exactly one of: EXPORT_OK (its samples are delivered, those that a partial
 * success rejects are LOST_EXPORT_REJECTED), or EXPORT_DROPPED with its samples in one LOST_EXPORT_*
 * or LOST_STOP counter. One request is under way at a time; while a receiver is in trouble
 * everything waits for it, oldest first.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "base/util/macro.h"
#include "base/util/stat.h"
#include "delivery/spool/batch.h"

typedef struct Exporter Exporter;

/*
 * Turns a request from protobuf into JSON, or back. *datap is malloc()ed. Return: 0, positive = it is none,
 * -ENOMEM.
 */
typedef int (*ExportConvert)(const uint8_t *data, size_t size, bool to_json, uint8_t **datap, size_t *sizep);

typedef enum ExporterSpoolMode {
        EXPORTER_SPOOL_AHEAD, /* before there is an answer: our death loses nothing. Flushed once an attempt has failed, or after
                                         * spool_flush_after_ns without an answer: the loss of power takes nothing that is older */
        EXPORTER_SPOOL_FLUSH, /* the same, flushed at once; two flushes a batch */
        /* only what an attempt failed for: nothing is written while all is well */
        EXPORTER_SPOOL_FAILED,
} ExporterSpoolMode;

typedef struct ExporterConfig {
        const char *endpoint;           /* full URL of the profiles endpoint */
        const char *headers;            /* baggage form `k=v,k2=v2`, percent-encoded; NULL = none */
        int gzip;
        ExportConvert convert;          /* NULL: requests are sent as protobuf; else as JSON, made by it */
        uint64_t timeout_ns;            /* of one request; 0 = 10 s */
        uint64_t max_queue_bytes;       /* bytes of waiting batches, as sent; 0 = 4 MiB */
        uint64_t max_age_ns;            /* a batch that is retried for longer is dropped; 0 = 15 min */
        uint64_t retry_first_ns;        /* 0 = 5 s; tests shorten it */
        const char *certificate;        /* CA file, or NULL */
        const char *client_certificate, *client_key;
        bool secondary;                 /* one of several: util/stat counts for the first alone */
        const char *spool;              /* directory for what cannot be sent now; NULL = none */
        ExporterSpoolMode spool_mode;
        uint64_t spool_max_bytes, spool_max_age_ns;     /* 0 = no limit */
        uint64_t spool_flush_after_ns;  /* 0 = 2 s */
        uint64_t spool_time_limit_ns;     /* at the stop, for a disk that does not answer; 0 = 3 s */
        ExportConvert spool_convert;    /* for what was stored in the other form */
        bool spool_required;            /* else a spool that cannot be used is told and done without */
} ExporterConfig;

enum {
        _EXPORTER_E_SUCCESS,
        EXPORTER_E_ENDPOINT,            /* no URL that we can use; a message was logged */
        EXPORTER_E_HEADERS,             /* headers are not in baggage form; a message was logged */
        EXPORTER_E_LIBRARY,             /* nothing here sends over HTTP; a message was logged */
        /* the spool cannot be used, or another process has it; a message was logged */
        EXPORTER_E_SPOOL,
};

/*
 * Strings are copied. Nothing is connected or set up until the first batch. Return: 0, EXPORTER_E_*, -errno.
 */
int exporter_new(Exporter **exporterp, sd_event *event, const ExporterConfig *config);

/* What still waits or is under way is counted as LOST_STOP. */
Exporter *exporter_free(Exporter *exporter);
DEFINE_CLEANUP(Exporter, exporter_free)

/* Queues a copy of one request. Return: 0, -ENOMEM. */
int exporter_submit(Exporter *exporter, const ExportRequest *request);

/*
 * Sends everything that waits, one attempt each, and calls @done when nothing is left or @deadline_ns
 * (MONOTONIC) has passed; what is left then goes to the spool, or is counted as LOST_STOP. A disk that does
 * not answer within spool_time_limit_ns is left alone, and what it did not store is counted so, too. @done is
 * called once, from the event loop, and may free the exporter. Return: 0, -errno.
 */
int exporter_stop(Exporter *exporter, uint64_t deadline_ns, void (*done)(void *userdata), void *userdata);

/* in memory: waiting, in flight, on the way to the disk */
uint64_t exporter_queued_events(const Exporter *exporter);
size_t exporter_queued_bytes(const Exporter *exporter);
/* in memory alone: what our death would lose */
uint64_t exporter_unsaved_events(const Exporter *exporter);
uint64_t exporter_submitted_bytes(const Exporter *exporter);    /* as sent, of all so far */
uint64_t exporter_spooled_events(const Exporter *exporter);     /* in the spool */
size_t exporter_spooled_batches(const Exporter *exporter);

/* Did the last attempt fail? And when was one accepted last? MONOTONIC, 0 = none was. */
bool exporter_is_failing(const Exporter *exporter);
uint64_t exporter_accepted_ns(const Exporter *exporter);

/* What this one did, whether or not util/stat counts for it. */
uint64_t exporter_count(const Exporter *exporter, enum counter counter);
