/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A thread that has no CPU changes nothing: its registers lie in the kernel, its stack and its trace context
 * in its memory, and both can be read at leisure. Whether it had a CPU in between is told by its count of
 * switches, at a second look:
 *
 *     look ─▶ some threads without a CPU: copies of their stacks ─▶ walk by the rules of samples, span
 *     look ─▶ as many switches as before? ─ yes ─▶ it is a wait, as it stands
 *      │                                  └ no ──▶ again in the next round, MAX_ROUNDS times
 *      └────▶ the next threads
 *
 * Rows that are on their way make a round wait for them, for LIMIT_NS in all.
 *
 * Waits that the kernel half has not seen begin (`run`, `record` and `top` with --off-cpu) are counted in the
 * same way: who waits is noted before it counts any, and looked at as a window closes. A thread that has left
 * no CPU in between has waited all the time, and the kernel half knows nothing of its wait.
 */

#include "host/sampling/walks/thread-waits.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/stat.h"
#include "host/sampling/aggregate/wait-reason.h"
#include "host/sampling/walks/early-choice.h"
#include "host/sampling/walks/thread-walk.h"
#include "host/sampling/walks/wait-locks.h"

enum {
        MAX_EARLY = 256,                /* waits that the kernel half has not seen begin */
        MAX_ROUNDS = 8,                 /* for threads that run in between */
        LEAST_BATCH = 16,               /* threads between two looks … */
        MAX_BATCHES = 64,               /* … and looks of a round: one of many threads takes milliseconds */
        POLL_MS = 20,
        STEP_BYTES = 200000,            /* bytes of files, about 1 ms */
};

#define LIMIT_NS NS_PER_SEC

typedef struct Work {
        const WalkStages *stages;
        ThreadWalker *walker;
        ThreadsLook look;
        WalkedThread *found;             /* room for a batch */
        size_t n_found, batch;
        uint64_t end_ns;                /* MONOTONIC: rows are waited for until then */
        ThreadWaits *result;
        const EarlyWaits *early;        /* NULL = all waits, from when they began; else these alone, … */
        uint64_t from_ns, until_ns;     /* … and so much of each */
        bool is_pending;                /* a walk has met rows that are on their way */
} Work;

static bool has_registers(const struct abi_thread *thread) {
        return thread->flags & THREAD_HAS_USER && !(thread->flags & THREAD_ON_CPU);
}

/* The first thread of the look behind that one. */
static size_t behind(const ThreadsLook *look, const struct abi_thread *thread) {
        size_t low = 0, high = look->n;

        while (low < high) {
                size_t middle = (low + high) / 2;
                const struct abi_thread *at = &look->threads[middle];

                if (at->tgid < thread->tgid || (at->tgid == thread->tgid && at->tid <= thread->tid))
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

/* The thread of process @tgid that it knows as @ns_tid; NULL = none. */
static const struct abi_thread *find_own(const Work *work, uint32_t tgid, uint32_t ns_tid) {
        const ThreadsLook *look = &work->look;
        size_t i = ns_tid ? behind(look, &(struct abi_thread){ .tgid = tgid }) : look->n;

        for (; i < look->n && look->threads[i].tgid == tgid; i++)
                if (look->threads[i].ns_tid == ns_tid)
                        return &look->threads[i];
        return NULL;
}

static uint32_t find_holder(const Work *work, const struct abi_thread *thread, int32_t owner) {
        const struct abi_thread *found = owner > 0 ? find_own(work, thread->tgid, (uint32_t)owner) : NULL;

        return found ? found->tid : 0;
}

/* ---- a round ---- */

static void forget_batch(Work *work) {
        for (size_t i = 0; i < work->n_found; i++)
                free(work->found[i].words);
        work->n_found = 0;
}

static ThreadWait *find_result(const Work *work, const struct abi_thread *thread) {
        ThreadWaits *result = work->result;
        size_t low = 0, high = result->n;

        while (low < high) {
                size_t middle = (low + high) / 2;
                ThreadWait *at = &result->threads[middle];

                if (at->tgid == thread->tgid && at->tid == thread->tid)
                        return at;
                if (at->tgid < thread->tgid || (at->tgid == thread->tgid && at->tid < thread->tid))
                        low = middle + 1;
                else
                        high = middle;
        }
        return NULL;
}

/* Whether it is still in the wait that was noted. */
static bool is_early(const EarlyWaits *early, const struct abi_thread *thread) {
        for (size_t low = 0, high = early->n; low < high;) {
                size_t middle = (low + high) / 2;
                const EarlyWait *at = &early->waits[middle];

                if (at->tgid == thread->tgid && at->tid == thread->tid)
                        return at->n_switches == thread->n_switches;
                if (at->tgid < thread->tgid || (at->tgid == thread->tgid && at->tid < thread->tid))
                        low = middle + 1;
                else
                        high = middle;
        }
        return false;
}

static bool is_wanted(const Work *work, const struct abi_thread *thread) {
        const ThreadWait *known = find_result(work, thread);

        return has_registers(thread) && known && !known->was_added &&
                (!work->early || is_early(work->early, thread));
}

static int read_thread(Work *work, const struct abi_thread *thread) {
        WalkedThread *found = &work->found[work->n_found];
        Program program;
        int r = targets_program(work->stages->targets, thread->tgid, thread->generation, &program);

        if (!r)
                r = thread_walker_walk(work->walker, &program, thread, found);
        if (r)
                return MIN(r, 0);
        work->n_found++;
        return 0;
}

/* @from: index in the look. Return: that behind the batch, or -errno. */
static ssize_t read_batch(Work *work, size_t from) {
        size_t at = from;
        int r = 0;

        for (; at < work->look.n && work->n_found < work->batch && !r; at++)
                if (is_wanted(work, &work->look.threads[at]))
                        r = read_thread(work, &work->look.threads[at]);
        return r ? r : (ssize_t)at;
}

/* ---- what is sure ---- */

static const struct abi_thread *find_again(const ThreadsLook *again, const struct abi_thread *thread) {
        size_t next = behind(again, thread);
        const struct abi_thread *at = next ? &again->threads[next - 1] : NULL;

        return at && at->tgid == thread->tgid && at->tid == thread->tid ? at : NULL;
}

static bool has_stood(const struct abi_thread *before, const struct abi_thread *after) {
        return after && has_registers(after) && after->n_switches == before->n_switches &&
                after->generation == before->generation && after->start_time_ns == before->start_time_ns;
}

/* By the scheduler's clock. At least 1: a wait of nothing is none. */
static uint64_t waited_ns(const Work *work, const struct abi_thread *thread) {
        uint64_t now_ns = work->look.scheduler_ns;

        if (work->early)
                return MAX(work->until_ns - MIN(work->until_ns, work->from_ns), UINT64_C(1));
        return now_ns && thread->arrival_ns && now_ns > thread->arrival_ns ? now_ns - thread->arrival_ns : 1;
}

const char *thread_waits_idle(const WalkStages *stages, int16_t call, const char *reason,
                              const Sample *sample) {
        const struct abi_sample *header = sample->header;
        const char *idle = wait_idle_reason(call);

        /* a thread that was preempted or stopped in the call has that for a reason */
        if (!idle || reason != wait_reason(call, 0) || header->stack_end != ABI_STACK_COMPLETE ||
            !runtimes_is_idle(stages->runtimes, header->generation, call != SYS_futex, sample->user,
                              header->n_user))
                return NULL;
        return idle;
}

/* A look at the thread has met this wait, if it came after the wait was noted. */
static const SampleLock *find_lock(const Work *work, const struct abi_thread *thread, const char *reason) {
        const WaitLocks *locks = work->stages->locks;
        const SampleLock *lock;

        if (!work->early || !locks || !wait_reason_is_futex(reason))
                return NULL;
        lock = wait_locks_find(locks, thread->tgid, thread->tid, work->early->noted_ns, thread->time_ns);
        stat_add(lock ? COUNTER_WAIT_LOCKS_KNOWN : COUNTER_WAIT_LOCKS_UNKNOWN, 1);
        return lock;
}

static int add_wait(Work *work, const WalkedThread *found) {
        const struct abi_thread *thread = found->thread;
        struct abi_sample header;
        Sample sample = { .header = &header, .user = found->words, .attributes = found->context.attributes };
        uint64_t value_ns = waited_ns(work, thread);
        bool is_runnable = thread->flags & THREAD_RUNNABLE;
        uint8_t flags = thread->wait_flags | (found->waits_for_lock ? WAIT_INTERPRETER_LOCK : 0);
        const char *reason = wait_reason(thread->call, flags);
        const struct abi_waker unknown = { .kind = WAKER_UNKNOWN };
        WaitTimes times = { .blocked_ns = is_runnable ? 0 : value_ns,
                            .runnable_ns = is_runnable ? value_ns : 0,
                            .end_ns = thread->time_ns,
                            .weight = WAIT_WEIGHT_ONE,
                            .waker = &unknown };
        Program program;
        int r;

        walked_thread_head(found, &header);
        if (work->early)
                times.idle = thread_waits_idle(work->stages, thread->call, reason, &sample);
        if (!times.idle)
                times.lock = find_lock(work, thread, reason);
        r = targets_program(work->stages->targets, thread->tgid, thread->generation, &program);
        if (!r)
                r = aggregator_add_wait(work->stages->aggregator, &program, &sample, reason, &times);
        if (!r) {
                ThreadWait *known = find_result(work, thread);

                known->was_added = true;
                known->holder = find_holder(work, thread, found->owner);
        }
        return MIN(r, 0);
}

/* Rows that have not come by the end do not count any more. */
static int keep_sure(Work *work, const ThreadsLook *again) {
        bool is_late = clock_monotonic_ns() >= work->end_ns;
        int r = 0;

        for (size_t i = 0; i < work->n_found && !r; i++) {
                const WalkedThread *found = &work->found[i];

                if (found->end == ABI_STACK_PENDING && !is_late)
                        work->is_pending = true;
                else if (has_stood(found->thread, find_again(again, found->thread)))
                        r = add_wait(work, found);
        }
        return r;
}

/* ---- locks of runtimes ---- */

static void put_lock(const Work *work, uint32_t tgid, const RuntimeLock *lock) {
        const struct abi_thread *thread = find_own(work, tgid, lock->tid);
        const struct abi_thread *owner = find_own(work, tgid, lock->owner);
        ThreadWait *wait = thread ? find_result(work, thread) : NULL;

        if (wait && lock->kind == RUNTIME_LOCK_NONE)
                wait->name = lock->name;
        if (!wait || !wait->was_added || lock->kind == RUNTIME_LOCK_NONE ||
            (lock->futex && (thread->call != SYS_futex || thread->argument != lock->futex)))
                return;
        wait->lock = lock;
        wait->holder = owner ? owner->tid : 0;
}

/* By the look behind the walks, which must say what the one before them did. */
static int put_locks(Work *work) {
        ThreadLocks *locks = &work->result->locks, again;
        int r = thread_locks_read(&again, work->stages, &work->look);

        if (!r)
                thread_locks_keep_same(locks, &again);
        for (size_t i = 0; !r && i < locks->n; i++)
                for (uint32_t k = 0; k < locks->processes[i].locks->n; k++)
                        put_lock(work, locks->processes[i].tgid, &locks->processes[i].locks->locks[k]);
        thread_locks_deinit(&again);
        return r;
}

/* ---- all of it ---- */

static int begin_result(Work *work) {
        ThreadWaits *result = work->result;

        *result = (ThreadWaits){ .threads = calloc(work->look.n + 1, sizeof(*result->threads)),
                                   .n = work->look.n,
                                   .n_over_cap = work->look.n_over_cap,
                                   .knows_times = work->look.scheduler_ns };
        if (!result->threads)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < work->look.n; i++) {
                const struct abi_thread *thread = &work->look.threads[i];
                ThreadWait *to = &result->threads[i];

                to->tgid = thread->tgid;
                to->tid = thread->tid;
                memcpy(to->comm, thread->comm, sizeof(to->comm));
                to->comm[sizeof(to->comm) - 1] = 0;
        }
        return 0;
}

static bool is_complete(const Work *work) {
        for (size_t i = 0; i < work->look.n; i++)
                if (is_wanted(work, &work->look.threads[i]))
                        return false;
        return true;
}

static int wait_for_rows(const Work *work) {
        Tables *tables = work->stages->tables;
        struct pollfd fd = { .fd = tables_fd(tables), .events = POLLIN };

        if (!work->is_pending)
                return 0;
        poll(&fd, 1, POLL_MS);
        return MIN(tables_step(tables, STEP_BYTES), 0);
}

static int look(Work *work, ThreadsLook *to) {
        int r = sampler_look_at_threads(work->stages->sampler, to);

        return r > 0 ? THREAD_WAITS_E_UNUSABLE : error_fold(r);
}

/*
 * Takes a batch, and looks again behind it; that look replaces the one before. *atp: index of the next batch.
 */
static int take_batch(Work *work, size_t *atp) {
        ssize_t next = read_batch(work, *atp);
        ThreadsLook again = { 0 };
        int r = next < 0 ? (int)next : look(work, &again);

        if (!r)
                r = keep_sure(work, &again);
        if (!r)
                *atp = next > 0 ? behind(&again, &work->look.threads[next - 1]) : 0;
        forget_batch(work);
        free(work->look.threads);
        work->look = again;
        return r;
}

static int take_round(Work *work) {
        int r = 0;

        work->is_pending = false;
        for (size_t at = 0; at < work->look.n && !r;)
                r = take_batch(work, &at);
        return r ? r : wait_for_rows(work);
}

static int rounds(Work *work) {
        unsigned n = 0;
        int r = 0;

        work->end_ns = clock_monotonic_ns() + (work->early ? 0 : LIMIT_NS);
        work->batch = MAX((size_t)LEAST_BATCH, work->look.n / MAX_BATCHES + 1);
        work->found = calloc(work->batch, sizeof(*work->found));
        if (!work->found)
                return error_origin(-ENOMEM);
        while (!r && n < (work->early ? 1 : MAX_ROUNDS) && !is_complete(work)) {
                r = take_round(work);
                n += !work->is_pending || clock_monotonic_ns() >= work->end_ns;
        }
        return r;
}

static int look_at_all(Work *work) {
        int r;

        *work->result = (ThreadWaits){ 0 };
        r = thread_walker_new(&work->walker, work->stages, work->stages->depth);
        if (!r)
                r = look(work, &work->look);
        if (!r)
                r = begin_result(work);
        if (!r && !work->early)
                r = thread_locks_read(&work->result->locks, work->stages, &work->look);
        if (!r)
                r = rounds(work);
        if (!r && !work->early)
                r = put_locks(work);
        if (work->walker)
                work->result->lacks_rights = thread_walker_lacks_rights(work->walker);
        thread_walker_free(work->walker);
        free(work->found);
        free(work->look.threads);
        return r;
}

void thread_waits_deinit(ThreadWaits *threads) {
        thread_locks_deinit(&threads->locks);
        free(threads->threads);
        *threads = (ThreadWaits){ 0 };
}

int thread_waits_add(const WalkStages *stages, ThreadWaits *threads) {
        Work work = { .stages = stages, .result = threads };

        return look_at_all(&work);
}

/* ---- waits that began too early ---- */

static bool may_be_early(const struct abi_thread *thread) {
        return has_registers(thread) && !(thread->flags & THREAD_RUNNABLE);
}

/* Counts waits of each process. */
static size_t count_waits(const ThreadsLook *found, EarlyChoice *choices) {
        size_t n = 0;

        for (size_t i = 0; i < found->n; i++) {
                if (!may_be_early(&found->threads[i]))
                        continue;
                if (!n || choices[n - 1].tgid != found->threads[i].tgid)
                        choices[n++] = (EarlyChoice){ .tgid = found->threads[i].tgid };
                choices[n - 1].n++;
        }
        return n;
}

static int note(EarlyWaits *early, const ThreadsLook *found) {
        _cleanup_(freep) EarlyChoice *choices = calloc(found->n + 1, sizeof(*choices));
        EarlyChoice *own = choices;
        int r;

        early->waits = choices ? calloc(MAX_EARLY, sizeof(*early->waits)) : NULL;
        if (!early->waits)
                return error_origin(-ENOMEM);
        r = early_choice_make(choices, count_waits(found, choices), MAX_EARLY);
        for (size_t i = 0; i < found->n && !r; i++) {
                const struct abi_thread *thread = &found->threads[i];

                if (!may_be_early(thread))
                        continue;
                own += own->tgid != thread->tgid;
                if (!own->n) {
                        stat_add(COUNTER_WAITS_EARLY_OVER_CAP, 1);
                        continue;
                }
                own->n--;
                early->waits[early->n++] = (EarlyWait){ thread->tgid, thread->tid, thread->n_switches };
        }
        return r ? error_fold(r) : 0;
}

int early_waits_note(EarlyWaits *early, const WalkStages *stages) {
        ThreadsLook found;
        int r = sampler_look_at_threads(stages->sampler, &found);

        if (r)
                return MIN(r, 0);       /* refused, which was logged: they are not counted */
        *early = (EarlyWaits){ .noted_ns = clock_monotonic_ns() };
        early->counted_ns = early->noted_ns;
        r = note(early, &found);
        free(found.threads);
        return r;
}

void early_waits_drop(EarlyWaits *early) {
        free(early->waits);
        *early = (EarlyWaits){ 0 };
}

/* Threads whose early wait has ended are the kernel half's again. */
static void keep_early(Work *work, EarlyWaits *early) {
        size_t n = 0;

        for (size_t i = 0; i < early->n; i++) {
                const struct abi_thread key = { .tgid = early->waits[i].tgid, .tid = early->waits[i].tid };
                const ThreadWait *counted = find_result(work, &key);

                if (counted && counted->was_added)
                        early->waits[n++] = early->waits[i];
        }
        early->n = n;
}

int early_waits_count(EarlyWaits *early, const WalkStages *stages, uint64_t since_ns) {
        ThreadWaits counted = { 0 };
        Work work = { .stages = stages,
                      .result = &counted,
                      .early = early,
                      .from_ns = MAX(early->counted_ns, since_ns),
                      .until_ns = clock_monotonic_ns() };
        int r;

        if (!early->n)
                return 0;
        r = look_at_all(&work);
        keep_early(&work, early);
        early->counted_ns = work.until_ns;
        thread_waits_deinit(&counted);
        if (r || !early->n)
                early_waits_drop(early);
        return MIN(r, 0);
}
