/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Export Driver
 *
 * Runs one Exporter on an event loop as the daemon does: submits batches, waits until all have an outcome
 * (or for --run-ms, or until --retries requests are to be tried again, --spooled ones are in the spool, or it
 * is --drained), stops, and prints the counters and memory. Each batch is a small request with --profiles
 * profiles and the string `batch-N` in its dictionary (N from --first), so that a receiver can tell which one
 * it got. With --accepted M it says `accepted N` when everything before batch N is delivered or on the disk,
 * and submits no more while M or more are not.
 *
 * usage: export-driver URL [--OPTION VALUE]…
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "core/base/file/file.h"
#include "core/base/util/clock.h"
#include "core/base/util/macro.h"
#include "core/base/util/stat.h"
#include "core/base/util/text.h"
#include "core/otlp/transcode.h"
#include "host/delivery/export/exporter.h"

typedef struct Driver {
        ExporterConfig config;
        Exporter *exporter;
        sd_event *event;
        uint64_t n_batches, n_events, n_profiles, padding;
        uint64_t interval_ms, run_ms, stop_ms, n_retries, n_spooled, drained;
        uint64_t n_submitted, first, start_ns;
        uint64_t accepted, n_accepted;
        bool pausing;
        const char *file;               /* whose bytes are submitted */
        char *file_data;
        size_t file_size;
} Driver;

static void put_field(Text *text, unsigned number, const char *data, size_t size) {
        char head[8] = { (char)(number << 3 | 2) };
        size_t n = 1, left = size;

        for (; left >= 0x80; left >>= 7)
                head[n++] = (char)(left | 0x80);
        head[n++] = (char)left;
        text_append(text, head, n);
        text_append(text, data, size);
}

/* Bytes that do not compress, so that sizes in the queue are what the test asked for. */
static void put_noise(Text *text, uint64_t size, uint64_t seed) {
        for (uint64_t i = 0; i < size; i++) {
                char c;

                seed = seed * 6364136223846793005 + 1442695040888963407;
                c = (char)(seed >> 56);
                text_append(text, &c, 1);
        }
}

/* The same request again and again: for benches. */
static void submit_file(Driver *driver) {
        const ExportRequest request = { (const uint8_t *)driver->file_data, driver->file_size,
                                        driver->n_events, driver->n_profiles };

        if (exporter_submit(driver->exporter, &request))
                abort();
        driver->n_submitted++;
}

static void submit(Driver *driver) {
        _cleanup_(text_deinit) Text scope = { 0 }, resource = { 0 }, dictionary = { 0 }, request = { 0 },
                                    noise = { 0 };
        char name[32];

        if (driver->file) {
                submit_file(driver);
                return;
        }
        for (uint64_t i = 0; i < driver->n_profiles; i++)
                put_field(&scope, 2, "", 0);
        put_field(&resource, 2, scope.data ? scope.data : "", scope.size);
        put_field(&request, 1, resource.data, resource.size);
        snprintf(name, sizeof(name), "batch-%" PRIu64, driver->first + driver->n_submitted);
        put_field(&dictionary, 5, name, strlen(name));
        put_noise(&noise, driver->padding, driver->first + driver->n_submitted + 1);
        put_field(&dictionary, 5, noise.data ? noise.data : "", noise.size);
        put_field(&request, 2, dictionary.data, dictionary.size);
        if (exporter_submit(driver->exporter,
                            &(ExportRequest){ (const uint8_t *)request.data, request.size, driver->n_events,
                                              driver->n_profiles }))
                abort();
        driver->n_submitted++;
}

static void on_stopped(void *userdata) {
        Driver *driver = userdata;

        /* allowed by its contract, and thus tried in every run */
        driver->exporter = exporter_free(driver->exporter);
        sd_event_exit(driver->event, 0);
}

static int is_over(const Driver *driver, uint64_t now_ns) {
        if (driver->n_submitted < driver->n_batches)
                return 0;
        if (driver->drained)            /* nothing in the spool either */
                return !exporter_queued_events(driver->exporter) &&
                        !exporter_spooled_batches(driver->exporter);
        if (driver->n_spooled)
                return exporter_spooled_batches(driver->exporter) >= driver->n_spooled;
        if (!exporter_queued_events(driver->exporter))
                return 1;
        if (driver->n_retries)
                return stat_get(COUNTER_EXPORT_RETRIES) >= driver->n_retries;
        return driver->run_ms && now_ns - driver->start_ns > driver->run_ms * NS_PER_MS;
}

/* A disk that does not keep up is waited for, else there would never be an end to what is not accepted. */
static bool must_pause(Driver *driver) {
        uint64_t n = driver->accepted ? exporter_unsaved_events(driver->exporter) : 0;

        driver->pausing = n && (n >= driver->accepted * driver->n_events || driver->pausing);
        return driver->pausing;
}

static void say_accepted(Driver *driver) {
        if (!driver->accepted || driver->n_accepted == driver->n_submitted ||
            exporter_unsaved_events(driver->exporter))
                return;
        driver->n_accepted = driver->n_submitted;
        printf("accepted %" PRIu64 "\n", driver->first + driver->n_accepted);
        fflush(stdout);
}

static int on_tick(sd_event_source *source, uint64_t usec, void *userdata) {
        Driver *driver = userdata;
        uint64_t now_ns = clock_monotonic_ns();

        say_accepted(driver);
        while (driver->n_submitted < driver->n_batches && !must_pause(driver)) {
                submit(driver);
                if (driver->interval_ms)
                        break;
        }
        if (is_over(driver, now_ns)) {
                if (exporter_stop(driver->exporter, now_ns + driver->stop_ms * NS_PER_MS, on_stopped, driver))
                        abort();
                return 0;
        }
        sd_event_source_set_time_relative(source, (driver->interval_ms ? driver->interval_ms : 2) * 1000);
        return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static void print_memory(const char *when) {
        FILE *file = fopen("/proc/self/status", "re");
        char line[256];

        while (file && fgets(line, sizeof(line), file))
                if (!strncmp(line, "VmRSS:", 6) || !strncmp(line, "VmHWM:", 6) ||
                    !strncmp(line, "RssAnon:", 8))
                        printf("%s_%.*s_kib %d\n", when, (int)strcspn(line, ":"), line,
                               atoi(strchr(line, ':') + 1));
        if (file)
                fclose(file);
}

/*
 * What it cost the machine: CPU, and what was made dirty on disks less what was removed before it was
 * written.
 */
static void print_costs(void) {
        FILE *file = fopen("/proc/self/io", "re");
        struct rusage usage;
        char line[256];

        getrusage(RUSAGE_SELF, &usage);
        printf("cpu_us %ld\n",
               (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 + usage.ru_utime.tv_usec +
                       usage.ru_stime.tv_usec);
        while (file && fgets(line, sizeof(line), file))
                if (strstr(line, "write_bytes: "))
                        printf("%.*s %s", (int)strcspn(line, ":"), line, strchr(line, ':') + 2);
        if (file)
                fclose(file);
}

static int parse(Driver *driver, const char *name, char *value) {
        ExporterConfig *config = &driver->config;
        uint64_t spool_mode = UINT64_MAX;
        const struct {
                const char *name;
                uint64_t *to, unit;
        } numbers[] = {
                { "--timeout-ms", &config->timeout_ns, NS_PER_MS },
                { "--queue-bytes", &config->max_queue_bytes, 1 },
                { "--age-ms", &config->max_age_ns, NS_PER_MS },
                { "--retry-ms", &config->retry_first_ns, NS_PER_MS },
                { "--batches", &driver->n_batches, 1 },
                { "--events", &driver->n_events, 1 },
                { "--profiles", &driver->n_profiles, 1 },
                { "--padding", &driver->padding, 1 },
                { "--interval-ms", &driver->interval_ms, 1 },
                { "--run-ms", &driver->run_ms, 1 },
                { "--stop-ms", &driver->stop_ms, 1 },
                { "--retries", &driver->n_retries, 1 },
                { "--spool-bytes", &config->spool_max_bytes, 1 },
                { "--spool-age-ms", &config->spool_max_age_ns, NS_PER_MS },
                { "--drained", &driver->drained, 1 },
                { "--spooled", &driver->n_spooled, 1 },
                { "--first", &driver->first, 1 },
                { "--accepted", &driver->accepted, 1 },
                { "--spool-mode", &spool_mode, 1 },
                { "--flush-after-ms", &config->spool_flush_after_ns, NS_PER_MS },
                { "--starting-ms", &config->dialect.starting_ns, NS_PER_MS },
                { "--time-limit-ms", &config->spool_time_limit_ns, NS_PER_MS },
        };
        const struct {
                const char *name, **to;
        } strings[] = {
                { "--headers", &config->headers },                    { "--ca", &config->certificate },
                { "--spool", &config->spool },                        { "--file", &driver->file },
                { "--tenant", &config->dialect.tenant },
                { "--too-old", &config->dialect.too_old },
                { "--cert", &config->client_certificate },            { "--key", &config->client_key },
        };
        uint64_t gzip, json;

        if (!strcmp(name, "--json")) {
                config->convert = text_u64(value, 1, &json) || !json ? NULL : otlp_transcode;
                return 0;
        }
        for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
                if (!strcmp(name, numbers[i].name)) {
                        int r = text_u64(value, UINT64_MAX / NS_PER_MS, numbers[i].to);

                        *numbers[i].to *= numbers[i].unit;
                        if (!r && spool_mode <= SPOOL_STORE_FAILED)
                                config->spool_mode = (SpoolStoreMode)spool_mode;
                        return r;
                }
        for (size_t i = 0; i < ARRAY_SIZE(strings); i++)
                if (!strcmp(name, strings[i].name)) {
                        *strings[i].to = value;
                        return 0;
                }
        if (strcmp(name, "--gzip") || text_u64(value, 1, &gzip))
                return 1;
        config->gzip = (int)gzip;
        return 0;
}

static int run(Driver *driver) {
        sd_event_source *tick = NULL;
        int r;

        if (sd_event_new(&driver->event) < 0)
                return 1;
        r = exporter_new(&driver->exporter, driver->event, &driver->config);
        if (r) {
                printf("exporter_new %d\n", r);
                sd_event_unref(driver->event);
                return 3;
        }
        print_memory("start");
        driver->start_ns = clock_monotonic_ns();
        if (sd_event_add_time_relative(driver->event, &tick, CLOCK_MONOTONIC, 0, 1000, on_tick, driver) < 0)
                return 1;
        r = sd_event_loop(driver->event);
        sd_event_source_disable_unref(tick);
        sd_event_unref(driver->event);
        return r < 0;
}

int main(int argc, char **argv) {
        Driver driver = {
                .config = { .gzip = 1,
                            .spool_convert = otlp_transcode,
                            .timeout_ns = 5 * NS_PER_SEC,
                            .retry_first_ns = 10 * NS_PER_MS,
                            .spool_time_limit_ns = 300 * NS_PER_SEC /* a disk of a busy machine */ },
                .n_batches = 1,
                .n_events = 100,
                .n_profiles = 1,
                .stop_ms = 1000,
        };
        int r;

        if (argc < 2)
                return 2;
        driver.config.endpoint = argv[1];
        for (int i = 2; i < argc; i += 2)
                if (i + 1 == argc || parse(&driver, argv[i], argv[i + 1])) {
                        fprintf(stderr, "bad option %s\n", argv[i]);
                        return 2;
                }
        if (driver.file && file_read(driver.file, 1 << 30, &driver.file_data, &driver.file_size))
                return 2;
        r = run(&driver);
        printf("took_us %" PRIu64 "\n", (clock_monotonic_ns() - driver.start_ns) / NS_PER_US);
        free(driver.file_data);
        for (int i = COUNTER_DAEMON_FIRST + 1; !r && i < COUNTER_N; i++)
                if (stat_get(i))
                        printf("%s{%s} %" PRIu64 "\n", stat_metric(i), stat_label(i), stat_get(i));
        print_memory("end");
        print_costs();
        return r;
}
