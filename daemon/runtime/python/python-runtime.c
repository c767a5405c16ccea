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
 * Tasks of asyncio are described by the module `_asyncio`: a file of its own, which may be loaded at any time,
 * or a part of the interpreter. Greenlets begin in the code of the module `_greenlet` (greenlet 1.0 and newer).
 *
 * Where no symbol says which type code objects have, the name of the type is asked for, each time.
 */
#include "runtime/python/python-runtime.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/elf/image.h"
#include "base/elf/machine.h"
#include "base/util/error.h"
#include "runtime/python/python-code.h"
#include "runtime/python/python-layout.h"
#include "runtime/python/python-program.h"
#include "runtime/python/python-task.h"
#include "sampling/process/memory.h"

/* Other files that tell more. */
enum {
        WANTS_ASYNCIO = 1 << 0,
        WANTS_GREENLET = 1 << 1,
};

typedef struct PythonState {
        PythonLayout layout;
        PythonProgram program;
        PythonFunction function;        /* of the last question */
        char task[PYTHON_MAX_TEXT];     /* the same */
        struct python_process entry;    /* as the kernel half has it */
        uint64_t text_type, number_type;        /* PyUnicode_Type, PyLong_Type */
        uint64_t bias;
        uint64_t start_time_ns;
        pid_t pid;
        int fd;
        int memory;                     /* memory_open(); -1 = not asked for, or refused */
} PythonState;

static bool recognises(int fd, uint64_t size, char says[OBJECT_MAX_SAYS]) {
        PythonProgram program;

        return python_program_read(&program, fd, NULL, size);
}

static void detach(void *userdata) {
        PythonState *state = userdata;

        closep(&state->fd);
        closep(&state->memory);
        free(state);
}

/* ---- which release ---- */

static int unknown(char reason[PYTHON_MAX_REASON], uint32_t version, const char *what) {
        snprintf(reason, PYTHON_MAX_REASON, "python %u.%u: layout unknown: %s", version >> 8, version & 0xff,
                 what);
        return RUNTIME_E_UNKNOWN;
}

/* 3.8 and 3.9 leave no mark on the native stack, so their evaluator has to be known. */
static int read_table(PythonState *state, char reason[PYTHON_MAX_REASON]) {
        uint32_t version = state->program.version;

        if (python_layout_of(version, &state->layout, reason))
                return RUNTIME_E_UNKNOWN;
        if (state->layout.chain == PYTHON_CHAIN_EVALUATOR &&
            !state->program.places[PYTHON_SYMBOL_EVALUATOR].size)
                return unknown(reason, version, "no symbol of the evaluator");
        return 0;
}

static int read_layout(PythonState *state, char reason[PYTHON_MAX_REASON]) {
        const PythonPlace *runtime = &state->program.places[PYTHON_SYMBOL_RUNTIME];
        uint32_t version = state->program.version;
        uint64_t words[PYTHON_N_OFFSETS];
        int r;

        if (!version) {
                snprintf(reason, PYTHON_MAX_REASON,
                         "python: layout unknown: no symbols, and older than 3.13");
                return RUNTIME_E_UNKNOWN;
        }
        if (version < PYTHON_OLDEST)
                return unknown(reason, version, "too old");
        if (version < PYTHON_DESCRIBED)
                return read_table(state, reason);
        if (runtime->size < sizeof(words) ||
            !dynamic_image_read(&state->program.image, runtime->address, words, sizeof(words)))
                memset(words, 0, sizeof(words));
        r = python_layout_read(words, &state->layout, reason);
        if (r == PYTHON_LAYOUT_E_EMPTY)
                return unknown(reason, version, "no offsets in the file");
        return r ? RUNTIME_E_UNKNOWN : 0;
}

/* ---- attach ---- */

/* Address of a symbol in the process; 0 = not known. */
static uint64_t address_of(const PythonState *state, PythonSymbol symbol) {
        uint64_t address = state->program.places[symbol].address;

        return address ? address + state->bias : 0;
}

static int fill_entry(const PythonState *state, const RuntimeSubject *subject, struct python_process *entry,
                      char reason[PYTHON_MAX_REASON]) {
        const PythonLayout *layout = &state->layout;

        snprintf(reason, PYTHON_MAX_REASON, "python %u.%u%s", layout->version >> 8, layout->version & 0xff,
                 layout->is_free_threaded ? " free-threaded" : "");
        if (!python_layout_entry(layout, entry)) {
                snprintf(reason + strlen(reason), PYTHON_MAX_REASON - strlen(reason),
                         ": layout unknown: structs are too large");
                return RUNTIME_E_UNKNOWN;
        }
        entry->generation = subject->generation;
        entry->interpreters = address_of(state, PYTHON_SYMBOL_RUNTIME) + layout->interpreters;
        entry->code_type = address_of(state, PYTHON_SYMBOL_CODE);
        entry->evaluator = address_of(state, PYTHON_SYMBOL_EVALUATOR);
        entry->evaluator_size = state->program.places[PYTHON_SYMBOL_EVALUATOR].size;
        return 0;
}

static int open_python(PythonState *state, const RuntimeSubject *subject, struct python_process *entry,
                       char reason[PYTHON_MAX_REASON]) {
        int r;

        if (!python_program_read(&state->program, state->fd, NULL, subject->size)) {
                snprintf(reason, PYTHON_MAX_REASON, "python: layout unknown: the file has changed");
                return RUNTIME_E_UNKNOWN;
        }
        r = read_layout(state, reason);
        return r ? r : fill_entry(state, subject, entry, reason);
}

/* ---- tasks ---- */

/* Tasks that the file @fd describes, if it does. */
static bool add_tasks(PythonState *state, int fd, uint64_t size) {
        uint64_t words[PYTHON_TASK_WORDS];
        struct python_tasks tasks;
        _cleanup_(freep) char *data = NULL;
        uint64_t data_size;
        ElfImage image;
        bool is_known;

        if (!state->layout.generator_frame || elf_image_init(&image, fd, 0, size))
                return false;
        is_known = !elf_image_read_section(&image, ".AsyncioDebug", PYTHON_MAX_TASK_SECTION, &data, &data_size) &&
                data_size >= sizeof(words);
        elf_image_deinit(&image);
        if (!is_known)
                return false;
        memcpy(words, data, sizeof(words));
        if (!python_task_layout(words, &state->layout, address_of(state, PYTHON_SYMBOL_COROUTINE),
                                address_of(state, PYTHON_SYMBOL_GENERATOR), &tasks))
                return false;
        state->text_type = address_of(state, PYTHON_SYMBOL_TEXT);
        state->number_type = address_of(state, PYTHON_SYMBOL_NUMBER);
        state->entry.tasks = tasks;
        return true;
}

static const char *task_name(void *userdata, const uint8_t *task) {
        PythonState *state = userdata;

        if (!state->text_type || !state->number_type ||
            !python_task_name(task, &state->layout, state->text_type, state->number_type, state->task))
                return NULL;
        return state->task;
}

/* ---- greenlets ---- */

/* Greenlets begin in the code of @fd, if it is greenlet's library. */
static bool add_greenlets(PythonState *state, int fd, uint64_t size, uint64_t bias) {
        DynamicImage image;
        Elf64_Sym symbol;
        uint32_t index;

        if (!dynamic_image_init(&image, fd, NULL, size) || !dynamic_image_find_tables(&image) ||
            !dynamic_image_find(&image, "PyInit__greenlet", &index, &symbol))
                return false;
        for (unsigned i = 0; i < image.n_headers; i++) {
                const Elf64_Phdr *header = &image.headers[i];

                if (header->p_type != PT_LOAD || !(header->p_flags & PF_X))
                        continue;
                state->entry.root = header->p_vaddr + bias;
                state->entry.root_size = header->p_memsz;
                return true;
        }
        return false;
}

/* ---- the entry ---- */

static uint32_t wants(const char *name) {
        if (!strncmp(name, "_asyncio.", strlen("_asyncio.")))
                return WANTS_ASYNCIO;
        return !strncmp(name, "_greenlet.", strlen("_greenlet.")) ? WANTS_GREENLET : 0;
}

static bool extend(void *userdata, uint32_t kind, int fd, uint64_t size, uint64_t bias, void *entry) {
        PythonState *state = userdata;

        if (kind == WANTS_GREENLET ? !add_greenlets(state, fd, size, bias) : !add_tasks(state, fd, size))
                return false;
        memcpy(entry, &state->entry, sizeof(state->entry));
        return true;
}

static int attach(RuntimeSubject *subject, void **statep, void *entry, char text[RUNTIMES_MAX_TEXT]) {
        char reason[PYTHON_MAX_REASON] = "";
        PythonState *state = *statep;
        int r;

        if (!state) {
                state = calloc(1, sizeof(*state));
                if (!state)
                        return error_origin(-ENOMEM);
                state->fd = take_fd(subject->fd);
                state->memory = -1;
                state->pid = subject->pid;
                state->start_time_ns = subject->start_time_ns;
                state->bias = subject->bias;
                *statep = state;
        }
        r = open_python(state, subject, &state->entry, reason);
        /* There a thread's id, pthread_self(), is another address than its thread pointer. */
        if (!r && ELF_MACHINE != EM_X86_64) {
                snprintf(text, RUNTIMES_MAX_TEXT, "%s: frames are known on x86-64 only", reason);
                return RUNTIME_E_UNKNOWN;
        }
        if (!r) {
                add_tasks(state, state->fd, subject->size);
                memcpy(entry, &state->entry, sizeof(state->entry));
        }
        snprintf(text, RUNTIMES_MAX_TEXT, "%s", reason);
        return r;
}

/* ---- names ---- */

/* What is in memory, or else in the file. */
static bool read_memory(void *userdata, uint64_t address, void *to, size_t size) {
        PythonState *state = userdata;

        if (!size || size > MEMORY_MAX_READ || address + size < address)
                return false;
        return (state->memory >= 0 && !memory_read_opened(state->pid, state->memory, address, to, size)) ||
                dynamic_image_read(&state->program.image, address - state->bias, to, size);
}

static int frames(void *userdata, const uint64_t *words, RuntimeFrame *frames, size_t max, size_t *np) {
        PythonState *state = userdata;
        const PythonReader reader = { read_memory, state };
        PythonFunction *function = &state->function;

        if (state->memory < 0)
                state->memory = memory_open(state->pid, state->start_time_ns);
        if (words[0] >> RUNTIME_KIND_SHIFT != RUNTIME_PYTHON || !max ||
            (!state->entry.code_type && !python_code_is(&reader, &state->layout, words)) ||
            python_code_read(&reader, &state->layout, words, function))
                return RUNTIME_E_UNNAMED;
        frames[0] = (RuntimeFrame){ .function = function->name,
                                    .file = *function->file ? function->file : NULL,
                                    .line = function->line,
                                    .first_line = function->first_line };
        *np = 1;
        return 0;
}

const RuntimeOps python_runtime = {
        .name = "python",
        .frame_type = "cpython",
        .entry_size = sizeof(struct python_process),
        .bit = RUNTIME_HAS_PYTHON,
        .recognises = recognises,
        .attach = attach,
        .detach = detach,
        .wants = wants,
        .extend = extend,
        .task_name = task_name,
        .frames = frames,
};
