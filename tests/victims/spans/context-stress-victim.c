/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The victim of context-stress: threads that change their context each microsecond, and log each change
 * before and after. Every eighth change is to no context, every 256th one lasts for 100 µs, so that a context
 * that is not found although it stood long enough is noticed too. In OBI's form a thread is born to an entry
 * that one before it might have left.
 */
#include <linux/bpf.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "context-stress.h"
#include "spanprof/context.h"
#include "spanprof/otel.h"
#include "spanprof/ring.h"
#include "victim.h"

enum { CHANGE_NS = 1000, LONG_NS = 100000, LIFE = 4000, LEFT = 32 };

static StressShared *shared;
static const StressOptions *options;
static struct spanprof_ring_slot *plain_slots;
static uint32_t dead[STRESS_WORKERS];   /* atomic; id of a thread that has ended, 0 = none */
static uint64_t newest;                 /* atomic; key of the thread born last, 0 = it has not begun */

/* The protocol as its description has it. Nobody clears the slot at the end. */
static void plain_set(uint32_t tid, uint64_t high, uint64_t low, uint64_t span) {
        struct spanprof_ring_slot *slot = &plain_slots[tid % options->capacity];

        __atomic_store_n(&slot->in_use, 1, __ATOMIC_SEQ_CST);
        __atomic_store_n(&slot->trace_id_high, high, __ATOMIC_RELAXED);
        __atomic_store_n(&slot->trace_id_low, low, __ATOMIC_RELAXED);
        __atomic_store_n(&slot->span_id, span, __ATOMIC_RELAXED);
        __atomic_store_n(&slot->in_use, 0, __ATOMIC_RELEASE);
}

/* An entry of OBI's map, as OBI's own programs write it. @span: 0 = it is deleted. */
static void obi_set(uint64_t key, uint64_t high, uint64_t low, uint64_t span) {
        const uint64_t ids[] = { __builtin_bswap64(high), __builtin_bswap64(low), __builtin_bswap64(span) };
        union bpf_attr attr;

        memset(&attr, 0, sizeof(attr));
        attr.map_fd = (uint32_t)options->map;
        attr.key = (uintptr_t)&key;
        attr.value = span ? (uintptr_t)ids : 0;
        if (syscall(SYS_bpf, span ? BPF_MAP_UPDATE_ELEM : BPF_MAP_DELETE_ELEM, &attr, sizeof(attr)) && span)
                _exit(1);
}

/* Ids of the calling thread as the first PID namespace has them: /proc is still the one of that. */
static uint64_t obi_key(void) {
        static __thread uint64_t key;
        char text[64] = "";
        uint32_t tgid, tid;

        if (key)
                return key;
        if (readlink("/proc/thread-self", text, sizeof(text) - 1) < 0 ||
            sscanf(text, "%u/task/%u", &tgid, &tid) != 2)
                _exit(1);
        key = (uint64_t)tgid << 32 | tid;
        return key;
}

/* Entries that threads of the next ids would have left, had they lived before. None of them lives now. */
static void obi_leave(uint64_t key) {
        for (uint64_t i = 1; i <= LEFT; i++)
                obi_set(key + i, ~key, ~i, ~UINT64_C(0));
}

static void set(uint32_t tid, uint64_t span) {
        uint64_t high = span ? stress_mix(span) : 0, low = span ? stress_mix(high) : 0;

        switch (options->form) {
        case STRESS_PLAIN:
                plain_set(tid, high, low, span);
                break;
        case STRESS_OBI:
                obi_set(obi_key(), high, low, span);
                break;
        case STRESS_BOTH:
                if (span)
                        spanprof_otel_set(high, low, span);
                else
                        spanprof_otel_clear();
                spanprof_context_set(high, low, span);
                break;
        default:
                spanprof_context_set(high, low, span);
        }
}

static StressEntry *begin_entry(uint32_t worker, uint64_t n, uint32_t tid, bool has_span) {
        StressEntry *entry = &shared->logs[worker].entries[n % STRESS_ENTRIES];

        __atomic_store_n(&entry->n, 0, __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        entry->tid = tid;
        entry->has_span = has_span;
        entry->after = 0;
        entry->before = victim_clock_ns(CLOCK_MONOTONIC);
        __atomic_store_n(&entry->n, n, __ATOMIC_SEQ_CST);
        __atomic_store_n(&shared->logs[worker].n, n, __ATOMIC_SEQ_CST);
        return entry;
}

static void *work(void *data) {
        uint32_t worker = (uint32_t)(uintptr_t)data, tid = (uint32_t)syscall(SYS_gettid);
        uint64_t n = shared->logs[worker].n + 1, last = n + LIFE, now;

        shared->worker_of[tid % STRESS_TIDS] = (uint8_t)(worker + 1);
        if (options->form == STRESS_OBI)
                __atomic_store_n(&newest, obi_key(), __ATOMIC_SEQ_CST);
        begin_entry(worker, n, tid, false)->after = victim_clock_ns(CLOCK_MONOTONIC);
        while (!__atomic_load_n(&shared->stop, __ATOMIC_RELAXED) && !(options->brief && n == last)) {
                bool has_span = ++n % 8 != 7;
                StressEntry *entry = begin_entry(worker, n, tid, has_span);

                set(tid, has_span ? (uint64_t)worker << 56 | n : 0);
                now = victim_clock_ns(CLOCK_MONOTONIC);
                __atomic_store_n(&entry->after, now, __ATOMIC_SEQ_CST);
                for (uint64_t end = now + (n % 256 ? CHANGE_NS : LONG_NS); now < end;)
                        now = victim_clock_ns(CLOCK_MONOTONIC);
        }
        begin_entry(worker, n + 1, tid, false); /* never done: how long it stays is the destructors' affair */
        __atomic_store_n(&dead[worker], tid, __ATOMIC_SEQ_CST);
        return NULL;
}

static void make_plain_ring(void) {
        struct spanprof_ring_header *header;

        header = mmap(NULL, sizeof(*header) + options->capacity * sizeof(*plain_slots),
                      PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (header == MAP_FAILED)
                _exit(1);
        *header = (struct spanprof_ring_header){
                SPANPROF_RING_MAGIC, SPANPROF_RING_VERSION, options->capacity, SPANPROF_RING_SLOT_SIZE, { 0 }
        };
        plain_slots = (struct spanprof_ring_slot *)(header + 1);
        shared->ring = (uintptr_t)header;
}

static void start_storage(void) {
        struct spanprof_context_options start = { .size = sizeof(start), .capacity = options->capacity };

        start.storage = options->form == STRESS_THREAD ? SPANPROF_CONTEXT_THREAD : SPANPROF_CONTEXT_RING;
        if (options->form == STRESS_PLAIN)
                make_plain_ring();
        else if (options->form == STRESS_OBI)
                newest = obi_key();
        else if (spanprof_context_start(&start))
                _exit(1);
}

static void give_birth(uint32_t worker, pthread_t *thread) {
        if (options->form == STRESS_OBI)
                obi_leave(__atomic_exchange_n(&newest, 0, __ATOMIC_SEQ_CST));
        if (pthread_create(thread, NULL, work, (void *)(uintptr_t)worker))
                _exit(1);
        shared->n_threads++;
        while (options->form == STRESS_OBI && !__atomic_load_n(&newest, __ATOMIC_SEQ_CST))
                sched_yield();
}

/* The next thread gets the id of one that has just gone, if this kernel lets us say so. */
static void reuse(uint32_t tid) {
        FILE *file = fopen("/proc/sys/kernel/ns_last_pid", "we");

        if (!file)
                return;
        shared->n_reused += fprintf(file, "%u", tid - 1) > 0 && fflush(file) == 0;
        fclose(file);
}

void stress_victim(StressShared *given, const StressOptions *given_options) {
        pthread_t threads[STRESS_WORKERS];

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        shared = given;
        options = given_options;
        start_storage();
        shared->tid = (uint32_t)syscall(SYS_gettid);
        while (__atomic_load_n(&shared->go, __ATOMIC_SEQ_CST) != 1)
                usleep(1000);
        __atomic_store_n(&shared->go, 2, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(&shared->go, __ATOMIC_SEQ_CST) != 3)
                usleep(1000);
        for (uint32_t i = 0; i < options->n_workers; i++)
                give_birth(i, &threads[i]);
        while (!__atomic_load_n(&shared->stop, __ATOMIC_RELAXED)) {
                usleep(300);
                for (uint32_t i = 0; i < options->n_workers && options->brief; i++) {
                        uint32_t tid = __atomic_exchange_n(&dead[i], 0, __ATOMIC_SEQ_CST);

                        if (!tid)
                                continue;
                        pthread_join(threads[i], NULL);
                        if (shared->n_threads % 4)      /* the others' ids wander, and come to share slots */
                                reuse(tid);
                        give_birth(i, &threads[i]);
                }
        }
        for (uint32_t i = 0; i < options->n_workers; i++)
                pthread_join(threads[i], NULL);
        _exit(0);
}
