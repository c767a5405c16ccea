/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * GDB's List on the Wire
 *
 * The conversation with a worker without rights that reads a process' list of code for debuggers
 * (gdb-list.h). It is asked which files of the process have a list, then for the functions in each. What it
 * says is not trusted.
 *
 *     request   GdbRequest: FIND, size of a file; its descriptor comes along
 *     answer    GdbAnswer: FIND, address
 *     request   GdbRequest: READ, address in the process; then a ReaderHandle
 *     answer    GdbAnswer: READ, { CodeWireRecord, name }…
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/sandbox/worker-session.h"
#include "host/naming/gdb-list.h"

enum {
        GDB_WIRE_MAGIC = 0x47444231,
        GDB_WIRE_MAX_BYTES = 4 << 20,   /* bytes of all records; functions beyond are left out and counted */
};

typedef enum GdbWireKind {
        GDB_WIRE_FIND = 1,
        GDB_WIRE_READ,
        GDB_WIRE_FIND_FRAMES,           /* frame-wire.h, as the next */
        GDB_WIRE_READ_FRAMES,
} GdbWireKind;

typedef struct GdbRequest {
        uint32_t magic, kind;
        uint64_t value;                 /* size, or address */
} GdbRequest;

typedef struct GdbAnswer {
        uint32_t magic;
        int32_t result;                 /* 0, GDB_LIST_E_* */
        uint64_t address;               /* FIND */
        GdbListCounts counts;           /* READ, as what follows */
        uint32_t n_records, size;       /* records that follow, and their bytes */
        uint32_t zero;
} GdbAnswer;

_Static_assert(sizeof(GdbRequest) == 16 && sizeof(GdbAnswer) == 40, "no hidden bytes");

extern const WorkerQuestion gdb_wire_question;

/* Pure. Whether @answer may be the head of an answer to a request of @kind. */
bool gdb_wire_check(const GdbAnswer *answer, GdbWireKind kind);

/*
 * Reads a list as gdb_list_read() does, into records of CodeWire that the caller frees. Return: 0, also
 * where there is no list, -ENOMEM.
 */
int gdb_wire_read(const GdbMemory *memory, uint64_t address, GdbAnswer *answer, uint8_t **recordsp);

/* The worker's side: answers until the daemon closes the socket. @fd: came with the first request, or -1. */
void gdb_wire_serve(int socket, int fd, const GdbRequest *first);
