/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Exporter
 *
 * Ships finished OTLP requests to one receiver: gzip, keep-alive, the retry rules of OTLP, and a bounded
 * queue in memory whose oldest batch is dropped and counted when it is full. Runs on the daemon's event loop
 * and never blocks it.
 *
 * With a spool, a batch is written to the disk while its first attempt runs (see SpoolStoreMode) and removed
 * with the answer; without an answer it stays there, and is sent oldest first, in turns with new ones. A
 * batch may be delivered twice then: when the receiver took it and died before it said so, or when we died
 * between its answer and the removal. The second time it is the same to the byte, with the same profile ids.
 *
 * Each batch ends in exactly one of: EXPORT_OK (its samples are delivered, those that a partial success
 * rejects are LOST_EXPORT_REJECTED), or EXPORT_DROPPED with its samples in one LOST_EXPORT_* or LOST_STOP
 * counter. A success whose body is no reply of OTLP is none: something else answers there.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "core/base/util/macro.h"
#include "core/base/util/stat.h"
#include "core/http/transport.h"
#include "host/delivery/export/batch-store.h"
#include "host/delivery/export/batch.h"
#include "host/delivery/export/spool-store.h"

typedef struct Exporter Exporter;

/* Ways in which a receiver speaks otherwise than OTLP has it. Strings are copied. */
typedef struct ExportDialect {
        const char *tenant;             /* header X-Scope-OrgID of each request; NULL = none */
        uint64_t starting_ns;           /* a 500 is tried again for so long; 0 = never */
        /* words of a refusal of data that is too old for the receiver; NULL = nothing known */
        const char *too_old;
} ExportDialect;

typedef struct ExporterConfig {
        const char *endpoint;           /* full URL of the profiles endpoint */
        const char *headers;            /* baggage form `k=v,k2=v2`, percent-encoded; NULL = none */
        int gzip;
        ExportConvert convert;          /* NULL: requests are sent as protobuf; else as JSON, made by it */
        uint64_t timeout_ns;            /* time of one request; 0 = 10 s */
        uint64_t max_queue_bytes;       /* bytes of waiting batches, as sent; 0 = 4 MiB */
        uint64_t max_age_ns;            /* a batch that is retried for longer is dropped; 0 = 15 min */
        /*
         * With a spool: a batch that the receiver seems to read by another draft is refused after this, if it
         * accepts others meanwhile; 0 = 1 min
         */
        uint64_t max_draft_ns;
        uint64_t retry_first_ns;        /* 0 = 5 s; tests shorten it */
        const char *certificate;        /* CA file, or NULL */
        const char *client_certificate, *client_key;
        ExportDialect dialect;
        /* an exporter beside the first: util/stat counts for the first alone */
        bool secondary;
        const char *spool;              /* directory for what cannot be sent now; NULL = none */
        SpoolStoreMode spool_mode;
        uint64_t spool_max_bytes, spool_max_age_ns;     /* 0 = no limit */
        uint64_t spool_flush_after_ns;  /* 0 = 2 s */
        uint64_t spool_time_limit_ns;   /* at the stop, for a disk that does not answer; 0 = 3 s */
        ExportConvert spool_convert;    /* for what was stored in the other form; needed with a spool */
        /* a spool that cannot be used is an error; else it is told and done without */
        bool spool_required;
        bool spool_chosen;              /* done without only while another process has it */
} ExporterConfig;

enum {
        _EXPORTER_E_SUCCESS,
        /* a message was logged of each: */
        EXPORTER_E_ENDPOINT,            /* not a URL that can be used */
        EXPORTER_E_HEADERS,             /* headers are not in baggage form */
        EXPORTER_E_LIBRARY,             /* the library that sends over HTTP is not installed */
        EXPORTER_E_SPOOL,               /* the spool cannot be used, or another process has it */
        EXPORTER_E_SPOOL_CHOSEN,        /* the configuration chose a spool that cannot be used */
};

/*
 * Sends over HTTP and keeps in a spool, as @config says. Strings are copied. Nothing is connected or set up
 * until the first batch. Return: 0, EXPORTER_E_*, -errno.
 */
int exporter_new(Exporter **exporterp, sd_event *event, const ExporterConfig *config);

/*
 * The same on ports that are there. Of @config it uses what concerns neither HTTP nor the spool, where 0
 * stands for no default. The exporter owns both ports from now on, also if this fails. Return: 0, -errno.
 */
int exporter_new_on(Exporter **exporterp, sd_event *event, const ExporterConfig *config, Transport transport,
                    BatchStore store);

/* Batches that still wait or are under way are counted as LOST_STOP. */
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

/* As if the deadline were now, but @done is not called. Says how many samples are lost, and how many kept. */
void exporter_give_up(Exporter *exporter);

/* In memory: waiting, in flight, on the way to the disk. */
uint64_t exporter_queued_events(const Exporter *exporter);
size_t exporter_queued_bytes(const Exporter *exporter);
/* In memory alone: what our death would lose. */
uint64_t exporter_unsaved_events(const Exporter *exporter);
uint64_t exporter_submitted_bytes(const Exporter *exporter);    /* as sent, of all so far */
uint64_t exporter_spooled_events(const Exporter *exporter);     /* in the spool */
size_t exporter_spooled_batches(const Exporter *exporter);
uint64_t exporter_spooled_bytes(const Exporter *exporter);      /* bytes of its files */
uint64_t exporter_max_spool_bytes(const Exporter *exporter);    /* 0 = no limit, or no spool */

/* When the receiver's certificate ends, as it was shown last; seconds since 1970, 0 = it was not. */
time_t exporter_certificate_end(const Exporter *exporter);

/* Whether its spool could not be used when it was made: what cannot be sent waits in memory alone. */
bool exporter_lacks_spool(const Exporter *exporter);

/* Whether the last attempt failed, and when one was accepted last: MONOTONIC, 0 = none was. */
bool exporter_is_failing(const Exporter *exporter);
uint64_t exporter_accepted_ns(const Exporter *exporter);

/* @n_events of what was to be submitted are lost already, for the reason @counter. */
void exporter_add_lost(Exporter *exporter, enum counter counter, uint64_t n_events);

/* Counts of this exporter, whether or not util/stat counts for it. */
uint64_t exporter_count(const Exporter *exporter, enum counter counter);
