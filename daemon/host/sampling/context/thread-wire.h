/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Thread Wire
 *
 * What is said between the daemon and a worker without rights (sandbox/) that looks through a file for the
 * variable of thread-symbol.h and for the marks of runtimes. Its answer is untrusted, and checked.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/sandbox/worker-session.h"
#include "host/sampling/process/object.h"
#include "host/sampling/process/thread-symbol.h"

enum { THREAD_WIRE_MAGIC = 0x54535231 };

/* The file's descriptor comes along. A worker may not ask for its size. */
typedef struct ThreadWireRequest {
        uint32_t magic;
        uint32_t reserved;
        uint64_t size;
} ThreadWireRequest;

typedef struct ThreadWireSlot {
        uint64_t address;
        uint32_t kind;                  /* ThreadSlotKind */
        uint32_t has_symbol;
} ThreadWireSlot;

typedef struct ThreadWireAnswer {
        uint32_t magic;
        uint8_t name, form;
        uint16_t n_slots;
        uint64_t value, block_size;
        int64_t local_offset;
        ThreadWireSlot slots[THREAD_SYMBOL_MAX_SLOTS];
        ObjectRuntimes runtimes;
        uint32_t reserved;
} ThreadWireAnswer;

extern const WorkerQuestion thread_wire_question;

/* Pure. Whether it may be what a worker says; *symbolp, *runtimesp: what it says. */
bool thread_wire_check(const ThreadWireAnswer *answer, ThreadSymbol *symbolp, ObjectRuntimes *runtimesp);

/* In the worker: reads, and answers with @runtimes. */
void thread_wire_serve(int socket, int fd, const ThreadWireRequest *request, const ObjectRuntimes *runtimes);
