/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A file is CPython's if it has an interpreter: the program itself, libpython, or a program that has one in
 * it (python-program.c).
 *
 *     release           3.13               what the file says of itself
 *     _PyRuntime        offsets            3.13 and newer, from the file: no memory of the process is needed
 *     + where it lies   the kernel half's entry
 *
 * So a process is walked as soon as its mappings are known. Names are read when a frame is met, while the
 * process lives. Code of modules that are part of the file may never have been touched there: what memory
 * lacks comes from the file.
 *
 *     with workers      python-link.c: file and memory are parsed in a process without rights
 *     without           in this process: `record` by a user, `targets`
 *
 * Tasks of asyncio are described by the module `_asyncio`: a file of its own, which may be loaded at any time,
 * or a part of the interpreter. Greenlets begin in the code of the module `_greenlet` (greenlet 1.0 and newer).
 *
 * Python knows its threads by pthread_self(). On x86-64 that is the thread pointer. On arm64 the C library
 * has a struct in front of what the thread pointer leads to, and pthread_self() is its address. glibc tells
 * debuggers how large it is; musl does not.
 *
 * Where no symbol says which type code objects have, the name of the type is asked for, each time.
 */
#include "host/runtime/python/python-runtime.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/elf/machine.h"
#include "core/base/util/error.h"
#include "host/runtime/python/python-link.h"
#include "host/runtime/python/python-span.h"
#include "host/runtime/reader/reader-process.h"

/* What this process reads of an interpreter itself. */
typedef struct PythonHere {
        PythonProgram program;
        PythonOpened opened;
} PythonHere;

typedef struct PythonState {
        ReaderProcess process;
        PythonHere *here;               /* NULL = a worker reads it */
        PythonLayout layout;
        PythonFunction function;        /* answer to the last question */
        char task[PYTHON_MAX_TEXT];     /* the same: a task's or a span's name */
        struct python_process entry;    /* as the kernel half has it */
        uint64_t coroutine_type, generator_type, text_type, number_type;        /* Py…_Type; 0 = not known */
} PythonState;

static bool recognises(int fd, uint64_t size, char says[OBJECT_MAX_SAYS]) {
        PythonProgram program;

        return python_program_read(&program, fd, NULL, size);
}

static void detach(void *userdata) {
        PythonState *state = userdata;

        reader_process_deinit(&state->process);
        free(state->here);
        free(state);
}

/* ---- the entry ---- */

/* Address of a symbol in the process; 0 = not known. */
static uint64_t address_of(const PythonOpened *opened, PythonSymbol symbol, uint64_t bias) {
        uint64_t address = opened->places[symbol].address;

        return address ? address + bias : 0;
}

/* Return: whether it tells what was asked for. */
static bool add_more(PythonState *state, const PythonMore *more, uint64_t bias) {
        struct python_tasks tasks;

        switch ((PythonMoreKind)more->kind) {
        case PYTHON_MORE_TASKS:
                if (!python_task_layout(more->tasks, &state->layout, state->coroutine_type,
                                        state->generator_type, &tasks))
                        return false;
                state->entry.tasks = tasks;
                return true;
        case PYTHON_MORE_GREENLETS:
                state->entry.root = more->root + bias;
                state->entry.root_size = more->root_size;
                return true;
        case PYTHON_MORE_THREADS:
                state->entry.thread_below = more->thread_below;
                return true;
        default:
                return false;
        }
}

/* Return: whether the kernel half can walk by it. */
static bool fill_entry(PythonState *state, const PythonOpened *opened, const RuntimeSubject *subject) {
        struct python_process *entry = &state->entry;
        uint64_t bias = subject->bias;

        state->layout = opened->layout;
        if (!python_layout_entry(&state->layout, entry))
                return false;
        entry->generation = subject->generation;
        entry->interpreters = address_of(opened, PYTHON_SYMBOL_RUNTIME, bias) + state->layout.interpreters;
        entry->code_type = address_of(opened, PYTHON_SYMBOL_CODE, bias);
        entry->evaluator = address_of(opened, PYTHON_SYMBOL_EVALUATOR, bias);
        entry->evaluator_size = opened->places[PYTHON_SYMBOL_EVALUATOR].size;
        if (state->layout.lock)
                entry->lock = address_of(opened, PYTHON_SYMBOL_RUNTIME, bias) + state->layout.lock;
        state->coroutine_type = address_of(opened, PYTHON_SYMBOL_COROUTINE, bias);
        state->generator_type = address_of(opened, PYTHON_SYMBOL_GENERATOR, bias);
        state->text_type = address_of(opened, PYTHON_SYMBOL_TEXT, bias);
        state->number_type = address_of(opened, PYTHON_SYMBOL_NUMBER, bias);
        add_more(state, &opened->more, bias);
        python_span_begin(&state->layout, address_of(opened, PYTHON_SYMBOL_CONTEXT, bias), &entry->spans);
        return true;
}

/* ---- attach ---- */

static int make_state(PythonState **statep, RuntimeSubject *subject) {
        PythonState *state = calloc(1, sizeof(*state));
        int r = state ? 0 : error_origin(-ENOMEM);

        if (!r && !subject->userdata) {
                state->here = calloc(1, sizeof(*state->here));
                r = state->here ? 0 : error_origin(-ENOMEM);
        }
        r = r ?: reader_process_init(&state->process, subject);
        if (!r)
                *statep = state;
        else if (state) {
                free(state->here);
                free(state);
        }
        return error_fold(r);
}

/* Return: 0, FILE_LINK_E_*. */
static int open_python(PythonState *state, const void **openedp) {
        const ReaderProcess *process = &state->process;
        PythonHere *here = state->here;

        if (process->link)
                return file_link_open(process->link, openedp);
        *openedp = &here->opened;
        return python_open(process->fd, process->size, &here->program, &here->opened) ? FILE_LINK_E_NOT : 0;
}

static int attach(RuntimeSubject *subject, void **statep, void *entry, char text[RUNTIMES_MAX_TEXT]) {
        const PythonOpened *opened;
        const void *said = NULL;
        PythonState *state = *statep;
        int r = state ? 0 : make_state(&state, subject);

        if (r)
                return error_fold(r);
        *statep = state;
        r = open_python(state, &said);
        if (r == FILE_LINK_E_LATER)
                return RUNTIME_E_LATER;
        opened = said;
        snprintf(text, RUNTIMES_MAX_TEXT, "%s", opened->reason);
        if (r)
                return RUNTIME_E_UNKNOWN;
        if (!fill_entry(state, opened, subject)) {
                snprintf(text, RUNTIMES_MAX_TEXT, "%s: layout unknown: structs are too large",
                         opened->reason);
                return RUNTIME_E_UNKNOWN;
        }
        memcpy(entry, &state->entry, sizeof(state->entry));
        return 0;
}

/* ---- other files ---- */

static_assert(PYTHON_MORE_THREADS < 1 << RUNTIMES_MAX_KINDS, "a kind for each");

static uint32_t wants(const char *name) {
        /* libpthread: up to glibc 2.33 */
        if (ELF_MACHINE == EM_AARCH64 && (!strcmp(name, "libc.so.6") || !strncmp(name, "libpthread", 10)))
                return PYTHON_MORE_THREADS;
        if (!strncmp(name, "_asyncio.", strlen("_asyncio.")))
                return PYTHON_MORE_TASKS;
        return !strncmp(name, "_greenlet.", strlen("_greenlet.")) ? PYTHON_MORE_GREENLETS : 0;
}

/* Return: 0, FILE_LINK_E_*. */
static int read_more(PythonState *state, PythonMoreKind kind, int fd, uint64_t size, PythonMore *more) {
        /* Releases before 3.14 have no such section. */
        if (kind == PYTHON_MORE_TASKS && !state->layout.generator_frame)
                return FILE_LINK_E_NOT;
        if (state->process.link)
                return python_link_more(state->process.link, kind, fd, size, more);
        return python_more_read(kind, fd, size, more) ? 0 : FILE_LINK_E_NOT;
}

static int extend(void *userdata, uint32_t kind, int fd, uint64_t size, uint64_t bias, void *entry) {
        PythonState *state = userdata;
        PythonMore more;
        int r = read_more(state, kind, fd, size, &more);

        if (r == FILE_LINK_E_LATER)
                return RUNTIME_E_LATER;
        if (r || !add_more(state, &more, bias))
                return RUNTIME_E_UNKNOWN;
        memcpy(entry, &state->entry, sizeof(state->entry));
        return 0;
}

/* ---- spans ---- */

/* As task_name(). */
static const char *span_name(void *userdata, const uint8_t *object, size_t size) {
        PythonState *state = userdata;

        if (!state->text_type ||
            !python_span_name(object, size, &state->layout, state->text_type, state->task))
                return NULL;
        return state->task;
}

/* Reads memory, or else the file. */
static bool read_here(void *userdata, uint64_t address, void *to, size_t size) {
        PythonState *state = userdata;
        ReaderProcess *process = &state->process;

        return reader_process_read(process, address, to, size) ||
                dynamic_image_read(&state->here->program.image, address - process->bias, to, size);
}

static int spans_here(PythonState *state) {
        const PythonReader reader = { read_here, state };
        const PythonSubject subject = { &state->here->program, &state->layout, state->process.bias };

        return python_span_learn(&reader, &subject, &state->entry.spans);
}

static int spans(void *userdata, void *entry) {
        PythonState *state = userdata;
        int said = PYTHON_SPAN_E_SOON;

        if (!state->process.link)
                said = spans_here(state);
        else if (python_link_spans(state->process.link, &state->entry.spans, &said))
                return RUNTIME_E_LATER;
        if (said)
                return said == PYTHON_SPAN_E_SOON ? RUNTIME_E_LATER : RUNTIME_E_UNKNOWN;
        memcpy(entry, &state->entry, sizeof(state->entry));
        return 0;
}

/* ---- locks ---- */

static int locks(void *userdata, RuntimeLocks *locks) {
        PythonState *state = userdata;

        if (state->process.link)
                return python_link_locks(state->process.link, locks) ? RUNTIME_E_LATER : 0;
        python_locks_read(locks, &(PythonReader){ read_here, state },
                          &(PythonSubject){ &state->here->program, &state->layout, state->process.bias });
        return 0;
}

/* ---- names ---- */

/* A few bytes that a sample has with it: read here. */
static int task_name(void *userdata, const uint8_t *task, size_t size, bool may_ask, const char **textp) {
        PythonState *state = userdata;

        if (size != PYTHON_TASK_SIZE || !state->text_type || !state->number_type ||
            !python_task_name(task, &state->layout, state->text_type, state->number_type, state->task))
                return RUNTIME_E_UNNAMED;
        *textp = state->task;
        return 0;
}

static int name_here(PythonState *state, const uint64_t *words) {
        const PythonReader reader = { read_here, state };

        return python_code_name(&reader, &state->layout, state->entry.code_type, words, &state->function)
                ? FILE_LINK_E_NOT
                : 0;
}

static int frames(void *userdata, const uint64_t *words, RuntimeFrame *frames, size_t max, size_t *np) {
        PythonState *state = userdata;
        const PythonFunction *function = &state->function;
        int r = state->process.link ? python_link_name(state->process.link, words, &state->function)
                            : name_here(state, words);

        if (r || !max)
                return r == FILE_LINK_E_LATER ? RUNTIME_E_LATER : RUNTIME_E_UNNAMED;
        frames[0] = (RuntimeFrame){ .function = function->name,
                                    .file = *function->file ? function->file : NULL,
                                    .line = function->line,
                                    .first_line = function->first_line };
        *np = 1;
        return 0;
}

static uint64_t cpu_ns(const void *userdata) {
        const PythonState *state = userdata;

        return file_link_cpu_ns(state->process.link);
}

static const char *const programs[] = { "python", "python[23]", "python3.*", "uwsgi", NULL };

const RuntimeOps python_runtime = {
        .name = "python",
        .frame_type = "cpython",
        .entry_size = sizeof(struct python_process),
        .bit = RUNTIME_HAS_PYTHON,
        .programs = programs,
        .recognises = recognises,
        .attach = attach,
        .detach = detach,
        .wants = wants,
        .extend = extend,
        .spans = spans,
        .task_name = task_name,
        .span_name = span_name,
        .frames = frames,
        .locks = locks,
        .cpu_ns = cpu_ns,
        .tend = file_links_tend,
};
