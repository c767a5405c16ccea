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

enum { N_FILES = 32 };                  /* whose answers are kept; the oldest one has to go */

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
        PythonFile file;
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

static int open_python(void *userdata, WorkerSession *worker, const ReaderHandle *handle) {
        PythonLink *link = userdata;

        return python_session_open(worker, handle, link->file.fd, link->file.size, link->file.bias,
                                   &link->links->opened);
}

static const ReaderOps ops = { .name = "python", .open = open_python };

int python_link_new(PythonLink **linkp, PythonLinks *links, pid_t pid, uint64_t start_time_ns,
                    const PythonFile *file) {
        PythonLink *link = calloc(1, sizeof(*link));
        int r;

        if (!link)
                return error_origin(-ENOMEM);
        r = reader_link_new(&link->reader, links->readers, &ops, link, pid, start_time_ns);
        if (r) {
                free(link);
                return error_fold(r);
        }
        link->links = links;
        link->file = *file;
        *linkp = link;
        return 0;
}

PythonLink *python_link_free(PythonLink *link) {
        if (!link)
                return NULL;
        reader_link_free(link->reader);
        closep(&link->file.fd);
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
        const KnownFile *file = find_file(link->links, link->file.object);
        int result = 0;

        if (!file) {
                if (reader_link_open(link->reader, &result))
                        return PYTHON_LINK_E_LATER;
                file = keep_file(link->links, link->file.object, result);
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

typedef struct NameQuestion {
        const uint64_t *words;
        PythonFunction *function;
} NameQuestion;

static int ask_name(void *userdata, WorkerSession *worker) {
        const NameQuestion *question = userdata;

        return python_session_name(worker, question->words, question->function);
}

int python_link_name(PythonLink *link, const uint64_t *words, PythonFunction *function) {
        NameQuestion question = { .words = words, .function = function };

        return ask(link, ask_name, &question);
}

typedef struct MoreQuestion {
        PythonMoreKind kind;
        int fd;
        uint64_t size;
        PythonMore *more;
} MoreQuestion;

static int ask_more(void *userdata, WorkerSession *worker) {
        const MoreQuestion *question = userdata;

        return python_session_more(worker, question->kind, question->fd, question->size, question->more);
}

int python_link_more(PythonLink *link, PythonMoreKind kind, int fd, uint64_t size, PythonMore *more) {
        MoreQuestion question = { .kind = kind, .fd = fd, .size = size, .more = more };

        return ask(link, ask_more, &question);
}

uint64_t python_link_cpu_ns(const PythonLink *link) {
        return reader_link_cpu_ns(link->reader);
}
