/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A file is V8's if it exports the constants that V8 has for debuggers: `node`, libnode.so, or another
 * program with V8 in it.
 *
 *     v8dbg_* constants      layout, from the file: no memory of the process is needed
 *     + where it lies        the kernel half's entry
 *
 * So a process is walked as soon as its mappings are known. Names are read when a frame is met, while the
 * process lives:
 *
 *     with workers           v8-link.c: file and memory are parsed in a process without rights
 *     without                in this process: `record` by a user, `targets`
 */
#include "host/runtime/v8/v8-runtime.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "host/runtime/reader/reader-process.h"
#include "host/runtime/v8/v8-link.h"

enum { TRUST_MS = 1000 };               /* for how long a name of compiled code is believed at first */

typedef struct V8State {
        ReaderProcess process;
        V8Learnt *learnt;               /* by this process; NULL = a worker reads it */
        V8Opened opened;                /* by this process */
        V8Layout layout;
        V8Answer answer;                /* answer to the last question */
} V8State;

static bool recognises(int fd, uint64_t size, char says[OBJECT_MAX_SAYS]) {
        return v8_recognises(fd, NULL, size);
}

static V8Learnt *learnt_free(V8Learnt *learnt) {
        if (learnt)
                v8_lines_free(learnt->lines);
        free(learnt);
        return NULL;
}

static void detach(void *userdata) {
        V8State *state = userdata;

        learnt_free(state->learnt);
        reader_process_deinit(&state->process);
        free(state);
}

/* ---- attach ---- */

static V8Learnt *learnt_new(const RuntimeSubject *subject) {
        V8Learnt *learnt = calloc(1, sizeof(*learnt));

        if (!learnt)
                return NULL;
        learnt->lines = v8_lines_new();
        learnt->fd = subject->fd;
        learnt->file_size = subject->size;
        return learnt;
}

static int make_state(V8State **statep, RuntimeSubject *subject) {
        V8State *state = calloc(1, sizeof(*state));
        int r = state ? 0 : error_origin(-ENOMEM);

        if (!r && !subject->userdata) {
                state->learnt = learnt_new(subject);
                r = state->learnt ? 0 : error_origin(-ENOMEM);
        }
        r = r ?: reader_process_init(&state->process, subject);
        if (!r)
                *statep = state;
        else if (state) {
                learnt_free(state->learnt);
                free(state);
        }
        return error_fold(r);
}

/* Return: 0, FILE_LINK_E_*. */
static int open_v8(V8State *state, const void **openedp) {
        const ReaderProcess *process = &state->process;

        if (process->link)
                return file_link_open(process->link, openedp);
        *openedp = &state->opened;
        return v8_open(process->fd, NULL, process->size, &state->opened) ? FILE_LINK_E_NOT : 0;
}

static int attach(RuntimeSubject *subject, void **statep, void *entry, char text[RUNTIMES_MAX_TEXT]) {
        struct v8_process *process = entry;
        const V8Opened *opened;
        const void *said = NULL;
        V8State *state = *statep;
        int r = state ? 0 : make_state(&state, subject);

        if (r)
                return error_fold(r);
        *statep = state;
        r = open_v8(state, &said);
        if (r == FILE_LINK_E_LATER)
                return RUNTIME_E_LATER;
        opened = said;
        snprintf(text, RUNTIMES_MAX_TEXT, "%s%s", opened->reason,
                 r ? "; --perf-basic-prof names its code" : "");
        if (r)
                return RUNTIME_E_UNKNOWN;
        state->layout = opened->layout;
        if (!v8_layout_entry(&state->layout, process)) {
                snprintf(text, RUNTIMES_MAX_TEXT, "%s: layout unknown: objects are too large",
                         opened->reason);
                return RUNTIME_E_UNKNOWN;
        }
        process->generation = subject->generation;
        process->spans = opened->spans;
        process->text = opened->text + subject->bias;
        process->text_size = opened->text_size;
        return 0;
}

/* ---- names ---- */

/* Return: what frames() of RuntimeOps says. */
static int show(const V8Answer *answer, int said, RuntimeFrame *frames, size_t max, size_t *np) {
        if (said == V8_CODE_E_LATER)
                return RUNTIME_E_LATER;
        if (said == V8_CODE_E_GONE || answer->n > max)
                return RUNTIME_E_UNNAMED;
        for (uint32_t i = 0; i < answer->n; i++) {
                const V8Function *function = &answer->functions[i];

                frames[i] = (RuntimeFrame){ .function = function->name,
                                            .file = *function->file ? function->file : NULL,
                                            .line = function->line,
                                            .first_line = function->first_line };
        }
        *np = answer->n;
        return said == V8_CODE_E_SHORT ? RUNTIME_E_SHORT : 0;
}

/* Return: 0; FILE_LINK_E_LATER: some have no answer; what @answer returned. */
static int name(V8State *state, const uint64_t *const *words, size_t n, V8LinkAnswer answer,
                void *userdata) {
        const V8Reader reader = { reader_process_read, &state->process, &state->layout, NULL };
        int r = 0;

        if (state->process.link)
                return v8_link_names(state->process.link, words, n, &state->answer, answer, userdata);
        for (size_t i = 0; i < n && !r; i++)
                r = answer(userdata, i, v8_code_name(&reader, state->learnt, words[i], &state->answer));
        return r;
}

static int on_said(void *userdata, size_t i, int said) {
        *(int *)userdata = said;
        return 0;
}

static int frames(void *userdata, const uint64_t *words, RuntimeFrame *frames, size_t max, size_t *np) {
        V8State *state = userdata;
        int said = V8_CODE_E_GONE;

        return name(state, &words, 1, on_said, &said) ? RUNTIME_E_LATER
                                                      : show(&state->answer, said, frames, max, np);
}

typedef struct Asking {
        const V8State *state;
        RuntimeAnswer answer;
        void *userdata;
} Asking;

static int on_name(void *userdata, size_t i, int said) {
        RuntimeFrame frames[RUNTIMES_MAX_FRAMES];
        const Asking *asking = userdata;
        size_t n = 0;
        int r = show(&asking->state->answer, said, frames, RUNTIMES_MAX_FRAMES, &n);

        return asking->answer(asking->userdata, i, r, frames, n);
}

static int many(void *userdata, const uint64_t *const *words, size_t n, RuntimeAnswer answer, void *to) {
        Asking asking = { userdata, answer, to };

        return MIN(name(userdata, words, n, on_name, &asking), 0);
}

/* Code may be thrown away, and other code of the same function take its place. */
static uint32_t trust_ms(const uint64_t *words) {
        return words[0] >> RUNTIME_KIND_SHIFT == RUNTIME_V8_COMPILED ? TRUST_MS : 0;
}

static uint64_t cpu_ns(const void *userdata) {
        const V8State *state = userdata;

        return file_link_cpu_ns(state->process.link);
}

/* A call of the program's own that waits for events has a function below it, and an idle loop has none. */
static bool is_idle(const void *state, bool polls, const uint64_t *words, size_t n) {
        (void)state;
        for (size_t i = 0; i < n; i++)
                if (words[i] >> RUNTIME_KIND_SHIFT)
                        return false;
        return polls && n;
}

static const char *const programs[] = { "node", "nodejs", NULL };

const RuntimeOps v8_runtime = {
        .name = "v8",
        .frame_type = "v8js",
        .entry_size = sizeof(struct v8_process),
        .bit = RUNTIME_HAS_V8,
        .is_idle = is_idle,
        .programs = programs,
        .recognises = recognises,
        .attach = attach,
        .detach = detach,
        .frames = frames,
        .many = many,
        .trust_ms = trust_ms,
        .cpu_ns = cpu_ns,
        .tend = file_links_tend,
};
