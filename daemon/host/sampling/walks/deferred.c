/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A walk in the kernel ends where rows are not in force yet. In the first milliseconds of a process that is
 * everywhere, and a short one is gone before its rows are there. So its samples come with registers and the
 * top of the stack (bpf/walk/defer.bpf.h), and wait here:
 *
 *     stacks' ring ─▶ copies ─┐
 *     samples' ring ──────────┴▶ a pair ─▶ walk (host/sampling/unwind/walk/host-walk.h) ─▶ aggregator
 *                                    ▲          │ rows or mappings are not there yet
 *                                    └─ waits ◀─┘ tried at each drain, and when a table has come
 *
 * A pair is known by CPU and time. The sample keeps its own time, and what it was joined with as it came
 * (span, coroutine). It ends in one of four ways, each counted:
 *
 *     walked          the aggregator gets it with the frames of this walk
 *     late            after a second it is handed on as it came, with the pc alone
 *     no copy         the cap of bytes was reached: as it came, at once
 *     lost            its process was forgotten meanwhile: LOST_DEFERRED
 *
 * A sample that was walked in the kernel waits here, too, while names of its runtime are late: its worker has
 * just been started, or has much to do. It has no copy, and is handed on with the names that there are.
 *
 * A session that has one window until its end (`record`) need not hurry: there a sample waits for its tables
 * for minutes, while they are read, and its program stays known though it is gone. A machine with hundreds of
 * busy processes takes many seconds for their files. The file that most walks wait for is read next.
 *
 * The bytes of a copy are a target's memory. They stay in this file and the walk, are overwritten before they
 * are freed, and only addresses of code leave it.
 */

#include "host/sampling/walks/deferred.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/hashmap.h"
#include "core/base/data/list.h"
#include "core/base/data/shares.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/stat.h"
#include "host/sampling/process/identity.h"
#include "host/sampling/process/process-directory.h"
#include "host/sampling/sample/decode.h"
#include "host/sampling/sample/sample-loss.h"
#include "host/sampling/unwind/walk/host-walk.h"

enum {
        MAX_BYTES = 8 << 20,            /* bytes of copies and samples … */
        MAX_BYTES_PATIENT = 256 << 20,  /* … and with one window */
        STEP_BYTES = 200000,            /* bytes of files, in a flush */
        POLL_MS = 20,
        CHARGES_A_TIME = 256,           /* copies whose share is read at once; 50 µs a process */
};

/* Programs that are gone stay known for twice as long (TARGETS_KEEP_NS). */
#define MAX_WAIT_NS NS_PER_SEC
#define MAX_WAIT_PATIENT_NS (120 * NS_PER_SEC)
#define MAX_TURN_NS (10 * NS_PER_MS)    /* a record that another one of its CPU interrupts comes behind it */
#define RELEASE_NS (2 * NS_PER_SEC)     /* without a walk: its tables are given back */

typedef struct Copy {
        struct Copy *next;
        size_t size;                    /* bytes of all of it */
        Share *share;                   /* NULL = it is not counted (yet) */
        struct abi_stack stack;         /* with its bytes */
} Copy;

typedef struct Copies {
        Copy *first, *last;             /* in the order of their ring */
} Copies;

typedef struct Waiting {
        struct Waiting *next;
        Copy *copy;                     /* NULL = it waits for names */
        uint32_t pid;
        uint64_t generation;            /* generation of its program */
        SampleCoroutine coroutine;
        size_t size;                    /* bytes of the record */
        uint64_t record[];
} Waiting;

typedef struct WaitingList {
        Waiting *first, *last;
} WaitingList;

struct Deferred {
        const WalkStages *stages;
        HostWalk *walk;
        Copies copies;                  /* without their samples yet */
        WaitingList waiting;
        size_t n_bytes;
        uint64_t changes;               /* changes of tables, at the last work */
        uint64_t walked_ns;             /* time of the last walk */
        uint64_t nameless;              /* generation whose names are late in this work; 0 = none */
        Hashmap pending;                /* generations whose tables are missing in this work */
        size_t max_bytes;
        Shares shares;                  /* bytes of copies by holder, once they were too many */
        bool has_shares;
        ShareOwner owner;               /* read last; of `process` */
};

static void free_copy(Deferred *deferred, Copy *copy) {
        if (!copy)
                return;
        deferred->n_bytes -= copy->size;
        if (copy->share)
                share_release(&deferred->shares, copy->share, copy->size);
        explicit_bzero(copy, copy->size);
        free(copy);
}

static void free_waiting(Deferred *deferred, Waiting *waiting) {
        deferred->n_bytes -= sizeof(*waiting) + waiting->size;
        free_copy(deferred, waiting->copy);
        free(waiting);
}

int deferred_new(Deferred **deferredp, const WalkStages *stages) {
        Deferred *deferred = calloc(1, sizeof(*deferred));
        int r;

        if (!deferred)
                return error_origin(-ENOMEM);
        deferred->stages = stages;
        deferred->max_bytes = stages->has_one_window ? MAX_BYTES_PATIENT : MAX_BYTES;
        r = host_walk_new(&deferred->walk, stages->tables, stages->depth);
        if (r) {
                free(deferred);
                return error_fold(r);
        }
        *deferredp = deferred;
        return 0;
}

Deferred *deferred_free(Deferred *deferred) {
        Waiting *waiting;
        Copy *copy;

        if (!deferred)
                return NULL;
        while ((waiting = fifo_pop(&deferred->waiting)))
                free_waiting(deferred, waiting);
        while ((copy = fifo_pop(&deferred->copies)))
                free_copy(deferred, copy);
        host_walk_free(deferred->walk);
        hashmap_deinit(&deferred->pending);
        shares_deinit(&deferred->shares);
        free(deferred);
        return NULL;
}

/* ---- shares of copies ---- */

static const ShareOwner *owner_of(Deferred *deferred, uint32_t tgid) {
        if (!deferred->owner.group || deferred->owner.process != tgid)
                deferred->owner = identity_owner_of((pid_t)tgid, 0);
        return &deferred->owner;
}

/* Return: 0, 1 = it was counted before, -ENOMEM. */
static int charge(Deferred *deferred, Copy *copy) {
        if (copy->share)
                return 1;
        return shares_hold(&deferred->shares, owner_of(deferred, copy->stack.tgid), copy->size, &copy->share);
}

/* Counts copies that came while there was room for all. */
static void charge_others(Deferred *deferred) {
        Waiting *waiting = deferred->waiting.first;
        int n = 0;

        for (; waiting && n < CHARGES_A_TIME; waiting = waiting->next)
                n += waiting->copy && !charge(deferred, waiting->copy);
        for (Copy *copy = deferred->copies.first; copy && n < CHARGES_A_TIME; copy = copy->next)
                n += !charge(deferred, copy);
}

static void unlink_copy(Copies *copies, Copy *before, Copy *copy) {
        *(before ? &before->next : &copies->first) = copy->next;
        if (copies->last == copy)
                copies->last = before;
        copy->next = NULL;
}

/* Takes the oldest copy of a share from its sample, which ends early then. NULL = there is none. */
static Copy *take_oldest(Deferred *deferred, const Share *share) {
        Copy *before = NULL;

        for (Waiting *waiting = deferred->waiting.first; waiting; waiting = waiting->next)
                if (waiting->copy && waiting->copy->share == share)
                        return take(waiting->copy);
        for (Copy *copy = deferred->copies.first; copy; before = copy, copy = copy->next)
                if (copy->share == share) {
                        unlink_copy(&deferred->copies, before, copy);
                        return copy;
                }
        return NULL;
}

static bool has_room(const Deferred *deferred, size_t size) {
        return deferred->n_bytes + size <= deferred->max_bytes;
}

static void count_over_cap(Deferred *deferred, const ShareOwner *owner) {
        stat_add(COUNTER_STACK_COPIES_OVER_CAP, 1);
        shares_tell(&deferred->shares, "copies of stacks", owner, clock_monotonic_ns());
}

/* Copies of the greatest holder give way to one of @tgid. Return: whether there is room for it. */
static bool make_room(Deferred *deferred, uint32_t tgid, size_t size) {
        const ShareOwner owner = *owner_of(deferred, tgid);
        Share *asking, *victim;
        Copy *copy;

        deferred->has_shares = true;
        charge_others(deferred);
        if (shares_hold(&deferred->shares, &owner, size, &asking))
                return false;
        while (!has_room(deferred, size)) {
                victim = shares_victim(&deferred->shares, asking, 0);
                copy = victim == asking ? NULL : take_oldest(deferred, victim);
                if (!copy)
                        break;
                count_over_cap(deferred, share_owner(victim));
                free_copy(deferred, copy);
        }
        share_release(&deferred->shares, asking, size);
        if (!has_room(deferred, size))
                count_over_cap(deferred, &owner);
        return has_room(deferred, size);
}

/* ---- copies ---- */

int deferred_copy(Deferred *deferred, const void *data, size_t size) {
        const struct abi_stack *stack;
        size_t n_bytes;
        Copy *copy;

        if (decode_stack(data, size, &stack)) {
                stat_add(COUNTER_STACK_COPIES_MALFORMED, 1);
                return 0;
        }
        n_bytes = stack->n_far ? stack->far_begin + stack->n_far : stack->n_bytes;
        size = sizeof(*copy) + n_bytes;
        /* Room for the sample, too, which comes behind the copy. */
        if (!has_room(deferred, 2 * size) && !make_room(deferred, stack->tgid, 2 * size))
                return 0;
        copy = malloc(size);
        if (!copy) {
                stat_add(COUNTER_STACK_COPIES_OVER_CAP, 1);
                return 0;
        }
        copy->size = size;
        copy->share = NULL;
        memcpy(&copy->stack, stack, sizeof(*stack) + n_bytes);
        fifo_push(&deferred->copies, copy);
        deferred->n_bytes += size;
        if (deferred->has_shares)
                charge(deferred, copy);
        return 0;
}

static bool belongs(const Copy *copy, const struct abi_sample *header) {
        return copy->stack.time_ns == header->time_ns && copy->stack.cpu == header->cpu &&
                copy->stack.tgid == header->tgid;
}

/*
 * Both rings have a CPU's records in about the same order. So the copy is among the first, and an older one
 * of that CPU waits for a sample that found its ring full.
 */
static Copy *take_copy(Deferred *deferred, const struct abi_sample *header) {
        Copy *before = NULL, *copy = deferred->copies.first, *next;

        for (; copy; copy = next) {
                next = copy->next;
                if (belongs(copy, header)) {
                        unlink_copy(&deferred->copies, before, copy);
                        return copy;
                }
                if (copy->stack.cpu == header->cpu && copy->stack.time_ns + MAX_TURN_NS < header->time_ns) {
                        unlink_copy(&deferred->copies, before, copy);
                        stat_add(COUNTER_STACK_COPIES_ORPHANS, 1);
                        free_copy(deferred, copy);
                } else
                        before = copy;
        }
        return NULL;
}

void deferred_drop(Deferred *deferred, const struct abi_sample *header) {
        if (header->is_copied)
                free_copy(deferred, take_copy(deferred, header));
}

/* Copies whose samples found their ring full. */
static void drop_orphans(Deferred *deferred, uint64_t now_ns) {
        uint64_t wait_ns = deferred_patience_ns(deferred->stages->has_one_window, false);

        while (deferred->copies.first && deferred->copies.first->stack.time_ns + wait_ns < now_ns) {
                stat_add(COUNTER_STACK_COPIES_ORPHANS, 1);
                free_copy(deferred, fifo_pop(&deferred->copies));
        }
}

/* ---- walks ---- */

/* Return: 0, AGGREGATOR_E_LATER if it may wait, -errno. */
static int hand_on(Deferred *deferred, const Program *program, const Sample *sample) {
        return aggregator_add(deferred->stages->aggregator, program, sample);
}

/* The sample as if the kernel half had walked it. */
static int hand_on_walked(Deferred *deferred, const Program *program, const Sample *sample,
                          const HostWalkResult *result) {
        struct abi_sample header = *sample->header;
        Sample walked = *sample;

        header.n_user = (uint16_t)result->n;
        header.stack_end = (uint8_t)result->end;
        header.interrupted = result->interrupted;
        header.is_copied = 0;
        walked.header = &header;
        walked.user = result->frames;
        return hand_on(deferred, program, &walked);
}

/* Return: whether the walk could be made. A pc outside of all mappings: these are not known well enough. */
static bool try_walk(Deferred *deferred, const Program *program, const Copy *copy, HostWalkResult *resultp) {
        bool has_runtime = runtimes_has(deferred->stages->runtimes, program->process->generation);

        for (int i = 0; i < 2; i++) {
                host_walk(deferred->walk, program->process, has_runtime, &copy->stack, resultp);
                if (resultp->end == ABI_STACK_PENDING && resultp->pending)
                        tables_want(deferred->stages->tables, resultp->pending);
                if (resultp->end == ABI_STACK_PENDING)
                        return false;
                if (resultp->end != ABI_STACK_NO_MAPPING || resultp->n > 1)
                        return true;
                if (targets_refresh(deferred->stages->targets, program->process))
                        break;
        }
        return false;
}

/* Return: 0, 1 = there is no memory for it. */
static int wait(Deferred *deferred, const Program *program, const Sample *sample, size_t size,
                         Copy *copy) {
        size_t max = deferred->max_bytes / (copy ? 1 : 2);      /* room for copies is left */
        Waiting *waiting = deferred->n_bytes + size <= max ? malloc(sizeof(*waiting) + size) : NULL;

        if (!waiting)
                return 1;
        waiting->copy = copy;
        waiting->pid = program->process->pid;
        waiting->generation = program->process->generation;
        waiting->coroutine = sample->coroutine;
        waiting->size = size;
        memcpy(waiting->record, sample->header, size);
        fifo_push(&deferred->waiting, waiting);
        deferred->n_bytes += sizeof(*waiting) + size;
        return 0;
}

uint64_t deferred_missing_pc(const struct abi_sample *header, const uint64_t *user) {
        uint64_t pc = 0;

        if (header->stack_end != ABI_STACK_PENDING)
                return 0;
        for (size_t i = 0; i < header->n_user; i += runtime_frame_words(user[i]))
                if (user[i] >> RUNTIME_KIND_SHIFT == RUNTIME_NATIVE)
                        pc = user[i];
        return pc;
}

/*
 * Stacks of runtimes are not copied: their frames lie in the heap. All that can be done for the next ones is
 * to read the file first that this one has ended in.
 */
static void want_missing(Deferred *deferred, const Program *program, const struct abi_sample *header,
                         const uint64_t *user) {
        uint64_t pc = deferred_missing_pc(header, user);
        ProcessAnswer answer;

        if (!pc)
                return;
        process_resolve(program->process, pc, header->time_ns, &answer);
        if (answer.mapping && answer.mapping->object)
                tables_want(deferred->stages->tables, answer.mapping->object->id);
}

/* A sample that the kernel half has walked. Names of frames without a runtime are given later in any case. */
static int take_walked(Deferred *deferred, const Program *program, const Sample *sample, size_t size) {
        Sample patient = *sample;
        int r;

        want_missing(deferred, program, sample->header, sample->user);
        patient.may_wait = true;
        r = hand_on(deferred, program, &patient);
        if (r != AGGREGATOR_E_LATER)
                return r;
        return wait(deferred, program, sample, size, NULL) ? hand_on(deferred, program, sample) : 0;
}

int deferred_sample(Deferred *deferred, const Program *program, const Sample *sample, size_t size) {
        Copy *copy = sample->header->is_copied ? take_copy(deferred, sample->header) : NULL;
        HostWalkResult result;
        int r;

        if (!copy)
                return take_walked(deferred, program, sample, size);
        deferred->walked_ns = clock_monotonic_ns();
        if (try_walk(deferred, program, copy, &result)) {
                stat_add(COUNTER_STACK_WALKS, 1);
                r = hand_on_walked(deferred, program, sample, &result);
                free_copy(deferred, copy);
                return r;
        }
        if (!wait(deferred, program, sample, size, copy))
                return 0;
        stat_add(COUNTER_STACK_COPIES_OVER_CAP, 1);
        free_copy(deferred, copy);
        return hand_on(deferred, program, sample);
}

/* As below, of a sample that waits for names. One look for all of a process: the worker is the same. */
static int work_nameless(Deferred *deferred, const Program *program, Sample *sample, bool is_late) {
        int r;

        if (!is_late && deferred->nameless == program->process->generation)
                return 1;
        sample->may_wait = !is_late;
        r = hand_on(deferred, program, sample);
        if (r == AGGREGATOR_E_LATER)
                deferred->nameless = program->process->generation;
        return r == AGGREGATOR_E_LATER ? 1 : r;
}

/* As below, of one that waits for tables. Of a process one sample is tried, and the others wait with it. */
static int work_copied(Deferred *deferred, const Program *program, const Sample *sample, const Copy *copy,
                       bool is_late) {
        HostWalkResult result;

        if (try_walk(deferred, program, copy, &result)) {
                stat_add(COUNTER_STACK_WALKS, 1);
                return hand_on_walked(deferred, program, sample, &result);
        }
        if (!is_late)
                return hashmap_put(&deferred->pending, program->process->generation, deferred) ?: 1;
        stat_add(COUNTER_STACK_WALKS_LATE, 1);
        /* Frames before the code that is not known are sure. */
        if (result.end == ABI_STACK_PENDING && result.n > sample->header->n_user)
                return hand_on_walked(deferred, program, sample, &result);
        return hand_on(deferred, program, sample);
}

/* Return: 0 = it was handed on or is lost, 1 = it goes on waiting, -errno. */
static int work_waiting(Deferred *deferred, const Waiting *waiting, bool is_late) {
        Program program;
        Sample sample;
        int r;

        if (waiting->copy && !is_late && hashmap_get(&deferred->pending, waiting->generation))
                return 1;
        r = targets_program(deferred->stages->targets, waiting->pid, waiting->generation, &program);
        if (r < 0)
                return error_fold(r);
        if (r || decode_sample(waiting->record, waiting->size, &sample)) {
                sample_lose((const struct abi_sample *)waiting->record, SAMPLE_LOSS_DEFERRED);
                return 0;
        }
        sample.coroutine = waiting->coroutine;
        if (!waiting->copy)
                return work_nameless(deferred, &program, &sample, is_late);
        return work_copied(deferred, &program, &sample, waiting->copy, is_late);
}

/* Samples of before these times wait no longer; UINT64_MAX = none waits. */
typedef struct Until {
        uint64_t names_ns, tables_ns;
} Until;

static int work(Deferred *deferred, Until until) {
        WaitingList all = deferred->waiting;
        Waiting *waiting;
        int r = 0;

        deferred->waiting = (WaitingList){ 0 };
        deferred->nameless = 0;
        hashmap_deinit(&deferred->pending);
        deferred->changes = tables_changes(deferred->stages->tables);
        while ((waiting = fifo_pop(&all))) {
                const struct abi_sample *header = (const struct abi_sample *)waiting->record;
                uint64_t until_ns = waiting->copy ? until.tables_ns : until.names_ns;

                if (r >= 0)
                        r = work_waiting(deferred, waiting, header->time_ns < until_ns);
                if (r > 0)
                        fifo_push(&deferred->waiting, waiting);
                else
                        free_waiting(deferred, waiting);
        }
        return MIN(r, 0);
}

uint64_t deferred_patience_ns(bool has_one_window, bool is_crowded) {
        return has_one_window && !is_crowded ? MAX_WAIT_PATIENT_NS : MAX_WAIT_NS;
}

/* What waits, at this time. Its programs stay known for longer than it may wait. */
static int work_now(Deferred *deferred, uint64_t now_ns) {
        Targets *targets = deferred->stages->targets;
        uint64_t patience_ns = deferred_patience_ns(deferred->stages->has_one_window,
                                                    targets_is_crowded(targets));
        int r = work(deferred, (Until){ .names_ns = now_ns - MAX_WAIT_NS,
                                        .tables_ns = now_ns - MIN(now_ns, patience_ns) });

        targets_keep(targets, deferred->waiting.first ? 2 * patience_ns : TARGETS_KEEP_NS);
        return error_fold(r);
}

int deferred_work(Deferred *deferred) {
        uint64_t now_ns = clock_monotonic_ns();
        int r = deferred->waiting.first ? work_now(deferred, now_ns) : 0;

        drop_orphans(deferred, now_ns);
        if (deferred->waiting.first)
                deferred->walked_ns = now_ns;
        else if (deferred->walked_ns && deferred->walked_ns + RELEASE_NS < now_ns) {
                host_walk_release(deferred->walk);
                deferred->walked_ns = 0;
        }
        return error_fold(r);
}

int deferred_work_if_changed(Deferred *deferred) {
        if (!deferred->waiting.first || deferred->changes == tables_changes(deferred->stages->tables))
                return 0;
        return deferred_work(deferred);
}

int deferred_finish(Deferred *deferred, uint64_t for_ns) {
        Tables *tables = deferred->stages->tables;
        uint64_t deadline_ns = clock_monotonic_ns() + for_ns;
        int r = deferred_work(deferred);

        while (!r && deferred->waiting.first && clock_monotonic_ns() < deadline_ns) {
                struct pollfd fd = { .fd = tables_fd(tables), .events = POLLIN };
                int again = tables_step(tables, STEP_BYTES);

                if (again < 0)
                        return error_fold(again);
                r = deferred_work_if_changed(deferred);
                if (!again && !tables_have_work(tables))        /* nothing more will come */
                        return error_fold(r);
                if (!r && !again)
                        poll(&fd, 1, POLL_MS);
        }
        return r ? error_fold(r) : !!deferred->waiting.first;
}

int deferred_flush(Deferred *deferred) {
        return error_fold(work(deferred, (Until){ UINT64_MAX, UINT64_MAX }));
}

bool deferred_waits(const Deferred *deferred) {
        return deferred->waiting.first;
}
