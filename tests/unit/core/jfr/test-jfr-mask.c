/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Recordings whose secrets were overwritten: they are gone, however they were written, and all else reads as
 * before.
 */

#include "core/jfr/mask.h"
#include "jfr-read.h"

/* Whether the text stands in the recording, as that recording writes texts. */
static bool contains(const JfrMaker *maker, const char *text) {
        JfrMaker scratch = { .plain = maker->plain, .encoding = maker->encoding };
        size_t head;
        bool found;

        maker_text(&scratch, text);
        head = 1 + (maker->plain ? 4 : 1);      /* encoding and length */
        found = memmem(maker->data, maker->size, scratch.data + head, scratch.size - head) != NULL;
        free(scratch.data);
        return found;
}

static void put_secrets(JfrMaker *maker) {
        maker_begin_chunk(maker);
        MAKER_EVENT(maker, MAKER_JVM, { 5000 }, { .text = "OpenJDK" }, { .text = "17" },
                    { .text = "-Dpassword=" SECRET }, { .text = "Main --token=mellon" }, { 1 }, { 4711 });
        MAKER_EVENT(maker, MAKER_ENVIRONMENT, { 5000 }, { .text = "DB_PASSWORD" }, { .text = SECRET });
        MAKER_EVENT(maker, MAKER_ENVIRONMENT, { 5000 }, { .text = "" },
                    { .text = "/checkout", .number = maker->encoding == 2 });
        put_events(maker);
        maker_end_chunk(maker);
}

Test(jfr_mask, overwrites_secrets_however_they_are_written) {
        for (int way = 0; way < 2 * 4 * 2; way++) {
                JfrMaker maker = make();
                bool arguments = way / 8;
                size_t size;
                Read read;

                maker.plain = way % 2;
                maker.encoding = 2 + way / 2 % 4;
                put_secrets(&maker);
                put_secrets(&maker);            /* another chunk */
                size = maker.size;
                cr_assert(contains(&maker, SECRET) && contains(&maker, "mellon") &&
                          contains(&maker, "DB_PASSWORD"));
                cr_assert_eq(jfr_mask(maker.data, maker.size, arguments), 0, "way %d", way);
                cr_expect_eq(maker.size, size);
                cr_expect_eq(contains(&maker, SECRET), arguments, "way %d", way);
                cr_expect_eq(contains(&maker, "mellon"), arguments, "way %d", way);
                cr_expect_not(contains(&maker, "DB_PASSWORD"), "way %d", way);
                cr_expect(contains(&maker, "OpenJDK") && contains(&maker, "thread-1"));
                /* of the pool: also where events that are no secret point there */
                cr_expect_eq(contains(&maker, "/checkout"), maker.encoding != 2, "way %d", way);
                read = read_all(&maker);
                cr_expect_eq(read.r, 0, "way %d: %s", way, read.problem.data);
                cr_expect_eq(window_n_events(read.window), 2 * 18);
                cr_expect_eq(total(&read, "samples", "count"), 2 * 2 * 3);
                end(&maker, &read);
        }
}

/* A struct may hold a secret: what cannot be masked is not let out. */
Test(jfr_mask, is_unsure_of_structs) {
        JfrMaker maker = make();

        maker.symbols_for_texts = true;
        put_secrets(&maker);
        cr_expect_eq(jfr_mask(maker.data, maker.size, false), JFR_MASK_E_UNSURE);
        free(maker.data);
}

/* Characters of one byte to three, as UTF-16 units in a compressed recording: each keeps its length. */
Test(jfr_mask, keeps_lengths_of_characters) {
        static const uint8_t units[] = { 'a', 0xE9, 0x01, 0xAD, 0x9C, 0x01 };          /* a, é, U+4E2D */
        JfrMaker maker = make();
        uint8_t *at;
        Read read;

        maker_begin_chunk(&maker);
        MAKER_EVENT(&maker, MAKER_ENVIRONMENT, { 5000 }, { .text = "KEY" }, { .text = "123456" });
        MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { 5000 }, { 1 }, { 1 }, { 1 });
        maker_end_chunk(&maker);
        at = memmem(maker.data, maker.size, "\x03\x06" "123456", 8);
        at[0] = 4;
        at[1] = 3;
        memcpy(at + 2, units, sizeof(units));
        cr_assert_eq(jfr_mask(maker.data, maker.size, false), 0);
        cr_expect_arr_eq(at, ((uint8_t[]){ 4, 3, '*', '*' | 0x80, 0, '*' | 0x80, 0x80, 0 }), 8);
        read = read_all(&maker);
        cr_expect_eq(read.r, 0);
        cr_expect_eq(window_n_events(read.window), 1);
        end(&maker, &read);
}

/* What cannot be read may hold secrets: cut anywhere, or of a damaged event on. */
Test(jfr_mask, says_when_it_is_not_sure) {
        JfrMaker maker = make();
        size_t first;

        put_secrets(&maker);
        first = maker.size;
        put_secrets(&maker);
        for (size_t size = 1; size < maker.size; size++) {
                uint8_t *copy = malloc(size);

                memcpy(copy, maker.data, size);
                cr_expect_eq(jfr_mask(copy, size, false), size == first ? 0 : JFR_MASK_E_UNSURE, "size %zu",
                             size);
                free(copy);
        }
        /* the size of the second chunk's first event: 0 */
        maker.data[first + JFR_HEADER_SIZE] = 0x80;
        memset(maker.data + first + JFR_HEADER_SIZE + 1, 0x80, 2);
        cr_expect_eq(jfr_mask(maker.data, maker.size, false), JFR_MASK_E_UNSURE);
        free(maker.data);
}
