/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Exporter by Configuration
 *
 * What `run` and `receive --forward` have in common: how requests are sent.
 */

#include <string.h>

#include "core/base/util/clock.h"
#include "core/otlp/transcode.h"
#include "host/delivery/export/exporter.h"
#include "host/service/config/backend.h"
#include "host/service/config/config.h"

/* The longest time that one request is tried for; what is in a spool is kept for longer. */
#define CONFIG_EXPORT_AGE_NS (3600 * NS_PER_SEC)

/* Everything of @config that is about sending, to @url. Strings stay the configuration's. */
static inline ExporterConfig config_exporter(const Config *config, const char *url) {
        const ConfigDelivery *delivery = &config->delivery;

        return (ExporterConfig){
                .endpoint = url,
                .headers = *delivery->headers ? delivery->headers : NULL,
                .gzip = !strcmp(delivery->compression, "gzip"),
                .convert = !strcmp(delivery->protocol, "http/json") ? otlp_transcode : NULL,
                .timeout_ns = delivery->timeout_ns,
                .max_queue_bytes = delivery->max_queue_bytes,
                .max_age_ns = CONFIG_EXPORT_AGE_NS,
                .certificate = *delivery->certificate ? delivery->certificate : NULL,
                .client_certificate = *delivery->client_certificate ? delivery->client_certificate : NULL,
                .client_key = *delivery->client_key ? delivery->client_key : NULL,
                .dialect = backend_dialect(config),
        };
}

/*
 * The same with the spool of the configuration. One process at a time uses a spool: the daemon, or
 * `spanprof spool flush`.
 */
static inline ExporterConfig config_exporter_spooled(const Config *config, const char *url) {
        ExporterConfig exporter = config_exporter(config, url);

        exporter.spool = *config->spool.directory ? config->spool.directory : NULL;
        exporter.spool_convert = otlp_transcode;
        exporter.spool_mode = !strcmp(config->spool.mode, "flush") ? SPOOL_STORE_FLUSH
                : !strcmp(config->spool.mode, "failed")            ? SPOOL_STORE_FAILED
                                                                   : SPOOL_STORE_AHEAD;
        exporter.spool_max_bytes = config->spool.max_bytes;
        exporter.spool_max_age_ns = config->spool.max_age_ns;
        return exporter;
}
