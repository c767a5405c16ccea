/* SPDX-License-Identifier: Apache-2.0 */
#include "sampling/discover/targets-private.h"

#include <string.h>


/* The kernel half tells the exact start, /proc the tick before it. */
static uint64_t start_tick(uint64_t start_time_ns) {
        return start_time_ns - start_time_ns % ABI_START_TICK_NS;
}

/*
 * What the new program of an exec is to us. *processp = NULL: nothing (yet): under --all a program that was
 * no target before costs nothing until its first sample.
 */
static int decide_exec(Targets *targets, const struct abi_notice *notice, bool was_target, Process **processp,
                       SelectorReason *reasonp) {
        char comm[ABI_COMM_SIZE] = { 0 };
        int r;

        memcpy(comm, notice->comm, sizeof(comm) - 1);
        *processp = NULL;
        r = targets_decide(targets, &(SelectorFacts){ .pid = notice->tgid, .comm = comm }, reasonp);
        if (r)
                return r;
        if (!selector_is_chosen(*reasonp) || (*reasonp == SELECTOR_ALL && !was_target))
                return 0;
        r = process_new(processp, (pid_t)notice->tgid);
        if (r >= 0 && *processp && (*processp)->start_time_ns != notice->start_time_ns) {
                *processp = process_free(*processp);
                r = PROCESS_E_GONE;
        }
        if (r > 0) {
                stat_add(COUNTER_TARGETS_VANISHED, 1);
                r = process_new_gone(processp, (pid_t)notice->tgid, notice->start_time_ns, comm);
        }
        return r;
}

/* The program that was there until now. */
static int end_old_program(Targets *targets, Target *old, const struct abi_notice *notice) {
        bool same = old->process->start_time_ns == notice->start_time_ns;
        uint64_t cpu_ns = 0;

        if (same)
                process_cpu_time(old->process, &cpu_ns);
        return targets_end(targets, old, same ? COUNTER_TARGETS_EXEC : COUNTER_TARGETS_GONE, notice->time_ns,
                           cpu_ns);
}

static int notice_exec(Targets *targets, const struct abi_notice *notice) {
        _cleanup_(process_freep) Process *process = NULL;
        Target *old = targets_living(targets, notice->tgid), *target = NULL;
        SelectorReason reason;
        int r;

        /* It may have been found with the new program already, before the notice of it came. */
        if (old && old->process->start_time_ns == notice->start_time_ns &&
            old->process->read_ns > notice->time_ns)
                return 0;
        search_remove(targets->search, notice->tgid);
        r = old ? end_old_program(targets, old, notice) : targets_unreject(targets, notice->tgid);
        if (!r)
                r = decide_exec(targets, notice, old, &process, &reason);
        if (r || !process)
                return r;
        r = targets_add_chosen(targets, &process, reason, &target);
        if (r)
                return r < 0 ? r : 0;
        target->begin_ns = notice->time_ns;
        return old ? targets_inherit_past(target, old) : 0;
}

/*
 * CPU time of a process that came and went between two ticks belongs to the time that we stand for. Where
 * more than its name decides, it is too late to find out whether it would have been a target: it is left out.
 */
static void settle_unseen(Targets *targets, const struct abi_notice *notice) {
        const Selector *selector = targets->config.selector;
        char comm[ABI_COMM_SIZE] = { 0 };
        SelectorFacts facts = { .pid = notice->tgid,
                                .comm = comm,
                                .in_tree = tree_contains(targets->tree, notice->tgid) };

        memcpy(comm, notice->comm, sizeof(comm) - 1);
        if (selector_is_by_name(selector) && !selector_needs(selector) &&
            notice->start_time_ns > targets->start_ticks_ns &&
            selector_is_chosen(selector_decide(selector, &facts)))
                targets->cpu_done_ns += notice->value;
}

/* Whether this very process is or was a target. */
static bool is_known(const Targets *targets, const struct abi_notice *notice) {
        const Target *target = hashmap_get(&targets->chains, notice->tgid);

        return target && target->process->start_time_ns == notice->start_time_ns;
}

static int notice_exit(Targets *targets, const struct abi_notice *notice) {
        Target *target = targets_living(targets, notice->tgid);

        search_remove(targets->search, notice->tgid);
        if (target && target->process->start_time_ns == notice->start_time_ns)
                return targets_end(targets, target, COUNTER_TARGETS_GONE, notice->time_ns, notice->value);
        if (!is_known(targets, notice) && !rejects_contains(&targets->rejects, notice->tgid))
                settle_unseen(targets, notice);
        return targets_unreject(targets, notice->tgid);
}

/* What its exit did not know of yet, of one whose time up to there was settled. */
static void notice_settled(Targets *targets, const struct abi_notice *notice) {
        if (is_known(targets, notice) && !targets_living(targets, notice->tgid))
                targets->cpu_done_ns += notice->value;
        else if (!is_known(targets, notice) && !rejects_contains(&targets->rejects, notice->tgid))
                settle_unseen(targets, notice);
}

static int notice_mappings(Targets *targets, const struct abi_notice *notice) {
        const Target *target = targets_living(targets, notice->tgid);
        const Selector *selector = targets->config.selector;

        if (selector_excludes_pid(selector, notice->tgid) || (target && target->publication.ring_address) ||
            (!target && !selector_is_default(selector)))
                return 0;
        return search_add(targets->search, notice->tgid, notice->start_time_ns, clock_monotonic_ns());
}

int targets_take_notice(Targets *targets, const struct abi_notice *notice) {
        struct abi_notice copy = *notice;

        copy.start_time_ns = start_tick(notice->start_time_ns);
        switch (copy.kind) {
        case ABI_NOTICE_EXEC:
                return notice_exec(targets, &copy);
        case ABI_NOTICE_EXIT:
                return notice_exit(targets, &copy);
        case ABI_NOTICE_SETTLED:
                notice_settled(targets, &copy);
                return 0;
        case ABI_NOTICE_MAPPINGS:
                return notice_mappings(targets, &copy);
        default:
                return 0;
        }
}

int targets_notice(Targets *targets, const struct abi_notice *notice) {
        sweep_results_told(&targets->sweep.sweep_results, notice);
        return targets_take_notice(targets, notice);
}

void targets_noticed(Targets *targets, uint64_t until_ns) {
        sweep_results_settle(&targets->sweep.sweep_results, until_ns);
}

/* The program that the process ran at @time_ns, or NULL. */
static Target *find_program(const Targets *targets, uint32_t tgid, uint64_t start_time_ns, uint64_t time_ns) {
        Target *target = hashmap_get(&targets->chains, tgid);

        while (target && (target->process->start_time_ns != start_time_ns || time_ns < target->begin_ns))
                target = target->older;
        return target;
}

/*
 * Who it is, as far as that can still be known: one that is gone may have no name any more. Return: 0,
 * -errno.
 */
static int identify_sampled(const Targets *targets, const struct abi_sample *sample, uint64_t start_time_ns,
                            Process **processp) {
        char comm[ABI_COMM_SIZE] = { 0 };
        int r = process_new(processp, (pid_t)sample->tgid);

        if (!r && (*processp)->start_time_ns == start_time_ns)
                return 0;
        if (r < 0)
                return r;
        *processp = process_free(*processp);
        stat_add(COUNTER_TARGETS_VANISHED, 1);
        /* The leader's name is what selectors go by; another thread may have its own. */
        if (sample->tid == sample->tgid)
                memcpy(comm, sample->comm, sizeof(comm));
        else
                targets_recall_comm(targets, sample->tgid, sample->time_ns, comm);
        return process_new_gone(processp, (pid_t)sample->tgid, start_time_ns, comm);
}

/* Decides on a process that was sampled while undecided. */
static int decide_sampled(Targets *targets, const struct abi_sample *sample, uint64_t start_time_ns,
                          Target **targetp) {
        _cleanup_(process_freep) Process *process = NULL;
        SelectorReason reason;
        bool is_gone;
        int r;

        r = identify_sampled(targets, sample, start_time_ns, &process);
        if (r)
                return r;
        is_gone = !process->read_ns;
        r = targets_decide(targets,
                           &(SelectorFacts){ .pid = sample->tgid,
                                             .comm = is_gone && !*process->comm ? NULL : process->comm,
                                             .is_kernel = process->is_kernel },
                           &reason);
        if (r)
                return r;
        /*
         * Chosen by a name that it has taken since, by an exec that we have not heard of yet: what ran then
         * was not.
         */
        if (reason == SELECTOR_COMM && sample->tid == sample->tgid &&
            strncmp(sample->comm, process->comm, sizeof(process->comm)) != 0)
                return TARGETS_E_REJECTED;
        r = selector_is_chosen(reason) ? targets_add_chosen(targets, &process, reason, targetp)
                                       : TARGETS_E_REJECTED;
        /* The notice of its exit has been here before its sample: nothing else would end it. */
        if (!r && is_gone)
                r = targets_end(targets, *targetp, COUNTER_TARGETS_GONE, clock_monotonic_ns(), 0);
        if (r != TARGETS_E_REJECTED)
                return r;
        r = targets_reject(targets, sample->tgid, start_time_ns);
        return r ? r : TARGETS_E_REJECTED;
}

/* Nobody can tell any more what it was called, or what it had mapped. */
static bool is_unattributed(const Process *process) {
        return (!*process->comm && !process->exe) || (!process->maps_serial && !process->is_kernel);
}

int targets_program(Targets *targets, uint32_t pid, uint64_t generation, Program *programp) {
        Target *target = hashmap_get(&targets->chains, pid);
        int r;

        while (target && target->process->generation != generation)
                target = target->older;
        if (!target)
                return TARGETS_E_REJECTED;
        r = targets_ensure_mappings(targets, target, target->end_ns ? target->end_ns : clock_monotonic_ns());
        *programp = (Program){ target->process, &target->publication };
        return r;
}

uint64_t targets_end_ns(const Targets *targets, uint32_t pid) {
        const Target *target = hashmap_get(&targets->chains, pid);

        return target && target->end_ns ? target->end_ns : UINT64_MAX;
}

int targets_admit(Targets *targets, const struct abi_sample *sample, Program *programp) {
        uint64_t start_time_ns = start_tick(sample->start_time_ns);
        Target *target = find_program(targets, sample->tgid, start_time_ns, sample->time_ns);
        const Target *now = targets_living(targets, sample->tgid);
        int r;

        if (!target) {
                /* If it has become a target by an exec after this sample, what ran before was none. */
                if (!selector_is_by_name(targets->config.selector) ||
                    (now && now->process->start_time_ns == start_time_ns))
                        return TARGETS_E_REJECTED;
                r = decide_sampled(targets, sample, start_time_ns, &target);
                if (r)
                        return r;
        }
        r = targets_ensure_mappings(targets, target, sample->time_ns);
        if (r)
                return r;
        stat_add(COUNTER_SAMPLES_UNATTRIBUTED, is_unattributed(target->process));
        /* Once, since it says so again with the next sample if that was in vain. */
        if (target->publication.wants_context && !target->end_ns)
                r = targets_poll_context(targets, target);
        *programp = (Program){ target->process, &target->publication };
        return r;
}
