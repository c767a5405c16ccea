/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Asks the worker of a process for methods of Ruby and checks what it says, on the daemon's side; serves
 * these questions, on the worker's side.
 */
#include "host/runtime/ruby/ruby-wire.h"

#include <string.h>

#include "core/base/sandbox/channel.h"
#include "core/base/util/macro.h"
#include "host/runtime/reader/reader-text.h"

/* ---- what the worker says ---- */

bool ruby_wire_check(const RubySaid *said, RubyWireKind kind) {
        if (said->magic != RUBY_WIRE_MAGIC || said->kind != kind || said->result < 0 || said->result > 1)
                return false;
        if (kind != RUBY_WIRE_NAME || said->result)
                return !said->line && !said->first_line && !said->n_name && !said->n_file;
        return said->line <= INT32_MAX && said->first_line <= INT32_MAX && said->n_name > 1 &&
                said->n_name <= RUBY_MAX_TEXT && said->n_file >= 1 && said->n_file <= RUBY_MAX_TEXT;
}

static bool is_opened(const void *answer, const void *request) {
        return ruby_wire_check(answer, RUBY_WIRE_OPEN);
}

static bool is_named(const void *answer, const void *request) {
        return ruby_wire_check(answer, RUBY_WIRE_NAME);
}

const WorkerQuestion ruby_open_question = {
        .magic = RUBY_WIRE_MAGIC,
        .request_size = sizeof(ReaderRequest),
        .answer_size = sizeof(RubySaid),
        .needs_file = true,
        .is_sound = is_opened,
};

static const WorkerQuestion name_question = {
        .magic = RUBY_WIRE_MAGIC,
        .request_size = sizeof(RubyQuestion),
        .answer_size = sizeof(RubySaid),
        .is_sound = is_named,
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

bool ruby_wire_take(RubyFunction *function, const RubySaid *said, const char *texts) {
        function->line = said->line;
        function->first_line = said->first_line;
        return reader_text_take(function->name, sizeof(function->name), texts, said->n_name) &&
                reader_text_take(function->file, sizeof(function->file), texts + said->n_name, said->n_file);
}

typedef struct Asked {
        RubyQuestion question;
        RubyFunction *function;
} Asked;

static int ask_name(void *userdata, WorkerSession *worker) {
        const Asked *asked = userdata;
        char texts[2 * RUBY_MAX_TEXT];
        RubySaid said;

        if (worker_session_ask(worker, &name_question, &asked->question, -1, &said) || said.result ||
            worker_session_receive(worker, texts, (size_t)said.n_name + said.n_file) ||
            worker_session_judge(worker, ruby_wire_take(asked->function, &said, texts)))
                return RUBY_CODE_E_GONE;
        return 0;
}

int ruby_link_name(FileLink *link, const uint64_t *words, RubyFunction *function, int *said) {
        Asked asked = { .question = { .magic = RUBY_WIRE_MAGIC, .words = { words[0], words[1] } },
                        .function = function };

        return file_link_ask(link, ask_name, &asked, said);
}

/* ---- the worker ---- */

static int say_opened(int socket, const RubyOpened *opened, int result) {
        const RubySaid said = { .magic = RUBY_WIRE_MAGIC, .kind = RUBY_WIRE_OPEN, .result = result };

        return channel_send(socket, &said, sizeof(said), -1) ||
                channel_send(socket, opened, sizeof(*opened), -1);
}

static int say_name(int socket, const RubyReader *reader, const uint64_t *words) {
        RubySaid said = { .magic = RUBY_WIRE_MAGIC, .kind = RUBY_WIRE_NAME };
        char message[sizeof(said) + 2 * RUBY_MAX_TEXT];
        static RubyFunction function;

        said.result = ruby_code_name(reader, words, &function);
        if (!said.result) {
                said.line = function.line;
                said.first_line = function.first_line;
                said.n_name = (uint16_t)(strlen(function.name) + 1);
                said.n_file = (uint16_t)(strlen(function.file) + 1);
                memcpy(message + sizeof(said), function.name, said.n_name);
                memcpy(message + sizeof(said) + said.n_name, function.file, said.n_file);
        }
        memcpy(message, &said, sizeof(said));
        return channel_send(socket, message, sizeof(said) + said.n_name + said.n_file, -1);
}

void ruby_serve(int socket, int fd, const ReaderRequest *first) {
        static ReaderHandle handle;
        static RubyOpened opened;
        RubyReader reader = { .read = reader_handle_read, .userdata = &handle };
        RubyQuestion question;
        int r;

        if (!reader_handle_receive(&handle, socket))
                return;
        r = ruby_open(fd, NULL, first->size, &opened);
        if (say_opened(socket, &opened, r) || r)
                return;
        reader.ids = opened.ids + first->bias;
        reader.last_operator = opened.last_operator;
        while (!channel_receive_all(socket, &question, sizeof(question)) &&
               question.magic == RUBY_WIRE_MAGIC && !say_name(socket, &reader, question.words))
                ;
}
