/* SPDX-License-Identifier: Apache-2.0 */
#include "sampling/discover/targets-private.h"

#include <errno.h>
#include <string.h>

#include "base/util/error.h"
#include "base/util/log.h"
#include "sampling/context/adopt.h"

enum { MAX_DEAD = 4096 };                       /* over it the oldest is forgotten early */

#define REJECTED_KEEP_NS (10 * NS_PER_SEC)      /* then its name is looked at again */

/* The living target with this id, or NULL. */
Target *targets_living(const Targets *targets, uint32_t tgid) {
        Target *target = hashmap_get(&targets->chains, tgid);

        return target && !target->end_ns ? target : NULL;
}

int targets_decide(const Targets *targets, const SelectorFacts *facts, SelectorReason *reasonp) {
        unsigned what = selector_needs(targets->config.selector);
        _cleanup_(identity_freep) Identity *identity = NULL;
        _cleanup_(closep) int fd = -1;
        SelectorFacts more = *facts;
        int r = 0;

        if (what && process_open_living((pid_t)facts->pid, 0, &fd, NULL) == 0) {
                r = identity_new(&identity, fd, what);
        } else if (what) {
                r = targets_recall_identity(targets, facts->pid, what, &identity);
                more.is_inherited = true;
        }
        if (r)
                return r;
        more.identity = identity;
        more.in_tree = tree_contains(targets->tree, facts->pid);
        *reasonp = selector_decide(targets->config.selector, &more);
        return 0;
}

/*
 * The row goes first: from then on the kernel half counts births and deaths itself, and leaves the slots
 * alone until all are known.
 */
static int adopt(Targets *targets, Target *target, struct abi_process *row) {
        const TargetsCallbacks *callbacks = &targets->config.callbacks;
        Publication *publication = &target->publication;
        uint32_t tgid = target->process->pid;
        int r;

        if (!callbacks->adopt || !row->ring_address ||
            (publication->adopted_ring == row->ring_address &&
             publication->adopted_capacity == row->ring_capacity))
                return 0;
        row->flags |= ABI_PROCESS_ADOPTING;
        r = callbacks->row_set(callbacks->userdata, tgid, row);
        row->flags &= (uint8_t)~ABI_PROCESS_ADOPTING;
        if (!r)
                r = adopt_threads(tgid, row->ring_capacity, callbacks->adopt, callbacks->userdata);
        if (r)
                return r;
        publication->adopted_ring = row->ring_address;
        publication->adopted_capacity = row->ring_capacity;
        return 0;
}

int targets_set_row(Targets *targets, Target *target) {
        const Publication *publication = &target->publication;
        const Process *process = target->process;
        struct abi_process row = {
                .generation = process->generation,
                .start_time_ns = process->start_time_ns,
                .ring_address = publication->ring_address,
                .ring_capacity = publication->ring_capacity,
                .state = ABI_STATE_TARGET,
                .thread_offset = publication->thread.offset,
                .thread_module = publication->thread.module,
                .thread_model = publication->thread.model,
                .thread_form = publication->thread.form,
                .flags = publication->context ? ABI_PROCESS_PUBLISHES : 0,
        };
        int r = adopt(targets, target, &row);

        return r ? r
                 : targets->config.callbacks.row_set(targets->config.callbacks.userdata, process->pid, &row);
}

int targets_remove_row(Targets *targets, uint32_t tgid) {
        return targets->config.callbacks.row_remove(targets->config.callbacks.userdata, tgid);
}

/* Takes a dead target off its chain. */
static void forget_dead(Targets *targets, Target *dead) {
        uint32_t tgid = dead->process->pid;
        Target *target = hashmap_get(&targets->chains, tgid);

        if (target == dead) {
                if (dead->older)
                        hashmap_put(&targets->chains, tgid, dead->older);
                else
                        hashmap_remove(&targets->chains, tgid);
        } else {
                while (target->older != dead)
                        target = target->older;
                target->older = dead->older;
        }
        targets_free_target(dead);
}

void targets_forget_oldest_dead(Targets *targets) {
        Target *dead = targets->first_dead;

        targets->first_dead = dead->next_dead;
        if (!targets->first_dead)
                targets->last_deadp = &targets->first_dead;
        targets->n_dead--;
        forget_dead(targets, dead);
}

static void bury(Targets *targets, Target *target, uint64_t end_ns) {
        target->end_ns = MAX(end_ns, UINT64_C(1));
        *targets->last_deadp = target;
        targets->last_deadp = &target->next_dead;
        targets->n_alive--;
        if (++targets->n_dead > MAX_DEAD)
                targets_forget_oldest_dead(targets);
}

/* Adds what the target used since it became one. */
static void settle_cpu(Targets *targets, const Target *target, uint64_t total_ns) {
        uint64_t last_ns = MAX(total_ns, target->cpu_last_ns);

        targets->cpu_done_ns += last_ns - MIN(last_ns, target->cpu_base_ns);
}

/*
 * The end of a living target: its row goes, it waits for its last samples.
 * @event: COUNTER_TARGETS_GONE or _EXEC. @cpu_total_ns: all its CPU time, or 0 = what was read last.
 */
int targets_end(Targets *targets, Target *target, enum counter event, uint64_t end_ns,
                      uint64_t cpu_total_ns) {
        uint32_t tgid = target->process->pid;

        targets_stop_reading(targets, target);
        settle_cpu(targets, target, cpu_total_ns);
        stat_add(event, 1);
        log_write_target(LOG_LEVEL_DEBUG, tgid, "%s is gone", target->process->comm);
        bury(targets, target, end_ns);
        return targets_remove_row(targets, tgid);
}

/* A rejected process loses its row, and may be decided anew. */
int targets_unreject(Targets *targets, uint32_t tgid) {
        return rejects_remove(&targets->rejects, tgid) ? targets_remove_row(targets, tgid) : 0;
}

int targets_reject(Targets *targets, uint32_t tgid, uint64_t start_time_ns) {
        struct abi_process row = { .start_time_ns = start_time_ns, .state = ABI_STATE_REJECTED };
        int r;

        stat_add(COUNTER_TARGETS_REJECTED, 1);
        r = rejects_add(&targets->rejects, tgid, clock_monotonic_ns() + REJECTED_KEEP_NS);
        if (r)
                return r < 0 ? r : 0;
        row.generation = ++targets->last_generation;
        r = targets->config.callbacks.row_set(targets->config.callbacks.userdata, tgid, &row);
        return r < 0 ? r : 0;
}

int targets_expire_rejects(Targets *targets, uint64_t now_ns) {
        uint32_t tgid;
        int r;

        while ((tgid = rejects_expired(&targets->rejects, now_ns))) {
                r = targets_unreject(targets, tgid);
                if (r)
                        return r;
        }
        return 0;
}

/* A process that was born after us was a target (or undecided) from its first instant on. */
static uint64_t cpu_base(const Targets *targets, const Process *process) {
        uint64_t now_ns;

        if (process_cpu_time(process, &now_ns))
                return 0;
        return selector_is_by_name(targets->config.selector) &&
                        process->start_time_ns > targets->start_ticks_ns
                ? 0
                : now_ns;
}

/* Puts a program on top of its chain. Takes the process over on success. */
static int push(Targets *targets, Process *process, SelectorReason reason, const SearchFinding *finding,
                Target **targetp) {
        Target *target = calloc(1, sizeof(*target));
        int r;

        if (!target)
                return error_origin(-ENOMEM);
        target->older = hashmap_get(&targets->chains, process->pid);
        r = hashmap_put(&targets->chains, process->pid, target);
        if (r) {
                free(target);
                return error_fold(r);
        }
        process->generation = ++targets->last_generation;
        target->process = process;
        target->reason = reason;
        if (finding)
                publication_set_ring(&target->publication, finding->ring_address, finding->ring_capacity);
        target->refresh_interval_ns = TARGETS_REFRESH_MIN_NS;
        targets->n_alive++;
        *targetp = target;
        return 0;
}

/* An id that is used again while the notice of its former owner's exit was lost; or one that was rejected. */
static int clear_id(Targets *targets, uint32_t tgid) {
        Target *former = targets_living(targets, tgid);

        if (former)
                return targets_end(targets, former, COUNTER_TARGETS_GONE, clock_monotonic_ns(), 0);
        return targets_unreject(targets, tgid);
}

static int refuse_over_cap(Targets *targets, const Process *process) {
        static LogLimit limit;
        uint64_t n_skipped;

        stat_add(COUNTER_TARGETS_OVER_CAP, 1);
        if (log_limit(&limit, 60 * NS_PER_SEC, &n_skipped))
                log_warning("over %u targets: pid %u (%s) and later ones are not profiled",
                            targets->config.max_targets, process->pid, process->comm);
        return TARGETS_E_REJECTED;
}

/*
 * Makes a target of a process that is none. Takes *processp over on success.
 * Return: 0, TARGETS_E_REJECTED = the table is full (counted), -errno.
 */
int targets_add(Targets *targets, Process **processp, SelectorReason reason, const SearchFinding *finding,
                Target **targetp) {
        Target *target = NULL;
        int r;

        r = clear_id(targets, (*processp)->pid);
        if (r)
                return r;
        if (targets->n_alive >= targets->config.max_targets)
                return refuse_over_cap(targets, *processp);
        r = push(targets, *processp, reason, finding, &target);
        if (r)
                return r;
        r = targets_set_row(targets, target);
        if (r) {
                if (r > 0)
                        r = refuse_over_cap(targets, *processp);
                targets->n_alive--;
                target->process = NULL;
                if (target->older)
                        hashmap_put(&targets->chains, (*processp)->pid, target->older);
                else
                        hashmap_remove(&targets->chains, (*processp)->pid);
                free(target);
                return r;
        }
        *processp = NULL;
        target->cpu_base_ns = target->cpu_last_ns = cpu_base(targets, target->process);
        stat_add(COUNTER_TARGETS_FOUND, 1);
        log_write_target(LOG_LEVEL_DEBUG, target->process->pid, "%s is a target: %s", target->process->comm,
                         selector_reason_text(reason));
        if (targetp)
                *targetp = target;
        return 0;
}

/* Chosen by pid, name or --all: with mappings and, if it is there, its ring. */
int targets_add_chosen(Targets *targets, Process **processp, SelectorReason reason, Target **targetp) {
        Target *target;
        int r;

        r = targets_add(targets, processp, reason, NULL, &target);
        if (r)
                return r;
        if (targetp)
                *targetp = target;
        /* Under --all most processes are never on a CPU: their mappings are read at their first sample. */
        if (reason != SELECTOR_ALL) {
                r = targets_read_mappings(targets, target);
                if (r)
                        return r;
        }
        if (target->process->is_kernel)
                return 0;
        return search_add(targets->search, target->process->pid, target->process->start_time_ns,
                          clock_monotonic_ns());
}
