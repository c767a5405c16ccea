/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sends a question and receives its answer; an answer that does not check ends the worker.
 */

#include "host/runtime/python/python-session.h"

#include <string.h>

/* Return: 0, WORKER_SESSION_E_*. */
static int hear(WorkerSession *worker, PythonWireKind kind, PythonSaid *said) {
        int r = worker_session_receive(worker, said, sizeof(*said));

        if (!r && !python_wire_check(said, kind))
                r = worker_session_refuse(worker);
        return r;
}

/* The same. */
static int ask(WorkerSession *worker, const PythonQuestion *question, int fd, PythonSaid *said) {
        int r = worker_session_send(worker, question, sizeof(*question), fd);

        return r ? r : hear(worker, question->kind, said);
}

int python_session_open(WorkerSession *worker, const ReaderHandle *handle, int fd, uint64_t size,
                        uint64_t bias, PythonOpened *opened) {
        const PythonRequest request = { .magic = PYTHON_WIRE_MAGIC, .size = size, .bias = bias };
        PythonSaid said;
        int r = worker_session_send(worker, &request, sizeof(request), fd);

        r = r ? r : reader_handle_send(handle, worker);
        r = r ? r : hear(worker, PYTHON_WIRE_OPEN, &said);
        r = r ? r : worker_session_receive(worker, opened, sizeof(*opened));
        if (!r && !python_wire_check_opened(opened, said.result))
                r = worker_session_refuse(worker);
        if (r)
                memset(opened, 0, sizeof(*opened));
        return r ? PYTHON_OPEN_E_UNKNOWN : said.result;
}

int python_session_name(WorkerSession *worker, const uint64_t *words, PythonFunction *function) {
        const PythonQuestion question = { .magic = PYTHON_WIRE_MAGIC, .kind = PYTHON_WIRE_NAME,
                                          .words = { words[0], words[1] } };
        char texts[2 * PYTHON_MAX_TEXT];
        PythonSaid said;

        if (ask(worker, &question, -1, &said) || said.result ||
            worker_session_receive(worker, texts, (size_t)said.n_name + said.n_file))
                return PYTHON_CODE_E_GONE;
        if (!python_wire_take(function, &said, texts)) {
                worker_session_refuse(worker);
                return PYTHON_CODE_E_GONE;
        }
        return 0;
}

int python_session_more(WorkerSession *worker, PythonMoreKind kind, int fd, uint64_t size, PythonMore *more) {
        const PythonQuestion question = { .magic = PYTHON_WIRE_MAGIC, .kind = PYTHON_WIRE_MORE, .size = size,
                                          .more_kind = kind };
        PythonSaid said;

        if (ask(worker, &question, fd, &said) || said.result ||
            worker_session_receive(worker, more, sizeof(*more)))
                return 1;
        if (!python_wire_check_more(more, kind)) {
                worker_session_refuse(worker);
                return 1;
        }
        return 0;
}
