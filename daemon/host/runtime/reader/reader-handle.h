/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Handle of a Process' Memory
 *
 * Two open files of /proc/PID, through which a worker without rights reads one process and no other: they
 * stay with its address space when the id is used again, and when it executes another program.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/sandbox/worker-session.h"

enum { READER_MAX_READ = 64 << 10 };    /* bytes of one read */

/* The first message to a worker; the runtime's file comes along, then a ReaderHandle. */
typedef struct ReaderRequest {
        uint32_t magic, zero;
        uint64_t size;                  /* bytes of the file */
        uint64_t bias;                  /* address in the process - ELF address */
} ReaderRequest;

/* The head of its answer, as of all others, begins so. */
typedef struct ReaderSaid {
        uint32_t magic, kind;
        int32_t result;                 /* 0; anything else: why there is nothing, in the runtime's numbers */
} ReaderSaid;

typedef struct ReaderHandle {
        int mem, pagemap;               /* -1 = none */
} ReaderHandle;

/*
 * @start_time_ns: as for process_open(). Return: whether the process is there and may be read by us;
 * *handlep is owned by the caller.
 */
bool reader_handle_open(ReaderHandle *handlep, pid_t pid, uint64_t start_time_ns);
void reader_handle_close(ReaderHandle *handle);

/* Gives it to a worker. Return: 0, WORKER_SESSION_E_*. */
int reader_handle_send(const ReaderHandle *handle, WorkerSession *worker);

/* In the worker. Return: whether both files came; *handle is the caller's then. */
bool reader_handle_receive(ReaderHandle *handle, int socket);

/*
 * Pages that are not there are not made to come. @handle: a ReaderHandle. Return: whether all @size bytes, at
 * most READER_MAX_READ, were there.
 */
bool reader_handle_read(void *handle, uint64_t address, void *to, size_t size);
