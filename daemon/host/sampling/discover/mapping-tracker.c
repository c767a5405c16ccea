/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Learns the mappings of a program from two sides:
 *
 *     a read of /proc/PID/maps    all of them, at one time; only while the process lives
 *     notices of the kernel       each new one, at its time; they outlive the process
 *
 * A notice older than the last read tells only when things happened that the read has seen. A process that is
 * gone before its first read, or while its files were looked for, is put together from the notices since its
 * exec; one that was forked and has run nothing else, from what its parent had mapped at the fork.
 *
 * So is a living one, if its exec and all notices since then are here, and each file that it has mapped could
 * be found by its path. Its maps are not read then, which for a short program takes longer than all the rest:
 * the kernel prints 25 lines of which we need four, and opens a file by what it prints.
 */
#include "host/sampling/discover/mapping-tracker.h"

#include <errno.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/stat.h"

enum {
        FLOOD_MAPPINGS = 1024,          /* where each change costs a copy of so many mappings, */
        FLOOD_CHANGES = 256,            /* … there are no more of them in one go */
        TURN_TEXT = 1 << 20,            /* bytes of maps: 13,000 mappings, about 5 ms */
        MAX_READING = 32,               /* programs whose maps are open from turn to turn */
        /* no notice tells of munmap(): over it, and twice as many, a new read */
        GONE_MAPPINGS_MAX = 64,
};

#define REFRESH_MIN_NS (100 * NS_PER_MS)
#define REFRESH_MAX_NS (10 * NS_PER_SEC)
#define GROUP_KEEP_NS NS_PER_SEC
#define GROUP_GONE_NS (3 * NS_PER_SEC)          /* a group that cannot be read again */
#define EXEC_MAX_NS NS_PER_SEC          /* from the begin of an exec to the notice of its end */

void mapping_tracker_init(MappingTracker *tracker, const MappingTrackerConfig *config) {
        *tracker = (MappingTracker){ .config = *config, .text_left = SIZE_MAX };
}

void mapping_tracker_deinit(MappingTracker *tracker) {
        for (size_t i = 0; i < ARRAY_SIZE(tracker->groups); i++)
                identity_free(tracker->groups[i].identity);
}

void mapping_tracker_begin_turn(MappingTracker *tracker) {
        tracker->text_left = TURN_TEXT;
        object_cache_begin_turn(tracker->config.objects);
}

void mapping_tracker_begin(TrackedMappings *mappings, Process *process) {
        *mappings = (TrackedMappings){ .process = process, .refresh_interval_ns = REFRESH_MIN_NS };
}

/* Tells what is mapped now; from then on stacks are walked by it. */
static int tell_mappings(MappingTracker *tracker, TrackedMappings *mappings) {
        int r = tracker->config.changed(tracker->config.userdata, mappings);

        mapping_history_publish(&mappings->process->history, clock_monotonic_ns());
        return r;
}

/* Once a program: what it says of itself stands in the environment that exec gave it. */
static int read_identity(MappingTracker *tracker, Process *process, bool with_maps) {
        unsigned what = IDENTITY_CGROUP | (tracker->config.environment ? IDENTITY_ENVIRONMENT : 0);
        int r = process->identity || process->is_kernel ? 0 : process_read_identity(process, what, with_maps);

        return r < 0 ? r : 0;
}

static void remember_reading(MappingTracker *tracker, TrackedMappings *mappings) {
        TrackedMappings **at = &tracker->first_reading;

        while (*at)
                at = &(*at)->next_reading;
        *at = mappings;
        tracker->n_reading++;
}

static void forget_reading(MappingTracker *tracker, TrackedMappings *mappings) {
        TrackedMappings **at = &tracker->first_reading;

        while (*at && *at != mappings)
                at = &(*at)->next_reading;
        if (!*at)
                return;
        *at = mappings->next_reading;
        mappings->next_reading = NULL;
        tracker->n_reading--;
}

void mapping_tracker_end(MappingTracker *tracker, TrackedMappings *mappings, uint64_t end_ns) {
        forget_reading(tracker, mappings);
        mappings->reading = process_reading_free(mappings->reading);
        mappings->end_ns = end_ns;
}

/* As much as this turn allows. What notices tell meanwhile is noted, up to a number. */
static int read_some(MappingTracker *tracker, TrackedMappings *mappings) {
        bool begins = !mappings->reading;
        int r;

        if (begins)
                mappings->changed_much = false;
        r = process_read_some(mappings->process, tracker->config.objects, &tracker->text_left,
                              &mappings->reading);
        if (r == PROCESS_E_MORE) {
                if (begins)
                        remember_reading(tracker, mappings);
                return 0;
        }
        forget_reading(tracker, mappings);
        stat_add(COUNTER_TARGETS_VANISHED, r == PROCESS_E_GONE);
        if (r)
                return MIN(r, 0);
        mappings->is_outdated = mappings->changed_much;
        mappings->n_read = mappings->process->n_mappings;
        return tell_mappings(tracker, mappings);
}

int mapping_tracker_read(MappingTracker *tracker, TrackedMappings *mappings) {
        int r = read_identity(tracker, mappings->process, true);

        if (!r && !mappings->reading && tracker->n_reading < MAX_READING)
                return read_some(tracker, mappings);
        mappings->is_outdated |= !r && !mappings->reading;
        process_forget_look(mappings->process);
        return r;
}

int mapping_tracker_work(MappingTracker *tracker) {
        for (TrackedMappings *mappings = tracker->first_reading, *next; mappings && tracker->text_left;
             mappings = next) {
                int r;

                next = mappings->next_reading;
                r = read_some(tracker, mappings);
                if (r)
                        return r;
        }
        return 0;
}

int mapping_tracker_refresh(MappingTracker *tracker, TrackedMappings *mappings) {
        uint64_t now_ns = clock_monotonic_ns(), serial = mappings->process->maps_serial;
        int r;

        if (now_ns < mappings->refresh_ns)
                return MAPPING_TRACKER_E_NOT_NOW;
        r = mapping_tracker_read(tracker, mappings);
        if (mappings->process->maps_serial != serial)
                mappings->refresh_interval_ns = REFRESH_MIN_NS;
        else
                mappings->refresh_interval_ns = MIN(2 * mappings->refresh_interval_ns, REFRESH_MAX_NS);
        mappings->refresh_ns = now_ns + mappings->refresh_interval_ns;
        return r;
}

/* ---- processes that are gone ---- */

typedef struct Recall {
        MappingTracker *tracker;
        Process *process;
} Recall;

/* The first file that a program maps is its executable. */
static int recall_mapping(void *userdata, const MappingNotice *notice) {
        Recall *recall = userdata;
        Process *process = recall->process;
        Mapping mapping;
        int r;

        r = mapping_from_notice(&mapping, notice, recall->tracker->config.objects, true);
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

static uint64_t begin_of(const Process *process) {
        return process_begin_ns(process->start_time_ns);
}

static int recall(Recall *recall, uint32_t pid, uint64_t since_ns, uint64_t time_ns, unsigned depth);

/* A parent that is not profiled; it has not run another program since then. */
static int inherit_from_non_target(Recall *recall, const NoticeHistoryOrigin *origin) {
        /* a parent with very many mappings is read in part: there is no time to wait for the rest */
        _cleanup_(process_reading_freep) ProcessReading *reading = NULL;
        _cleanup_(process_freep) Process *parent = NULL;
        int r = process_new(&parent, (pid_t)origin->parent);

        if (!r && begin_of(parent) > origin->time_ns)
                r = PROCESS_E_GONE;
        if (!r)
                r = process_read_some(parent, recall->tracker->config.objects, &recall->tracker->text_left,
                                      &reading);
        if (r)
                return r < 0 ? r : NOTICE_HISTORY_E_UNKNOWN;
        return process_inherit(recall->process, parent, origin->time_ns);
}

/*
 * A fork begins with the mappings of its parent. The parent may be as dead as the child, and so may the
 * parent's parent: no more than NOTICE_HISTORY_DEPTH of them are asked.
 */
static int recall_parent(Recall *from, const NoticeHistoryOrigin *origin, unsigned depth) {
        const MappingTrackerConfig *config = &from->tracker->config;
        TrackedMappings *parent = config->program_at(config->userdata, origin->parent, origin->time_ns);
        int r;

        if (parent && !parent->process->maps_serial && !parent->end_ns) {
                r = mapping_tracker_read(from->tracker, parent);
                if (r)
                        return r;
        }
        if (parent && parent->process->maps_serial)
                return process_inherit(from->process, parent->process, origin->time_ns);
        r = depth < NOTICE_HISTORY_DEPTH ? recall(from, origin->parent, 0, origin->time_ns, depth + 1)
                                         : NOTICE_HISTORY_E_UNKNOWN;
        return r == NOTICE_HISTORY_E_UNKNOWN ? inherit_from_non_target(from, origin) : r;
}

static int recall(Recall *recall, uint32_t pid, uint64_t since_ns, uint64_t time_ns, unsigned depth) {
        const NoticeHistory *notice_history = recall->tracker->config.notices;
        NoticeHistoryOrigin origin;
        int r = notice_history_find_origin(notice_history, pid, since_ns, time_ns, &origin);

        /* The child may have run another program, which has nothing of its parent's. */
        if (!r && origin.parent)
                r = origin.may_lack ? NOTICE_HISTORY_E_UNKNOWN : recall_parent(recall, &origin, depth);
        return r ? r : notice_history_visit(notice_history, pid, since_ns, time_ns, recall_mapping, recall);
}

static struct TrackedGroup *find_group(MappingTracker *tracker, uint32_t tgid, uint64_t start_ns) {
        for (size_t i = 0; i < ARRAY_SIZE(tracker->groups); i++)
                if (tracker->groups[i].of == tgid && tracker->groups[i].start_ns == start_ns)
                        return &tracker->groups[i];
        return NULL;
}

/*
 * Reads the control groups of the ancestor that shares them, once a second. An ancestor that ends with the
 * last of its children is known by the read before. *groupp: borrowed; NULL = it is gone, too.
 */
static int read_group(MappingTracker *tracker, const struct abi_start *start, Identity **groupp) {
        uint64_t start_ns = start->group_start_ns - start->group_start_ns % ABI_START_TICK_NS;
        struct TrackedGroup *group = find_group(tracker, start->group_tgid, start_ns);
        uint64_t now_ns = clock_monotonic_ns();
        _cleanup_(identity_freep) Identity *identity = NULL;
        _cleanup_(closep) int fd = -1;
        int r;

        *groupp = group && now_ns < group->read_ns + GROUP_GONE_NS ? group->identity : NULL;
        if (!start->group_tgid || (group && now_ns < group->read_ns + GROUP_KEEP_NS) ||
            process_open_living((pid_t)start->group_tgid, start_ns, &fd, NULL))
                return 0;
        r = identity_new(&identity, fd, IDENTITY_CGROUP);
        if (r || !identity->cgroup)
                return r;
        if (!group)
                group = &tracker->groups[tracker->n_groups++ % ARRAY_SIZE(tracker->groups)];
        identity_free(group->identity);
        *group = (struct TrackedGroup){ take(identity), start->group_tgid, start_ns, now_ns };
        *groupp = group->identity;
        return 0;
}

int mapping_tracker_know(MappingTracker *tracker, Process *process, const struct abi_start *start) {
        const char *texts = (const char *)start->bytes;
        _cleanup_(identity_freep) Identity *own = NULL;
        Identity *group = NULL, *told;
        int r = read_group(tracker, start, &group);

        if (!r && !group && process->is_open)
                r = identity_new(&own, process->proc_fd, IDENTITY_CGROUP);
        /* a process without such an ancestor has moved: its parent's groups are not its own */
        else if (!r && !group && start->group_tgid)
                r = notice_history_identity(tracker->config.notices, process->pid, IDENTITY_CGROUP, &own);
        if (r)
                return r;
        r = identity_new_told(&told,
                              &(IdentityTexts){ texts, texts + start->n_arguments, start->n_arguments,
                                                start->n_environment },
                              group ?: own);
        if (r)
                return r;
        identity_free(process->identity);
        process->identity = told;
        return 0;
}

static int recall_mappings(MappingTracker *tracker, TrackedMappings *mappings, uint64_t time_ns) {
        Process *process = mappings->process;
        Recall from = { tracker, process };
        NoticeHistoryOrigin origin = { 0 };
        int r;

        stat_add(COUNTER_STARTS_MISSED, mappings->end_ns && !process->identity);
        time_ns = notice_history_exec_under_way(tracker->config.notices, process->pid, process->comm,
                                                time_ns);
        r = recall(&from, process->pid, begin_of(process), time_ns, 0);
        mappings->is_forgotten = r && mappings->end_ns;
        if (r)
                return MIN(r, 0);
        stat_add(COUNTER_MAPPINGS_RECALLED, 1);
        if (!process->identity) {
                r = notice_history_identity(tracker->config.notices, process->pid, IDENTITY_CGROUP,
                                            &process->identity);
                mappings->has_lent = process->identity != NULL;
        }
        if (r)
                return r;
        /*
         * The kernel half has never heard of them: there are no rows that could have been wrong. But a forked
         * child was walked by its parent's.
         */
        notice_history_find_origin(tracker->config.notices, process->pid, begin_of(process), time_ns,
                                   &origin);
        mapping_history_publish(&process->history, origin.parent ? clock_monotonic_ns() : 1);
        return 0;
}

/* ---- living processes of which all has been told ---- */

/* Memory without a file has no path of its own; a name that only looks like one is not enough. */
static bool is_sure(const Mapping *mapping) {
        return mapping->kind == MAPPING_FILE || mapping->kind == MAPPING_VDSO || mapping->path[0] != '/' ||
                !strcmp(mapping->path, "//anon");
}

/* No worker has to look into the file, and none would find anything there. */
static bool is_plain(const Object *object) {
        return !object_is_awaited(object) && !object->thread_symbol.form && !object->runtimes.bits &&
                (object->look != OBJECT_LOOK_NONE || !object_may_be_runtime(object));
}

bool mapping_tracker_is_plain(const TrackedMappings *mappings) {
        const Process *process = mappings->process;

        for (size_t i = 0; i < process->n_mappings; i++) {
                const Mapping *mapping = &process->mappings[i];

                if (!is_sure(mapping) || (mapping->object && !is_plain(mapping->object)))
                        return false;
        }
        return process->n_mappings;
}

static int recall_known(void *userdata, const MappingNotice *notice) {
        Recall *recall = userdata;
        Mapping mapping;
        int r = mapping_from_notice(&mapping, notice, recall->tracker->config.objects, true);

        if (r)
                return r;
        if (is_sure(&mapping))
                return process_change(recall->process, &mapping, notice->time_ns);
        mapping_deinit(&mapping);
        return NOTICE_HISTORY_E_UNKNOWN;
}

/*
 * *viewp: a view of @process with its mappings alone, owned. Return: 0, NOTICE_HISTORY_E_* = some are not
 * sure, -ENOMEM.
 */
static int view_told(MappingTracker *tracker, const Process *process, uint64_t exec_ns, Process **viewp) {
        _cleanup_(process_freep) Process *view = NULL;
        int r = process_new_gone(&view, (pid_t)process->pid, process->start_time_ns, process->comm);

        if (r)
                return r;
        r = notice_history_visit(tracker->config.notices, process->pid, begin_of(process), UINT64_MAX,
                                 recall_known, &(Recall){ tracker, view });
        if (!r && !view->n_mappings)
                r = NOTICE_HISTORY_E_UNKNOWN;
        if (r)
                return r;
        view->maps_read_ns = exec_ns;
        *viewp = take(view);
        return 0;
}

/*
 * A program without a read of its maps, as it was at @time_ns, up to which all has been told. Whatever it
 * runs next is told later. Return: 0, NOTICE_HISTORY_E_* = its maps have to be read, -ENOMEM.
 */
static int recall_living(MappingTracker *tracker, TrackedMappings *mappings, uint64_t time_ns) {
        _cleanup_(process_freep) Process *view = NULL;
        Process *process = mappings->process;
        uint64_t exec_ns;
        int r = notice_history_find_whole(tracker->config.notices, process->pid, begin_of(process), &exec_ns);

        if (!r && exec_ns > time_ns)
                r = NOTICE_HISTORY_E_REPLACED;
        if (!r)
                r = read_identity(tracker, process, false);
        if (!r)
                r = view_told(tracker, process, exec_ns, &view);
        if (!r)
                r = process_take_mappings(process, view);
        if (r)
                return r;
        stat_add(COUNTER_MAPPINGS_TOLD, 1);
        mappings->is_told = true;
        process->read_ns = MIN(process->read_ns, time_ns);
        process_close(process);
        mappings->n_read = process->n_mappings;
        return tell_mappings(tracker, mappings);
}

int mapping_tracker_ensure(MappingTracker *tracker, TrackedMappings *mappings, uint64_t time_ns,
                           bool is_told) {
        uint64_t now_ns = clock_monotonic_ns();
        Process *process = mappings->process;
        int r;

        if (process->is_kernel || (process->maps_serial && !mappings->is_outdated))
                return 0;
        if (!mappings->end_ns && mappings->refresh_ns <= now_ns) {
                mappings->refresh_ns = now_ns + REFRESH_MIN_NS;
                r = is_told && tracker->config.notices && !process->maps_serial && !mappings->reading
                        ? recall_living(tracker, mappings, time_ns)
                        : NOTICE_HISTORY_E_UNKNOWN;
                if (r > 0)
                        r = mapping_tracker_read(tracker, mappings);
                if (r)
                        return r;
        }
        return process->maps_serial || mappings->reading || !tracker->config.notices || mappings->is_forgotten
                ? 0
                : recall_mappings(tracker, mappings, time_ns);
}

/* ---- notices ---- */

static void add_changed(MappingTracker *tracker, TrackedMappings *mappings) {
        if (mappings->is_changed)
                return;
        mappings->is_changed = true;
        mappings->next_changed = tracker->first_changed;
        tracker->first_changed = mappings;
}

/* Whether a notice is about the program of @mappings, and its mappings are known. */
static bool concerns(TrackedMappings *mappings, const MappingNotice *notice) {
        if ((!mappings->process->maps_serial && !mappings->reading) ||
            (mappings->end_ns && notice->time_ns > mappings->end_ns))
                return false;
        if (!mappings->exec_ns || notice->time_ns < mappings->exec_ns)
                return true;
        /* The notice of that exec was lost. */
        if (notice->time_ns > mappings->exec_ns + EXEC_MAX_NS) {
                mappings->exec_ns = 0;
                mappings->is_outdated = true;
        }
        return false;
}

/* A file that was never seen: the process shows it while it lives; else it may be found by its path. */
static int open_noticed(MappingTracker *tracker, TrackedMappings *mappings, const MappingNotice *notice,
                        Mapping *mapping) {
        int r = mapping_tracker_refresh(tracker, mappings);

        mapping_deinit(mapping);
        if (r < 0)
                return r;
        mappings->is_outdated = mappings->process->maps_read_ns < notice->time_ns;
        return mapping_from_notice(mapping, notice, tracker->config.objects, mappings->is_outdated);
}

/*
 * A process with thousands of executable mappings that changes them all the time is read again, and ever less
 * often.
 */
static bool is_flood(TrackedMappings *mappings) {
        if (mappings->process->n_mappings <= FLOOD_MAPPINGS || ++mappings->n_changes <= FLOOD_CHANGES)
                return false;
        if (mappings->n_changes == FLOOD_CHANGES + 1) {
                mappings->refresh_interval_ns = MIN(2 * mappings->refresh_interval_ns, REFRESH_MAX_NS);
                mappings->refresh_ns = clock_monotonic_ns() + mappings->refresh_interval_ns;
        }
        mappings->is_outdated = mappings->changed_much = true;
        return true;
}

/* The reading may have come by already. */
static int note_change(TrackedMappings *mappings, const Mapping *mapping, uint64_t time_ns) {
        int r = mappings->reading ? process_reading_note(mappings->reading, mapping, time_ns) : 0;

        mappings->changed_much |= r == PROCESS_E_MORE;
        return MIN(r, 0);
}

/* Whether memory is put in the place of a file's text, or changes there: a read of maps tells what it is. */
static bool may_be_copy(TrackedMappings *mappings, const Mapping *mapping) {
        const Process *process = mappings->process;
        size_t i = process_first_mapping(process, mapping->start);

        if (mapping->kind != MAPPING_ANONYMOUS)
                return false;
        if (i < process->n_mappings && process->mappings[i].start < mapping->end &&
            process->mappings[i].kind == MAPPING_FILE) {
                mappings->copy_start = mapping->start;
                mappings->copy_end = mapping->end;
        }
        return mapping->start >= mappings->copy_start && mapping->end <= mappings->copy_end;
}

int mapping_tracker_notice(MappingTracker *tracker, TrackedMappings *mappings, const MappingNotice *notice) {
        Process *process = mappings->process;
        Mapping mapping = { 0 };
        int r;

        if (!concerns(mappings, notice))
                return 0;
        if (is_flood(mappings)) {
                process_void_made(process, notice->time_ns);
                add_changed(tracker, mappings);
                return 0;
        }
        r = mapping_from_notice(&mapping, notice, tracker->config.objects, false);
        if (!r && mapping.kind == MAPPING_UNREADABLE && notice->time_ns > process->maps_read_ns)
                r = open_noticed(tracker, mappings, notice, &mapping);
        if (!r)
                r = note_change(mappings, &mapping, notice->time_ns);
        if (r || !process->maps_serial) {       /* no serial: the process is being read for the first time */
                mapping_deinit(&mapping);
                return r;
        }
        mappings->is_outdated = mappings->is_outdated || may_be_copy(mappings, &mapping);
        r = process_change(process, &mapping, notice->time_ns);
        if (process->n_mappings > 2 * mappings->n_read + GONE_MAPPINGS_MAX)
                mappings->is_outdated = true;
        add_changed(tracker, mappings);
        return r;
}

void mapping_tracker_exec_begins(TrackedMappings *mappings, uint64_t time_ns) {
        mappings->exec_ns = time_ns;
}

void mapping_tracker_outdate(TrackedMappings *mappings) {
        mappings->is_outdated = mappings->changed_much = true;
        mappings->refresh_ns = 0;
        process_void_made(mappings->process, clock_monotonic_ns());
}

int mapping_tracker_tell(MappingTracker *tracker, TrackedMappings *mappings) {
        return tell_mappings(tracker, mappings);
}

int mapping_tracker_flush(MappingTracker *tracker) {
        int r = 0;

        while (tracker->first_changed) {
                TrackedMappings *mappings = tracker->first_changed;

                tracker->first_changed = mappings->next_changed;
                mappings->is_changed = false;
                mappings->n_changes = 0;
                if (!mappings->end_ns && !r)
                        r = tell_mappings(tracker, mappings);
        }
        return r;
}

/*
 * Until its end was noticed, the kernel half walked the new program's stacks by the old one's rows: what it
 * met where the old one's code had been is not sure.
 */
int mapping_tracker_inherit(TrackedMappings *mappings, const TrackedMappings *old) {
        MappingHistory *history = &mappings->process->history;

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

/* Whether the process has other code somewhere in @old, as far as it has been read. */
static bool has_other(const Process *process, const Mapping *old) {
        for (size_t i = process_first_mapping(process, old->start);
             i < process->n_mappings && process->mappings[i].start < old->end; i++)
                if (!mapping_is_same_file(&process->mappings[i], old))
                        return true;
        return false;
}

/* @has_rows: memory without a file may have had rows, and may hold other code by now. */
static int bury_forked(Process *process, const Mapping *old, bool has_rows, uint64_t fork_ns) {
        Mapping copy;
        int r;

        if (!has_other(process, old) && !(has_rows && old->kind == MAPPING_ANONYMOUS))
                return 0;
        r = mapping_copy(&copy, old, old->start, old->end);
        return r ? r : mapping_history_add(&process->history, &copy, process->maps_read_ns, fork_ns);
}

int mapping_tracker_fork(TrackedMappings *mappings, const TrackedMappings *parent, uint64_t fork_ns) {
        const MappingHistory *past = &parent->process->history;
        bool has_rows = parent->process->made && parent->process->made->n_pieces;
        Process *process = mappings->process;
        int r = 0;

        if (!process->maps_serial)
                return 0;
        for (size_t i = 0; i < parent->process->n_mappings && !r; i++)
                r = bury_forked(process, &parent->process->mappings[i], has_rows, fork_ns);
        for (size_t i = 0; i < past->n && !r; i++)
                if (!past->items[i].published_ns || past->items[i].published_ns > fork_ns)
                        r = bury_forked(process, &past->items[i].mapping, has_rows, fork_ns);
        mapping_history_publish(&process->history, clock_monotonic_ns());
        return r;
}
