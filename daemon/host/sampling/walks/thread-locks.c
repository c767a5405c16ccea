/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Asks the runtime of each process once per look, and compares two looks. A process whose runtime does not
 * answer has no locks here, and a text that says so.
 */
#include "host/sampling/walks/thread-locks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/array.h"
#include "core/base/util/error.h"

void thread_locks_deinit(ThreadLocks *locks) {
        for (size_t i = 0; i < locks->n; i++)
                free(locks->processes[i].locks);
        free(locks->processes);
        *locks = (ThreadLocks){ 0 };
}

static int keep(ThreadLocks *locks, uint32_t tgid, const RuntimeLocks *found) {
        RuntimeLocks *copy;

        if (array_reserve(&locks->processes, &locks->room, locks->n + 1, 16))
                return error_origin(-ENOMEM);
        copy = malloc(runtime_locks_size(found->n));
        if (!copy)
                return error_origin(-ENOMEM);
        memcpy(copy, found, runtime_locks_size(found->n));
        locks->processes[locks->n++] = (ProcessLocks){ tgid, copy };
        return 0;
}

static int read_process(ThreadLocks *locks, const WalkStages *stages, const struct abi_thread *thread,
                        RuntimeLocks *room) {
        Program program;
        int r = targets_program(stages->targets, thread->tgid, thread->generation, &program);

        if (r)
                return MIN(r, 0);
        r = runtimes_locks(stages->runtimes, program.process, room);
        if (r == RUNTIME_E_LATER) {
                room->n = room->n_over_cap = 0;
                snprintf(room->text, sizeof(room->text),
                         "locks are not read: the runtime did not answer in time");
                r = 0;
        }
        return r ? MIN(r, 0) : keep(locks, thread->tgid, room);
}

int thread_locks_read(ThreadLocks *locks, const WalkStages *stages, const ThreadsLook *threads) {
        _cleanup_(freep) RuntimeLocks *room = calloc(1, sizeof(*room));
        int r = 0;

        *locks = (ThreadLocks){ 0 };
        if (!room)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < threads->n && !r; i++)
                if (!i || threads->threads[i].tgid != threads->threads[i - 1].tgid)
                        r = read_process(locks, stages, &threads->threads[i], room);
        return error_fold(r);
}

const RuntimeLocks *thread_locks_find(const ThreadLocks *locks, uint32_t tgid) {
        for (size_t i = 0; i < locks->n; i++)
                if (locks->processes[i].tgid == tgid)
                        return locks->processes[i].locks;
        return NULL;
}

/* Whether a thread waits for one lock by both. Its owner may have changed: it goes from hand to hand. */
static bool is_same(const RuntimeLock *a, const RuntimeLock *b) {
        return a->address == b->address && a->futex == b->futex && a->tid == b->tid && a->kind == b->kind &&
                !memcmp(a->name, b->name, sizeof(a->name));
}

static const RuntimeLock *find_same(const RuntimeLocks *locks, const RuntimeLock *lock) {
        for (uint32_t i = 0; i < locks->n; i++)
                if (is_same(&locks->locks[i], lock))
                        return &locks->locks[i];
        return NULL;
}

/* An owner that @second does not say is not known. */
static void keep_same(RuntimeLocks *first, const RuntimeLocks *second) {
        uint32_t n = 0;

        for (uint32_t i = 0; second && i < first->n; i++) {
                const RuntimeLock *same = find_same(second, &first->locks[i]);

                if (!same)
                        continue;
                first->locks[n] = first->locks[i];
                if (same->owner != first->locks[n].owner)
                        first->locks[n].owner = 0;
                n++;
        }
        first->n = n;
}

void thread_locks_keep_same(ThreadLocks *locks, const ThreadLocks *again) {
        for (size_t i = 0; i < locks->n; i++) {
                RuntimeLocks *first = locks->processes[i].locks;
                const RuntimeLocks *second = thread_locks_find(again, locks->processes[i].tgid);

                keep_same(first, second);
                if (second && *second->text)
                        memcpy(first->text, second->text, sizeof(first->text));
        }
}

const char *thread_locks_word(uint32_t kind) {
        static const char *const words[RUNTIME_N_LOCK_KINDS] = {
                [RUNTIME_LOCK_MONITOR] = "monitor", [RUNTIME_LOCK_NOTIFY] = "notify",
                [RUNTIME_LOCK_PARKED] = "park",     [RUNTIME_LOCK_OWNED] = "lock",
                [RUNTIME_LOCK_OWNERLESS] = "lock",
        };

        return kind < RUNTIME_N_LOCK_KINDS ? words[kind] : NULL;
}
