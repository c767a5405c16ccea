/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The kernel half draws which waits it walks, once there are more than off-cpu-walks. It cannot know yet how
 * long a wait will be. So this looks again and again for waits that were not drawn and still go on:
 *
 *     0        T/4       T/2                 T = off-cpu-long-wait
 *     ├─────────┼─────────┼───────────────────┼──────▶
 *     begins    └ walked  ┘                   is long from here on
 *
 * A look each T/4 finds each wait before it is T/2 old. The other half of T is for the walk, and for a daemon
 * that has no CPU at once. What comes too late has no effect, and is counted: the kernel half keeps a stack
 * only while the thread has not run since its wait began (bpf/waits/wait-long.bpf.h).
 *
 * Looks begin with the first drain that finds undrawn waits, and end QUIET_NS behind the last one. They take
 * a tenth of one CPU at most: each is followed by nine times the CPU time that it took.
 */

#include "host/sampling/walks/long-waits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/stat.h"
#include "host/sampling/walks/thread-walk.h"

#define QUIET_NS NS_PER_SEC
#define LEAST_NS (250 * NS_PER_US)

enum {
        LOOKS = 4,                      /* looks in the length of a long wait */
        SHARE = 10,                     /* part of a CPU that looks may take: the tenth */
        RECORD_BYTES = sizeof(struct abi_wait) + sizeof(struct abi_sample) +
                WAIT_MAX_WORDS * sizeof(uint64_t) + ABI_MAX_ATTRIBUTES_SIZE,
};

typedef union Record {
        struct abi_wait head;
        uint64_t words[RECORD_BYTES / sizeof(uint64_t)];
} Record;

struct LongWaits {
        const WalkStages *stages;
        uint64_t length_ns;             /* a wait of so much is long */
        ThreadWalker *walker;           /* NULL = no look goes on */
        uint64_t undrawn_ns;            /* MONOTONIC: when such a wait was last known to begin */
};

/* ---- one wait ---- */

/* The attributes of the same span: the kernel half has read that as the thread left its CPU. */
static size_t attributes_size(const struct abi_wait_long *wait, const WalkedThread *found) {
        bool is_same = found->outcome == ABI_CONTEXT_PRESENT && wait->context == ABI_CONTEXT_PRESENT &&
                found->form == wait->form &&
                !memcmp(&found->context.span, &wait->span, sizeof(wait->span));

        return is_same ? found->context.attributes_size : 0;
}

/* As wait_record() and wait_keep() of the kernel half make it. */
static void make_record(const struct abi_wait_long *wait, const WalkedThread *found, Record *record) {
        struct abi_sample *sample = (struct abi_sample *)(&record->head + 1);
        const struct abi_thread *thread = &wait->thread;
        size_t words_size = found->n * sizeof(uint64_t), size = attributes_size(wait, found);

        memset(record, 0, sizeof(*record));
        walked_thread_head(found, sample);
        sample->time_ns = wait->begin_ns;
        sample->context = wait->context;
        sample->span = wait->span;
        sample->form = wait->form;
        sample->attributes_size = (uint16_t)size;
        memcpy(sample->frames, found->words, words_size);
        memcpy((char *)sample->frames + words_size, found->context.attributes, size);
        record->head.weight = WAIT_WEIGHT_ONE;
        record->head.call = thread->call;
        record->head.flags = thread->wait_flags;
        record->head.file = wait->file;
        record->head.size = sizeof(record->head) + sizeof(*sample) + words_size + ((size + 7) & ~(size_t)7);
}

static int give(const LongWaits *waits, const struct abi_wait_long *wait, const WalkedThread *found) {
        static const enum counter outcomes[] = { [WAIT_GIVEN] = COUNTER_LONG_WALKS_GIVEN,
                                                 [WAIT_GIVEN_TOO_LATE] = COUNTER_LONG_WALKS_LATE,
                                                 [WAIT_GIVEN_NO_ROOM] = COUNTER_LONG_WALKS_OVER_CAP };
        enum abi_wait_given given;
        Record record;
        int r;

        make_record(wait, found, &record);
        r = sampler_give_stack(waits->stages->sampler, wait, &record.head, &given);
        if (r)
                return error_fold(r);
        if (given < ARRAY_SIZE(outcomes))
                stat_add(outcomes[given], 1);
        return 0;
}

/* Rows may be on their way: such a walk says less than it should. */
static bool is_whole(const WalkedThread *found) {
        return found->end != ABI_STACK_PENDING && found->n <= WAIT_MAX_WORDS;
}

static int walk(const LongWaits *waits, const struct abi_wait_long *wait) {
        WalkedThread found = { 0 };
        Program program;
        int r;

        if (!(wait->thread.flags & THREAD_HAS_USER))
                return 0;
        r = targets_program(waits->stages->targets, wait->thread.tgid, wait->thread.generation, &program);
        if (!r)
                r = thread_walker_walk(waits->walker, &program, &wait->thread, &found);
        if (r > 0)
                stat_add(COUNTER_LONG_WALKS_UNREADABLE, 1);
        else if (!r && !is_whole(&found))
                stat_add(COUNTER_LONG_WALKS_PART, 1);
        else if (!r)
                r = give(waits, wait, &found);
        free(found.words);
        return MIN(r, 0);
}

/* ---- looks ---- */

/* *nextp: when the next wait of those that were seen is due. */
static int look(const LongWaits *waits, uint64_t *nextp) {
        const struct abi_wait_longs *list;
        int r = sampler_list_long_waits(waits->stages->sampler, &list);

        if (r)
                return error_fold(r);
        for (size_t i = 0; i < list->n && !r; i++)
                r = walk(waits, &list->waits[i]);
        thread_walker_leave(waits->walker);
        *nextp = list->next_ns;
        return error_fold(r);
}

static uint64_t cpu_ns(void) {
        struct timespec time;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
        return (uint64_t)time.tv_sec * NS_PER_SEC + (uint64_t)time.tv_nsec;
}

/* Makes the walker, which is there while looks go on. */
static int begin(LongWaits *waits) {
        uint32_t depth = MIN(waits->stages->depth, (uint32_t)WAIT_MAX_FRAMES);

        return waits->walker ? 0 : error_fold(thread_walker_new(&waits->walker, waits->stages, depth));
}

int long_waits_look(LongWaits *waits, uint64_t *after_nsp) {
        uint64_t now_ns = clock_monotonic_ns(), begin_cpu_ns = cpu_ns(), next_ns = UINT64_MAX, after_ns;
        int r = begin(waits);

        if (r)
                return r;
        if (sampler_has_undrawn_waits(waits->stages->sampler))
                waits->undrawn_ns = now_ns;
        r = look(waits, &next_ns);
        if (r)
                return r;
        after_ns = MAX(waits->length_ns / LOOKS, LEAST_NS);
        if (now_ns > waits->undrawn_ns + QUIET_NS) {
                if (next_ns == UINT64_MAX) {
                        waits->walker = thread_walker_free(waits->walker);
                        *after_nsp = UINT64_MAX;
                        return 0;
                }
                after_ns = MAX(after_ns, next_ns - MIN(next_ns, now_ns));
        }
        *after_nsp = MAX(after_ns, (SHARE - 1) * (cpu_ns() - begin_cpu_ns));
        return 0;
}

bool long_waits_are_due(const LongWaits *waits) {
        return !waits->walker && sampler_has_undrawn_waits(waits->stages->sampler);
}

int long_waits_new(LongWaits **waitsp, const WalkStages *stages, uint64_t length_ns) {
        LongWaits *waits = calloc(1, sizeof(*waits));

        if (!waits)
                return error_origin(-ENOMEM);
        waits->stages = stages;
        waits->length_ns = length_ns;
        *waitsp = waits;
        return 0;
}

LongWaits *long_waits_free(LongWaits *waits) {
        if (!waits)
                return NULL;
        thread_walker_free(waits->walker);
        free(waits);
        return NULL;
}
