/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Host Walk
 *
 * Walks a stack by the same rules as the kernel half, when the rows of the code in it are there: a copy of a
 * sample, or the stack of a thread that stands still.
 */

#include <stdbool.h>
#include <stdint.h>

#include "abi.h"
#include "base/util/macro.h"
#include "sampling/process/process.h"
#include "sampling/unwind/tables.h"

typedef struct HostWalk HostWalk;

/* The outcome of one walk. */
typedef struct HostWalkResult {
        const uint64_t *frames;         /* as in struct abi_sample, leaf first; valid until the next walk */
        uint32_t n;
        enum abi_stack_end end;
        uint8_t interrupted;            /* as in struct abi_sample */
} HostWalkResult;

/* The rest of the memory of a thread that stands still, and the runtimes in it. */
typedef struct HostMemory {
        /* Return: 0, or another number: not all of it could be read. */
        int (*read)(void *userdata, uint64_t address, void *to, size_t size);
        void *userdata;
        uint64_t thread_pointer;
        const struct hotspot_process *hotspot;  /* NULL = none runs there */
        const struct python_process *python;
} HostMemory;

/* @tables: borrowed, lives longer. @depth: frames at most, 1 … ABI_MAX_FRAMES. Return: 0, -ENOMEM. */
int host_walk_new(HostWalk **walkp, const Tables *tables, uint32_t depth);
HostWalk *host_walk_free(HostWalk *walk);
DEFINE_CLEANUP(HostWalk, host_walk_free)

/*
 * Walks @stack by what @process had mapped at its time. ABI_STACK_PENDING: rows on the way are not there yet;
 * nothing waits for them here. @has_runtime: code without a file is a runtime's, of which the rules know
 * nothing: the stack ends there, with ABI_STACK_RUNTIME, unless @memory (NULL = none) has that runtime.
 */
void host_walk(HostWalk *walk, const Process *process, bool has_runtime, const HostMemory *memory,
               const struct abi_stack *stack, HostWalkResult *resultp);

/* Gives back the rows that it holds; the next walk takes them again. */
void host_walk_release(HostWalk *walk);

/* Bytes of rows that it holds: memory that the kernel's tables have as well. */
size_t host_walk_bytes(const HostWalk *walk);
