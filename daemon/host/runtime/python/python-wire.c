/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks what a worker said on the daemon's side, and serves questions on the worker's side.
 */

#include "host/runtime/python/python-wire.h"

#include <string.h>

#include "core/base/sandbox/channel.h"
#include "core/base/util/macro.h"
#include "core/base/util/text.h"
#include "host/runtime/reader/reader-text.h"

enum { MAX_OFFSET = 1 << 24 };          /* as large as a struct may be (python-layout.c) */

/* ---- what the worker says ---- */

bool python_wire_check(const PythonSaid *said, PythonWireKind kind) {
        const int32_t last = kind == PYTHON_WIRE_SPANS ? PYTHON_SPAN_E_SOON : 1;

        if (said->magic != PYTHON_WIRE_MAGIC || said->kind != kind || said->result < 0 || said->result > last)
                return false;
        if (kind == PYTHON_WIRE_LOCKS)
                return said->line <= RUNTIME_MAX_LOCKS && !said->result && !said->first_line &&
                        !said->n_name && !said->n_file;
        if (kind != PYTHON_WIRE_NAME || said->result)
                return !said->line && !said->first_line && !said->n_name && !said->n_file;
        return said->line <= INT32_MAX && said->first_line <= INT32_MAX && said->n_name > 1 &&
                said->n_name <= PYTHON_MAX_TEXT && said->n_file >= 1 && said->n_file <= PYTHON_MAX_TEXT;
}

static bool is_opened(const void *answer, const void *request) {
        return python_wire_check(answer, PYTHON_WIRE_OPEN);
}

static bool is_sound(const void *answer, const void *request) {
        const PythonQuestion *question = request;

        return python_wire_check(answer, question->kind);
}

const WorkerQuestion python_open_question = {
        .magic = PYTHON_WIRE_MAGIC,
        .request_size = sizeof(ReaderRequest),
        .answer_size = sizeof(PythonSaid),
        .needs_file = true,
        .is_sound = is_opened,
};

const WorkerQuestion python_question = {
        .magic = PYTHON_WIRE_MAGIC,
        .request_size = sizeof(PythonQuestion),
        .answer_size = sizeof(PythonSaid),
        .is_sound = is_sound,
};

static bool has_sound_offsets(const PythonLayout *layout) {
        const uint32_t offsets[] = {
                layout->interpreters, layout->next_interpreter, layout->threads, layout->next_thread,
                layout->previous_thread, layout->thread_id, layout->thread_frame, layout->native_frame,
                layout->native_previous, layout->code, layout->previous, layout->position, layout->owner,
                layout->name, layout->filename, layout->line_table, layout->first_line,
                layout->instructions, layout->type, layout->type_name, layout->bytes_size,
                layout->bytes_data, layout->text_length, layout->text_state, layout->ascii_data,
                layout->text_data, layout->number_tag, layout->number_digits, layout->generator_frame,
                layout->generator_state, layout->stack_pointer, layout->lock, layout->lock_pointer,
                layout->lock_locked, layout->copies, layout->copy_index,
        };

        for (size_t i = 0; i < ARRAY_SIZE(offsets); i++)
                if (offsets[i] > MAX_OFFSET)
                        return false;
        return true;
}

bool python_wire_check_opened(PythonOpened *opened, int result) {
        const PythonLayout *layout = &opened->layout;
        uint8_t is_free_threaded;

        reader_text_repair(opened->reason, sizeof(opened->reason));
        if (result)
                return true;
        /* a bool of another value is none */
        memcpy(&is_free_threaded, &layout->is_free_threaded, sizeof(is_free_threaded));
        return is_free_threaded <= 1 && (unsigned)layout->chain <= PYTHON_CHAIN_EVALUATOR &&
                layout->version >> 8 == 3 && has_sound_offsets(layout) &&
                (opened->more.kind == PYTHON_MORE_NONE ||
                 python_wire_check_more(&opened->more, PYTHON_MORE_TASKS));
}

bool python_wire_check_more(const PythonMore *more, PythonMoreKind kind) {
        return more->kind == kind && more->root + more->root_size >= more->root;
}

bool python_wire_take(PythonFunction *function, const PythonSaid *said, const char *texts) {
        function->line = said->line;
        function->first_line = said->first_line;
        return reader_text_take(function->name, sizeof(function->name), texts, said->n_name) &&
                reader_text_take(function->file, sizeof(function->file), texts + said->n_name, said->n_file);
}

/* ---- the worker ---- */

typedef struct Worker {
        ReaderHandle handle;
        PythonProgram program;
        PythonOpened opened;
        uint64_t bias;
} Worker;

/* Reads memory, or else the file: code of modules that are part of it may never have been touched. */
static bool read_process(void *userdata, uint64_t address, void *to, size_t size) {
        Worker *worker = userdata;

        return reader_handle_read(&worker->handle, address, to, size) ||
                dynamic_image_read(&worker->program.image, address - worker->bias, to, size);
}

static int say_opened(int socket, const PythonOpened *opened, int result) {
        const PythonSaid said = { .magic = PYTHON_WIRE_MAGIC, .kind = PYTHON_WIRE_OPEN, .result = result };

        return channel_send(socket, &said, sizeof(said), -1) ||
                channel_send(socket, opened, sizeof(*opened), -1);
}

static int say_name(int socket, Worker *worker, const uint64_t *words) {
        const PythonReader reader = { read_process, worker };
        PythonSaid said = { .magic = PYTHON_WIRE_MAGIC, .kind = PYTHON_WIRE_NAME };
        char message[sizeof(said) + 2 * PYTHON_MAX_TEXT];
        static PythonFunction function;

        said.result = python_code_name(&reader, &worker->opened.layout,
                                       worker->opened.places[PYTHON_SYMBOL_CODE].address, words, &function);
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

static int say_more(int socket, PythonMoreKind kind, int fd, uint64_t size) {
        PythonSaid said = { .magic = PYTHON_WIRE_MAGIC, .kind = PYTHON_WIRE_MORE };
        PythonMore more;
        int r;

        said.result = fd < 0 || !python_more_read(kind, fd, size, &more);
        r = channel_send(socket, &said, sizeof(said), -1);
        return r || said.result ? r : channel_send(socket, &more, sizeof(more), -1);
}

static int say_spans(int socket, Worker *worker) {
        const PythonReader reader = { read_process, worker };
        PythonSaid said = { .magic = PYTHON_WIRE_MAGIC, .kind = PYTHON_WIRE_SPANS };
        struct python_spans spans;
        const PythonSubject subject = { &worker->program, &worker->opened.layout, worker->bias };
        int r;

        said.result = python_span_learn(&reader, &subject, &spans);
        r = channel_send(socket, &said, sizeof(said), -1);
        return r || said.result ? r : channel_send(socket, &spans, sizeof(spans), -1);
}

static int say_locks(int socket, Worker *worker) {
        const PythonReader reader = { read_process, worker };
        const PythonSubject subject = { &worker->program, &worker->opened.layout, worker->bias };
        PythonSaid said = { .magic = PYTHON_WIRE_MAGIC, .kind = PYTHON_WIRE_LOCKS };
        static RuntimeLocks locks;

        python_locks_read(&locks, &reader, &subject);
        said.line = locks.n;
        return channel_send(socket, &said, sizeof(said), -1) ||
                channel_send(socket, &locks, runtime_locks_size(locks.n), -1);
}

/* Return: 0; anything else = the conversation is over. */
static int answer(int socket, Worker *worker) {
        PythonQuestion question;
        int fd, r = 1;

        /* a descriptor comes with the first byte */
        if (channel_receive(socket, &question, sizeof(question.magic), &fd, 0) != sizeof(question.magic))
                return 1;
        if (question.magic == PYTHON_WIRE_MAGIC &&
            !channel_receive_all(socket, (char *)&question + sizeof(question.magic),
                                 sizeof(question) - sizeof(question.magic)))
                switch (question.kind) {
                case PYTHON_WIRE_NAME:
                        r = say_name(socket, worker, question.words);
                        break;
                case PYTHON_WIRE_MORE:
                        r = say_more(socket, question.more_kind, fd, question.size);
                        break;
                case PYTHON_WIRE_SPANS:
                        r = say_spans(socket, worker);
                        break;
                case PYTHON_WIRE_LOCKS:
                        r = say_locks(socket, worker);
                        break;
                default:
                        break;
                }
        closep(&fd);
        return r;
}

void python_serve(int socket, int fd, const ReaderRequest *first) {
        static Worker worker;
        int r;

        if (!reader_handle_receive(&worker.handle, socket))
                return;
        worker.bias = first->bias;
        r = python_open(fd, first->size, &worker.program, &worker.opened);
        if (say_opened(socket, &worker.opened, r) || r)
                return;
        while (!answer(socket, &worker))
                ;
}
