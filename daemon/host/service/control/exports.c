/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Each receiver has an exporter: the section [export], and each [export NAME]. A window is shaped and encoded
 * once for all that want the same form, and its requests are submitted to each of them. The books (ticks =
 * delivered + lost) are kept for the first receiver, since one sample can be delivered at one and lost at
 * another; the counters of the others stay with their exporters (`secondary`), and are shown separately:
 *
 *     spanprof_samples_delivered_total 812                                    books: the first receiver
 *     spanprof_receiver_samples_delivered_total{receiver="[export]"} 812
 *     spanprof_receiver_samples_delivered_total{receiver="archive"} 790
 */

#include "host/service/control/exports.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "core/base/data/json-writer.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "host/delivery/export/certificate.h"
#include "host/service/config/config-exporter.h"

typedef struct Export {
        Exporter *exporter;
        OtlpPayload payload;
        size_t as;                      /* the first one that has the same payload: its requests are ours */
        const char *name, *url;         /* the configuration's; name "" = the section without one */
        const Config *config;           /* as these */
        /* ends of certificates in files: authorities, client; 0 = there is none */
        time_t files_end[2];
        uint64_t look_ns;               /* next time to look at them */
} Export;

struct Exports {
        Export *items;
        size_t n, n_stopped;
        void (*done)(void *userdata);
        void *userdata;
};

/* ---- sending ---- */

static bool are_same_words(const FilterWords *a, const FilterWords *b) {
        if (a->n_items != b->n_items)
                return false;
        for (size_t i = 0; i < a->n_items; i++)
                if (strcmp(a->items[i], b->items[i]))
                        return false;
        return true;
}

static bool is_same_shape(const ReshapeOptions *a, const ReshapeOptions *b) {
        return a->lean == b->lean && are_same_words(&a->always, &b->always) &&
                are_same_words(&a->keep, &b->keep) && are_same_words(&a->repeat, &b->repeat) &&
                a->links == b->links && a->numbers == b->numbers && a->plain_types == b->plain_types &&
                a->paths == b->paths && a->unnamed == b->unnamed &&
                a->nameless == b->nameless && a->untimed == b->untimed;
}

static bool is_same_encoding(const OtlpOptions *a, const OtlpOptions *b) {
        return a->timestamps == b->timestamps && a->one_value == b->one_value && a->by_type == b->by_type &&
                a->max_samples == b->max_samples && a->max_pprof_bytes == b->max_pprof_bytes;
}

static bool is_same_payload(const OtlpPayload *a, const OtlpPayload *b) {
        return is_same_shape(&a->reshape, &b->reshape) && is_same_encoding(&a->encoding, &b->encoding);
}

static int add(Exports *exports, sd_event *event, const Config *config, bool named, const char *name) {
        ExporterConfig exporter = config_exporter_spooled(config, config->delivery.profiles_url);
        Export *export = &exports->items[exports->n];
        int r;

        exporter.secondary = exports->n > 0;
        exporter.spool_chosen = config_spool_is_chosen(config);
        r = exporter_new(&export->exporter, event, &exporter);
        if (r)
                return r > 0 ? EXPORTS_E_UNUSABLE : error_fold(r);
        export->name = name;
        export->url = config->delivery.shown_url;
        export->config = config;
        export->payload = backend_payload(config);
        export->payload.encoding.count_cpu = true;
        export->payload.encoding.no_fine = export->payload.reshape.no_fine = true;
        /* the others want names, and this one does not */
        export->payload.reshape.unnamed = named && !backend_has_names(config);
        while (!is_same_payload(&exports->items[export->as].payload, &export->payload))
                export->as++;
        exports->n++;
        return 0;
}

int exports_new(Exports **exportsp, sd_event *event, const Config *config) {
        _cleanup_(exports_freep) Exports *exports = calloc(1, sizeof(*exports));
        bool named = backend_wants_names(config);
        int r = 0;

        if (!exports)
                return error_origin(-ENOMEM);
        exports->items = calloc(config->n_exports + 1, sizeof(*exports->items));
        if (!exports->items)
                return error_origin(-ENOMEM);
        if (config_first_export(config))
                r = add(exports, event, config, named, "");
        for (size_t i = 0; !r && i < config->n_exports; i++)
                r = add(exports, event, config->exports[i].config, named, config->exports[i].name);
        if (r)
                return r;
        *exportsp = take(exports);
        return 0;
}

Exports *exports_free(Exports *exports) {
        if (!exports)
                return NULL;
        for (size_t i = 0; i < exports->n; i++)
                exporter_free(exports->items[i].exporter);
        free(exports->items);
        free(exports);
        return NULL;
}

/* Encoding of the window, for all receivers that share it. */
typedef struct Sending {
        Exports *exports;
        size_t as;
        ExportsLook look;
} Sending;

static int submit(const uint8_t *data, size_t size, uint64_t n_events, uint64_t n_profiles, void *userdata) {
        const ExportRequest request = { data, size, n_events, n_profiles };
        const Sending *sending = userdata;
        Exports *exports = sending->exports;
        int r = sending->look ? sending->look(data, size) : 0;

        for (size_t i = sending->as; i < exports->n && !r; i++)
                if (exports->items[i].as == sending->as)
                        r = exporter_submit(exports->items[i].exporter, &request);
        return error_fold(r);
}

int exports_window(Exports *exports, const Window *window, ExportsLook look) {
        for (size_t i = 0; i < exports->n; i++) {
                Sending sending = { exports, i, look };
                uint64_t n_lost = 0;
                int r;

                if (exports->items[i].as != i)
                        continue;
                r = otlp_payload_encode(&exports->items[i].payload, window, submit, &sending, &n_lost);
                if (r)
                        return error_fold(r);
                for (size_t j = i; j < exports->n; j++)
                        if (exports->items[j].as == i)
                                exporter_add_lost(exports->items[j].exporter, COUNTER_LOST_ENCODE, n_lost);
        }
        return 0;
}

static void on_stopped(void *userdata) {
        Exports *exports = userdata;

        if (++exports->n_stopped == exports->n)
                exports->done(exports->userdata);
}

int exports_stop(Exports *exports, uint64_t deadline_ns, void (*done)(void *userdata), void *userdata) {
        exports->done = done;
        exports->userdata = userdata;
        for (size_t i = 0; i < exports->n; i++) {
                int r = exporter_stop(exports->items[i].exporter, deadline_ns, on_stopped, exports);

                if (r)
                        return error_fold(r);
        }
        return 0;
}

void exports_give_up(Exports *exports) {
        for (size_t i = 0; i < exports->n; i++)
                exporter_give_up(exports->items[i].exporter);
}

uint64_t exports_queued_events(const Exports *exports) {
        uint64_t n = 0;

        for (size_t i = 0; i < exports->n; i++)
                n += exporter_queued_events(exports->items[i].exporter);
        return n;
}

size_t exports_queued_bytes(const Exports *exports) {
        size_t n = 0;

        for (size_t i = 0; i < exports->n; i++)
                n += exporter_queued_bytes(exports->items[i].exporter);
        return n;
}

bool exports_are_failing(const Exports *exports) {
        bool are_failing = false;

        for (size_t i = 0; i < exports->n; i++)
                are_failing |= exporter_is_failing(exports->items[i].exporter);
        return are_failing;
}

uint64_t exports_unsaved_events(const Exports *exports) {
        uint64_t n = 0;

        for (size_t i = 0; i < exports->n; i++)
                n = MAX(n, exporter_unsaved_events(exports->items[i].exporter));
        return n;
}

size_t exports_lacking_spools(const Exports *exports) {
        size_t n = 0;

        for (size_t i = 0; i < exports->n; i++)
                n += exporter_lacks_spool(exports->items[i].exporter);
        return n;
}

uint64_t exports_submitted_bytes(const Exports *exports) {
        uint64_t n = 0;

        for (size_t i = 0; i < exports->n; i++)
                n = MAX(n, exporter_submitted_bytes(exports->items[i].exporter));
        return n;
}

/* ---- certificates ---- */

#define CERTIFICATES_INTERVAL_NS (60 * NS_PER_SEC)

static const char *const certificate_names[] = { "authorities", "client", "receiver" };

/* A file that is replaced is seen at the next look. What cannot be read is said by the requests that fail. */
static void look_at_files(Export *export) {
        const Config *config = export->config;
        const char *const paths[] = { config->delivery.certificate, config->delivery.client_certificate };
        uint64_t now_ns = clock_monotonic_ns();

        if (now_ns < export->look_ns || strncasecmp(export->url, "https:", strlen("https:")))
                return;
        for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
                export->files_end[i] = 0;
                if (*paths[i])
                        certificate_end(paths[i], i ? CERTIFICATES_CHAIN : CERTIFICATES_AUTHORITIES,
                                        &export->files_end[i]);
        }
        export->look_ns = now_ns + CERTIFICATES_INTERVAL_NS;
}

/* @i: into certificate_names. Return: seconds since 1970; 0 = there is none, or it is not known. */
static time_t certificate_end_of(Export *export, size_t i) {
        look_at_files(export);
        return i < ARRAY_SIZE(export->files_end) ? export->files_end[i]
                                                 : exporter_certificate_end(export->exporter);
}

/* ---- shown: the summary, status ---- */

static bool is_loss(enum counter counter) {
        return !strcmp(stat_metric(counter), "lost_total");
}

static uint64_t count_lost(const Exporter *exporter) {
        uint64_t n = 0;

        for (enum counter counter = 0; counter < COUNTER_N; counter++)
                if (is_loss(counter))
                        n += exporter_count(exporter, counter);
        return n;
}

/* How long ago; 0 = it has accepted nothing. */
static uint64_t since_accepted(const Exporter *exporter, uint64_t now_ns) {
        uint64_t accepted_ns = exporter_accepted_ns(exporter);

        return accepted_ns ? now_ns - accepted_ns : 0;
}

static void append_json(const Export *export, JsonWriter *json) {
        static const struct {
                const char *name;
                enum counter counter;
        } counters[] = {
                { "delivered", COUNTER_SAMPLES_DELIVERED }, { "requests", COUNTER_EXPORT_REQUESTS },
                { "retries", COUNTER_EXPORT_RETRIES },      { "dropped", COUNTER_EXPORT_DROPPED },
                { "bytes", COUNTER_EXPORT_BYTES },          { "spooled", COUNTER_SPOOL_WRITTEN },
                { "unspooled", COUNTER_SPOOL_TAKEN },
        };
        const Exporter *exporter = export->exporter;

        json_open(json, NULL, '{');
        json_text(json, "name", export->name);
        json_number(json, "lost", count_lost(exporter));
        for (size_t i = 0; i < ARRAY_SIZE(counters); i++)
                json_number(json, counters[i].name, exporter_count(exporter, counters[i].counter));
        json_number(json, "queued", exporter_queued_events(exporter));
        json_number(json, "unsaved", exporter_unsaved_events(exporter));
        json_number(json, "in_spool", exporter_spooled_events(exporter));
        json_bool(json, "failing", exporter_is_failing(exporter));
        json_close(json, '}');
}

void exports_append_json(const Exports *exports, Text *text) {
        JsonWriter json = { .text = text, .is_spaced = true };

        json_open(&json, NULL, '[');
        for (size_t i = 0; i < exports->n; i++)
                append_json(&exports->items[i], &json);
        json_close(&json, ']');
}

static void append_status(const Export *export, uint64_t now_ns, Text *text) {
        const Exporter *exporter = export->exporter;
        uint64_t age_ns = since_accepted(exporter, now_ns);

        text_printf(text,
                    "receiver     [export%s%s] %s: %" PRIu64 " samples delivered, %" PRIu64 " lost, %" PRIu64
                    " wait, %" PRIu64 " in its spool; ",
                    *export->name ? " " : "", export->name, export->url,
                    exporter_count(exporter, COUNTER_SAMPLES_DELIVERED), count_lost(exporter),
                    exporter_queued_events(exporter), exporter_spooled_events(exporter));
        if (age_ns)
                text_printf(text, "last accepted %" PRIu64 " s ago%s\n", age_ns / NS_PER_SEC,
                            exporter_is_failing(exporter) ? ", FAILING" : "");
        else
                text_printf(text, "has accepted nothing%s\n",
                            exporter_is_failing(exporter) ? ", FAILING" : "");
}

/* Appends certificates that are about to end. */
static void append_certificates(Export *export, Text *text) {
        char date[sizeof("2026-11-23 12:00:00")];
        struct tm tm;

        for (size_t i = 0; i < ARRAY_SIZE(certificate_names); i++) {
                time_t end = certificate_end_of(export, i);

                if (end && end - time(NULL) < CERTIFICATE_SOON_S &&
                    strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S", gmtime_r(&end, &tm)))
                        text_printf(text, "certificate  %s (%s): ends %s UTC\n", certificate_names[i], export->url,
                                    date);
        }
}

void exports_append_status(const Exports *exports, Text *text) {
        uint64_t now_ns = clock_monotonic_ns();

        for (size_t i = 0; i < exports->n; i++)
                if (exporter_lacks_spool(exports->items[i].exporter))
                        text_printf(text, "receiver     %s: its spool cannot be used: what it misses waits in memory alone\n",
                                    exports->items[i].url);
        for (size_t i = 0; i < exports->n; i++)
                append_certificates(&exports->items[i], text);
        for (size_t i = 0; exports->n > 1 && i < exports->n; i++)
                append_status(&exports->items[i], now_ns, text);
}

/* No section is named in brackets: this cannot be another's label. */
static const char *label_of(const Export *export) {
        return *export->name ? export->name : "[export]";
}

/* ---- Prometheus ---- */

/*
 * The counters of an exporter, once more for each receiver. The families have names of their own: those
 * without `receiver_` are the books of the first receiver, which would not come out even with the others'
 * among them.
 */
static const enum counter shown[] = {
        COUNTER_SAMPLES_DELIVERED,  COUNTER_EXPORT_REQUESTS,     COUNTER_EXPORT_OK,
        COUNTER_EXPORT_RETRIES,     COUNTER_EXPORT_DROPPED,      COUNTER_EXPORT_BYTES,
        COUNTER_LOST_EXPORT_QUEUE,  COUNTER_LOST_EXPORT_REFUSED, COUNTER_LOST_EXPORT_REJECTED,
        COUNTER_LOST_EXPORT_AGE,    COUNTER_LOST_EXPORT_TOO_OLD, COUNTER_LOST_EXPORT_NOT_OTLP,
        COUNTER_LOST_ENCODE,        COUNTER_LOST_SPOOL_FULL,     COUNTER_LOST_SPOOL_AGE,
        COUNTER_LOST_SPOOL_CORRUPT, COUNTER_LOST_SPOOL_SCHEMA,   COUNTER_LOST_STOP,
        COUNTER_SPOOL_WRITTEN,      COUNTER_SPOOL_TAKEN,         COUNTER_SPOOL_CORRUPT,
        COUNTER_SPOOL_FAILED,       COUNTER_SPOOL_DEAD,
};

static void append_counter(const Exports *exports, enum counter counter, bool first, Text *text) {
        const char *metric = stat_metric(counter), *label = stat_label(counter);

        if (first)
                text_printf(
                        text,
                        "# HELP spanprof_receiver_%s spanprof_%s at each receiver\n# TYPE spanprof_receiver_%s counter\n",
                        metric, metric, metric);
        for (size_t i = 0; i < exports->n; i++)
                text_printf(text, "spanprof_receiver_%s{receiver=\"%s\"%s%s} %" PRIu64 "\n", metric,
                            label_of(&exports->items[i]), *label ? "," : "", label,
                            exporter_count(exports->items[i].exporter, counter));
}

static uint64_t queued_bytes(const Exporter *exporter) {
        return exporter_queued_bytes(exporter);
}

static uint64_t is_failing(const Exporter *exporter) {
        return exporter_is_failing(exporter);
}

static const struct {
        const char *name, *help;
        uint64_t (*value)(const Exporter *exporter);
} gauges[] = {
        { "queue_samples", "samples that wait in memory", exporter_queued_events },
        { "queue_bytes", "bytes that wait in memory, as sent", queued_bytes },
        { "unsaved_samples", "samples that are in memory alone: the death of the daemon would lose them",
          exporter_unsaved_events },
        { "spool_samples", "samples that wait in its spool", exporter_spooled_events },
        { "spool_bytes", "bytes of the files in its spool", exporter_spooled_bytes },
        { "spool_max_bytes", "spool-max-bytes; 0 = no limit, or no spool", exporter_max_spool_bytes },
        { "failing", "1 while the last request to it has failed", is_failing },
};

static void append_certificate_ends(const Exports *exports, Text *text) {
        static const char name[] = "spanprof_certificate_end_seconds";
        bool said = false;

        for (size_t i = 0; i < exports->n; i++)
                for (size_t j = 0; j < ARRAY_SIZE(certificate_names); j++) {
                        time_t end = certificate_end_of(&exports->items[i], j);

                        if (!end)
                                continue;
                        if (!said)
                                text_printf(text,
                                            "# HELP %s when a certificate ends, since 1970: ours, our authorities', "
                                            "the receiver's\n# TYPE %s gauge\n", name, name);
                        said = true;
                        text_printf(text, "%s{receiver=\"%s\",certificate=\"%s\"} %lld\n", name,
                                    label_of(&exports->items[i]), certificate_names[j], (long long)end);
                }
}

void exports_append_metrics(const Exports *exports, Text *text) {
        for (size_t i = 0; i < ARRAY_SIZE(shown); i++)
                append_counter(exports, shown[i],
                               !i || strcmp(stat_metric(shown[i]), stat_metric(shown[i - 1])), text);
        for (size_t i = 0; i < ARRAY_SIZE(gauges); i++) {
                text_printf(text, "# HELP spanprof_receiver_%s %s\n# TYPE spanprof_receiver_%s gauge\n",
                            gauges[i].name, gauges[i].help, gauges[i].name);
                for (size_t j = 0; j < exports->n; j++)
                        text_printf(text, "spanprof_receiver_%s{receiver=\"%s\"} %" PRIu64 "\n",
                                    gauges[i].name, label_of(&exports->items[j]),
                                    gauges[i].value(exports->items[j].exporter));
        }
        append_certificate_ends(exports, text);
}

void exports_log(const Exports *exports) {
        for (size_t i = 1; i < exports->n; i++) {
                const Export *export = &exports->items[i];

                log_info("[export %s]: %" PRIu64 " samples delivered, %" PRIu64 " lost, %" PRIu64
                         " left in its spool",
                         export->name, exporter_count(export->exporter, COUNTER_SAMPLES_DELIVERED),
                         count_lost(export->exporter), exporter_spooled_events(export->exporter));
        }
}
