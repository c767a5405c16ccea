/* SPDX-License-Identifier: Apache-2.0 */

/* What this very process publishes, written down by hand as sdk/include/spanprof/ says. */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/util/clock.h"
#include "core/base/util/stat.h"
#include "host/sampling/context/publication.h"
#include "spanprof/process.h"
#include "spanprof/ring.h"
#include "stat-reset.h"

enum { RING_BYTES = 1 << 20, CAPACITY = 1024 };

static Process *self(void) {
        Process *process;

        stat_reset();
        cr_assert_eq(process_new(&process, getpid()), 0);
        return process;
}

static void write_ring(struct spanprof_ring_header *header) {
        header->capacity = CAPACITY;
        header->slot_size = SPANPROF_RING_SLOT_SIZE;
        header->version = SPANPROF_RING_VERSION;
        header->magic = SPANPROF_RING_MAGIC;
}

Test(publication, loses_a_ring_that_goes_wrong_and_takes_it_back) {
        void *memory = mmap(NULL, RING_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        _cleanup_(process_freep) Process *process = self();
        Publication publication = { 0 };

        write_ring(memory);
        publication_set_ring(&publication, (uintptr_t)memory, CAPACITY);
        publication_set_ring(&publication, (uintptr_t)memory, CAPACITY);
        cr_assert_eq(stat_get(COUNTER_RING_FOUND), 1, "the same ring is found once");
        cr_assert_eq(publication_check_ring(&publication, process), PUBLICATION_RING_SAME);

        ((struct spanprof_ring_header *)memory)->magic = 0;
        cr_assert_eq(publication_check_ring(&publication, process), PUBLICATION_RING_LOST);
        cr_assert_eq(publication.ring_address, 0);
        cr_assert_eq(publication_check_ring(&publication, process), PUBLICATION_RING_SAME);
        cr_assert_eq(stat_get(COUNTER_RING_LOST), 1);

        write_ring(memory);
        cr_assert_eq(publication_check_ring(&publication, process), PUBLICATION_RING_BACK);
        cr_assert_eq(publication.ring_address, (uintptr_t)memory);
        cr_assert_eq(publication.ring_capacity, CAPACITY);
        cr_assert_eq(stat_get(COUNTER_RING_FOUND), 2);
        munmap(memory, RING_BYTES);
}

/* Resource { service.name = "shop" }, by hand. */
static const char payload[] = "\x0a\x18\x0a\x16\x0a\x0cservice.name\x12\x06\x0a\x04shop";

static struct spanprof_process_header header_of(uint32_t version, uint64_t published_ns) {
        static char copy[sizeof(payload)];      /* memory that is present: no other is read */
        struct spanprof_process_header header = { .version = version,
                                                  .payload_size = sizeof(payload) - 1,
                                                  .published_ns = published_ns,
                                                  .payload = (uintptr_t)copy };

        memcpy(copy, payload, sizeof(payload));
        memcpy(header.signature, SPANPROF_PROCESS_SIGNATURE, sizeof(header.signature));
        return header;
}

Test(publication, follows_a_process_context_until_it_is_gone) {
        struct spanprof_process_header header = header_of(SPANPROF_PROCESS_VERSION, 1);
        _cleanup_(process_freep) Process *process = self();
        Publication publication = { .wants_context = true };
        bool is_changed = false;
        uint64_t serial;

        cr_assert_eq(publication_set_context(&publication, process, (uintptr_t)&header, &is_changed), 0);
        cr_assert(is_changed);
        cr_assert_not(publication.wants_context);
        cr_assert_eq(publication.context->n_attributes, 1);
        serial = publication.context->serial;
        is_changed = false;
        cr_assert_eq(publication_poll_context(&publication, process, &is_changed), 0);
        cr_assert_not(is_changed);
        cr_assert_eq(publication.context->serial, serial);

        header.published_ns = 2;
        cr_assert_eq(publication_poll_context(&publication, process, &is_changed), 0);
        cr_assert(is_changed);
        cr_assert_neq(publication.context->serial, serial);
        cr_assert_eq(stat_get(COUNTER_PROCESS_CONTEXTS_UPDATED), 1);

        is_changed = false;
        memset(header.signature, 0, sizeof(header.signature));
        cr_assert_eq(publication_poll_context(&publication, process, &is_changed), 0);
        cr_assert(is_changed);
        cr_assert_null(publication.context);
        cr_assert_eq(stat_get(COUNTER_PROCESS_CONTEXTS_LOST), 1);
        publication_deinit(&publication);
}

Test(publication, tells_once_of_a_context_that_it_cannot_read) {
        struct spanprof_process_header header = header_of(9, 1);
        _cleanup_(process_freep) Process *process = self();
        Publication publication = { 0 };
        bool is_changed = false;

        for (int i = 0; i < 3; i++)
                cr_assert_eq(publication_set_context(&publication, process, (uintptr_t)&header, &is_changed),
                             0);
        cr_assert_not(is_changed);
        cr_assert_null(publication.context);
        cr_assert_eq(stat_get(COUNTER_PROCESS_CONTEXTS_UNSUPPORTED), 1);
}

/* One that is being updated at each look is tried five times more, and then left. */
Test(publication, gives_up_a_context_that_is_always_being_updated) {
        struct spanprof_process_header header = header_of(SPANPROF_PROCESS_VERSION, 0);
        _cleanup_(process_freep) Process *process = self();
        Publication publication = { 0 };
        bool is_changed = false;
        unsigned n = 0;

        cr_assert_eq(publication_set_context(&publication, process, (uintptr_t)&header, &is_changed), 0);
        for (; publication.context_address && n < 20; n++)
                cr_assert_eq(publication_poll_context(&publication, process, &is_changed), 0);
        cr_assert_eq(n, 5);
        cr_assert_eq(stat_get(COUNTER_PROCESS_CONTEXTS_BUSY), 1);
        header.published_ns = 3;
        cr_assert_eq(publication_poll_context(&publication, process, &is_changed), 0);
        cr_assert_null(publication.context, "a search will meet it again");
}

Test(publication, looks_for_another_form_ever_less_often) {
        Publication publication = { .ring_address = 4096 };
        uint64_t now_ns = NS_PER_SEC;
        unsigned n = 0;

        for (unsigned s = 0; s < 100; s++, now_ns += NS_PER_SEC)
                n += publication_is_form_due(&publication, now_ns);
        cr_assert_eq(n, 8, "after 0, 1, 3, 7, 15, 31, 63 and 95 seconds");
        publication.ring_address = 0;
        cr_assert_not(publication_is_form_due(&publication, now_ns + 1000 * NS_PER_SEC), "it has no form");
}

Test(publication, counts_samples_from_before_it_knew_the_way) {
        Publication publication = { .waits_for_symbols = true };

        stat_reset();
        publication_count_early(&publication, 10);
        publication_count_early(&publication, 11);
        cr_assert_eq(publication.n_early, 2);
        cr_assert_eq(stat_get(COUNTER_CONTEXTS_EARLY), 0, "it is not known yet whether there is one");
        publication.waits_for_symbols = false;
        publication.threads_ns = 20;
        publication_count_early(&publication, 19);
        publication_count_early(&publication, 20);
        cr_assert_eq(stat_get(COUNTER_CONTEXTS_EARLY), 1);
}

Test(publication, may_differ_only_after_the_process_has_run) {
        Publication publication = { 0 };

        cr_assert(publication_may_differ(&publication, 5));
        cr_assert_not(publication_may_differ(&publication, 5));
        cr_assert(publication_may_differ(&publication, 6));
}
