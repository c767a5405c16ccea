/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A file is PHP's if it exports its interpreter: `php`, `php-fpm`, the module of a web server.
 *
 *     code of the file       layout, from what PHP's own functions read: no memory of the process is needed
 *     + where it lies        the kernel half's entry
 *
 * A function that was named once keeps its name, by its cookie: closures and, without opcache, all functions
 * of a request are gone within moments, and the next ones of the same place are the same.
 *
 * So a process is walked as soon as its mappings are known. Names are read when a frame is met, by a worker
 * without rights, or in this process, where there are no workers: `record` by a user, `targets`.
 */
#include "host/runtime/php/php-runtime.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/error.h"
#include "host/runtime/php/php-met.h"
#include "host/runtime/php/php-wire.h"
#include "host/runtime/reader/reader-process.h"
#include "host/sampling/process/memory.h"

typedef struct PhpState {
        ReaderProcess process;
        PhpOpened opened;
        ReaderFunction function;        /* answer to the last question */
        PhpMet met;
} PhpState;

static bool recognises(int fd, uint64_t size, char says[OBJECT_MAX_SAYS]) {
        return php_recognises(fd, NULL, size);
}

static void detach(void *userdata) {
        PhpState *state = userdata;

        php_met_deinit(&state->met);
        reader_process_deinit(&state->process);
        free(state);
}

static int make_state(PhpState **statep, RuntimeSubject *subject) {
        PhpState *state = calloc(1, sizeof(*state));
        int r = state ? reader_process_init(&state->process, subject) : error_origin(-ENOMEM);

        if (!r)
                *statep = state;
        else
                free(state);
        return error_fold(r);
}

/* Return: 0, FILE_LINK_E_*, -ENOMEM. */
static int open_php(PhpState *state) {
        const ReaderProcess *process = &state->process;
        const void *said = NULL;
        int r;

        if (!process->link) {
                r = php_open(process->fd, NULL, process->size, &state->opened);
                return r > 0 ? FILE_LINK_E_NOT : error_fold(r);
        }
        r = file_link_open(process->link, &said);
        if (r != FILE_LINK_E_LATER)
                memcpy(&state->opened, said, sizeof(state->opened));
        return r;
}

/*
 * A library's globals are another file's where a program was linked with a copy of them (the embed SAPI may
 * be). Return: 0; RUNTIME_E_LATER: the dynamic linker has not written it yet; RUNTIME_E_UNKNOWN.
 */
static int check_globals(const RuntimeSubject *subject, const PhpOpened *opened) {
        uint64_t globals;

        if (!opened->slot)
                return 0;
        if (memory_read(subject->pid, subject->bias + opened->slot, &globals, sizeof(globals)) || !globals)
                return RUNTIME_E_LATER;
        return globals == subject->bias + opened->globals ? 0 : RUNTIME_E_UNKNOWN;
}

static int attach(RuntimeSubject *subject, void **statep, void *entry, char text[RUNTIMES_MAX_TEXT]) {
        struct php_process *process = entry;
        PhpState *state = *statep;
        const PhpOpened *opened;
        int r = state ? 0 : make_state(&state, subject);

        if (r)
                return error_fold(r);
        *statep = state;
        r = open_php(state);
        if (r < 0)
                return error_fold(r);
        if (r == FILE_LINK_E_LATER)
                return RUNTIME_E_LATER;
        opened = &state->opened;
        snprintf(text, RUNTIMES_MAX_TEXT, "%s", opened->reason);
        if (r)
                return RUNTIME_E_UNKNOWN;
        r = check_globals(subject, opened);
        if (r == RUNTIME_E_UNKNOWN)
                snprintf(text, RUNTIMES_MAX_TEXT, "%.64s: not walked: its globals are another file's",
                         opened->reason);
        if (r)
                return r;
        *process = (struct php_process){
                .generation = subject->generation,
                .current = opened->current + subject->bias,
                .generators = opened->generators ? opened->generators + subject->bias : 0,
                .evaluator = opened->evaluator + subject->bias,
                .evaluator_size = opened->evaluator_size,
                .cold = opened->cold_size ? opened->cold + subject->bias : 0,
                .cold_size = opened->cold_size,
                .file = opened->file,
                .ops = opened->ops,
                .frameless = opened->frameless ? opened->frameless + subject->bias : 0,
        };
        memcpy(process->calls, opened->calls, sizeof(process->calls));
        return 0;
}

/* Frames of functions that were not met yet. */
typedef struct Unmet {
        PhpState *state;
        const uint64_t *words[FUNCTION_MAX_ASKED];
        size_t places[FUNCTION_MAX_ASKED];      /* among all that were asked for */
        size_t n;
        FunctionAnswer answer;
        void *userdata;
} Unmet;

static int on_said(void *userdata, size_t i, int said) {
        const Unmet *unmet = userdata;
        PhpState *state = unmet->state;

        if (!said)
                php_met_keep(&state->met, unmet->words[i], &state->function);
        else if (php_code_without_name(unmet->words[i], &state->function))
                said = 0;
        return unmet->answer(unmet->userdata, unmet->places[i], said);
}

static int ask(Unmet *unmet) {
        PhpState *state = unmet->state;
        const PhpReader reader = { reader_process_read, &state->process, state->opened.file };
        int r = 0;

        if (state->process.link)
                return function_link_names(state->process.link, PHP_WIRE_MAGIC, unmet->words, unmet->n,
                                           &state->function, on_said, unmet);
        for (size_t i = 0; i < unmet->n && !r; i++)
                r = on_said(unmet, i, php_code_name(&reader, unmet->words[i], &state->function));
        return error_fold(r);
}

static int names(void *userdata, const uint64_t *const *words, size_t n, FunctionAnswer answer, void *to) {
        Unmet unmet = { .state = userdata, .answer = answer, .userdata = to };
        int r = 0;

        for (size_t i = 0; i < n && !r; i++)
                if (php_met_recall(&unmet.state->met, words[i], &unmet.state->function)) {
                        r = answer(to, i, 0);
                } else if (unmet.n < FUNCTION_MAX_ASKED) {
                        unmet.words[unmet.n] = words[i];
                        unmet.places[unmet.n++] = i;
                }
        return r || !unmet.n ? r : ask(&unmet);
}

static int frames(void *userdata, const uint64_t *words, RuntimeFrame *frames, size_t max, size_t *np) {
        const PhpState *state = userdata;

        return function_frames(names, userdata, &state->function, words, frames, np);
}

static int many(void *userdata, const uint64_t *const *words, size_t n, RuntimeAnswer answer, void *to) {
        const PhpState *state = userdata;

        return function_many(names, userdata, &state->function, words, n, answer, to);
}

static uint64_t cpu_ns(const void *userdata) {
        const PhpState *state = userdata;

        return file_link_cpu_ns(state->process.link);
}

static const char *const programs[] = { "php", "php[0-9]*", "php-fpm*", NULL };

const RuntimeOps php_runtime = {
        .name = "php",
        .frame_type = "php",
        .entry_size = sizeof(struct php_process),
        .bit = RUNTIME_HAS_PHP,
        .programs = programs,
        .recognises = recognises,
        .attach = attach,
        .detach = detach,
        .frames = frames,
        .many = many,
        .cpu_ns = cpu_ns,
        .tend = file_links_tend,
};
