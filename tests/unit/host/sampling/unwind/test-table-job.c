/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tables by way of real workers, and workers that lie. The zygotes is this program once more (as in
 * test-sandbox.c); a cap of functions that nobody would ask for says how a worker lies.
 */

#include <criterion/criterion.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <string.h>

#include "core/base/sandbox/channel.h"
#include "core/base/util/clock.h"
#include "core/base/util/stat.h"
#include "host/sampling/unwind/tables/table-check.h"
#include "host/sampling/unwind/tables/table-job.h"
#include "stat-reset.h"

enum { LIE_NOTHING = 1, LIE_CUT, LIE_MAGIC, LIE_SIZE, LIE_WORD, LIE_N, HANG };

static void lie(int socket, uint32_t how) {
        static uint8_t block[2 * UNWIND_BLOCK_SIZE];
        TableJobAnswer answer = {
                .magic = TABLE_JOB_MAGIC, .size = sizeof(block), .text_low = 0x1000, .text_high = 0x2000
        };
        uint64_t word = unwind_word(7, 0, 1);

        if (how == LIE_NOTHING)
                _exit(0);
        if (how == LIE_MAGIC)
                answer.magic++;
        if (how == LIE_SIZE)
                answer.size = UINT64_C(1) << 40;
        if (how == LIE_WORD)
                memcpy(block, &word, sizeof(word));
        channel_send(socket, &answer, sizeof(answer), -1);
        channel_send(socket, block, how == LIE_CUT ? 100 : sizeof(block), -1);
        _exit(0);
}

static void work(int socket) {
        TableJobRequest request;
        int fd;

        if (channel_receive(socket, &request, sizeof(request), &fd, 0) != sizeof(request))
                _exit(0);
        if (request.max_functions == HANG)
                for (;;)
                        poll(NULL, 0, 1000);
        if (request.max_functions < LIE_N)
                lie(socket, request.max_functions);
        table_job_serve(socket, fd, &request);
        _exit(0);
}

__attribute__((__constructor__)) static void become_zygote(int argc, char **argv) {
        if (argc == 1 && !strcmp(argv[0], ZYGOTE_NAME))
                zygote_serve(work);
}

static Zygotes *zygotes;
static TableJob *job;

static void setup(void) {
        stat_reset();
        cr_assert_eq(zygotes_new(&zygotes), 0);
        cr_assert_eq(zygotes_wait(zygotes, 60000), 0);
        cr_assert_eq(table_job_new(&job, zygotes), 0);
}

static void teardown(void) {
        job = table_job_free(job);
        zygotes = zygotes_free(zygotes);
}

TestSuite(job, .init = setup, .fini = teardown);

static int make(int fd, const TableLimits *limits, Table *table) {
        uint64_t end_ns = clock_monotonic_ns() + 60 * NS_PER_SEC;

        table_job_begin(job, fd, limits, 60 * NS_PER_SEC);
        for (;;) {
                struct pollfd wait = { .fd = table_job_fd(job), .events = POLLIN };
                int r = table_job_step(job, 100000, table);

                if (r != TABLE_E_AGAIN && r != TABLE_JOB_E_WAIT)
                        return r;
                cr_assert_lt(clock_monotonic_ns(), end_ns, "nothing happens");
                if (r == TABLE_JOB_E_WAIT)
                        poll(&wait, 1, 1000);
        }
}

static int make_here(int fd, Table *table) {
        TableBuilder *builder;
        TableLimits limits = TABLE_LIMITS_DEFAULT;
        int r;

        limits.max_scan = 16 << 20;
        r = table_builder_new(&builder, fd, &limits);

        if (!r)
                r = table_builder_step(builder, UINT64_MAX, table);
        table_builder_free(builder);
        return r;
}

static int compare(struct dl_phdr_info *info, size_t size, void *userdata) {
        int fd = open(info->dlpi_name[0] ? info->dlpi_name : "/proc/self/exe", O_RDONLY | O_CLOEXEC), r;
        Table here = { 0 }, there = { 0 };

        if (fd < 0)
                return 0;
        r = make_here(fd, &here);
        cr_expect_eq(make(fd, &TABLE_LIMITS_DEFAULT, &there), r, "%s", info->dlpi_name);
        if (!r) {
                cr_expect_eq(here.size, there.size, "%s", info->dlpi_name);
                cr_expect_eq(memcmp(here.data, there.data, here.size), 0, "%s", info->dlpi_name);
                cr_expect_eq(here.text_low, there.text_low);
                cr_expect_eq(here.text_high, there.text_high);
                cr_expect_eq(here.n_rows, there.n_rows);
                cr_expect_eq(memcmp(&here.counts, &there.counts, sizeof(here.counts)), 0);
                ++*(int *)userdata;
        }
        table_deinit(&here);
        table_deinit(&there);
        close(fd);
        return 0;
}

Test(job, a_worker_makes_what_would_be_made_here) {
        int n = 0;

        dl_iterate_phdr(compare, &n);
        cr_assert_gt(n, 5);
        cr_assert_eq(stat_get(COUNTER_WORKERS_DIED) + stat_get(COUNTER_WORKERS_MALFORMED) +
                             stat_get(COUNTER_WORKERS_LATE),
                     0);
}

Test(job, what_is_no_program_is_said_to_be_none) {
        int fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
        Table table;

        cr_assert_eq(make(fd, &TABLE_LIMITS_DEFAULT, &table), TABLE_E_NOT_ELF);
        cr_assert_eq(make(fd, &(TableLimits){ LIE_N, 0 }, &table), TABLE_E_NOT_ELF);
        close(fd);
}

Test(job, a_worker_that_lies_or_dies_costs_one_file) {
        int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        Table table = { 0 };

        for (uint32_t how = LIE_NOTHING; how < LIE_N; how++) {
                uint64_t n = stat_get(COUNTER_WORKERS_DIED) + stat_get(COUNTER_WORKERS_MALFORMED);

                cr_assert_eq(make(fd, &(TableLimits){ how, 32 << 20 }, &table), TABLE_JOB_E_FAILED, "lie %u",
                             how);
                cr_assert_eq(stat_get(COUNTER_WORKERS_DIED) + stat_get(COUNTER_WORKERS_MALFORMED), n + 2,
                             "lie %u: two tries", how);
                cr_assert_null(table.data);
                cr_assert_eq(make(fd, &TABLE_LIMITS_DEFAULT, &table), 0, "after lie %u", how);
                table_deinit(&table);
        }
        cr_assert_eq(stat_get(COUNTER_WORKERS_DIED), 4);
        close(fd);
}

/* ---- several ---- */

/* The next one that ends; *whatp: which. */
static int next_end(TableJobs *jobs, void **whatp, Table *table) {
        uint64_t end_ns = clock_monotonic_ns() + 60 * NS_PER_SEC;

        for (;;) {
                int r = table_jobs_step(jobs, 100000, whatp, table);

                if (r != TABLE_E_AGAIN && r != TABLE_JOB_E_WAIT)
                        return r;
                cr_assert_lt(clock_monotonic_ns(), end_ns, "nothing happens");
                if (r == TABLE_JOB_E_WAIT)
                        poll(NULL, 0, 1);
        }
}

/* Return: whether the one that hangs had its time in the meantime. */
static bool make_beside(TableJobs *jobs, int fd, void *what, void *hangs) {
        bool was_late = false;
        Table table = { 0 };
        void *ended;
        int r;

        cr_assert(table_jobs_begin(jobs, what, fd, &TABLE_LIMITS_DEFAULT, false),
                  "there is no place beside one that hangs");
        while ((r = next_end(jobs, &ended, &table)) == TABLE_JOB_E_LATE && ended == hangs)
                was_late = true;
        cr_assert_eq(r, 0);
        cr_assert_eq(ended, what);
        table_deinit(&table);
        return was_late;
}

Test(job, a_file_that_hangs_has_one_place_and_its_time) {
        const TableLimits hang = { HANG, 32 << 20 };
        int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        _cleanup_(table_jobs_freep) TableJobs *jobs = NULL;
        char hangs, works[20];
        bool was_late = false;
        Table none;
        void *ended;

        cr_assert_eq(table_jobs_new(&jobs, zygotes), 0);
        cr_assert(table_jobs_begin(jobs, &hangs, fd, &hang, false));
        for (size_t i = 0; i < sizeof(works); i++)
                was_late |= make_beside(jobs, fd, &works[i], &hangs);
        if (!was_late) {
                cr_assert_eq(next_end(jobs, &ended, &none), TABLE_JOB_E_LATE);
                cr_assert_eq(ended, &hangs);
        }
        cr_assert_eq(stat_get(COUNTER_WORKERS_LATE), 1);
        close(fd);
}

Test(job, files_that_were_late_have_one_place_together) {
        const TableLimits hang = { HANG, 32 << 20 };
        int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        _cleanup_(table_jobs_freep) TableJobs *jobs = NULL;
        char files[TABLE_JOBS_N + 1];

        cr_assert_eq(table_jobs_new(&jobs, zygotes), 0);
        cr_assert(table_jobs_begin(jobs, &files[0], fd, &hang, true));
        cr_assert_not(table_jobs_begin(jobs, &files[1], fd, &hang, true));
        make_beside(jobs, fd, &files[1], &files[0]);
        for (int i = 1; i < TABLE_JOBS_N; i++)
                cr_assert(table_jobs_begin(jobs, &files[i], fd, &hang, false));
        cr_assert_not(table_jobs_begin(jobs, &files[TABLE_JOBS_N], fd, &hang, false),
                      "there is no end of places");
        close(fd);
}

/* ---- the check alone ---- */

static uint8_t blocks[2 * UNWIND_BLOCK_SIZE];

/* A page with two rows of one rule, in its own block, by the form of unwind_abi.h. */
static Table hand_made(void) {
        static const uint16_t keys[] = { 0, 16 };
        const uint64_t word = unwind_word(1, 0, 2),
                       rule = unwind_rule(UNWIND_CFA_RSP, 8, UNWIND_RBP_SAME, 0, UNWIND_RBX_SAME);

        memset(blocks, 0, sizeof(blocks));
        memcpy(blocks, &word, sizeof(word));
        memcpy(blocks + UNWIND_BLOCK_SIZE, keys, sizeof(keys));
        memcpy(blocks + 2 * UNWIND_BLOCK_SIZE - 8, &rule, sizeof(rule));
        return (Table){ .data = blocks, .size = sizeof(blocks), .text_low = 0x1000, .text_high = 0x2000 };
}

static int check(const Table *table) {
        TableCheck state = { 0 };
        int r;

        do
                r = table_check(&state, table, 1);
        while (r == TABLE_CHECK_E_AGAIN);
        return r;
}

static void set_word(uint64_t word) {
        memcpy(blocks, &word, sizeof(word));
}

Test(table_check, takes_a_table_and_refuses_each_way_out_of_it) {
        Table table = hand_made(), other;

        cr_assert_eq(check(&table), 0);
        other = table, other.text_high = 0x1800;
        cr_expect_eq(check(&other), TABLE_CHECK_E_MALFORMED, "half a page");
        other = table, other.text_high = 0x1000;
        cr_expect_eq(check(&other), TABLE_CHECK_E_MALFORMED, "no text");
        other = table, other.text_high = 0x1000 + (UINT64_C(1) << 33);
        cr_expect_eq(check(&other), TABLE_CHECK_E_MALFORMED, "too much text");
        other = table, other.text_high = 0x1000 + 1024 * 4096 + 4096;
        cr_expect_eq(check(&other), TABLE_CHECK_E_MALFORMED, "more directory than blocks");
        other = table, other.size = 100;
        cr_expect_eq(check(&other), TABLE_CHECK_E_MALFORMED, "half a block");
        set_word(unwind_word(2, 0, 2));
        cr_expect_eq(check(&table), TABLE_CHECK_E_MALFORMED, "a block behind the end");
        set_word(unwind_word(0, 0, 2));
        cr_expect_eq(check(&table), TABLE_CHECK_E_MALFORMED, "a block of the directory");
        set_word(unwind_word(1, 1, 2));
        cr_expect_eq(check(&table), TABLE_CHECK_E_MALFORMED, "an odd offset");
        set_word(unwind_word(1, 4094, 2));
        cr_expect_eq(check(&table), TABLE_CHECK_E_MALFORMED, "over the end of the block");
        set_word(unwind_word(1, 0, 0xffff));
        cr_expect_eq(check(&table), TABLE_CHECK_E_MALFORMED, "too many rows");
        hand_made();
        blocks[UNWIND_BLOCK_SIZE] = 1;
        cr_expect_eq(check(&table), TABLE_CHECK_E_MALFORMED, "the first key is not 0");
        hand_made();
        blocks[UNWIND_BLOCK_SIZE + 3] = 0x10;
        cr_expect_eq(check(&table), TABLE_CHECK_E_MALFORMED, "a key beyond the page");
        hand_made();
        blocks[UNWIND_BLOCK_SIZE + 2] = 0;
        cr_expect_eq(check(&table), TABLE_CHECK_E_MALFORMED, "keys that do not ascend");
        hand_made();
        blocks[UNWIND_BLOCK_SIZE + 4] = 255;
        cr_expect_eq(check(&table), TABLE_CHECK_E_MALFORMED, "a rule that no block has");
        hand_made();
        blocks[2 * UNWIND_BLOCK_SIZE - 2] = UNWIND_CFA_FP;
        cr_expect_eq(check(&table), TABLE_CHECK_E_MALFORMED, "a rule that is the walk's own");
}

/* 512 pages that all have the same 800 rows: each is sound, together they would be 400,000 for two blocks. */
Test(table_check, counts_rows_that_many_pages_share) {
        Table table = hand_made();

        table.text_high = table.text_low + 512 * 4096;
        for (int i = 0; i < 800; i++) {
                uint16_t key = (uint16_t)i;

                memcpy(blocks + UNWIND_BLOCK_SIZE + 2 * i, &key, sizeof(key));
                blocks[UNWIND_BLOCK_SIZE + 1600 + i] = 0;
        }
        set_word(unwind_word(1, 0, 800));
        cr_assert_eq(check(&table), 0);
        for (int i = 0; i < 512; i++) {
                uint64_t word = unwind_word(1, 0, 800);

                memcpy(blocks + 8 * i, &word, sizeof(word));
        }
        cr_assert_eq(check(&table), TABLE_CHECK_E_MALFORMED);
}
