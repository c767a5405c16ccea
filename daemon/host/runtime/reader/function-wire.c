/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Asks the worker of a process for functions and checks what it says, on the daemon's side; serves these
 * questions, on the worker's side. What names a function is the runtime's own.
 */
#include "host/runtime/reader/function-wire.h"

#include <string.h>

#include "core/base/sandbox/channel.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "host/runtime/reader/reader-text.h"

enum { GONE = 1 };                      /* result of a question without an answer */

/* ---- what the worker says ---- */

bool function_wire_is_named(const FunctionSaid *said) {
        return said->line <= INT32_MAX && said->first_line <= INT32_MAX && said->n_name > 1 &&
                said->n_name <= READER_MAX_TEXT && said->n_file >= 1 && said->n_file <= READER_MAX_TEXT;
}

bool function_wire_check(const FunctionSaid *said, uint32_t magic, FunctionWireKind kind) {
        if (said->magic != magic || said->kind != kind || said->result < 0 || said->result > GONE)
                return false;
        if (kind != FUNCTION_WIRE_NAME || said->result)
                return !said->line && !said->first_line && !said->n_name && !said->n_file;
        return function_wire_is_named(said);
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
        const WorkerQuestion *question;
        const void *requests;
        size_t n, n_answered;
        ReaderFunction *room;
        FunctionAnswer answer;
        void *userdata;
} Asked;

/* Return: whether the worker has answered. */
static bool hear(WorkerSession *worker, const Asked *asked, const void *request, FunctionSaid *said) {
        char texts[2 * READER_MAX_TEXT];

        if (worker_session_hear(worker, asked->question, request, said))
                return false;
        return said->result ||
                (!worker_session_receive(worker, texts, (size_t)said->n_name + said->n_file) &&
                 !worker_session_judge(worker, function_wire_take(asked->room, said, texts)));
}

/* All questions are sent before the first answer is waited for: the worker goes on without us. */
static int ask(void *userdata, WorkerSession *worker) {
        Asked *asked = userdata;
        size_t size = asked->question->request_size;
        int r = 0;

        if (worker_session_send(worker, asked->requests, asked->n * size, -1))
                return r;
        for (size_t i = 0; i < asked->n && !r; i++) {
                FunctionSaid said;

                if (!hear(worker, asked, (const char *)asked->requests + i * size, &said))
                        return r;
                asked->n_answered++;
                r = asked->answer(asked->userdata, i, said.result);
        }
        return r;
}

int function_link_ask(FileLink *link, const WorkerQuestion *question, const void *requests, size_t n,
                      ReaderFunction *room, FunctionAnswer answer, void *userdata) {
        Asked asked = { question, requests, MIN(n, (size_t)FUNCTION_MAX_ASKED), 0, room, answer, userdata };
        int r = 0;

        if (file_link_ask(link, ask, &asked, &r))
                return FILE_LINK_E_LATER;
        return r ? error_fold(r) : asked.n_answered < n ? FILE_LINK_E_LATER : 0;
}

int function_link_names(FileLink *link, uint32_t magic, const uint64_t *const *words, size_t n,
                        ReaderFunction *room, FunctionAnswer answer, void *userdata) {
        const WorkerQuestion question = {
                .magic = magic,
                .request_size = sizeof(FunctionQuestion),
                .answer_size = sizeof(FunctionSaid),
                .is_sound = is_named,
        };
        FunctionQuestion questions[FUNCTION_MAX_ASKED];

        for (size_t i = 0; i < MIN(n, (size_t)FUNCTION_MAX_ASKED); i++) {
                questions[i] = (FunctionQuestion){ .magic = magic };
                memcpy(questions[i].words, words[i], runtime_frame_words(*words[i]) * sizeof(**words));
        }
        return function_link_ask(link, &question, questions, n, room, answer, userdata);
}

/* ---- as frames of a runtime ---- */

static RuntimeFrame frame_of(const ReaderFunction *function) {
        return (RuntimeFrame){ .function = function->name,
                               .file = *function->file ? function->file : NULL,
                               .line = function->line,
                               .first_line = function->first_line };
}

int function_keep_said(void *userdata, size_t i, int said) {
        *(int *)userdata = said;
        return 0;
}

int function_frames(FunctionNames names, void *state, const ReaderFunction *room, const uint64_t *words,
                    RuntimeFrame *frames, size_t *np) {
        int said = GONE, r = names(state, &words, 1, function_keep_said, &said);

        if (r)
                return r < 0 ? error_fold(r) : RUNTIME_E_LATER;
        if (said)
                return RUNTIME_E_UNNAMED;
        frames[0] = frame_of(room);
        *np = 1;
        return 0;
}

typedef struct Naming {
        const ReaderFunction *room;
        RuntimeAnswer answer;
        void *userdata;
} Naming;

static int answer_frame(void *userdata, size_t i, int said) {
        const Naming *naming = userdata;
        RuntimeFrame frame = { 0 };

        if (said)
                return naming->answer(naming->userdata, i, RUNTIME_E_UNNAMED, NULL, 0);
        frame = frame_of(naming->room);
        return naming->answer(naming->userdata, i, 0, &frame, 1);
}

int function_many(FunctionNames names, void *state, const ReaderFunction *room, const uint64_t *const *words,
                  size_t n, RuntimeAnswer answer, void *userdata) {
        Naming naming = { room, answer, userdata };

        return MIN(names(state, words, n, answer_frame, &naming), 0);
}

/* ---- the worker ---- */

int function_wire_say_opened(int socket, uint32_t magic, int result, const void *opened, size_t size) {
        const FunctionSaid said = { .magic = magic, .kind = FUNCTION_WIRE_OPEN, .result = result };

        return channel_send(socket, &said, sizeof(said), -1) || channel_send(socket, opened, size, -1);
}

int function_wire_say(int socket, uint32_t magic, uint32_t kind, int result, const ReaderFunction *function) {
        FunctionSaid said = { .magic = magic, .kind = kind, .result = result };
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
               !function_wire_say(socket, magic, FUNCTION_WIRE_NAME, name(reader, question.words, &function),
                                  &function))
                ;
}
