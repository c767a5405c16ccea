/* SPDX-License-Identifier: Apache-2.0 */

/*
 * `targets`: scans /proc once as the daemon would, and prints each process that is chosen with the reason.
 */

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "core/base/data/json-writer.h"
#include "core/base/terminal/terminal.h"
#include "core/base/terminal/text-table.h"
#include "core/base/util/log.h"
#include "host/cli/cli.h"
#include "host/runtime/all-runtimes.h"
#include "host/sampling/context/ring.h"
#include "host/sampling/discover/survey.h"
#include "host/sampling/discover/tracing-hint.h"
#include "host/sampling/runtime/runtimes.h"
#include "host/service/config/config-selector.h"

enum {
        SHORT_ID = 12,                  /* digits of a container's id that people use */
        UNCUT = 10000,                  /* width for programs that read the table */
        MAX_HINTS = 16,                 /* lines behind the table; JSON has all */
};

static const Column columns[] = {
        { "PID", COLUMN_RIGHT },          { "NAME", COLUMN_LEFT },      { "USER", COLUMN_LEFT },
        { "CONTAINER/UNIT", COLUMN_CUT }, { "SERVICE", COLUMN_CUT },    { "CONTEXT", COLUMN_LEFT },
        { "WHY", COLUMN_LEFT },           { "RUNTIME", COLUMN_LEFT },   { "EXECUTABLE", COLUMN_CUT },
};

typedef struct Listing {
        const Config *config;
        TextTable table;
        Text document;
        JsonWriter json;                /* into that */
        Runtimes *runtimes;             /* NULL = they are not asked for */
        RuntimeDescription runtime;     /* of the process that is being visited */
        size_t n_chosen, n_users, n_hidden;     /* processes; n_users: those that are no kernel threads */
        size_t n_hints;
        Text hints;                     /* lines for people, on stderr */
} Listing;

static const char *service_name(const Environment *environment) {
        for (size_t i = 0; !environment->service_name && i < environment->n_attributes; i++)
                if (!strcmp(environment->attributes[i].key, "service.name"))
                        return environment->attributes[i].value;
        return environment->service_name;
}

static const char *user_name(const Identity *identity, char *number, size_t size) {
        const struct passwd *user;

        if (!identity->has_uid)
                return NULL;
        user = getpwuid(identity->uid);
        if (user)
                return user->pw_name;
        snprintf(number, size, "%" PRIu32, identity->uid);
        return number;
}

/* The id as people write it, a machine's name in full. */
static void add_place(TextTable *table, const Identity *identity) {
        const char *id = identity->container;

        if (id)
                text_table_add(table, "%.*s",
                               strspn(id, "0123456789abcdef") == 64 ? SHORT_ID : (int)strlen(id), id);
        else
                text_table_add(table, "%s", identity->unit ? identity->unit : "");
}

static const char *reason_text(const SurveyEntry *entry) {
        if (entry->hidden && entry->reason == SELECTOR_SILENT)
                return "memory is not readable";
        return selector_reason_text(entry->reason);
}

/* Text of a target, which may be no UTF-8. */
static void add_cell(TextTable *table, const char *text) {
        size_t size = text ? strlen(text) : 0;
        _cleanup_(freep) char *copy = malloc(3 * size + 1);

        if (copy)
                text_repair_utf8(copy, text, size);
        text_table_add(table, "%s", copy ? copy : "?");
}

/* Whether its spans are read out of its SDK's memory: what it publishes itself comes first. */
static bool is_read_by_sdk(const SurveyEntry *entry, const RuntimeDescription *runtime) {
        return runtime->has_spans && !entry->publication->ring_address && !entry->publication->thread.form;
}

/* Every form that it publishes in; `spanprof contexts` has the details. */
static void add_context(TextTable *table, const SurveyEntry *entry, const RuntimeDescription *runtime) {
        const Publication *publication = entry->publication;
        char ring[64] = "";
        const char *threads = publication->thread.form ? "threads"
                : is_read_by_sdk(entry, runtime)       ? "SDK"
                                                       : "";
        char rest[32];

        snprintf(rest, sizeof(rest), "%s%s%s", publication->context ? "process" : "",
                 publication->context && *threads ? ", " : "", threads);

        if (publication->ring_address)
                snprintf(ring, sizeof(ring), "ring 0x%" PRIx64 ", %" PRIu32 " slots%s",
                         publication->ring_address, publication->ring_capacity, *rest ? ", " : "");
        text_table_add(table, "%s%s%s%s", entry->hidden ? "?" : ring, rest,
                       publication->stations_address && (*ring || *rest) ? ", " : "",
                       publication->stations_address ? "coroutines" : "");
}

static void add_row(TextTable *table, const SurveyEntry *entry, const RuntimeDescription *runtime) {
        static const Identity unknown = { 0 };
        const Process *process = entry->process;
        const Identity *identity = process->identity ? process->identity : &unknown;
        const char *service = service_name(&identity->environment), *user;
        char number[16];

        user = user_name(identity, number, sizeof(number));
        text_table_add(table, "%" PRIu32, process->pid);
        add_cell(table, process->comm);
        text_table_add(table, "%s", user ? user : "?");
        add_place(table, identity);
        add_cell(table, service);
        add_context(table, entry, runtime);
        text_table_add(table, "%s", reason_text(entry));
        text_table_add(table, "%s", runtime->text);
        add_cell(table, process->exe);
}

/* Leaves out what is not there. */
static void add_text(JsonWriter *json, const char *key, const char *value) {
        if (value)
                json_text(json, key, value);
}

static void add_address(JsonWriter *json, uint64_t address) {
        char text[24];

        snprintf(text, sizeof(text), "0x%" PRIx64, address);
        json_text(json, "address", text);
}

/* A context, or what else a process publishes: an object with its address. */
static void add_published(JsonWriter *json, const char *key, uint64_t address) {
        json_open(json, key, '{');
        add_address(json, address);
        json_close(json, '}');
}

static void add_json_contexts(JsonWriter *json, const SurveyEntry *entry, const RuntimeDescription *runtime) {
        static const char *const models[] = { "", "static", "glibc-dtv", "musl-dtv" };
        static const char *const forms[ABI_FORM_N] = {
                [ABI_FORM_THREAD] = "otel",
                [ABI_FORM_ELASTIC] = "elastic",
                [ABI_FORM_LABELS] = "custom-labels",
                [ABI_FORM_NODE] = "otel-node",
        };
        const Publication *publication = entry->publication;

        if (publication->ring_address) {
                json_open(json, "context", '{');
                json_text(json, "form", "ring");
                add_address(json, publication->ring_address);
                json_number(json, "slots", publication->ring_capacity);
                json_close(json, '}');
        }
        if (publication->invalid_ring && !publication->ring_address) {
                json_open(json, "invalid_ring", '{');
                add_address(json, publication->invalid_ring);
                json_text(json, "fault", ring_fault_text(publication->invalid_fault));
                json_close(json, '}');
        }
        if (publication->context)
                add_published(json, "process_context", publication->context->address);
        if (publication->thread.form) {
                json_open(json, "thread_context", '{');
                json_text(json, "form", forms[publication->thread.form]);
                json_text(json, "model", models[publication->thread.model]);
                json_close(json, '}');
        }
        if (is_read_by_sdk(entry, runtime)) {
                json_open(json, "thread_context", '{');
                json_text(json, "form", "otel-sdk-python");
                json_close(json, '}');
        }
        if (publication->stations_address)
                add_published(json, "coroutines", publication->stations_address);
}

/*
 * With --verbose: the tracing library of a process that publishes no spans; NULL = none. A process context
 * alone says who it is, and brings none.
 */
static const TracingHint *find_hint(Listing *listing, const SurveyEntry *entry) {
        const Publication *publication = entry->publication;
        const TracingHint *hint;

        if (!listing->config->command.verbose || entry->process->is_kernel || entry->hidden ||
            publication->ring_address || publication->thread.form || listing->runtime.has_spans)
                return NULL;
        hint = tracing_hint_read((pid_t)entry->process->pid);
        if (hint && ++listing->n_hints <= MAX_HINTS)
                text_printf(&listing->hints, "spanprof: process %" PRIu32 " runs %s and publishes no spans; this switches it on: %s\n",
                            entry->process->pid, hint->library, hint->line);
        return hint;
}

static void add_object(JsonWriter *json, const SurveyEntry *entry, const RuntimeDescription *runtime,
                       const TracingHint *hint) {
        static const Identity unknown = { 0 };
        const Process *process = entry->process;
        const Identity *identity = process->identity ? process->identity : &unknown;
        char number[16];

        if (json->comma)
                json_line(json, 1);
        json_open(json, NULL, '{');
        json_number(json, "pid", process->pid);
        json_bool(json, "chosen", selector_is_chosen(entry->reason));
        add_text(json, "reason", reason_text(entry));
        add_text(json, "comm", process->comm);
        add_text(json, "executable", process->exe);
        add_text(json, "unread_filesystem", *process->remote ? process->remote : NULL);
        add_text(json, "user", user_name(identity, number, sizeof(number)));
        add_text(json, "container", identity->container);
        add_text(json, "unit", identity->unit);
        add_text(json, "cgroup", identity->cgroup);
        add_text(json, "service", service_name(&identity->environment));
        add_text(json, "runtime", *runtime->text ? runtime->text : NULL);
        add_json_contexts(json, entry, runtime);
        if (hint) {
                json_open(json, "tracing", '{');
                json_text(json, "library", hint->library);
                json_text(json, "switched_on_by", hint->line);
                json_close(json, '}');
        }
        if (entry->hidden)
                json_bool(json, "hidden", true);
        json_close(json, '}');
}

/* Files that are left out, which else shows as stacks without names alone. */
static void tell_remote(Listing *listing, const Process *process) {
        if (*process->remote && ++listing->n_hints <= MAX_HINTS)
                text_printf(&listing->hints,
                            "spanprof: process %" PRIu32 " runs code of files on %s: these are not read, %s\n",
                            process->pid, process->remote, process_why_unread(process));
}

/* With --verbose: what would be a ring but for one field. */
static void tell_invalid(Listing *listing, const SurveyEntry *entry) {
        const Publication *publication = entry->publication;

        if (!listing->config->command.verbose || !publication->invalid_ring || publication->ring_address)
                return;
        if (++listing->n_hints <= MAX_HINTS)
                text_printf(&listing->hints,
                            "spanprof: process %" PRIu32 ": ring at 0x%" PRIx64 ": not read, since %s\n",
                            entry->process->pid, publication->invalid_ring,
                            ring_fault_text(publication->invalid_fault));
}

static int visit(void *userdata, const SurveyEntry *entry) {
        Listing *listing = userdata;
        bool chosen = selector_is_chosen(entry->reason);
        const TracingHint *hint;

        listing->n_users += !entry->process->is_kernel;
        listing->n_chosen += chosen;
        listing->n_hidden += entry->hidden;
        if (!chosen && (!listing->config->command.verbose || entry->process->is_kernel))
                return 0;
        listing->runtime = (RuntimeDescription){ 0 };
        if (listing->runtimes && chosen &&
            runtimes_describe(listing->runtimes, entry->process, &listing->runtime))
                return -ENOMEM;
        hint = find_hint(listing, entry);
        tell_invalid(listing, entry);
        tell_remote(listing, entry->process);
        if (listing->config->command.json)
                add_object(&listing->json, entry, &listing->runtime, hint);
        else
                add_row(&listing->table, entry, &listing->runtime);
        return listing->document.failed ? -ENOMEM : 0;
}

/* Explains what the list alone would leave open. */
static void explain(const Listing *listing) {
        const Config *config = listing->config;

        log_info("%zu of %zu processes would be profiled%s", listing->n_chosen, listing->n_users,
                 config->command.verbose ? "" : "; --verbose lists the others too");
        if (listing->n_hidden)
                log_warning("the memory of %zu of them is not readable for us, so no context is seen there%s",
                            listing->n_hidden, geteuid() ? ": run it as root" : "");
        if (listing->hints.data)
                fputs(listing->hints.data, stderr);
        if (listing->n_hints > MAX_HINTS)
                log_info("… and %zu more; --json has all", listing->n_hints - MAX_HINTS);
        for (size_t i = 0; i < config->targets.pids.n_items; i++)
                if (kill((pid_t)config->targets.pids.items[i], 0) && errno == ESRCH)
                        log_warning("there is no process %" PRIu32, config->targets.pids.items[i]);
}

static int print(Listing *listing) {
        unsigned width = cli_output_width();

        if (listing->config->command.json) {
                json_close(&listing->json, ']');
                json_end(&listing->json);
                return listing->document.failed                   ? -ENOMEM
                        : fputs(listing->document.data, stdout) < 0 ? -errno
                                                                    : 0;
        }
        if (!listing->table.n_cells)
                return 0;
        return text_table_print(&listing->table, 0, width ? width : UNCUT, stdout);
}

static int make_runtimes(Listing *listing) {
        int r = runtimes_new(&listing->runtimes, NULL, NULL);

        for (size_t i = 0; i < ARRAY_SIZE(all_runtimes) && !r; i++)
                if (config_has_runtime(listing->config, all_runtimes[i]->name))
                        r = runtimes_register(listing->runtimes, all_runtimes[i], -1, NULL);
        return r;
}

static int run(Cli *cli) {
        unsigned what = IDENTITY_USER | IDENTITY_CGROUP |
                (cli->config.targets.environment ? IDENTITY_ENVIRONMENT : 0);
        Listing listing = { .config = &cli->config, .json = { .text = &listing.document } };
        ConfigSelector selection;
        int r = config_selector_init(&selection, &cli->config.targets);

        text_table_init(&listing.table, columns, ARRAY_SIZE(columns));
        json_open(&listing.json, NULL, '[');
        if (!r)
                r = make_runtimes(&listing);
        if (!r)
                r = survey_processes(&selection.selector, what, visit, &listing);
        if (!r)
                r = print(&listing);
        if (r)
                log_error("cannot list targets: %s", strerror(-r));
        else
                explain(&listing);
        runtimes_free(listing.runtimes);
        text_table_deinit(&listing.table);
        text_deinit(&listing.document);
        text_deinit(&listing.hints);
        config_selector_deinit(&selection);
        return r ? STATUS_FAILURE : STATUS_OK;
}

const Verb verb_targets = {
        .name = "targets",
        .bit = VERB_TARGETS,
        .arguments = "",
        .reads_files = true,
        .summary = "list the processes that `run` would profile, and why",
        .description =
                "Looks at each process once, as `run` does when it starts: who it is, which selector chooses it, and\n"
                "whether it publishes a trace context. Loads nothing into the kernel. Without root it sees less, and\n"
                "says so.\n"
                "\n"
                "  spanprof targets                               what `run` would profile with this configuration\n"
                "  spanprof targets --verbose                     every process, and why it would not be\n"
                "  spanprof targets -u nginx --exclude user=root  try selectors before using them\n",
        .run = run,
};
