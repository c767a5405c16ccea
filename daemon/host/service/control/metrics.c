/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Prints the counters in the order of their table, one family at a time, and gauges from a struct of
 * values; the status for people and JSON are made from the same values.
 */

#include "host/service/control/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/data/json-writer.h"
#include "core/base/data/shares.h"
#include "core/base/sandbox/rights.h"
#include "core/base/util/clock.h"
#include "core/base/util/macro.h"
#include "core/base/util/stat.h"
#include "core/build-revision.h"
#include "host/sampling/process/identity.h"
#include "host/sampling/sample/machine.h"
#include "host/service/config/config-effective.h"
#include "host/service/control/nameless.h"
#include "host/service/control/openmetrics.h"

enum { MAX_GO_GROUPS = 16 };            /* lines of the status that tell of programs of Go */

/* ---- Prometheus ---- */

static bool is_first(enum counter counter) {
        for (enum counter earlier = 0; earlier < counter; earlier++)
                if (!strcmp(stat_metric(earlier), stat_metric(counter)))
                        return false;
        return true;
}

/* Prometheus' base unit of time is the second: counters of ns are divided. Return: the divisor. */
static double unit(const char *metric, char *name, size_t size) {
        const char *ns = strstr(metric, "_nanoseconds_total");

        if (!ns) {
                snprintf(name, size, "%s", metric);
                return 1;
        }
        snprintf(name, size, "%.*s_seconds_total", (int)(ns - metric), metric);
        return (double)NS_PER_SEC;
}

/* reason="stop" → stop */
static void append_label_value(Text *text, const char *label) {
        const char *quote = strchr(label, '"');

        if (quote)
                text_append(text, quote + 1, strcspn(quote + 1, "\""));
}

/* Appends a line for the whole family: what each label means. */
static void append_help(Text *text, enum counter first, const char *name) {
        const char *separator = "";

        text_printf(text, "# HELP spanprof_%s ", name);
        for (enum counter counter = first; counter < COUNTER_N; counter++) {
                if (strcmp(stat_metric(counter), stat_metric(first)))
                        continue;
                text_printf(text, "%s", separator);
                append_label_value(text, stat_label(counter));
                text_printf(text, "%s%s", *stat_label(counter) ? ": " : "", stat_help(counter));
                separator = "; ";
        }
        text_printf(text, "\n# TYPE spanprof_%s counter\n", name);
}

static void append_value(Text *text, enum counter counter, const char *name, double divisor) {
        const char *label = stat_label(counter);

        text_printf(text, "spanprof_%s%s%s%s ", name, *label ? "{" : "", label, *label ? "}" : "");
        if (divisor > 1)
                text_printf(text, "%.9f\n", (double)stat_get(counter) / divisor);
        else
                text_printf(text, "%" PRIu64 "\n", stat_get(counter));
}

static void append_family(Text *text, enum counter first) {
        char name[128];
        double divisor = unit(stat_metric(first), name, sizeof(name));

        append_help(text, first, name);
        for (enum counter counter = first; counter < COUNTER_N; counter++)
                if (!strcmp(stat_metric(counter), stat_metric(first)))
                        append_value(text, counter, name, divisor);
}

static void append_number(Text *text, const char *name, const char *type, double value, const char *help) {
        text_printf(text, "# HELP %s %s\n# TYPE %s %s\n%s %.15g\n", name, help, name, type, name, value);
}

static uint32_t n_unwalked(const Runtimes *runtimes) {
        RuntimesState state = runtimes_state(runtimes);

        return state.n_processes - MIN(state.n_walked, state.n_processes);
}

/* From the oldest window's begin until now. */
static uint64_t recorder_reach_ns(const Metrics *m) {
        uint64_t now_ns = clock_read_ns(CLOCK_REALTIME);

        return m->recorder.start_ns ? now_ns - MIN(now_ns, m->recorder.start_ns) : 0;
}

static void append_gauges(Text *text, const Metrics *m) {
        append_number(text, "spanprof_targets", "gauge", (double)m->n_targets, "processes that are profiled");
        append_number(text, "spanprof_processes", "gauge", (double)m->n_processes,
                      "processes that are known");
        append_number(text, "spanprof_sampled_cpus", "gauge", m->n_cpus, "CPUs with a sampling timer");
        append_number(text, "spanprof_frequency_hertz", "gauge", m->frequency,
                      "nominal samples per second and CPU, as it is now");
        append_number(text, "spanprof_paused", "gauge", m->pause && strcmp(m->pause, "sample-hosts"),
                      "1 while nothing is sampled on request or for want of memory; 0 in other hosts' turns");
        append_number(text, "spanprof_wait_limit", "gauge", m->wait_limit,
                      "what waits lack for too many switches: 0 nothing, 1 walks, 2 also of long ones, 3 also spans and wakers, 4 all");
        append_number(text, "spanprof_ready", "gauge", m->unready == NULL,
                      "1 while the kernel half is attached and mappings are current");
        append_number(text, "spanprof_export_queue_samples", "gauge", (double)m->queued_events,
                      "samples that wait for the receiver");
        append_number(text, "spanprof_export_queue_bytes", "gauge", (double)m->queued_bytes,
                      "bytes that wait for the receiver");
        append_number(text, "spanprof_export_unsaved_samples", "gauge", (double)m->unsaved_events,
                      "samples that are in memory alone: the death of the daemon would lose them");
        append_number(text, "spanprof_spools_unusable", "gauge", (double)m->lacking_spools,
                      "receivers whose spool could not be used at the start: what they miss waits in memory alone");
        append_number(text, "spanprof_export_age_seconds", "gauge",
                      (double)(m->exported_ns == UINT64_MAX ? m->age_ns : m->exported_ns) /
                              (double)NS_PER_SEC,
                      "seconds since a receiver accepted a request, or since the start if none did");
        append_number(text, "spanprof_names_waiting", "gauge", m->naming.n_waiting,
                      "addresses in files that are being looked up");
        append_number(text, "spanprof_code_processes", "gauge", m->naming.n_processes,
                      "processes whose own code is followed");
        append_number(text, "spanprof_runtime_processes", "gauge",
                      m->runtimes ? runtimes_state(m->runtimes).n_walked : 0,
                      "processes whose runtime's frames are walked");
        append_number(text, "spanprof_runtime_unwalked_processes", "gauge",
                      m->runtimes ? n_unwalked(m->runtimes) : 0,
                      "processes whose runtime is known and not walked");
        append_number(text, "spanprof_runtime_bytes", "gauge",
                      m->runtimes ? (double)runtimes_state(m->runtimes).memory : 0,
                      "bytes held for names of runtimes' frames");
        append_number(text, "spanprof_naming_bytes", "gauge", (double)m->naming.memory,
                      "bytes held for names, symbol tables of files not counted");
        append_number(text, "spanprof_symbol_table_bytes", "gauge", (double)m->naming.table_bytes,
                      "bytes held for symbol tables of files (symbols = local)");
        if (m->has_uploads) {
                append_number(text, "spanprof_symbol_uploads_waiting", "gauge", m->uploads.n_waiting,
                              "files whose symbols wait for their upload");
                append_number(text, "spanprof_symbol_upload_day_bytes", "gauge",
                              (double)m->uploads.spent_bytes, "bytes of symbols uploaded today (UTC)");
        }
        if (m->has_fetcher)
                append_number(text, "spanprof_debuginfod_waiting", "gauge", m->fetcher.n_waiting,
                              "debug files that servers are to be asked for");
        if (m->has_recorder) {
                append_number(text, "spanprof_recorder_reach_seconds", "gauge",
                              (double)recorder_reach_ns(m) / (double)NS_PER_SEC,
                              "how far back the flight recorder reaches");
                append_number(text, "spanprof_recorder_bytes", "gauge", (double)m->recorder.bytes,
                              "bytes that the flight recorder holds");
        }
        append_number(text, "spanprof_bpf_map_bytes", "gauge", (double)m->map_bytes,
                      "kernel memory of all BPF maps");
}

/* Names that every Prometheus client library uses. */
static void append_process(Text *text, const Self *self) {
        append_number(text, "process_cpu_seconds_total", "counter", (double)self->cpu_ns / (double)NS_PER_SEC,
                      "CPU time of the daemon itself");
        append_number(text, "process_resident_memory_bytes", "gauge", (double)self->resident_bytes,
                      "bytes of memory of the daemon itself");
        append_number(text, "process_virtual_memory_bytes", "gauge", (double)self->virtual_bytes,
                      "bytes of the daemon's address space");
        append_number(text, "process_open_fds", "gauge", (double)self->n_descriptors,
                      "open descriptors of the daemon");
        append_number(text, "process_max_fds", "gauge", (double)self->max_descriptors,
                      "the limit of its open descriptors");
        append_number(text, "process_start_time_seconds", "gauge", self->start_time,
                      "when the daemon started, in seconds since 1970");
}

/* Appends a series for each file that the configuration needs. */
static void append_files(Text *text, const KernelFiles *files) {
        text_printf(text, "# HELP spanprof_kernel_file_readable 1 while the daemon can read this file of the kernel\n"
                          "# TYPE spanprof_kernel_file_readable gauge\n");
        for (KernelFile file = 0; file < KERNEL_FILE_N; file++)
                if (files->states[file] != KERNEL_FILE_UNWANTED)
                        text_printf(text, "spanprof_kernel_file_readable{file=\"%s\"} %d\n",
                                    kernel_file_name(file), !kernel_file_is_hidden(files->states[file]));
}

/* Appends a series for each user that had to give way; IDENTITY_NOBODY is one whose processes are gone. */
static void append_users(Text *text) {
        uint64_t n_others;
        size_t n;
        const ShareUser *users = shares_users(&n, &n_others);

        if (!n)
                return;
        text_printf(text, "# HELP spanprof_without_room_total Times that an entry of a table with shares gave way or was refused, each attempt for itself, by user; the log has the table\n"
                          "# TYPE spanprof_without_room_total counter\n");
        for (size_t i = 0; i < n; i++) {
                if (users[i].user == IDENTITY_NOBODY)
                        text_printf(text, "spanprof_without_room_total{user=\"unknown\"} ");
                else
                        text_printf(text, "spanprof_without_room_total{user=\"%u\"} ", users[i].user);
                text_printf(text, "%" PRIu64 "\n", users[i].n);
        }
        text_printf(text, "spanprof_without_room_total{user=\"other\"} %" PRIu64 "\n", n_others);
}

/* ---- sums by span ---- */

/* A table of sums, and its families in the page. */
typedef struct SpanPage {
        Text *text;
        const SpanCpu *sums;
        bool with_exemplars;
        bool is_time;                   /* ns, which are shown in seconds; else bytes */
        const char *name;               /* of the family that is being written */
} SpanPage;

static void append_quoted(Text *text, const char *value) {
        text_append(text, "\"", 1);
        for (; *value; value++) {
                if (*value == '\n') {
                        text_append(text, "\\n", 2);
                        continue;
                }
                if (*value == '"' || *value == '\\')
                        text_append(text, "\\", 1);
                text_append(text, value, 1);
        }
        text_append(text, "\"", 1);
}

static void append_amount(const SpanPage *page, uint64_t value) {
        if (page->is_time)
                text_printf(page->text, "%.9f", (double)value / (double)NS_PER_SEC);
        else
                text_printf(page->text, "%" PRIu64, value);
}

static void append_exemplar(const SpanPage *page, const SpanCpuExemplar *exemplar) {
        const struct abi_span *span = &exemplar->span;

        text_printf(page->text, " # {trace_id=\"%016" PRIx64 "%016" PRIx64 "\",span_id=\"%016" PRIx64 "\"} ",
                    span->trace_high, span->trace_low, span->span);
        append_amount(page, exemplar->ns);
        text_printf(page->text, " %.3f", (double)exemplar->time_ns / (double)NS_PER_SEC);
}

static void append_row(void *userdata, const SpanCpuRow *row) {
        const SpanPage *page = userdata;

        text_printf(page->text, "spanprof_%s{service=", page->name);
        append_quoted(page->text, row->service);
        text_printf(page->text, ",operation=");
        append_quoted(page->text, row->operation);
        text_printf(page->text, "} ");
        append_amount(page, row->ns);
        if (page->with_exemplars && row->exemplar->ns)
                append_exemplar(page, row->exemplar);
        text_append(page->text, "\n", 1);
}

static void append_of_service(const SpanPage *page, const char *service, uint64_t value) {
        text_printf(page->text, "spanprof_%s{service=", page->name);
        append_quoted(page->text, service);
        text_printf(page->text, "} ");
        append_amount(page, value);
        text_append(page->text, "\n", 1);
}

static void append_outside(void *userdata, const SpanCpuService *service) {
        append_of_service(userdata, service->name, service->outside_ns);
}

static void append_split(void *userdata, const SpanCpuService *service) {
        append_of_service(userdata, service->name, service->split_ns);
}

static void append_rows(SpanPage *page) {
        span_cpu_each_row(page->sums, append_row, page);
}

static void append_outsides(SpanPage *page) {
        span_cpu_each_service(page->sums, append_outside, page);
}

static void append_splits(SpanPage *page) {
        span_cpu_each_service(page->sums, append_split, page);
}

/* A family without a row is not there. */
static void append_sums(SpanPage *page, const char *name, const char *type, const char *help,
                        void (*append)(SpanPage *page)) {
        Text *text = page->text;
        size_t from = text->size, head;

        page->name = name;
        text_printf(text, "# HELP spanprof_%s %s\n# TYPE spanprof_%s %s\n", name, help, name, type);
        head = text->size;
        append(page);
        if (text->size == head && !text->failed) {
                text->size = from;
                text->data[from] = 0;
        }
}

static void append_span_cpu(Text *text, const SpanCpu *cpu, bool with_exemplars) {
        SpanPage page = { text, cpu, with_exemplars, true };

        append_sums(&page, "span_cpu_seconds_total", "counter",
                    "CPU time of spans: by switches of threads (off-cpu), else by samples", append_rows);
        append_sums(&page, "outside_span_cpu_seconds_total", "counter",
                    "CPU time of services outside of spans", append_outsides);
        append_sums(&page, "split_span_cpu_seconds", "gauge",
                    "CPU time that no tick has split between spans yet", append_splits);
}

static void append_span_bytes(Text *text, const SpanCpu *bytes, bool with_exemplars) {
        SpanPage page = { text, bytes, with_exemplars, false };

        append_sums(&page, "span_allocated_bytes_total", "counter",
                    "bytes that threads of Java have allocated in spans, by their own counts at ticks",
                    append_rows);
        append_sums(&page, "outside_span_allocated_bytes_total", "counter",
                    "bytes that threads of Java have allocated outside of spans", append_outsides);
        append_sums(&page, "split_span_allocated_bytes_total", "counter",
                    "those of both whose ticks before and after had different spans: half of it went to each",
                    append_splits);
}

static void append_all(Text *text, const Metrics *metrics, bool with_exemplars) {
        text_printf(
                text,
                "# HELP spanprof_build_info 1, with what was built as labels\n# TYPE spanprof_build_info gauge\n"
                "spanprof_build_info{version=\"%s\",revision=\"%s\"} 1\n",
                SPANPROF_VERSION, SPANPROF_REVISION);
        for (enum counter counter = 0; counter < COUNTER_N; counter++)
                if (is_first(counter))
                        append_family(text, counter);
        append_users(text);
        append_gauges(text, metrics);
        if (metrics->files)
                append_files(text, metrics->files);
        if (metrics->exports)
                exports_append_metrics(metrics->exports, text);
        if (metrics->span_cpu)
                append_span_cpu(text, metrics->span_cpu, with_exemplars);
        if (metrics->span_bytes)
                append_span_bytes(text, metrics->span_bytes, with_exemplars);
        append_process(text, &metrics->self);
}

void metrics_print(Text *text, const Metrics *metrics) {
        append_all(text, metrics, false);
}

void metrics_print_open(Text *text, const Metrics *metrics) {
        _cleanup_(text_deinit) Text page = { 0 };

        append_all(&page, metrics, metrics->has_exemplars);
        text->failed |= page.failed;
        openmetrics_convert(text, page.data ? page.data : "");
}

/* ---- status ---- */

static void append_losses(Text *text) {
        const char *separator = "";

        for (enum counter counter = 0; counter < COUNTER_N; counter++) {
                if (strcmp(stat_metric(counter), "lost_total") || !stat_get(counter) ||
                    counter == COUNTER_LOST_NOT_TARGET)
                        continue;
                text_printf(text, "%s", separator);
                append_label_value(text, stat_label(counter));
                text_printf(text, " %" PRIu64, stat_get(counter));
                separator = ", ";
        }
}

static void append_age(Text *text, uint64_t ns) {
        uint64_t s = ns / NS_PER_SEC;

        if (s < 120)
                text_printf(text, "%" PRIu64 " s", s);
        else if (s < 7200)
                text_printf(text, "%" PRIu64 " min", s / 60);
        else
                text_printf(text, "%.1f h", (double)s / 3600);
}

static void append_sampling(Text *text, const Metrics *m) {
        text_printf(text, "sampling     ");
        if (m->pause)
                text_printf(text, "paused (%s)%s\n", m->pause,
                            !strcmp(m->pause, "disabled")             ? ": /etc/spanprof/disabled is there"
                                    : !strcmp(m->pause, "command")    ? ": `spanprof resume` ends it"
                                    : !strcmp(m->pause, "memory")     ? ": the daemon is above max-memory"
                                    : !strcmp(m->pause, "memory.max") ? ": its control group is near memory.max"
                                                                      : ": it is the turn of other hosts");
        else
                text_printf(text, "%u Hz on %u CPUs%s\n", m->frequency, m->n_cpus,
                            m->frequency < m->nominal_frequency ? " (lowered by a limit)" : "");
        if (m->waits_lack)
                text_printf(text, "off-CPU      %s (off-cpu-max-switches)\n", m->waits_lack);
        if (m->unready)
                text_printf(text, "not ready    %s\n", m->unready);
}

static void append_naming(Text *text, const Metrics *m) {
        text_printf(text, "names        %s",
                    m->naming.objects ? "local"
                            : m->has_uploads
                            ? "of functions in files: the backend's, from uploaded symbols (symbols = upload)"
                            : "of functions in files: the backend's (symbols = remote)");
        if (m->naming.objects)
                text_printf(text, ": %" PRIu64 " found, %u wait, %" PRIu64 " dropped",
                            stat_get(COUNTER_NAMES_NAMED), m->naming.n_waiting,
                            stat_get(COUNTER_NAMES_DROPPED));
        if (m->naming.objects)
                text_printf(text, "; symbol tables: %.1f of %zu MiB, %" PRIu64 " dropped for age, %" PRIu64
                            " for room", (double)m->naming.table_bytes / (1 << 20),
                            m->naming.max_table_bytes >> 20, stat_get(COUNTER_SYMBOL_TABLES_AGED),
                            stat_get(COUNTER_SYMBOL_TABLES_EVICTED));
        if (m->naming.n_processes)
                text_printf(text, "; %u processes make code, of which %" PRIu64 " functions are known",
                            m->naming.n_processes, stat_get(COUNTER_CODE_RECORDS));
        text_printf(text, "\n");
}

static void append_nameless(Text *text) {
        const Nameless nameless = nameless_count();

        if (!nameless.n_samples)
                return;
        text_printf(text, "nameless     %.1f %% of %" PRIu64 " samples have no name of their innermost function%s",
                    100 * nameless_ratio(&nameless), nameless.n_samples, nameless.n ? ":" : "");
        nameless_append_reasons(text);
        text_printf(text, "\n");
}

static void append_hidden(Text *text, const KernelFiles *files, KernelFile file) {
        text_printf(text, "%s %s; %s\n", kernel_file_path(file), kernel_file_cause(files->states[file]),
                    kernel_file_advice(files->states[file]));
}

/* Appends kernel files that a sandbox hides, since this shows nowhere else. */
static void append_kernel(Text *text, const Metrics *m) {
        KernelFileState names = m->files->states[KERNEL_FILE_KALLSYMS];

        text_printf(text, "kernel names ");
        if (kernel_file_is_hidden(names)) {
                text_printf(text, "none: ");
                append_hidden(text, m->files, KERNEL_FILE_KALLSYMS);
        } else if (names == KERNEL_FILE_UNWANTED)
                text_printf(text, "none: kernel-stacks = off\n");
        else if (m->has_kernel_symbols)
                text_printf(text, "of %zu functions\n", m->n_kernel_symbols);
        else
                text_printf(text, "can be read, at the first kernel frame\n");
        for (KernelFile file = KERNEL_FILE_KALLSYMS + 1; file < KERNEL_FILE_N; file++)
                if (kernel_file_is_hidden(m->files->states[file])) {
                        text_printf(text, "hidden       %s: ", kernel_file_loss(file));
                        append_hidden(text, m->files, file);
                }
}

/* Each process that is not walked, with its reason; the others are in the sum. */
static void append_runtime(void *userdata, uint32_t pid, const char *text, bool is_walked) {
        if (!is_walked)
                text_printf(userdata, "             %u: %s\n", pid, text);
}

/* Programs of Go that say the same of themselves. */
typedef struct GoGroups {
        struct {
                const char *text;
                unsigned n;
        } groups[MAX_GO_GROUPS];
        unsigned n, n_more;             /* groups; processes that had no place */
} GoGroups;

static void group_go(void *userdata, uint32_t pid, const char *text, bool is_walked) {
        GoGroups *go = userdata;
        unsigned i = 0;

        if (!is_walked || strncmp(text, "go1.", 4))
                return;
        while (i < go->n && strcmp(go->groups[i].text, text))
                i++;
        if (i == MAX_GO_GROUPS) {
                go->n_more++;
                return;
        }
        go->groups[i].text = text;
        go->groups[i].n++;
        go->n = MAX(go->n, i + 1);
}

static void append_go(Text *text, const Metrics *m) {
        GoGroups go = { .n = 0 };

        runtimes_each(m->runtimes, group_go, &go);
        for (unsigned i = 0; i < go.n; i++)
                text_printf(text, "             %s: %u process%s\n", go.groups[i].text, go.groups[i].n,
                            go.groups[i].n == 1 ? "" : "es");
        if (go.n_more)
                text_printf(text, "             and %u more processes of Go\n", go.n_more);
}

static void append_runtimes(Text *text, const Metrics *m) {
        RuntimesState state = { 0 };

        if (!m->runtimes)
                return;
        state = runtimes_state(m->runtimes);
        if (state.n_processes)
                text_printf(text, "runtimes     %u processes are walked by their runtime, %u are not; %" PRIu64
                            " frames named, %" PRIu64 " without all that may be inlined there, %" PRIu64
                            " unnamed, %" PRIu64 " of unloaded classes\n",
                            state.n_walked, n_unwalked(m->runtimes), stat_get(COUNTER_RUNTIME_FRAMES_NAMED),
                            stat_get(COUNTER_RUNTIME_FRAMES_SHORT), stat_get(COUNTER_RUNTIME_FRAMES_UNNAMED),
                            stat_get(COUNTER_RUNTIME_FRAMES_UNLOADED));
        if (state.n_read)
                text_printf(text, "go           labels of goroutines in %u processes; %" PRIu64 " samples read, %" PRIu64
                            " unreadable, %" PRIu64 " labels left out\n", state.n_read, stat_get(COUNTER_GO_READ),
                            stat_get(COUNTER_GO_UNREADABLE), stat_get(COUNTER_GO_LEFT_OUT));
        append_go(text, m);
        runtimes_each(m->runtimes, append_runtime, text);
}

static void append_uploads(Text *text, const Metrics *m) {
        const UploaderState *uploads = &m->uploads;

        text_printf(text,
                    "uploads      %" PRIu64 " uploaded, %" PRIu64 " known there, %" PRIu64 " refused, %" PRIu64
                    " without symbols, %" PRIu64 " not allowed; %u wait\n",
                    stat_get(COUNTER_UPLOADS_UPLOADED), stat_get(COUNTER_UPLOADS_KNOWN),
                    stat_get(COUNTER_UPLOADS_REFUSED) + stat_get(COUNTER_UPLOADS_UNSUPPORTED),
                    stat_get(COUNTER_UPLOADS_NAMELESS), stat_get(COUNTER_UPLOADS_NOT_ALLOWED),
                    uploads->n_waiting);
        text_printf(text,
                    "             %.1f of %.1f MiB used today, %" PRIu64 " over budget; %" PRIu64 " tries failed",
                    (double)uploads->spent_bytes / (1 << 20), (double)uploads->day_bytes / (1 << 20),
                    stat_get(COUNTER_UPLOADS_OVER_BUDGET), stat_get(COUNTER_UPLOADS_FAILED));
        if (uploads->retry_ns)
                text_printf(text, ", next in %" PRIu64 " s", uploads->retry_ns / NS_PER_SEC + 1);
        text_printf(text, "\n");
        if (*uploads->problem) {
                text_printf(text, "             last problem: ");
                text_append_masked(text, uploads->problem);
                text_printf(text, "\n");
        }
}

static void append_fetcher(Text *text, const Metrics *m) {
        text_printf(text,
                    "debuginfod   %" PRIu64 " debug files came, %" PRIu64 " are nowhere, %" PRIu64 " refused, %" PRIu64
                    " tries failed, %" PRIu64 " dropped; %" PRIu64 " times from the cache; %u wait\n",
                    stat_get(COUNTER_DEBUGINFOD_FETCHED), stat_get(COUNTER_DEBUGINFOD_NONE),
                    stat_get(COUNTER_DEBUGINFOD_REFUSED), stat_get(COUNTER_DEBUGINFOD_FAILED),
                    stat_get(COUNTER_DEBUGINFOD_DROPPED), stat_get(COUNTER_DEBUGINFOD_CACHED),
                    m->fetcher.n_waiting);
        if (*m->fetcher.problem) {
                text_printf(text, "             last problem: ");
                text_append_masked(text, m->fetcher.problem);
                text_printf(text, "\n");
        }
}

static void append_export(Text *text, const Metrics *m) {
        text_printf(text,
                    "export       %" PRIu64 " requests accepted, %" PRIu64 " given up; %" PRIu64
                    " samples wait\n",
                    stat_get(COUNTER_EXPORT_OK), stat_get(COUNTER_EXPORT_DROPPED), m->queued_events);
        text_printf(text, "             to %s, last accepted ", m->url);
        if (m->exported_ns == UINT64_MAX)
                text_printf(text, "never\n");
        else {
                append_age(text, m->exported_ns);
                text_printf(text, " ago\n");
        }
}

static void append_coverage(Text *text, const CoverageFacts *facts) {
        const char *cause = coverage_cause_text(coverage_cause(facts));

        if (facts->expected > 0)
                text_printf(text, "coverage     %.1f %% of %.0f samples that targets' CPU time stands for%s%s\n",
                            100 * coverage_ratio(facts), facts->expected, *cause ? ": " : "", cause);
}

/* Settings whose values follow from where it runs, or who started it. */
static const char *const placed[] = { "spool",   "control", "metrics", "max-cpu", "max-memory",
                                      "symbols", "host-id", "run-as" };

static void read_setting(const Config *config, const char *name, Text *value, Text *origin) {
        config_effective(config, option_find(name, strlen(name)), CONFIG_ASKED_BY_DAEMON, value, origin);
}

static void append_settings(Text *text, const Config *config) {
        for (size_t i = 0; i < ARRAY_SIZE(placed); i++) {
                _cleanup_(text_deinit) Text value = { 0 }, origin = { 0 };

                read_setting(config, placed[i], &value, &origin);
                text_printf(text, "%-12s %s = %s (%s)\n", i ? "" : "settings", placed[i],
                            value.data ? value.data : "", origin.data ? origin.data : "");
        }
}

static uint64_t left_ns(const Boost *boost) {
        uint64_t now_ns = clock_monotonic_ns();

        return boost->end_ns - MIN(boost->end_ns, now_ns);
}

static void append_boosts(Text *text, const Metrics *m) {
        for (uint32_t i = 0; m->boosts && i < m->boosts->n; i++) {
                const Boost *boost = &m->boosts->items[i];

                text_printf(text, "boost        ");
                if (boost->pid)
                        text_printf(text, "process %u", boost->pid);
                else
                        text_printf(text, "unit %s", boost->unit);
                text_printf(text, " at %u Hz, for ", m->tick_frequency);
                append_age(text, left_ns(boost));
                text_printf(text, " more\n");
        }
}

static void append_recorder(Text *text, const Metrics *m) {
        const RecorderState *recorder = &m->recorder;

        text_printf(text, "recorder     reaches back ");
        append_age(text, recorder_reach_ns(m));
        text_printf(text, " of ");
        append_age(text, recorder->max_age_ns);
        text_printf(text, ": %zu windows, %.1f of %zu MiB; %" PRIu64 " went for age, %" PRIu64 " for room\n",
                    recorder->n_windows, (double)recorder->bytes / (1 << 20), recorder->max_bytes >> 20,
                    stat_get(COUNTER_RECORDER_AGED), stat_get(COUNTER_RECORDER_OVER_CAP));
        if (m->is_held)
                text_printf(text, "             no more samples than the export: max-cpu leaves no room\n");
}

void metrics_print_status(Text *text, const Metrics *m) {
        uint64_t not_targets = stat_get(COUNTER_LOST_NOT_TARGET);

        text_printf(text, "spanprof %s, pid %u, up ", SPANPROF_VERSION, m->pid);
        append_age(text, m->age_ns);
        text_printf(text, "\n");
        append_sampling(text, m);
        text_printf(text, "targets      %" PRIu64 " of %" PRIu64 " processes\n", m->n_targets,
                    m->n_processes);
        text_printf(text,
                    "ticks        %" PRIu64 " = %" PRIu64 " delivered + %" PRIu64 " lost + %" PRIu64
                    " under way\n",
                    stat_get(COUNTER_TICKS) - not_targets, stat_get(COUNTER_SAMPLES_DELIVERED),
                    stat_lost() - not_targets, stat_pending());
        if (stat_lost() > not_targets) {
                text_printf(text, "lost         ");
                append_losses(text);
                text_printf(text, "\n");
        }
        append_coverage(text, &m->coverage);
        append_boosts(text, m);
        if (m->has_recorder)
                append_recorder(text, m);
        if (m->files)
                append_kernel(text, m);
        append_naming(text, m);
        append_nameless(text);
        append_runtimes(text, m);
        if (m->has_uploads)
                append_uploads(text, m);
        if (m->has_fetcher)
                append_fetcher(text, m);
        append_export(text, m);
        if (m->exports)
                exports_append_status(m->exports, text);
        if (m->config)
                append_settings(text, m->config);
        text_printf(text,
                    "itself       %.1f s CPU, %.1f MiB memory, %.1f MiB of BPF maps, %" PRIu64
                    " descriptors\n",
                    (double)m->self.cpu_ns / (double)NS_PER_SEC, (double)m->self.resident_bytes / (1 << 20),
                    (double)m->map_bytes / (1 << 20), m->self.n_descriptors);
}

static void append_json_sampling(JsonWriter *json, const Metrics *m) {
        json_line(json, 2);
        json_number(json, "pid", m->pid);
        json_decimal(json, "age_seconds", (double)m->age_ns / (double)NS_PER_SEC, 3);
        json_number(json, "frequency", m->frequency);
        json_number(json, "nominal_frequency", m->nominal_frequency);
        json_number(json, "cpus", m->n_cpus);
        json_line(json, 2);
        json_number(json, "targets", m->n_targets);
        json_number(json, "processes", m->n_processes);
        json_line(json, 2);
        json_number(json, "ticks", stat_get(COUNTER_TICKS) - stat_get(COUNTER_LOST_NOT_TARGET));
        json_number(json, "delivered", stat_get(COUNTER_SAMPLES_DELIVERED));
        json_number(json, "lost", stat_lost() - stat_get(COUNTER_LOST_NOT_TARGET));
        json_number(json, "pending", stat_pending());
        json_number(json, "not_target", stat_get(COUNTER_LOST_NOT_TARGET));
        json_line(json, 2);
        json_decimal(json, "coverage_ratio", coverage_ratio(&m->coverage), 4);
        json_text(json, "coverage_cause", coverage_cause_name(coverage_cause(&m->coverage)));
        json_decimal(json, "stolen_ratio", m->coverage.stolen, 4);
}

/* The counters of @metric that are not 0. */
static void append_json_reasons(JsonWriter *json, const char *key, const char *metric) {
        json_line(json, 2);
        json_open(json, key, '{');
        for (enum counter counter = 0; counter < COUNTER_N; counter++) {
                _cleanup_(text_deinit) Text reason = { 0 };

                if (strcmp(stat_metric(counter), metric) || !stat_get(counter) ||
                    counter == COUNTER_LOST_NOT_TARGET)
                        continue;
                append_label_value(&reason, stat_label(counter));
                json_number(json, reason.data ? reason.data : "", stat_get(counter));
        }
        json_close(json, '}');
}

static void append_json_export(JsonWriter *json, const Metrics *m) {
        _cleanup_(text_deinit) Text receivers = { 0 };

        json_line(json, 2);
        json_number(json, "queued_samples", m->queued_events);
        json_number(json, "queued_bytes", m->queued_bytes);
        json_number(json, "unsaved_samples", m->unsaved_events);
        if (!m->exports)
                return;
        exports_append_json(m->exports, &receivers);
        json_line(json, 2);
        json_raw(json, "receivers", receivers.data ? receivers.data : "[]");
}

static void append_json_naming(JsonWriter *json, const Metrics *m) {
        const Nameless nameless = nameless_count();

        json_line(json, 2);
        json_text(json, "symbols", m->naming.objects ? "local" : m->has_uploads ? "upload" : "remote");
        json_number(json, "names_waiting", m->naming.n_waiting);
        json_number(json, "code_processes", m->naming.n_processes);
        json_number(json, "naming_bytes", m->naming.memory);
        json_number(json, "symbol_table_bytes", m->naming.table_bytes);
        json_number(json, "max_symbol_table_bytes", m->naming.max_table_bytes);
        json_line(json, 2);
        json_decimal(json, "nameless_ratio", nameless_ratio(&nameless), 4);
        append_json_reasons(json, "nameless_by_reason", "nameless_samples_total");
}

static void append_json_kernel(JsonWriter *json, const Metrics *m) {
        if (!m->files)
                return;
        json_line(json, 2);
        json_number(json, "kernel_symbols", m->n_kernel_symbols);
        json_open(json, "kernel_files", '{');
        for (KernelFile file = 0; file < KERNEL_FILE_N; file++)
                json_text(json, kernel_file_name(file), kernel_file_state_word(m->files->states[file]));
        json_close(json, '}');
}

static void append_json_runtime(void *userdata, uint32_t pid, const char *text, bool is_walked) {
        JsonWriter *json = userdata;

        json_open(json, NULL, '{');
        json_number(json, "pid", pid);
        json_text(json, "runtime", text);
        json_bool(json, "walked", is_walked);
        json_close(json, '}');
}

static void append_json_runtimes(JsonWriter *json, const Metrics *m) {
        if (!m->runtimes)
                return;
        json_line(json, 2);
        json_open(json, "runtimes", '[');
        runtimes_each(m->runtimes, append_json_runtime, json);
        json_close(json, ']');
}

static void append_json_uploads(JsonWriter *json, const Metrics *m) {
        const UploaderState *uploads = &m->uploads;

        json_line(json, 2);
        json_open(json, "uploads", '{');
        json_number(json, "uploaded", stat_get(COUNTER_UPLOADS_UPLOADED));
        json_number(json, "known", stat_get(COUNTER_UPLOADS_KNOWN));
        json_number(json, "refused", stat_get(COUNTER_UPLOADS_REFUSED));
        json_number(json, "unsupported", stat_get(COUNTER_UPLOADS_UNSUPPORTED));
        json_number(json, "nameless", stat_get(COUNTER_UPLOADS_NAMELESS));
        json_number(json, "not_allowed", stat_get(COUNTER_UPLOADS_NOT_ALLOWED));
        json_number(json, "over_budget", stat_get(COUNTER_UPLOADS_OVER_BUDGET));
        json_number(json, "failed", stat_get(COUNTER_UPLOADS_FAILED));
        json_number(json, "waiting", uploads->n_waiting);
        json_number(json, "spent_bytes", uploads->spent_bytes);
        json_number(json, "day_bytes", uploads->day_bytes);
        json_text(json, "problem", *uploads->problem ? uploads->problem : NULL);
        json_close(json, '}');
}

static void append_json_fetcher(JsonWriter *json, const Metrics *m) {
        const struct {
                const char *key;
                enum counter counter;
        } results[] = {
                { "fetched", COUNTER_DEBUGINFOD_FETCHED }, { "none", COUNTER_DEBUGINFOD_NONE },
                { "refused", COUNTER_DEBUGINFOD_REFUSED }, { "failed", COUNTER_DEBUGINFOD_FAILED },
                { "dropped", COUNTER_DEBUGINFOD_DROPPED }, { "cached", COUNTER_DEBUGINFOD_CACHED },
        };

        json_line(json, 2);
        json_open(json, "debuginfod", '{');
        for (size_t i = 0; i < ARRAY_SIZE(results); i++)
                json_number(json, results[i].key, stat_get(results[i].counter));
        json_number(json, "waiting", m->fetcher.n_waiting);
        json_text(json, "problem", *m->fetcher.problem ? m->fetcher.problem : NULL);
        json_close(json, '}');
}

static void append_json_boosts(JsonWriter *json, const Metrics *m) {
        json_line(json, 2);
        json_open(json, "boosts", '[');
        for (uint32_t i = 0; i < m->boosts->n; i++) {
                const Boost *boost = &m->boosts->items[i];

                json_open(json, NULL, '{');
                if (boost->pid)
                        json_number(json, "process", boost->pid);
                else
                        json_text(json, "unit", boost->unit);
                json_number(json, "frequency", m->tick_frequency);
                json_decimal(json, "seconds_left", (double)left_ns(boost) / (double)NS_PER_SEC, 3);
                json_close(json, '}');
        }
        json_close(json, ']');
}

static void append_json_recorder(JsonWriter *json, const Metrics *m) {
        json_line(json, 2);
        json_open(json, "recorder", '{');
        json_decimal(json, "reach_seconds", (double)recorder_reach_ns(m) / (double)NS_PER_SEC, 3);
        json_number(json, "windows", m->recorder.n_windows);
        json_number(json, "bytes", m->recorder.bytes);
        json_number(json, "max_bytes", m->recorder.max_bytes);
        json_close(json, '}');
}

static void append_json_settings(JsonWriter *json, const Config *config) {
        json_line(json, 2);
        json_open(json, "settings", '{');
        for (size_t i = 0; i < ARRAY_SIZE(placed); i++) {
                _cleanup_(text_deinit) Text value = { 0 }, origin = { 0 };

                read_setting(config, placed[i], &value, &origin);
                json_open(json, placed[i], '{');
                json_text(json, "value", value.data ? value.data : "");
                json_text(json, "origin", origin.data ? origin.data : "");
                json_close(json, '}');
        }
        json_close(json, '}');
}

static void append_json_itself(JsonWriter *json, const Metrics *m) {
        json_line(json, 2);
        if (m->exported_ns == UINT64_MAX)
                json_text(json, "last_export_seconds", NULL);
        else
                json_decimal(json, "last_export_seconds", (double)m->exported_ns / (double)NS_PER_SEC, 3);
        json_line(json, 2);
        json_decimal(json, "cpu_seconds", (double)m->self.cpu_ns / (double)NS_PER_SEC, 3);
        json_number(json, "resident_bytes", m->self.resident_bytes);
        json_number(json, "bpf_map_bytes", m->map_bytes);
        json_number(json, "descriptors", m->self.n_descriptors);
}

void metrics_print_json(Text *text, const Metrics *m) {
        JsonWriter json = { .text = text, .is_spaced = true };
        const struct {
                const char *key, *value;
        } texts[] = {
                { "version", SPANPROF_VERSION },
                { "endpoint", m->url },
                { "paused", m->pause },
                { "waits_lack", m->waits_lack },
                { "unready", m->unready },
        };

        json_open(&json, NULL, '{');
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                json_line(&json, 2);
                json_text(&json, texts[i].key, texts[i].value);
        }
        append_json_sampling(&json, m);
        append_json_reasons(&json, "lost_by_reason", "lost_total");
        append_json_export(&json, m);
        append_json_kernel(&json, m);
        append_json_naming(&json, m);
        append_json_runtimes(&json, m);
        if (m->has_uploads)
                append_json_uploads(&json, m);
        if (m->has_fetcher)
                append_json_fetcher(&json, m);
        if (m->boosts)
                append_json_boosts(&json, m);
        if (m->has_recorder)
                append_json_recorder(&json, m);
        if (m->config)
                append_json_settings(&json, m->config);
        append_json_itself(&json, m);
        json_line(&json, 0);
        json_close(&json, '}');
        json_end(&json);
}

void metrics_print_view(Text *text, const Metrics *m) {
        uint32_t namespace = 0;

        text_printf(text, "pid %u\ncapabilities %016" PRIx64 "\n", m->pid, rights_held());
        if (!machine_namespace(&namespace))
                text_printf(text, "pid-namespace %u\n", namespace);
        if (m->files)
                kernel_files_print(m->files, text);
}
