/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Lines and inlined calls of one function by hand, as Go 1.20 and Go 1.18 write them. Real
 * programs: test-go.py.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "core/base/elf/go-lines.h"
#include "core/base/elf/go-values.h"

enum { NAMES = 0x48, UNITS = 0x80, FILES = 0x88, VALUES = 0xa0, FUNCTIONS = 0x100, SIZE = 0x200 };
enum { RECORD = 0x20 };                 /* in the functions */
enum { TEXT = 0x10000, FILE_STREAM = 1, LINE_STREAM = 4, CALL_STREAM = 11, CIRCLE = 128 };

static char data[SIZE], trees[64];
static GoLines lines;

static void put32(char *to, uint32_t value) {
        memcpy(to, &value, sizeof(value));
}

static void put64(char *to, uint64_t value) {
        memcpy(to, &value, sizeof(value));
}

static void make(bool is_new) {
        static const uint64_t parts[] = { NAMES, UNITS, FILES, VALUES, FUNCTIONS };
        static const uint32_t offsets[] = { 0, 0, CALL_STREAM, UINT32_MAX, UINT32_MAX, UINT32_MAX, 16 };
        char *record = data + FUNCTIONS + RECORD, *rest = record + (is_new ? 40 : 36);

        memset(data, 0, sizeof(data));
        memset(trees, 0, sizeof(trees));
        memcpy(data, is_new ? "\xf1\xff\xff\xff\0\0\1\x8" : "\xf0\xff\xff\xff\0\0\1\x8", 8);
        put64(data + 8, 1);
        for (unsigned i = 0; i < GO_N_PARTS; i++)
                put64(data + 32 + 8 * i, parts[i]);
        memcpy(data + NAMES, "main.main\0main.outer\0main.inner", 32);
        put32(data + UNITS + 4, 6);                     /* the second file of the table */
        memcpy(data + FILES, "/a.go\0/b.go", 12);
        memcpy(data + VALUES + FILE_STREAM, "\x02\x20", 3);
        /* lines 5, 7, 9 for 8 bytes each; calls: none, 0, 1 */
        memcpy(data + VALUES + LINE_STREAM, "\x0c\x08\x04\x08\x04\x08", 7);
        memcpy(data + VALUES + CALL_STREAM, "\x00\x08\x02\x08\x02\x08", 7);
        put32(data + FUNCTIONS + 4, RECORD);
        put32(data + FUNCTIONS + 8, 0x20);
        put32(record + 20, FILE_STREAM);
        put32(record + 24, LINE_STREAM);
        put32(record + 28, 3);
        put32(record + 32, 1);
        if (is_new)
                put32(record + 36, 3);
        rest[3] = 4;
        for (unsigned i = 0; i < ARRAY_SIZE(offsets); i++)
                put32(rest + 4 + 4 * i, offsets[i]);
        for (unsigned i = 0; i < 2; i++) {
                char *entry = trees + 16 + i * (is_new ? 16 : 20);

                put32(entry + (is_new ? 4 : 12), i ? 21 : 10);
                put32(entry + (is_new ? 8 : 16), i ? 9 : 2);
                if (is_new)
                        put32(entry + 12, i ? 8 : 6);
        }
        cr_assert(go_table_init(&lines.functions.table, data, sizeof(data)));
        lines.functions.text = TEXT;
        lines.trees = (ImageBytes){ .data = trees, .size = sizeof(trees) };
}

static void expect(const GoLine *line, const char *name, uint32_t number, uint32_t start) {
        cr_assert_eq(line->n_name, strlen(name));
        cr_assert_eq(memcmp(line->name, name, line->n_name), 0);
        cr_assert_eq(line->n_file, 5);
        cr_assert_eq(memcmp(line->file, "/b.go", 5), 0);
        cr_assert_eq(line->line, number, "%s: %u", name, line->line);
        cr_assert_eq(line->start_line, start);
}

Test(go_lines, follow_inlined_calls_to_the_function_itself) {
        GoLine frames[8];

        for (int is_new = 0; is_new < 2; is_new++) {
                make(is_new);
                cr_assert_eq(go_lines_find(&lines, TEXT + 1, frames, 8), 1);
                expect(&frames[0], "main.main", 5, is_new ? 3 : 0);
                cr_assert_eq(go_lines_find(&lines, TEXT + 20, frames, 8), 3);
                expect(&frames[0], "main.inner", 9, is_new ? 8 : 0);
                expect(&frames[1], "main.outer", 7, is_new ? 6 : 0);
                expect(&frames[2], "main.main", 5, is_new ? 3 : 0);
        }
}

Test(go_lines, keep_the_outermost_where_there_is_little_room) {
        GoLine frames[2];

        make(true);
        cr_assert_eq(go_lines_find(&lines, TEXT + 20, frames, 2), 2);
        expect(&frames[0], "main.inner", 9, 8);
        expect(&frames[1], "main.main", 5, 3);
        cr_assert_eq(go_lines_find(&lines, TEXT + 20, frames, 1), 1);
        expect(&frames[0], "main.main", 5, 3);
        cr_assert_eq(go_lines_find(&lines, TEXT + 20, frames, 0), 0);
}

Test(go_lines, know_nothing_outside) {
        GoLine frames[8];

        make(true);
        cr_assert_eq(go_lines_find(&lines, TEXT - 1, frames, 8), 0);
        cr_assert_eq(go_lines_find(&lines, TEXT + 0x20, frames, 8), 0);
        cr_assert_eq(go_lines_find(&lines, UINT64_MAX, frames, 8), 0);
}

Test(go_lines, end_in_a_damaged_tree) {
        GoLine frames[CIRCLE];

        make(true);
        put32(trees + 32 + 8, 20);                      /* inlined into itself */
        cr_assert_eq(go_lines_find(&lines, TEXT + 20, frames, CIRCLE), 2);
        put32(trees + 32 + 8, 0x20);                    /* called from outside of the function */
        cr_assert_eq(go_lines_find(&lines, TEXT + 20, frames, CIRCLE), 1);
        make(true);
        lines.trees.size = 40;                          /* the second entry is cut */
        cr_assert_eq(go_lines_find(&lines, TEXT + 20, frames, CIRCLE), 1);
        make(true);
        put32(trees + 32 + 4, UNITS - NAMES);           /* no name: the frame is left out */
        cr_assert_eq(go_lines_find(&lines, TEXT + 20, frames, CIRCLE), 2);
}

Test(go_lines, say_no_file_that_is_not_there) {
        GoLine frames[8];

        make(true);
        put32(data + UNITS + 4, VALUES - FILES);
        cr_assert_eq(go_lines_find(&lines, TEXT, frames, 8), 1);
        cr_assert_eq(frames[0].n_file, 0);
        put32(data + FUNCTIONS + RECORD + 32, UINT32_MAX);
        cr_assert_eq(go_lines_find(&lines, TEXT, frames, 8), 1);
        cr_assert_eq(frames[0].n_file, 0);
        cr_assert_eq(frames[0].line, 5);
}

/* arm64: a stream counts instructions of four bytes. */
Test(go_values, count_the_smallest_instruction) {
        static const char part[] = { 0, 0x02, 0x01, 0x20, 0x04, 0x21, -1, -1, -1, -1, 0x0f };
        static char bytes[GO_TABLE_HEADER + sizeof(part)] = {
                (char)GO_TABLE_MAGIC_120, -1, -1, -1, 0, 0, 4, 8
        };
        const GoTable table = { .data = bytes, .size = sizeof(bytes),
                                .parts = { [GO_VALUES] = GO_TABLE_HEADER, [GO_FUNCTIONS] = sizeof(bytes) } };
        GoValues values;

        memcpy(bytes + GO_TABLE_HEADER, part, sizeof(part));
        cr_assert(go_values_init(&values, &table, 1));
        cr_assert(go_values_next(&values));
        cr_assert(values.value == 0 && values.start == 0 && values.end == 4);
        cr_assert(go_values_next(&values));
        cr_assert(values.value == 16 && values.start == 4 && values.end == 20);
        cr_assert_not(go_values_next(&values), "a range that no number of 32 bits can tell");
}

Test(go_values, end_where_the_bytes_are_unsound) {
        GoValues values;

        make(true);
        cr_assert_not(go_values_init(&values, &lines.functions.table, 0));
        cr_assert_not(go_values_init(&values, &lines.functions.table, FUNCTIONS - VALUES));
        memset(data + VALUES + 1, 0xff, 8);
        cr_assert(go_values_init(&values, &lines.functions.table, 1));
        cr_assert_not(go_values_next(&values), "a number that does not end");
        memcpy(data + VALUES + 1, "\x02\x00", 3);
        cr_assert(go_values_init(&values, &lines.functions.table, 1));
        cr_assert_not(go_values_next(&values), "a range of no bytes");
        memcpy(data + FUNCTIONS - 1, "\x02", 1);
        cr_assert(go_values_init(&values, &lines.functions.table, FUNCTIONS - VALUES - 1));
        cr_assert_not(go_values_next(&values), "the part ends");
}
