/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Writes one line for each kind of trouble within a minute, and remembers which kinds to take back when all
 * is well.
 */

#include "host/delivery/export/export-log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "core/http/endpoint.h"

#define INTERVAL_NS (60 * NS_PER_SEC)

static void write_limited(ExportLog *log, TroubleKind kind, int level, Text *text) {
        uint64_t n_skipped = 0;

        if (text->failed || !text->data || !log_limit(&log->limits[kind], INTERVAL_NS, &n_skipped))
                return;
        if (n_skipped)
                text_printf(text, " (%llu like this were not logged)", (unsigned long long)n_skipped);
        log_write(level, "export: %s", text->data);
}

void export_log_failed(ExportLog *log, int level, const HttpReply *reply, const char *format, ...) {
        _cleanup_(text_deinit) Text text = { 0 };
        Response response = { 0 };
        char outcome[128];
        va_list args;

        va_start(args, format);
        vsnprintf(outcome, sizeof(outcome), format, args);
        va_end(args);
        if (!reply->fault)
                response_read_reply(&response, reply);
        trouble_describe(&text, log->url, reply, response.message);
        text_printf(&text, "; %s", outcome);
        write_limited(log, trouble_kind(reply), level, &text);
}

void export_log_rejected(ExportLog *log, const Response *response, const Batch *batch, uint64_t n_lost) {
        _cleanup_(text_deinit) Text text = { 0 };

        endpoint_append_shown(&text, log->url);
        text_printf(&text, " rejected %llu of %llu profiles (%llu of %llu samples)",
                    (unsigned long long)response->n_rejected, (unsigned long long)batch->n_profiles,
                    (unsigned long long)n_lost, (unsigned long long)batch->n_events);
        if (response->message[0])
                text_printf(&text, ": \"%s\"", response->message);
        write_limited(log, TROUBLE_REJECTED, LOG_LEVEL_WARNING, &text);
}

void export_log_accepted(ExportLog *log, const HttpReply *reply, const Response *response) {
        _cleanup_(text_deinit) Text text = { 0 };

        if (!response->message[0] && !response->malformed)
                return;
        endpoint_append_shown(&text, log->url);
        if (response->malformed)
                text_printf(&text, " answered %d with a body that cannot be read whole", reply->status);
        else
                text_printf(&text, " took the samples and says: \"%s\"", response->message);
        write_limited(log, TROUBLE_WARNING, LOG_LEVEL_WARNING, &text);
}

void export_log_not_otlp(ExportLog *log, const HttpReply *reply, const Batch *batch) {
        _cleanup_(text_deinit) Text text = { 0 };

        endpoint_append_shown(&text, log->url);
        text_printf(&text,
                    " answered %d with a body that is no OTLP response (%s); is it a receiver of profiles? "
                    "dropped %llu samples",
                    reply->status, reply->content_type[0] ? reply->content_type : "without a type",
                    (unsigned long long)batch->n_events);
        write_limited(log, TROUBLE_WARNING, LOG_LEVEL_ERROR, &text);
}

void export_log_overflow(ExportLog *log, size_t max_bytes, uint64_t n_lost) {
        _cleanup_(text_deinit) Text text = { 0 };

        text_printf(&text, "queue is full (%zu bytes), dropped the oldest %llu samples", max_bytes,
                    (unsigned long long)n_lost);
        write_limited(log, TROUBLE_QUEUE, LOG_LEVEL_WARNING, &text);
}

void export_log_spool(ExportLog *log, int error, uint64_t n_events) {
        _cleanup_(text_deinit) Text text = { 0 };

        text_printf(&text, "cannot write to the spool: %s; %llu samples stay in memory", strerror(error),
                    (unsigned long long)n_events);
        write_limited(log, TROUBLE_SPOOL, LOG_LEVEL_WARNING, &text);
}

void export_log_not_buried(ExportLog *log, int error, uint64_t n_events) {
        _cleanup_(text_deinit) Text text = { 0 };

        text_printf(&text, "cannot write to the dead letters of the spool: %s; %llu refused samples are gone",
                    strerror(error), (unsigned long long)n_events);
        write_limited(log, TROUBLE_SPOOL, LOG_LEVEL_WARNING, &text);
}

void export_log_spool_left(ExportLog *log, uint64_t n_batches, uint64_t n_events) {
        _cleanup_(text_deinit) Text text = { 0 };

        endpoint_append_shown(&text, log->url);
        log_error(
                "export: the disk of the spool does not answer, stopping without it; for %s %llu requests with %llu samples "
                "were not stored",
                text.data ? text.data : "a receiver", (unsigned long long)n_batches,
                (unsigned long long)n_events);
}

void export_log_spool_moved(ExportLog *log) {
        _cleanup_(text_deinit) Text text = { 0 };

        endpoint_append_shown(&text, log->url);
        log_notice(
                "export: the directory of the spool for %s was removed or replaced; going on in the one that is there now",
                text.data ? text.data : "a receiver");
}

void export_log_spool_lost(ExportLog *log, const SpoolCounts *counts) {
        _cleanup_(text_deinit) Text text = { 0 };

        text_printf(&text, "lost from the spool:");
        if (counts->lost_full)
                text_printf(&text, " %llu samples that had no room any more,",
                            (unsigned long long)counts->lost_full);
        if (counts->lost_age)
                text_printf(&text, " %llu samples that were too old,", (unsigned long long)counts->lost_age);
        if (counts->n_files_corrupt)
                text_printf(&text, " %llu files that cannot be read and were set aside (*.corrupt),",
                            (unsigned long long)counts->n_files_corrupt);
        if (counts->n_files_gone)
                text_printf(&text, " %llu files that are no longer there,",
                            (unsigned long long)counts->n_files_gone);
        if (counts->n_files_schema)
                text_printf(&text, " %llu files of another version of the format,",
                            (unsigned long long)counts->n_files_schema);
        if (text.size)
                text.data[--text.size] = 0;
        write_limited(log, TROUBLE_SPOOL_LOST, LOG_LEVEL_WARNING, &text);
}

void export_log_well_again(ExportLog *log, uint64_t trouble_ns, unsigned n_failures, size_t n_waiting) {
        _cleanup_(text_deinit) Text text = { 0 };

        endpoint_append_shown(&text, log->url);
        log_notice("export: %s takes samples again, after %llu s and %u failed requests; %zu requests wait",
                   text.data ? text.data : "receiver", (unsigned long long)(trouble_ns / NS_PER_SEC),
                   n_failures, n_waiting);
        /* new trouble is news */
        memset(log->limits, 0, sizeof(log->limits));
}
