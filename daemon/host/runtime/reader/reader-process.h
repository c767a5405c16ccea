/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A Process that is Read
 *
 * What the RuntimeOps of a runtime keeps of a process to read it by: with workers its link (file-link.h);
 * without, in `record` by a user and in `targets`, its file and its memory.
 */

#include "host/runtime/reader/file-link.h"
#include "host/sampling/runtime/runtimes.h"

typedef struct ReaderProcess {
        FileLink *link;                 /* NULL = this process reads it, by: */
        pid_t pid;
        uint64_t start_time_ns;
        uint64_t size, bias;            /* size and bias of the runtime's file */
        int fd;                         /* the runtime's file */
        int memory;                     /* memory_open(); -1 = not asked for, or refused */
} ReaderProcess;

/* @subject: with FileLinks or NULL; its descriptor is taken on success. Return: 0, -ENOMEM. */
int reader_process_init(ReaderProcess *process, RuntimeSubject *subject);
void reader_process_deinit(ReaderProcess *process);

/* Reads memory of a process without a link. @process: a ReaderProcess. Return: whether all was there. */
bool reader_process_read(void *process, uint64_t address, void *to, size_t size);
