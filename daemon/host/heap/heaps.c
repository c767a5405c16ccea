/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Go keeps a profile of its heap in each program that reads it somewhere: which stacks allocated what, and
 * what of it is not freed. It is there whether anybody asks or not, so a look costs the program nothing:
 *
 *     each second   targets with Go in them ─▶ who is due, and whose turn is it?
 *     one of them   file, memory ─▶ thread ─▶ worker ─▶ profile of the end of a collection (go-heap.c)
 *     its answer    in use now; allocated since the look before ─▶ window ─▶ counts are kept for the next
 *
 * A program that was there before us has allocated for a long time when it is first met. That look tells
 * what is in use, and is what the next one is held against. Of a program that began later all is told, so
 * its first look can wait. Before Go has published anything its counts are not those of one moment: it is
 * asked again.
 *
 * A look takes as long as the program has stacks. After one of 30 ms of CPU nobody is looked at for 1.5 s:
 * all looks together have a fiftieth of a CPU, and each program has its next one later where there are many.
 * A program whose look takes more than 2 s of CPU is not looked at again: others would wait for it each time.
 *
 * Who is about to be ended for want of memory is looked at first, whatever the period, and that look goes out
 * at once. Its samples say why (memory-watch.c tells). Such looks do not wait for a fiftieth of a CPU: they
 * have some 1.6 s of CPU in a minute (haste.c). A control group leaves as much as it has, so one that is near
 * its limit again and again takes no other's.
 */
#include "host/heap/heaps.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/base/thread/worker.h"
#include "core/base/util/array.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/minute-limit.h"
#include "core/base/util/stat.h"
#include "host/heap/haste.h"
#include "host/heap/heap-since.h"
#include "host/heap/heap-window.h"
#include "host/runtime/go/go-heap-wire.h"
#include "host/sampling/runtime/runtimes.h"

#define TIME_LIMIT_NS (40 * NS_PER_SEC)         /* time of a look, which has 30 s for its worker */
#define LONG_LOOK_NS (2 * NS_PER_SEC)           /* CPU time that no look should take */
#define YOUNG_NS (60 * NS_PER_SEC)              /* age of a program that was not looked at yet */
#define NEVER_NS UINT64_MAX

enum {
        CPU_PART = 50,                  /* looks have one of so many parts of a CPU */
        WORDS_IN_A_MINUTE = 10,         /* lines of the log, about programs without a profile */
};

/* A program with Go in it. */
typedef struct Heaped {
        uint32_t pid;
        uint64_t generation, start_time_ns;
        Share *share;                   /* place among those that are looked at; NULL = none yet */
        HeapSince since;
        bool has_since;                 /* `since` is of since_ns, and not unknown */
        uint64_t since_ns, due_ns;      /* MONOTONIC; due_ns: next look */
        HasteWish wish;
        bool is_in_window;              /* in the open one */
        bool is_seen, was_said;         /* in the last pass; why it has no profile */
} Heaped;

/* A look, which is the thread's until it is done. */
typedef struct Look {
        WorkerJob job;
        Zygotes *zygotes;
        GoHeapSubject subject;
        GoHeapAnswer answer;
        WorkerSessionCounts counts;
        uint32_t pid;
        uint64_t generation;
        const char *reason;             /* as of its program */
        ShareOwner owner;
        uint64_t cpu_ns, time_ns;
        int result;                     /* as of go_heap_subject_ask() */
} Look;

struct Heaps {
        HeapsConfig config;
        Worker *worker;
        Heaped *items;
        uint32_t n, room;
        Shares shares;                  /* places, and stacks that are known */
        bool is_asked, is_last;         /* a look is under way; no look waits for its period any more */
        bool is_asked_in_haste;         /* … which was hurried */
        bool is_urgent;                 /* such a one has come, and was not taken yet */
        Haste haste;
        uint64_t next_ns;               /* MONOTONIC: no look before that, unless it is hurried */
        Window *window;                 /* NULL = nothing has come since the last one */
        Window *closed[HEAPS_MAX_WINDOWS];
        unsigned n_closed;
        MinuteLimit words;
        int failure;                    /* failure of a pass over the targets, or of an answer */
};

/* ---- programs ---- */

static Heaped *find(Heaps *heaps, uint64_t generation) {
        for (uint32_t i = 0; i < heaps->n; i++)
                if (heaps->items[i].generation == generation)
                        return &heaps->items[i];
        return NULL;
}

static bool has_go(const Process *process) {
        for (size_t i = 0; i < process->n_mappings; i++) {
                const Object *object = process->mappings[i].object;

                if (object && object->look == OBJECT_LOOK_KNOWN && object->runtimes.bits & RUNTIME_HAS_GO)
                        return true;
        }
        return false;
}

static int add(Heaps *heaps, const Process *process) {
        uint64_t now_ns = clock_monotonic_ns(), begin_ns = process_begin_ns(process->start_time_ns);
        /* met later it may have been a target before, whose counts are forgotten */
        uint64_t young_ns = MAX(heaps->config.period_ns, (uint64_t)YOUNG_NS);
        bool is_new = begin_ns >= heaps->config.start_ns && now_ns < begin_ns + young_ns;
        int r = array_reserve(&heaps->items, &heaps->room, heaps->n + 1u, 16);

        if (r)
                return error_fold(r);
        heaps->items[heaps->n++] = (Heaped){ .pid = process->pid,
                                             .generation = process->generation,
                                             .start_time_ns = process->start_time_ns,
                                             .has_since = is_new,
                                             .since_ns = begin_ns,
                                             .due_ns = now_ns + (is_new ? heaps->config.period_ns : 0),
                                             .is_seen = true };
        return 0;
}

static void visit(void *userdata, const Process *process, SelectorReason reason) {
        Heaps *heaps = userdata;
        Heaped *heaped = find(heaps, process->generation);

        if (heaped)
                heaped->is_seen = true;
        else if (!heaps->failure && has_go(process))
                heaps->failure = add(heaps, process);
}

static void forget(Heaps *heaps, Heaped *heaped) {
        if (heaped->share) {
                heap_since_drop(&heaped->since, &heaps->shares, heaped->share);
                share_release(&heaps->shares, heaped->share, 1);
        }
        *heaped = heaps->items[--heaps->n];
}

static int look_for_programs(Heaps *heaps) {
        for (uint32_t i = 0; i < heaps->n; i++)
                heaps->items[i].is_seen = false;
        targets_each(heaps->config.targets, visit, heaps);
        for (uint32_t i = 0; i < heaps->n;)
                if (heaps->items[i].is_seen)
                        i++;
                else
                        forget(heaps, &heaps->items[i]);
        return error_fold(heaps->failure);
}

static ShareOwner owner_of(const Heaped *heaped) {
        return identity_owner_of((pid_t)heaped->pid, heaped->start_time_ns);
}

/* Return: whether it has a place. */
static bool has_place(Heaps *heaps, Heaped *heaped) {
        ShareOwner owner;

        if (heaped->share)
                return true;
        owner = owner_of(heaped);
        if (shares_leave_room(&heaps->shares, &owner, 1, HEAP_SINCE_MAX) &&
            !shares_hold(&heaps->shares, &owner, 1, &heaped->share))
                return true;
        stat_add(COUNTER_GO_HEAPS_OVER_CAP, 1);
        return false;
}

/* ---- the thread ---- */

static void free_look(Look *look) {
        go_heap_subject_close(&look->subject);
        go_heap_answer_deinit(&look->answer);
        zygotes_unref(look->zygotes);
        free(look);
}

static void discard(WorkerJob *job) {
        free_look((Look *)job);
}

static void work(WorkerJob *job, void *state) {
        Look *look = (Look *)job;

        look->result = go_heap_subject_ask(&look->subject, look->zygotes, &look->answer, &look->counts,
                                           &look->cpu_ns);
        look->time_ns = clock_monotonic_ns();
}

/* ---- an answer becomes a part of a window ---- */

/* Closes the open window: a process may come into the next one. Return: 0, -ENOMEM. */
static int close_window(Heaps *heaps) {
        _cleanup_(window_freep) Window *window = take(heaps->window);
        int r;

        for (uint32_t i = 0; i < heaps->n; i++)
                heaps->items[i].is_in_window = false;
        if (!window)
                return 0;
        if (heaps->n_closed == HEAPS_MAX_WINDOWS) {
                stat_add(COUNTER_GO_HEAP_STACKS_LOST, window_n_events(window));
                return 0;
        }
        r = window_close(window, clock_monotonic_ns());
        if (r)
                return error_fold(r);
        heaps->closed[heaps->n_closed++] = take(window);
        return 0;
}

/* One that was hurried has a window for itself. */
static int open_window(Heaps *heaps, const Heaped *heaped, const Look *look) {
        int r = heaped->is_in_window || look->reason ? close_window(heaps) : 0;

        if (!r && !heaps->window)
                r = window_new(&heaps->window, look->time_ns, clock_realtime_offset_ns(), NULL);
        return error_fold(r);
}

static void keep_counts(Heaps *heaps, Heaped *heaped, const Look *look) {
        int r = heap_since_keep(&heaped->since, &heaps->shares, heaped->share, &look->answer.profile);

        heaped->has_since = !r;
        heaped->since_ns = look->time_ns;
        if (!r)
                return;
        stat_add(COUNTER_GO_HEAPS_OVER_CAP, 1);
        shares_tell(&heaps->shares, "stacks of Go's heaps", share_owner(heaped->share), look->time_ns);
}

/* Return: 0, -ENOMEM. */
static int add_look(Heaps *heaps, Heaped *heaped, const Look *look) {
        HeapLook filled = { .filter = heaps->config.filter,
                            .answer = &look->answer,
                            .reason = look->reason,
                            .since = heaped->has_since ? &heaped->since : NULL,
                            .since_ns = MAX(heaped->since_ns, heaps->config.start_ns),
                            .time_ns = look->time_ns };
        uint32_t n_lost = 0;
        Program program;
        int r = targets_program(heaps->config.targets, look->pid, look->generation, &program);

        if (!r)
                filled.mapping = go_heap_subject_mapping(&look->subject, program.process);
        if (r < 0)
                return error_fold(r);
        if (!filled.mapping) {
                stat_add(COUNTER_GO_HEAPS_GONE, 1);
                return 0;
        }
        filled.program = &program;
        r = open_window(heaps, heaped, look);
        if (!r)
                r = heap_window_fill(heaps->window, &filled, &n_lost);
        if (r == WINDOW_E_FULL)
                n_lost = look->answer.profile.n.n_samples;
        stat_add(COUNTER_GO_HEAP_STACKS_LOST, n_lost);
        if (r < 0)
                return error_fold(r);
        heaped->is_in_window = true;
        stat_add(COUNTER_GO_HEAPS, 1);
        keep_counts(heaps, heaped, look);
        heaps->is_urgent |= look->reason != NULL;
        return look->reason ? error_fold(close_window(heaps)) : 0;
}

/* ---- what has come ---- */

/* Nothing changes in a program that has none. */
static bool is_for_ever(int result) {
        return result >= GO_HEAP_SAID_FILE;
}

static void say_why(Heaps *heaps, Heaped *heaped, const GoHeapSaid *said) {
        bool is_off = is_for_ever(said->result) || said->result == GO_HEAP_E_OFF;

        stat_add(is_off ? COUNTER_GO_HEAPS_OFF : COUNTER_GO_HEAPS_UNREADABLE, 1);
        if (is_for_ever(said->result))
                heaped->due_ns = NEVER_NS;
        if (is_off && !heaped->was_said &&
            minute_limit(&heaps->words, WORDS_IN_A_MINUTE, clock_monotonic_ns()))
                log_info("process %" PRIu32 "%s%s%s: no heap profile: %s", heaped->pid,
                         *said->version ? " (" : "", said->version, *said->version ? ")" : "",
                         go_heap_text(said->result));
        heaped->was_said |= is_off;
}

/* Return: 0, -ENOMEM. */
static int take_time(Heaps *heaps, const Look *look) {
        if (look->reason)
                return error_fold(haste_took(&heaps->haste, &look->owner, look->cpu_ns));
        heaps->next_ns = look->time_ns + MIN(look->cpu_ns, (uint64_t)LONG_LOOK_NS) * (CPU_PART - 1);
        return 0;
}

/* Looks no more at a program that others would have to wait for. */
static void give_up_long(Heaps *heaps, Heaped *heaped, const Look *look) {
        if (look->cpu_ns <= LONG_LOOK_NS || heaped->due_ns == NEVER_NS)
                return;
        heaped->due_ns = NEVER_NS;
        shares_tell(&heaps->shares, "CPU time for Go's heaps", &look->owner, look->time_ns);
}

/* Return: 0, -ENOMEM. */
static int take_said(Heaps *heaps, Heaped *heaped, const Look *look) {
        const GoHeapSaid *said = &look->answer.said;

        if (look->result) {
                stat_add(COUNTER_GO_HEAPS_UNREADABLE, 1);
                return 0;
        }
        if (said->result) {
                say_why(heaps, heaped, said);
                return 0;
        }
        if (!said->is_early)
                return error_fold(add_look(heaps, heaped, look));
        stat_add(COUNTER_GO_HEAPS_EARLY, 1);
        return 0;
}

/* Return: 0, -ENOMEM. */
static int take_answer(Heaps *heaps, const Look *look) {
        Heaped *heaped = find(heaps, look->generation);
        int r = take_time(heaps, look);

        if (r)
                return error_fold(r);
        if (look->result < 0)
                return error_fold(look->result);
        if (!heaped) {
                stat_add(COUNTER_GO_HEAPS_GONE, 1);
                return 0;
        }
        heaped->due_ns = look->time_ns + heaps->config.period_ns;
        r = take_said(heaps, heaped, look);
        give_up_long(heaps, heaped, look);
        return error_fold(r);
}

static void on_done(WorkerJob *job, void *userdata) {
        Look *look = (Look *)job;
        Heaps *heaps = userdata;
        int r = take_answer(heaps, look);

        heaps->is_asked = heaps->is_asked_in_haste = false;
        if (r && !heaps->failure)
                heaps->failure = r;
        worker_session_count(&look->counts);
        free_look(look);
}

static void on_stuck(WorkerJob *job, void *userdata) {
        Heaps *heaps = userdata;

        heaps->is_asked = heaps->is_asked_in_haste = false;
        stat_add(COUNTER_GO_HEAPS_UNREADABLE, 1);
}

/* ---- asking ---- */

/* Groups take turns, users in them, and of a user's programs the one that has waited longest. */
static bool goes_before(const Heaped *a, const Heaped *b) {
        int turns = share_compare_turns(a->share, b->share);

        return turns ? turns < 0 : a->due_ns < b->due_ns;
}

/* Whether its look may be hurried in this minute. */
static bool may_hurry(const Heaps *heaps, const Heaped *heaped) {
        if (haste_may(&heaps->haste, share_owner(heaped->share)))
                return true;
        stat_add(COUNTER_GO_HEAPS_NOT_HURRIED, 1);
        return false;
}

/* NULL = no look is to be hurried. */
static Heaped *find_hurried(Heaps *heaps, uint64_t now_ns) {
        Heaped *best = NULL;

        haste_begin(&heaps->haste, now_ns);
        for (uint32_t i = 0; i < heaps->n; i++) {
                Heaped *heaped = &heaps->items[i];

                if (!heaped->wish.reason)
                        continue;
                if (!has_place(heaps, heaped) || !may_hurry(heaps, heaped))
                        heaped->wish.reason = NULL;
                else if (!best || goes_before(heaped, best))
                        best = heaped;
        }
        return best;
}

/* NULL = none is due. */
static Heaped *find_due(Heaps *heaps, uint64_t now_ns) {
        Heaped *best = NULL;

        for (uint32_t i = 0; i < heaps->n; i++) {
                Heaped *heaped = &heaps->items[i];

                if (heaped->due_ns > now_ns)
                        continue;
                if (!has_place(heaps, heaped))
                        heaped->due_ns = now_ns + heaps->config.period_ns;
                else if (!best || goes_before(heaped, best))
                        best = heaped;
        }
        return best;
}

/* Return: 0 with *lookp, GO_HEAP_ASK_E_*: not now, -errno. */
static int new_look(Heaps *heaps, const Heaped *heaped, Look **lookp) {
        Look *look;
        Program program;
        int r = targets_program(heaps->config.targets, heaped->pid, heaped->generation, &program);

        if (r)
                return r < 0 ? error_fold(r) : GO_HEAP_ASK_E_DENIED;
        look = calloc(1, sizeof(*look));
        if (!look)
                return error_origin(-ENOMEM);
        r = go_heap_subject_open(&look->subject, program.process);
        if (r) {
                free(look);
                return r < 0 ? error_fold(r) : r;
        }
        look->job = (WorkerJob){ .work = work, .done = on_done, .stuck = on_stuck, .discard = discard };
        look->zygotes = zygotes_ref(heaps->config.zygotes);
        look->pid = heaped->pid;
        look->generation = heaped->generation;
        look->reason = heaped->wish.reason;
        look->owner = *share_owner(heaped->share);
        *lookp = look;
        return 0;
}

static int ask(Heaps *heaps, Heaped *heaped, uint64_t now_ns) {
        Look *look = NULL;
        int r = heaped->wish.reason ? haste_look(&heaps->haste, share_owner(heaped->share)) : 0;

        if (r)
                return error_fold(r);
        stat_add(COUNTER_GO_HEAPS_HURRIED, heaped->wish.reason != NULL);
        r = new_look(heaps, heaped, &look);
        share_take_turn(&heaps->shares, heaped->share);
        heaped->due_ns = now_ns + heaps->config.period_ns;
        if (!r) {
                r = worker_push(heaps->worker, &look->job);
                heaps->is_asked = !r;
                heaps->is_asked_in_haste = !r && heaped->wish.reason;
                if (r)
                        free_look(look);
        }
        heaped->wish.reason = NULL;
        if (r > 0)
                stat_add(COUNTER_GO_HEAPS_UNREADABLE, 1);
        return r < 0 ? error_fold(r) : 0;
}

static int ask_next(Heaps *heaps) {
        uint64_t now_ns = clock_monotonic_ns();
        Heaped *heaped = NULL;

        if (!heaps->is_asked)
                heaped = find_hurried(heaps, now_ns);
        if (!heaps->is_asked && !heaped && (heaps->is_last || now_ns >= heaps->next_ns))
                heaped = find_due(heaps, now_ns);
        return heaped ? error_fold(ask(heaps, heaped, now_ns)) : 0;
}

int heaps_step(Heaps *heaps) {
        worker_collect(heaps->worker, clock_monotonic_ns());
        return heaps->failure ? error_fold(heaps->failure) : error_fold(ask_next(heaps));
}

int heaps_second(Heaps *heaps) {
        int r = look_for_programs(heaps);

        return r ? error_fold(r) : error_fold(heaps_step(heaps));
}

/* ---- looks that are hurried ---- */

void heaps_hurry(Heaps *heaps, uint64_t generation, const char *reason, unsigned weight) {
        Heaped *heaped = find(heaps, generation);
        uint64_t now_ns = clock_monotonic_ns();

        if (!heaped || heaped->due_ns == NEVER_NS)
                return;
        if (!haste_wish(&heaped->wish, reason, weight, now_ns))
                stat_add(COUNTER_GO_HEAPS_NOT_HURRIED, 1);
}

bool heaps_is_hurried(const Heaps *heaps) {
        for (uint32_t i = 0; i < heaps->n; i++)
                if (heaps->items[i].wish.reason)
                        return true;
        return heaps->is_asked_in_haste;
}

bool heaps_is_urgent(const Heaps *heaps) {
        return heaps->is_urgent;
}

void heaps_each(const Heaps *heaps, HeapsVisit visit_program, void *userdata) {
        for (uint32_t i = 0; i < heaps->n; i++) {
                const Heaped *heaped = &heaps->items[i];
                ShareOwner owner;

                if (heaped->due_ns == NEVER_NS)
                        continue;
                owner = heaped->share ? *share_owner(heaped->share) : owner_of(heaped);
                visit_program(userdata, heaped->pid, heaped->generation, &owner);
        }
}

/* ---- the whole ---- */

static bool is_any_due(const Heaps *heaps, uint64_t now_ns) {
        for (uint32_t i = 0; i < heaps->n; i++)
                if (heaps->items[i].due_ns <= now_ns)
                        return true;
        return heaps->is_asked;
}

int heaps_finish(Heaps *heaps, uint64_t timeout_ns) {
        uint64_t end_ns = clock_monotonic_ns() + timeout_ns;
        int r = look_for_programs(heaps);

        heaps->is_last = true;
        for (uint32_t i = 0; i < heaps->n; i++)
                if (heaps->items[i].due_ns != NEVER_NS)
                        heaps->items[i].due_ns = 0;
        while (!r && is_any_due(heaps, clock_monotonic_ns()) && clock_monotonic_ns() < end_ns) {
                worker_wait(heaps->worker, end_ns);
                r = heaps_step(heaps);
        }
        return error_fold(r);
}

int heaps_take(Heaps *heaps, Window **windowp) {
        int r = heaps->n_closed ? 0 : close_window(heaps);

        *windowp = NULL;
        heaps->is_urgent &= heaps->n_closed > 1;
        if (r || !heaps->n_closed)
                return error_fold(r);
        *windowp = heaps->closed[0];
        heaps->n_closed--;
        for (unsigned i = 0; i < heaps->n_closed; i++)
                heaps->closed[i] = heaps->closed[i + 1];
        return 0;
}

Heaps *heaps_free(Heaps *heaps) {
        if (!heaps)
                return NULL;
        worker_free(heaps->worker);
        while (heaps->n)
                forget(heaps, &heaps->items[0]);
        shares_deinit(&heaps->shares);
        haste_deinit(&heaps->haste);
        free(heaps->items);
        window_free(heaps->window);
        for (unsigned i = 0; i < heaps->n_closed; i++)
                window_free(heaps->closed[i]);
        free(heaps);
        return NULL;
}

int heaps_new(Heaps **heapsp, const HeapsConfig *config) {
        _cleanup_(heaps_freep) Heaps *heaps = calloc(1, sizeof(*heaps));
        const WorkerConfig worker = { .name = "heaps", .userdata = heaps, .time_limit_ns = TIME_LIMIT_NS };
        int r;

        if (!heaps)
                return error_origin(-ENOMEM);
        heaps->config = *config;
        r = worker_new(&heaps->worker, &worker);
        if (r)
                return error_fold(r);
        *heapsp = take(heaps);
        return 0;
}
