/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Exporter
 *
 * Ships finished OTLP requests over HTTP: gzip, keep-alive, the retry rules of
 * OTLP, and a bounded queue in memory whose oldest batch is dropped and counted
 * when it is full. Runs on the daemon's event loop and never blocks it.
 *
 * Each batch ends in exactly one of: EXPORT_OK (its samples are delivered, those that a partial
 * success rejects are LOST_EXPORT_REJECTED), or EXPORT_DROPPED with its samples in one LOST_EXPORT_*
 * or LOST_STOP counter. One request is under way at a time; while a receiver is in trouble
 * everything waits for it, oldest first.
 */

#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "util/macro.h"

typedef struct Exporter Exporter;

typedef struct ExporterConfig {
        const char *endpoint;           /* full URL of the profiles endpoint */
        const char *headers;            /* baggage form `k=v,k2=v2`, percent-encoded; NULL = none */
        int gzip;
        uint64_t timeout_ns;            /* of one request; 0 = 10 s */
        uint64_t max_queue_bytes;       /* bytes of waiting batches, as sent; 0 = 4 MiB */
        uint64_t max_age_ns;            /* a batch that is retried for longer is dropped; 0 = 15 min */
        uint64_t retry_first_ns;        /* 0 = 5 s; tests shorten it */
        const char *certificate;        /* CA file, or NULL */
        const char *client_certificate, *client_key;
} ExporterConfig;

enum {
        _EXPORTER_E_SUCCESS,
        EXPORTER_E_ENDPOINT,            /* no URL that we can use; a message was logged */
        EXPORTER_E_HEADERS,             /* headers are not in baggage form; a message was logged */
};

/* Strings are copied. Nothing is connected or set up until the first batch. Return: 0, EXPORTER_E_*, -errno. */
int exporter_new(Exporter **exporterp, sd_event *event, const ExporterConfig *config);

/* What still waits or is under way is counted as LOST_STOP. */
Exporter *exporter_free(Exporter *exporter);
DEFINE_CLEANUP(Exporter, exporter_free)

/* Queues a copy of one request with @n_events samples. Return: 0, -ENOMEM. */
int exporter_submit(Exporter *exporter, const uint8_t *data, size_t size, uint64_t n_events);

/*
 * Sends everything that waits, one attempt each, and calls @done when nothing is left or @deadline_ns
 * (MONOTONIC) has passed; what is left then is counted as LOST_STOP. @done is called once, from the event
 * loop, and may free the exporter. Return: 0, -errno.
 */
int exporter_stop(Exporter *exporter, uint64_t deadline_ns, void (*done)(void *userdata), void *userdata);

uint64_t exporter_queued_events(const Exporter *exporter);      /* waiting and in flight */
size_t exporter_queued_bytes(const Exporter *exporter);
