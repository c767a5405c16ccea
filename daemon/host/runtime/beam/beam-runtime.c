/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A file is Erlang's machine if it exports what its extensions call.
 *
 *     texts of the file         its release
 *     + memory of the process   schedulers, modules, atoms: the kernel half's entry
 *
 * Both are read by a worker without rights, or in this process, where there are no workers: `record` by a
 * user, `targets`. So are names, when a frame is met.
 */
#include "host/runtime/beam/beam-runtime.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/text.h"
#include "host/runtime/beam/beam-wire.h"
#include "host/runtime/reader/reader-process.h"

enum {
        TRUST_MS = 1000,                /* for how long a name is believed at first: code is loaded again */
        N_TASKS = 64,                   /* names of processes of Erlang that are kept */
        NAMELESS_NS = 1000000000,       /* for how long no name of such a process is believed */
        MAX_TASK = 192,                 /* bytes of such a name; longer ones are cut */
};

/* Atoms are never freed: a name that was read once is right for ever. None, "", is believed for a while. */
typedef struct Task {
        uint64_t task;                  /* number that tells it; 0 = none is kept */
        uint64_t end_ns;                /* until when no name is believed */
        char name[MAX_TASK];
} Task;

typedef struct BeamState {
        ReaderProcess process;
        BeamOpened opened;
        BeamFound found;
        ReaderFunction function;        /* answer to the last question */
        Task tasks[N_TASKS];            /* by the number that tells them */
        char pid[BEAM_MAX_PID];         /* answer to the last question */
} BeamState;

static bool recognises(int fd, uint64_t size, char says[OBJECT_MAX_SAYS]) {
        return beam_recognises(fd, NULL, size);
}

static void detach(void *userdata) {
        BeamState *state = userdata;

        reader_process_deinit(&state->process);
        free(state);
}

static int make_state(BeamState **statep, RuntimeSubject *subject) {
        BeamState *state = calloc(1, sizeof(*state));
        int r = state ? reader_process_init(&state->process, subject) : error_origin(-ENOMEM);

        if (!r)
                *statep = state;
        else
                free(state);
        return error_fold(r);
}

/* Return: 0, FILE_LINK_E_*. */
static int open_beam(BeamState *state) {
        const ReaderProcess *process = &state->process;
        const void *said = NULL;
        int r;

        if (!process->link)
                return beam_open(process->fd, NULL, process->size, &state->opened) ? FILE_LINK_E_NOT : 0;
        r = file_link_open(process->link, &said);
        if (r != FILE_LINK_E_LATER)
                memcpy(&state->opened, said, sizeof(state->opened));
        return r;
}

static BeamReader reader_of(BeamState *state) {
        return (BeamReader){ .read = reader_process_read,
                             .userdata = &state->process,
                             .layout = beam_layout(state->opened.release),
                             .ranges = state->found.process.ranges,
                             .active = state->found.process.active,
                             .modules = state->found.process.modules,
                             .atoms = state->found.atoms };
}

/* Return: 0, BEAM_CODE_E_*. */
static int find(BeamState *state) {
        const BeamReader reader = reader_of(state);
        int said = BEAM_CODE_E_LATER;

        if (!state->process.link)
                return beam_find(&reader, &state->opened, state->process.bias, &state->found);
        return beam_link_find(state->process.link, &state->found, &said) ? BEAM_CODE_E_LATER : said;
}

/* Why a process is not walked, whose file is known. */
static const char *reason(int r) {
        if (r == BEAM_CODE_E_POINTERS)
                return "frame pointers (+JPperf true): see its perf map";
        return r == BEAM_CODE_E_MANY ? "more than 64 schedulers" : "layout unknown";
}

static int attach(RuntimeSubject *subject, void **statep, void *entry, char text[RUNTIMES_MAX_TEXT]) {
        BeamState *state = *statep;
        int r = state ? 0 : make_state(&state, subject);

        if (r)
                return error_fold(r);
        *statep = state;
        r = open_beam(state);
        if (r == FILE_LINK_E_LATER)
                return RUNTIME_E_LATER;
        snprintf(text, RUNTIMES_MAX_TEXT, "%s", state->opened.reason);
        if (r)
                return RUNTIME_E_UNKNOWN;
        r = find(state);
        if (r == BEAM_CODE_E_LATER)
                return RUNTIME_E_LATER;
        if (r) {
                snprintf(text, RUNTIMES_MAX_TEXT, "%.*s: not walked: %s", BEAM_MAX_REASON - 1, state->opened.reason,
                         reason(r));
                return RUNTIME_E_UNKNOWN;
        }
        state->found.process.generation = subject->generation;
        memcpy(entry, &state->found.process, sizeof(state->found.process));
        return 0;
}

static int names(void *userdata, const uint64_t *const *words, size_t n, FunctionAnswer answer, void *to) {
        BeamState *state = userdata;
        const BeamReader reader = reader_of(state);
        int r = 0;

        if (state->process.link)
                return beam_link_names(state->process.link, &state->found, words, n, &state->function,
                                       answer, to);
        for (size_t i = 0; i < n && !r; i++)
                r = answer(to, i, beam_code_name(&reader, words[i], &state->function));
        return error_fold(r);
}

static int frames(void *userdata, const uint64_t *words, RuntimeFrame *frames, size_t max, size_t *np) {
        const BeamState *state = userdata;

        return function_frames(names, userdata, &state->function, words, frames, np);
}

static int many(void *userdata, const uint64_t *const *words, size_t n, RuntimeAnswer answer, void *to) {
        const BeamState *state = userdata;

        return function_many(names, userdata, &state->function, words, n, answer, to);
}

/* Return: 0 with what beam_code_task() *said, FILE_LINK_E_LATER. */
static int ask_task(BeamState *state, uint64_t number, int *said) {
        const BeamReader reader = reader_of(state);

        if (state->process.link)
                return beam_link_task(state->process.link, &state->found, number, &state->function, said);
        *said = beam_code_task(&reader, number, &state->function);
        return 0;
}

static void keep_task(Task *task, uint64_t number, const char *name) {
        task->task = number;
        task->end_ns = clock_monotonic_ns() + NAMELESS_NS;
        snprintf(task->name, sizeof(task->name), "%.*s", (int)text_cut_utf8(name, sizeof(task->name) - 1), name);
}

/* A name that is late is asked for again with the next sample of that process. */
static int task_name(void *userdata, const uint8_t *bytes, size_t size, bool may_ask, const char **textp) {
        BeamState *state = userdata;
        int said = BEAM_CODE_E_GONE;
        uint64_t number;
        Task *task;

        if (size != BEAM_TASK_SIZE)
                return RUNTIME_E_UNNAMED;
        memcpy(&number, bytes, sizeof(number));
        task = &state->tasks[(number ^ number >> 32 ^ number >> BEAM_TASK_FUNCTION_SHIFT) % N_TASKS];
        if (task->task != number || (!*task->name && clock_monotonic_ns() >= task->end_ns)) {
                if (!may_ask || ask_task(state, number, &said))
                        return RUNTIME_E_LATER;
                keep_task(task, number, said ? "" : state->function.name);
        }
        *textp = task->name;
        return *task->name ? 0 : RUNTIME_E_UNNAMED;
}

static const char *task_id(void *userdata, const uint8_t *bytes, size_t size) {
        BeamState *state = userdata;
        const BeamLayout *layout = beam_layout(state->opened.release);
        uint64_t term;

        if (size != BEAM_TASK_SIZE || !layout)
                return NULL;
        memcpy(&term, bytes + sizeof(term), sizeof(term));
        return beam_code_pid(layout, term, state->pid) ? state->pid : NULL;
}

static uint32_t trust_ms(const uint64_t *words) {
        return TRUST_MS;
}

static uint64_t cpu_ns(const void *userdata) {
        const BeamState *state = userdata;

        return file_link_cpu_ns(state->process.link);
}

static const char *const programs[] = { "beam.smp", "beam", NULL };

const RuntimeOps beam_runtime = {
        .name = "beam",
        .frame_type = "beam",
        .entry_size = sizeof(struct beam_process),
        .bit = RUNTIME_HAS_BEAM,
        .programs = programs,
        .recognises = recognises,
        .attach = attach,
        .detach = detach,
        .frames = frames,
        .many = many,
        .task_name = task_name,
        .task_id = task_id,
        .trust_ms = trust_ms,
        .cpu_ns = cpu_ns,
        .tend = file_links_tend,
};
