/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A file is CPython's if it exports `_PyRuntime` and the evaluator: the program itself, libpython, or a program
 * that has an interpreter in it. Extensions need these symbols, so no build is without them.
 *
 *     Py_Version        0x030d00f0         3.11 and newer; before, what a release exports tells it
 *     _PyRuntime        offsets            3.13 and newer, from the file: no memory of the process is needed
 *     + where it lies   the kernel half's entry
 *
 * So a process is walked as soon as its mappings are known. Names are read when a frame is met, while the
 * process lives. Code of modules that are part of the file may never have been touched there: what memory
 * lacks comes from the file.
 *
 * Tasks of asyncio are described by the module `_asyncio`: a file of its own, which may be loaded at any time,
 * or a part of the interpreter.
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
#include "runtime/python/python-task.h"
#include "sampling/process/dynamic-symbol.h"
#include "sampling/process/memory.h"

typedef struct PythonState {
        PythonLayout layout;
        DynamicImage image;
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

static bool find(const DynamicImage *image, const char *name, Elf64_Sym *symbol) {
        uint32_t index;

        return dynamic_image_find(image, name, &index, symbol);
}

static bool has(const DynamicImage *image, const char *name) {
        Elf64_Sym symbol;

        return find(image, name, &symbol);
}

static bool recognises(int fd, uint64_t size, char says[OBJECT_MAX_SAYS]) {
        DynamicImage image;

        return dynamic_image_init(&image, fd, NULL, size) && dynamic_image_find_tables(&image) &&
                has(&image, "_PyRuntime") && has(&image, "_PyEval_EvalFrameDefault");
}

static void detach(void *userdata) {
        PythonState *state = userdata;

        closep(&state->fd);
        closep(&state->memory);
        free(state);
}

/* ---- which release ---- */

/* Releases before 3.11 do not say it: the first one that exports a function. */
static uint32_t version_by_exports(const DynamicImage *image) {
        if (has(image, "PyIter_Send"))
                return 0x030a;
        if (has(image, "PyFrame_GetCode"))
                return 0x0309;
        return has(image, "PyCode_NewWithPosOnlyArgs") ? 0x0308 : 0x0307;
}

static uint32_t read_version(const DynamicImage *image) {
        Elf64_Sym symbol;
        uint64_t version;

        if (find(image, "Py_Version", &symbol))
                return dynamic_image_read(image, symbol.st_value, &version, sizeof(version))
                        ? (uint32_t)(version >> 16) & 0xffff
                        : 0;
        return version_by_exports(image);
}

static int read_layout(PythonState *state, const Elf64_Sym *runtime, char reason[PYTHON_MAX_REASON]) {
        uint32_t version = read_version(&state->image);
        uint64_t words[PYTHON_N_OFFSETS];
        int r;

        if (version < PYTHON_OLDEST) {
                snprintf(reason, PYTHON_MAX_REASON, "python %u.%u: layout unknown: too old", version >> 8,
                         version & 0xff);
                return RUNTIME_E_UNKNOWN;
        }
        if (version < PYTHON_DESCRIBED)
                return python_layout_of(version, &state->layout, reason) ? RUNTIME_E_UNKNOWN : 0;
        if (runtime->st_size < sizeof(words) ||
            !dynamic_image_read(&state->image, runtime->st_value, words, sizeof(words)))
                memset(words, 0, sizeof(words));
        r = python_layout_read(words, &state->layout, reason);
        if (r == PYTHON_LAYOUT_E_EMPTY)
                snprintf(reason, PYTHON_MAX_REASON, "python %u.%u: layout unknown: no offsets in the file",
                         version >> 8, version & 0xff);
        return r ? RUNTIME_E_UNKNOWN : 0;
}

/* ---- attach ---- */

static int fill_entry(const PythonState *state, const RuntimeSubject *subject, const Elf64_Sym *runtime,
                      struct python_process *entry, char reason[PYTHON_MAX_REASON]) {
        const PythonLayout *layout = &state->layout;
        Elf64_Sym symbol;

        snprintf(reason, PYTHON_MAX_REASON, "python %u.%u%s", layout->version >> 8, layout->version & 0xff,
                 layout->is_free_threaded ? " free-threaded" : "");
        if (!python_layout_entry(layout, entry)) {
                snprintf(reason + strlen(reason), PYTHON_MAX_REASON - strlen(reason),
                         ": layout unknown: structs are too large");
                return RUNTIME_E_UNKNOWN;
        }
        entry->generation = subject->generation;
        entry->interpreters = runtime->st_value + subject->bias + layout->interpreters;
        if (find(&state->image, "PyCode_Type", &symbol))
                entry->code_type = symbol.st_value + subject->bias;
        if (find(&state->image, "_PyEval_EvalFrameDefault", &symbol)) {
                entry->evaluator = symbol.st_value + subject->bias;
                entry->evaluator_size = symbol.st_size;
        }
        return 0;
}

static int open_python(PythonState *state, const RuntimeSubject *subject, struct python_process *entry,
                       char reason[PYTHON_MAX_REASON]) {
        Elf64_Sym runtime;
        int r;

        if (!dynamic_image_init(&state->image, state->fd, NULL, subject->size) ||
            !dynamic_image_find_tables(&state->image) || !find(&state->image, "_PyRuntime", &runtime)) {
                snprintf(reason, PYTHON_MAX_REASON, "python: layout unknown: the file has changed");
                return RUNTIME_E_UNKNOWN;
        }
        r = read_layout(state, &runtime, reason);
        return r ? r : fill_entry(state, subject, &runtime, entry, reason);
}

/* ---- tasks ---- */

static bool is_asyncio(const char *name) {
        return !strncmp(name, "_asyncio.", strlen("_asyncio."));
}

/* Address of a variable of the interpreter in the process; 0 = none. */
static uint64_t address_of(const PythonState *state, const char *name) {
        Elf64_Sym symbol;

        return find(&state->image, name, &symbol) ? symbol.st_value + state->bias : 0;
}

static bool extend(void *userdata, int fd, uint64_t size, void *entry) {
        PythonState *state = userdata;
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
        if (!python_task_layout(words, &state->layout, address_of(state, "PyCoro_Type"),
                                address_of(state, "PyGen_Type"), &tasks))
                return false;
        state->text_type = address_of(state, "PyUnicode_Type");
        state->number_type = address_of(state, "PyLong_Type");
        state->entry.tasks = tasks;
        memcpy(entry, &state->entry, sizeof(state->entry));
        return true;
}

static const char *task_name(void *userdata, const uint8_t *task) {
        PythonState *state = userdata;

        if (!state->text_type || !state->number_type ||
            !python_task_name(task, &state->layout, state->text_type, state->number_type, state->task))
                return NULL;
        return state->task;
}

/* ---- the entry ---- */

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
        if (!r && !extend(state, state->fd, subject->size, entry))
                memcpy(entry, &state->entry, sizeof(state->entry));
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
                dynamic_image_read(&state->image, address - state->bias, to, size);
}

static int frames(void *userdata, const uint64_t *words, RuntimeFrame *frames, size_t max, size_t *np) {
        PythonState *state = userdata;
        const PythonReader reader = { read_memory, state };
        PythonFunction *function = &state->function;

        if (state->memory < 0)
                state->memory = memory_open(state->pid, state->start_time_ns);
        if (words[0] >> RUNTIME_KIND_SHIFT != RUNTIME_PYTHON || !max ||
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
        .wants = is_asyncio,
        .extend = extend,
        .task_name = task_name,
        .frames = frames,
};
