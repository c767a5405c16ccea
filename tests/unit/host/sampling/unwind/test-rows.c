/* SPDX-License-Identifier: Apache-2.0 */

/* The packed form, read back by hand as bpf/border/unwind_abi.h describes it. */

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "host/sampling/unwind/tables/rows.h"

enum {
        LOW = 0x7000,
        PAGE = UNWIND_PAGE_SIZE,
        N_PAGES = 1100,                 /* three blocks of directory */
        FIRST_RECORD = 3,
};

static Rows rows;

static uint64_t rule_of(uint32_t i) {
        return unwind_rule(UNWIND_CFA_RSP, (int32_t)(8 * i + 8), 0, 0, 0);
}

static void setup(void) {
        cr_assert_eq(rows_init(&rows, LOW, LOW + (uint64_t)N_PAGES * PAGE, 4 << 20), 0);
}

static void teardown(void) {
        rows_deinit(&rows);
}

static void add(uint64_t offset, uint64_t rule) {
        cr_assert_eq(rows_add(&rows, LOW + offset, rule), 0);
}

static uint64_t word_of(uint32_t page) {
        uint64_t word;

        memcpy(&word, rows.data + 8 * page, 8);
        return word;
}

/* Row @i of a page: key and rule. */
static void get(uint32_t page, uint32_t i, uint16_t *keyp, uint64_t *rulep) {
        uint64_t word = word_of(page);
        const uint8_t *block = rows.data + (size_t)unwind_word_block(word) * UNWIND_BLOCK_SIZE;
        const uint8_t *record = block + unwind_word_offset(word);
        uint32_t n = unwind_word_rows(word);

        cr_assert_lt(i, n);
        cr_assert_geq(unwind_word_block(word), FIRST_RECORD);
        cr_assert_lt(unwind_word_block(word), rows.n_blocks);
        cr_assert_leq(unwind_word_offset(word) + 3 * n, UNWIND_BLOCK_SIZE);
        cr_assert_eq(unwind_word_offset(word) % 2, 0);
        memcpy(keyp, record + 2 * i, 2);
        memcpy(rulep, block + UNWIND_BLOCK_SIZE - 8 * (record[2 * n + i] + 1), 8);
}

static void expect(uint32_t page, uint32_t i, uint16_t key, uint64_t rule) {
        uint16_t found_key;
        uint64_t found;

        get(page, i, &found_key, &found);
        cr_expect_eq(found_key, key, "page %u row %u: key %u", page, i, found_key);
        cr_expect_eq(found, rule, "page %u row %u", page, i);
}

TestSuite(rows, .init = setup, .fini = teardown);

Test(rows, of_a_page_begin_with_what_is_in_force_at_its_start) {
        add(0x10, rule_of(1));
        add(0x20, rule_of(2));
        cr_assert_eq(rows_finish(&rows, LOW + 0x30), 0);
        cr_assert_eq(unwind_word_rows(word_of(0)), 4);
        expect(0, 0, 0, 0);
        expect(0, 1, 0x10, rule_of(1));
        expect(0, 2, 0x20, rule_of(2));
        expect(0, 3, 0x30, 0);
        cr_assert_eq(word_of(1), 0);
        cr_assert_eq(rows.n_blocks, FIRST_RECORD + 1);
}

Test(rows, that_change_nothing_are_merged) {
        add(0, rule_of(1));
        add(8, rule_of(1));
        add(16, rule_of(2));
        add(16, rule_of(1));
        add(24, rule_of(1));
        cr_assert_eq(rows_finish(&rows, LOW + PAGE), 0);
        cr_assert_eq(unwind_word_rows(word_of(0)), 1);
        expect(0, 0, 0, rule_of(1));
}

Test(rows, go_on_over_whole_pages_that_share_one_record) {
        add(0x100, rule_of(1));
        add(700 * PAGE + 4, rule_of(2));
        cr_assert_eq(rows_finish(&rows, LOW + (uint64_t)N_PAGES * PAGE), 0);
        for (uint32_t page = 1; page < 700; page++) {
                cr_assert_eq(word_of(page), word_of(1));
                cr_assert_eq(unwind_word_rows(word_of(page)), 1);
        }
        expect(1, 0, 0, rule_of(1));
        cr_assert_eq(unwind_word_rows(word_of(700)), 2);
        expect(700, 1, 4, rule_of(2));
        expect(N_PAGES - 1, 0, 0, rule_of(2));
        cr_assert_eq(rows.n_blocks, FIRST_RECORD + 1);
}

Test(rows, at_the_very_end_of_the_text_are_kept) {
        add((uint64_t)N_PAGES * PAGE - 1, rule_of(1));
        cr_assert_eq(rows_finish(&rows, LOW + (uint64_t)N_PAGES * PAGE), 0);
        expect(N_PAGES - 1, 0, 0, 0);
        expect(N_PAGES - 1, 1, PAGE - 1, rule_of(1));
}

Test(rows, start_a_new_block_when_it_has_255_rules) {
        for (uint32_t i = 0; i < 300; i++)
                add((uint64_t)i * PAGE, rule_of(i));
        cr_assert_eq(rows_finish(&rows, LOW + 300 * PAGE), 0);
        for (uint32_t i = 0; i < 300; i++)
                expect(i, 0, 0, rule_of(i));
        cr_assert_eq(unwind_word_block(word_of(254)), FIRST_RECORD);
        cr_assert_eq(unwind_word_block(word_of(255)), FIRST_RECORD + 1);
}

Test(rows, fill_a_block_to_its_last_byte) {
        /* One page with 1,360 rows of two rules: 4,080 + 16 bytes. */
        for (uint32_t i = 0; i < 1360; i++)
                add(2 * i, rule_of(i % 2));
        cr_assert_eq(rows_finish(&rows, LOW + PAGE), 0);
        cr_assert_eq(rows.n_dense, 0);
        cr_assert_eq(unwind_word_rows(word_of(0)), 1360);
        expect(0, 1359, 2718, rule_of(1));
}

Test(rows, of_a_page_that_fits_no_block_say_so) {
        for (uint32_t i = 0; i < 1400; i++)
                add(2 * i, rule_of(i % 2));
        add(PAGE + 5, rule_of(7));
        for (uint32_t i = 0; i < 600; i++)
                add(2 * PAGE + 2 * i, rule_of(i));
        cr_assert_eq(rows_finish(&rows, LOW + 3 * PAGE), 0);
        cr_assert_eq(rows.n_dense, 2);
        cr_assert_eq(unwind_word_rows(word_of(0)), 1);
        expect(0, 0, 0, unwind_rule(UNWIND_CFA_BAD, 0, 0, 0, 0));
        expect(1, 0, 0, rule_of(1));
        expect(1, 1, 5, rule_of(7));
        expect(2, 0, 0, unwind_rule(UNWIND_CFA_BAD, 0, 0, 0, 0));
}

Test(rows, end_at_the_cap) {
        int r = 0;

        rows_deinit(&rows);
        cr_assert_eq(rows_init(&rows, LOW, LOW + (uint64_t)N_PAGES * PAGE, 5 * UNWIND_BLOCK_SIZE), 0);
        for (uint32_t i = 0; !r && i < 1000; i++)
                r = rows_add(&rows, LOW + (uint64_t)i * PAGE, rule_of(i));
        cr_assert_eq(r, ROWS_E_TOO_LARGE);
        cr_assert_eq(rows.n_blocks, 5);
        rows_deinit(&rows);
        cr_assert_eq(rows_init(&rows, LOW, LOW + (uint64_t)N_PAGES * PAGE, 2 * UNWIND_BLOCK_SIZE),
                     ROWS_E_TOO_LARGE);
}

/* Random rows, each looked up again by a plain list of what was added. */
Test(rows, are_found_again) {
        enum { N = 20000 };
        static struct { uint64_t offset, rule; } added[N];
        uint64_t offset = 0, previous = 0;
        uint32_t n = 0;

        srandom(1);
        for (uint32_t i = 0; i < N && offset < (uint64_t)(N_PAGES - 1) * PAGE; i++) {
                uint64_t rule = rule_of((uint32_t)random() % 40);

                add(offset, rule);
                added[n].offset = offset;
                added[n++].rule = rule;
                offset += (uint64_t)(random() % 100 ? 1 + random() % 300 : random() % (3 * PAGE));
        }
        cr_assert_eq(rows_finish(&rows, LOW + (uint64_t)N_PAGES * PAGE), 0);
        offset = 0;
        for (uint32_t page = 0; page < N_PAGES; page++) {
                for (uint32_t i = 0; i < unwind_word_rows(word_of(page)); i++) {
                        uint16_t key;
                        uint64_t rule;

                        get(page, i, &key, &rule);
                        while (offset + 1 < n && added[offset + 1].offset <= (uint64_t)page * PAGE + key)
                                offset++;
                        cr_assert_eq(rule, added[offset].rule, "page %u key %u", page, key);
                        cr_assert(i == 0 || rule != previous, "a row that changes nothing");
                        previous = rule;
                }
        }
        cr_assert_eq(offset, n - 1);
}
