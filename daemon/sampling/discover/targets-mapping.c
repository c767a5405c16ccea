/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What is known of a target's mappings comes from two sides:
 *
 *     a read of /proc/PID/maps    all of them, at one time; only while the process lives
 *     notices of the kernel       each new one, at its time; they outlive the process
 *
 * A notice older than the last read tells only when things happened that the read has seen. A process that is
 * gone before its first read is put together from the notices since its exec.
 */
#include "sampling/discover/targets-private.h"

#include <errno.h>
#include <string.h>

#include "base/util/error.h"

enum {
        RECALL_DEPTH = 8,               /* forks of forks that are all gone */
        FLOOD_MAPPINGS = 1024,          /* where each change costs a copy of so many mappings, */
        FLOOD_CHANGES = 256,            /* … there are no more of them in one go */
        MAX_READING = 32,               /* targets whose maps are open from turn to turn */
        /* no notice tells of munmap(): over it, and twice as many, a new read */
        GONE_MAPPINGS_MAX = 64,
};

#define REFRESH_MAX_NS (10 * NS_PER_SEC)
#define EXEC_MAX_NS NS_PER_SEC          /* from the begin of an exec to the notice of its end */

/* Tells what is mapped now; from then on stacks are walked by it. */
static int tell_mappings(Targets *targets, Target *target) {
        const TargetsCallbacks *callbacks = &targets->config.callbacks;
        int r = callbacks->mapped ? callbacks->mapped(callbacks->userdata, target->process) : 0;

        if (!r && !target->end_ns)
                r = targets_resolve_threads(targets, target);
        mapping_history_publish(&target->process->history, clock_monotonic_ns());
        return r;
}

/* Once a program: what it says of itself stands in the environment that exec gave it. */
static int read_identity(Targets *targets, Process *process) {
        unsigned what = IDENTITY_CGROUP | (targets->config.environment ? IDENTITY_ENVIRONMENT : 0);
        int r = process->identity || process->is_kernel ? 0 : process_read_identity(process, what);

        return r < 0 ? r : 0;
}

static void remember_reading(Targets *targets, Target *target) {
        Target **at = &targets->first_reading;

        while (*at)
                at = &(*at)->next_reading;
        *at = target;
        targets->n_reading++;
}

static void forget_reading(Targets *targets, Target *target) {
        Target **at = &targets->first_reading;

        while (*at && *at != target)
                at = &(*at)->next_reading;
        if (!*at)
                return;
        *at = target->next_reading;
        target->next_reading = NULL;
        targets->n_reading--;
}

void targets_stop_reading(Targets *targets, Target *target) {
        forget_reading(targets, target);
        target->reading = process_reading_free(target->reading);
}

/* As much as this turn allows. What notices tell meanwhile is noted, up to a number. */
static int read_some(Targets *targets, Target *target) {
        bool begins = !target->reading;
        int r;

        if (begins)
                target->changed_much = false;
        r = process_read_some(target->process, targets->config.objects, &targets->text_left,
                              &target->reading);
        if (r == PROCESS_E_MORE) {
                if (begins)
                        remember_reading(targets, target);
                return 0;
        }
        forget_reading(targets, target);
        stat_add(COUNTER_TARGETS_VANISHED, r == PROCESS_E_GONE);
        if (r)
                return MIN(r, 0);
        target->is_outdated = target->changed_much;
        target->n_read = target->process->n_mappings;
        return tell_mappings(targets, target);
}

int targets_read_mappings(Targets *targets, Target *target) {
        int r = read_identity(targets, target->process);

        if (r || target->reading)
                return r;
        if (targets->n_reading >= MAX_READING) {
                target->is_outdated = true;
                return 0;
        }
        return read_some(targets, target);
}

/* In the order in which they began; who begins again comes last. */
int targets_go_on_reading(Targets *targets) {
        for (Target *target = targets->first_reading, *next; target && targets->text_left; target = next) {
                int r;

                next = target->next_reading;
                r = read_some(targets, target);
                if (r)
                        return r;
        }
        return 0;
}

int targets_refresh(Targets *targets, Process *process) {
        Target *target = targets_living(targets, process->pid);
        uint64_t now_ns = clock_monotonic_ns(), serial = process->maps_serial;
        int r;

        if (!target || target->process != process || now_ns < target->refresh_ns)
                return TARGETS_E_NOT_NOW;
        r = targets_read_mappings(targets, target);
        if (process->maps_serial != serial)
                target->refresh_interval_ns = TARGETS_REFRESH_MIN_NS;
        else
                target->refresh_interval_ns = MIN(2 * target->refresh_interval_ns, REFRESH_MAX_NS);
        target->refresh_ns = now_ns + target->refresh_interval_ns;
        return r;
}

/* ---- processes that are gone ---- */

typedef struct Recall {
        Targets *targets;
        Process *process;
} Recall;

/* The first file that a program maps is its executable. */
static int recall_mapping(void *userdata, const MappingNotice *notice) {
        Recall *recall = userdata;
        Process *process = recall->process;
        Mapping mapping;
        int r;

        r = mapping_from_notice(&mapping, notice, recall->targets->config.objects, true);
        if (r)
                return r;
        if (!process->exe && mapping.kind != MAPPING_ANONYMOUS) {
                process->exe = strdup(mapping.path);
                if (!process->exe) {
                        mapping_deinit(&mapping);
                        return error_origin(-ENOMEM);
                }
        }
        return process_change(process, &mapping, notice->time_ns);
}

/* MONOTONIC, rounded down: as if the machine had not been suspended since. */
static uint64_t begin_of(const Process *process) {
        uint64_t offset_ns = clock_read_ns(CLOCK_BOOTTIME) - clock_monotonic_ns();

        return process->start_time_ns - MIN(process->start_time_ns, offset_ns);
}

static int recall(Recall *recall, uint32_t pid, uint64_t since_ns, uint64_t time_ns, unsigned depth);

/* The program that @pid ran at @time_ns, if it is a target's. */
static Target *program_at(const Targets *targets, uint32_t pid, uint64_t time_ns) {
        Target *target = hashmap_get(&targets->chains, pid);

        while (target && time_ns < target->begin_ns)
                target = target->older;
        return target && (!target->end_ns || time_ns <= target->end_ns) ? target : NULL;
}

/* A parent that is no target; it has not run another program since then. */
static int inherit_from_non_target(Recall *recall, const NoticeHistoryOrigin *origin) {
        /* of one with very many there is no time to wait for the rest */
        _cleanup_(process_reading_freep) ProcessReading *reading = NULL;
        _cleanup_(process_freep) Process *parent = NULL;
        int r = process_new(&parent, (pid_t)origin->parent);

        if (!r && begin_of(parent) > origin->time_ns)
                r = PROCESS_E_GONE;
        if (!r)
                r = process_read_some(parent, recall->targets->config.objects, &recall->targets->text_left,
                                      &reading);
        if (r)
                return r < 0 ? r : NOTICE_HISTORY_E_UNKNOWN;
        return process_inherit(recall->process, parent, origin->time_ns);
}

/*
 * What it was forked with. Its parent may be as dead as itself, and the parent's parent: no more than
 * RECALL_DEPTH of them.
 */
static int recall_parent(Recall *from, const NoticeHistoryOrigin *origin, unsigned depth) {
        Target *parent = program_at(from->targets, origin->parent, origin->time_ns);
        int r;

        if (parent && !parent->process->maps_serial && !parent->end_ns) {
                r = targets_read_mappings(from->targets, parent);
                if (r)
                        return r;
        }
        if (parent && parent->process->maps_serial)
                return process_inherit(from->process, parent->process, origin->time_ns);
        r = depth < RECALL_DEPTH ? recall(from, origin->parent, 0, origin->time_ns, depth + 1)
                                 : NOTICE_HISTORY_E_UNKNOWN;
        return r == NOTICE_HISTORY_E_UNKNOWN ? inherit_from_non_target(from, origin) : r;
}

static int recall(Recall *recall, uint32_t pid, uint64_t since_ns, uint64_t time_ns, unsigned depth) {
        const NoticeHistory *notice_history = recall->targets->notice_history;
        NoticeHistoryOrigin origin;
        int r = notice_history_find_origin(notice_history, pid, since_ns, time_ns, &origin);

        if (!r && origin.parent)
                r = recall_parent(recall, &origin, depth);
        return r ? r : notice_history_visit(notice_history, pid, since_ns, time_ns, recall_mapping, recall);
}

/* The first file that a program maps is its executable. */
static int recall_exe(void *userdata, const MappingNotice *notice) {
        Identity *identity = userdata;

        if (identity->exe || !notice->path_size || notice->path[0] != '/')
                return 0;
        identity->exe = strndup(notice->path, notice->path_size);
        return identity->exe ? 0 : error_origin(-ENOMEM);
}

static int identity_of_ancestor(const Targets *targets, uint32_t tgid, unsigned what, Identity **identityp) {
        for (unsigned i = 0; i < RECALL_DEPTH && tgid; i++) {
                _cleanup_(closep) int fd = -1;

                tgid = notice_history_parent(targets->notice_history, tgid);
                if (tgid && process_open_living((pid_t)tgid, 0, &fd, NULL) == 0)
                        return identity_new(identityp, fd, what);
        }
        return 0;
}

int targets_recall_identity(const Targets *targets, uint32_t tgid, unsigned what, Identity **identityp) {
        _cleanup_(identity_freep) Identity *identity = NULL;
        NoticeHistoryOrigin origin;
        int r;

        if (!targets->notice_history ||
            notice_history_find_origin(targets->notice_history, tgid, 0, UINT64_MAX, &origin))
                return 0;
        r = identity_of_ancestor(
                targets, tgid, origin.parent ? what : what & ~(unsigned)(IDENTITY_EXE | IDENTITY_ENVIRONMENT),
                &identity);
        if (!r && identity && !origin.parent && what & IDENTITY_EXE)
                r = notice_history_visit(targets->notice_history, tgid, 0, UINT64_MAX, recall_exe, identity);
        if (!r && identity && (identity->exe || !(what & IDENTITY_EXE)))
                *identityp = take(identity);
        return MIN(r, 0);
}

/* A fork is called what its parent is called. */
void targets_recall_comm(const Targets *targets, uint32_t tgid, uint64_t time_ns, char comm[ABI_COMM_SIZE]) {
        for (unsigned i = 0; i < RECALL_DEPTH && targets->notice_history; i++) {
                NoticeHistoryOrigin origin;
                ProcessStat stat;
                const Target *parent;

                if (notice_history_find_origin(targets->notice_history, tgid, 0, time_ns, &origin)) {
                        if (i)
                                process_identify((pid_t)tgid, &stat, comm);
                        return;
                }
                if (!origin.parent) {
                        memcpy(comm, origin.comm, ABI_COMM_SIZE);
                        return;
                }
                parent = program_at(targets, origin.parent, origin.time_ns);
                if (parent) {
                        memcpy(comm, parent->process->comm, ABI_COMM_SIZE);
                        return;
                }
                tgid = origin.parent;
                time_ns = origin.time_ns;
        }
}

static int recall_mappings(Targets *targets, Target *target, uint64_t time_ns) {
        Process *process = target->process;
        Recall from = { targets, process };
        int r;

        time_ns = notice_history_exec_under_way(targets->notice_history, process->pid, process->comm,
                                                time_ns);
        r = recall(&from, process->pid, begin_of(process), time_ns, 0);
        target->is_forgotten = r && target->end_ns;
        if (r)
                return MIN(r, 0);
        stat_add(COUNTER_MAPPINGS_RECALLED, 1);
        r = process->identity
                ? 0
                : targets_recall_identity(targets, process->pid, IDENTITY_CGROUP, &process->identity);
        if (r)
                return r;
        /* The kernel half has never heard of them: there are no rows that could have been wrong. */
        mapping_history_publish(&process->history, 1);
        return 0;
}

int targets_ensure_mappings(Targets *targets, Target *target, uint64_t time_ns) {
        uint64_t now_ns = clock_monotonic_ns();
        Process *process = target->process;
        int r;

        if (process->is_kernel || (process->maps_serial && !target->is_outdated))
                return 0;
        if (!target->end_ns && target->refresh_ns <= now_ns) {
                target->refresh_ns = now_ns + TARGETS_REFRESH_MIN_NS;
                r = targets_read_mappings(targets, target);
                if (r)
                        return r;
        }
        return process->maps_serial || target->reading || !targets->notice_history || target->is_forgotten
                ? 0
                : recall_mappings(targets, target, time_ns);
}

/* ---- notices ---- */

static void add_changed(Targets *targets, Target *target) {
        if (target->is_changed)
                return;
        target->is_changed = true;
        target->next_changed = targets->first_changed;
        targets->first_changed = target;
}

/* Whether a notice is about the program of @target, and its mappings are known. */
static bool concerns(Target *target, const MappingNotice *notice) {
        if ((!target->process->maps_serial && !target->reading) ||
            (target->end_ns && notice->time_ns > target->end_ns))
                return false;
        if (!target->exec_ns || notice->time_ns < target->exec_ns)
                return true;
        /* The notice of that exec was lost. */
        if (notice->time_ns > target->exec_ns + EXEC_MAX_NS) {
                target->exec_ns = 0;
                target->is_outdated = true;
        }
        return false;
}

/* A file that was never seen: the process shows it while it lives; else it may be found by its path. */
static int open_noticed(Targets *targets, Target *target, const MappingNotice *notice, Mapping *mapping) {
        int r = targets_refresh(targets, target->process);

        mapping_deinit(mapping);
        if (r < 0)
                return r;
        target->is_outdated = target->process->maps_read_ns < notice->time_ns;
        return mapping_from_notice(mapping, notice, targets->config.objects, target->is_outdated);
}

/*
 * A process with thousands of executable mappings that changes them all the time is read again, and ever less
 * often.
 */
static bool is_flood(Target *target) {
        if (target->process->n_mappings <= FLOOD_MAPPINGS || ++target->n_changes <= FLOOD_CHANGES)
                return false;
        if (target->n_changes == FLOOD_CHANGES + 1) {
                target->refresh_interval_ns = MIN(2 * target->refresh_interval_ns, REFRESH_MAX_NS);
                target->refresh_ns = clock_monotonic_ns() + target->refresh_interval_ns;
        }
        target->is_outdated = target->changed_much = true;
        return true;
}

/* The reading may have come by already. */
static int note_change(Target *target, const Mapping *mapping, uint64_t time_ns) {
        int r = target->reading ? process_reading_note(target->reading, mapping, time_ns) : 0;

        target->changed_much |= r == PROCESS_E_MORE;
        return MIN(r, 0);
}

int targets_mapping(Targets *targets, const MappingNotice *notice) {
        Target *target = hashmap_get(&targets->chains, notice->pid);
        Mapping mapping = { 0 };
        int r = targets->notice_history ? notice_history_add_mapping(targets->notice_history, notice) : 0;

        if (r || !target || !concerns(target, notice) || is_flood(target))
                return r;
        r = mapping_from_notice(&mapping, notice, targets->config.objects, false);
        if (!r && mapping.kind == MAPPING_UNREADABLE && notice->time_ns > target->process->maps_read_ns)
                r = open_noticed(targets, target, notice, &mapping);
        if (!r)
                r = note_change(target, &mapping, notice->time_ns);
        if (r || !target->process->maps_serial) {       /* which is being read for the first time */
                mapping_deinit(&mapping);
                return r;
        }
        r = process_change(target->process, &mapping, notice->time_ns);
        if (target->process->n_mappings > 2 * target->n_read + GONE_MAPPINGS_MAX)
                target->is_outdated = true;
        add_changed(targets, target);
        return r;
}

int targets_exec_begins(Targets *targets, uint32_t tgid, const char comm[ABI_COMM_SIZE], uint64_t time_ns) {
        Target *target = targets_living(targets, tgid);

        if (target && time_ns > MAX(target->begin_ns, target->process->read_ns))
                target->exec_ns = time_ns;
        return targets->notice_history ? notice_history_add_exec(targets->notice_history, tgid, comm, time_ns)
                                       : 0;
}

/* A child that lives is read when it is sampled; this is for those that will be gone by then. */
int targets_fork(Targets *targets, uint32_t tgid, uint32_t parent, uint64_t time_ns) {
        if (targets->tree)
                tree_fork(targets->tree, tgid, parent);
        return targets->notice_history
                ? notice_history_add_fork(targets->notice_history, tgid, parent, time_ns)
                : 0;
}

void targets_resync(Targets *targets) {
        HashmapEntry *entry;
        uint32_t at = 0;

        while ((entry = hashmap_next(&targets->chains, &at))) {
                Target *target = entry->value;

                target->is_outdated = target->changed_much = true;
                target->refresh_ns = 0;
        }
}

int targets_flush_mappings(Targets *targets) {
        int r = 0;

        while (targets->first_changed) {
                Target *target = targets->first_changed;

                targets->first_changed = target->next_changed;
                target->is_changed = false;
                target->n_changes = 0;
                if (!target->end_ns && !r)
                        r = tell_mappings(targets, target);
        }
        return r;
}

/*
 * Until its end was noticed, the kernel half walked the new program's stacks by the old one's rows: what it
 * met where the old one's code had been is not sure.
 */
int targets_inherit_past(Target *target, const Target *old) {
        MappingHistory *history = &target->process->history;

        for (size_t i = 0; i < old->process->n_mappings; i++) {
                const Mapping *mapping = &old->process->mappings[i];
                Mapping copy;
                int r = mapping_copy(&copy, mapping, mapping->start, mapping->end);

                if (!r)
                        r = mapping_history_add(history, &copy, 0, 0);
                if (r)
                        return r;
        }
        mapping_history_publish(history, clock_monotonic_ns());
        return 0;
}
