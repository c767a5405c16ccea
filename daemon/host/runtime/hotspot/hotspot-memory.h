/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Memory of a Live JVM
 *
 * A HotspotReader of a process. What lies in read-only parts of libjvm comes from its file: a process has
 * such pages only once it has touched them. All else comes page by page from a source: the process itself, or
 * in a worker the daemon (hotspot-wire.h). Pages are kept for the time of one question, so that a name costs
 * a few calls.
 */

#include <stdint.h>

#include "core/base/util/macro.h"
#include "host/runtime/hotspot/hotspot-layout.h"
#include "host/runtime/hotspot/hotspot-reader.h"

typedef struct HotspotMemory HotspotMemory;

enum {
        HOTSPOT_PAGE = 4096,            /* bytes */
        HOTSPOT_MAX_CALLS = 512,        /* to name a frame: some 40, and what calls in a loop lead to */
        HOTSPOT_LOCKS_CALLS = 32768,    /* for the locks of all threads: some 10 each, about 3 µs a call */
        HOTSPOT_OPEN_CALLS = 1024,      /* to open a JVM: JDK 21 needs 223, others fewer */
};

enum {
        _HOTSPOT_MEMORY_E_SUCCESS,
        HOTSPOT_MEMORY_E_NO_JVM,        /* the file is no HotSpot: its symbols are not there */
};

/* A source: reads a process by bounded calls (host/sampling/process/memory.h). @pid: a pid_t *. */
bool hotspot_process_read(void *pid, uint64_t address, void *to, size_t size);

/*
 * @source: asked for pages, HOTSPOT_PAGE bytes at a multiple of that, and for a few bytes anywhere. @fd:
 * libjvm's file, a regular one of @size bytes; borrowed, for as long as the memory is used. @bias: where it
 * is loaded (address in the process − ELF address). Return: 0, HOTSPOT_MEMORY_E_NO_JVM, -ENOMEM.
 */
int hotspot_memory_new(HotspotMemory **memoryp, const HotspotReader *source, int fd, uint64_t size,
                       uint64_t bias);
HotspotMemory *hotspot_memory_free(HotspotMemory *memory);
DEFINE_CLEANUP(HotspotMemory, hotspot_memory_free)

/* Addresses in the process of hotspot_symbol_names. */
const uint64_t *hotspot_memory_symbols(const HotspotMemory *memory);

/* Lives as long as @memory. */
const HotspotReader *hotspot_memory_reader(const HotspotMemory *memory);

/* Forgets the pages: a new question. */
void hotspot_memory_forget(HotspotMemory *memory);

/*
 * How many calls the process may still cost, HOTSPOT_MAX_CALLS at first: its memory says where to look next,
 * and may send us everywhere. Then nothing can be read any more.
 */
void hotspot_memory_allow(HotspotMemory *memory, uint32_t n_calls);

/* Reads @address as it is now, and not from a page that is kept. Return: whether it could be read. */
bool hotspot_memory_read_again(HotspotMemory *memory, uint64_t address, void *to, size_t size);

/* Calls made so far, each for a page or a part of one. */
uint64_t hotspot_memory_n_calls(const HotspotMemory *memory);
