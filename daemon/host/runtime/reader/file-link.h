/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * File Links
 *
 * What the daemon has of processes whose runtime lies in a file: what the file says, asked once for all
 * processes that have it mapped, and for questions a link to each process' worker (reader-link.h). A runtime
 * adds a FileLinkOps, and what its workers are asked beyond that.
 */

#include "host/runtime/reader/reader-link.h"

/* How a file of the runtime is opened by a worker. */
typedef struct FileLinkOps {
        const char *name;               /* name of the runtime, for the log */
        const WorkerQuestion *question; /* a ReaderRequest; the head of its answer begins as a ReaderSaid */
        size_t size;                    /* bytes that follow the head, whatever its result */
        /* Pure. Whether @opened, with the result of its head, may be so. Makes texts of its texts. */
        bool (*check)(void *opened, int result);
} FileLinkOps;

/* Links to all processes with one runtime. Not for several threads at once. */
typedef struct FileLinks FileLinks;

/* @readers, @ops: borrowed. Return: 0, -ENOMEM. */
int file_links_new(FileLinks **linksp, ReaderLinks *readers, const FileLinkOps *ops);
FileLinks *file_links_free(FileLinks *links);   /* when none of its links is left */
DEFINE_CLEANUP(FileLinks, file_links_free)

/* As RuntimeOps.tend(). @links: FileLinks, or NULL. */
void file_links_tend(void *links, uint64_t now_ns);

/* Link to a process. */
typedef struct FileLink FileLink;

/*
 * @subject: with the runtime's file, whose Object.id is @object, and whose descriptor is the link's on
 * success. Return: 0, -ENOMEM.
 */
int file_link_new(FileLink **linkp, FileLinks *links, const ReaderSubject *subject, uint64_t object);
FileLink *file_link_free(FileLink *link);

enum {
        _FILE_LINK_E_SUCCESS,
        FILE_LINK_E_LATER,              /* there is no worker now, or it had no answer */
        FILE_LINK_E_NOT,                /* there is none; open: what was said has the reason */
};

/* Opens what the file says. *openedp lives until the next call for any link. Return: 0, FILE_LINK_E_*. */
int file_link_open(FileLink *link, const void **openedp);

/* Asks the process' worker. Return: 0 with what the question said, FILE_LINK_E_LATER. */
int file_link_ask(FileLink *link, ReaderQuestion question, void *userdata, int *saidp);

/* CPU time of all its workers so far, ns. @link: NULL = 0. */
uint64_t file_link_cpu_ns(const FileLink *link);
