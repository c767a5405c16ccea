/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Samples of CPU time show goroutines that run. A service has thousands that wait, and what it waits for is
 * what it is slow by. Its own goroutine profile stops it for as long as that takes; this stops nothing:
 *
 *     each second   each process of Go ─▶ length of runtime.allgs, 5000 for example
 *                                          N = 100: places 17, 67, 117, …     evenly, from a random one on
 *     each place    in a bounded call ─▶ status, reason, labels, copy of the stack  (go/goroutine.c)
 *                   copy ─▶ walked by the rows of samples ─▶ window: 50 goroutines
 *
 * One that was looked at stands for 5000 / 100. So the sums are right in the mean of the looks, and a look at
 * a process with no more than N is exact. What is left over of a number that is no integer goes to the next
 * one. Places of goroutines that have ended count as places, and add nothing.
 *
 * Left out, and counted: what runs (samples of CPU time have it), what has moved meanwhile, and what is
 * unreadable.
 */
#include "host/runtime/go/goroutines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/stat.h"
#include "host/runtime/go/go-runtime.h"
#include "host/runtime/go/goroutine-look.h"
#include "host/runtime/go/goroutine.h"
#include "host/sampling/process/memory.h"
#include "host/sampling/unwind/walk/host-walk.h"

struct Goroutines {
        const WalkStages *stages;
        uint64_t n_each;                /* goroutines of a process that a look takes at most */
        HostWalk *walk;
        GoroutineLook look;             /* look at a batch */
        bool is_once;                   /* the look was asked for once, and no more follow */
        uint32_t first;                 /* process that the next look begins with: its place among all */
        struct abi_stack *stack;        /* room for GOROUTINE_MAX_STACK */
};

/* A look at all processes. */
typedef struct Work {
        Goroutines *goroutines;
        GoroutinesSeen seen;
        uint64_t left;                  /* goroutines that it may still look at */
        uint32_t n, from, until;        /* processes met; those that are looked at now */
        int r;
} Work;

/* How the places of one process are chosen. */
typedef struct Choice {
        double step, next;              /* a place, and the next one; step ≥ 1: as many as one stands for */
        double over;                    /* part of the numbers so far that was no integer */
        uint64_t n, n_left;             /* places, and how many are still to be chosen */
} Choice;

int goroutines_new(Goroutines **goroutinesp, const WalkStages *stages, uint64_t n_each) {
        Goroutines *goroutines = calloc(1, sizeof(*goroutines));
        int r;

        if (!goroutines)
                return error_origin(-ENOMEM);
        goroutines->stages = stages;
        goroutines->n_each = n_each;
        goroutines->stack = malloc(sizeof(*goroutines->stack) + GOROUTINE_MAX_STACK);
        r = goroutines->stack
                ? host_walk_new(&goroutines->walk, stages->tables, stages->depth)
                : error_origin(-ENOMEM);
        if (r) {
                goroutines_free(goroutines);
                return error_fold(r);
        }
        *goroutinesp = goroutines;
        return 0;
}

Goroutines *goroutines_free(Goroutines *goroutines) {
        if (!goroutines)
                return NULL;
        host_walk_free(goroutines->walk);
        free(goroutines->stack);
        free(goroutines);
        return NULL;
}

/* ---- one goroutine ---- */

static void walk_stack(Goroutines *goroutines, const Process *process, const Goroutine *found,
                       const uint8_t *bytes, uint64_t time_ns, HostWalkResult *resultp) {
        struct abi_stack *stack = goroutines->stack;

        *stack = (struct abi_stack){ .time_ns = time_ns,
                                     .tgid = process->pid,
                                     .pc = found->pc,
                                     .sp = found->sp,
                                     .bp = found->bp,
                                     .address = found->sp - GOROUTINE_BELOW_SP,
                                     .n_bytes = found->stack_size,
                                     .is_cut = found->is_cut };
        memcpy(stack->bytes, bytes, found->stack_size);
        host_walk(goroutines->walk, process, false, stack, resultp);
}

static SampleWait wait_of(uint32_t minor, const Goroutine *found) {
        static const char in_syscall[] = "syscall", none[] = "";

        if (found->state == GOROUTINE_RUNNABLE)
                return (SampleWait){ .state = WAIT_STATE_RUNNABLE, .reason = none };
        return (SampleWait){ .state = WAIT_STATE_BLOCKED,
                             .reason = found->state == GOROUTINE_SYSCALL ? in_syscall
                                     : go_wait_reason(minor, found->reason) };
}

/* @n: goroutines that it stands for. Return: 0, -errno. */
static int add(Work *work, const Program *program, const Goroutine *found, const uint8_t *bytes, int64_t n) {
        Goroutines *goroutines = work->goroutines;
        const Process *process = program->process;
        HostWalkResult result;
        struct abi_sample header = { .time_ns = clock_monotonic_ns(),
                                     .start_time_ns = process->start_time_ns,
                                     .generation = process->generation,
                                     .tgid = process->pid,
                                     .context = ABI_CONTEXT_NONE,
                                     .attributes_size = found->labels_size,
                                     .form = ABI_FORM_GO };
        Sample sample = { .header = &header,
                          .attributes = found->labels,
                          .wait = wait_of(goroutines->look.where.minor, found) };
        int r;

        walk_stack(goroutines, process, found, bytes, header.time_ns, &result);
        work->seen.n_pending += result.end == ABI_STACK_PENDING;
        if (result.end == ABI_STACK_PENDING)
                return 0;
        header.n_user = (uint16_t)result.n;
        header.stack_end = (uint8_t)result.end;
        header.interrupted = result.interrupted;
        sample.user = result.frames;
        r = aggregator_add_goroutines(goroutines->stages->aggregator, program, &sample, n);
        work->seen.n_window_full += r > 0;
        work->seen.n_added += !r;
        return r < 0 ? error_fold(r) : 0;
}

static int take_one(Work *work, const Program *program, Choice *choice, uint32_t i) {
        const GoroutineLook *look = &work->goroutines->look;
        int64_t n;

        switch (look->results[i]) {
        case 0:
                choice->over += choice->step;
                n = (int64_t)(choice->over + 1e-6);
                choice->over -= (double)n;
                return add(work, program, &look->found[i], look->stacks + look->stacks_at[i], n);
        case GOROUTINE_E_RUNNING:
                work->seen.n_running++;
                return 0;
        case GOROUTINE_E_MOVED:
                work->seen.n_moved++;
                return 0;
        case GOROUTINE_E_FREE:
                return 0;
        default:
                work->seen.n_unreadable++;
                return 0;
        }
}

/* ---- one process ---- */

static Choice choose(uint64_t n, uint64_t most) {
        Choice choice = { .n = n, .n_left = MIN(n, most), .step = 1 };

        if (n > most && most) {
                choice.step = (double)n / (double)most;
                choice.next = choice.step * ((double)random() / ((double)RAND_MAX + 1));
        }
        return choice;
}

/* @n_again: those of the last batch that had no room come first. */
static void want_batch(GoroutineLook *look, Choice *choice) {
        uint32_t n_again = look->n_wanted - look->n_read;

        memmove(look->wanted, look->wanted + look->n_read, n_again * sizeof(*look->wanted));
        look->n_wanted = n_again;
        while (look->n_wanted < GOROUTINE_LOOK_BATCH && choice->n_left) {
                look->wanted[look->n_wanted++] = MIN((uint64_t)choice->next, choice->n - 1);
                choice->next += choice->step;
                choice->n_left--;
        }
}

static int take_all(Work *work, const Program *program, Choice *choice) {
        GoroutineLook *look = &work->goroutines->look;
        int r = 0;

        for (want_batch(look, choice); look->n_wanted && !r; want_batch(look, choice)) {
                r = goroutine_look(look);
                if (r || look->result || !look->n_read) {
                        work->seen.n_unreadable += look->n_wanted + choice->n_left;
                        return MIN(r, 0);
                }
                for (uint32_t i = 0; i < look->n_read && !r; i++)
                        r = take_one(work, program, choice, i);
        }
        return error_fold(r);
}

/* The list's length at first, then what is chosen of it. */
static int look_at_list(Work *work, const Program *program) {
        Goroutines *goroutines = work->goroutines;
        GoroutineLook *look = &goroutines->look;
        uint64_t most = MIN(goroutines->n_each, work->left);
        Choice choice;
        int r = goroutine_look(look);

        if (r < 0)
                return error_fold(r);
        if (r || look->result) {
                work->seen.n_lists_unreadable++;
                return 0;
        }
        choice = choose(look->n, most);
        work->seen.n_processes++;
        work->seen.n_not_looked_at += most ? 0 : look->n;
        work->left -= choice.n_left;
        return take_all(work, program, &choice);
}

static int open_files(const Process *process, int *memoryp, int *pagemapp) {
        _cleanup_(closep) int proc = -1;
        int memory, pagemap;

        if (process_open((pid_t)process->pid, process->start_time_ns, &proc))
                return -1;
        memory = openat(proc, "mem", O_RDONLY | O_CLOEXEC);
        pagemap = memory < 0 ? -1 : openat(proc, "pagemap", O_RDONLY | O_CLOEXEC);
        if (pagemap < 0) {
                closep(&memory);
                return -1;
        }
        *memoryp = memory;
        *pagemapp = pagemap;
        return 0;
}

static int look_at_process(Work *work, const Process *process, const GoGoroutines *where) {
        Goroutines *goroutines = work->goroutines;
        _cleanup_(closep) int memory = -1, pagemap = -1;
        Program program;
        int r = targets_program(goroutines->stages->targets, process->pid, process->generation,
                                &program);

        if (r)
                return MIN(r, 0);
        if (open_files(process, &memory, &pagemap)) {
                work->seen.n_lists_unreadable++;
                return 0;
        }
        goroutines->look.pid = (pid_t)process->pid;
        goroutines->look.memory_fd = memory;
        goroutines->look.pagemap_fd = pagemap;
        goroutines->look.where = *where;
        goroutines->look.n_wanted = goroutines->look.n_read = 0;
        return error_fold(look_at_list(work, &program));
}

/* ---- all processes ---- */

static void visit(void *userdata, const Process *process, SelectorReason reason) {
        Work *work = userdata;
        const GoGoroutines *where = runtimes_state_of(work->goroutines->stages->runtimes,
                                                      process->generation, &go_runtime);

        if (work->r || !where)
                return;
        if (work->n >= work->from && work->n < work->until && where->list)
                work->r = look_at_process(work, process, where);
        else if (work->n >= work->from && work->n < work->until)
                work->seen.n_lists_unreadable++;
        work->n++;
}

/* Visits processes from `first` on, then those in front of it: the limit of a look cuts each time others. */
static int visit_all(Work *work) {
        Goroutines *goroutines = work->goroutines;
        Targets *targets = goroutines->stages->targets;
        uint32_t first = goroutines->first;

        work->from = first;
        work->until = UINT32_MAX;
        targets_each(targets, visit, work);
        goroutines->first = first + 1 < work->n ? first + 1 : 0;
        work->n = 0;
        work->from = 0;
        work->until = first;
        if (!work->r && first)
                targets_each(targets, visit, work);
        return work->r;
}

static void count(const GoroutinesSeen *seen) {
        stat_add(COUNTER_GOROUTINES_READ, seen->n_added);
        stat_add(COUNTER_GOROUTINES_RUNNING, seen->n_running);
        stat_add(COUNTER_GOROUTINES_MOVED, seen->n_moved);
        stat_add(COUNTER_GOROUTINES_UNREADABLE, seen->n_unreadable);
        stat_add(COUNTER_GOROUTINES_PENDING, seen->n_pending);
        stat_add(COUNTER_GOROUTINES_WINDOW_FULL, seen->n_window_full);
        stat_add(COUNTER_GOROUTINES_NOT_LOOKED_AT, seen->n_not_looked_at);
        stat_add(COUNTER_GOROUTINE_LISTS_UNREADABLE, seen->n_lists_unreadable);
}

static int look(Goroutines *goroutines, GoroutinesSeen *seen) {
        Work work = { .goroutines = goroutines, .left = GOROUTINES_MAX_LOOK };
        int r = visit_all(&work);

        /* a target's memory; and rows that the kernel has as well */
        explicit_bzero(&goroutines->look, sizeof(goroutines->look));
        explicit_bzero(goroutines->stack, sizeof(*goroutines->stack) + GOROUTINE_MAX_STACK);
        host_walk_release(goroutines->walk);
        count(&work.seen);
        *seen = work.seen;
        return error_fold(r);
}

int goroutines_look(Goroutines *goroutines) {
        GoroutinesSeen seen;

        return goroutines->is_once ? 0 : look(goroutines, &seen);
}

int goroutines_look_once(Goroutines *goroutines, GoroutinesSeen *seen) {
        goroutines->is_once = true;
        return look(goroutines, seen);
}
