/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Context Ring
 *
 * Finds the ring (spanprof/ring.h) that a process publishes, and looks whether it is still there. Headers in
 * memory that is a guest's are none (ring-slots.h). On the way it notes where a process context and stations
 * of coroutines are. Never makes the target's memory grow: only pages that pagemap shows present are read.
 * Work is bounded by a budget and goes on where it stopped.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "host/sampling/context/seen-pages.h"

typedef enum RingHeader {
        RING_HEADER_VALID,
        RING_HEADER_ABSENT,             /* no magic */
        RING_HEADER_UNFINISHED,         /* magic, but still no version: a writer is at work */
        RING_HEADER_INVALID,            /* magic, and a field that no writer sets so */
} RingHeader;

/*
 * Pure. @bytes: the sizeof(struct spanprof_ring_header) bytes at @address; @region_end: end of the one
 * mapping that must hold header and slots. *capacityp is set if VALID.
 */
RingHeader ring_check_header(const void *bytes, uint64_t address, uint64_t region_end, uint32_t *capacityp);

/* Fields of a header that no writer sets so. */
enum {
        RING_FAULT_MAGIC = 1 << 0,
        RING_FAULT_VERSION = 1 << 1,
        RING_FAULT_CAPACITY = 1 << 2,
        RING_FAULT_SLOT_SIZE = 1 << 3,
        RING_FAULT_RESERVED = 1 << 4,
        RING_FAULT_ROOM = 1 << 5,       /* header and slots reach over the end of their mapping */
};

/* Pure. As above. Return: RING_FAULT_* of all fields; 0 = the header is right. */
unsigned ring_header_faults(const void *bytes, uint64_t address, uint64_t region_end);

/* What is wrong by one of these bits, for people: `its version is not 1`; NULL = no such bit. */
const char *ring_fault_text(unsigned fault);

/* Where a search stands; starts as zeros. */
typedef struct RingSearch {
        uint64_t next;                  /* address to go on from; 0 = from the start */
        bool unfinished;                /* a header was met that was being written */
        bool foreign;                   /* … that is right, with no slot of a thread of this process */
        bool knows_starts;              /* by a quick look just before: a full search leaves them out */
        /* a header of a process context (spanprof/process.h) was met; 0 = none; stays set */
        uint64_t context_address;
        bool context_looks_right;       /* by its header; this search's */
        uint64_t invalid_address;       /* a ring with one wrong field in its header; 0 = none; stays set, */
        unsigned invalid_fault;         /* … and which: RING_FAULT_* */
        /* a region of coroutines (spanprof/station.h) was met; 0 = none; stays set */
        uint64_t stations_address;
        struct RingSearcher *paused;    /* in the middle of maps; ring_search_stop() frees it */
        /* pages that full searches have seen, and need not read; they add to it; borrowed, NULL = read all */
        SeenPages *seen;
} RingSearch;

/* Leaves the maps of the process; the next call reads them from the start. */
void ring_search_stop(RingSearch *search);

/* Work that a call may do; counted down. */
typedef struct RingBudget {
        uint64_t n_entries;             /* pagemap entries that are looked at, about 10 ns each */
        uint64_t n_reads;               /* pages whose first bytes are read, about 200 ns each */
        uint64_t read_ns;               /* counted up: CPU time of these reads */
        size_t *text_leftp;             /* bytes of maps, shared with others (maps.h); NULL = without end */
        /* ask pagemap for every page, as kernels before 6.7 need it; set by ring_find() too */
        bool by_entry;
} RingBudget;

enum {
        _RING_E_SUCCESS,
        RING_E_NONE,                    /* searched to the end: no ring */
        RING_E_UNFINISHED,              /* the same, but one is being made: search again soon */
        RING_E_FOREIGN,                 /* the same, but one may be a guest's: search again some time */
        RING_E_MORE,                    /* the budget is used up; call again to go on */
        RING_E_GONE,                    /* the process has exited */
        RING_E_DENIED,                  /* we may not read its memory */
};

/*
 * Searches for a ring in the process: first regions that carry its name, then the start of every private
 * anonymous region, then, unless @quick, all their present pages.
 * @start_time_ns: identity of the process. Return: 0 with *addressp and *capacityp, RING_E_*, -ENOMEM.
 */
int ring_find(pid_t pid, uint64_t start_time_ns, bool quick, RingSearch *search, RingBudget *budget,
              uint64_t *addressp, uint32_t *capacityp);

/* Whether the ring at @address is still there, the same. Return: 0, RING_E_NONE, RING_E_GONE. */
int ring_check(pid_t pid, uint64_t address, uint32_t capacity);
