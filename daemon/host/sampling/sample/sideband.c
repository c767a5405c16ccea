/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads the kernel's records of executable mappings, execs and forks. An event on each CPU counts nothing
 * (PERF_COUNT_SW_DUMMY), but the kernel writes the records to its ring. perf_event_open(2) has the forms;
 * with sample_id_all each record ends with its time:
 *
 *     MMAP2   header | pid tid | address length offset | major minor inode gen. | prot flags | path | time
 *             or, with the mark MMAP_BUILD_ID:         | size, 3 unused, 20 bytes      |
 *     COMM    header | pid tid | name | time           with the mark COMM_EXEC: by an exec
 *     FORK    header | pid parent tid parent's-tid | time | time       comes with any of the others
 *     LOST    header | id lost | time
 *
 * Paths and names are filled up with zeros to a multiple of 8 bytes.
 *
 * A ring is a control page (head: written by the kernel, tail: by us) and a power of two of data pages. A
 * drain merges the rings by time, so a process that maps on one CPU and runs on another is seen in order:
 *
 *     CPU 0   MMAP2 17 at 100 | FORK 18 at 130
 *     CPU 1   COMM 12 at 110                          drained: 17 at 100, 12 at 110, 18 at 130
 */
#include "host/sampling/sample/sideband.h"

#include <assert.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/util/error.h"
#include "core/base/util/stat.h"

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

/* ---- records ---- */

static uint64_t time_of(const void *data, size_t size) {
        uint64_t time_ns;

        memcpy(&time_ns, (const char *)data + size - sizeof(time_ns), sizeof(time_ns));
        return time_ns;
}

/* A process outside our PID namespace has the id 0, one that is being reaped -1. */
static bool is_visible(uint32_t pid) {
        return pid && pid <= INT32_MAX;
}

/* PERF_RECORD_MISC_MMAP_BUILD_ID says nothing: it may be left from an event of another program. */
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
 * A fork within one process is a new thread. A parent outside our PID namespace is of no use: the child
 * entered it by setns(2).
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

/* ---- rings ---- */

enum {
        RING_BYTES = 256 << 10,         /* 1,200 records: a CPU that starts 2,500 small programs a second */
        MIN_RING_BYTES = 32 << 10,
        MAX_BYTES = 8 << 20,            /* bytes of all rings; with more than 32 CPUs each is smaller */
        MAX_RECORD = 64 << 10,          /* bytes of a record, whose size has 16 bits */
};

typedef struct Ring {
        int fd;                         /* -1 = closed */
        struct perf_event_mmap_page *control;
        const char *data;
        size_t size;                    /* bytes of the data, a power of two */
        uint64_t at, end;               /* positions of the drain that goes on */
        bool has_record;                /* the record at `at` is parsed */
        SidebandRecord record;
        char *copy;                     /* MAX_RECORD bytes, for a record that lies over the ring's end */
} Ring;

struct Sideband {
        int fd;                         /* an epoll of all rings' descriptors */
        size_t n;
        size_t n_online;                /* CPUs as it began; others may come */
        Ring rings[];
};

size_t sideband_ring_bytes(size_t n_cpus, size_t page_size) {
        size_t size = RING_BYTES;

        while (size > MIN_RING_BYTES && size * n_cpus > MAX_BYTES)
                size /= 2;
        return MAX(size, page_size);
}

int sideband_new(Sideband **sidebandp, size_t n_cpus, size_t n_online) {
        Sideband *sideband = calloc(1, sizeof(*sideband) + n_cpus * sizeof(sideband->rings[0]));

        if (!sideband)
                return error_origin(-ENOMEM);
        sideband->fd = epoll_create1(EPOLL_CLOEXEC);
        if (sideband->fd < 0) {
                free(sideband);
                return error_origin(-errno);
        }
        sideband->n = n_cpus;
        sideband->n_online = n_online;
        for (size_t i = 0; i < n_cpus; i++)
                sideband->rings[i].fd = -1;
        *sidebandp = sideband;
        return 0;
}

Sideband *sideband_free(Sideband *sideband) {
        if (!sideband)
                return NULL;
        for (size_t i = 0; i < sideband->n; i++)
                sideband_close(sideband, i);
        close(sideband->fd);
        free(sideband);
        return NULL;
}

static size_t count_open(const Sideband *sideband) {
        size_t n = 0;

        for (size_t i = 0; i < sideband->n; i++)
                n += sideband->rings[i].fd >= 0;
        return n;
}

/* Locked memory is limited without CAP_IPC_LOCK (kernel.perf_event_mlock_kb); then the ring is smaller. */
static int map_ring(Ring *ring, size_t n_cpus) {
        const size_t page = (size_t)sysconf(_SC_PAGESIZE);
        size_t size = sideband_ring_bytes(n_cpus, page);
        void *pages;

        for (;; size /= 2) {
                pages = mmap(NULL, page + size, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, 0);
                if (pages != MAP_FAILED || errno != EPERM || size == page)
                        break;
        }
        if (pages == MAP_FAILED)
                return -errno;
        ring->control = pages;
        ring->data = (const char *)pages + page;
        ring->size = size;
        return 0;
}

/* Adds the ring to the epoll; closing the event takes it out again. */
static int poll_ring(const Sideband *sideband, const Ring *ring) {
        struct epoll_event interest = { .events = EPOLLIN };

        return epoll_ctl(sideband->fd, EPOLL_CTL_ADD, ring->fd, &interest) < 0 ? -errno : 0;
}

int sideband_open(Sideband *sideband, EventOpener *opener, size_t cpu) {
        Ring *ring = &sideband->rings[cpu];
        int r;

        ring->copy = malloc(MAX_RECORD);
        if (!ring->copy)
                return -ENOMEM;
        ring->fd = event_opener_open(opener, &(EventRequest){ EVENT_MAPPINGS, (uint32_t)cpu, 0 });
        r = ring->fd < 0 ? ring->fd : map_ring(ring, MAX(sideband->n_online, count_open(sideband)));
        if (!r)
                r = poll_ring(sideband, ring);
        if (r)
                sideband_close(sideband, cpu);
        return r;
}

void sideband_close(Sideband *sideband, size_t cpu) {
        Ring *ring = &sideband->rings[cpu];

        if (ring->control)
                munmap(ring->control, (size_t)sysconf(_SC_PAGESIZE) + ring->size);
        if (ring->fd >= 0)
                close(ring->fd);
        free(ring->copy);
        *ring = (Ring){ .fd = -1 };
}

bool sideband_is_open(const Sideband *sideband, size_t cpu) {
        return sideband->rings[cpu].fd >= 0;
}

/* The record at `at` in one piece. */
static const void *whole_record(const Ring *ring, size_t size) {
        size_t place = ring->at & (ring->size - 1), first = MIN(size, ring->size - place);

        if (first == size)
                return ring->data + place;
        memcpy(ring->copy, ring->data + place, first);
        memcpy(ring->copy + first, ring->data, size - first);
        return ring->copy;
}

/* Goes on to the next useful record. */
static void look(Ring *ring) {
        while (!ring->has_record && ring->at < ring->end) {
                /* Records and the ring's end are 8-aligned, so a header is never torn. */
                const struct perf_event_header *header = (const void *)(ring->data +
                                                                        (ring->at & (ring->size - 1)));
                size_t size = header->size;
                int r;

                if (size < sizeof(*header) || size > ring->end - ring->at) {
                        stat_add(COUNTER_MAPPINGS_NOTICES_MALFORMED, 1);
                        ring->at = ring->end;
                        return;
                }
                r = sideband_parse(whole_record(ring, size), size, &ring->record);
                if (r == SIDEBAND_E_MALFORMED)
                        stat_add(COUNTER_MAPPINGS_NOTICES_MALFORMED, 1);
                ring->at += size;
                ring->has_record = r == 0;
        }
}

static Ring *oldest(Sideband *sideband) {
        Ring *found = NULL;

        for (size_t i = 0; i < sideband->n; i++) {
                Ring *ring = &sideband->rings[i];

                look(ring);
                if (ring->has_record && (!found || ring->record.time_ns < found->record.time_ns))
                        found = ring;
        }
        return found;
}

static void count(const SidebandRecord *record) {
        if (record->kind == SIDEBAND_MAPPING)
                stat_add(COUNTER_MAPPINGS_NOTICED, 1);
        else if (record->kind == SIDEBAND_LOST)
                stat_add(COUNTER_MAPPINGS_NOTICES_LOST, record->n_lost);
}

int sideband_drain(Sideband *sideband, SidebandVisit visit, void *userdata) {
        Ring *ring;
        int r = 0;

        for (size_t i = 0; i < sideband->n; i++) {
                ring = &sideband->rings[i];
                if (!ring->control)
                        continue;
                ring->end = __atomic_load_n(&ring->control->data_head, __ATOMIC_ACQUIRE);
                ring->at = ring->control->data_tail;
        }
        while (!r && (ring = oldest(sideband))) {
                count(&ring->record);
                r = visit(userdata, &ring->record);
                ring->has_record = false;
        }
        for (size_t i = 0; i < sideband->n; i++)
                if (sideband->rings[i].control)
                        __atomic_store_n(&sideband->rings[i].control->data_tail, sideband->rings[i].at,
                                         __ATOMIC_RELEASE);
        return r;
}

bool sideband_has_records(const Sideband *sideband) {
        for (size_t i = 0; i < sideband->n; i++) {
                const struct perf_event_mmap_page *control = sideband->rings[i].control;

                if (control && __atomic_load_n(&control->data_head, __ATOMIC_ACQUIRE) != control->data_tail)
                        return true;
        }
        return false;
}

int sideband_fd(const Sideband *sideband) {
        return sideband->fd;
}
