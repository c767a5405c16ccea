/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A ring lies at the start of a mapping of its own, but the kernel joins
 * neighbours without names into one line of maps:
 *
 *     7f12c0000000-7f12c0801000 rw-p 00000000 00:00 0        ← malloc arena, ring at +0x600000, thread stack
 *
 * so every page start in private anonymous memory is a candidate. A process may
 * have reserved 64 GiB and touched little of it; reading an untouched page
 * leaves its RSS alone but builds page tables (8 GiB: 16 MiB of them), so
 * /proc/PID/pagemap is asked first. mmap hands out addresses downwards and joins
 * the new piece in front: most late rings lie at the start of a line, which is
 * why these are looked at first, and alone when time is short.
 *
 * Most of what it costs is a read for each page, of memory that is in no cache. A process that maps all the
 * time is searched again and again, so pages that were read before are left out (seen-pages.h). Memory that
 * was given back and mapped again between two searches looks as before. But a ring is seldom touched as a
 * whole, and what was there before was: where pages have gone, the page in front of them is read.
 *
 * A page may go between the look and the read; the target decides who fetches it then:
 * core/base/thread/bounded-call.h. Most processes are small, and a hand-over to the thread that makes such
 * calls takes longer than what is asked of them. So a search begins as one job of that thread, as far as it
 * gets with the first piece of maps and a share of the budget; who has more is searched on by the caller,
 * call by call:
 *
 *     caller ──Searcher──▶ thread: maps ─▶ pagemap of starts ─▶ headers ─▶ (pagemap, headers of all pages)
 *            ◀──────────── done, or maps go on, or its share is used up
 *                             └─ no answer: the thread keeps the Searcher, and nothing of it is used
 *
 * That is why a Searcher owns all that it works with: what the caller lends comes back at the end of a turn.
 */
#include "host/sampling/context/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/base/thread/bounded-call.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "core/base/util/stat.h"
#include "core/symbol/object/maps.h"
#include "host/sampling/context/process-context.h"
#include "host/sampling/context/ring-slots.h"
#include "host/sampling/process/memory.h"
#include "host/sampling/process/pagemap.h"
#include "host/sampling/process/process.h"
#include "spanprof/process.h"
#include "spanprof/ring.h"
#include "spanprof/station.h"

enum {
        BATCH = BOUNDED_MAX_ADDRESSES, /* headers, or entries of pagemap, in one go */
        /* pages of one region, where each costs: 64 GiB. A larger region was reserved, */
        MAX_PAGES = 1 << 24,
        /* … as sanitizers do 20 TiB for their shadow: its first GiB is searched, no more */
        RESERVED_PAGES = 1 << 18,
        MAX_STARTS = 65536,             /* more than vm.max_map_count lets a process have */
        RANGES = 256,                   /* present ranges an ioctl, */
        RANGE_PAGES = 16384,            /* … and pages in them: what a turn may read */
        SCAN_PAGES = 64,                /* larger regions are searched by the ioctl */
        /*
         * pages at least that pagemap is asked for at once: 20 ns each, where a call takes 900, and 9,000
         * with its hand-over to the thread that makes it;
         */
        LOOK_AHEAD = BATCH,
        LOOK_AHEAD_HERE = 16,           /* … where no hand-over is needed */
        /* entries of pagemap of the job that a search begins as, */
        JOB_ENTRIES = 16384,
        JOB_READS = 1024,               /* … and reads: 0.5 ms, far below its time limit */
        HEADER = sizeof(struct spanprof_ring_header),
        FREE_TEXT = 64 << 10,           /* bytes of maps: about 800 mappings */
        /* in the middle of a region this large a header needs a slot of a living thread, */
        LARGE_REGION = 96 << 20,
        LARGE_FACTOR = 16,              /* … if the region is so many times the ring */
        MAX_DOUBTS = 16,
};

/*
 * From include/uapi/linux/fs.h of Linux 6.7, which build machines may not have: lists the pages of a range
 * that are of the wanted categories, at the cost of those alone. Sanitizers reserve 20 TiB; asking for each
 * page would take minutes.
 */
struct page_region {
        uint64_t start, end, categories;
};

struct pm_scan_arg {
        uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
        uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};

#define PAGEMAP_SCAN_REQUEST _IOWR('f', 16, struct pm_scan_arg)
#define PAGE_CATEGORY_PRESENT (UINT64_C(1) << 3)

unsigned ring_header_faults(const void *bytes, uint64_t address, uint64_t region_end) {
        static const uint8_t zero[sizeof((struct spanprof_ring_header){ 0 }.reserved)];
        struct spanprof_ring_header header;
        unsigned faults = 0;
        uint64_t size;

        memcpy(&header, bytes, sizeof(header));
        size = sizeof(header) + (uint64_t)header.capacity * SPANPROF_RING_SLOT_SIZE;
        if (header.magic != SPANPROF_RING_MAGIC)
                faults |= RING_FAULT_MAGIC;
        if (header.version != SPANPROF_RING_VERSION)
                faults |= RING_FAULT_VERSION;
        if (header.capacity == 0 || header.capacity > SPANPROF_RING_MAX_CAPACITY)
                faults |= RING_FAULT_CAPACITY;
        if (header.slot_size != SPANPROF_RING_SLOT_SIZE)
                faults |= RING_FAULT_SLOT_SIZE;
        if (memcmp(header.reserved, zero, sizeof(zero)))
                faults |= RING_FAULT_RESERVED;
        if (address >= region_end || size > region_end - address)
                faults |= RING_FAULT_ROOM;
        return faults;
}

RingHeader ring_check_header(const void *bytes, uint64_t address, uint64_t region_end, uint32_t *capacityp) {
        struct spanprof_ring_header header;
        unsigned faults;

        memcpy(&header, bytes, sizeof(header));
        if (header.magic != SPANPROF_RING_MAGIC)
                return RING_HEADER_ABSENT;      /* most of all pages that are met */
        if (header.version == 0)
                return RING_HEADER_UNFINISHED;
        faults = ring_header_faults(bytes, address, region_end);
        if (faults)
                return RING_HEADER_INVALID;
        *capacityp = header.capacity;
        return RING_HEADER_VALID;
}

enum { RING_E_NO_SCAN = 100, RING_E_PAUSED };   /* beside those of the header */

typedef struct Candidate {
        uint64_t address, region_start, region_end;
        bool is_named;                  /* the name of its region says that it is a ring */
        bool is_shared;                 /* the start of a file that is mapped for all: stations, or nothing */
} Candidate;

/* Counters are the caller's thread's. */
typedef struct Counts {
        uint64_t pages_read, pages_known, invalid, foreign, malformed;
} Counts;

typedef struct RingSearcher {
        pid_t pid;
        bool is_quick;
        RingSearch search;              /* the caller's, without what is borrowed */
        RingBudget *budget;             /* points to one of the next three */
        RingBudget for_all, for_names, for_starts;
        Counts counts;                  /* counts of this turn */
        int proc_fd, pagemap_fd, maps_fd;
        uint64_t page_size;
        uint64_t found_address;         /* 0 = none */
        uint32_t found_capacity;
        bool starts_done, is_walking;   /* the next part of maps; whether its walk has begun */
        bool found_named;               /* in a region with a ring's name: that one goes before others */
        bool is_named, is_shared;       /* the region at hand, */
        uint64_t region_start;          /* … and where it begins */
        struct {
                uint64_t address;
                uint32_t capacity;
        } doubts[MAX_DOUBTS];           /* right headers that may be a guest's */
        unsigned n_doubts;
        SeenPages kept;                 /* the caller's during a turn, */
        bool keeps;                     /* … if there are any */
        SeenPages *seen;                /* pages seen, while all are searched; NULL = others, or none */
        uint64_t present_end;                  /* as far as pages are known to be there or not, */
        uint64_t present_region_end;       /* … and the region of the last one that is; 0 = unknown, */
        uint64_t present_region_start;
        unsigned n;                     /* candidates that wait for their bytes */
        Candidate candidates[BATCH];
        uint8_t headers[BATCH][HEADER];
        uint64_t entries[BATCH];        /* entries of pagemap, */
        uint64_t entries_start;         /* … from this address on */
        size_t n_entries;
        MapsReader reader;
} Searcher;

static Searcher *searcher_free(Searcher *searcher) {
        if (!searcher)
                return NULL;
        closep(&searcher->proc_fd);
        closep(&searcher->pagemap_fd);
        closep(&searcher->maps_fd);
        seen_pages_deinit(&searcher->kept);
        free(searcher);
        return NULL;
}
DEFINE_CLEANUP(Searcher, searcher_free)

void ring_search_stop(RingSearch *search) {
        search->paused = searcher_free(search->paused);
}

static int memory_condition(int error) {
        return error == EPERM || error == ETIMEDOUT ? RING_E_DENIED : RING_E_GONE;
}

/* The first of several contexts that looks right counts. */
static void note_context(RingSearch *search, const void *bytes, uint64_t address) {
        struct spanprof_process_header header;
        bool looks_right;

        memcpy(&header, bytes, sizeof(header));
        looks_right = !(process_header_faults(&header) & ~(unsigned)PROCESS_FAULT_TIME);
        if (search->context_looks_right || (search->context_address && !looks_right))
                return;
        search->context_address = address;
        search->context_looks_right = looks_right;
}

const char *ring_fault_text(unsigned fault) {
        switch (fault) {
        case RING_FAULT_VERSION:
                return "its version is not 1";
        case RING_FAULT_CAPACITY:
                return "its capacity is not 1 to 16777216";
        case RING_FAULT_SLOT_SIZE:
                return "its slot size is not 32";
        case RING_FAULT_RESERVED:
                return "its reserved bytes are not all zero";
        case RING_FAULT_ROOM:
                return "its slots do not fit its mapping";
        default:
                return NULL;
        }
}

/* Memory that begins with the magic number by chance has more than one field wrong. */
static void note_invalid(Searcher *searcher, unsigned i) {
        const Candidate *candidate = &searcher->candidates[i];
        unsigned faults = ring_header_faults(searcher->headers[i], candidate->address, candidate->region_end);

        if (!(faults & (faults - 1)))
                searcher->search.invalid_address = candidate->address;
        if (searcher->search.invalid_address == candidate->address)
                searcher->search.invalid_fault = faults;
}

static bool is_stations(const void *bytes) {
        struct {
                uint64_t magic;
                uint32_t version, max_stations;
        } header;

        _Static_assert(sizeof(header) <= HEADER, "is read with a candidate");
        memcpy(&header, bytes, sizeof(header));
        return header.magic == SPANPROF_STATION_MAGIC && header.version == SPANPROF_STATION_VERSION &&
                header.max_stations;
}

/* Magic numbers may be written last, so that the first word is what counts. */
static int note_seen(Searcher *searcher, unsigned i) {
        const uint8_t *header = searcher->headers[i];
        uint32_t word;

        memcpy(&word, header, sizeof(word));
        if (!searcher->seen || word == SPANPROF_RING_MAGIC ||
            !memcmp(header, SPANPROF_PROCESS_SIGNATURE, sizeof(word)))
                return 0;
        return seen_pages_add(searcher->seen, searcher->candidates[i].address / searcher->page_size, !word);
}

/*
 * In the middle of a region that is far larger than the ring: neighbours that the kernel has joined, or the
 * memory of a guest.
 */
static bool may_be_foreign(const Candidate *candidate, uint32_t capacity) {
        uint64_t size = candidate->region_end - candidate->region_start,
                 ring_size = HEADER + (uint64_t)capacity * SPANPROF_RING_SLOT_SIZE;

        return candidate->address != candidate->region_start && size >= LARGE_REGION &&
                size / LARGE_FACTOR >= ring_size;
}

static void take_ring(Searcher *searcher, const Candidate *candidate, uint32_t capacity) {
        if (!candidate->is_named && !ring_is_sound(searcher->pid, searcher->pagemap_fd, searcher->page_size,
                                                   candidate->address, capacity))
                searcher->counts.invalid++;
        else if (candidate->is_named || !may_be_foreign(candidate, capacity)) {
                searcher->found_named = candidate->is_named;
                searcher->found_address = candidate->address;
                searcher->found_capacity = capacity;
        } else if (searcher->n_doubts < MAX_DOUBTS) {
                searcher->doubts[searcher->n_doubts].address = candidate->address;
                searcher->doubts[searcher->n_doubts++].capacity = capacity;
        } else {
                searcher->search.foreign = true;
                searcher->counts.foreign++;
        }
}

static void judge(Searcher *searcher, unsigned i) {
        const Candidate *candidate = &searcher->candidates[i];
        uint32_t capacity;

        if (candidate->is_shared) {
                if (is_stations(searcher->headers[i]))
                        searcher->search.stations_address = candidate->address;
                return;
        }

        if (!memcmp(searcher->headers[i], SPANPROF_PROCESS_SIGNATURE, 8)) {
                note_context(&searcher->search, searcher->headers[i], candidate->address);
                return;
        }
        switch (ring_check_header(searcher->headers[i], candidate->address, candidate->region_end,
                                  &capacity)) {
        case RING_HEADER_VALID:
                if (!searcher->found_address || (candidate->is_named && !searcher->found_named))
                        take_ring(searcher, candidate, capacity);
                break;
        case RING_HEADER_UNFINISHED:
                searcher->search.unfinished = true;
                note_invalid(searcher, i);
                break;
        case RING_HEADER_INVALID:
                searcher->counts.invalid++;
                note_invalid(searcher, i);
                break;
        case RING_HEADER_ABSENT:
                break;
        }
}

/* Reads the headers of candidates @first … n - 1. *n_readp: how many came before one that cannot be read. */
static int read_headers(Searcher *searcher, unsigned first, unsigned *n_readp) {
        uint64_t addresses[BATCH];
        ssize_t n;

        for (unsigned i = first; i < searcher->n; i++)
                addresses[i - first] = searcher->candidates[i].address;
        n = bounded_read_memory(searcher->pid, addresses, searcher->n - first, HEADER,
                                searcher->headers[first]);
        if (n < 0 && n != -EFAULT)
                return memory_condition((int)-n);
        *n_readp = n < 0 ? 0 : (unsigned)n / HEADER;
        return 0;
}

/* Reads and judges all that wait; a page that went away meanwhile is passed over. */
static int flush(Searcher *searcher) {
        uint64_t begin_ns;
        unsigned at = 0, n;
        int r;

        if (!searcher->n)
                return 0;
        begin_ns = searcher->is_quick ? 0 : clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
        while (at < searcher->n) {
                r = read_headers(searcher, at, &n);
                if (r)
                        return r;
                for (unsigned i = at; i < at + n && !r; i++) {
                        judge(searcher, i);
                        r = note_seen(searcher, i);
                }
                if (r)
                        return r;
                at += n + 1;
        }
        if (!searcher->is_quick)
                searcher->budget->read_ns += clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - begin_ns;
        searcher->counts.pages_read += searcher->n;
        searcher->budget->n_reads -= MIN(searcher->budget->n_reads, (uint64_t)searcher->n);
        searcher->n = 0;
        return 0;
}

static int add_candidate(Searcher *searcher, uint64_t address, uint64_t region_start, uint64_t region_end) {
        searcher->candidates[searcher->n++] = (Candidate){ address, region_start, region_end,
                                                           searcher->is_named, searcher->is_shared };
        return searcher->n == BATCH ? flush(searcher) : 0;
}

/*
 * Reads the entries of up to BATCH pages from @address. The call is what costs: one covers small regions that
 * lie side by side, of which a process may have 65,530. *n_pagesp = 0: pagemap does not tell.
 */
static const uint64_t *read_pagemap(Searcher *searcher, uint64_t address, uint64_t end, size_t *n_pagesp) {
        size_t want = MIN((end - address) / searcher->page_size, (uint64_t)BATCH),
               ask = MAX(want, (size_t)(bounded_is_here() ? LOOK_AHEAD_HERE : LOOK_AHEAD));
        uint64_t at = (address - searcher->entries_start) / searcher->page_size;

        if (address < searcher->entries_start || at + want > searcher->n_entries) {
                searcher->entries_start = address;
                searcher->n_entries = pagemap_read(searcher->pid, searcher->pagemap_fd, address,
                                                   searcher->page_size, searcher->entries, ask);
                searcher->budget->n_entries -=
                        MIN(searcher->budget->n_entries, (uint64_t)MAX(want, (size_t)SCAN_PAGES));
                at = 0;
        }
        *n_pagesp = MIN(want, searcher->n_entries - at);
        return searcher->entries + at;
}

/* Nothing is present from the last present page to @end. */
static int skip_absent(Searcher *searcher, uint64_t end) {
        uint64_t page = searcher->present_end / searcher->page_size,
                 region_end = searcher->present_region_end,
                 before = searcher->present_end - searcher->page_size;

        if (!searcher->seen || searcher->present_end >= end)
                return 0;
        searcher->present_end = end;
        searcher->present_region_end = 0;
        if (!seen_pages_forget(searcher->seen, page, end / searcher->page_size) || !region_end ||
            (searcher->n && searcher->candidates[searcher->n - 1].address == before))
                return 0;
        seen_pages_forget(searcher->seen, page - 1, page);
        return add_candidate(searcher, before, searcher->present_region_start, region_end);
}

/* The present pages of [@start, @end), as far as they are not known. */
static int add_candidates(Searcher *searcher, uint64_t start, uint64_t end, uint64_t region_end) {
        uint64_t page = start / searcher->page_size, last = end / searcher->page_size, n = 0;
        int r = skip_absent(searcher, start);

        for (; !r && page < last; page++, n++) {
                page = searcher->seen ? seen_pages_next(searcher->seen, page, last) : page;
                if (page == last)
                        break;
                r = add_candidate(searcher, page * searcher->page_size, searcher->region_start, region_end);
        }
        searcher->counts.pages_known += last - start / searcher->page_size - n;
        searcher->present_end = end;
        searcher->present_region_end = region_end;
        searcher->present_region_start = searcher->region_start;
        return r;
}

/* Searches one piece by reading pagemap. *addressp moves on; it stays if pagemap does not tell. */
static int search_entries(Searcher *searcher, uint64_t *addressp, uint64_t end, uint64_t region_end) {
        uint64_t address = *addressp;
        size_t n_pages;
        const uint64_t *entries = read_pagemap(searcher, address, end, &n_pages);

        for (size_t i = 0, n; i < n_pages; i += n, address += n * searcher->page_size) {
                int r = 0;

                for (n = 0; i + n < n_pages && entries[i + n] & PAGEMAP_PRESENT; n++)
                        ;
                if (n)
                        r = add_candidates(searcher, address, address + n * searcher->page_size, region_end);
                if (r)
                        return r;
                n += !n;
        }
        *addressp = address;
        return 0;
}

typedef struct ScanJob {
        int fd;
        struct pm_scan_arg arg;
        struct page_region ranges[RANGES];
} ScanJob;

static ssize_t do_scan(void *data) {
        ScanJob *job = data;

        job->arg.vec = (uintptr_t)job->ranges;
        return ioctl(job->fd, PAGEMAP_SCAN_REQUEST, &job->arg);
}

/* Searches one piece by the ioctl. Return: also RING_E_NO_SCAN = this kernel has none. */
static int search_ranges(Searcher *searcher, uint64_t *addressp, uint64_t end, uint64_t region_end) {
        ScanJob job = {
                .fd = searcher->pagemap_fd,
                .arg = {
                        .size = sizeof(job.arg),
                        .start = *addressp,
                        .end = end,
                        .vec_len = RANGES,
                        .max_pages = MIN(searcher->budget->n_reads, (uint64_t)RANGE_PAGES),
                        .category_mask = PAGE_CATEGORY_PRESENT,
                        .return_mask = PAGE_CATEGORY_PRESENT,
                },
        };
        uint64_t n_pages = BATCH;
        ssize_t n;
        int r = bounded_run(searcher->pid, do_scan, &job, sizeof(job), &n);

        if (r)
                return r < 0 ? r : RING_E_DENIED;
        if (n < 0)
                return RING_E_NO_SCAN;
        for (ssize_t i = 0; i < n; i++) {
                r = add_candidates(searcher, job.ranges[i].start, job.ranges[i].end, region_end);
                if (r)
                        return r;
                n_pages += (job.ranges[i].end - job.ranges[i].start) / searcher->page_size;
        }
        searcher->budget->n_entries -= MIN(searcher->budget->n_entries, n_pages);
        *addressp = job.arg.walk_end;
        return 0;
}

/* The next piece of the range, by the better way that this kernel has. */
static int search_piece(Searcher *searcher, uint64_t *addressp, uint64_t end, uint64_t region_end) {
        if (!searcher->budget->by_entry && end - *addressp > SCAN_PAGES * searcher->page_size) {
                int r = search_ranges(searcher, addressp, end, region_end);

                if (r != RING_E_NO_SCAN)
                        return r;
                searcher->budget->by_entry = true;
        }
        return search_entries(searcher, addressp, end, region_end);
}

/* Collects the present pages of [@start, @end). Return: also RING_E_MORE, with search->next set. */
static int search_range(Searcher *searcher, uint64_t start, uint64_t end, uint64_t region_end) {
        uint64_t address = start;

        while (address < end) {
                uint64_t before = address;
                int r;

                if (!searcher->budget->n_entries || !searcher->budget->n_reads) {
                        searcher->search.next = address;
                        return RING_E_MORE;
                }
                r = search_piece(searcher, &address, end, region_end);
                if (r || address <= before)
                        return r;
        }
        return 0;
}

/* Walks over the regions. @visit gets those that may hold a ring, and ends the walk unless it returns 0. */
static int walk_regions(Searcher *searcher, int (*visit)(Searcher *, const MapsEntry *)) {
        MapsEntry entry;
        int r;

        if (!searcher->is_walking && !maps_reader_again(&searcher->reader)) {
                if (lseek(searcher->maps_fd, 0, SEEK_SET) < 0)
                        return RING_E_GONE;
                maps_reader_rewind(&searcher->reader);
        }
        searcher->is_walking = true;
        searcher->n_entries = 0;        /* a new look */
        for (;;) {
                r = maps_reader_next(&searcher->reader, &entry);
                if (r == MAPS_E_PAUSED)
                        return flush(searcher) ?: RING_E_PAUSED;
                if (r == MAPS_E_EOF) {
                        searcher->is_walking = false;
                        return flush(searcher);
                }
                if (r == MAPS_E_FAILED)
                        return RING_E_GONE;
                if (r == MAPS_E_MALFORMED) {
                        searcher->counts.malformed++;
                        continue;
                }
                r = visit(searcher, &entry);
                if (r)
                        return r;
        }
}

/* The page at its start, if it may hold anything that we look for. */
static int visit_start(Searcher *searcher, const MapsEntry *entry) {
        bool says_so;
        int r;

        searcher->region_start = entry->start;
        searcher->is_named = entry->readable && maps_has_name(entry, SPANPROF_RING_NAME);
        says_so = searcher->is_named || (entry->readable && maps_has_prefix(entry, SPANPROF_PROCESS_NAME));
        searcher->is_shared = !says_so && maps_is_stations(entry);
        says_so |= searcher->is_shared;
        searcher->budget = says_so ? &searcher->for_names : &searcher->for_starts;
        if (!says_so && (searcher->found_address || !maps_is_private_memory(entry)))
                return 0;
        r = search_range(searcher, entry->start, entry->start + searcher->page_size, entry->end);
        /* where there are too many starts, names are still looked at */
        return r == RING_E_MORE ? 0 : r;
}

static int visit_all(Searcher *searcher, const MapsEntry *entry) {
        uint64_t start = MAX(entry->start, searcher->search.next), end = entry->end;

        searcher->region_start = entry->start;
        if (searcher->budget->by_entry && end - entry->start > MAX_PAGES * searcher->page_size)
                end = entry->start + RESERVED_PAGES * searcher->page_size;
        if (searcher->found_address || !maps_is_private_memory(entry) || start >= end)
                return 0;
        return search_range(searcher, start, end, entry->end);
}

static int walk_starts(Searcher *searcher) {
        uint64_t next = searcher->search.next;
        int r = walk_regions(searcher, visit_start);

        searcher->is_named = searcher->is_shared = false;
        searcher->budget = &searcher->for_all;
        searcher->search.next = next;
        return r;
}

/*
 * The first pages of all regions are looked at in each search from the start: a ring that came meanwhile is
 * most likely there.
 */
static int search_process(Searcher *searcher) {
        int r = searcher->starts_done ? 0 : walk_starts(searcher);

        if (r)
                return r;
        searcher->starts_done = true;
        if (searcher->is_quick || searcher->found_address)
                return 0;
        if (!searcher->seen) {
                searcher->seen = searcher->keeps ? &searcher->kept : NULL;
                searcher->present_end = searcher->search.next;
        }
        r = walk_regions(searcher, visit_all);
        if (r == RING_E_MORE) {
                searcher->is_walking = false;   /* where it goes on is an address */
                return flush(searcher) ?: RING_E_MORE;
        }
        if (!r)
                r = skip_absent(searcher, UINT64_MAX);
        return r ? r : flush(searcher);
}

static int searcher_new(Searcher **searcherp, pid_t pid, uint64_t start_time_ns) {
        _cleanup_(searcher_freep) Searcher *searcher = malloc(sizeof(*searcher));
        int r;

        if (!searcher)
                return error_origin(-ENOMEM);
        memset(searcher, 0, offsetof(Searcher, candidates));
        searcher->pid = pid;
        searcher->page_size = (uint64_t)sysconf(_SC_PAGESIZE);
        searcher->proc_fd = searcher->pagemap_fd = searcher->maps_fd = -1;
        r = process_open_living(pid, start_time_ns, &searcher->proc_fd, &searcher->pid);
        if (r)
                return r == PROCESS_E_DENIED ? RING_E_DENIED : RING_E_GONE;
        searcher->pagemap_fd = openat(searcher->proc_fd, "pagemap", O_RDONLY | O_CLOEXEC);
        searcher->maps_fd = openat(searcher->proc_fd, "maps", O_RDONLY | O_CLOEXEC);
        if (searcher->pagemap_fd < 0 || searcher->maps_fd < 0)
                return errno == EACCES || errno == EPERM ? RING_E_DENIED : RING_E_GONE;
        searcher->for_names = searcher->for_starts = (RingBudget){ .n_entries = MAX_STARTS,
                                                                   .n_reads = MAX_STARTS };
        maps_reader_init(&searcher->reader, searcher->maps_fd);
        *searcherp = take(searcher);
        return 0;
}

/* ---- turns ---- */

/* Takes over what the caller lends. */
static void begin_turn(Searcher *searcher, bool quick, const RingSearch *search, const RingBudget *budget) {
        searcher->search = *search;
        searcher->search.paused = NULL;
        searcher->search.seen = NULL;
        searcher->keeps = search->seen;
        if (search->seen) {
                searcher->kept = *search->seen;
                *search->seen = (SeenPages){ 0 };
        }
        searcher->is_quick = quick;
        searcher->starts_done |= !quick && search->knows_starts;
        searcher->for_all = *budget;
        searcher->budget = &searcher->for_all;
        searcher->counts = (Counts){ 0 };
}

/* … and gives it back. */
static void end_turn(Searcher *searcher, RingSearch *search, RingBudget *budget) {
        SeenPages *seen = search->seen;

        *search = searcher->search;
        search->seen = seen;
        if (seen) {
                *seen = searcher->kept;
                searcher->kept = (SeenPages){ 0 };
        }
        *budget = searcher->for_all;
        stat_add(COUNTER_RING_PAGES_READ, searcher->counts.pages_read);
        stat_add(COUNTER_RING_PAGES_KNOWN, searcher->counts.pages_known);
        stat_add(COUNTER_RING_INVALID, searcher->counts.invalid);
        stat_add(COUNTER_RING_FOREIGN, searcher->counts.foreign);
        stat_add(COUNTER_MAPS_MALFORMED, searcher->counts.malformed);
}

/* Looks whose the rings in doubt are, unless there is one without. Return: 0, -ENOMEM. */
static int resolve_doubts(Searcher *searcher) {
        int r = 0;

        for (unsigned i = 0; i < searcher->n_doubts && !searcher->found_address && r >= 0; i++) {
                r = ring_has_living(searcher->pid, searcher->pagemap_fd, searcher->page_size,
                                    searcher->doubts[i].address, searcher->doubts[i].capacity);
                if (r > 0) {
                        searcher->found_address = searcher->doubts[i].address;
                        searcher->found_capacity = searcher->doubts[i].capacity;
                }
                searcher->search.foreign |= !r;
                searcher->counts.foreign += !r;
        }
        searcher->n_doubts = 0;
        return MIN(r, 0);
}

/* As far as the first piece of maps goes, and no further. */
static ssize_t search_here(void *data) {
        Searcher *searcher = data;
        RingBudget *budget = &searcher->for_all, rest = *budget;
        size_t no_text = 0;
        ssize_t r;

        budget->n_entries = MIN(rest.n_entries, (uint64_t)JOB_ENTRIES);
        budget->n_reads = MIN(rest.n_reads, (uint64_t)JOB_READS);
        rest.n_entries -= budget->n_entries;
        rest.n_reads -= budget->n_reads;
        maps_reader_begin_turn(&searcher->reader, 1, &no_text);
        r = search_process(searcher);
        budget->n_entries += rest.n_entries;
        budget->n_reads += rest.n_reads;
        return r;
}

static void drop_given_up(void *data) {
        searcher_free(data);
}

/* A search begins. Return: as search_process(); *searcherp is NULL if the process holds it up. */
static int search_in_job(Searcher **searcherp) {
        void *data = *searcherp;
        ssize_t result;
        int r = bounded_hand_over((*searcherp)->pid, search_here, drop_given_up, &data, &result);

        *searcherp = data;
        if (r)
                return r < 0 ? r : RING_E_DENIED;
        return (int)result;
}

static bool has_budget(const Searcher *searcher) {
        return searcher->for_all.n_entries && searcher->for_all.n_reads;
}

/* Searches what a job has left over, or an earlier turn. */
static int search_on(Searcher *searcher, size_t *text_leftp) {
        int r;

        maps_reader_begin_turn(&searcher->reader, FREE_TEXT, text_leftp);
        r = search_process(searcher);
        maps_reader_end_turn(&searcher->reader, text_leftp);
        return r;
}

/* process_vm_readv() goes by number: make sure that it was this process all along. */
static bool is_alive(const Searcher *searcher) {
        return faccessat(searcher->proc_fd, "stat", R_OK, 0) == 0;
}

int ring_find(pid_t pid, uint64_t start_time_ns, bool quick, RingSearch *search, RingBudget *budget,
              uint64_t *addressp, uint32_t *capacityp) {
        _cleanup_(searcher_freep) Searcher *searcher = take(search->paused);
        bool begins = !searcher;
        int r = begins ? searcher_new(&searcher, pid, start_time_ns) : 0, q;

        if (r)
                return r;
        begin_turn(searcher, quick, search, budget);
        if (begins)
                r = search_in_job(&searcher);
        if (!searcher)
                return r;
        if (!begins || r == RING_E_PAUSED || (r == RING_E_MORE && has_budget(searcher)))
                r = search_on(searcher, budget->text_leftp);
        q = resolve_doubts(searcher);
        end_turn(searcher, search, budget);
        if (q)
                return q;
        if (!is_alive(searcher))
                return RING_E_GONE;
        if (r == RING_E_PAUSED) {
                stat_add(COUNTER_MAPS_PAUSED, 1);
                search->paused = take(searcher);
                return RING_E_MORE;
        }
        if (searcher->found_address) {
                *addressp = searcher->found_address;
                *capacityp = searcher->found_capacity;
                *search = (RingSearch){ .context_address = search->context_address,
                                        .invalid_address = search->invalid_address,
                                        .invalid_fault = search->invalid_fault,
                                        .stations_address = search->stations_address,
                                        .seen = search->seen };
                return 0;
        }
        if (r)
                return r;
        r = search->unfinished ? RING_E_UNFINISHED : search->foreign ? RING_E_FOREIGN : RING_E_NONE;
        stat_add(COUNTER_RING_SCANS, !quick);
        *search = (RingSearch){ .context_address = search->context_address,
                                .invalid_address = search->invalid_address,
                                .invalid_fault = search->invalid_fault,
                                .stations_address = search->stations_address,
                                .seen = search->seen };
        return r;
}

int ring_check(pid_t pid, uint64_t address, uint32_t capacity) {
        uint8_t bytes[HEADER];
        uint32_t capacity_now;
        int r = memory_read(pid, address, bytes, sizeof(bytes));

        if (r)
                return r == MEMORY_E_GONE ? RING_E_GONE : RING_E_NONE;
        /* The end of its region is not asked again: the kernel half checks each slot that it reads. */
        if (ring_check_header(bytes, address, UINT64_MAX, &capacity_now) != RING_HEADER_VALID ||
            capacity_now != capacity)
                return RING_E_NONE;
        return 0;
}
