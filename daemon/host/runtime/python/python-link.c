/* SPDX-License-Identifier: Apache-2.0 */

/*
 *     process 4711, python3.11      a worker opens its file, and says what it says: kept
 *     process 4712, the same file   known; no worker until a frame of it needs a name
 *
 * So a program that forks a hundred workers, or a build that starts a Python a hundred times a second, costs
 * no hundred workers here.
 */
#include "host/runtime/python/python-link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/error.h"

enum { N_FILES = 32 };                  /* files whose answers are kept; the oldest one has to go */

typedef struct KnownFile {
        uint64_t object;
        int result;                     /* 0, PYTHON_OPEN_E_* */
        bool is_there;
        PythonOpened opened;
} KnownFile;

struct PythonLinks {
        ReaderLinks *readers;
        PythonOpened opened;            /* by the worker that was made last */
        KnownFile files[N_FILES];
        uint32_t next;                  /* place of the next one */
};

struct PythonLink {
        PythonLinks *links;
        ReaderLink *reader;
        uint64_t object;                /* Object.id of the file */
};

int python_links_new(PythonLinks **linksp, ReaderLinks *readers) {
        PythonLinks *links = calloc(1, sizeof(*links));

        if (!links)
                return error_origin(-ENOMEM);
        links->readers = readers;
        *linksp = links;
        return 0;
}

PythonLinks *python_links_free(PythonLinks *links) {
        free(links);
        return NULL;
}

void python_links_tend(PythonLinks *links, uint64_t now_ns) {
        reader_links_tend(links->readers, now_ns);
}

/* ---- one process ---- */

/* The answer is written in any case. */
static int hear_opened(void *userdata, WorkerSession *worker) {
        PythonLink *link = userdata;
        PythonOpened *opened = &link->links->opened;
        PythonSaid said;
        int r = worker_session_hear(worker, &python_open_question, NULL, &said);

        r = r ?: worker_session_receive(worker, opened, sizeof(*opened));
        r = r ?: worker_session_judge(worker, python_wire_check_opened(opened, said.result));
        if (r)
                memset(opened, 0, sizeof(*opened));
        return r ? PYTHON_OPEN_E_UNKNOWN : said.result;
}

int python_link_new(PythonLink **linkp, PythonLinks *links, const ReaderSubject *subject, uint64_t object) {
        static const ReaderOps ops = { .name = "python", .question = &python_open_question,
                                       .hear_opened = hear_opened };
        PythonLink *link = calloc(1, sizeof(*link));
        int r;

        if (!link)
                return error_origin(-ENOMEM);
        link->links = links;
        link->object = object;
        r = reader_link_new(&link->reader, links->readers, &ops, link, subject);
        if (r) {
                free(link);
                return error_fold(r);
        }
        *linkp = link;
        return 0;
}

PythonLink *python_link_free(PythonLink *link) {
        if (!link)
                return NULL;
        reader_link_free(link->reader);
        free(link);
        return NULL;
}

/* ---- what its file says ---- */

static const KnownFile *find_file(const PythonLinks *links, uint64_t object) {
        for (size_t i = 0; i < N_FILES; i++)
                if (links->files[i].is_there && links->files[i].object == object)
                        return &links->files[i];
        return NULL;
}

static const KnownFile *keep_file(PythonLinks *links, uint64_t object, int result) {
        KnownFile *file = &links->files[links->next++ % N_FILES];

        *file = (KnownFile){ .object = object, .result = result, .is_there = true };
        file->opened = links->opened;
        return file;
}

int python_link_open(PythonLink *link, const PythonOpened **openedp) {
        const KnownFile *file = find_file(link->links, link->object);
        int result = 0;

        if (!file) {
                if (reader_link_open(link->reader, &result))
                        return PYTHON_LINK_E_LATER;
                file = keep_file(link->links, link->object, result);
        }
        *openedp = &file->opened;
        return file->result ? PYTHON_LINK_E_NOT : 0;
}

/* ---- questions ---- */

static int ask(PythonLink *link, ReaderQuestion question, void *userdata) {
        int result = 0;

        if (reader_link_ask(link->reader, question, userdata, &result))
                return PYTHON_LINK_E_LATER;
        return result ? PYTHON_LINK_E_NOT : 0;
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

int python_link_name(PythonLink *link, const uint64_t *words, PythonFunction *function) {
        Asked asked = { .question = { .magic = PYTHON_WIRE_MAGIC, .kind = PYTHON_WIRE_NAME,
                                      .words = { words[0], words[1] } },
                        .fd = -1,
                        .function = function };

        return ask(link, ask_name, &asked);
}

int python_link_more(PythonLink *link, PythonMoreKind kind, int fd, uint64_t size, PythonMore *more) {
        Asked asked = { .question = { .magic = PYTHON_WIRE_MAGIC, .kind = PYTHON_WIRE_MORE, .size = size,
                                      .more_kind = kind },
                        .fd = fd,
                        .more = more };

        return ask(link, ask_more, &asked);
}

int python_link_spans(PythonLink *link, struct python_spans *spans, int *said) {
        struct python_spans found;
        Asked asked = { .question = { .magic = PYTHON_WIRE_MAGIC, .kind = PYTHON_WIRE_SPANS }, .fd = -1,
                        .spans = &found };

        if (reader_link_ask(link->reader, ask_spans, &asked, said))
                return PYTHON_LINK_E_LATER;
        if (!*said)
                *spans = found;
        return 0;
}

uint64_t python_link_cpu_ns(const PythonLink *link) {
        return reader_link_cpu_ns(link->reader);
}
