/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Implements the operations of a runtime for Go: which file is a program of Go, and what the kernel half
 * must know to read its labels.
 */

#include "host/runtime/go/go-runtime.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/util/error.h"
#include "host/runtime/go/go-layout.h"
#include "host/runtime/go/go-list.h"
#include "host/runtime/go/go-program.h"
#include "host/runtime/go/goroutine.h"
#include "host/sampling/process/memory.h"

static bool recognises(int fd, uint64_t size, char says[OBJECT_MAX_SAYS]) {
        bool is_library;

        if (!go_program_is(&(GoInput){ .fd = fd, .size = size }, &is_library))
                return false;
        if (is_library)
                snprintf(says, OBJECT_MAX_SAYS, "library");
        return true;
}

/* A library of Go in a program of another runtime must not take that one's place. */
static bool yields(const char *says) {
        return *says;
}

static int refuse(char text[RUNTIMES_MAX_TEXT], const GoProgram *program, const char *why) {
        snprintf(text, RUNTIMES_MAX_TEXT, "%s: labels are not read: %s",
                 program && *program->version ? program->version : "go", why);
        return RUNTIME_E_UNKNOWN;
}

/* A program without a list keeps a state as well: its text says so. Return: 0, -ENOMEM. */
static int find_goroutines(const RuntimeSubject *subject, const GoInput *input, const GoProgram *program,
                           const struct go_process *process, void **statep) {
        const GoWants *wants = subject->userdata;
        GoGoroutines *goroutines = wants ? calloc(1, sizeof(*goroutines)) : NULL;

        if (!goroutines)
                return wants ? error_origin(-ENOMEM) : 0;
        goroutines->process = *process;
        goroutines->minor = program->minor;
        goroutines->bias = subject->bias;
        if (wants->idle)
                go_idle_find(input, &goroutines->idle);
        if (wants->goroutines && go_goroutine_layout(program->minor, &goroutines->layout) &&
            (go_program_find_list(input, &goroutines->list, &goroutines->length) ||
             go_list_find(input, &goroutines->list, &goroutines->length))) {
                goroutines->list += subject->bias;
                goroutines->length += subject->bias;
        }
        free(*statep);
        *statep = goroutines;
        return 0;
}

static const char *text_of_list(const GoWants *wants, const GoGoroutines *goroutines) {
        if (!wants || !wants->goroutines)
                return "";
        return goroutines->list ? ", and goroutines that wait"
                                : "; those that wait are not read: no list of them found in the program";
}

/* Return: 0, RUNTIME_E_LATER: the dynamic linker has not written it yet; RUNTIME_E_UNKNOWN. */
static int read_word(const RuntimeSubject *subject, GoProgram *program) {
        int64_t offset;

        if (memory_read(subject->pid, subject->bias + program->tls_word, &offset, sizeof(offset)) || !offset)
                return RUNTIME_E_LATER;
        program->tls_offset = offset;
        return go_tls_offset_is_sound(offset) ? 0 : RUNTIME_E_UNKNOWN;
}

static int attach(RuntimeSubject *subject, void **statep, void *entry, char text[RUNTIMES_MAX_TEXT]) {
        const GoInput input = { .fd = subject->fd, .size = subject->size };
        struct go_process *process = entry;
        GoProgram program;
        int r;

        if (!go_program_read(&input, &program))
                return refuse(text, NULL, "its file was changed");
        if (!program.minor)
                return refuse(text, &program, "the version is not told");
        if (!go_layout(program.minor, process))
                return refuse(text, &program, "layout of goroutines unknown");
        if (program.tls == GO_TLS_UNKNOWN)
                return refuse(text, &program,
                              program.is_library ? "no place of goroutines found in a library"
                                                 : "no place of goroutines found in a stripped program with C");
        if (program.tls == GO_TLS_IN_WORD) {
                r = read_word(subject, &program);
                if (r)
                        return r == RUNTIME_E_UNKNOWN ? refuse(text, &program, "its place of goroutines is none")
                                                      : r;
        }
        process->generation = subject->generation;
        process->tls_offset = program.tls_offset;
        process->in_register = program.tls == GO_TLS_NONE;
        r = find_goroutines(subject, &input, &program, process, statep);
        if (r)
                return error_fold(r);
        snprintf(text, RUNTIMES_MAX_TEXT, "%s: labels of goroutines%s", program.version,
                 text_of_list(subject->userdata, *statep));
        return 0;
}

static void detach(void *state) {
        free(state);
}

static bool is_idle(const void *state, bool polls, const uint64_t *words, size_t n) {
        const GoGoroutines *goroutines = state;

        return goroutines && go_idle_is(&goroutines->idle, goroutines->bias, polls, words, n);
}

const RuntimeOps go_runtime = {
        .name = "go",
        .frame_type = "go",
        .entry_size = sizeof(struct go_process),
        .bit = RUNTIME_HAS_GO,
        .recognises = recognises,
        .yields = yields,
        .attach = attach,
        .detach = detach,
        .is_idle = is_idle,
};
