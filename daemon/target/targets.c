/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Three kinds of processes:
 *
 *     target     has a Target here and a row TARGET in the kernel's table
 *     rejected   was undecided, no selector chose it; has a row REJECTED for a while (its name may change)
 *     stranger   everybody else; known here only while its memory is being searched for a ring
 *
 * All programs that a pid ran hang on one chain, newest first: the current one, then those that exec has
 * replaced or that have exited, for as long as samples of theirs may arrive.
 */
#include "target/targets.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "target/rejects.h"
#include "target/ring.h"
#include "target/search.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/file.h"
#include "util/hashmap.h"
#include "util/log.h"
#include "util/stat.h"
#include "util/text.h"

enum {
        MAX_DEAD = 4096,                        /* over it the oldest is forgotten early */
        MAX_REJECTED = ABI_MAX_PROCESSES / 2,   /* over it rejected processes are decided anew at each sample */
        TARGETS_PER_PASS = 64,                  /* that are looked at in one pass */
};

#define REJECTED_KEEP_NS (10 * NS_PER_SEC)      /* then its name is looked at again */
#define REFRESH_MIN_NS (100 * NS_PER_MS)
#define REFRESH_MAX_NS (10 * NS_PER_SEC)
#define WORK_INTERVAL_NS NS_PER_SEC

typedef struct Target {
        Process *process;
        struct Target *older;           /* the program before it, same pid */
        struct Target *next_dead;       /* in the order of death */
        SelectorReason reason;
        uint64_t begin_ns;              /* exec; 0 = as long as the process lives */
        uint64_t end_ns;                /* 0 = alive */
        uint64_t missed_ns;             /* when it was first seen gone without a notice of its exit */
        uint64_t cpu_base_ns, cpu_last_ns;
        uint64_t refresh_ns, refresh_interval_ns;       /* when mappings may be read again */
} Target;

struct Targets {
        TargetsConfig config;
        Hashmap chains;                 /* tgid → newest Target */
        Rejects rejects;
        Target *first_dead, **last_deadp;
        size_t n_alive, n_dead, n_all;
        uint64_t last_generation;
        uint64_t cpu_done_ns;           /* of those that are gone */
        uint64_t cpu_reported_ns;
        uint64_t start_ticks_ns;        /* BOOTTIME when the set was made */
        uint64_t next_pass_ns;
        uint32_t pass_at;               /* where the next pass over the targets goes on */
        uint32_t missing_pid;
        Search *search;
};

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
        r = search_new(&targets->search);
        if (r)
                return error_fold(r);
        *targetsp = take(targets);
        return 0;
}

static void target_free(Target *target) {
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
                        target_free(target);
                }
        hashmap_deinit(&targets->chains);
        rejects_deinit(&targets->rejects);
        search_free(targets->search);
        free(targets);
        return NULL;
}

/* The kernel half tells the exact start, /proc the tick before it. */
static uint64_t start_tick(uint64_t start_time_ns) {
        return start_time_ns - start_time_ns % ABI_START_TICK_NS;
}

/* The living target with this id, or NULL. */
static Target *living(const Targets *targets, uint32_t tgid) {
        Target *target = hashmap_get(&targets->chains, tgid);

        return target && !target->end_ns ? target : NULL;
}

static int set_row(Targets *targets, const Target *target) {
        struct abi_process row = {
                .generation = target->process->generation,
                .start_time_ns = target->process->start_time_ns,
                .ring_address = target->process->ring_address,
                .ring_capacity = target->process->ring_capacity,
                .state = ABI_STATE_TARGET,
        };

        return targets->config.callbacks.row_set(targets->config.callbacks.userdata, target->process->pid, &row);
}

static int remove_row(Targets *targets, uint32_t tgid) {
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
        target_free(dead);
}

static void forget_oldest_dead(Targets *targets) {
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
                forget_oldest_dead(targets);
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
static int end_target(Targets *targets, Target *target, enum counter event, uint64_t end_ns,
                      uint64_t cpu_total_ns) {
        uint32_t tgid = target->process->pid;

        settle_cpu(targets, target, cpu_total_ns);
        stat_add(event, 1);
        log_write_target(LOG_LEVEL_DEBUG, tgid, "%s is gone", target->process->comm);
        bury(targets, target, end_ns);
        return remove_row(targets, tgid);
}

/* A rejected process loses its row, and may be decided anew. */
static int unreject(Targets *targets, uint32_t tgid) {
        return rejects_remove(&targets->rejects, tgid) ? remove_row(targets, tgid) : 0;
}

static int reject(Targets *targets, uint32_t tgid, uint64_t start_time_ns) {
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

static int expire_rejects(Targets *targets, uint64_t now_ns) {
        uint32_t tgid;
        int r;

        while ((tgid = rejects_expired(&targets->rejects, now_ns))) {
                r = unreject(targets, tgid);
                if (r)
                        return r;
        }
        return 0;
}

/* Reads the mappings; a process that goes away meanwhile stays with what it has. */
static int read_mappings(Targets *targets, Target *target) {
        const TargetsCallbacks *callbacks = &targets->config.callbacks;
        int r = process_read_mappings(target->process, targets->config.objects);

        if (r == PROCESS_E_GONE)
                stat_add(COUNTER_TARGETS_VANISHED, 1);
        if (!r && callbacks->mapped)
                r = callbacks->mapped(callbacks->userdata, target->process);
        return r < 0 ? r : 0;
}

/* A process that was born after us was a target (or undecided) from its first instant on. */
static uint64_t cpu_base(const Targets *targets, const Process *process) {
        uint64_t now_ns;

        if (process_cpu_time(process, &now_ns))
                return 0;
        return selector_is_by_name(targets->config.selector) && process->start_time_ns > targets->start_ticks_ns
                       ? 0 : now_ns;
}

/* Puts a program on top of its chain. Takes the process over on success. */
static int push(Targets *targets, Process *process, SelectorReason reason, Target **targetp) {
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
        target->refresh_interval_ns = REFRESH_MIN_NS;
        targets->n_alive++;
        *targetp = target;
        return 0;
}

/* An id that is used again while the notice of its former owner's exit was lost; or one that was rejected. */
static int clear_id(Targets *targets, uint32_t tgid) {
        Target *former = living(targets, tgid);

        if (former)
                return end_target(targets, former, COUNTER_TARGETS_GONE, clock_monotonic_ns(), 0);
        return unreject(targets, tgid);
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
static int add_target(Targets *targets, Process **processp, SelectorReason reason, Target **targetp) {
        Target *target = NULL;
        int r;

        r = clear_id(targets, (*processp)->pid);
        if (r)
                return r;
        if (targets->n_alive >= targets->config.max_targets)
                return refuse_over_cap(targets, *processp);
        r = push(targets, *processp, reason, &target);
        if (r)
                return r;
        r = set_row(targets, target);
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

/* Its ring was found. */
static int set_ring(Targets *targets, Target *target, uint64_t address, uint32_t capacity) {
        int r;

        if (address && address != target->process->ring_address)
                stat_add(COUNTER_RING_FOUND, 1);
        target->process->ring_address = address;
        target->process->ring_capacity = capacity;
        r = set_row(targets, target);
        return r > 0 ? 0 : r;
}

/* A search has found a ring: in a target, or in a stranger that becomes one. */
static int on_ring(void *userdata, uint32_t tgid, uint64_t start_time_ns, uint64_t address, uint32_t capacity) {
        _cleanup_(process_freep) Process *process = NULL;
        Targets *targets = userdata;
        Target *target = living(targets, tgid);
        SelectorReason reason;
        int r;

        if (target)
                return target->process->start_time_ns == start_time_ns ? set_ring(targets, target, address, capacity)
                                                                       : 0;
        r = process_new(&process, (pid_t)tgid);
        if (r || process->start_time_ns != start_time_ns) {
                stat_add(COUNTER_TARGETS_VANISHED, 1);
                return r < 0 ? r : 0;
        }
        reason = selector_decide(targets->config.selector, tgid, process->comm, true);
        if (!selector_is_chosen(reason))
                return 0;
        process->ring_address = address;
        process->ring_capacity = capacity;
        stat_add(COUNTER_RING_FOUND, 1);
        r = add_target(targets, &process, reason, &target);
        if (r)
                return r < 0 ? r : 0;
        return read_mappings(targets, target);
}

/* Chosen by pid, name or --all: with mappings and, if it is there, its ring. */
static int add_chosen(Targets *targets, Process **processp, SelectorReason reason, Target **targetp) {
        Target *target;
        int r;

        r = add_target(targets, processp, reason, &target);
        if (r)
                return r;
        if (targetp)
                *targetp = target;
        /* Under --all most processes are never on a CPU: their mappings are read at their first sample. */
        if (reason != SELECTOR_ALL) {
                r = read_mappings(targets, target);
                if (r)
                        return r;
        }
        if (target->process->is_kernel)
                return 0;
        return search_add(targets->search, target->process->pid, target->process->start_time_ns,
                          clock_monotonic_ns());
}

/* One process of the pass over /proc. */
static int scan_process(Targets *targets, pid_t pid) {
        const Selector *selector = targets->config.selector;
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
        reason = selector_decide(selector, (uint32_t)pid, comm, false);
        targets->n_all += !stat.is_kernel && reason != SELECTOR_EXCLUDED;
        if (living(targets, (uint32_t)pid))
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
        r = add_chosen(targets, &process, reason, NULL);
        return r < 0 ? r : 0;
}

static void find_missing_pid(Targets *targets) {
        const Selector *selector = targets->config.selector;

        targets->missing_pid = 0;
        for (size_t i = 0; i < selector->n_pids && !targets->missing_pid; i++)
                if (!living(targets, selector->pids[i]))
                        targets->missing_pid = selector->pids[i];
}

static void closedirp(DIR **dirp) {
        if (*dirp)
                closedir(*dirp);
}

int targets_scan(Targets *targets) {
        _cleanup_(closedirp) DIR *dir = opendir("/proc");
        struct dirent *entry;
        uint64_t pid;
        int r;

        if (!dir)
                return error_origin(-errno);
        targets->n_all = 0;
        while ((entry = readdir(dir))) {
                if (text_u64(entry->d_name, INT32_MAX, &pid))
                        continue;
                r = scan_process(targets, (pid_t)pid);
                if (r)
                        return r;
        }
        find_missing_pid(targets);
        return search_quick(targets->search, clock_monotonic_ns(), on_ring, targets);
}

/* What the new program of an exec is to us. *processp = NULL: nothing; it may have gone already. */
static int decide_exec(Targets *targets, const struct abi_notice *notice, Process **processp,
                       SelectorReason *reasonp) {
        char comm[ABI_COMM_SIZE] = { 0 };
        int r;

        memcpy(comm, notice->comm, sizeof(comm) - 1);
        *processp = NULL;
        *reasonp = selector_decide(targets->config.selector, notice->tgid, comm, false);
        if (!selector_is_chosen(*reasonp))
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
        return end_target(targets, old, same ? COUNTER_TARGETS_EXEC : COUNTER_TARGETS_GONE, notice->time_ns, cpu_ns);
}

static int notice_exec(Targets *targets, const struct abi_notice *notice) {
        _cleanup_(process_freep) Process *process = NULL;
        Target *old = living(targets, notice->tgid), *target = NULL;
        SelectorReason reason;
        int r;

        /* It may have been found with the new program already, before the notice of it came. */
        if (old && old->process->start_time_ns == notice->start_time_ns && old->process->read_ns > notice->time_ns)
                return 0;
        search_remove(targets->search, notice->tgid);
        r = old ? end_old_program(targets, old, notice) : unreject(targets, notice->tgid);
        if (!r)
                r = decide_exec(targets, notice, &process, &reason);
        if (r || !process)
                return r;
        /* Under --all a new program costs nothing until its first sample. */
        if (!old && reason == SELECTOR_ALL)
                return 0;
        r = add_chosen(targets, &process, reason, &target);
        if (r)
                return r < 0 ? r : 0;
        target->begin_ns = notice->time_ns;
        return 0;
}

/* CPU time of a process that came and went between two ticks belongs to the time that we stand for. */
static void settle_unseen(Targets *targets, const struct abi_notice *notice) {
        char comm[ABI_COMM_SIZE] = { 0 };

        memcpy(comm, notice->comm, sizeof(comm) - 1);
        if (selector_is_by_name(targets->config.selector) && notice->start_time_ns > targets->start_ticks_ns &&
            selector_is_chosen(selector_decide(targets->config.selector, notice->tgid, comm, false)))
                targets->cpu_done_ns += notice->value;
}

/* Whether this very process is or was a target. */
static bool is_known(const Targets *targets, const struct abi_notice *notice) {
        const Target *target = hashmap_get(&targets->chains, notice->tgid);

        return target && target->process->start_time_ns == notice->start_time_ns;
}

static int notice_exit(Targets *targets, const struct abi_notice *notice) {
        Target *target = living(targets, notice->tgid);

        search_remove(targets->search, notice->tgid);
        if (target && target->process->start_time_ns == notice->start_time_ns)
                return end_target(targets, target, COUNTER_TARGETS_GONE, notice->time_ns, notice->value);
        if (!is_known(targets, notice) && !rejects_contains(&targets->rejects, notice->tgid))
                settle_unseen(targets, notice);
        return unreject(targets, notice->tgid);
}

static int notice_mappings(Targets *targets, const struct abi_notice *notice) {
        const Target *target = living(targets, notice->tgid);
        SelectorReason reason = selector_decide(targets->config.selector, notice->tgid, "", false);

        if (reason == SELECTOR_EXCLUDED || (target && target->process->ring_address) ||
            (!target && !selector_is_default(targets->config.selector)))
                return 0;
        return search_add(targets->search, notice->tgid, notice->start_time_ns, clock_monotonic_ns());
}

int targets_notice(Targets *targets, const struct abi_notice *notice) {
        struct abi_notice copy = *notice;

        copy.start_time_ns = start_tick(notice->start_time_ns);
        switch (copy.kind) {
        case ABI_NOTICE_EXEC:
                return notice_exec(targets, &copy);
        case ABI_NOTICE_EXIT:
                return notice_exit(targets, &copy);
        case ABI_NOTICE_MAPPINGS:
                return notice_mappings(targets, &copy);
        default:
                return 0;
        }
}

/* Is this target still there; and its ring? (A new one is announced by a notice.) */
static int work_target(Targets *targets, Target *target, uint64_t now_ns) {
        Process *process = target->process;
        uint64_t cpu_ns;
        int r;

        /* The notice of an exit may be lost; it may also still be on its way, and it knows the CPU time better. */
        if (process_cpu_time(process, &cpu_ns)) {
                if (target->missed_ns)
                        return end_target(targets, target, COUNTER_TARGETS_GONE, target->missed_ns, 0);
                target->missed_ns = now_ns;
                return 0;
        }
        if (!process->ring_address ||
            ring_check((pid_t)process->pid, process->ring_address, process->ring_capacity) != RING_E_NONE)
                return 0;
        stat_add(COUNTER_RING_LOST, 1);
        log_write_target(LOG_LEVEL_DEBUG, process->pid, "its context ring is gone");
        r = set_ring(targets, target, 0, 0);
        return r ? r : search_add(targets->search, process->pid, process->start_time_ns, now_ns);
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

int targets_work(Targets *targets, uint64_t now_ns, uint64_t *next_nsp) {
        uint64_t next_ns;
        int r;

        while (targets->first_dead && targets->first_dead->end_ns + TARGETS_KEEP_NS <= now_ns)
                forget_oldest_dead(targets);
        r = expire_rejects(targets, now_ns);
        if (r)
                return r;
        if (now_ns >= targets->next_pass_ns) {
                targets->next_pass_ns = now_ns + WORK_INTERVAL_NS;
                r = work_targets(targets, now_ns);
                if (r)
                        return r;
        }
        r = search_work(targets->search, now_ns, on_ring, targets, &next_ns);
        *next_nsp = MIN(next_ns, targets->next_pass_ns);
        return r;
}

/* Mappings are read when they are needed first. */
static int ensure_mappings(Targets *targets, Target *target) {
        Process *process = target->process;

        if (process->maps_read_ns || process->is_kernel || target->end_ns ||
            target->refresh_ns > clock_monotonic_ns())
                return 0;
        target->refresh_ns = clock_monotonic_ns() + REFRESH_MIN_NS;
        return read_mappings(targets, target);
}

/* The program that the process ran at @time_ns, or NULL. */
static Target *find_program(const Targets *targets, uint32_t tgid, uint64_t start_time_ns, uint64_t time_ns) {
        Target *target = hashmap_get(&targets->chains, tgid);

        while (target && (target->process->start_time_ns != start_time_ns || time_ns < target->begin_ns))
                target = target->older;
        return target;
}

/* Who it is, as far as that can still be known. Return: 0, TARGETS_E_REJECTED = gone and nameless, -errno. */
static int identify_sampled(const struct abi_sample *sample, uint64_t start_time_ns, Process **processp) {
        int r = process_new(processp, (pid_t)sample->tgid);

        if (!r && (*processp)->start_time_ns == start_time_ns)
                return 0;
        if (r < 0)
                return r;
        *processp = process_free(*processp);
        stat_add(COUNTER_TARGETS_VANISHED, 1);
        /* The leader's name is what selectors go by; another thread may have its own. */
        return sample->tid == sample->tgid
                       ? process_new_gone(processp, (pid_t)sample->tgid, start_time_ns, sample->comm)
                       : TARGETS_E_REJECTED;
}

/* Decides on a process that was sampled while undecided. */
static int decide_sampled(Targets *targets, const struct abi_sample *sample, uint64_t start_time_ns,
                          Target **targetp) {
        _cleanup_(process_freep) Process *process = NULL;
        SelectorReason reason;
        int r;

        r = identify_sampled(sample, start_time_ns, &process);
        if (r)
                return r;
        reason = selector_decide(targets->config.selector, sample->tgid, process->comm, false);
        r = selector_is_chosen(reason) ? add_chosen(targets, &process, reason, targetp) : TARGETS_E_REJECTED;
        if (r != TARGETS_E_REJECTED)
                return r;
        r = reject(targets, sample->tgid, start_time_ns);
        return r ? r : TARGETS_E_REJECTED;
}

int targets_admit(Targets *targets, const struct abi_sample *sample, Process **processp) {
        uint64_t start_time_ns = start_tick(sample->start_time_ns);
        Target *target = find_program(targets, sample->tgid, start_time_ns, sample->time_ns);
        const Target *now = living(targets, sample->tgid);
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
        r = ensure_mappings(targets, target);
        if (r)
                return r;
        *processp = target->process;
        return 0;
}

int targets_refresh(Targets *targets, Process *process) {
        Target *target = living(targets, process->pid);
        uint64_t now_ns = clock_monotonic_ns(), serial = process->maps_serial;
        int r;

        if (!target || target->process != process || now_ns < target->refresh_ns)
                return TARGETS_E_NOT_NOW;
        r = read_mappings(targets, target);
        if (process->maps_serial != serial)
                target->refresh_interval_ns = REFRESH_MIN_NS;
        else
                target->refresh_interval_ns = MIN(2 * target->refresh_interval_ns, REFRESH_MAX_NS);
        target->refresh_ns = now_ns + target->refresh_interval_ns;
        return r;
}

uint64_t targets_cpu_time(Targets *targets) {
        uint64_t sum_ns = targets->cpu_done_ns, now_ns;
        HashmapEntry *entry;
        uint32_t at = 0;

        while ((entry = hashmap_next(&targets->chains, &at))) {
                Target *target = entry->value;

                if (target->end_ns)
                        continue;
                if (process_cpu_time(target->process, &now_ns) == 0)
                        target->cpu_last_ns = now_ns;
                sum_ns += target->cpu_last_ns - MIN(target->cpu_last_ns, target->cpu_base_ns);
        }
        targets->cpu_reported_ns = MAX(targets->cpu_reported_ns, sum_ns);
        return targets->cpu_reported_ns;
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

void targets_each(Targets *targets, void (*visit)(void *userdata, const Process *process, SelectorReason reason),
                  void *userdata) {
        HashmapEntry *entry;
        uint32_t at = 0;

        while ((entry = hashmap_next(&targets->chains, &at))) {
                const Target *target = entry->value;

                if (!target->end_ns)
                        visit(userdata, target->process, target->reason);
        }
}
