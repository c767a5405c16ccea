/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Names of functions in files (`symbols = local`)
 *
 *     frame ──want──▶ [object: addresses] ──work──▶ worker: name-job.c ──▶ names ──apply──▶ window
 *
 * A name is found by two steps, since frames of one window are met again and again: the frame's word in this
 * window, and if that is new, object and address. The words of two files differ, as their modules do
 * (WindowModule).
 *
 * A file is what the kernel says it is: device, inode, size, mtime, ctime, time of birth
 * (core/symbol/object/object-file.h). Build id and path are no key: any user can link the one and mount the
 * other. A new name or mode changes ctime alone, so a file that was deleted keeps its names: its time of
 * birth is the same. Where a filesystem tells no time of birth, such a file gets no more names than it has.
 *
 * Any process that maps a file will do. Four are remembered for each file: those that began first, and the
 * last. One that has ended is forgotten (names_total{result="gone"}), and the next is asked at once. In the
 * end the file at its path here is taken if it is the same. While a thread has the table of a file, no
 * process is asked.
 *
 * Files are read in turns (shares.h): jobs in the queue are a share of the process that met the file, and who
 * has many there lets others pass. A file that is beyond its share waits, until one of these is done, or a
 * process with less meets it.
 *
 * Nothing waits for this. Names that are there when a window is closed go into it, later ones into later
 * windows. A thread that hangs, on a file in FUSE for one, is left behind with its job after ten seconds.
 * When no thread hangs any more, such a file is tried again, at growing intervals.
 *
 * A name of C++ takes a worker to be made readable, and one worker does that for many. So addresses of a file
 * whose table a thread has wait for others, until there are 1,024 or the end of the window is near. An
 * address of a file that has to be read goes at once, while processes that map it live.
 *
 * A debug file that a server has sent comes long after its object was read without it. Then all addresses of
 * the object that got no name are stale: they are asked for again, 1,024 at a time, by a job that reads the
 * object anew. Answers that were on their way by then leave no address settled as nameless.
 *
 * Lines and inlined functions come after the names, from a thread of their own: their worker may take seconds
 * over a large file (symbol-session.h). One file is asked at a time: of those that wait, the one that most of
 * the new stacks are in. What that takes comes off a budget of 10 s, which gets 1 s a minute. When it is used
 * up, files wait, which is counted. A file that takes more than 8 s, and one without debug information, is
 * asked once. Each question reads the file's units again. So the first one comes at once, the next as the end
 * of the window is near, and what was met after that waits until there is just time for it.
 *
 *     names known ─▶ [file: addresses without lines] ─budget─▶ worker ─▶ lines ─▶ window
 *
 * Tables are large, and are needed while new addresses come: when a program starts, mostly. So while a thread
 * has tables, it is told once a minute to forget those that it did not need. An address that comes later has
 * its file read again.
 */
#include "host/naming/object-names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/arena.h"
#include "core/base/data/hashmap.h"
#include "core/base/data/intern.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/stat.h"
#include "host/naming/name-job.h"
#include "host/sampling/process/object.h"

#define DEFAULT_RETRY_NS (10 * NS_PER_SEC)      /* after a file could not be opened where it is */
#define DEFAULT_AGING_NS (60 * NS_PER_SEC)

#define DEFAULT_LINES_BUDGET_NS (10 * NS_PER_SEC)
#define LINES_AHEAD_NS (350 * NS_PER_MS)        /* before a window closes: a drain at least, and some more */
#define LINES_APART_NS (1250 * NS_PER_MS)       /* from one reading of a file to the next, but for the last */

enum {
        LINES_PER_MINUTE = 60,          /* a minute brings one second of it */
        LINES_HASTE = 2,                /* times that a file took, until its answer is there on a busy host */
        MAX_ROW_BYTES = 32 << 20,       /* bytes of names and lines, without their texts */
        DEFAULT_MAX_NAMES = 128 << 10,
        DEFAULT_MAX_TEXT_BYTES = 32 << 20,
        MAX_OBJECTS = 16 << 10,
        DEFAULT_MAX_JOBS = 256,
        NO_TEXT = UINT32_MAX,
        AHEAD = 64,                     /* frames that are fetched at once */
        MAX_ID = 136,                   /* bytes of a build id's text, with its NUL */
        /* doublings of that interval, after failures in a row: eleven minutes */
        MAX_DOUBLINGS = 6,
};

typedef enum NameState { NAME_NEW, NAME_STALE, NAME_ASKED, NAME_KNOWN, NAME_NONE } NameState;

typedef struct NamedObject NamedObject;

/* A function that runs at an address: Intern texts, NO_TEXT = none, or the same as name. */
typedef struct LineText {
        uint32_t name, linkage_name, file, line, start_line;
} LineText;

/* Innermost first. */
typedef struct LineTexts {
        uint32_t n;
        LineText items[];
} LineTexts;

typedef struct Name {
        uint64_t address;
        uint32_t name, linkage_name;    /* Intern texts; NO_TEXT = the same as name */
        NameState state;
        bool is_lined;                  /* lines were asked for */
        uint16_t nameless;              /* counter of why there is none, in NAME_NEW and NAME_NONE */
        const LineTexts *lines;         /* NULL = none */
        struct Name *next_asked;        /* next name of its object that is not sent */
} Name;

struct NamedObject {
        NameSubject subject;            /* subject whose texts are owned */
        uint64_t file;                  /* Object.file */
        Hashmap names;                  /* address → Name */
        Name *first_name;               /* first name that is not sent yet */
        uint32_t n_asked;
        NamedObject *next_asked;        /* among those that have some */
        uint64_t retry_ns;
        unsigned n_failed;              /* times in a row that no worker could read it, or a thread hung */
        bool is_stuck;                  /* the last thread that read it was left behind */
        bool is_renewed;                /* the next job is to read it anew */
        bool has_stale;                 /* addresses, from stale_at on */
        uint32_t serial, stale_at;      /* times that its debug file came; place in `names` */
        uint64_t answered_ns;           /* when a thread had its table last; 0 = never, or it is void, */
        uint64_t n_evicted;             /* … and how many tables had been evicted by then */
        uint32_t n_uses;                /* frames of new stacks */
        bool is_unlined;                /* some names have not been asked for lines */
        LinesState lines;               /* READ or UNKNOWN, else it is not asked for lines any more */
        uint64_t lined_ns, lines_took_ns;       /* when it was read for lines last, and what that took */
        NamePlaces places;              /* processes that map it */
        ShareOwner owner;               /* process whose turn its next job is */
        bool is_beyond;                 /* the owner has more jobs than its share: this one waits */
};

struct ObjectNames {
        ObjectNamesLimits limits;
        Zygotes *zygotes;               /* borrowed; NULL = none */
        NameRemote remote;
        Worker *worker;
        Shares shares;                  /* holders of places in its queue */
        ShareOwner owner;               /* process that was met last; group 0 = none yet */
        uint64_t owner_generation;      /* … and the program that it ran */
        uint64_t window_serial;
        Hashmap words;                  /* frame word of this window → Name */
        Hashmap objects;                /* hash of file and path → NamedObject */
        Arena rows;                     /* Names */
        Intern texts;
        uint32_t n_names, n_waiting;
        NamedObject *first_asked;
        bool is_over;                   /* a cap was met: clear when no job is out */
        size_t table_bytes;             /* size of the thread's tables, when it answered last */
        uint64_t n_evicted;             /* tables that made room for others, or went with their thread */
        uint64_t aging_ns;              /* next time to tell it to age them; UINT64_MAX = it was told */
        Worker *liner;                  /* reads lines; NULL = not wanted */
        int64_t lines_left_ns;          /* budget, */
        uint64_t lines_at_ns;           /* … and when it was that */
};

/* ---- making and clearing ---- */

int object_names_new(ObjectNames **namesp, const ObjectNamesLimits *limits, Zygotes *zygotes) {
        _cleanup_(object_names_freep) ObjectNames *names = calloc(1, sizeof(*names));
        WorkerConfig worker = {
                .name = "names", .begin = name_job_begin, .end = name_job_end, .userdata = names
        };
        int r;

        if (!names)
                return error_origin(-ENOMEM);
        if (limits)
                names->limits = *limits;
        names->limits.max_names = names->limits.max_names ?: DEFAULT_MAX_NAMES;
        names->limits.max_text_bytes = names->limits.max_text_bytes ?: DEFAULT_MAX_TEXT_BYTES;
        names->limits.max_jobs = names->limits.max_jobs ?: DEFAULT_MAX_JOBS;
        names->zygotes = zygotes;
        names->limits.retry_ns = names->limits.retry_ns ?: DEFAULT_RETRY_NS;
        names->limits.aging_ns = names->limits.aging_ns ?: DEFAULT_AGING_NS;
        names->limits.lines_budget_ns = names->limits.lines_budget_ns ?: DEFAULT_LINES_BUDGET_NS;
        intern_init(&names->texts, UINT32_MAX - 1);
        worker.max_jobs = names->limits.max_jobs;
        worker.time_limit_ns = names->limits.time_limit_ns;
        r = worker_new(&names->worker, &worker);
        if (r)
                return error_fold(r);
        *namesp = take(names);
        return 0;
}

void object_names_set_remote(ObjectNames *names, const NameRemote *remote) {
        names->remote = *remote;
}

int object_names_want_lines(ObjectNames *names) {
        const WorkerConfig config = {
                .name = "lines", .begin = name_job_begin, .end = name_job_end, .userdata = names
        };
        int r = names->zygotes ? worker_new(&names->liner, &config) : 0;

        names->lines_left_ns = (int64_t)names->limits.lines_budget_ns;
        names->lines_at_ns = clock_monotonic_ns();
        return r ? error_fold(r) : 0;
}

static void free_object(NamedObject *object) {
        hashmap_deinit(&object->names);
        free((char *)object->subject.gnu);
        free((char *)object->subject.go);
        free((char *)object->subject.path);
        free(object);
}

static void clear(ObjectNames *names) {
        HashmapEntry *entry;
        uint32_t at = 0;

        while ((entry = hashmap_next(&names->objects, &at)))
                free_object(entry->value);
        hashmap_deinit(&names->objects);
        hashmap_deinit(&names->words);
        arena_deinit(&names->rows);
        intern_deinit(&names->texts);
        names->n_names = names->n_waiting = 0;
        names->first_asked = NULL;
        names->is_over = false;
}

ObjectNames *object_names_free(ObjectNames *names) {
        if (!names)
                return NULL;
        worker_free(names->worker);
        worker_free(names->liner);
        clear(names);
        shares_deinit(&names->shares);
        free(names);
        return NULL;
}

/* ---- wanting ---- */

static const char *path_of(const Mapping *mapping) {
        return mapping->kind == MAPPING_VDSO ? "[vdso]" : mapping->path;
}

static uint64_t object_key(const Mapping *mapping) {
        uint64_t parts[2] = { mapping->object->file, hash_bytes(path_of(mapping), strlen(path_of(mapping))) };

        return hash_bytes(parts, sizeof(parts));
}

/* If two objects hash to one number, the later one has no names. */
static bool is_same(const NamedObject *named, const Mapping *mapping) {
        return named->file == mapping->object->file && !strcmp(named->subject.path, path_of(mapping));
}

static int new_object(ObjectNames *names, const Mapping *mapping, NamedObject **namedp) {
        NamedObject *named = calloc(1, sizeof(*named));

        if (!named)
                return error_origin(-ENOMEM);
        named->file = mapping->object->file;
        named->subject = (NameSubject){ .gnu = strdup(mapping->object->build_id_gnu),
                                        .go = strdup(mapping->object->build_id_go),
                                        .path = strdup(path_of(mapping)),
                                        .is_vdso = mapping->kind == MAPPING_VDSO };
        if (!named->subject.is_vdso)
                named->subject.file = object_file(mapping->object);
        if (!named->subject.gnu || !named->subject.go || !named->subject.path) {
                free_object(named);
                return error_origin(-ENOMEM);
        }
        *namedp = named;
        return 0;
}

static int add_object(ObjectNames *names, const Mapping *mapping, uint64_t key, NamedObject **namedp) {
        NamedObject *named = NULL;
        int r = new_object(names, mapping, &named);

        if (r)
                return error_fold(r);
        r = hashmap_put(&names->objects, key, named);
        if (r) {
                free_object(named);
                return error_fold(r);
        }
        names->is_over = names->is_over || names->objects.n_entries > MAX_OBJECTS;
        *namedp = named;
        return 0;
}

/* *namedp stays NULL if it can have none. */
static int find_object(ObjectNames *names, const Mapping *mapping, NamedObject **namedp) {
        uint64_t key = object_key(mapping);
        NamedObject *named = hashmap_get(&names->objects, key);
        int r;

        if (!named) {
                r = add_object(names, mapping, key, &named);
                if (r)
                        return error_fold(r);
        }
        if (is_same(named, mapping))
                *namedp = named;
        return 0;
}

static void note_place(NamedObject *object, const Process *process, const Mapping *mapping) {
        name_places_add(&object->places,
                        &(NamePlace){ .pid = (pid_t)process->pid,
                                      .start_time_ns = process->start_time_ns,
                                      .start = mapping->start,
                                      .end = mapping->end });
}

/* *namep stays NULL over the cap. */
static int find_name(ObjectNames *names, NamedObject *object, uint64_t address, Name **namep) {
        Name *name = hashmap_get(&object->names, address);
        int r;

        if (!name && names->n_names >= names->limits.max_names) {
                names->is_over = true;
                stat_add(COUNTER_NAMES_DROPPED, 1);
                return 0;
        }
        if (!name) {
                name = arena_zero(&names->rows, 1, sizeof(*name));
                if (!name)
                        return error_origin(-ENOMEM);
                name->address = address;
                name->nameless = COUNTER_NAMELESS_LATE;
                r = hashmap_put(&object->names, address, name);
                if (r)
                        return error_fold(r);
                names->n_names++;
        }
        *namep = name;
        return 0;
}

static enum counter nameless_by(enum counter why) {
        return why == COUNTER_NAMES_GONE ? COUNTER_NAMELESS_GONE
                : why == COUNTER_NAMES_DROPPED ? COUNTER_NAMELESS_NO_ROOM
                                               : COUNTER_NAMELESS_UNREAD;
}

/* Gives back addresses that will not be answered. */
static void give_back(ObjectNames *names, const NameJob *job, enum counter why) {
        stat_add(why, job->n);
        names->n_waiting -= job->n;
        for (uint32_t i = 0; i < job->n; i++) {
                Name *name = job->names[i];

                name->state = NAME_NEW;
                name->nameless = nameless_by(why);
        }
}

static void take_answers(WorkerJob *base, void *userdata);

/* ---- the queue ---- */

static const ShareOwner *owner_of(ObjectNames *names, const Process *process) {
        if (!names->owner.group || names->owner.process != process->pid ||
            names->owner_generation != process->generation) {
                names->owner = identity_owner_of((pid_t)process->pid, process->start_time_ns);
                names->owner_generation = process->generation;
        }
        return &names->owner;
}

static bool has_room(const ObjectNames *names, const ShareOwner *owner) {
        return shares_leave_room(&names->shares, owner, 1, names->limits.max_jobs);
}

/* Return: 0, 1 = it waits, -ENOMEM. */
static int enter_queue(ObjectNames *names, NamedObject *object, Share **sharep) {
        object->is_beyond = shares_held(&names->shares) && !has_room(names, &object->owner);
        if (object->is_beyond)
                return 1;
        return error_fold(shares_hold(&names->shares, &object->owner, 1, sharep));
}

/* A job is done, or given up. Others of its object may be another owner's. */
static void leave_queue(ObjectNames *names, NameJob *job) {
        shares_note_served(&names->shares, job->job.rank);
        share_release(&names->shares, take(job->share), 1);
}

/* The owner of the object's next job is who asks first, or, while that has no room, another one with room. */
static void note_owner(ObjectNames *names, NamedObject *object, const Process *process, const Name *name) {
        bool is_first = name->state != NAME_ASKED && !object->n_asked;

        if (is_first || (object->is_beyond && has_room(names, owner_of(names, process))))
                object->owner = *owner_of(names, process);
}

/* A file that kills or holds up its reader is tried again after ten seconds, and then less and less often. */
static void try_later(const ObjectNames *names, NamedObject *object, bool is_failed) {
        unsigned doublings = is_failed ? MIN(object->n_failed, (unsigned)MAX_DOUBLINGS) : 0;

        object->n_failed += is_failed;
        object->retry_ns = clock_monotonic_ns() + (names->limits.retry_ns << doublings);
}

/* Tables go with the thread. */
static void lose_tables(ObjectNames *names) {
        names->n_evicted++;
        names->table_bytes = 0;
}

/*
 * Each try costs a thread if the file still hangs, and there are few: is_held_up() waits until no thread
 * does.
 */
static void give_up(WorkerJob *base, void *userdata) {
        NameJob *job = (NameJob *)base;
        NamedObject *object = job->object;

        lose_tables(userdata);
        leave_queue(userdata, job);
        give_back(userdata, job, COUNTER_NAMES_STUCK);
        try_later(userdata, object, true);
        object->is_stuck = true;
}

/* @share: holder of its place in the queue. */
static int push_job(ObjectNames *names, NamedObject *object, Share *share) {
        NameJob *job;
        int r = name_job_new(&job, &object->subject, &object->places, names->zygotes, &names->remote,
                             &object->owner);

        if (r)
                return error_fold(r);
        job->share = share;
        job->job.rank = share_rank(&names->shares, share);
        job->job.done = take_answers;
        job->job.stuck = give_up;
        job->object = object;
        job->serial = object->serial;
        job->is_renewed = object->is_renewed;
        for (Name *name = object->first_name; name; name = name->next_asked) {
                job->names[job->n] = name;
                job->addresses[job->n++] = name->address;
        }
        object->first_name = NULL;
        object->n_asked = 0;
        object->is_renewed = false;
        r = worker_push(names->worker, &job->job);
        object->is_renewed = r && job->is_renewed;
        if (r > 0)
                give_back(names, job, COUNTER_NAMES_DROPPED);
        if (r)
                name_job_discard(&job->job);
        return r;
}

/* Return: 0, 1 = it has to wait, -ENOMEM. */
static int send_job(ObjectNames *names, NamedObject *object) {
        Share *share = NULL;
        int r = enter_queue(names, object, &share);

        if (r)
                return r;
        r = push_job(names, object, share);
        if (r)
                share_release(&names->shares, share, 1);
        return r < 0 ? error_fold(r) : 0;
}

static void note_asked(ObjectNames *names, NamedObject *object, Name *name) {
        name->state = NAME_ASKED;
        names->n_waiting++;
        if (!object->n_asked) {
                object->next_asked = names->first_asked;
                names->first_asked = object;
        }
        name->next_asked = object->first_name;
        object->first_name = name;
        object->n_asked++;
}

/* An object with as many as a job takes waits for its share of the queue: more find no room. */
static int ask(ObjectNames *names, NamedObject *object, Name *name) {
        if (object->n_asked >= NAME_JOB_MAX) {
                stat_add(COUNTER_NAMES_DROPPED, 1);
                name->nameless = COUNTER_NAMELESS_NO_ROOM;
                return 0;
        }
        note_asked(names, object, name);
        return object->n_asked < NAME_JOB_MAX ? 0 : object_names_work(names, false, UINT64_MAX);
}

/* Jobs for lines that are out: one at most. */
static uint32_t n_lining(const ObjectNames *names) {
        return names->liner ? worker_n_waiting(names->liner) : 0;
}

static void begin_window(ObjectNames *names, const Window *window) {
        names->window_serial = window_serial(window);
        hashmap_deinit(&names->words);
        if (names->is_over && !worker_n_waiting(names->worker) && !n_lining(names)) {
                stat_add(COUNTER_NAMES_FORGOTTEN, names->n_names);
                clear(names);
        }
}

static bool is_held_up(const ObjectNames *names, const NamedObject *object) {
        return (object->retry_ns && clock_monotonic_ns() < object->retry_ns) ||
               (object->is_stuck && worker_n_stuck(names->worker));
}

/* @known: by the word of @frame in this window; NULL = it was new when the stack came. */
static int want(ObjectNames *names, const Process *process, const FileFrame *frame, Name *known) {
        NamedObject *object = NULL;
        Name *name = known;
        int r;

        if (name && (name->state == NAME_KNOWN || name->state == NAME_NONE))
                return 0;
        r = find_object(names, frame->mapping, &object);
        if (!r && object && !name)
                r = find_name(names, object, frame->address, &name);
        if (r || !object || !name)
                return r;
        r = known ? 0 : hashmap_put(&names->words, frame->word, name);
        if (r || name->state == NAME_KNOWN || name->state == NAME_NONE)
                return r;
        note_place(object, process, frame->mapping);
        object->n_uses++;
        if (is_held_up(names, object))
                return 0;
        note_owner(names, object, process, name);
        return name->state == NAME_ASKED ? 0 : ask(names, object, name);
}

/*
 * Most frames are known, and neither the table of words nor the names are in the cache: both are fetched for
 * all frames before the first one waits for them. @n: up to AHEAD.
 */
static int want_some(ObjectNames *names, const Process *process, const FileFrame *frames, size_t n) {
        Name *known[AHEAD];
        int r = 0;

        for (size_t i = 0; i < n; i++)
                hashmap_prefetch(&names->words, frames[i].word);
        for (size_t i = 0; i < n; i++) {
                known[i] = hashmap_get(&names->words, frames[i].word);
                __builtin_prefetch(known[i]);
        }
        for (size_t i = 0; i < n && !r; i++)
                r = want(names, process, &frames[i], known[i]);
        return r;
}

int object_names_want(ObjectNames *names, const Window *window, const Process *process,
                      const FileFrame *frames, size_t n) {
        int r = 0;

        if (names->window_serial != window_serial(window))
                begin_window(names, window);
        for (size_t at = 0; at < n && !r; at += AHEAD)
                r = want_some(names, process, frames + at, MIN((size_t)AHEAD, n - at));
        return r;
}

/* ---- answers ---- */

static enum counter counter_of(const NameJob *job, uint32_t i) {
        static const enum counter counters[SYMBOL_N_STATES] = {
                [SYMBOL_STATE_NAMED] = COUNTER_NAMES_NONE,
                [SYMBOL_STATE_DYNAMIC] = COUNTER_NAMES_NONE,
                [SYMBOL_STATE_NO_ID] = COUNTER_NAMES_NO_ID,
                [SYMBOL_STATE_ABSENT] = COUNTER_NAMES_UNREADABLE,
                [SYMBOL_STATE_OTHER] = COUNTER_NAMES_OTHER,
                [SYMBOL_STATE_UNREADABLE] = COUNTER_NAMES_UNREADABLE,
                [SYMBOL_STATE_STRIPPED] = COUNTER_NAMES_STRIPPED,
                [SYMBOL_STATE_LARGE] = COUNTER_NAMES_LARGE,
        };

        return job->found[i].name ? COUNTER_NAMES_NAMED : counters[job->found[i].state];
}

/* Why an address has no name of which the file was looked at. */
static enum counter nameless_of(SymbolState state) {
        switch (state) {
        case SYMBOL_STATE_NAMED:
        case SYMBOL_STATE_DYNAMIC:
        case SYMBOL_STATE_STRIPPED:
        case SYMBOL_STATE_NO_ID:
                return COUNTER_NAMELESS_STRIPPED;
        default:
                return COUNTER_NAMELESS_UNREAD;
        }
}

/* Keeps the text of a name, which stays unknown without room. Return: whether it is there. */
static bool keep_text(ObjectNames *names, const char *text, uint32_t *indexp) {
        int r;

        if (!intern_find(&names->texts, text, strlen(text), indexp))
                return true;
        if (names->texts.arena.total + strlen(text) > names->limits.max_text_bytes) {
                names->is_over = true;
                return false;
        }
        r = intern_add(&names->texts, text, strlen(text), indexp);
        return r == 0 || r == INTERN_E_FOUND;
}

static void take_answer(ObjectNames *names, const NameJob *job, uint32_t i) {
        NamedObject *object = job->object;
        Name *name = job->names[i];

        stat_add(counter_of(job, i), 1);
        object->is_unlined = true;
        name->state = job->serial == object->serial ? NAME_NONE : NAME_NEW;
        name->nameless = job->found[i].name ? COUNTER_NAMELESS_NO_ROOM : nameless_of(job->found[i].state);
        if (!job->found[i].name || !keep_text(names, job->found[i].name, &name->name))
                return;
        name->linkage_name = NO_TEXT;
        if (job->found[i].linkage_name && !keep_text(names, job->found[i].linkage_name, &name->linkage_name))
                return;
        name->state = NAME_KNOWN;
}

/* Each file is read once while its table is kept; a table that is cut counts as that alone. */
static void count(const NameJob *job) {
        const uint64_t *n = job->read.n_objects;
        uint64_t n_read = n[SYMBOL_STATE_NAMED] + n[SYMBOL_STATE_DYNAMIC], n_none = 0;

        for (size_t i = 0; i < SYMBOL_N_STATES; i++)
                n_none += n[i];
        n_none -= n_read + n[SYMBOL_STATE_LARGE];
        stat_add(COUNTER_SYMBOL_TABLES_LOADED, n_read - job->read.n_cut);
        stat_add(COUNTER_SYMBOL_TABLES_CUT, job->read.n_cut);
        stat_add(COUNTER_SYMBOL_TABLES_NONE, n_none);
        stat_add(COUNTER_SYMBOL_TABLES_LARGE, n[SYMBOL_STATE_LARGE]);
        stat_add(COUNTER_GO_TABLES_READ, job->read.n_go[SYMBOL_GO_READ]);
        stat_add(COUNTER_GO_TABLES_REFUSED, job->read.n_go[SYMBOL_GO_REFUSED]);
        stat_add(COUNTER_SYMBOL_TABLES_FAILED, job->is_failed);
        stat_add(COUNTER_SYMBOL_TABLES_EVICTED, job->read.n_evicted);
        worker_session_count(&job->workers);
}

/* Notes that a job has found the object's table, or why there is none. */
static void note_answered(ObjectNames *names, NamedObject *object) {
        object->answered_ns = clock_monotonic_ns();
        object->n_evicted = names->n_evicted;
}

/* Whether a thread has its table: one that was needed lately is kept. */
static bool has_table(const ObjectNames *names, const NamedObject *object, uint64_t now_ns) {
        return object->answered_ns && object->n_evicted == names->n_evicted &&
                now_ns - object->answered_ns < names->limits.aging_ns / 2;
}

/* Asks processes that were met meanwhile; if there are none, the next one to be met is asked. */
static void ask_others(ObjectNames *names, NamedObject *object, const NameJob *job) {
        for (uint32_t i = 0; i < job->n && object->places.n && object->n_asked < NAME_JOB_MAX; i++)
                note_asked(names, object, job->names[i]);
}

/* ---- debug files that came ---- */

/* As many as one job takes; the others when that is done. */
static void ask_stale(ObjectNames *names, NamedObject *object) {
        HashmapEntry *entry = NULL;

        while (object->n_asked < NAME_JOB_MAX && (entry = hashmap_next(&object->names, &object->stale_at))) {
                Name *name = entry->value;

                if (name->state == NAME_STALE)
                        note_asked(names, object, name);
        }
        object->has_stale = entry;
}

static void renew(ObjectNames *names, NamedObject *object) {
        HashmapEntry *entry;
        uint32_t at = 0;

        while ((entry = hashmap_next(&object->names, &at))) {
                Name *name = entry->value;

                if (name->state == NAME_NONE)
                        name->state = NAME_STALE;
                name->is_lined = name->lines;
        }
        object->lines = LINES_STATE_UNKNOWN;
        object->serial++;
        object->is_renewed = true;
        object->answered_ns = 0;
        object->stale_at = 0;
        ask_stale(names, object);
}

static void take_news(ObjectNames *names) {
        char gnu[MAX_ID];

        while (names->remote.next && names->remote.next(names->remote.remote.userdata, gnu, sizeof(gnu))) {
                HashmapEntry *entry;
                uint32_t at = 0;

                while ((entry = hashmap_next(&names->objects, &at))) {
                        NamedObject *object = entry->value;

                        if (!strcmp(object->subject.gnu, gnu))
                                renew(names, object);
                }
        }
}

/* ---- answers and tables ---- */

/* The first ones begin an interval. */
static void note_tables(ObjectNames *names, size_t bytes) {
        if (!names->table_bytes && names->aging_ns != UINT64_MAX)
                names->aging_ns = clock_monotonic_ns() + names->limits.aging_ns;
        names->table_bytes = bytes;
}

static void take_answers(WorkerJob *base, void *userdata) {
        NameJob *job = (NameJob *)base;
        NamedObject *object = job->object;
        ObjectNames *names = userdata;

        count(job);
        note_tables(names, job->table_bytes);
        names->n_evicted += job->read.n_evicted;
        object->is_stuck = false;
        leave_queue(names, job);
        name_places_remove(&object->places, &job->gone);
        if (job->is_unopened && job->is_gone && !job->is_failed) {
                give_back(names, job, COUNTER_NAMES_GONE);
                ask_others(names, object, job);
        } else if (job->is_unopened) {
                give_back(names, job, job->is_failed ? COUNTER_NAMES_FAILED : COUNTER_NAMES_UNREADABLE);
                try_later(names, object, job->is_failed);
        } else {
                object->n_failed = 0;
                object->retry_ns = 0;
                note_answered(names, object);
                names->n_waiting -= job->n;
                for (uint32_t i = 0; i < job->n; i++)
                        take_answer(names, job, i);
        }
        if (object->has_stale)
                ask_stale(names, object);
        name_job_discard(base);
}

static void take_aging(WorkerJob *base, void *userdata) {
        NameAging *aging = (NameAging *)base;
        ObjectNames *names = userdata;

        stat_add(COUNTER_SYMBOL_TABLES_AGED, aging->n_aged);
        names->table_bytes = aging->table_bytes;
        names->aging_ns = clock_monotonic_ns() + names->limits.aging_ns;
        base->discard(base);
}

static void give_up_aging(WorkerJob *base, void *userdata) {
        ObjectNames *names = userdata;

        lose_tables(names);
        names->aging_ns = 0;
}

/*
 * Sends one job at a time that ages tables: two in a row would forget all. A full queue is tried again with
 * the next look.
 */
static int age_tables(ObjectNames *names) {
        uint64_t now_ns = names->table_bytes ? clock_monotonic_ns() : 0;
        NameAging *aging;
        int r;

        if (!names->table_bytes || now_ns < names->aging_ns)
                return 0;
        r = name_aging_new(&aging);
        if (r)
                return error_fold(r);
        aging->job.done = take_aging;
        aging->job.stuck = give_up_aging;
        r = worker_push(names->worker, &aging->job);
        if (r)
                aging->job.discard(&aging->job);
        else
                names->aging_ns = UINT64_MAX;
        return r < 0 ? error_fold(r) : 0;
}

/* ---- lines ---- */

/* Return: whether all texts of a frame are there. */
static bool keep_line(ObjectNames *names, const NameLine *line, LineText *to) {
        *to = (LineText){ .linkage_name = NO_TEXT, .line = line->line, .start_line = line->start_line };
        return keep_text(names, line->name, &to->name) && keep_text(names, line->file, &to->file) &&
               (!line->linkage_name || keep_text(names, line->linkage_name, &to->linkage_name));
}

/* Without room the address has its function alone. */
static bool keep_lines(ObjectNames *names, const NameLines *lines, Name *name) {
        LineTexts *texts;

        if (names->rows.total > MAX_ROW_BYTES) {
                names->is_over = true;
                return false;
        }
        texts = arena_zero(&names->rows, 1, sizeof(*texts) + lines->n * sizeof(texts->items[0]));
        if (!texts)
                return false;
        texts->n = lines->n;
        for (uint32_t i = 0; i < lines->n; i++)
                if (!keep_line(names, &lines->items[i], &texts->items[i]))
                        return false;
        name->lines = texts;
        return true;
}

static enum counter lines_counter(const NameJob *job, bool has_lines) {
        static const enum counter counters[LINES_N_STATES] = {
                [LINES_STATE_UNKNOWN] = COUNTER_LINES_FAILED, [LINES_STATE_READ] = COUNTER_LINES_NONE,
                [LINES_STATE_ABSENT] = COUNTER_LINES_NONE,    [LINES_STATE_TIMEOUT] = COUNTER_LINES_CUT,
                [LINES_STATE_FAILED] = COUNTER_LINES_FAILED,  [LINES_STATE_PARTS] = COUNTER_LINES_NONE,
                [LINES_STATE_ZSTD] = COUNTER_LINES_FAILED,
        };

        return has_lines ? COUNTER_LINES_READ : counters[job->lines];
}

/* A file that could not be opened may be there for the next addresses: another process maps it by then. */
static void take_lines(WorkerJob *base, void *userdata) {
        NameJob *job = (NameJob *)base;
        NamedObject *object = job->object;
        ObjectNames *names = userdata;

        names->lines_left_ns -= (int64_t)job->took_ns;
        object->lines_took_ns = job->took_ns;
        object->lined_ns = clock_monotonic_ns();
        worker_session_count(&job->workers);
        name_places_remove(&object->places, &job->gone);
        if (job->serial == object->serial)
                object->lines = job->lines;
        for (uint32_t i = 0; i < job->n; i++) {
                const NameLines *lines = job->found[i].lines;

                stat_add(lines_counter(job, lines && keep_lines(names, lines, job->names[i])), 1);
        }
        name_job_discard(base);
}

static void give_up_lines(WorkerJob *base, void *userdata) {
        NameJob *job = (NameJob *)base;
        NamedObject *object = job->object;
        ObjectNames *names = userdata;

        names->lines_left_ns = 0;
        object->lines = LINES_STATE_TIMEOUT;
        stat_add(COUNTER_LINES_CUT, job->n);
}

static bool has_budget(ObjectNames *names) {
        uint64_t now_ns = clock_monotonic_ns();

        names->lines_left_ns += (int64_t)((now_ns - names->lines_at_ns) / LINES_PER_MINUTE);
        names->lines_left_ns = MIN(names->lines_left_ns, (int64_t)names->limits.lines_budget_ns);
        names->lines_at_ns = now_ns;
        return names->lines_left_ns > 0;
}

/* @left_ns: until the window closes; 0 = it closes now. */
typedef struct LinesMoment {
        uint64_t now_ns, left_ns;
        bool takes_all;
} LinesMoment;

static bool lacks_lines(const NamedObject *object) {
        return object->is_unlined && !object->subject.is_vdso && object->lines <= LINES_STATE_READ;
}

static bool is_due(const NamedObject *object, const LinesMoment *moment) {
        uint64_t since_ns = moment->now_ns - object->lined_ns, took_ns = object->lines_took_ns;

        if (object->lines == LINES_STATE_UNKNOWN)
                return true;
        if (moment->takes_all && since_ns >= LINES_APART_NS)
                return true;
        return !moment->left_ns ||
                (since_ns >= took_ns && moment->left_ns <= LINES_AHEAD_NS + LINES_HASTE * took_ns);
}

/* The file that most frames of new stacks are in; NULL = none is to be asked now. */
static NamedObject *most_used(ObjectNames *names, const LinesMoment *moment) {
        NamedObject *most = NULL;
        HashmapEntry *entry;
        uint32_t at = 0;

        while ((entry = hashmap_next(&names->objects, &at))) {
                NamedObject *object = entry->value;

                if (lacks_lines(object) && is_due(object, moment) && (!most || object->n_uses > most->n_uses))
                        most = object;
        }
        return most;
}

/* Adds addresses whose names are settled; what does not fit is for the next job. */
static void add_unlined(NameJob *job, NamedObject *object) {
        HashmapEntry *entry = NULL;
        uint32_t at = 0;

        while (job->n < NAME_JOB_MAX && (entry = hashmap_next(&object->names, &at))) {
                Name *name = entry->value;

                if (name->is_lined || (name->state != NAME_KNOWN && name->state != NAME_NONE))
                        continue;
                name->is_lined = true;
                job->names[job->n] = name;
                job->addresses[job->n++] = name->address;
        }
        object->is_unlined = entry;
}

static int ask_lines(ObjectNames *names, NamedObject *object) {
        NameJob *job;
        int r = name_job_new(&job, &object->subject, &object->places, names->zygotes,
                             object->serial ? &names->remote : NULL, &object->owner);

        if (r)
                return error_fold(r);
        job->job.done = take_lines;
        job->job.stuck = give_up_lines;
        job->for_lines = true;
        job->object = object;
        job->serial = object->serial;
        add_unlined(job, object);
        r = job->n ? worker_push(names->liner, &job->job) : WORKER_E_FULL;
        if (r)
                name_job_discard(&job->job);
        return r < 0 ? error_fold(r) : 0;
}

/* Sends one job at a time. @left_ns: as object_names_work(); 0 = nothing comes after this: no file rests. */
static int send_lines(ObjectNames *names, bool takes_all, uint64_t left_ns) {
        LinesMoment moment = { .left_ns = left_ns, .takes_all = takes_all };
        NamedObject *object;
        int r;

        if (!names->liner)
                return 0;
        worker_collect(names->liner, clock_monotonic_ns());
        moment.now_ns = clock_monotonic_ns();
        while (!n_lining(names) && (object = most_used(names, &moment)) && has_budget(names)) {
                r = ask_lines(names, object);
                if (r)
                        return error_fold(r);
        }
        return 0;
}

/* Objects that wait for more addresses, or for their share of the queue, stay as they are. */
static int send_jobs(ObjectNames *names, bool sends_all) {
        uint64_t now_ns = clock_monotonic_ns();
        NamedObject *left = names->first_asked;

        names->first_asked = NULL;
        while (left) {
                NamedObject *object = left;
                int r = !sends_all && object->n_asked < NAME_JOB_MAX && has_table(names, object, now_ns);

                left = object->next_asked;
                if (!r && object->n_asked)
                        r = send_job(names, object);
                if (r < 0)
                        return error_fold(r);
                if (r) {
                        object->next_asked = names->first_asked;
                        names->first_asked = object;
                }
        }
        return 0;
}

int object_names_work(ObjectNames *names, bool sends_all, uint64_t left_ns) {
        int r = age_tables(names);

        if (!r)
                r = send_lines(names, sends_all, left_ns);
        if (r)
                return error_fold(r);
        take_news(names);
        if (!worker_n_waiting(names->worker) && !names->first_asked && !worker_n_stuck(names->worker))
                return 0;
        worker_collect(names->worker, clock_monotonic_ns());
        return send_jobs(names, sends_all);
}

/* ---- naming ---- */

static int put_text(const ObjectNames *names, Window *window, uint32_t text, uint32_t *stringp) {
        const InternItem *item = text == NO_TEXT ? NULL : intern_get(&names->texts, text);

        return item ? window_string(window, item->data, item->size, stringp) : 0;
}

static int put_function(const ObjectNames *names, Window *window, const LineText *text, uint32_t *indexp) {
        WindowFunction function = { .start_line = text->start_line };
        int r = put_text(names, window, text->name, &function.name);

        r = r ? r : put_text(names, window, text->linkage_name, &function.system_name);
        r = r ? r : put_text(names, window, text->file, &function.filename);
        return r ? r : window_function(window, &function, indexp);
}

/* The function that the code lies in keeps its name: of aliases DWARF may know another. */
static LineText line_of(const Name *name, uint32_t i) {
        LineText text = name->lines->items[i];

        if (i + 1 == name->lines->n && name->state == NAME_KNOWN) {
                text.name = name->name;
                text.linkage_name = name->linkage_name;
        }
        return text;
}

static int name_lines(const ObjectNames *names, Window *window, FrameWord word, const Name *name) {
        WindowName functions[LINES_MAX_FRAMES];
        int r = 0;

        for (uint32_t i = 0; i < name->lines->n && !r; i++) {
                LineText text = line_of(name, i);

                functions[i].line = text.line;
                r = put_function(names, window, &text, &functions[i].function);
        }
        return r ? r : window_name_inlined(window, word, functions, name->lines->n);
}

static int name_word(ObjectNames *names, Window *window, FrameWord word, const Name *name) {
        const LineText text = { .name = name->name, .linkage_name = name->linkage_name, .file = NO_TEXT };
        uint32_t index;
        int r = name->lines ? name_lines(names, window, word, name) : WINDOW_E_FULL;

        if (r != WINDOW_E_FULL)
                return r;
        stat_add(COUNTER_LINES_FULL, name->lines != NULL);
        r = put_function(names, window, &text, &index);
        return r ? r : window_name_frame(window, word, index);
}

int object_names_apply(ObjectNames *names, Window *window) {
        const LinesMoment late = { .takes_all = true };
        const HashmapEntry *entry;
        uint32_t at = 0, n_lost;
        int r;

        if (names->window_serial != window_serial(window))
                return 0;
        while ((entry = hashmap_next(&names->words, &at))) {
                const Name *name = entry->value;

                stat_add(COUNTER_NAMES_LATE, name->state <= NAME_ASKED);
                if (name->state != NAME_KNOWN)
                        continue;
                r = name_word(names, window, entry->key, name);
                if (r < 0)
                        return error_fold(r);
                if (r == WINDOW_E_FULL)
                        stat_add(COUNTER_NAMES_LATE, 1);
        }
        r = window_spread_names(window, &n_lost);
        if (r)
                return error_fold(r);
        stat_add(COUNTER_LINES_FULL, n_lost);
        stat_add(COUNTER_LINES_OVER_BUDGET,
                 names->liner && names->lines_left_ns <= 0 && most_used(names, &late));
        return 0;
}

/* ---- samples without a name ---- */

/* The innermost frame of a stack that is not the kernel's; FRAME_WORD_EMPTY = there is none. */
static FrameWord user_leaf(const Window *window, uint32_t stack, WindowFrame *framep) {
        size_t n;
        const FrameWord *words = window_get_stack(window, stack, &n);

        for (size_t i = 0; i < n; i++) {
                *framep = window_expand_frame(window, words[i]);
                if (strcmp(window_get_string(window, framep->type, NULL), "kernel") != 0)
                        return words[i];
        }
        return FRAME_WORD_EMPTY;
}

static enum counter why_nameless(const ObjectNames *names, FrameWord word) {
        const Name *name = hashmap_get(&names->words, word);

        if (!name || name->state == NAME_KNOWN)
                return COUNTER_NAMELESS_NO_ROOM;
        return name->state == NAME_NEW || name->state == NAME_NONE ? name->nameless : COUNTER_NAMELESS_LATE;
}

void object_names_count(const ObjectNames *names, const Window *window) {
        if (names->window_serial != window_serial(window))
                return;
        for (uint32_t i = 0; i < window_n_profiles(window); i++) {
                const WindowProfile *profile = window_get_profile(window, i);

                for (uint32_t j = 0; profile_is_cpu(profile->type) && j < profile->n_samples; j++) {
                        WindowSample sample;
                        WindowFrame frame;
                        FrameWord leaf;

                        window_get_sample(window, i, j, &sample);
                        leaf = user_leaf(window, sample.stack, &frame);
                        if (leaf != FRAME_WORD_EMPTY && frame.module && !frame.function)
                                stat_add(why_nameless(names, leaf), sample.n_events);
                }
        }
}

int object_names_wait(ObjectNames *names, uint64_t end_ns) {
        bool is_idle;

        do {
                int r = object_names_work(names, true, UINT64_MAX);

                if (r)
                        return error_fold(r);
                is_idle = worker_wait(names->worker, end_ns);
                worker_collect(names->worker, clock_monotonic_ns());
                r = is_idle ? send_lines(names, true, 0) : 0;
                if (r)
                        return error_fold(r);
                is_idle = is_idle && (!names->liner || worker_wait(names->liner, end_ns));
        } while (is_idle && (names->first_asked || n_lining(names)));
        return 0;
}

uint32_t object_names_n_waiting(const ObjectNames *names) {
        return names->n_waiting;
}

size_t object_names_memory(const ObjectNames *names) {
        return names->rows.total + names->texts.arena.total + names->texts.items_size * sizeof(InternItem) +
               names->texts.n_slots * sizeof(uint32_t) + names->words.n_slots * sizeof(HashmapEntry);
}

size_t object_names_table_bytes(const ObjectNames *names) {
        return names->table_bytes;
}
