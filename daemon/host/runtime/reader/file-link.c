/* SPDX-License-Identifier: Apache-2.0 */

/*
 *     process 4711, python3.11      a worker opens its file, and says what it says: kept
 *     process 4712, the same file   known; no worker until a frame of it needs a name
 *
 * So a program that forks a hundred workers, or a build that starts a runtime a hundred times a second, costs
 * no hundred workers here.
 */
#include "host/runtime/reader/file-link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/error.h"

enum { N_FILES = 32 };                  /* files whose answers are kept; the oldest one has to go */

typedef struct KnownFile {
        uint64_t object;
        int result;                     /* 0; anything else = its processes are not walked */
        bool is_there;
} KnownFile;

struct FileLinks {
        ReaderLinks *readers;
        const FileLinkOps *ops;
        KnownFile files[N_FILES];
        uint32_t next;                  /* place of the next one */
        char *opened;                   /* N_FILES answers, then the last worker's and its head */
};

struct FileLink {
        FileLinks *links;
        ReaderLink *reader;
        ReaderOps ops;
        uint64_t object;                /* Object.id of the file */
};

int file_links_new(FileLinks **linksp, ReaderLinks *readers, const FileLinkOps *ops) {
        _cleanup_(file_links_freep) FileLinks *links = calloc(1, sizeof(*links));

        if (!links)
                return error_origin(-ENOMEM);
        *links = (FileLinks){ .readers = readers, .ops = ops };
        links->opened = calloc(1, (N_FILES + 1) * ops->size + ops->question->answer_size);
        if (!links->opened)
                return error_origin(-ENOMEM);
        *linksp = take(links);
        return 0;
}

FileLinks *file_links_free(FileLinks *links) {
        if (links)
                free(links->opened);
        free(links);
        return NULL;
}

void file_links_tend(void *userdata, uint64_t now_ns) {
        FileLinks *links = userdata;

        if (links)
                reader_links_tend(links->readers, now_ns);
}

/* Answer of file @i; N_FILES: of the worker that was made last, whose head is the next one. */
static void *opened_of(const FileLinks *links, size_t i) {
        return links->opened + i * links->ops->size;
}

/* ---- one process ---- */

/* The answer is written in any case. */
static int hear_opened(void *userdata, WorkerSession *worker) {
        const FileLink *link = userdata;
        const FileLinkOps *ops = link->links->ops;
        void *opened = opened_of(link->links, N_FILES);
        void *head = opened_of(link->links, N_FILES + 1);
        ReaderSaid said;
        int r = worker_session_hear(worker, ops->question, NULL, head);

        memcpy(&said, head, sizeof(said));
        r = r ?: worker_session_receive(worker, opened, ops->size);
        r = r ?: worker_session_judge(worker, ops->check(opened, said.result));
        if (r)
                memset(opened, 0, ops->size);
        return r ? 1 : said.result;
}

int file_link_new(FileLink **linkp, FileLinks *links, const ReaderSubject *subject, uint64_t object) {
        FileLink *link = calloc(1, sizeof(*link));
        int r;

        if (!link)
                return error_origin(-ENOMEM);
        *link = (FileLink){ .links = links, .object = object,
                            .ops = { .name = links->ops->name, .question = links->ops->question,
                                     .hear_opened = hear_opened } };
        r = reader_link_new(&link->reader, links->readers, &link->ops, link, subject);
        if (r) {
                free(link);
                return error_fold(r);
        }
        *linkp = link;
        return 0;
}

FileLink *file_link_free(FileLink *link) {
        if (!link)
                return NULL;
        reader_link_free(link->reader);
        free(link);
        return NULL;
}

/* ---- what its file says ---- */

/* Return: its index; N_FILES = it is not known. */
static size_t find_file(const FileLinks *links, uint64_t object) {
        size_t i = 0;

        while (i < N_FILES && !(links->files[i].is_there && links->files[i].object == object))
                i++;
        return i;
}

static size_t keep_file(FileLinks *links, uint64_t object, int result) {
        size_t i = links->next++ % N_FILES;

        links->files[i] = (KnownFile){ .object = object, .result = result, .is_there = true };
        memcpy(opened_of(links, i), opened_of(links, N_FILES), links->ops->size);
        return i;
}

int file_link_open(FileLink *link, const void **openedp) {
        FileLinks *links = link->links;
        size_t i = find_file(links, link->object);
        int result = 0;

        if (i == N_FILES) {
                if (reader_link_open(link->reader, &result))
                        return FILE_LINK_E_LATER;
                i = keep_file(links, link->object, result);
        }
        *openedp = opened_of(links, i);
        return links->files[i].result ? FILE_LINK_E_NOT : 0;
}

int file_link_ask(FileLink *link, ReaderQuestion question, void *userdata, int *saidp) {
        return reader_link_ask(link->reader, question, userdata, saidp) ? FILE_LINK_E_LATER : 0;
}

uint64_t file_link_cpu_ns(const FileLink *link) {
        return link ? reader_link_cpu_ns(link->reader) : 0;
}
