/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A file is Ruby's if it exports what its extensions call: libruby, or `ruby` itself.
 *
 *     code of the file       layout, from what Ruby's own functions read: no memory of the process is needed
 *     + where it lies        the kernel half's entry
 *
 * So a process is walked as soon as its mappings are known. Names are read when a frame is met, by a worker
 * without rights, or in this process, where there are no workers: `record` by a user, `targets`.
 */
#include "host/runtime/ruby/ruby-runtime.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/error.h"
#include "host/runtime/reader/reader-process.h"
#include "host/runtime/ruby/ruby-wire.h"

typedef struct RubyState {
        ReaderProcess process;
        RubyOpened opened;
        ReaderFunction function;        /* answer to the last question */
} RubyState;

static bool recognises(int fd, uint64_t size, char says[OBJECT_MAX_SAYS]) {
        return ruby_recognises(fd, NULL, size);
}

static void detach(void *userdata) {
        RubyState *state = userdata;

        reader_process_deinit(&state->process);
        free(state);
}

static int make_state(RubyState **statep, RuntimeSubject *subject) {
        RubyState *state = calloc(1, sizeof(*state));
        int r = state ? reader_process_init(&state->process, subject) : error_origin(-ENOMEM);

        if (!r)
                *statep = state;
        else
                free(state);
        return error_fold(r);
}

/* Return: 0, FILE_LINK_E_*. */
static int open_ruby(RubyState *state) {
        const ReaderProcess *process = &state->process;
        const void *said = NULL;
        int r;

        if (!process->link)
                return ruby_open(process->fd, NULL, process->size, &state->opened) ? FILE_LINK_E_NOT : 0;
        r = file_link_open(process->link, &said);
        if (r != FILE_LINK_E_LATER)
                memcpy(&state->opened, said, sizeof(state->opened));
        return r;
}

static int attach(RuntimeSubject *subject, void **statep, void *entry, char text[RUNTIMES_MAX_TEXT]) {
        RubyState *state = *statep;
        const RubyOpened *opened;
        int r = state ? 0 : make_state(&state, subject);

        if (r)
                return error_fold(r);
        *statep = state;
        r = open_ruby(state);
        if (r == FILE_LINK_E_LATER)
                return RUNTIME_E_LATER;
        opened = &state->opened;
        snprintf(text, RUNTIMES_MAX_TEXT, "%s", opened->reason);
        if (r)
                return RUNTIME_E_UNKNOWN;
        *(struct ruby_process *)entry = (struct ruby_process){
                .generation = subject->generation,
                .variable = opened->variable + subject->bias,
                .machine = opened->machine + subject->bias,
                .evaluator = opened->evaluator + subject->bias,
                .evaluator_size = opened->evaluator_size,
                .core = opened->core + subject->bias,
                .core_size = opened->core_size,
                .frame_size = opened->layout.frame_size,
                .thread = opened->layout.thread,
                .stack_start = opened->stack_start,
                .stack_size = opened->stack_size,
                .space = opened->space,
                .space_flags = opened->space_flags,
                .collects = opened->collects,
                .ractor = opened->ractor,
                .running = opened->running,
                .compiled = opened->layout.compiled,
                .owner = opened->layout.owner,
                .class = opened->layout.class,
        };
        return 0;
}

static int names(void *userdata, const uint64_t *const *words, size_t n, FunctionAnswer answer, void *to) {
        RubyState *state = userdata;
        const RubyReader reader = { .read = reader_process_read,
                                    .userdata = &state->process,
                                    .ids = state->opened.ids + state->process.bias,
                                    .last_operator = state->opened.last_operator,
                                    .layout = &state->opened.layout };
        int r = 0;

        if (state->process.link)
                return function_link_names(state->process.link, RUBY_WIRE_MAGIC, words, n, &state->function,
                                           answer, to);
        for (size_t i = 0; i < n && !r; i++)
                r = answer(to, i, ruby_code_name(&reader, words[i], &state->function));
        return error_fold(r);
}

static int frames(void *userdata, const uint64_t *words, RuntimeFrame *frames, size_t max, size_t *np) {
        const RubyState *state = userdata;

        return function_frames(names, userdata, &state->function, words, frames, np);
}

static int many(void *userdata, const uint64_t *const *words, size_t n, RuntimeAnswer answer, void *to) {
        const RubyState *state = userdata;

        return function_many(names, userdata, &state->function, words, n, answer, to);
}

static uint64_t cpu_ns(const void *userdata) {
        const RubyState *state = userdata;

        return file_link_cpu_ns(state->process.link);
}

static const char *const programs[] = { "ruby", "ruby[0-9]*", NULL };

const RuntimeOps ruby_runtime = {
        .name = "ruby",
        .frame_type = "ruby",
        .entry_size = sizeof(struct ruby_process),
        .bit = RUNTIME_HAS_RUBY,
        .programs = programs,
        .recognises = recognises,
        .attach = attach,
        .detach = detach,
        .frames = frames,
        .many = many,
        .cpu_ns = cpu_ns,
        .tend = file_links_tend,
};
