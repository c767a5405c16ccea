/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "spanprof/ring.h"
#include "target/adopt.h"
#include "target/memory.h"
#include "target/object.h"
#include "target/process.h"
#include "target/ring.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/text.h"

enum {
        MAX_ENTRIES = 1 << 24,          /* of the search, as in survey.c */
        MAX_READS = 1 << 20,
};

/* Text of a target, fit for a terminal. */
static void print_text(const char *data, size_t size) {
        for (size_t i = 0; i < size; i++)
                putchar((unsigned char)data[i] < ' ' || data[i] == 0x7f ? '?' : data[i]);
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

        printf("process context at 0x%" PRIx64 ": version 2, %zu bytes, published %.1f s ago\n", context->address,
               context->payload_size, (double)age_ns / 1e9);
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
                printf("  %zu attributes are left out: of another kind, without a key, or too many\n", context->n_left_out);
}

static void print_thread_context(const ThreadContext *thread, const char *unread) {
        static const char *const models[] = { "", "static", "glibc's DTV", "musl's DTV" };

        if (thread->form)
                printf("thread contexts%s: %s, module %" PRIu32 ", offset %" PRId64 " (each is read while its thread is sampled)\n",
                       thread->form == ABI_FORM_ELASTIC ? " of Elastic" : "", models[thread->model], thread->module, thread->offset);
        else if (unread)
                printf("thread contexts are not read: %s\n", unread);
}

/* One look at a thread that runs on: a slot may change under it, so it is looked at twice. */
static int print_slot(void *userdata, const struct abi_adoption *adoption) {
        const Process *process = userdata;
        uint64_t address = process->ring_address + sizeof(struct spanprof_ring_header) + adoption->slot * SPANPROF_RING_SLOT_SIZE;
        struct spanprof_ring_slot slot, again;

        if (adoption->slot == ABI_ADOPTION_GONE)
                return 0;
        printf("    thread %" PRIu64 ", slot %" PRIu64 ": ", adoption->tid, adoption->slot);
        if (memory_read((pid_t)process->pid, address, &slot, sizeof(slot)) ||
            memory_read((pid_t)process->pid, address, &again, sizeof(again)))
                printf("no span\n");
        else if (slot.in_use || memcmp(&slot, &again, sizeof(slot)))
                printf("changing\n");
        else if (!(slot.trace_id_high | slot.trace_id_low | slot.span_id))
                printf("no span\n");
        else
                printf("trace %016" PRIx64 "%016" PRIx64 " span %016" PRIx64 "%s\n", slot.trace_id_high, slot.trace_id_low,
                       slot.span_id, slot.trace_id_high ? "" : " (a local root, not a trace id?)");
        return 0;
}

/* What is published, in *process. Return: 0, PROCESS_E_GONE, PROCESS_E_DENIED, -ENOMEM. */
static int look(Process *process, uint32_t *versionp, int *conditionp) {
        RingBudget budget = { .n_entries = MAX_ENTRIES, .n_reads = MAX_READS };
        RingSearch search = { 0 };
        int r = ring_find((pid_t)process->pid, process->start_time_ns, false, &search, &budget, &process->ring_address,
                          &process->ring_capacity);

        *conditionp = PROCESS_CONTEXT_E_NONE;
        if (r < 0)
                return r;
        if (r == RING_E_GONE || r == RING_E_DENIED)
                return r == RING_E_GONE ? PROCESS_E_GONE : PROCESS_E_DENIED;
        if (search.context_address)
                *conditionp = process_context_read((pid_t)process->pid, search.context_address, versionp, &process->context);
        return MIN(*conditionp, 0);
}

static int print_all(Process *process, ObjectCache *objects) {
        uint32_t version = 0;
        int condition, r;
        const char *unread;

        process->ring_address = 0;
        process->context = process_context_free(process->context);
        r = look(process, &version, &condition);
        if (!r)
                r = process_read_mappings(process, objects);
        if (r)
                return r;
        process->thread = thread_context_find(process, &unread);
        printf("pid %" PRIu32 " (%s)\n", process->pid, process->comm);
        if (process->context)
                print_process_context(process->context);
        else if (condition == PROCESS_CONTEXT_E_VERSION)
                printf("process context: version %" PRIu32 ", of which only 2 is read\n", version);
        else if (condition != PROCESS_CONTEXT_E_NONE)
                printf("process context: %s\n", condition == PROCESS_CONTEXT_E_BUSY ? "being updated" : "malformed");
        print_thread_context(&process->thread, unread);
        if (process->ring_address)
                printf("ring at 0x%" PRIx64 ": version 1, %" PRIu32 " slots\n", process->ring_address, process->ring_capacity);
        if (process->ring_address)
                adopt_threads(process->pid, process->ring_capacity, print_slot, process);
        if (!process->ring_address && !process->context && !process->thread.form)
                printf("it publishes nothing\n");
        fflush(stdout);
        return 0;
}

static int show(Cli *cli, pid_t pid) {
        _cleanup_(object_cache_freep) ObjectCache *objects = NULL;
        _cleanup_(process_freep) Process *process = NULL;
        int r = object_cache_new(&objects, 16);

        if (!r)
                r = process_new(&process, pid);
        if (!r)
                r = print_all(process, objects);
        while (!r && cli->config.watch) {
                sleep(1);
                printf("\n");
                r = print_all(process, objects);
        }
        return r;
}

static int run(Cli *cli) {
        uint64_t pid;
        int r;

        if (text_u64(cli->arguments[0], INT32_MAX, &pid) || !pid) {
                log_error("contexts: `%s` is no process id", cli->arguments[0]);
                return STATUS_USAGE;
        }
        r = show(cli, (pid_t)pid);
        if (!r || (r == PROCESS_E_GONE && cli->config.watch))
                return STATUS_OK;
        log_error("contexts: process %" PRIu64 ": %s", pid,
                  r == PROCESS_E_GONE ? "there is none" : r == PROCESS_E_DENIED ? "its memory is not readable for us" : strerror(-r));
        return STATUS_FAILURE;
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
                "and names of keys, how its threads' contexts are reached, and its ring with the span of each thread.\n"
                "Thread contexts themselves are read by `run`, while their threads are interrupted. Needs root.\n"
                "\n"
                "  spanprof contexts 4711\n"
                "  spanprof contexts --watch 4711\n",
        .run = run,
};
