/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Host Walk
 *
 * Walks a copied stack by the same rules as the kernel half, when the rows of the code in it are there.
 */

#include <stdbool.h>
#include <stdint.h>

#include "border/abi.h"
#include "border/runtime_abi.h"
#include "border/threads_abi.h"
#include "core/base/util/macro.h"
#include "host/sampling/process/process.h"
#include "host/sampling/unwind/tables/tables.h"

typedef struct HostWalk HostWalk;

/* The outcome of one walk. */
typedef struct HostWalkResult {
        const uint64_t *frames;         /* as in struct abi_sample, leaf first; valid until the next walk */
        uint32_t n;
        enum abi_stack_end end;
        uint8_t interrupted;            /* as in struct abi_sample */
        uint64_t pending;               /* id of the object whose rows are not there yet; 0 = unknown */
} HostWalkResult;

/* @tables: borrowed, lives longer. @depth: frames at most, 1 … ABI_MAX_FRAMES. Return: 0, -ENOMEM. */
int host_walk_new(HostWalk **walkp, const Tables *tables, uint32_t depth);
HostWalk *host_walk_free(HostWalk *walk);
DEFINE_CLEANUP(HostWalk, host_walk_free)

/*
 * Walks @stack by what @process had mapped at its time. ABI_STACK_PENDING: rows on the way are not there yet;
 * nothing waits for them here. @has_runtime: code without a file is a runtime's, of which the rules know
 * nothing: the stack ends there, with ABI_STACK_RUNTIME. Frames of Python, PHP and Ruby lie in the heap,
 * which no copy has: native frames of the interpreter stand for them.
 */
void host_walk(HostWalk *walk, const Process *process, bool has_runtime, const struct abi_stack *stack,
               HostWalkResult *resultp);

/*
 * A program that lives while it is walked: its memory, and what the daemon knows of its runtimes. Reads are
 * those of bpf/runtimes/beam.bpf.h, hotspot.bpf.h, php.bpf.h, python.bpf.h, ruby.bpf.h and v8.bpf.h, so each
 * may fail.
 */
typedef struct HostWalkLive {
        int (*read)(void *userdata, uint64_t address, void *to, uint32_t size); /* 0 = all of it was read */
        void *userdata;
        const struct hotspot_process *hotspot;  /* NULL = it runs no Java, or is not attached */
        const struct python_process *python;
        const struct v8_process *v8;
        const struct php_process *php;
        const struct ruby_process *ruby;
        const struct beam_process *beam;
        bool is_first;                          /* the next thread is the process' first one */
} HostWalkLive;

/*
 * The next walks are of threads of @live, borrowed, until this is called again; NULL: of copies alone. Reads
 * which thread of Python is which.
 */
void host_walk_enter(HostWalk *walk, const HostWalkLive *live);

/*
 * As host_walk(), of a thread that does not run meanwhile. @thread: its thread pointer, and its calls through
 * return probes; NULL = as host_walk().
 */
void host_walk_thread(HostWalk *walk, const Process *process, bool has_runtime, const struct abi_stack *stack,
                      const struct abi_thread *thread, HostWalkResult *resultp);

/* Whether a thread of @live that waits for the futex at @address waits for the lock of a Python (the GIL). */
bool host_walk_waits_for_lock(HostWalk *walk, uint64_t address);

/* Gives back the rows that it holds; the next walk takes them again. */
void host_walk_release(HostWalk *walk);

/* The lowest address that a walk from @sp on may read, if it is there: copies begin with its chunk. */
uint64_t host_walk_lowest(uint64_t sp);
