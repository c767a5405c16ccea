/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks what a worker said on the daemon's side, and serves questions on the worker's side.
 */
#include "host/runtime/v8/v8-wire.h"

#include <poll.h>
#include <string.h>

#include "core/base/sandbox/channel.h"
#include "core/base/util/macro.h"
#include "host/runtime/reader/reader-text.h"

/* ---- what the worker says ---- */

bool v8_wire_has_names(const V8Said *said) {
        return !said->result || said->result == V8_CODE_E_SHORT;
}

bool v8_wire_check(const V8Said *said, V8WireKind kind) {
        if (said->magic != V8_WIRE_MAGIC || said->kind != kind || said->result < 0 ||
            said->result > (kind == V8_WIRE_NAME ? (int)V8_CODE_E_LATER : (int)V8_OPEN_E_UNKNOWN))
                return false;
        if (kind != V8_WIRE_NAME || !v8_wire_has_names(said))
                return !said->n && !said->n_bytes;
        return said->n && said->n <= V8_MAX_FUNCTIONS && said->n_bytes <= V8_WIRE_MAX_TEXTS;
}

static bool is_opened(const void *answer, const void *request) {
        return v8_wire_check(answer, V8_WIRE_OPEN);
}

static bool is_named(const void *answer, const void *request) {
        return v8_wire_check(answer, V8_WIRE_NAME);
}

const WorkerQuestion v8_open_question = {
        .magic = V8_WIRE_MAGIC,
        .request_size = sizeof(ReaderRequest),
        .answer_size = sizeof(V8Said),
        .needs_file = true,
        .is_sound = is_opened,
};

const WorkerQuestion v8_question = {
        .magic = V8_WIRE_MAGIC,
        .request_size = sizeof(V8Question),
        .answer_size = sizeof(V8Said),
        .is_sound = is_named,
};

bool v8_wire_check_opened(V8Opened *opened, int result) {
        reader_text_repair(opened->reason, sizeof(opened->reason));
        return result ||
                (v8_layout_is_sound(&opened->layout) && v8_spans_are_sound(&opened->spans) &&
                 opened->text + opened->text_size >= opened->text);
}

bool v8_wire_take(V8Answer *answer, const V8Said *said, const V8WireFunction *functions, const char *texts) {
        size_t at = 0;

        for (uint32_t i = 0; i < said->n; i++) {
                const V8WireFunction *from = &functions[i];
                V8Function *to = &answer->functions[i];

                if (from->line > INT32_MAX || from->first_line > INT32_MAX || from->n_name < 2 ||
                    !from->n_file || (size_t)from->n_name + from->n_file > said->n_bytes - at ||
                    !reader_text_take(to->name, sizeof(to->name), texts + at, from->n_name) ||
                    !reader_text_take(to->file, sizeof(to->file), texts + at + from->n_name, from->n_file))
                        return false;
                to->line = from->line;
                to->first_line = from->first_line;
                at += (size_t)from->n_name + from->n_file;
        }
        answer->n = said->n;
        return at == said->n_bytes;
}

/* ---- the worker ---- */

typedef struct Worker {
        ReaderHandle handle;
        V8Opened opened;
        V8Learnt learnt;
        V8Answer answer;
        V8WireFunction functions[V8_MAX_FUNCTIONS];
        char texts[V8_WIRE_MAX_TEXTS];
        /* the whole of an answer, as one message costs one call */
        char bytes[sizeof(V8Said) + V8_MAX_FUNCTIONS * sizeof(V8WireFunction) + V8_WIRE_MAX_TEXTS];
} Worker;

static int say_opened(int socket, const V8Opened *opened, int result) {
        const V8Said said = { .magic = V8_WIRE_MAGIC, .kind = V8_WIRE_OPEN, .result = result };

        return channel_send(socket, &said, sizeof(said), -1) ||
                channel_send(socket, opened, sizeof(*opened), -1);
}

static void put_text(Worker *worker, V8Said *said, const char *text, uint16_t *np) {
        size_t n = strlen(text) + 1;

        memcpy(worker->texts + said->n_bytes, text, n);
        said->n_bytes += (uint32_t)n;
        *np = (uint16_t)n;
}

static void pack(Worker *worker, V8Said *said) {
        said->n = worker->answer.n;
        for (uint32_t i = 0; i < said->n; i++) {
                const V8Function *from = &worker->answer.functions[i];
                V8WireFunction *to = &worker->functions[i];

                to->line = from->line;
                to->first_line = from->first_line;
                put_text(worker, said, from->name, &to->n_name);
                put_text(worker, said, from->file, &to->n_file);
        }
}

static int say_name(int socket, Worker *worker, const uint64_t *words) {
        const V8Reader reader = { reader_handle_read, &worker->handle, &worker->opened.layout, NULL };
        V8Said said = { .magic = V8_WIRE_MAGIC, .kind = V8_WIRE_NAME };
        size_t n_functions;

        said.result = v8_code_name(&reader, &worker->learnt, words, &worker->answer);
        if (!v8_wire_has_names(&said))
                return channel_send(socket, &said, sizeof(said), -1);
        pack(worker, &said);
        n_functions = said.n * sizeof(*worker->functions);
        memcpy(worker->bytes, &said, sizeof(said));
        memcpy(worker->bytes + sizeof(said), worker->functions, n_functions);
        memcpy(worker->bytes + sizeof(said) + n_functions, worker->texts, said.n_bytes);
        return channel_send(socket, worker->bytes, sizeof(said) + n_functions + said.n_bytes, -1);
}

/* Return: 0; anything else = the conversation is over. */
static int answer(int socket, Worker *worker) {
        V8Question question;

        if (channel_receive_all(socket, &question, sizeof(question)) || question.magic != V8_WIRE_MAGIC)
                return 1;
        return say_name(socket, worker, question.words);
}

/* The table of sizes is searched for while no question waits: the file is large. */
static void search_idly(int socket, V8Learnt *learnt) {
        struct pollfd fd = { .fd = socket, .events = POLLIN };

        while (learnt->wants_sizes && !poll(&fd, 1, 0))
                learnt->wants_sizes = v8_sizes_search(learnt->fd, learnt->file_size, &learnt->searched,
                                                      &learnt->sizes);
}

void v8_serve(int socket, int fd, const ReaderRequest *first) {
        static Worker worker;
        int r;

        if (!reader_handle_receive(&worker.handle, socket))
                return;
        r = v8_open(fd, NULL, first->size, &worker.opened);
        if (say_opened(socket, &worker.opened, r) || r)
                return;
        worker.learnt.lines = v8_lines_new();
        worker.learnt.fd = fd;
        worker.learnt.file_size = first->size;
        worker.learnt.is_served = true;
        do
                search_idly(socket, &worker.learnt);
        while (!answer(socket, &worker));
}
