/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Questions to the worker of an interpreter, and the answers as they come: a head, which says what follows,
 * then texts or a struct, which are checked before they are used.
 */
#include "host/runtime/python/python-link.h"

#include "host/runtime/reader/reader-text.h"

static bool check_opened(void *opened, int result) {
        return python_wire_check_opened(opened, result);
}

const FileLinkOps python_link_ops = { .name = "python",
                                      .question = &python_open_question,
                                      .size = sizeof(PythonOpened),
                                      .check = check_opened };

static int ask(FileLink *link, ReaderQuestion question, void *userdata) {
        int result = 0, r = file_link_ask(link, question, userdata, &result);

        return r ? r : result ? FILE_LINK_E_NOT : 0;
}

typedef struct Asked {
        PythonQuestion question;
        int fd;                         /* MORE, else -1 */
        PythonFunction *function;       /* NAME */
        PythonMore *more;               /* MORE */
        struct python_spans *spans;     /* SPANS */
} Asked;

static int ask_name(void *userdata, WorkerSession *worker) {
        const Asked *asked = userdata;
        char texts[2 * PYTHON_MAX_TEXT];
        PythonSaid said;

        if (worker_session_ask(worker, &python_question, &asked->question, -1, &said) || said.result ||
            worker_session_receive(worker, texts, (size_t)said.n_name + said.n_file) ||
            worker_session_judge(worker, python_wire_take(asked->function, &said, texts)))
                return PYTHON_CODE_E_GONE;
        return 0;
}

/* Return: 0, 1 = the file tells nothing. */
static int ask_more(void *userdata, WorkerSession *worker) {
        const Asked *asked = userdata;
        PythonSaid said;

        return worker_session_ask(worker, &python_question, &asked->question, asked->fd, &said) ||
                said.result || worker_session_receive(worker, asked->more, sizeof(*asked->more)) ||
                worker_session_judge(worker, python_wire_check_more(asked->more, asked->question.more_kind));
}

/* Return: 0, PYTHON_SPAN_E_*. */
static int ask_spans(void *userdata, WorkerSession *worker) {
        const Asked *asked = userdata;
        PythonSaid said;

        if (worker_session_ask(worker, &python_question, &asked->question, -1, &said))
                return PYTHON_SPAN_E_NONE;
        if (said.result)
                return said.result;
        return worker_session_receive(worker, asked->spans, sizeof(*asked->spans)) ||
                        worker_session_judge(worker, python_span_check(asked->spans))
                ? PYTHON_SPAN_E_NONE
                : 0;
}

int python_link_name(FileLink *link, const uint64_t *words, PythonFunction *function) {
        Asked asked = { .question = { .magic = PYTHON_WIRE_MAGIC, .kind = PYTHON_WIRE_NAME,
                                      .words = { words[0], words[1] } },
                        .fd = -1,
                        .function = function };

        return ask(link, ask_name, &asked);
}

int python_link_more(FileLink *link, PythonMoreKind kind, int fd, uint64_t size, PythonMore *more) {
        Asked asked = { .question = { .magic = PYTHON_WIRE_MAGIC, .kind = PYTHON_WIRE_MORE, .size = size,
                                      .more_kind = kind },
                        .fd = fd,
                        .more = more };

        return ask(link, ask_more, &asked);
}

int python_link_spans(FileLink *link, struct python_spans *spans, int *said) {
        struct python_spans found;
        Asked asked = { .question = { .magic = PYTHON_WIRE_MAGIC, .kind = PYTHON_WIRE_SPANS }, .fd = -1,
                        .spans = &found };

        if (file_link_ask(link, ask_spans, &asked, said))
                return FILE_LINK_E_LATER;
        if (!*said)
                *spans = found;
        return 0;
}

/* Return: 0, 1 = nothing was said. */
static int ask_locks(void *userdata, WorkerSession *worker) {
        const PythonQuestion question = { .magic = PYTHON_WIRE_MAGIC, .kind = PYTHON_WIRE_LOCKS };
        RuntimeLocks *locks = userdata;
        PythonSaid said;

        return worker_session_ask(worker, &python_question, &question, -1, &said) || said.result ||
                worker_session_receive(worker, locks, runtime_locks_size(said.line)) ||
                worker_session_judge(worker, locks->n == said.line && reader_locks_check(locks));
}

int python_link_locks(FileLink *link, RuntimeLocks *locks) {
        return ask(link, ask_locks, locks);
}
