/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Damaged and hostile recordings: what stands before the damage is read, the rest costs no more than its
 * bytes.
 */

#include "jfr-read.h"

Test(jfr_damage, delivers_what_stands_before_a_cut) {
        JfrMaker maker = make();
        uint64_t most = 0;

        maker_begin_chunk(&maker);
        maker_checkpoint(&maker, 0, 1);
        maker_metadata(&maker);
        for (uint64_t i = 0; i < 200; i++)
                MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { 5000 + i }, { 1 }, { 1 }, { 1 });
        maker_end_chunk(&maker);
        for (size_t size = maker.size - 1; size > 0; size -= size > 150 ? 149 : 1) {
                JfrMaker cut = maker;
                uint64_t n;
                Read read;

                cut.data = malloc(size);
                memcpy(cut.data, maker.data, size);
                cut.size = size;
                read = read_all(&cut);
                n = window_n_events(read.window);
                cr_expect_eq(read.r, JFR_E_DAMAGED);
                cr_expect_gt(read.problem.size, 0);
                cr_expect_leq(n, 200);
                cr_expect(most == 0 || n <= most, "less of the file gave more events");
                most = n;
                if (size > maker.size - 50)
                        cr_expect_eq(n, 200);
                if (n)
                        cr_expect(has_string(&read, "method-0"), "the constants before the cut are lost");
                end(&cut, &read);
        }
        free(maker.data);
}

Test(jfr_damage, survives_flipped_bits) {
        JfrMaker maker = make();
        uint64_t chance = 88172645463325252;

        maker.remote = true;
        put_chunk(&maker);
        for (int i = 0; i < 3000; i++) {
                JfrMaker broken = maker;
                Read read;

                broken.data = malloc(maker.size);
                memcpy(broken.data, maker.data, maker.size);
                for (int j = 0; j < 1 + i % 4; j++) {
                        chance ^= chance << 13;
                        chance ^= chance >> 7;
                        chance ^= chance << 17;
                        broken.data[chance % maker.size] ^= (uint8_t)(1 << (chance >> 40) % 8);
                }
                read = read_all(&broken);
                /*
                 * a wrong size can make several events of one, each as long as its header and time at least
                 */
                cr_expect_leq(window_n_events(read.window), maker.size / 6);
                end(&broken, &read);
        }
        free(maker.data);
}

static Read read_broken(JfrMaker *maker, size_t at, uint64_t value) {
        maker->chunk = 0;
        maker_put64(maker, at, value);
        return read_all(maker);
}

Test(jfr_damage, reads_chunks_whose_header_lies) {
        static const struct {
                size_t at;
                uint64_t value;
                bool damaged;
        } lies[] = {
                { 8, 0, true },                         /* no size: not finished */
                { 8, UINT64_MAX, true },                /* larger than the file */
                { 16, 0, false },                       /* no checkpoint: they are looked for */
                { 16, UINT64_MAX, true },
                { 16, 70, true },
                { 24, 0, true },                        /* no metadata: it is looked for */
                { 24, UINT64_MAX - 3, true },
                { 24, 71, true },
        };

        for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
                JfrMaker maker = make();
                Read read;

                put_chunk(&maker);
                read = read_broken(&maker, lies[i].at, lies[i].value);
                cr_expect_eq(read.r, lies[i].damaged ? JFR_E_DAMAGED : 0, "lie %zu: %s", i,
                             read.problem.data);
                cr_expect_eq(window_n_events(read.window), 18, "lie %zu", i);
                cr_expect(has_string(&read, "method-0"), "lie %zu", i);
                end(&maker, &read);
        }
}

Test(jfr_damage, ends_at_a_checkpoint_that_points_to_itself) {
        JfrMaker maker = make();
        Read read;

        maker.n_checkpoints = 2;
        maker.plain = true;
        put_chunk(&maker);
        /* its delta: behind size (4), type (8), start (8) and duration (8) */
        memset(maker.data + maker.last_checkpoint + 28, 0xFF, 8);
        read = read_all(&maker);
        cr_expect_eq(read.r, JFR_E_DAMAGED);
        cr_expect_eq(window_n_events(read.window), 18);
        end(&maker, &read);
}

Test(jfr_damage, goes_on_with_the_next_chunk_after_a_broken_event) {
        JfrMaker maker = make();
        size_t broken;
        Read read;

        maker_begin_chunk(&maker);
        MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { 5000 }, { 1 }, { 1 }, { 1 });
        broken = maker.size;
        MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { 5000 }, { 1 }, { 1 }, { 1 });
        MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { 5000 }, { 1 }, { 1 }, { 1 });
        maker_end_chunk(&maker);
        memcpy(maker.data + broken, "\x00\x64\x64\x64", 4);     /* size 0 */
        maker_begin_chunk(&maker);
        MAKER_EVENT(&maker, MAKER_JDK_EXECUTION, { 5000 }, { 1 }, { 1 }, { 1 });
        maker_end_chunk(&maker);
        read = read_all(&maker);
        cr_expect_eq(read.r, JFR_E_DAMAGED);
        cr_expect_eq(window_n_events(read.window), 2);
        {
                char where[32];

                snprintf(where, sizeof(where), "byte %zu", broken);
                cr_expect_not_null(strstr(read.problem.data, where), "%s", read.problem.data);
        }
        end(&maker, &read);
}

/* Metadata of elements within elements, without end. */
Test(jfr_damage, refuses_a_million_nested_elements) {
        JfrMaker maker = make();
        Read read;

        maker_begin_chunk(&maker);
        maker_begin(&maker, 0);
        maker_long(&maker, 0);
        maker_long(&maker, 0);
        maker_long(&maker, 1);
        maker_int(&maker, 1);
        maker_text(&maker, "class");
        for (int i = 0; i < 1000000; i++) {
                maker_int(&maker, 0);
                maker_int(&maker, 0);
                maker_int(&maker, 1);
        }
        maker_end(&maker);
        maker_put64(&maker, 8, maker.size);
        maker_put64(&maker, 24, JFR_HEADER_SIZE);
        read = read_all(&maker);
        cr_expect_eq(read.r, JFR_E_DAMAGED);
        cr_expect_eq(window_n_profiles(read.window), 0);
        end(&maker, &read);
}

/*
 * class jdk.ExecutionSample { jdk.ExecutionSample self; … } and what takes exponential time in a naive
 * reader.
 */
Test(jfr_damage, refuses_types_inside_themselves) {
        static const char *const strings[] = { "root", "metadata", "class", "name", "jdk.ExecutionSample",
                                               "id",   "200",      "field", "self", "stackTrace" };
        JfrMaker maker = make();
        Read read;

        maker_begin_chunk(&maker);
        maker_begin(&maker, 0);
        maker_long(&maker, 0);
        maker_long(&maker, 0);
        maker_long(&maker, 1);
        maker_int(&maker, 10);
        for (int i = 0; i < 10; i++)
                maker_text(&maker, strings[i]);
        for (const uint8_t *p = (const uint8_t[]){ 0, 0, 1, 1, 0, 1, 2, 2, 3, 4, 5, 6, 2, 7,
                                                   2, 3, 8, 2, 6, 0, 7, 2, 3, 9, 2, 6, 0, 255 };
             *p != 255; p++)
                maker_int(&maker, *p);
        maker_end(&maker);
        maker_begin(&maker, 200);
        maker_long(&maker, 1);
        maker_end(&maker);
        maker_put64(&maker, 8, maker.size);
        maker_put64(&maker, 24, JFR_HEADER_SIZE);
        read = read_all(&maker);
        cr_expect_eq(read.r, JFR_E_DAMAGED);
        cr_expect_eq(window_n_events(read.window), 0);
        end(&maker, &read);
}

Test(jfr_damage, says_which_version_it_cannot_read) {
        JfrMaker maker = make();
        Read read;

        maker_begin_chunk(&maker);
        maker_end_chunk(&maker);
        maker.data[5] = 3;
        read = read_all(&maker);
        cr_expect_eq(read.r, JFR_E_DAMAGED);
        cr_expect_not_null(strstr(read.problem.data, "version 3.0"), "%s", read.problem.data);
        end(&maker, &read);
}
