/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdlib.h>

#include "core/base/util/macro.h"
#include "core/symbol/jit/jitdump.h"
#include "jitdump-maker.h"

#define MAGIC 0x4A695444

static Jitdump *jitdump;
static Text dump, ranges;

static void init(void) {
        jitdump = calloc(1, sizeof(*jitdump));
        dump = ranges = (Text){ 0 };
}

static void fini(void) {
        jitdump_deinit(jitdump);
        free(jitdump);
        text_deinit(&dump);
        text_deinit(&ranges);
}
TestSuite(jitdump, .init = init, .fini = fini);

static int print_range(void *userdata, const CodeRange *range) {
        text_printf(&ranges, "%" PRIu64 ": %" PRIx64 "+%" PRIx64 " %.*s\n", range->time_ns, range->start,
                    range->size, (int)range->name_size, range->name);
        return 0;
}

static void assert_read(int expected_end, const char *expected) {
        cr_assert_eq(jitdump_feed(jitdump, dump.data, dump.size, print_range, NULL), expected_end);
        cr_assert_str_eq(ranges.data ? ranges.data : "", expected);
}

Test(jitdump, reads_loads_moves_and_the_end) {
        dump_header(&dump, MAGIC, 1, 40, 0);
        dump_load(&dump, 2000, 0x1000, 0x40, 1, "first");
        dump_prefix(&dump, 2, 16 + 32, 2100);           /* line numbers */
        text_append(&dump, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"
                           "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 32);
        dump_load(&dump, 3000, 0x2000, 0x10, 2, "second");
        dump_move(&dump, 4000, 0x1000, 0x3000, 0x40, 1);
        dump_move(&dump, 5000, 0x3000, 0x5000, 0x40, 1);
        dump_prefix(&dump, 3, 16, 6000);
        dump_load(&dump, 7000, 0x9000, 0x10, 3, "after the end");
        assert_read(JITDUMP_E_CLOSED,
                    "2000: 1000+40 first\n3000: 2000+10 second\n4000: 3000+40 first\n5000: 5000+40 first\n");
        cr_assert_eq(jitdump->n_records, 6);
        cr_assert_eq(jitdump->n_malformed, 0);
        cr_assert_eq(jitdump_feed(jitdump, "more", 4, print_range, NULL), JITDUMP_E_CLOSED);
}

Test(jitdump, takes_no_time_of_the_processors_own_clock) {
        dump_header(&dump, MAGIC, 1, 40, 1);
        dump_load(&dump, 987654321, 0x1000, 0x40, 1, "first");
        assert_read(0, "0: 1000+40 first\n");
}

Test(jitdump, passes_over_a_header_that_is_longer) {
        dump_header(&dump, MAGIC, 1, 56, 0);
        dump_load(&dump, 1, 0x1000, 0x40, 1, "first");
        assert_read(0, "1: 1000+40 first\n");
}

Test(jitdump, refuses_other_byte_orders_versions_and_sizes) {
        static const uint32_t headers[][3] = {
                { 0x4454694A, 1, 40 }, { 0, 1, 40 },     { MAGIC, 2, 40 },
                { MAGIC, 0, 40 },      { MAGIC, 1, 39 }, { MAGIC, 1, 1 << 20 },
        };

        for (size_t i = 0; i < ARRAY_SIZE(headers); i++) {
                jitdump_deinit(jitdump);
                text_deinit(&dump);
                dump_header(&dump, headers[i][0], headers[i][1], headers[i][2] > 4096 ? 40 : headers[i][2],
                            0);
                memcpy(dump.data + 8, &headers[i][2], 4);
                dump_load(&dump, 1, 0x1000, 0x40, 1, "first");
                assert_read(JITDUMP_E_BROKEN, "");
                cr_assert_eq(jitdump->n_malformed, 1);
        }
}

Test(jitdump, passes_over_a_record_that_contradicts_itself) {
        size_t at;

        dump_header(&dump, MAGIC, 1, 40, 0);
        at = dump.size;
        dump_load(&dump, 1, 0x1000, 0x40, 1, "says more code than there is");
        memcpy(dump.data + at + 40, &(uint64_t){ 0x41 }, 8);
        dump_load(&dump, 1, UINT64_MAX - 0x10, 0x40, 2, "beyond the end");
        dump_load(&dump, 1, 0x1000, 0, 3, "empty");
        dump_load(&dump, 1, 0x1000, 0x40, 4, "");
        dump_prefix(&dump, 0, 20, 1);                   /* too short for a load */
        dump_u32(&dump, 0);
        dump_move(&dump, 1, 0x1000, 0x2000, 0x40, 77);  /* of nothing that is known */
        dump_load(&dump, 9, 0x5000, 0x40, 5, "good");
        dump_move(&dump, 10, 0x5001, 0x2000, 0x40, 5);  /* from where it is not */
        assert_read(0, "9: 5000+40 good\n");
        cr_assert_eq(jitdump->n_records, 8);
        cr_assert_eq(jitdump->n_malformed, 7);
}

Test(jitdump, ends_at_a_size_that_cannot_be) {
        dump_header(&dump, MAGIC, 1, 40, 0);
        dump_prefix(&dump, 2, 15, 1);
        dump_load(&dump, 1, 0x1000, 0x40, 1, "first");
        assert_read(JITDUMP_E_BROKEN, "");
        cr_assert_eq(jitdump->n_malformed, 1);
}

Test(jitdump, cuts_a_name_of_a_megabyte) {
        char *name = malloc((1 << 20) + 1);
        const char *newline;

        memset(name, 'x', 1 << 20);
        name[1 << 20] = 0;
        dump_header(&dump, MAGIC, 1, 40, 0);
        dump_load(&dump, 1, 0x1000, 0x40, 1, name);
        dump_load(&dump, 2, 0x2000, 0x40, 2, "next");
        cr_assert_eq(jitdump_feed(jitdump, dump.data, dump.size, print_range, NULL), 0);
        newline = strchr(ranges.data, '\n');
        cr_assert_eq((size_t)(newline - ranges.data), strlen("1: 1000+40 ") + CODE_MAX_NAME);
        cr_assert_str_eq(newline + 1, "2: 2000+40 next\n");
        free(name);
}

/* As from a file: in pieces of every size, and without the bytes that need not be read. */
Test(jitdump, does_not_care_where_it_is_cut) {
        dump_header(&dump, MAGIC, 1, 48, 0);
        dump_load(&dump, 1, 0x1000, 0x140, 1, "first");
        dump_prefix(&dump, 4, 16 + 8, 1);
        dump_u64(&dump, 0);
        dump_move(&dump, 2, 0x1000, 0x2000, 0x140, 1);
        for (size_t piece = 1; piece < 80; piece++) {
                size_t n_fed = 0;

                jitdump_deinit(jitdump);
                text_deinit(&ranges);
                for (uint64_t at = 0; at < dump.size; at += jitdump_skip(&jitdump->reader)) {
                        size_t n = MIN(piece, dump.size - at);

                        cr_assert_eq(jitdump_feed(jitdump, dump.data + at, n, print_range, NULL), 0);
                        n_fed += n;
                        at += n;
                }
                cr_assert_str_eq(ranges.data, "1: 1000+140 first\n2: 2000+140 first\n", "pieces of %zu",
                                 piece);
                cr_assert(n_fed <= dump.size - 0x140 + 80, "the code was fed too: %zu of %zu", n_fed,
                          dump.size);
        }
}
