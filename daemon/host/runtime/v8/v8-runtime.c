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
#include "host/runtime/v8/v8-link.h"
#include "host/sampling/process/memory.h"

enum { TRUST_MS = 1000 };               /* for how long a name of compiled code is believed at first */

/* A process that this process reads itself. */
typedef struct V8Here {
        V8Opened opened;
        V8Learnt learnt;
        uint64_t start_time_ns;
        pid_t pid;
        int fd;
        int memory;                     /* memory_open(); -1 = not asked for, or refused */
} V8Here;

typedef struct V8State {
        V8Link *link;                   /* NULL = this process reads it: */
        V8Here *here;
        V8Layout layout;
        V8Answer answer;                /* answer to the last question */
} V8State;

static bool recognises(int fd, uint64_t size, char says[OBJECT_MAX_SAYS]) {
        return v8_recognises(fd, NULL, size);
}

static V8Here *here_free(V8Here *here) {
        if (!here)
                return NULL;
        v8_lines_free(here->learnt.lines);
        closep(&here->fd);
        closep(&here->memory);
        free(here);
        return NULL;
}

static void detach(void *userdata) {
        V8State *state = userdata;

        v8_link_free(state->link);
        here_free(state->here);
        free(state);
}

/* ---- attach ---- */

static int make_here(V8Here **herep, const RuntimeSubject *subject) {
        V8Here *here = calloc(1, sizeof(*here));

        if (!here)
                return error_origin(-ENOMEM);
        here->fd = subject->fd;
        here->memory = -1;
        here->pid = subject->pid;
        here->start_time_ns = subject->start_time_ns;
        here->learnt.lines = v8_lines_new();
        here->learnt.fd = subject->fd;
        here->learnt.file_size = subject->size;
        *herep = here;
        return 0;
}

static int make_state(V8State **statep, RuntimeSubject *subject) {
        const ReaderSubject reader = { subject->pid, subject->start_time_ns, subject->size, subject->bias,
                                       subject->fd };
        V8State *state = calloc(1, sizeof(*state));
        int r;

        if (!state)
                return error_origin(-ENOMEM);
        r = subject->userdata ? v8_link_new(&state->link, subject->userdata, &reader, subject->object)
                              : make_here(&state->here, subject);
        if (r) {
                free(state);
                return error_fold(r);
        }
        subject->fd = -1;
        *statep = state;
        return 0;
}

/* Return: 0, V8_LINK_E_*. */
static int open_v8(V8State *state, const RuntimeSubject *subject, const V8Opened **openedp) {
        V8Here *here = state->here;

        if (state->link)
                return v8_link_open(state->link, openedp);
        *openedp = &here->opened;
        return v8_open(here->fd, NULL, subject->size, &here->opened) ? V8_LINK_E_NOT : 0;
}

static int attach(RuntimeSubject *subject, void **statep, void *entry, char text[RUNTIMES_MAX_TEXT]) {
        const V8Opened *opened = NULL;
        struct v8_process *process = entry;
        V8State *state = *statep;
        int r = state ? 0 : make_state(&state, subject);

        if (r)
                return error_fold(r);
        *statep = state;
        r = open_v8(state, subject, &opened);
        if (r == V8_LINK_E_LATER)
                return RUNTIME_E_LATER;
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
        process->text = opened->text + subject->bias;
        process->text_size = opened->text_size;
        return 0;
}

/* ---- names ---- */

static bool read_here(void *userdata, uint64_t address, void *to, size_t size) {
        V8Here *here = userdata;

        return size && size <= MEMORY_MAX_READ && address + size >= address && here->memory >= 0 &&
                !memory_read_opened(here->pid, here->memory, address, to, size);
}

static int name_here(V8State *state, const uint64_t *words) {
        const V8Reader reader = { read_here, state->here, &state->layout };

        if (state->here->memory < 0)
                state->here->memory = memory_open(state->here->pid, state->here->start_time_ns);
        switch (v8_code_name(&reader, &state->here->learnt, words, &state->answer)) {
        case V8_CODE_E_GONE:
                return V8_LINK_E_NOT;
        case V8_CODE_E_SHORT:
                return V8_LINK_E_SHORT;
        default:
                return 0;
        }
}

static int frames(void *userdata, const uint64_t *words, RuntimeFrame *frames, size_t max, size_t *np) {
        V8State *state = userdata;
        int r = state->link ? v8_link_name(state->link, words, &state->answer) : name_here(state, words);

        if ((r && r != V8_LINK_E_SHORT) || state->answer.n > max)
                return r == V8_LINK_E_LATER ? RUNTIME_E_LATER : RUNTIME_E_UNNAMED;
        for (uint32_t i = 0; i < state->answer.n; i++) {
                const V8Function *function = &state->answer.functions[i];

                frames[i] = (RuntimeFrame){ .function = function->name,
                                            .file = *function->file ? function->file : NULL,
                                            .line = function->line,
                                            .first_line = function->first_line };
        }
        *np = state->answer.n;
        return r ? RUNTIME_E_SHORT : 0;
}

/* Code may be thrown away, and other code of the same function take its place. */
static uint32_t trust_ms(const uint64_t *words) {
        return words[0] >> RUNTIME_KIND_SHIFT == RUNTIME_V8_COMPILED ? TRUST_MS : 0;
}

static uint64_t cpu_ns(const void *userdata) {
        const V8State *state = userdata;

        return state->link ? v8_link_cpu_ns(state->link) : 0;
}

static void tend(void *userdata, uint64_t now_ns) {
        if (userdata)
                v8_links_tend(userdata, now_ns);
}

const RuntimeOps v8_runtime = {
        .name = "v8",
        .frame_type = "v8js",
        .entry_size = sizeof(struct v8_process),
        .bit = RUNTIME_HAS_V8,
        .recognises = recognises,
        .attach = attach,
        .detach = detach,
        .frames = frames,
        .trust_ms = trust_ms,
        .cpu_ns = cpu_ns,
        .tend = tend,
};
