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

typedef struct PhpState {
        ReaderProcess process;
        PhpOpened opened;
        ReaderFunction function;           /* answer to the last question */
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

/* Return: 0, FILE_LINK_E_*. */
static int open_php(PhpState *state) {
        const ReaderProcess *process = &state->process;
        const void *said = NULL;
        int r;

        if (!process->link)
                return php_open(process->fd, NULL, process->size, &state->opened) ? FILE_LINK_E_NOT : 0;
        r = file_link_open(process->link, &said);
        if (r != FILE_LINK_E_LATER)
                memcpy(&state->opened, said, sizeof(state->opened));
        return r;
}

static int attach(RuntimeSubject *subject, void **statep, void *entry, char text[RUNTIMES_MAX_TEXT]) {
        PhpState *state = *statep;
        const PhpOpened *opened;
        int r = state ? 0 : make_state(&state, subject);

        if (r)
                return error_fold(r);
        *statep = state;
        r = open_php(state);
        if (r == FILE_LINK_E_LATER)
                return RUNTIME_E_LATER;
        opened = &state->opened;
        snprintf(text, RUNTIMES_MAX_TEXT, "%s", opened->reason);
        if (r)
                return RUNTIME_E_UNKNOWN;
        *(struct php_process *)entry = (struct php_process){
                .generation = subject->generation,
                .current = opened->current + subject->bias,
                .generators = opened->generators ? opened->generators + subject->bias : 0,
                .evaluator = opened->evaluator + subject->bias,
                .evaluator_size = opened->evaluator_size,
                .cold = opened->cold_size ? opened->cold + subject->bias : 0,
                .cold_size = opened->cold_size,
                .file = opened->file,
                .ops = opened->ops,
        };
        return 0;
}

/* Return: 0 with what php_code_name() *said, FILE_LINK_E_LATER. */
static int name(PhpState *state, const uint64_t *words, int *said) {
        const PhpReader reader = { reader_process_read, &state->process, state->opened.file };

        if (state->process.link)
                return function_link_name(state->process.link, PHP_WIRE_MAGIC, words, &state->function, said);
        *said = php_code_name(&reader, words, &state->function);
        return 0;
}

static int frames(void *userdata, const uint64_t *words, RuntimeFrame *frames, size_t max, size_t *np) {
        PhpState *state = userdata;
        const ReaderFunction *function = &state->function;
        int said = PHP_CODE_E_GONE;

        if (!php_met_recall(&state->met, words, &state->function)) {
                if (name(state, words, &said))
                        return RUNTIME_E_LATER;
                if (!said)
                        php_met_keep(&state->met, words, function);
                else if (!php_code_without_name(words, &state->function))
                        return RUNTIME_E_UNNAMED;
        }
        frames[0] = (RuntimeFrame){ .function = function->name,
                                    .file = *function->file ? function->file : NULL,
                                    .line = function->line,
                                    .first_line = function->first_line };
        *np = 1;
        return 0;
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
        .cpu_ns = cpu_ns,
        .tend = file_links_tend,
};
