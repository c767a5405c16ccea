/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks what a worker says of Ruby's file, on the daemon's side; opens the file and names methods of Ruby, on
 * the worker's side.
 */
#include "host/runtime/ruby/ruby-wire.h"

#include "core/base/util/macro.h"
#include "host/runtime/reader/reader-text.h"

static bool is_opened(const void *answer, const void *request) {
        return function_wire_check(answer, RUBY_WIRE_MAGIC, FUNCTION_WIRE_OPEN);
}

const WorkerQuestion ruby_open_question = {
        .magic = RUBY_WIRE_MAGIC,
        .request_size = sizeof(ReaderRequest),
        .answer_size = sizeof(FunctionSaid),
        .needs_file = true,
        .is_sound = is_opened,
};

static bool check_opened(void *userdata, int result) {
        RubyOpened *opened = userdata;

        reader_text_repair(opened->reason, sizeof(opened->reason));
        return result || ruby_opened_is_sound(opened);
}

const FileLinkOps ruby_link_ops = { .name = "ruby",
                                    .question = &ruby_open_question,
                                    .size = sizeof(RubyOpened),
                                    .check = check_opened };

/* ---- the worker ---- */

static int name(const void *reader, const uint64_t *words, ReaderFunction *function) {
        return ruby_code_name(reader, words, function);
}

void ruby_serve(int socket, int fd, const ReaderRequest *first) {
        static ReaderHandle handle;
        static RubyOpened opened;
        RubyReader reader = { .read = reader_handle_read, .userdata = &handle };
        int r;

        if (!reader_handle_receive(&handle, socket))
                return;
        r = ruby_open(fd, NULL, first->size, &opened);
        if (function_wire_say_opened(socket, RUBY_WIRE_MAGIC, r, &opened, sizeof(opened)) || r)
                return;
        reader.ids = opened.ids + first->bias;
        reader.last_operator = opened.last_operator;
        reader.layout = &opened.layout;
        function_wire_serve(socket, RUBY_WIRE_MAGIC, name, &reader);
}
