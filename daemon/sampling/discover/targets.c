/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Three kinds of processes:
 *
 *     target     has a Target here and a row TARGET in the kernel's table
 *     rejected   was undecided, no selector chose it; has a row REJECTED for a while (its name may change)
 *     others     known here only while their memory is being searched for a ring
 *
 * All programs that a pid ran hang on one chain, newest first: the current one, then those that exec has
 * replaced or that have exited, for as long as samples of theirs may arrive.
 */
#include "sampling/discover/targets-private.h"

#include <errno.h>

#include "base/util/directory.h"
#include "base/util/error.h"
#include "base/util/log.h"
#include "sampling/discover/coroutine-engine.h"

enum {
        /* over it rejected processes are decided anew at each sample */
        MAX_REJECTED = ABI_MAX_PROCESSES / 2,
        /* 20,000 notices: two seconds of 2,000 small programs a second */
        NOTICE_HISTORY_BYTES = 4 << 20,
        TARGETS_PER_PASS = 64,                  /* that are looked at in one pass */
        TURN_TEXT = 1 << 20,                    /* of maps: 13,000 mappings, about 5 ms */
};

#define READ_INTERVAL_NS (5 * NS_PER_MS)        /* between two turns of one who reads maps */

int targets_new(Targets **targetsp, const TargetsConfig *config) {
        _cleanup_(targets_freep) Targets *targets = calloc(1, sizeof(*targets));
        int r;

        if (!targets)
                return error_origin(-ENOMEM);
        targets->config = *config;
        if (!targets->config.max_targets)
                targets->config.max_targets = ABI_MAX_PROCESSES / 2;
        targets->last_deadp = &targets->first_dead;
        rejects_init(&targets->rejects, MAX_REJECTED);
        targets->start_ticks_ns = clock_read_ns(CLOCK_BOOTTIME);
        targets->text_left = SIZE_MAX;
        r = search_new(&targets->search);
        if (!r)
                search_set_text(targets->search, &targets->text_left);
        if (!r && selector_is_by_name(config->selector))
                r = notice_history_new(&targets->notice_history, NOTICE_HISTORY_BYTES);
        if (!r && config->selector->n_trees)
                r = tree_new(&targets->tree, config->selector->trees, config->selector->n_trees);
        if (r)
                return error_fold(r);
        *targetsp = take(targets);
        return 0;
}

void targets_free_target(Target *target) {
        process_reading_free(target->reading);
        publication_deinit(&target->publication);
        process_free(target->process);
        free(target);
}

Targets *targets_free(Targets *targets) {
        HashmapEntry *entry;
        uint32_t at = 0;

        if (!targets)
                return NULL;
        while ((entry = hashmap_next(&targets->chains, &at)))
                for (Target *target = entry->value, *older; target; target = older) {
                        older = target->older;
                        targets_free_target(target);
                }
        hashmap_deinit(&targets->chains);
        rejects_deinit(&targets->rejects);
        search_free(targets->search);
        if (targets->sweep.dir)
                closedir(targets->sweep.dir);
        notice_history_free(targets->notice_history);
        tree_free(targets->tree);
        free(targets);
        return NULL;
}

/* ---- what targets publish ---- */

/* The row says what has changed. A table that is full keeps the old one. */
static int renew_row(Targets *targets, Target *target) {
        int r = targets_set_row(targets, target);

        return r > 0 ? 0 : r;
}

static int set_context(Targets *targets, Target *target, uint64_t address) {
        bool is_changed = false;
        int r = publication_set_context(&target->publication, target->process, address, &is_changed);

        return !r && is_changed ? renew_row(targets, target) : r;
}

int targets_poll_context(Targets *targets, Target *target) {
        bool is_changed = false;
        int r = publication_poll_context(&target->publication, target->process, &is_changed);

        return !r && is_changed ? renew_row(targets, target) : r;
}

int targets_resolve_threads(Targets *targets, Target *target) {
        return publication_resolve_threads(&target->publication, target->process) ? renew_row(targets, target)
                                                                                  : 0;
}

int targets_resolve_waiting(Targets *targets) {
        HashmapEntry *entry;
        uint32_t at = 0;
        int r = 0;

        while (!r && (entry = hashmap_next(&targets->chains, &at))) {
                Target *target = entry->value;

                if (!target->end_ns && target->publication.waits_for_symbols)
                        r = targets_resolve_threads(targets, target);
        }
        return error_fold(r);
}

/*
 * A reader of stations has them open from then on, so that it does not matter if they are mapped elsewhere
 * later.
 */
static int take_stations(Targets *targets, Target *target, uint64_t address) {
        const TargetsCallbacks *callbacks = &targets->config.callbacks;
        const Process *process = target->process;

        if (!address || address == target->publication.stations_address || engine_is((pid_t)process->pid))
                return 0;
        target->publication.stations_address = address;
        return callbacks->stations ? callbacks->stations(callbacks->userdata, process) : 0;
}

static void note_find(Targets *targets, uint32_t tgid, const SearchFinding *finding) {
        if (finding->is_swept)
                sweep_results_add(&targets->sweep.sweep_results, tgid, SWEEP_PUBLICATION,
                                  clock_monotonic_ns());
}

static int take_finding(Targets *targets, Target *target, const SearchFinding *finding) {
        int r = 0;

        if (finding->ring_address) {
                publication_set_ring(&target->publication, finding->ring_address, finding->ring_capacity);
                r = renew_row(targets, target);
                note_find(targets, target->process->pid, finding);
        }
        if (!r)
                r = take_stations(targets, target, finding->stations_address);
        if (r || !finding->context_address || target->publication.context)
                return r;
        return set_context(targets, target, finding->context_address);
}

/* Whether what was found is what it looks like. A ring's header has been checked. */
static bool is_publication(uint32_t tgid, const SearchFinding *finding) {
        _cleanup_(process_context_freep) ProcessContext *context = NULL;
        uint32_t version;
        int r;

        if (finding->ring_address || (finding->stations_address && !engine_is((pid_t)tgid)))
                return true;
        if (!finding->context_address)
                return false;
        r = process_context_read((pid_t)tgid, finding->context_address, &version, &context);
        return r == 0 || r == PROCESS_CONTEXT_E_BUSY;
}

/*
 * A search has found a ring, a process context or stations: in a target, or in a non-target that becomes one.
 */
static int on_found(void *userdata, uint32_t tgid, uint64_t start_time_ns, const SearchFinding *finding) {
        _cleanup_(process_freep) Process *process = NULL;
        Targets *targets = userdata;
        Target *target = targets_living(targets, tgid);
        SelectorReason reason;
        int r;

        if (target && target->process->start_time_ns != start_time_ns)
                return 0;
        if (target)
                return take_finding(targets, target, finding);
        if (!is_publication(tgid, finding))
                return 0;
        r = process_new(&process, (pid_t)tgid);
        if (r || process->start_time_ns != start_time_ns) {
                stat_add(COUNTER_TARGETS_VANISHED, 1);
                return r < 0 ? r : 0;
        }
        r = targets_decide(targets, &(SelectorFacts){ .pid = tgid, .comm = process->comm, .publishes = true },
                           &reason);
        if (r || !selector_is_chosen(reason))
                return r;
        r = targets_add(targets, &process, reason, finding, &target);
        if (r)
                return r < 0 ? r : 0;
        note_find(targets, tgid, finding);
        if (finding->context_address)
                r = set_context(targets, target, finding->context_address);
        if (!r)
                r = take_stations(targets, target, finding->stations_address);
        return r ? r : targets_read_mappings(targets, target);
}

/* One process of the pass over /proc. */
static int scan_process(Targets *targets, pid_t pid) {
        _cleanup_(process_freep) Process *process = NULL;
        char comm[ABI_COMM_SIZE];
        SelectorReason reason;
        ProcessStat stat;
        int r;

        r = process_identify(pid, &stat, comm);
        if (r) {
                stat_add(COUNTER_TARGETS_VANISHED, r == PROCESS_E_GONE);
                return 0;
        }
        r = targets_decide(
                targets, &(SelectorFacts){ .pid = (uint32_t)pid, .comm = comm, .is_kernel = stat.is_kernel },
                &reason);
        if (r)
                return r;
        targets->n_all += !stat.is_kernel && reason != SELECTOR_EXCLUDED;
        if (targets_living(targets, (uint32_t)pid))
                return 0;
        if (reason == SELECTOR_SILENT && !stat.is_kernel)
                return search_add(targets->search, (uint32_t)pid, stat.start_time_ns, clock_monotonic_ns());
        if (!selector_is_chosen(reason) || (reason == SELECTOR_ALL && stat.is_kernel))
                return 0;
        r = process_new(&process, pid);
        if (r) {
                stat_add(COUNTER_TARGETS_VANISHED, r > 0);
                return r < 0 ? r : 0;
        }
        r = targets_add_chosen(targets, &process, reason, NULL);
        return r < 0 ? r : 0;
}

static bool is_excluded(const Targets *targets, uint32_t pid) {
        char comm[ABI_COMM_SIZE];
        SelectorReason reason;
        ProcessStat stat;

        return process_identify((pid_t)pid, &stat, comm) == 0 &&
                targets_decide(targets,
                               &(SelectorFacts){ .pid = pid, .comm = comm, .is_kernel = stat.is_kernel },
                               &reason) == 0 &&
                reason == SELECTOR_EXCLUDED;
}

/* One that an exclude takes away again is there. */
static void find_missing_pid(Targets *targets) {
        const Selector *selector = targets->config.selector;

        targets->missing_pid = 0;
        targets->n_excluded_pids = 0;
        for (size_t i = 0; i < selector->n_pids && !targets->missing_pid; i++)
                if (!targets_living(targets, selector->pids[i])) {
                        if (is_excluded(targets, selector->pids[i]))
                                targets->n_excluded_pids++;
                        else
                                targets->missing_pid = selector->pids[i];
                }
}

int targets_scan(Targets *targets) {
        _cleanup_(closedirp) DIR *dir = opendir("/proc");
        uint32_t pid;
        int r;

        if (!dir)
                return error_origin(-errno);
        targets->n_all = 0;
        while (directory_next_number(dir, &pid)) {
                r = scan_process(targets, (pid_t)pid);
                if (r)
                        return r;
        }
        find_missing_pid(targets);
        return search_quick(targets->search, clock_monotonic_ns(), on_found, targets);
}

static int work_ring(Targets *targets, Target *target, uint64_t now_ns) {
        const Process *process = target->process;
        PublicationRing ring = publication_check_ring(&target->publication, process);
        int r = ring == PUBLICATION_RING_SAME ? 0 : renew_row(targets, target);

        if (r || ring != PUBLICATION_RING_LOST)
                return r;
        return search_add(targets->search, process->pid, process->start_time_ns, now_ns);
}

/* What it publishes, if it may have changed. */
static int work_publication(Targets *targets, Target *target, uint64_t cpu_ns, uint64_t now_ns) {
        Publication *publication = &target->publication;
        const Process *process = target->process;
        int r;

        if (!publication_may_differ(publication, cpu_ns))
                return 0;
        r = work_ring(targets, target, now_ns);
        if (!r)
                r = targets_poll_context(targets, target);
        if (!r && publication_is_link_due(publication, now_ns))
                r = targets_resolve_threads(targets, target);
        if (r || !publication_is_form_due(publication, now_ns))
                return r;
        return search_look(targets->search, process->pid, process->start_time_ns, false, now_ns);
}

/* Is this target still there; and its ring? */
static int work_target(Targets *targets, Target *target, uint64_t now_ns) {
        uint64_t cpu_ns;

        if (!process_cpu_time(target->process, &cpu_ns))
                return work_publication(targets, target, cpu_ns, now_ns);
        /*
         * The notice of an exit may be lost; it may also still be on its way, and it knows the CPU time
         * better.
         */
        if (target->missed_ns)
                return targets_end(targets, target, COUNTER_TARGETS_GONE, target->missed_ns, 0);
        target->missed_ns = now_ns;
        return 0;
}

/* A few targets each time, in the order of the table, so that a thousand of them cost no more than 64. */
static int work_targets(Targets *targets, uint64_t now_ns) {
        HashmapEntry *entry;
        int r;

        for (unsigned n = 0; n < TARGETS_PER_PASS; n++) {
                entry = hashmap_next(&targets->chains, &targets->pass_at);
                if (!entry) {
                        targets->pass_at = 0;
                        return 0;
                }
                if (((Target *)entry->value)->end_ns)
                        continue;
                r = work_target(targets, entry->value, now_ns);
                if (r)
                        return r;
        }
        return 0;
}

void targets_begin_turn(Targets *targets) {
        targets->text_left = TURN_TEXT;
}

bool targets_is_reading(const Targets *targets) {
        return targets->first_reading;
}

int targets_work(Targets *targets, uint64_t now_ns, uint64_t *next_nsp) {
        uint64_t next_ns, sweep_ns;
        int r;

        targets_begin_turn(targets);
        while (targets->first_dead && targets->first_dead->end_ns + TARGETS_KEEP_NS <= now_ns)
                targets_forget_oldest_dead(targets);
        r = targets_expire_rejects(targets, now_ns);
        if (r)
                return r;
        if (now_ns >= targets->next_pass_ns) {
                targets->next_pass_ns = now_ns + WORK_INTERVAL_NS;
                r = work_targets(targets, now_ns);
                if (r)
                        return r;
        }
        r = targets_sweep(targets, now_ns, &sweep_ns);
        if (r)
                return r;
        r = targets_go_on_reading(targets);
        if (r)
                return r;
        r = search_work(targets->search, now_ns, on_found, targets, &next_ns);
        *next_nsp = MIN(MIN(next_ns, sweep_ns), targets->next_pass_ns);
        if (targets->first_reading)
                *next_nsp = MIN(*next_nsp, now_ns + READ_INTERVAL_NS);
        return r;
}

void targets_begin_cpu_time(Targets *targets) {
        HashmapEntry *entry;
        uint32_t at = 0;

        while ((entry = hashmap_next(&targets->chains, &at))) {
                Target *target = entry->value;

                if (!target->end_ns && process_cpu_time(target->process, &target->cpu_base_ns) == 0)
                        target->cpu_last_ns = target->cpu_base_ns;
        }
}

uint64_t targets_cpu_time_seen(Targets *targets) {
        uint64_t sum_ns = targets->cpu_done_ns;
        HashmapEntry *entry;
        uint32_t at = 0;

        while ((entry = hashmap_next(&targets->chains, &at))) {
                const Target *target = entry->value;

                if (!target->end_ns)
                        sum_ns += target->cpu_last_ns - MIN(target->cpu_last_ns, target->cpu_base_ns);
        }
        targets->cpu_reported_ns = MAX(targets->cpu_reported_ns, sum_ns);
        return targets->cpu_reported_ns;
}

uint64_t targets_cpu_time(Targets *targets) {
        HashmapEntry *entry;
        uint32_t at = 0;
        uint64_t now_ns;

        while ((entry = hashmap_next(&targets->chains, &at))) {
                Target *target = entry->value;

                if (!target->end_ns && process_cpu_time(target->process, &now_ns) == 0)
                        target->cpu_last_ns = now_ns;
        }
        return targets_cpu_time_seen(targets);
}

size_t targets_count(const Targets *targets) {
        return targets->n_alive;
}

size_t targets_count_all(const Targets *targets) {
        return targets->n_all;
}

uint32_t targets_missing_pid(const Targets *targets) {
        return targets->missing_pid;
}

size_t targets_n_excluded_pids(const Targets *targets) {
        return targets->n_excluded_pids;
}

void targets_each(Targets *targets,
                  void (*visit)(void *userdata, const Process *process, SelectorReason reason),
                  void *userdata) {
        HashmapEntry *entry;
        uint32_t at = 0;

        while ((entry = hashmap_next(&targets->chains, &at))) {
                const Target *target = entry->value;

                if (!target->end_ns)
                        visit(userdata, target->process, target->reason);
        }
}
