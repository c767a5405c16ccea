/* SPDX-License-Identifier: Apache-2.0 */

/*
 * `contexts`: reads what one process publishes, thread by thread, and prints spans, slots, attributes and
 * labels with their age; or, with --check, whether it keeps to the rules.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "border/runtime_abi.h"
#include "core/base/data/hashmap.h"
#include "core/base/file/file.h"
#include "core/base/util/clock.h"
#include "core/base/util/log.h"
#include "core/base/util/text.h"
#include "host/cli/cli.h"
#include "host/cli/contexts-check.h"
#include "host/runtime/go/go-runtime.h"
#include "host/runtime/python/python-runtime.h"
#include "host/sampling/context/adopt.h"
#include "host/sampling/context/goroutine-labels.h"
#include "host/sampling/context/publication.h"
#include "host/sampling/context/ring.h"
#include "host/sampling/context/thread-look.h"
#include "host/sampling/process/memory.h"
#include "host/sampling/process/object.h"
#include "host/sampling/process/process.h"
#include "host/sampling/runtime/runtimes.h"
#include "spanprof/ring.h"

#define RECORD_KEY (UINT64_C(1) << 32)  /* in the table of ages: of a thread's record, not of its slot */

typedef struct Show {
        Process *process;
        Publication publication;
        Hashmap ages;                   /* thread id, | RECORD_KEY → Age, owned */
        uint64_t last_ns;               /* BOOTTIME: the look before this one */
} Show;

enum {
        MAX_STAT = 4096,
        MAX_AGES = 1 << 17,
        MAX_ENTRIES = 1 << 24,          /* entries of the search, as in survey.c */
        MAX_READS = 1 << 20,
};

static void print_text(const char *data, size_t size) {
        text_print(data, size, stdout);
}

static void print_attribute(const ContextAttribute *attribute) {
        double value;

        printf("    ");
        print_text(attribute->key.data, attribute->key.size);
        printf(" = ");
        memcpy(&value, &attribute->integer, sizeof(value));
        if (attribute->kind == CONTEXT_STRING)
                print_text(attribute->string.data, attribute->string.size);
        else if (attribute->kind == CONTEXT_BOOL)
                printf("%s", attribute->integer ? "true" : "false");
        else if (attribute->kind == CONTEXT_INT)
                printf("%" PRId64, attribute->integer);
        else
                printf("%g", value);
        printf("\n");
}

static void print_process_context(const ProcessContext *context) {
        uint64_t now_ns = clock_read_ns(CLOCK_BOOTTIME), age_ns = now_ns - MIN(now_ns, context->published_ns);

        printf("process context at 0x%" PRIx64 ": version 2, %zu bytes, published %.1f s ago\n",
               context->address, context->payload_size, (double)age_ns / 1e9);
        for (size_t i = 0; i < context->n_attributes; i++)
                print_attribute(&context->attributes[i]);
        if (context->schema.size) {
                printf("  thread context: schema ");
                print_text(context->schema.data, context->schema.size);
                printf("\n");
        }
        for (size_t i = 0; i < context->n_keys; i++) {
                printf("    key %zu: ", i);
                print_text(context->keys[i].data, context->keys[i].size);
                printf("\n");
        }
        if (context->n_left_out)
                printf("  %zu attributes are left out: of another kind, without a key, or too many\n",
                       context->n_left_out);
}

static void print_thread_context(const ThreadContext *thread, const char *unread) {
        static const char *const models[] = { "", "static", "glibc's DTV", "musl's DTV" };
        static const char *const forms[ABI_FORM_N] = {
                [ABI_FORM_THREAD] = "",
                [ABI_FORM_ELASTIC] = " of Elastic",
                [ABI_FORM_LABELS] = " as custom labels of Polar Signals",
                [ABI_FORM_NODE] = " by V8's current frame",
        };

        if (thread->form)
                printf("thread contexts%s: %s, module %" PRIu32 ", offset %" PRId64 "\n", forms[thread->form],
                       models[thread->model], thread->module, thread->offset);
        else if (unread)
                printf("thread contexts are not read: %s\n", unread);
}

/*
 * Since when a thread's context is as it is: that is written nowhere. It stood when it was first seen, and is
 * younger than the last look that saw another one, or than its thread.
 */
typedef struct Age {
        uint64_t hash;
        uint64_t seen_ns, before_ns;    /* BOOTTIME: the first look that saw it; it is younger than this */
} Age;

static uint64_t birth_ns(uint32_t pid, uint32_t tid) {
        _cleanup_(freep) char *text = NULL;
        ProcessStat stat = { 0 };
        char path[64];
        size_t size;

        snprintf(path, sizeof(path), "/proc/%" PRIu32 "/task/%" PRIu32 "/stat", pid, tid);
        if (file_read_at(AT_FDCWD, path, MAX_STAT, &text, &size) || process_parse_stat(text, size, &stat))
                return 0;
        return stat.start_time_ns;
}

static int print_age(Show *show, uint64_t key, uint32_t tid, const struct abi_span *span) {
        uint64_t now_ns = clock_read_ns(CLOCK_BOOTTIME);
        uint64_t hash = span->trace_high * 31 + span->trace_low * 961 + span->span;
        Age *age = hashmap_get(&show->ages, key);
        bool is_new = !age;
        int r;

        if (is_new) {
                age = calloc(1, sizeof(*age));
                if (!age)
                        return -ENOMEM;
                r = hashmap_put(&show->ages, key, age);
                if (r) {
                        free(age);
                        return r;
                }
                age->before_ns = birth_ns(show->process->pid, tid);
        }
        if (!is_new && age->hash != hash)
                age->before_ns = show->last_ns;
        if (is_new || age->hash != hash)
                age->seen_ns = now_ns;
        age->hash = hash;
        printf(", for %.1f to %.1f s", (double)(now_ns - age->seen_ns) / 1e9,
               (double)(now_ns - MIN(now_ns, MIN(age->seen_ns, age->before_ns))) / 1e9);
        return 0;
}

static int print_span(Show *show, uint64_t key, uint32_t tid, const struct abi_span *span) {
        printf("trace %016" PRIx64 "%016" PRIx64 " span %016" PRIx64 "%s", span->trace_high, span->trace_low,
               span->span, span->trace_high ? "" : " (a local root, not a trace id?)");
        return print_age(show, key, tid, span);
}

/* Prints a slot of a thread that runs on: it may change meanwhile, so it is read twice. */
static int print_slot(void *userdata, const struct abi_adoption *adoption) {
        Show *show = userdata;
        const Process *process = show->process;
        uint64_t address = show->publication.ring_address + sizeof(struct spanprof_ring_header) +
                adoption->slot * SPANPROF_RING_SLOT_SIZE;
        struct spanprof_ring_slot slot, again;
        struct abi_span span;
        int r = 0;

        if (adoption->slot == ABI_ADOPTION_GONE)
                return 0;
        printf("    thread %" PRIu64 ", slot %" PRIu64 ": ", adoption->tid, adoption->slot);
        if (memory_read((pid_t)process->pid, address, &slot, sizeof(slot)) ||
            memory_read((pid_t)process->pid, address, &again, sizeof(again)))
                printf("no span");
        else if (slot.in_use || memcmp(&slot, &again, sizeof(slot)))
                printf("changing");
        else if (!(slot.trace_id_high | slot.trace_id_low | slot.span_id))
                printf("no span");
        else {
                span = (struct abi_span){ slot.trace_id_high, slot.trace_id_low, slot.span_id };
                r = print_span(show, adoption->tid, (uint32_t)adoption->tid, &span);
        }
        printf("\n");
        return r;
}

/* Entries {key index, length, bytes}; of two with one key the last counts, as everywhere. */
static void print_attributes(const ProcessContext *context, const ThreadLook *look) {
        ThreadAttribute last[PROCESS_CONTEXT_MAX_KEYS] = { 0 }, entry;
        size_t at = 0;

        while (thread_attributes_next(look->attributes, look->attributes_size, &at, &entry))
                last[entry.key] = entry;
        for (unsigned int i = 0; i < PROCESS_CONTEXT_MAX_KEYS; i++) {
                if (!last[i].value)
                        continue;
                printf("        ");
                if (context && i < context->n_keys && context->keys[i].size)
                        print_text(context->keys[i].data, context->keys[i].size);
                else
                        printf("key %u", i);
                printf(" = ");
                print_text((const char *)last[i].value, last[i].size);
                printf("\n");
        }
        if (at != look->attributes_size)
                printf("        (the rest of its attributes is malformed)\n");
}

static void print_labels(const ThreadLook *look) {
        size_t at = GO_HEADER_SIZE;
        GoroutineLabel label;

        while (look->attributes_size &&
               goroutine_labels_next(look->attributes, look->attributes_size, &at, &label)) {
                printf("        ");
                print_text((const char *)label.key, label.key_size);
                printf(" = ");
                print_text((const char *)label.value, label.value_size);
                printf("\n");
        }
}

static int print_records(Show *show) {
        static const char *const words[] = {
                [THREAD_LOOK_NOT] = "could not be stopped",
                [THREAD_LOOK_ASLEEP] = "asleep, and left so",
                [THREAD_LOOK_NONE] = "no span",
                [THREAD_LOOK_INVALID] = "no span (a record that is not valid)",
                [THREAD_LOOK_UNREADABLE] = "unreadable",
        };
        ThreadLook *looks;
        size_t n;
        int r = thread_look_all(show->process, &show->publication.thread, &looks, &n);

        if (r)
                return r;
        for (size_t i = 0; i < n && !r; i++) {
                printf("    thread %" PRIu32 ": ", looks[i].tid);
                if (looks[i].outcome == THREAD_LOOK_PRESENT)
                        r = print_span(show, looks[i].tid | RECORD_KEY, looks[i].tid, &looks[i].span);
                else if (looks[i].outcome == THREAD_LOOK_UNREADABLE &&
                         show->publication.thread.form == ABI_FORM_NODE)
                        printf("unreadable: another layout than is known; "
                               "dd-trace 6.15, 5.127 and newer say theirs");
                else
                        printf("%s", words[looks[i].outcome]);
                printf("\n");
                if (show->publication.thread.form == ABI_FORM_LABELS)
                        print_labels(&looks[i]);
                else
                        print_attributes(show->publication.context, &looks[i]);
        }
        thread_look_free(looks, n);
        return r;
}

/* Looks for contexts that are published now. Return: 0, PROCESS_E_GONE, PROCESS_E_DENIED, -ENOMEM. */
static int look(const Process *process, Publication *publication, uint32_t *versionp, int *conditionp) {
        RingBudget budget = { .n_entries = MAX_ENTRIES, .n_reads = MAX_READS };
        RingSearch search = { 0 };
        int r = ring_find((pid_t)process->pid, process->start_time_ns, false, &search, &budget,
                          &publication->ring_address, &publication->ring_capacity);

        *conditionp = PROCESS_CONTEXT_E_NONE;
        if (r < 0)
                return r;
        publication->invalid_ring = search.invalid_address;
        publication->invalid_fault = search.invalid_fault;
        if (r == RING_E_GONE || r == RING_E_DENIED)
                return r == RING_E_GONE ? PROCESS_E_GONE : PROCESS_E_DENIED;
        if (search.context_address)
                *conditionp = process_context_read((pid_t)process->pid, search.context_address, versionp,
                                                   &publication->context);
        return MIN(*conditionp, 0);
}

/*
 * Labels of goroutines, or spans that the SDK for Python keeps: whether they can be read; not which there
 * are.
 */
static int print_runtime(const Show *show, bool *printed) {
        const Publication *publication = &show->publication;
        _cleanup_(runtimes_freep) Runtimes *runtimes = NULL;
        RuntimeDescription description = { 0 };
        int r = runtimes_new(&runtimes, NULL, NULL);

        if (!r)
                r = runtimes_register(runtimes, &go_runtime, -1, NULL);
        if (!r)
                r = runtimes_register(runtimes, &python_runtime, -1, NULL);
        if (!r)
                r = runtimes_describe(runtimes, show->process, &description);
        if (r)
                return r;
        *printed = description.ops == &go_runtime || description.has_spans;
        if (description.ops == &go_runtime)
                printf("%s\n", description.text);
        if (description.has_spans)
                printf("spans of OpenTelemetry's SDK for Python: %s\n",
                       publication->thread.form || publication->ring_address
                               ? "left alone, since what it publishes comes first"
                               : "read out of the SDK's own context");
        return 0;
}

static int print_all(Show *show, ObjectCache *objects) {
        uint64_t now_ns = clock_read_ns(CLOCK_BOOTTIME);
        Publication *publication = &show->publication;
        Process *process = show->process;
        bool printed = false;
        uint32_t version = 0;
        int condition, r;
        const char *unread;

        publication->ring_address = 0;
        publication->context = process_context_free(publication->context);
        r = look(process, publication, &version, &condition);
        if (!r)
                r = process_read_mappings(process, objects);
        if (r)
                return r;
        publication->thread = thread_context_find(process, &unread);
        if (publication->context)
                publication->thread.node = publication->context->node;
        printf("pid %" PRIu32 " (", process->pid);
        print_text(process->comm, strlen(process->comm));
        printf(")\n");
        if (publication->context)
                print_process_context(publication->context);
        else if (condition == PROCESS_CONTEXT_E_VERSION)
                printf("process context: version %" PRIu32 ", of which only 2 is read\n", version);
        else if (condition != PROCESS_CONTEXT_E_NONE)
                printf("process context: %s\n",
                       condition == PROCESS_CONTEXT_E_BUSY ? "being updated" : "malformed");
        print_thread_context(&publication->thread, unread);
        if (!publication->thread.form && !unread && publication->context && publication->context->n_keys)
                printf("thread contexts: there are names of keys, but no variable that is exported (yet)\n");
        if (publication->thread.form)
                r = print_records(show);
        if (publication->ring_address)
                printf("ring at 0x%" PRIx64 ": version 1, %" PRIu32 " slots\n",
                       publication->ring_address, publication->ring_capacity);
        else if (publication->invalid_ring)
                printf("ring at 0x%" PRIx64 ": not read, since %s\n", publication->invalid_ring,
                       ring_fault_text(publication->invalid_fault));
        if (!r && publication->ring_address)
                r = adopt_threads(process->pid, publication->ring_capacity, print_slot, show);
        if (!r)
                r = print_runtime(show, &printed);
        if (!publication->ring_address && !publication->invalid_ring && !publication->context &&
            !publication->thread.form && !printed)
                printf("it publishes nothing\n");
        fflush(stdout);
        show->last_ns = now_ns;
        return r;
}

static void free_ages(Show *show) {
        HashmapEntry *entry;
        uint32_t at = 0;

        while ((entry = hashmap_next(&show->ages, &at)))
                free(entry->value);
        hashmap_deinit(&show->ages);
}

static bool goes_on(const Cli *cli, uint64_t begin_ns) {
        uint64_t duration_ns = cli->config.daemon.duration_ns;

        return cli->config.command.watch &&
                (!duration_ns || clock_read_ns(CLOCK_MONOTONIC) - begin_ns < duration_ns);
}

static int show(Cli *cli, Process *process, ObjectCache *objects) {
        uint64_t begin_ns = clock_read_ns(CLOCK_MONOTONIC);
        Show show = { .process = process };
        int r = print_all(&show, objects);

        while (!r && goes_on(cli, begin_ns)) {
                sleep(1);
                printf("\n");
                /* ages of threads that are gone fill it: begin again */
                if (show.ages.n_entries > MAX_AGES)
                        free_ages(&show);
                r = print_all(&show, objects);
        }
        free_ages(&show);
        publication_deinit(&show.publication);
        return r;
}

/* As `validate` has it: nothing known is worse than something wrong. */
static int check(Cli *cli, Process *process, ObjectCache *objects, enum status *statusp) {
        bool is_seen, is_held;
        int r = contexts_check(process, objects, cli->config.daemon.duration_ns, &is_seen, &is_held);

        if (r)
                return r;
        if (!is_seen)
                log_error("contexts: process %" PRIu32 " publishes nothing that could be checked", process->pid);
        *statusp = is_held ? STATUS_OK : is_seen ? STATUS_FAILURE : STATUS_USAGE;
        return 0;
}

static int look_into(Cli *cli, pid_t pid, enum status *statusp) {
        _cleanup_(object_cache_freep) ObjectCache *objects = NULL;
        _cleanup_(process_freep) Process *process = NULL;
        int r = object_cache_new(&objects, 16);

        *statusp = STATUS_OK;
        if (!r)
                r = process_new(&process, pid);
        if (r)
                return r;
        return cli->config.command.check ? check(cli, process, objects, statusp)
                                         : show(cli, process, objects);
}

static int run(Cli *cli) {
        enum status status;
        uint64_t pid;
        int r;

        if (text_u64(cli->arguments[0], INT32_MAX, &pid) || !pid) {
                log_error("contexts: `%s` is no process id", cli->arguments[0]);
                return STATUS_USAGE;
        }
        r = look_into(cli, (pid_t)pid, &status);
        if (!r || (r == PROCESS_E_GONE && cli->config.command.watch))
                return status;
        log_error("contexts: process %" PRIu64 ": %s%s", pid,
                  r == PROCESS_E_GONE             ? "there is none"
                          : r == PROCESS_E_DENIED ? "its memory is not readable for us"
                                                  : strerror(-r),
                  r == PROCESS_E_DENIED && geteuid() ? ": run it as root" : "");
        return cli->config.command.check ? STATUS_USAGE : STATUS_FAILURE;
}

const Verb verb_contexts = {
        .name = "contexts",
        .bit = VERB_CONTEXTS,
        .arguments = "PID",
        .min_arguments = 1,
        .max_arguments = 1,
        .summary = "show what trace context a process publishes",
        .description =
                "Looks into the process once (with --watch once a second): its process context with resource attributes\n"
                "and names of keys, and the span of each thread in its thread context and in the ring. `for A to B s` says\n"
                "how old a context is: seen for A seconds, and younger than B. To read thread contexts, each thread is\n"
                "stopped for some microseconds, as by a debugger; `run` does not do that. Needs root.\n"
                "\n"
                "With --check it looks up to 40 times a second, for 3 s or --duration, and prints one line for each rule of\n"
                "the formats (OpenTelemetry's proposals 4719 and 4947, the ring, labels of goroutines, stations): `ok`,\n"
                "`violated` with what was met, or `not seen`. Each look stops each thread, one after the other.\n"
                "Exit status of --check: 0 = no rule is violated, 1 = one is, 2 = nothing could be checked.\n"
                "\n"
                "  spanprof contexts 4711\n"
                "  spanprof contexts --watch 4711\n"
                "  spanprof contexts --check 4711\n",
        .run = run,
};
