/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "desk/coro/trace/sink.h"

static int pipe_ends[2];

static void setup(void) {
        cr_assert_eq(pipe(pipe_ends), 0);
}

TestSuite(sink, .init = setup);

/* Number k as text, in a block of its own. */
static size_t put_number(char *block, unsigned k) {
        return (size_t)snprintf(block, 16, "%u\n", k);
}

Test(sink, writes_blocks_in_their_order) {
        char *block, text[16];
        Sink *sink = NULL;
        FILE *file;

        cr_assert_eq(sink_new(&sink, pipe_ends[1], &block), 0);
        /* 24 KB: the pipe takes all of it before it is read */
        for (unsigned k = 0; k < 5000; k++)
                block = sink_swap(sink, put_number(block, k));
        cr_expect_eq(sink_finish(sink), 0);
        sink_free(sink);
        close(pipe_ends[1]);
        file = fdopen(pipe_ends[0], "r");
        for (unsigned k = 0; k < 5000; k++) {
                char expected[16];

                put_number(expected, k);
                cr_assert(fgets(text, sizeof(text), file));
                cr_assert_str_eq(text, expected);
        }
        cr_expect_null(fgets(text, sizeof(text), file));
        fclose(file);
}

static void *read_all(void *userdata) {
        static char bytes[SINK_BLOCK];
        uint64_t *sums = userdata;
        ssize_t n;

        while ((n = read(pipe_ends[0], bytes, sizeof(bytes))) > 0) {
                sums[0] += (uint64_t)n;
                for (ssize_t i = 0; i < n; i++)
                        sums[1] += (uint8_t)bytes[i];
        }
        return NULL;
}

/* 700 full blocks, more than there are: the pipe is read only once the producer has to wait. */
Test(sink, waits_when_all_blocks_are_full_and_loses_nothing) {
        uint64_t sums[2] = { 0 }, expected = 0;
        pthread_t reader;
        Sink *sink = NULL;
        char *block;

        cr_assert_eq(sink_new(&sink, pipe_ends[1], &block), 0);
        for (unsigned k = 0; k < 700; k++) {
                memset(block, (int)k, SINK_BLOCK);
                expected += (uint64_t)(uint8_t)k * SINK_BLOCK;
                if (k < 500)
                        cr_expect(sink_has_room(sink), "block %u", k);
                if (k == 510)
                        cr_expect_not(sink_has_room(sink));
                if (k == 510)
                        pthread_create(&reader, NULL, read_all, sums);
                block = sink_swap(sink, SINK_BLOCK);
        }
        cr_expect_eq(sink_finish(sink), 0);
        sink_free(sink);
        close(pipe_ends[1]);
        pthread_join(reader, NULL);
        cr_expect_eq(sums[0], UINT64_C(700) * SINK_BLOCK);
        cr_expect_eq(sums[1], expected);
}

Test(sink, says_why_it_could_not_write) {
        int full = open("/dev/full", O_WRONLY);
        Sink *sink = NULL;
        char *block;

        cr_assert_eq(sink_new(&sink, full, &block), 0);
        for (int i = 0; i < 300; i++)                           /* goes on after the failure */
                block = sink_swap(sink, 1);
        cr_expect_eq(sink_finish(sink), ENOSPC);
        cr_expect_eq(sink_error(sink), ENOSPC);
        sink_free(sink);
        close(full);
}

Test(sink, ends_without_a_block) {
        Sink *sink = NULL;
        char *block;

        cr_assert_eq(sink_new(&sink, pipe_ends[1], &block), 0);
        cr_expect_eq(sink_n_stalls(sink), 0);
        cr_expect_null(sink_free(sink));
        cr_expect_null(sink_free(NULL));
}
