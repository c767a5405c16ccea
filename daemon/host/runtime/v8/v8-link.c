/* SPDX-License-Identifier: Apache-2.0 */

/*
 *     process 4711, node            a worker opens its file, and says what it says: kept
 *     process 4712, the same file   known; no worker until a frame of it needs a name
 *
 * So a build that starts node a hundred times a second costs no hundred workers here.
 */
#include "host/runtime/v8/v8-link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/error.h"

enum { N_FILES = 32 };                  /* files whose answers are kept; the oldest one has to go */

typedef struct KnownFile {
        uint64_t object;
        int result;                     /* 0, V8_OPEN_E_* */
        bool is_there;
        V8Opened opened;
} KnownFile;

struct V8Links {
        ReaderLinks *readers;
        V8Opened opened;            /* by the worker that was made last */
        KnownFile files[N_FILES];
        uint32_t next;                  /* place of the next one */
        /* the answer that comes */
        V8WireFunction functions[V8_MAX_FUNCTIONS];
        char texts[V8_WIRE_MAX_TEXTS];
};

struct V8Link {
        V8Links *links;
        ReaderLink *reader;
        uint64_t object;                /* Object.id of the file */
};

int v8_links_new(V8Links **linksp, ReaderLinks *readers) {
        V8Links *links = calloc(1, sizeof(*links));

        if (!links)
                return error_origin(-ENOMEM);
        links->readers = readers;
        *linksp = links;
        return 0;
}

V8Links *v8_links_free(V8Links *links) {
        free(links);
        return NULL;
}

void v8_links_tend(V8Links *links, uint64_t now_ns) {
        reader_links_tend(links->readers, now_ns);
}

/* ---- one process ---- */

/* The answer is written in any case. */
static int hear_opened(void *userdata, WorkerSession *worker) {
        V8Link *link = userdata;
        V8Opened *opened = &link->links->opened;
        V8Said said;
        int r = worker_session_hear(worker, &v8_open_question, NULL, &said);

        r = r ?: worker_session_receive(worker, opened, sizeof(*opened));
        r = r ?: worker_session_judge(worker, v8_wire_check_opened(opened, said.result));
        if (r)
                memset(opened, 0, sizeof(*opened));
        return r ? V8_OPEN_E_UNKNOWN : said.result;
}

int v8_link_new(V8Link **linkp, V8Links *links, const ReaderSubject *subject, uint64_t object) {
        static const ReaderOps ops = { .name = "v8", .question = &v8_open_question,
                                       .hear_opened = hear_opened };
        V8Link *link = calloc(1, sizeof(*link));
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

V8Link *v8_link_free(V8Link *link) {
        if (!link)
                return NULL;
        reader_link_free(link->reader);
        free(link);
        return NULL;
}

/* ---- what its file says ---- */

static const KnownFile *find_file(const V8Links *links, uint64_t object) {
        for (size_t i = 0; i < N_FILES; i++)
                if (links->files[i].is_there && links->files[i].object == object)
                        return &links->files[i];
        return NULL;
}

static const KnownFile *keep_file(V8Links *links, uint64_t object, int result) {
        KnownFile *file = &links->files[links->next++ % N_FILES];

        *file = (KnownFile){ .object = object, .result = result, .is_there = true };
        file->opened = links->opened;
        return file;
}

int v8_link_open(V8Link *link, const V8Opened **openedp) {
        const KnownFile *file = find_file(link->links, link->object);
        int result = 0;

        if (!file) {
                if (reader_link_open(link->reader, &result))
                        return V8_LINK_E_LATER;
                file = keep_file(link->links, link->object, result);
        }
        *openedp = &file->opened;
        return file->result ? V8_LINK_E_NOT : 0;
}

/* ---- questions ---- */

typedef struct Asked {
        V8Question question;
        V8Answer *answer;
        V8Links *links;                 /* has room for what comes */
} Asked;

static int ask_name(void *userdata, WorkerSession *worker) {
        const Asked *asked = userdata;
        V8Links *links = asked->links;
        V8Said said;

        if (worker_session_ask(worker, &v8_question, &asked->question, -1, &said) ||
            said.result == V8_CODE_E_GONE ||
            worker_session_receive(worker, links->functions, said.n * sizeof(*links->functions)) ||
            (said.n_bytes && worker_session_receive(worker, links->texts, said.n_bytes)) ||
            worker_session_judge(worker, v8_wire_take(asked->answer, &said, links->functions, links->texts)))
                return V8_CODE_E_GONE;
        return said.result;
}

int v8_link_name(V8Link *link, const uint64_t *words, V8Answer *answer) {
        Asked asked = { .question = { .magic = V8_WIRE_MAGIC, .words = { words[0], words[1], words[2] } },
                        .answer = answer,
                        .links = link->links };
        int result = 0;

        if (reader_link_ask(link->reader, ask_name, &asked, &result))
                return V8_LINK_E_LATER;
        if (result == V8_CODE_E_SHORT)
                return V8_LINK_E_SHORT;
        return result ? V8_LINK_E_NOT : 0;
}

uint64_t v8_link_cpu_ns(const V8Link *link) {
        return reader_link_cpu_ns(link->reader);
}
