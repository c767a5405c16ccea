/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/naming/name-job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util/error.h"
#include "sampling/process/process.h"
#include "symbol/function/symbol-session.h"

enum { MAX_TABLE_BYTES = 64 << 20 };    /* of a thread's symbol tables */

void *name_job_begin(void) {
        const SymbolizerOptions options = { .max_bytes = MAX_TABLE_BYTES };
        Symbolizer *symbolizer = NULL;

        return symbolizer_new(&symbolizer, &options) ? NULL : symbolizer;
}

void name_job_end(void *state) {
        symbolizer_free(state);
}

static int hand_out(void *userdata) {
        NameJob *job = userdata;

        return take_fd(job->fd);
}

static int open_file(NameJob *job) {
        const NamePlace *place = &job->place;
        _cleanup_(closep) int proc_fd = -1;

        if (job->is_vdso)
                return 0;
        return process_open_living(place->pid, place->start_time_ns, &proc_fd, NULL) ||
               object_file_open(&place->file, proc_fd, place->start, place->end, job->path, &job->fd);
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
        int r = job->zygotes && !job->is_vdso
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
}

static void look_up(WorkerJob *base, void *state) {
        NameJob *job = (NameJob *)base;
        SymbolizerStats before = { 0 };
        const SymbolSource source = { .open = hand_out, .userdata = job };
        const SymbolObject object = { .path = job->path, .build_id_gnu = job->gnu, .build_id_go = job->go,
                                      .source = job->is_vdso ? NULL : &source };
        int r = !state || open_file(job);

        if (state)
                before = *symbolizer_stats(state);
        if (!r)
                r = have_read(job, state, &object);
        for (uint32_t i = 0; i < job->n && !r; i++)
                r = find(job, i, state, &object);
        if (state)
                note_stats(job, &before, symbolizer_stats(state));
        job->is_unopened = r;
        closep(&job->fd);
        job->fd = -1;
}

int name_job_new(NameJob **jobp, const char *gnu, const char *go, const char *path, bool is_vdso,
                 const NamePlace *place, Zygotes *zygotes) {
        NameJob *job = calloc(1, sizeof(*job));
        int r;

        if (!job)
                return error_origin(-ENOMEM);
        job->job = (WorkerJob){ .work = look_up, .discard = name_job_discard };
        job->fd = -1;
        job->is_vdso = is_vdso;
        job->place = *place;
        job->zygotes = zygotes ? zygotes_ref(zygotes) : NULL;
        r = keep(job, gnu, &job->gnu);
        r = r ? r : keep(job, go, &job->go);
        r = r ? r : keep(job, path, &job->path);
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
        arena_deinit(&job->texts);
        free(job);
}
