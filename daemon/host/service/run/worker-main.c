/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A worker is a process without rights. It reads one request from its socket, runs the parser of that kind,
 * and ends; what the parser answers goes back by the same socket.
 *
 *     the zygote forks ─▶ request: word, fields ─▶ table of kinds ─▶ parser ─▶ answer ─▶ exit
 *                         + a descriptor, if the kind has one
 *
 * Each kind of request begins with a word of its own, so a request that is none of them ends the worker.
 */

#include "host/service/run/worker-main.h"

#include <stddef.h>
#include <unistd.h>

#include "core/base/sandbox/channel.h"
#include "core/base/util/macro.h"
#include "core/symbol/debug/no-text-wire.h"
#include "core/symbol/function/symbol-wire.h"
#include "core/symbol/jit/code-wire.h"
#include "host/jfr/jfr-tail.h"
#include "host/naming/gdb-wire.h"
#include "host/runtime/all-runtimes.h"
#include "host/runtime/beam/beam-wire.h"
#include "host/runtime/go/go-heap-wire.h"
#include "host/runtime/hotspot/hotspot-wire.h"
#include "host/runtime/php/php-wire.h"
#include "host/runtime/python/python-wire.h"
#include "host/runtime/ruby/ruby-wire.h"
#include "host/runtime/v8/v8-wire.h"
#include "host/sampling/context/thread-wire.h"
#include "host/sampling/unwind/tables/table-job.h"

typedef union Request {
        uint32_t magic;
        TableJobRequest table;
        ThreadWireRequest thread;
        CodeRequest code;
        GdbRequest gdb;
        SymbolRequest symbol;
        NoTextRequest no_text;
        ReaderRequest reader;           /* request of runtimes */
        JfrTailRequest jfr;
} Request;

static void serve_table(int socket, int fd, const Request *request) {
        table_job_serve(socket, fd, &request->table);
}

static void serve_thread(int socket, int fd, const Request *request) {
        ObjectRuntimes runtimes = { 0 };

        for (size_t i = 0; i < ARRAY_SIZE(all_runtimes); i++)
                runtimes_look(all_runtimes[i], fd, request->thread.size, &runtimes);
        thread_wire_serve(socket, fd, &request->thread, &runtimes);
}

/* The pieces of its file follow on the socket. */
static void serve_code(int socket, int fd, const Request *request) {
        code_serve(socket, &request->code);
}

/* More files, and what reads the process, follow on the socket. */
static void serve_gdb(int socket, int fd, const Request *request) {
        gdb_wire_serve(socket, fd, &request->gdb);
}

static void serve_symbol(int socket, int fd, const Request *request) {
        symbol_serve(socket, fd, &request->symbol);
}

static void serve_no_text(int socket, int fd, const Request *request) {
        no_text_serve(socket, fd, &request->no_text);
}

/* The reader asks for what it needs of the process on the socket. */
static void serve_hotspot(int socket, int fd, const Request *request) {
        hotspot_serve(socket, fd, &request->reader);
}

/* The same. */
static void serve_python(int socket, int fd, const Request *request) {
        python_serve(socket, fd, &request->reader);
}

/* The same. */
static void serve_v8(int socket, int fd, const Request *request) {
        v8_serve(socket, fd, &request->reader);
}

/* The same. */
static void serve_php(int socket, int fd, const Request *request) {
        php_serve(socket, fd, &request->reader);
}

/* The same. */
static void serve_beam(int socket, int fd, const Request *request) {
        beam_serve(socket, fd, &request->reader);
}

/* The same. */
static void serve_ruby(int socket, int fd, const Request *request) {
        ruby_serve(socket, fd, &request->reader);
}

/* The same. */
static void serve_go_heap(int socket, int fd, const Request *request) {
        go_heap_serve(socket, fd, &request->reader);
}

static void serve_jfr(int socket, int fd, const Request *request) {
        jfr_tail_serve(socket, fd, &request->jfr);
}

typedef struct Kind {
        const WorkerQuestion *question; /* first message of the conversation */
        void (*serve)(int socket, int fd, const Request *request);
} Kind;

static const Kind kinds[] = {
        { &table_job_question, serve_table },
        { &thread_wire_question, serve_thread },
        { &code_question, serve_code },
        { &gdb_wire_question, serve_gdb },
        { &symbol_question, serve_symbol },
        { &no_text_questions[NO_TEXT_ASK_ID], serve_no_text },
        { &hotspot_open_question, serve_hotspot },
        { &python_open_question, serve_python },
        { &v8_open_question, serve_v8 },
        { &php_open_question, serve_php },
        { &beam_open_question, serve_beam },
        { &ruby_open_question, serve_ruby },
        { &go_heap_question, serve_go_heap },
        { &jfr_tail_question, serve_jfr },
};

/* Return: NULL = no such kind. */
static const Kind *find_kind(uint32_t magic) {
        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
                if (kinds[i].question->magic == magic)
                        return &kinds[i];
        return NULL;
}

/* A descriptor comes with the first byte. Return: NULL = the socket was closed, or this is no request. */
static const Kind *receive(int socket, Request *request, int *fdp) {
        const size_t word = sizeof(request->magic);
        const Kind *kind;

        if (channel_receive(socket, request, word, fdp, 0) != (ssize_t)word)
                return NULL;
        kind = find_kind(request->magic);
        if (!kind || channel_receive_all(socket, (char *)request + word, kind->question->request_size - word))
                return NULL;
        return kind;
}

void worker_main(int socket) {
        Request request = { 0 };
        const Kind *kind;
        int fd = -1;

        kind = receive(socket, &request, &fd);
        if (kind && (fd >= 0 || !kind->question->needs_file))
                kind->serve(socket, fd, &request);
        _exit(0);
}
