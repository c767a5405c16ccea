/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coro/sink.h"
#include "util/clock.h"

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
        for (unsigned k = 0; k < 5000; k++)                     /* 24 KB: the pipe takes all, whoever reads it when */
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

/* Full blocks and such that were handed over in time, written by two threads in turns. */
Test(sink, keeps_the_order_whoever_writes) {
        char *block, *got = malloc(SINK_BLOCK);
        FILE *file = tmpfile();
        Sink *sink = NULL;

        cr_assert(got && file);
        cr_assert_eq(sink_new(&sink, fileno(file), &block), 0);
        for (unsigned k = 0; k < 600; k++) {
                memset(block, (int)('a' + k % 26), SINK_BLOCK);
                block = sink_swap(sink, k % 7 ? SINK_BLOCK : 100);
                if (k % 50 == 0)
                        sink_yield(sink, clock_monotonic_ns() + NS_PER_MS);
        }
        cr_expect_eq(sink_finish(sink), 0);
        sink_free(sink);
        rewind(file);
        for (unsigned k = 0; k < 600; k++) {
                size_t size = k % 7 ? SINK_BLOCK : 100;

                cr_assert_eq(fread(got, 1, size, file), size);
                cr_assert(got[0] == (char)('a' + k % 26) && !memcmp(got, got + 1, size - 1), "block %u", k);
        }
        cr_expect_eq(fgetc(file), EOF);
        fclose(file);
        free(got);
}

static void count_threads(int *n_idlep, int *n_othersp) {
        DIR *tasks = opendir("/proc/self/task");
        struct dirent *entry;

        cr_assert(tasks);
        for (*n_idlep = *n_othersp = 0; (entry = readdir(tasks));)
                if (entry->d_name[0] != '.')
                        ++*(sched_getscheduler(atoi(entry->d_name)) == SCHED_IDLE ? n_idlep : n_othersp);
        closedir(tasks);
}

/* Who fetches events must not lose its CPU to who writes them, and slow traces not wait for an idle one. */
Test(sink, has_one_thread_that_gives_way_and_one_that_does_not) {
        int n_idle, n_before, n_others;
        Sink *sink = NULL;
        char *block;

        count_threads(&n_idle, &n_before);
        cr_assert_eq(n_idle, 0);
        cr_assert_eq(sink_new(&sink, pipe_ends[1], &block), 0);
        for (int i = 0; i < 5000 && !n_idle; i++, usleep(1000))         /* until the thread has said so */
                count_threads(&n_idle, &n_others);
        cr_expect_eq(n_idle, 1);
        cr_expect_eq(n_others, n_before + 1);
        sink_free(sink);
}

/* A file that takes nothing: a pipe that nobody reads. */
Test(sink, yields_no_longer_than_it_is_told) {
        char *block, *all = malloc(2 * SINK_BLOCK);
        Sink *sink = NULL;
        uint64_t until_ns;

        cr_assert_eq(sink_new(&sink, pipe_ends[1], &block), 0);
        memset(block, 'x', SINK_BLOCK);
        sink_swap(sink, SINK_BLOCK);
        until_ns = clock_monotonic_ns() + 20 * NS_PER_MS;
        sink_yield(sink, until_ns);
        cr_expect_geq(clock_monotonic_ns(), until_ns);
        for (size_t n = 0; n < SINK_BLOCK;) {
                ssize_t r = read(pipe_ends[0], all, 2 * SINK_BLOCK);

                cr_assert_gt(r, 0);
                n += (size_t)r;
        }
        sink_yield(sink, UINT64_MAX / 4);       /* all is written, or just about to be: it returns */
        sink_free(sink);
        free(all);
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

/* 200 full blocks, more than there are, and nobody reads before the producer has to wait. */
Test(sink, waits_when_all_blocks_are_full_and_loses_nothing) {
        uint64_t sums[2] = { 0 }, expected = 0;
        pthread_t reader;
        Sink *sink = NULL;
        char *block;

        cr_assert_eq(sink_new(&sink, pipe_ends[1], &block), 0);
        for (unsigned k = 0; k < 200; k++) {
                memset(block, (int)k, SINK_BLOCK);
                expected += (uint64_t)k * SINK_BLOCK;
                if (k == 120)
                        pthread_create(&reader, NULL, read_all, sums);
                block = sink_swap(sink, SINK_BLOCK);
        }
        cr_expect_eq(sink_finish(sink), 0);
        sink_free(sink);
        close(pipe_ends[1]);
        pthread_join(reader, NULL);
        cr_expect_eq(sums[0], UINT64_C(200) * SINK_BLOCK);
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
