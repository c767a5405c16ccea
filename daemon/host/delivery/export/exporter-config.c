/* SPDX-License-Identifier: Apache-2.0 */

/* Makes the exporter that a configuration describes: HTTP as its transport, a spool as its store. */

#include <errno.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/http/endpoint.h"
#include "core/http/http.h"
#include "host/delivery/export/exporter.h"

/* As one more header in baggage form, where some of what a tenant may have means something else. */
static void append_tenant(Text *lines, const char *tenant) {
        text_printf(lines, "%sX-Scope-OrgID=", lines->size ? "," : "");
        for (; *tenant; tenant++)
                text_printf(lines, "%%%02X", (unsigned char)*tenant);
}

/* Return: 0, EXPORTER_E_*, -errno. */
static int new_http(Http **httpp, sd_event *event, const ExporterConfig *config) {
        _cleanup_(text_deinit) Text lines = { 0 };
        char **headers = NULL;
        HttpConfig http = {
                .url = config->endpoint,
                .gzip = config->gzip,
                .json = config->convert != NULL,
                .timeout_ns = config->timeout_ns,
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
        text_printf(&lines, "%s", config->headers ? config->headers : "");
        if (config->dialect.tenant)
                append_tenant(&lines, config->dialect.tenant);
        if (lines.failed)
                return error_origin(-ENOMEM);
        r = endpoint_parse_headers(lines.data ? lines.data : "", &headers, why, sizeof(why));
        if (r == ENDPOINT_E_INVALID) {
                log_error("export: %s", why);
                return EXPORTER_E_HEADERS;
        }
        if (r)
                return error_fold(r);
        http.headers = (const char *const *)headers;
        r = http_new(httpp, event, &http);
        endpoint_headers_free(headers);
        return r == HTTP_E_LIBRARY ? EXPORTER_E_LIBRARY : r;
}

static void log_spooled(const char *path, BatchStoreLevel level) {
        if (level.n_stored)
                log_info("spool %s: %zu requests with %llu samples are still to be sent", path,
                         level.n_stored, (unsigned long long)level.stored_events);
}

/* Return: 0, EXPORTER_E_SPOOL, EXPORTER_E_SPOOL_CHOSEN (*storep is none), -errno. */
static int new_store(BatchStore *storep, sd_event *event, const ExporterConfig *config) {
        SpoolStoreConfig spool = {
                .path = config->spool,
                .mode = config->spool_mode,
                .limits = { .max_bytes = config->spool_max_bytes, .max_age_ns = config->spool_max_age_ns },
                .gzip = config->gzip,
                .json = config->convert != NULL,
                .convert = config->spool_convert,
                .max_backlog_bytes = config->max_queue_bytes,
                .flush_after_ns = config->spool_flush_after_ns,
                .time_limit_ns = config->spool_time_limit_ns,
        };
        SpoolProblem problem;
        int r;

        *storep = batch_store_none();
        if (!config->spool)
                return 0;
        r = spool_store_new(storep, event, &spool, &problem);
        if (r < 0)
                return error_fold(r);
        if (r == SPOOL_E_UNUSABLE && config->spool_chosen) {
                log_error("spool %s: %s; make it for the user that the daemon runs as, or set `spool` to another "
                          "directory (empty: memory alone)",
                          config->spool, problem.text);
                return EXPORTER_E_SPOOL_CHOSEN;
        }
        if (r) {
                log_error("spool %s: %s; samples that cannot be sent wait in memory alone", config->spool,
                          problem.text);
                return EXPORTER_E_SPOOL;
        }
        log_spooled(config->spool, storep->ops->level(storep->self));
        return 0;
}

static uint64_t value_or(uint64_t value, uint64_t otherwise) {
        return value ? value : otherwise;
}

static ExporterConfig with_defaults(const ExporterConfig *config) {
        ExporterConfig full = *config;

        full.timeout_ns = value_or(full.timeout_ns, 10 * NS_PER_SEC);
        full.max_queue_bytes = value_or(full.max_queue_bytes, 4 << 20);
        full.max_age_ns = value_or(full.max_age_ns, 900 * NS_PER_SEC);
        full.max_draft_ns = value_or(full.max_draft_ns, 60 * NS_PER_SEC);
        full.retry_first_ns = value_or(full.retry_first_ns, 5 * NS_PER_SEC);
        full.spool_flush_after_ns = value_or(full.spool_flush_after_ns, 2 * NS_PER_SEC);
        full.spool_time_limit_ns = value_or(full.spool_time_limit_ns, 3 * NS_PER_SEC);
        return full;
}

/* Without its spool an exporter is what it would be without one: samples wait in memory. */
int exporter_new(Exporter **exporterp, sd_event *event, const ExporterConfig *config) {
        const ExporterConfig full = with_defaults(config);
        _cleanup_(http_freep) Http *http = NULL;
        BatchStore store;
        int r;

        r = new_http(&http, event, &full);
        if (r)
                return r;
        r = new_store(&store, event, &full);
        if (r < 0 || r == EXPORTER_E_SPOOL_CHOSEN || (r && config->spool_required))
                return r;
        return exporter_new_on(exporterp, event, &full, http_transport(take(http)), store);
}
