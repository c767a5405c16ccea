/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads slots evenly spread over the pages of a ring that are present: a guest's memory has its pages in any
 * order, so that behind the first page of a ring there lies something else, whose bytes are no slots. Where a
 * guest has huge pages its whole ring may lie in one piece. Then the slots are those of the guest's threads,
 * and none belongs to a thread of the process.
 */

#include "host/sampling/context/ring-slots.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "host/sampling/context/adopt.h"
#include "host/sampling/process/pagemap.h"
#include "spanprof/ring.h"

enum {
        SLOT = sizeof(struct spanprof_ring_slot),
        HEADER = sizeof(struct spanprof_ring_header),
        N_SLOTS = BOUNDED_MAX_ADDRESSES,        /* slots, or threads, that are looked at; 15 µs a thread */
        N_PAGES = 512,                          /* pages of a ring of the usual size */
};

bool ring_slots_are_sound(const void *slots, size_t n) {
        for (size_t i = 0; i < n; i++) {
                struct spanprof_ring_slot slot;

                memcpy(&slot, (const uint8_t *)slots + i * SLOT, SLOT);
                if (slot.in_use > 1)
                        return false;
        }
        return true;
}

typedef struct Slots {
        uint64_t entries[N_PAGES];
        uint64_t addresses[N_SLOTS];
        size_t n;
        uint8_t bytes[N_SLOTS][SLOT];
} Slots;

/* Slots of present pages, so many apart that all pages are asked for some. */
static void choose(Slots *slots, size_t n_pages, uint64_t page_size, uint64_t address, uint64_t end) {
        size_t n_present = 0, apart;

        for (size_t i = 0; i < n_pages; i++)
                n_present += slots->entries[i] & PAGEMAP_PRESENT ? 1 : 0;
        apart = MAX(n_present * (page_size / SLOT) / N_SLOTS, (size_t)1);
        for (size_t i = 0, number = 0; i < n_pages; i++) {
                uint64_t page = (address & -page_size) + i * page_size;

                if (!(slots->entries[i] & PAGEMAP_PRESENT))
                        continue;
                for (uint64_t at = page; at < page + page_size; at += SLOT)
                        if (at >= address + HEADER && at + SLOT <= end && number++ % apart == 0 &&
                            slots->n < N_SLOTS)
                                slots->addresses[slots->n++] = at;
        }
}

/* Return: how many of the chosen slots were read, up to the first that could not be. */
static size_t read_slots(Slots *slots, pid_t pid) {
        ssize_t n = slots->n ? bounded_read_memory(pid, slots->addresses, slots->n, SLOT, slots->bytes) : 0;

        return n < 0 ? 0 : (size_t)n / SLOT;
}

bool ring_is_sound(pid_t pid, int pagemap_fd, uint64_t page_size, uint64_t address, uint32_t capacity) {
        _cleanup_(freep) Slots *slots = malloc(sizeof(*slots));
        uint64_t end = address + HEADER + (uint64_t)capacity * SLOT;
        size_t n_pages = MIN((end - (address & -page_size) + page_size - 1) / page_size, (uint64_t)N_PAGES);

        if (!slots)
                return true;
        slots->n = 0;
        n_pages = pagemap_read(pid, pagemap_fd, address, page_size, slots->entries, n_pages);
        choose(slots, n_pages, page_size, address, end);
        return ring_slots_are_sound(slots->bytes, read_slots(slots, pid));
}

typedef struct Living {
        Slots *slots;
        pid_t pid;
        int pagemap_fd;
        uint64_t page_size, address;
} Living;

static bool has_span(const Slots *slots, size_t n) {
        for (size_t i = 0; i < n; i++) {
                struct spanprof_ring_slot slot;

                memcpy(&slot, slots->bytes[i], SLOT);
                if (slot.in_use <= 1 && slot.span_id)
                        return true;
        }
        return false;
}

static int add_living(void *userdata, const struct abi_adoption *adoption) {
        Living *living = userdata;

        uint64_t address = living->address + HEADER + (uint64_t)adoption->slot * SLOT, entry;

        if (adoption->slot != ABI_ADOPTION_GONE &&
            pagemap_read(living->pid, living->pagemap_fd, address, living->page_size, &entry, 1) &&
            entry & PAGEMAP_PRESENT)
                living->slots->addresses[living->slots->n++] = address;
        return living->slots->n == N_SLOTS;
}

int ring_has_living(pid_t pid, int pagemap_fd, uint64_t page_size, uint64_t address, uint32_t capacity) {
        _cleanup_(freep) Slots *slots = malloc(sizeof(*slots));
        Living living = { slots, pid, pagemap_fd, page_size, address };

        if (!slots)
                return error_origin(-ENOMEM);
        slots->n = 0;
        adopt_threads((uint32_t)pid, capacity, add_living, &living);
        return has_span(slots, read_slots(slots, pid));
}
