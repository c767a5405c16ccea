/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Opens the file of an object at one place after the other until one is the same file, has its symbols
 * read, and looks up all addresses of the job in them.
 */

#include "host/naming/name-job.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/symbol/function/symbol-session.h"
#include "host/sampling/process/process.h"

enum { WORTH_TRIMMING = 1 << 20 };      /* bytes */

void *name_job_begin(void) {
        const SymbolizerOptions options = { .max_bytes = NAME_MAX_TABLE_BYTES };
        Symbolizer *symbolizer = NULL;

        return symbolizer_new(&symbolizer, &options) ? NULL : symbolizer;
}

void name_job_end(void *state) {
        symbolizer_free(state);
}

/* ---- where the file is ---- */

static bool is_of_one_process(const NamePlace *a, const NamePlace *b) {
        return a->pid == b->pid && a->start_time_ns == b->start_time_ns;
}

static void drop_place(NamePlaces *places, uint32_t at) {
        places->n--;
        memmove(&places->items[at], &places->items[at + 1], (places->n - at) * sizeof(places->items[0]));
}

void name_places_add(NamePlaces *places, const NamePlace *place) {
        uint32_t at = 0;

        while (at < places->n && !is_of_one_process(&places->items[at], place))
                at++;
        if (at < places->n)
                drop_place(places, at);
        if (places->n == NAME_MAX_PLACES)
                drop_place(places, NAME_MAX_PLACES - 1);
        for (at = places->n; at && places->items[at - 1].start_time_ns > place->start_time_ns; at--)
                places->items[at] = places->items[at - 1];
        places->items[at] = *place;
        places->n++;
}

static bool is_same(const NamePlace *a, const NamePlace *b) {
        return a->pid == b->pid && a->start_time_ns == b->start_time_ns && a->start == b->start &&
               a->end == b->end;
}

void name_places_remove(NamePlaces *places, const NamePlaces *gone) {
        for (uint32_t i = 0; i < gone->n; i++)
                for (uint32_t at = places->n; at-- > 0;)
                        if (is_same(&places->items[at], &gone->items[i]))
                                drop_place(places, at);
}

/* Return: 0, OBJECT_E_MOVED = it has ended, or has something else there, OBJECT_E_UNREADABLE. */
static int open_place(NameJob *job, const NamePlace *place) {
        _cleanup_(closep) int proc_fd = -1;

        if (process_open_living(place->pid, place->start_time_ns, &proc_fd, NULL))
                return OBJECT_E_MOVED;
        return object_file_open(&job->subject.file, proc_fd, place->start, place->end, job->subject.path,
                                &job->fd);
}

/* Return: whether it was opened. */
static bool open_file(NameJob *job) {
        bool is_there = false;

        for (uint32_t i = 0; i < job->places.n; i++) {
                int r = open_place(job, &job->places.items[i]);

                if (!r)
                        return true;
                is_there = is_there || r == OBJECT_E_UNREADABLE;
                if (r == OBJECT_E_MOVED)
                        job->gone.items[job->gone.n++] = job->places.items[i];
        }
        job->is_gone = !is_there;
        return !object_file_open_here(&job->subject.file, job->subject.path, &job->fd);
}

/* ---- what is in it ---- */

static int hand_out(void *userdata) {
        NameJob *job = userdata;

        return take_fd(job->fd);
}

/* @textp: a copy that lives as long as the job; NULL stays NULL. Return: 0, -ENOMEM. */
static int keep(NameJob *job, const char *text, const char **textp) {
        *textp = text ? arena_string(&job->texts, text, strlen(text)) : NULL;
        return *textp || !text ? 0 : error_origin(-ENOMEM);
}

static int find(NameJob *job, uint32_t i, Symbolizer *symbolizer, const SymbolObject *object) {
        SymbolName name;
        int r = symbolizer_name(symbolizer, object, job->addresses[i], &name);

        if (r)
                return error_fold(r);
        job->found[i].state = name.state;
        r = keep(job, name.name, &job->found[i].name);
        if (!r && name.name && name.linkage_name && strcmp(name.linkage_name, name.name))
                r = keep(job, name.linkage_name, &job->found[i].linkage_name);
        return r;
}

/* The vdso is the kernel's, and our own. */
static int have_read(NameJob *job, Symbolizer *symbolizer, const SymbolObject *object) {
        int r = job->zygotes && !job->subject.is_vdso
                ? symbol_session_run(job->zygotes, symbolizer, object, job->addresses, job->n, &job->workers)
                : 0;

        job->is_failed = r == SYMBOL_SESSION_E_FAILED;
        return r;
}

static void note_stats(NameJob *job, const SymbolizerStats *before, const SymbolizerStats *after) {
        for (size_t i = 0; i < SYMBOL_N_STATES; i++)
                job->read.n_objects[i] = after->n_objects[i] - before->n_objects[i];
        for (size_t i = 0; i < SYMBOL_N_GO; i++)
                job->read.n_go[i] = after->n_go[i] - before->n_go[i];
        job->read.n_cut = after->n_cut - before->n_cut;
        job->read.n_evicted = after->n_evicted - before->n_evicted;
}

/* ---- lines ---- */

/* @text: not terminated. Return: a copy; NULL = no memory. */
static const char *copy(NameJob *job, const char *text, size_t size) {
        return arena_string(&job->texts, size ? text : "", size);
}

/* A NUL and the readable form may stand behind the name (core/symbol/line/lines.h). */
static bool keep_line(NameJob *job, const LineFrame *frame, NameLine *line) {
        const char *end = frame->n_name ? memchr(frame->name, 0, frame->n_name) : NULL;
        size_t n = end ? (size_t)(end - frame->name) : frame->n_name;

        *line = (NameLine){ .line = frame->line, .start_line = frame->start_line };
        line->file = copy(job, frame->file, frame->n_file);
        line->name = copy(job, end ? end + 1 : frame->name, end ? frame->n_name - n - 1 : n);
        line->linkage_name = end ? copy(job, frame->name, n) : NULL;
        return line->file && line->name && (line->linkage_name || !end);
}

static int keep_lines(void *userdata, uint32_t index, const LineFrame *frames, size_t n) {
        NameJob *job = userdata;
        NameLines *lines = arena_zero(&job->texts, 1, sizeof(*lines) + n * sizeof(lines->items[0]));

        if (!lines)
                return error_origin(-ENOMEM);
        lines->n = (uint32_t)n;
        for (size_t i = 0; i < n; i++)
                if (!keep_line(job, &frames[i], &lines->items[i]))
                        return error_origin(-ENOMEM);
        job->found[index].lines = lines;
        return 0;
}

/* Return: 0; -ENOMEM, or that the file could not be opened. */
static int find_lines(NameJob *job, Symbolizer *symbolizer, const SymbolObject *object) {
        uint64_t begin_ns = clock_monotonic_ns();
        int r = OBJECT_E_UNREADABLE;

        if (open_file(job))
                r = symbol_session_lines(job->zygotes, symbolizer, object, job->addresses, job->n, keep_lines,
                                         job, &job->workers, &job->lines);
        job->took_ns = clock_monotonic_ns() - begin_ns;
        return r;
}

/* ---- both ---- */

static int find_names(NameJob *job, Symbolizer *symbolizer, const SymbolObject *object) {
        int r = job->subject.is_vdso || symbolizer_knows(symbolizer, object) || open_file(job)
                ? have_read(job, symbolizer, object)
                : OBJECT_E_UNREADABLE;

        for (uint32_t i = 0; i < job->n && !r; i++)
                r = find(job, i, symbolizer, object);
        return r;
}

static void look_up(WorkerJob *base, void *state) {
        NameJob *job = (NameJob *)base;
        SymbolizerStats before = { 0 };
        const SymbolSource source = { .open = hand_out, .userdata = job };
        const NameSubject *subject = &job->subject;
        const SymbolObject object = { .path = subject->path,
                                      .build_id_gnu = subject->gnu,
                                      .build_id_go = subject->go,
                                      .file = subject->is_vdso ? 0 : object_file_number(&subject->file),
                                      .source = subject->is_vdso ? NULL : &source };
        int r = OBJECT_E_UNREADABLE;

        if (state) {
                before = *symbolizer_stats(state);
                symbolizer_set_remote(state, job->remote.remote.fetch ? &job->remote.remote : NULL,
                                      job->zygotes);
        }
        if (state && job->is_renewed)
                symbolizer_forget(state, &object);
        if (state)
                r = job->for_lines ? find_lines(job, state, &object) : find_names(job, state, &object);
        if (state) {
                note_stats(job, &before, symbolizer_stats(state));
                job->table_bytes = symbolizer_memory(state);
                symbolizer_set_remote(state, NULL, NULL);       /* the remote is the job's */
        }
        job->is_unopened = r;
        closep(&job->fd);
        job->fd = -1;
}

int name_job_new(NameJob **jobp, const NameSubject *subject, const NamePlaces *places, Zygotes *zygotes,
                 const NameRemote *remote, const ShareOwner *owner) {
        NameJob *job = calloc(1, sizeof(*job));
        int r;

        if (!job)
                return error_origin(-ENOMEM);
        job->job = (WorkerJob){ .work = look_up, .discard = name_job_discard };
        job->fd = -1;
        job->subject = *subject;
        job->places = *places;
        job->zygotes = zygotes ? zygotes_ref(zygotes) : NULL;
        if (zygotes && remote && remote->remote.fetch) {
                job->remote = *remote;
                job->remote.remote.owner = *owner;
                remote->ref(remote->remote.userdata);
        }
        r = keep(job, subject->gnu, &job->subject.gnu);
        r = r ? r : keep(job, subject->go, &job->subject.go);
        r = r ? r : keep(job, subject->path, &job->subject.path);
        if (r) {
                name_job_discard(&job->job);
                return r;
        }
        *jobp = job;
        return 0;
}

void name_job_discard(WorkerJob *base) {
        NameJob *job = (NameJob *)base;

        closep(&job->fd);
        zygotes_unref(job->zygotes);
        if (job->remote.unref)
                job->remote.unref(job->remote.remote.userdata);
        arena_deinit(&job->texts);
        free(job);
}

/* ---- ageing ---- */

static void discard_aging(WorkerJob *job) {
        free(job);
}

/* The allocator would keep what is freed. */
static void age(WorkerJob *base, void *state) {
        NameAging *aging = (NameAging *)base;
        size_t before;

        if (!state)
                return;
        before = symbolizer_memory(state);
        aging->n_aged = symbolizer_stats(state)->n_aged;
        symbolizer_age(state);
        aging->n_aged = symbolizer_stats(state)->n_aged - aging->n_aged;
        aging->table_bytes = symbolizer_memory(state);
        if (before - aging->table_bytes >= WORTH_TRIMMING)
                malloc_trim(0);
}

int name_aging_new(NameAging **agingp) {
        NameAging *aging = calloc(1, sizeof(*aging));

        if (!aging)
                return error_origin(-ENOMEM);
        aging->job = (WorkerJob){ .work = age, .discard = discard_aging };
        *agingp = aging;
        return 0;
}
