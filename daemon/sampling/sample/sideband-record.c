/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Four records of perf_event_open(2), as the event in sideband.c asks for them (sample_id_all with the time
 * only, so each one ends with it):
 *
 *     MMAP2   header | pid tid | address length offset | major minor inode generation | prot flags | path |
 *             time
 *             or, with the mark MMAP_BUILD_ID:         | size, 3 unused, 20 bytes      |
 *     COMM    header | pid tid | name | time           with the mark COMM_EXEC: by an exec
 *     FORK    header | pid parent tid parent's-tid | time | time       comes along with any of the others
 *     LOST    header | id lost | time
 *
 * Paths and names are filled up with zeros to 8 bytes.
 */
#include "sampling/sample/sideband.h"

#include <assert.h>
#include <linux/perf_event.h>
#include <string.h>

#define FILE_SIZE_MAX ((uint64_t)INT64_MAX)

typedef struct Mmap2 {
        struct perf_event_header header;
        uint32_t pid, tid;
        uint64_t address, length, offset;
        uint32_t major, minor;
        uint64_t inode, generation;
        uint32_t prot, flags;
        char path[];
} Mmap2;

typedef struct Comm {
        struct perf_event_header header;
        uint32_t pid, tid;
        char name[];
} Comm;

typedef struct Fork {
        struct perf_event_header header;
        uint32_t pid, parent, tid, parent_tid;
        uint64_t time_ns;
} Fork;

typedef struct Lost {
        struct perf_event_header header;
        uint64_t id, lost;
} Lost;

static_assert(sizeof(Mmap2) == 72, "as the kernel has it");
static_assert(sizeof(Comm) == 16, "as the kernel has it");
static_assert(sizeof(Fork) == 32, "as the kernel has it");
static_assert(sizeof(Lost) == 24, "as the kernel has it");

static uint64_t time_of(const void *data, size_t size) {
        uint64_t time_ns;

        memcpy(&time_ns, (const char *)data + size - sizeof(time_ns), sizeof(time_ns));
        return time_ns;
}

/* Processes that our PID namespace does not see have the id 0, those that are being reaped -1. */
static bool is_visible(uint32_t pid) {
        return pid && pid <= INT32_MAX;
}

/* PERF_RECORD_MISC_MMAP_BUILD_ID says nothing: it may be left from somebody else's event (sideband.c). */
static int parse_mmap2(const Mmap2 *from, size_t size, SidebandRecord *recordp) {
        MappingNotice notice = { 0 };
        uint64_t end;

        if (size < sizeof(*from) + sizeof(uint64_t))
                return SIDEBAND_E_MALFORMED;
        if (!is_visible(from->pid) || from->header.misc & PERF_RECORD_MISC_MMAP_DATA)
                return SIDEBAND_E_OTHER;
        notice = (MappingNotice){ .time_ns = time_of(from, size),
                                  .pid = from->pid,
                                  .tid = from->tid,
                                  .start = from->address,
                                  .size = from->length,
                                  .offset = from->offset,
                                  .major = from->major,
                                  .minor = from->minor,
                                  .inode = from->inode,
                                  .prot = from->prot,
                                  .flags = from->flags,
                                  .path = from->path };
        if (!from->length || __builtin_add_overflow(from->address, from->length, &end) ||
            from->offset > FILE_SIZE_MAX)
                return SIDEBAND_E_MALFORMED;
        notice.path_size = strnlen(from->path, size - sizeof(*from) - sizeof(uint64_t));
        *recordp = (SidebandRecord){ .kind = SIDEBAND_MAPPING, .time_ns = notice.time_ns, .pid = notice.pid,
                                     .mapping = notice };
        return 0;
}

static int parse_comm(const Comm *from, size_t size, SidebandRecord *recordp) {
        if (size < sizeof(*from) + sizeof(uint64_t))
                return SIDEBAND_E_MALFORMED;
        if (!(from->header.misc & PERF_RECORD_MISC_COMM_EXEC) || !is_visible(from->pid))
                return SIDEBAND_E_OTHER;
        *recordp = (SidebandRecord){ .kind = SIDEBAND_EXEC,
                                     .time_ns = time_of(from, size),
                                     .pid = from->pid };
        memcpy(recordp->comm, from->name,
               MIN(size - sizeof(*from) - sizeof(uint64_t), sizeof(recordp->comm) - 1));
        return 0;
}

/*
 * A new thread is one of its own process. A parent out of sight is of no use: the child came in by setns(2).
 */
static int parse_fork(const Fork *from, size_t size, SidebandRecord *recordp) {
        if (size < sizeof(*from) + sizeof(uint64_t))
                return SIDEBAND_E_MALFORMED;
        if (from->pid == from->parent || !is_visible(from->pid) || !is_visible(from->parent))
                return SIDEBAND_E_OTHER;
        *recordp = (SidebandRecord){ .kind = SIDEBAND_FORK, .time_ns = time_of(from, size), .pid = from->pid,
                                     .parent = from->parent };
        return 0;
}

static int parse_lost(const Lost *from, size_t size, SidebandRecord *recordp) {
        if (size < sizeof(*from) + sizeof(uint64_t))
                return SIDEBAND_E_MALFORMED;
        *recordp = (SidebandRecord){ .kind = SIDEBAND_LOST,
                                     .time_ns = time_of(from, size),
                                     .n_lost = from->lost };
        return 0;
}

int sideband_parse(const void *data, size_t size, SidebandRecord *recordp) {
        const struct perf_event_header *header = data;

        if (size < sizeof(*header) || header->size != size || size % sizeof(uint64_t))
                return SIDEBAND_E_MALFORMED;
        switch (header->type) {
        case PERF_RECORD_MMAP2:
                return parse_mmap2(data, size, recordp);
        case PERF_RECORD_COMM:
                return parse_comm(data, size, recordp);
        case PERF_RECORD_FORK:
                return parse_fork(data, size, recordp);
        case PERF_RECORD_LOST:
                return parse_lost(data, size, recordp);
        default:
                return SIDEBAND_E_OTHER;
        }
}
