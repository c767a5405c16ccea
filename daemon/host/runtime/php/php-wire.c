/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks what a worker says of PHP's file, on the daemon's side; opens the file and names functions of PHP, on
 * the worker's side.
 */
#include "host/runtime/php/php-wire.h"

#include "core/base/util/macro.h"
#include "host/runtime/reader/reader-text.h"

static bool is_opened(const void *answer, const void *request) {
        return function_wire_check(answer, PHP_WIRE_MAGIC, FUNCTION_WIRE_OPEN);
}

const WorkerQuestion php_open_question = {
        .magic = PHP_WIRE_MAGIC,
        .request_size = sizeof(ReaderRequest),
        .answer_size = sizeof(FunctionSaid),
        .needs_file = true,
        .is_sound = is_opened,
};

static bool check_opened(void *userdata, int result) {
        PhpOpened *opened = userdata;

        reader_text_repair(opened->reason, sizeof(opened->reason));
        return result || php_opened_is_sound(opened);
}

const FileLinkOps php_link_ops = { .name = "php",
                                   .question = &php_open_question,
                                   .size = sizeof(PhpOpened),
                                   .check = check_opened };

/* ---- the worker ---- */

static int name(const void *reader, const uint64_t *words, ReaderFunction *function) {
        return php_code_name(reader, words, function);
}

void php_serve(int socket, int fd, const ReaderRequest *first) {
        static ReaderHandle handle;
        static PhpOpened opened;
        PhpReader reader = { .read = reader_handle_read, .userdata = &handle };
        int r;

        if (!reader_handle_receive(&handle, socket))
                return;
        r = php_open(fd, NULL, first->size, &opened);
        if (r < 0 || function_wire_say_opened(socket, PHP_WIRE_MAGIC, r, &opened, sizeof(opened)) || r)
                return;
        reader.file = opened.file;
        function_wire_serve(socket, PHP_WIRE_MAGIC, name, &reader);
}
