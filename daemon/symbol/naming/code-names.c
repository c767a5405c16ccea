/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/naming/code-names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util/clock.h"
#include "base/util/error.h"
#include "base/util/hashmap.h"
#include "base/util/log.h"
#include "base/util/stat.h"
#include "base/util/worker.h"
#include "symbol/jit/code.h"
#include "symbol/naming/code-source.h"

#define GROWING_NS (100 * NS_PER_MS)            /* between two looks at a file that had something new */
/* and, doubled until then, at one that had not: names may be this old */
#define QUIET_NS NS_PER_SEC
/* the same, beginning with QUIET_NS, while there is no file, or none that can be read */
#define ABSENT_NS (16 * NS_PER_SEC)
#define UNUSED_NS (60 * NS_PER_SEC)             /* a process that was not asked for is forgotten */
/* of the time, at most one part goes into looking at one process */
#define SHARE 10

enum {
        DEFAULT_MAX_PROCESSES = 256,
        DEFAULT_MAX_BYTES = 64 << 20,
};

/* A process that makes code. */
typedef struct Maker {
        uint64_t generation;
        pid_t pid;
        CodeSource *source;
        struct Maker *older, *newer;    /* by use */
        struct CodeJob *job;            /* the look that is under way; NULL = none */
        bool is_wanted;                 /* another look is, as soon as it is due */
        bool has_looked, has_file, is_stuck;
        uint64_t n_changes;             /* looks that found something new */
        uint64_t begun_ns;              /* of the last look that is done */
        uint64_t next_ns, interval_ns;
        uint64_t used_ns;
        size_t memory;
        CodePlace place;                /* of the next look; its path is owned */
} Maker;

typedef struct CodeJob {
        WorkerJob job;                  /* first */
        Maker *maker;                   /* the loop's; NULL = nobody is interested any more */
        CodeSource *source;             /* one reference */
        CodePlace place;                /* its path is owned */
        CodeLook look;
        uint64_t begin_ns, end_ns;
} CodeJob;

struct CodeNames {
        CodeNamesLimits limits;
        Zygotes *zygotes;               /* borrowed; NULL = none */
        Worker *worker;
        Hashmap makers;                 /* generation → Maker */
        Maker *oldest, *newest;
        size_t memory;
        char name[CODE_MAX_NAME];
};

/* ---- makers ---- */

static void unlink_maker(CodeNames *names, Maker *maker) {
        *(maker->older ? &maker->older->newer : &names->oldest) = maker->newer;
        *(maker->newer ? &maker->newer->older : &names->newest) = maker->older;
        maker->older = maker->newer = NULL;
}

static void link_newest(CodeNames *names, Maker *maker) {
        maker->older = names->newest;
        *(names->newest ? &names->newest->newer : &names->oldest) = maker;
        names->newest = maker;
}

static void free_maker(Maker *maker) {
        code_source_unref(maker->source);
        free(maker->place.dump_path);
        free(maker);
}

static void forget(CodeNames *names, Maker *maker) {
        hashmap_remove(&names->makers, maker->generation);
        unlink_maker(names, maker);
        names->memory -= maker->memory;
        if (maker->job)
                maker->job->maker = NULL;
        free_maker(maker);
}

static int add_maker(CodeNames *names, const Process *process, Maker **makerp) {
        Maker *maker = calloc(1, sizeof(*maker));
        int r;

        if (!maker)
                return error_origin(-ENOMEM);
        r = code_source_new(&maker->source, NULL, names->zygotes);
        if (!r)
                r = hashmap_put(&names->makers, process->generation, maker);
        if (r) {
                free_maker(maker);
                return error_fold(r);
        }
        maker->generation = process->generation;
        maker->pid = (pid_t)process->pid;
        maker->interval_ns = QUIET_NS;
        link_newest(names, maker);
        if (names->makers.n_entries > names->limits.max_processes)
                forget(names, names->oldest);
        *makerp = maker;
        return 0;
}

int code_names_new(CodeNames **namesp, const CodeNamesLimits *limits, Zygotes *zygotes) {
        _cleanup_(code_names_freep) CodeNames *names = calloc(1, sizeof(*names));
        WorkerConfig worker = { .name = "jit-names", .userdata = names };
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
        hashmap_deinit(&names->makers);
        free(names);
        return NULL;
}

/* ---- looks ---- */

static void discard_look(WorkerJob *job) {
        CodeJob *code = (CodeJob *)job;

        code_source_unref(code->source);
        free(code->place.dump_path);
        free(code);
}

static void look(WorkerJob *job, void *state) {
        CodeJob *code = (CodeJob *)job;

        code->begin_ns = clock_monotonic_ns();
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
        worker_session_count(&look->workers);
}

static void schedule(Maker *maker, const CodeJob *code) {
        const CodeLook *look = &code->look;

        maker->n_changes += look->is_changed;
        if (look->is_changed)
                maker->interval_ns = GROWING_NS;
        else
                maker->interval_ns = MIN(maker->interval_ns * 2,
                                         look->has_file && !look->n_failed ? QUIET_NS : ABSENT_NS);
        maker->next_ns = code->end_ns +
                MAX(maker->interval_ns, (code->end_ns - code->begin_ns) * (SHARE - 1));
        maker->is_wanted = maker->is_wanted || look->has_more;
}

static void take_look(WorkerJob *job, void *userdata) {
        CodeJob *code = (CodeJob *)job;
        CodeNames *names = userdata;
        Maker *maker = code->maker;

        count(&code->look);
        if (maker) {
                names->memory += code->look.memory - maker->memory;
                maker->memory = code->look.memory;
                maker->job = NULL;
                maker->has_looked = true;
                maker->has_file = maker->has_file || code->look.has_file;
                maker->begun_ns = code->begin_ns;
                schedule(maker, code);
        }
        discard_look(job);
}

static void give_up_look(WorkerJob *job, void *userdata) {
        Maker *maker = ((CodeJob *)job)->maker;

        stat_add(COUNTER_CODE_FILES_STUCK, 1);
        if (!maker)
                return;
        log_warning(
                "files in which process %d names its code hold up their reader: its code stays without names",
                (int)maker->pid);
        maker->job = NULL;
        maker->is_stuck = true;
}

static int start_look(CodeNames *names, Maker *maker) {
        CodeJob *code = calloc(1, sizeof(*code));
        char *path = maker->place.dump_path ? strdup(maker->place.dump_path) : NULL;
        int r;

        if (!code || !path != !maker->place.dump_path) {
                free(code);
                free(path);
                return error_origin(-ENOMEM);
        }
        code->job = (WorkerJob){
                .work = look, .done = take_look, .stuck = give_up_look, .discard = discard_look
        };
        code->maker = maker;
        code->source = code_source_ref(maker->source);
        code->place = maker->place;
        code->place.dump_path = path;
        maker->is_wanted = false;
        r = worker_push(names->worker, &code->job);
        if (!r) {
                maker->job = code;
                return 0;
        }
        discard_look(&code->job);
        maker->next_ns = clock_monotonic_ns() + ABSENT_NS;
        return r < 0 ? error_fold(r) : 0;
}

/* ---- asking ---- */

/* Where the process has its jitdump now, for the next look. */
static int note_place(Maker *maker, const Process *process) {
        uint64_t number;

        free(maker->place.dump_path);
        maker->place = (CodePlace){ .pid = (pid_t)process->pid, .start_time_ns = process->start_time_ns };
        for (size_t i = 0; i < process->n_mappings; i++) {
                const Mapping *mapping = &process->mappings[i];

                if (!code_is_dump_path(mapping->path, &number))
                        continue;
                maker->place.dump_path = strdup(mapping->path);
                if (!maker->place.dump_path)
                        return error_origin(-ENOMEM);
                maker->place.dump_start = mapping->start;
                maker->place.dump_end = mapping->end;
                break;
        }
        return 0;
}

static int want_look(CodeNames *names, Maker *maker, const Process *process) {
        int r;

        if (maker->job || maker->is_wanted)
                return 0;
        r = note_place(maker, process);
        if (r)
                return error_fold(r);
        maker->is_wanted = true;
        return maker->used_ns < maker->next_ns ? 0 : start_look(names, maker);
}

int code_names_find(CodeNames *names, const Process *process, uint64_t address, uint64_t time_ns,
                    const char **namep, size_t *sizep, bool *is_pastp) {
        Maker *maker = hashmap_get(&names->makers, process->generation);
        int r;

        if (!maker) {
                r = add_maker(names, process, &maker);
                if (r)
                        return error_fold(r);
        } else if (maker != names->newest) {
                unlink_maker(names, maker);
                link_newest(names, maker);
        }
        maker->used_ns = clock_monotonic_ns();
        if (maker->is_stuck)
                return CODE_NAMES_E_NONE;
        /* Also for an address that is known: other code may have taken the place since. */
        r = want_look(names, maker, process);
        if (r)
                return error_fold(r);
        r = code_source_find(maker->source, address, time_ns, names->name, sizep, is_pastp);
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
        return maker->has_looked && (!maker->has_file || maker->begun_ns > time_ns) ? CODE_NAMES_E_NONE
                                                                                    : CODE_NAMES_E_LATER;
}

/* Asked for each sample, named or not: here it shows that the process still runs. */
int code_names_serial(CodeNames *names, const Process *process, uint64_t *serialp) {
        Maker *maker = hashmap_get(&names->makers, process->generation);
        int r = 0;

        *serialp = 0;
        if (!maker)
                return 0;
        maker->used_ns = clock_monotonic_ns();
        if (!maker->is_stuck && maker->used_ns >= maker->next_ns)
                r = want_look(names, maker, process);
        *serialp = maker->n_changes;
        return r ? error_fold(r) : 0;
}

/* ---- in between ---- */

static void forget_unused(CodeNames *names, uint64_t now_ns) {
        while (names->oldest && names->oldest->used_ns + UNUSED_NS < now_ns)
                forget(names, names->oldest);
        while (names->memory > names->limits.max_bytes && names->oldest != names->newest)
                forget(names, names->oldest);
}

int code_names_work(CodeNames *names) {
        uint64_t now_ns;

        if (!names->oldest && !worker_n_waiting(names->worker))
                return 0;
        now_ns = clock_monotonic_ns();
        worker_collect(names->worker, now_ns);
        forget_unused(names, now_ns);
        for (Maker *maker = names->oldest; maker; maker = maker->newer) {
                int r;

                if (!maker->is_wanted || maker->job || maker->is_stuck || now_ns < maker->next_ns)
                        continue;
                r = start_look(names, maker);
                if (r)
                        return error_fold(r);
        }
        return 0;
}

void code_names_wait(CodeNames *names, uint64_t end_ns) {
        worker_wait(names->worker, end_ns);
        worker_collect(names->worker, clock_monotonic_ns());
}

uint32_t code_names_n_processes(const CodeNames *names) {
        return names->makers.n_entries;
}

size_t code_names_memory(const CodeNames *names) {
        return names->memory;
}
