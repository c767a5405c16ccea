/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Asks the worker of a process for functions and checks what it says, on the daemon's side; serves these
 * questions, on the worker's side. What names a function is the runtime's own.
 */
#include "host/runtime/reader/function-wire.h"

#include <string.h>

#include "core/base/sandbox/channel.h"
#include "core/base/util/macro.h"
#include "host/runtime/reader/reader-text.h"

enum { GONE = 1 };                      /* result of a question without an answer */

/* ---- what the worker says ---- */

bool function_wire_check(const FunctionSaid *said, uint32_t magic, FunctionWireKind kind) {
        if (said->magic != magic || said->kind != kind || said->result < 0 || said->result > GONE)
                return false;
        if (kind != FUNCTION_WIRE_NAME || said->result)
                return !said->line && !said->first_line && !said->n_name && !said->n_file;
        return said->line <= INT32_MAX && said->first_line <= INT32_MAX && said->n_name > 1 &&
                said->n_name <= READER_MAX_TEXT && said->n_file >= 1 && said->n_file <= READER_MAX_TEXT;
}

static bool is_named(const void *answer, const void *request) {
        const FunctionQuestion *question = request;

        return function_wire_check(answer, question->magic, FUNCTION_WIRE_NAME);
}

bool function_wire_take(ReaderFunction *function, const FunctionSaid *said, const char *texts) {
        function->line = said->line;
        function->first_line = said->first_line;
        return reader_text_take(function->name, sizeof(function->name), texts, said->n_name) &&
                reader_text_take(function->file, sizeof(function->file), texts + said->n_name, said->n_file);
}

typedef struct Asked {
        FunctionQuestion question;
        ReaderFunction *function;
} Asked;

static int ask_name(void *userdata, WorkerSession *worker) {
        const Asked *asked = userdata;
        const WorkerQuestion question = {
                .magic = asked->question.magic,
                .request_size = sizeof(FunctionQuestion),
                .answer_size = sizeof(FunctionSaid),
                .is_sound = is_named,
        };
        char texts[2 * READER_MAX_TEXT];
        FunctionSaid said;

        if (worker_session_ask(worker, &question, &asked->question, -1, &said) || said.result ||
            worker_session_receive(worker, texts, (size_t)said.n_name + said.n_file) ||
            worker_session_judge(worker, function_wire_take(asked->function, &said, texts)))
                return GONE;
        return 0;
}

int function_link_name(FileLink *link, uint32_t magic, const uint64_t *words, ReaderFunction *function,
                       int *said) {
        Asked asked = { .question = { .magic = magic }, .function = function };

        memcpy(asked.question.words, words, runtime_frame_words(*words) * sizeof(*words));

        return file_link_ask(link, ask_name, &asked, said);
}

/* ---- the worker ---- */

int function_wire_say_opened(int socket, uint32_t magic, int result, const void *opened, size_t size) {
        const FunctionSaid said = { .magic = magic, .kind = FUNCTION_WIRE_OPEN, .result = result };

        return channel_send(socket, &said, sizeof(said), -1) || channel_send(socket, opened, size, -1);
}

static int say_name(int socket, uint32_t magic, int result, const ReaderFunction *function) {
        FunctionSaid said = { .magic = magic, .kind = FUNCTION_WIRE_NAME, .result = result };
        char message[sizeof(said) + 2 * READER_MAX_TEXT];

        if (!said.result) {
                said.line = function->line;
                said.first_line = function->first_line;
                said.n_name = (uint16_t)(strlen(function->name) + 1);
                said.n_file = (uint16_t)(strlen(function->file) + 1);
                memcpy(message + sizeof(said), function->name, said.n_name);
                memcpy(message + sizeof(said) + said.n_name, function->file, said.n_file);
        }
        memcpy(message, &said, sizeof(said));
        return channel_send(socket, message, sizeof(said) + said.n_name + said.n_file, -1);
}

void function_wire_serve(int socket, uint32_t magic, FunctionNamer name, const void *reader) {
        static ReaderFunction function;
        FunctionQuestion question;

        while (!channel_receive_all(socket, &question, sizeof(question)) && question.magic == magic &&
               !say_name(socket, magic, name(reader, question.words, &function), &function))
                ;
}
