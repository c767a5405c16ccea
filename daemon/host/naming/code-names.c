/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Keeps a target for each process with code made at run time, and looks at its files again after growing
 * intervals. A look takes place in a worker; names of the last one hold until it is done.
 *
 * Processes, their names' bytes and looks that wait are shared by users in control groups (shares.h). The
 * greatest holder's process that was asked for least recently is forgotten. One that has just come back is
 * looked at anew. The queue of looks is served in turns, and nobody fills it:
 *
 *     queue    crowd 1  crowd 2  crowd 3 …          64 wait, more of the crowd are asked again later
 *     comes    an honest one: the first turn after that which goes on
 */

#include "host/naming/code-names.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/hashmap.h"
#include "core/base/data/shares.h"
#include "core/base/thread/worker.h"
#include "core/base/util/array.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "core/symbol/jit/code.h"
#include "host/naming/code-source.h"
#include "host/sampling/process/identity.h"

#define GROWING_NS (100 * NS_PER_MS)            /* between two looks at a file that had something new */
#define MADE_NS (20 * NS_PER_MS)                /* between two looks at code that has rows, and has changed */
/* the same for a file that had nothing new, where looks were doubled until then: names may be this old */
#define QUIET_NS NS_PER_SEC
/* interval, beginning with QUIET_NS, while there is no file, or none that can be read */
#define ABSENT_NS (16 * NS_PER_SEC)
#define UNUSED_NS (60 * NS_PER_SEC)             /* a process that was not asked for is forgotten */
/* divisor of the time: at most this part goes into looking at one process */
#define SHARE 10

enum {
        DEFAULT_MAX_PROCESSES = 256,
        DEFAULT_MAX_BYTES = 64 << 20,
        MAX_LOOKS = 256,                /* places in the queue of looks */
};

/* A process that makes code. */
typedef struct CodeTarget {
        uint64_t generation;
        pid_t pid;
        CodeSource *source;
        struct CodeTarget *older, *newer;       /* in order of use */
        struct CodeJob *job;            /* the look that is under way; NULL = none */
        bool is_wanted;                 /* another look is, as soon as it is due */
        bool has_looked, has_file, is_stuck;
        bool was_torn;                  /* frames of its last look could not be read */
        uint64_t n_changes;             /* looks that found something new */
        uint64_t begun_ns;              /* begin of the last finished look */
        uint64_t next_ns, interval_ns;
        uint64_t used_ns;
        size_t memory;
        Share *share, *byte_share;      /* shares of its user: processes, and bytes */
        CodePlace place;                /* place for the next look; its path and files are owned */
        uint64_t maps_serial;           /* mappings that a look knows the files of; 0 = of none */
        bool has_frames;                /* frames may be registered there */
        uint64_t n_made;                /* changes of made code that its last look has seen */
        uint64_t soon_ns;               /* when it is looked at again if there are more */
} CodeTarget;

typedef struct CodeJob {
        WorkerJob job;                  /* first */
        CodeTarget *target;             /* the event loop's; NULL = it was forgotten meanwhile */
        atomic_bool is_void;            /* the same, for the thread */
        Share *share;                   /* holder of its place in the queue; NULL = it has none any more */
        CodeSource *source;             /* reference to the source */
        CodePlace place;                /* place whose path and files are owned */
        CodeLook look;
        uint64_t begin_ns, end_ns;
} CodeJob;

/* Frames that a look has found registered, until the tables are told. */
typedef struct CodeMade {
        uint32_t pid;
        uint64_t generation;
        uint64_t end_ns;                /* end of the look */
        MadeSet *set;
} CodeMade;

struct CodeNames {
        CodeNamesLimits limits;
        Zygotes *zygotes;               /* borrowed; NULL = none */
        Worker *worker;
        Hashmap targets;                /* generation → CodeTarget */
        CodeTarget *oldest, *newest;
        size_t memory;
        ListedKnown known;              /* answers of files, for all processes */
        Shares shares, byte_shares, looks;      /* holders of targets, of bytes, of places in the queue */
        CodeNamesMade made;             /* NULL = nobody wants it */
        void *userdata;                 /* for it */
        CodeMade *found;
        uint32_t n_found, found_room;
        char name[CODE_MAX_NAME];
};

/* ---- targets ---- */

static void unlink_target(CodeNames *names, CodeTarget *target) {
        *(target->older ? &target->older->newer : &names->oldest) = target->newer;
        *(target->newer ? &target->newer->older : &names->newest) = target->older;
        target->older = target->newer = NULL;
}

static void link_newest(CodeNames *names, CodeTarget *target) {
        target->older = names->newest;
        *(names->newest ? &names->newest->newer : &names->oldest) = target;
        names->newest = target;
}

static void free_target(CodeTarget *target) {
        code_source_unref(target->source);
        free(target->place.dump_path);
        listed_files_deinit(&target->place.files);
        free(target);
}

static void forget(CodeNames *names, CodeTarget *target) {
        hashmap_remove(&names->targets, target->generation);
        unlink_target(names, target);
        names->memory -= target->memory;
        share_release(&names->byte_shares, target->byte_share, 1 + target->memory);
        share_release(&names->shares, target->share, 1);
        if (target->job) {
                atomic_store(&target->job->is_void, true);
                target->job->target = NULL;
        }
        free_target(target);
}

/* Takes its user's shares. Return: 0, -ENOMEM. */
static int hold_shares(CodeNames *names, CodeTarget *target, const Process *process) {
        ShareOwner owner = identity_owner_of((pid_t)process->pid, process->start_time_ns);
        int r;

        owner.process = 0;              /* all of the user's: each has one target */
        r = shares_hold(&names->shares, &owner, 1, &target->share);
        if (r)
                return error_fold(r);
        r = shares_hold(&names->byte_shares, &owner, 1, &target->byte_share);
        if (r)
                share_release(&names->shares, target->share, 1);
        return r ? error_fold(r) : 0;
}

static int insert_target(CodeNames *names, CodeTarget *target, const Process *process) {
        int r = code_source_new(&target->source, NULL, names->zygotes);

        if (!r)
                r = hashmap_put(&names->targets, process->generation, target);
        if (r)
                return error_fold(r);
        r = hold_shares(names, target, process);
        if (r)
                hashmap_remove(&names->targets, process->generation);
        return r ? error_fold(r) : 0;
}

/* Counts one that has to give way, and forgets it. */
static void evict(CodeNames *names, CodeTarget *target) {
        ShareOwner owner = *share_owner(target->share);

        owner.process = (uint64_t)target->pid;
        stat_add(COUNTER_CODE_PROCESSES_EVICTED, 1);
        shares_tell(&names->shares, "processes with code made at run time", &owner, clock_monotonic_ns());
        forget(names, target);
}

/* The greatest holder's that was asked for least recently; among equals, anybody's. */
static CodeTarget *find_evicted(const CodeNames *names) {
        const Share *victim = shares_victim(&names->shares, names->newest->share, 0);
        uint64_t group = share_owner(victim)->group;
        CodeTarget *target = names->oldest;

        if (victim == names->newest->share && share_held(victim) == 1) {
                while (share_held_by_group(victim) > 1 && share_owner(target->share)->group != group)
                        target = target->newer;
                return target;
        }
        while (target->share != victim)
                target = target->newer;
        return target;
}

static int add_target(CodeNames *names, const Process *process, CodeTarget **targetp) {
        CodeTarget *target = calloc(1, sizeof(*target));
        int r;

        if (!target)
                return error_origin(-ENOMEM);
        r = insert_target(names, target, process);
        if (r) {
                free_target(target);
                return error_fold(r);
        }
        target->generation = process->generation;
        target->pid = (pid_t)process->pid;
        target->interval_ns = QUIET_NS;
        link_newest(names, target);
        if (names->targets.n_entries > names->limits.max_processes)
                evict(names, find_evicted(names));
        *targetp = target;
        return 0;
}

int code_names_new(CodeNames **namesp, const CodeNamesLimits *limits, Zygotes *zygotes) {
        _cleanup_(code_names_freep) CodeNames *names = calloc(1, sizeof(*names));
        WorkerConfig worker = { .name = "jit-names", .userdata = names, .max_jobs = MAX_LOOKS };
        int r;

        if (!names)
                return error_origin(-ENOMEM);
        if (limits)
                names->limits = *limits;
        names->limits.max_processes = names->limits.max_processes ?: DEFAULT_MAX_PROCESSES;
        names->limits.max_bytes = names->limits.max_bytes ?: DEFAULT_MAX_BYTES;
        worker.time_limit_ns = names->limits.time_limit_ns;
        names->zygotes = zygotes;
        r = worker_new(&names->worker, &worker);
        if (r)
                return error_fold(r);
        *namesp = take(names);
        return 0;
}

CodeNames *code_names_free(CodeNames *names) {
        if (!names)
                return NULL;
        while (names->oldest)
                forget(names, names->oldest);
        worker_free(names->worker);
        for (uint32_t i = 0; i < names->n_found; i++)
                made_set_free(names->found[i].set);
        free(names->found);
        hashmap_deinit(&names->targets);
        listed_known_deinit(&names->known);
        shares_deinit(&names->shares);
        shares_deinit(&names->byte_shares);
        shares_deinit(&names->looks);
        free(names);
        return NULL;
}

/* ---- looks ---- */

static void discard_look(WorkerJob *job) {
        CodeJob *code = (CodeJob *)job;

        code_source_unref(code->source);
        free(code->place.dump_path);
        listed_files_deinit(&code->place.files);
        made_set_free(code->look.made);
        free(code);
}

static void look(WorkerJob *job, void *state) {
        CodeJob *code = (CodeJob *)job;

        code->begin_ns = clock_monotonic_ns();
        if (!atomic_load(&code->is_void))
                code_source_look(code->source, &code->place, &code->look);
        code->end_ns = clock_monotonic_ns();
}

static void count(const CodeLook *look) {
        stat_add(COUNTER_CODE_FILES_READ, look->n_opened);
        stat_add(COUNTER_CODE_FILES_REFUSED, look->n_refused);
        stat_add(COUNTER_CODE_FILES_UNREADABLE, look->n_unreadable);
        stat_add(COUNTER_CODE_FILES_FAILED, look->n_failed);
        stat_add(COUNTER_CODE_RECORDS, look->n_taken);
        stat_add(COUNTER_CODE_RECORDS_MALFORMED, look->n_malformed);
        stat_add(COUNTER_CODE_RECORDS_OVER_CAP, look->n_over_cap);
        stat_add(COUNTER_MADE_READS, look->made != NULL);
        stat_add(COUNTER_MADE_READS_TORN, look->is_torn);
        stat_add(COUNTER_MADE_LIBRARIES_REFUSED, look->refuses_frames);
        worker_session_count(&look->workers);
}

static void schedule(CodeTarget *target, const CodeJob *code) {
        const CodeLook *look = &code->look;
        bool has_more = look->has_file || (look->made && look->made->n);

        target->n_changes += look->is_changed;
        if (look->is_changed || (look->is_torn && !target->was_torn))
                target->interval_ns = GROWING_NS;
        else if (look->is_torn)
                target->interval_ns = MIN(target->interval_ns * 2, QUIET_NS);
        else
                target->interval_ns = MIN(target->interval_ns * 2,
                                         has_more && !look->n_failed ? QUIET_NS : ABSENT_NS);
        target->was_torn = look->is_torn;
        target->next_ns = code->end_ns +
                MAX(target->interval_ns, (code->end_ns - code->begin_ns) * (SHARE - 1));
        target->has_frames = look->has_frames;
        target->soon_ns = code->end_ns + MAX(MADE_NS, (code->end_ns - code->begin_ns) * (SHARE - 1));
        /* a recording may end soon, and the newest code stands at the end of a long file */
        if (look->has_more && code->place.keep_root)
                target->next_ns = code->end_ns;
        target->is_wanted = target->is_wanted || look->has_more;
}

/* The look is done, or given up. */
static void leave_queue(CodeNames *names, CodeJob *code) {
        shares_note_served(&names->looks, code->job.rank);
        share_release(&names->looks, take(code->share), 1);
}

static void set_memory(CodeNames *names, CodeTarget *target, size_t memory) {
        share_hold_more(target->byte_share, memory);
        share_release(&names->byte_shares, target->byte_share, target->memory);
        names->memory += memory - target->memory;
        target->memory = memory;
}

/* Without memory for it the process has the rows that it had, until the next look. */
static void keep_made(CodeNames *names, const CodeTarget *target, CodeJob *code) {
        if (!names->made || !code->look.made ||
            array_reserve(&names->found, &names->found_room, names->n_found + 1u, 8))
                return;
        names->found[names->n_found++] = (CodeMade){ .pid = (uint32_t)target->pid,
                                                     .generation = target->generation,
                                                     .end_ns = code->end_ns,
                                                     .set = take(code->look.made) };
}

static void take_look(WorkerJob *job, void *userdata) {
        CodeJob *code = (CodeJob *)job;
        CodeNames *names = userdata;
        CodeTarget *target = code->target;

        leave_queue(names, code);
        count(&code->look);
        if (code->look.first_id)
                listed_known_put(&names->known, code->look.first_id, &code->look.first);
        if (target) {
                set_memory(names, target, code->look.memory);
                target->job = NULL;
                target->has_looked = true;
                target->has_file = target->has_file || code->look.has_file;
                target->begun_ns = code->begin_ns;
                schedule(target, code);
                keep_made(names, target, code);
        }
        discard_look(job);
}

static void give_up_look(WorkerJob *job, void *userdata) {
        CodeTarget *target = ((CodeJob *)job)->target;

        leave_queue(userdata, (CodeJob *)job);
        stat_add(COUNTER_CODE_FILES_STUCK, 1);
        if (!target)
                return;
        log_warning(
                "files in which process %d names its code hold up their reader: its code stays without names",
                (int)target->pid);
        target->job = NULL;
        target->is_stuck = true;
}

/* Return: 0, -ENOMEM. */
static int start_look(CodeNames *names, CodeTarget *target) {
        CodeJob *code = calloc(1, sizeof(*code));
        char *path = target->place.dump_path ? strdup(target->place.dump_path) : NULL;
        int r;

        if (!code || !path != !target->place.dump_path ||
            shares_hold(&names->looks, share_owner(target->share), 1, &code->share)) {
                free(code);
                free(path);
                return error_origin(-ENOMEM);
        }
        code->job = (WorkerJob){
                .work = look, .done = take_look, .stuck = give_up_look, .discard = discard_look,
                .rank = share_rank(&names->looks, code->share),
        };
        code->target = target;
        code->source = code_source_ref(target->source);
        code->place = target->place;
        code->place.dump_path = path;
        target->place.files = (ListedFiles){ 0 };
        target->is_wanted = false;
        r = worker_push(names->worker, &code->job);
        if (!r) {
                target->job = code;
                return 0;
        }
        share_release(&names->looks, code->share, 1);
        discard_look(&code->job);
        target->maps_serial = 0;
        target->next_ns = clock_monotonic_ns() + ABSENT_NS;
        return r < 0 ? error_fold(r) : 0;
}

/* The same of one whose user has room in the queue; else it stays wanted. Return: 0, -ENOMEM. */
static int start_look_in_turn(CodeNames *names, CodeTarget *target) {
        int r = 0;

        if (!shares_held(&names->looks) ||
            shares_leave_room(&names->looks, share_owner(target->share), 1, MAX_LOOKS))
                r = start_look(names, target);
        return r ? error_fold(r) : 0;
}

/* ---- asking ---- */

/* Notes the files of the process, if they may be others than the last look knows. */
static int note_files(const CodeNames *names, CodeTarget *target, const Process *process) {
        int r;

        if (process->maps_serial && target->maps_serial == process->maps_serial)
                return 0;
        listed_files_deinit(&target->place.files);
        r = listed_files_read(&target->place.files, process);
        stat_add(COUNTER_CODE_RECORDS_OVER_CAP, target->place.files.is_cut);
        if (!r)
                target->maps_serial = process->maps_serial;
        listed_known_apply(&names->known, &target->place.files);
        return r;
}

/* Notes where the process has its jitdump now, for the next look. */
static int note_place(const CodeNames *names, CodeTarget *target, const Process *process) {
        uint64_t number;
        int r = note_files(names, target, process);

        if (r)
                return error_fold(r);
        free(target->place.dump_path);
        target->n_made = process->made ? process->made->n_changes : 0;
        target->place = (CodePlace){ .pid = (pid_t)process->pid,
                                     .start_time_ns = process->start_time_ns,
                                     .keep_root = names->limits.keep_roots,
                                     .files = target->place.files };
        for (size_t i = 0; i < process->n_mappings; i++) {
                const Mapping *mapping = &process->mappings[i];

                if (!code_is_dump_path(mapping->path, &number))
                        continue;
                target->place.dump_path = strdup(mapping->path);
                if (!target->place.dump_path)
                        return error_origin(-ENOMEM);
                target->place.dump_start = mapping->start;
                target->place.dump_end = mapping->end;
                break;
        }
        return 0;
}

static int want_look(CodeNames *names, CodeTarget *target, const Process *process) {
        int r;

        if (target->job || target->is_wanted)
                return 0;
        r = note_place(names, target, process);
        if (r)
                return error_fold(r);
        target->is_wanted = true;
        return target->used_ns < target->next_ns ? 0 : start_look_in_turn(names, target);
}

int code_names_find(CodeNames *names, const Process *process, uint64_t address, uint64_t time_ns,
                    const char **namep, size_t *sizep, uint64_t *startp, bool *is_pastp) {
        CodeTarget *target = hashmap_get(&names->targets, process->generation);
        int r;

        if (!target) {
                r = add_target(names, process, &target);
                if (r)
                        return error_fold(r);
        } else if (target != names->newest) {
                unlink_target(names, target);
                link_newest(names, target);
        }
        target->used_ns = clock_monotonic_ns();
        if (target->is_stuck)
                return CODE_NAMES_E_NONE;
        /* A known address is looked for again, too: other code may have taken the place since. */
        r = want_look(names, target, process);
        if (r)
                return error_fold(r);
        r = code_source_find(target->source, address, time_ns, names->name, sizep, startp, is_pastp);
        if (!r) {
                *namep = names->name;
                return 0;
        }
        if (r == CODE_SOURCE_E_BUSY)
                return CODE_NAMES_E_LATER;
        /*
         * A file that was read after the sample would have named it; of a process without one nothing is
         * expected.
         */
        return target->has_looked && (!target->has_file || target->begun_ns > time_ns) ? CODE_NAMES_E_NONE
                                                                                    : CODE_NAMES_E_LATER;
}

/* Asked for each sample, named or not: here it shows that the process still runs. */
int code_names_serial(CodeNames *names, const Process *process, uint64_t *serialp) {
        CodeTarget *target = hashmap_get(&names->targets, process->generation);
        int r = 0;

        *serialp = 0;
        if (!target)
                return 0;
        target->used_ns = clock_monotonic_ns();
        if (target->has_frames && process->made && target->n_made != process->made->n_changes)
                target->next_ns = MIN(target->next_ns, target->soon_ns);
        if (!target->is_stuck && target->used_ns >= target->next_ns)
                r = want_look(names, target, process);
        *serialp = target->n_changes;
        return r ? error_fold(r) : 0;
}

/* ---- in between ---- */

/* The oldest target of who has most bytes, @except left out. */
static CodeTarget *find_greatest(CodeNames *names, CodeTarget *except) {
        const Share *victim;
        CodeTarget *target;

        if (except)
                share_release(&names->byte_shares, except->byte_share, except->memory);
        victim = shares_victim(&names->byte_shares, names->newest->byte_share, 0);
        if (except)
                share_hold_more(except->byte_share, except->memory);
        for (target = names->oldest; target->byte_share != victim;)
                target = target->newer;
        return target;
}

static void forget_unused(CodeNames *names, uint64_t now_ns) {
        while (names->oldest && names->oldest->used_ns + UNUSED_NS < now_ns)
                forget(names, names->oldest);
        while (names->memory > names->limits.max_bytes && names->oldest != names->newest) {
                CodeTarget *target = find_greatest(names, NULL);

                /* a process alone may have more, and then others have as much as ever */
                if (target == names->newest && names->memory - target->memory <= names->limits.max_bytes)
                        break;
                if (target == names->newest)
                        target = find_greatest(names, names->newest);
                evict(names, target != names->newest ? target : names->oldest);
        }
}

void code_names_set_made(CodeNames *names, CodeNamesMade made, void *userdata) {
        names->made = made;
        names->userdata = userdata;
}

/*
 * A look that ends later may have read code whose notice is not known yet: its frames wait for the next
 * drain. Return: 0, -ENOMEM.
 */
static int tell_made(CodeNames *names, uint64_t told_ns) {
        uint32_t n = 0;
        int r = 0;

        for (; n < names->n_found && names->found[n].end_ns <= told_ns && !r; n++) {
                const CodeMade *found = &names->found[n];

                r = names->made(names->userdata, found->pid, found->generation, found->set);
                made_set_free(found->set);
        }
        names->n_found -= n;
        for (uint32_t i = 0; n && i < names->n_found; i++)
                names->found[i] = names->found[n + i];
        return r;
}

int code_names_work(CodeNames *names, uint64_t told_ns) {
        uint64_t now_ns;
        int r;

        if (!names->oldest && !names->n_found && !worker_n_waiting(names->worker))
                return 0;
        now_ns = clock_monotonic_ns();
        worker_collect(names->worker, now_ns);
        r = tell_made(names, told_ns);
        if (r)
                return error_fold(r);
        forget_unused(names, now_ns);
        for (CodeTarget *target = names->oldest; target; target = target->newer) {
                if (!target->is_wanted || target->job || target->is_stuck || now_ns < target->next_ns)
                        continue;
                r = start_look_in_turn(names, target);
                if (r)
                        return error_fold(r);
        }
        return 0;
}

void code_names_wait(CodeNames *names, uint64_t end_ns) {
        worker_wait(names->worker, end_ns);
        worker_collect(names->worker, clock_monotonic_ns());
}

int code_names_note(CodeNames *names, const Process *process) {
        CodeTarget *target = hashmap_get(&names->targets, process->generation);
        int r = target ? note_place(names, target, process) : 0;

        return r ? error_fold(r) : 0;
}

int code_names_look_again(CodeNames *names) {
        for (CodeTarget *target = names->oldest; target; target = target->newer) {
                int r;

                if (target->job || target->is_stuck)
                        continue;
                r = start_look(names, target);
                if (r)
                        return error_fold(r);
        }
        return 0;
}

static CodeTarget *find_only(const CodeNames *names, pid_t pid) {
        CodeTarget *found = NULL;

        for (CodeTarget *target = names->oldest; target; target = target->newer) {
                if (target->pid != pid)
                        continue;
                if (found)
                        return NULL;
                found = target;
        }
        return found;
}

int code_names_find_late(CodeNames *names, pid_t pid, uint64_t address, uint64_t first_ns, uint64_t last_ns,
                         const char **namep, size_t *sizep) {
        CodeTarget *target = find_only(names, pid);
        char last[CODE_MAX_NAME];
        bool was_past, is_past;
        uint64_t start;
        size_t size;

        if (!target || target->is_stuck ||
            code_source_find(target->source, address, first_ns, names->name, sizep, &start, &was_past) ||
            code_source_find(target->source, address, last_ns, last, &size, &start, &is_past))
                return CODE_NAMES_E_NONE;
        if (was_past || is_past || size != *sizep || memcmp(last, names->name, size))
                return CODE_NAMES_E_NONE;
        *namep = names->name;
        return 0;
}

uint32_t code_names_n_processes(const CodeNames *names) {
        return names->targets.n_entries;
}

size_t code_names_memory(const CodeNames *names) {
        return names->memory;
}
