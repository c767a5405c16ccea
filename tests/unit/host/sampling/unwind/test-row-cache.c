/* SPDX-License-Identifier: Apache-2.0 */

/* Tables that are kept in a directory, found by the next cache, and by no other file, boot or build. */

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/file/file.h"
#include "core/base/file/gzip.h"
#include "core/base/util/clock.h"
#include "core/base/util/stat.h"
#include "host/sampling/unwind/tables/row-cache.h"
#include "host/sampling/unwind/tables/table-queue.h"
#include "stat-reset.h"
#include "work-directory.h"

/* Where things lie in an entry, as row-cache.c has it: the first byte after the checksum, and the boot. */
enum { AT_SUM = 8, AT_REST = 12, AT_BOOT = 32, AT_DATA = 1 << 10 };

#define ENTRY "rows/10302-2a41"

static const TableLimits limits = TABLE_LIMITS_DEFAULT;
static const RowKey key = { .device = 0x10302, .inode = 0x2a41, .size = 1234, .mtime_ns = 1, .ctime_ns = 2 };
static RowCache *cache;
static Table own;                       /* of this program */

static void open_cache(void) {
        cr_assert_eq(row_cache_new(&cache, work_path(".")), 0, "%s", strerror(errno));
}

static void reopen(void) {
        cache = row_cache_free(cache);
        open_cache();
}

static void setup(void) {
        TableBuilder *builder;
        int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

        work_directory_make();
        stat_reset();
        cr_assert_eq(table_builder_new(&builder, fd, &limits), 0);
        cr_assert_eq(table_builder_step(builder, UINT64_MAX, &own), 0);
        table_builder_free(builder);
        close(fd);
        open_cache();
}

static void teardown(void) {
        cache = row_cache_free(cache);
        table_deinit(&own);
        work_directory_remove();
}

TestSuite(row_cache, .init = setup, .fini = teardown, .timeout = 60);

/* The answer for a file that was asked for; all zeros if nobody was asked. */
static RowCacheResult ask(const RowKey *of) {
        uint64_t end_ns = clock_monotonic_ns() + 60 * NS_PER_SEC;
        struct pollfd wait = { .fd = row_cache_fd(cache), .events = POLLIN };
        RowCacheResult result = { 0 };
        char file;

        if (!row_cache_ask(cache, &file, of, &limits)) {
                (void)row_cache_take(cache, &result);
                return result;
        }
        while (!row_cache_take(cache, &result)) {
                cr_assert_lt(clock_monotonic_ns(), end_ns, "nothing happens");
                poll(&wait, 1, 1000);
        }
        cr_assert_eq(result.what, &file);
        return result;
}

static bool finds(const RowKey *of) {
        RowCacheResult result = ask(of);

        table_deinit(&result.table);
        return result.is_there;
}

static void keep(const RowKey *of, int r) {
        Table table = r ? (Table){ 0 } : own;

        if (!r) {
                table.data = malloc(own.size);
                memcpy(table.data, own.data, own.size);
        }
        row_cache_keep(cache, of, &limits, r, &table);
        cr_assert_null(table.data);
        while (!finds(of))
                poll(NULL, 0, 1);
        stat_reset();
}

static uint64_t sum_of_counters(void) {
        return stat_get(COUNTER_UNWIND_CACHE_FOUND) + stat_get(COUNTER_UNWIND_CACHE_NEW) +
                stat_get(COUNTER_UNWIND_CACHE_DROPPED) + stat_get(COUNTER_UNWIND_CACHE_FAILED);
}

Test(row_cache, the_next_one_finds_the_same_bytes) {
        struct stat st;
        RowCacheResult result;

        cr_assert(!finds(&key));
        cr_assert_eq(stat_get(COUNTER_UNWIND_CACHE_NEW), 1);
        keep(&key, 0);
        reopen();
        result = ask(&key);
        cr_assert(result.is_there && result.result == 0);
        cr_assert_eq(result.table.size, own.size);
        cr_assert_eq(memcmp(result.table.data, own.data, own.size), 0);
        cr_assert(result.table.text_low == own.text_low && result.table.text_high == own.text_high &&
                  result.table.n_rows == own.n_rows);
        cr_assert_eq(memcmp(&result.table.counts, &own.counts, sizeof(own.counts)), 0);
        table_deinit(&result.table);
        cr_assert(stat_get(COUNTER_UNWIND_CACHE_FOUND) == 1 && sum_of_counters() == 1);
        cr_assert(!stat(work_path(ENTRY), &st) && (st.st_mode & 07777) == 0600);
        cr_assert(!stat(work_path("rows"), &st) && (st.st_mode & 07777) == 0700);
}

Test(row_cache, a_file_without_rows_is_known_too) {
        RowCacheResult result;

        keep(&key, TABLE_E_NO_CFI);
        reopen();
        result = ask(&key);
        cr_assert(result.is_there && result.result == TABLE_E_NO_CFI && !result.table.data);
}

Test(row_cache, a_file_that_differs_in_one_number_is_another) {
        RowKey others[] = { key, key, key, key, key, key, key, key };

        others[0].device++;
        others[1].inode++;
        others[2].size++;
        others[3].mtime_ns++;
        others[4].ctime_ns++;
        others[5].btime_ns++;
        others[6].mount++;
        others[7].disk++;
        keep(&key, 0);
        for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
                cr_assert(!finds(&others[i]), "%zu", i);
                cr_assert_eq(stat_get(COUNTER_UNWIND_CACHE_NEW), sum_of_counters());
                reopen();
                cr_assert(finds(&key), "it is there still");
                stat_reset();
        }
        keep(&others[4], 0);
        cr_assert(finds(&others[4]) && !finds(&key), "the file as it is now has taken its place");
}

/* ---- what is in the directory ---- */

static char *data;
static size_t size;

static void read_entry(void) {
        free(data);
        data = NULL;
        cr_assert_eq(file_read(work_path(ENTRY), 64 << 20, &data, &size), 0);
}

static void write_entry(size_t n) {
        int directory = open(work_path("rows"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        cr_assert_eq(file_replace_at(directory, "10302-2a41", "other", data, n), 0);
        close(directory);
}

static void set_sum(void) {
        uint32_t sum = gzip_crc32(0, data + AT_REST, size - AT_REST);

        memcpy(data + AT_SUM, &sum, sizeof(sum));
}

static void check_dropped(const char *what) {
        reopen();
        stat_reset();
        cr_assert(!finds(&key), "%s", what);
        cr_assert(stat_get(COUNTER_UNWIND_CACHE_DROPPED) == 1 && sum_of_counters() == 1, "%s", what);
        cr_assert(access(work_path(ENTRY), F_OK) < 0 && errno == ENOENT, "%s", what);
}

Test(row_cache, what_was_cut_or_changed_is_dropped_and_counted) {
        keep(&key, 0);
        read_entry();
        write_entry(0);
        check_dropped("empty");
        write_entry(AT_REST);
        check_dropped("cut in its head");
        write_entry(size - 1);
        check_dropped("cut at its end");
        for (size_t at = 0; at < size; at += at < AT_DATA ? 7 : size / 16) {
                data[at] ^= 1;
                write_entry(size);
                check_dropped("a bit");
                data[at] ^= 1;
        }
        write_entry(size);
        reopen();
        cr_assert(finds(&key));
}

/* Bytes of the table that are none, with a sum that is right. */
Test(row_cache, a_table_that_is_none_is_dropped_though_its_sum_is_right) {
        uint64_t word = unwind_word(1 << 20, 0, 1);
        size_t table_at;

        keep(&key, 0);
        read_entry();
        table_at = size - own.size;
        memcpy(data + table_at, &word, sizeof(word));
        set_sum();
        write_entry(size);
        check_dropped("a word that leads out of the table");
}

Test(row_cache, another_build_or_boot_has_no_entry) {
        keep(&key, 0);
        for (size_t at = AT_REST; at <= AT_BOOT; at += AT_BOOT - AT_REST) {
                read_entry();
                data[at] ^= 1;
                set_sum();
                write_entry(size);
                stat_reset();
                cr_assert(!finds(&key));
                cr_assert_eq(stat_get(COUNTER_UNWIND_CACHE_NEW), 1);
                data[at] ^= 1;
                set_sum();
                write_entry(size);
                reopen();
                cr_assert(finds(&key));
        }
}

Test(row_cache, a_pipe_is_no_entry) {
        cr_assert_eq(shell("mkfifo " ENTRY), 0);
        reopen();
        cr_assert(!finds(&key));
        cr_assert_eq(stat_get(COUNTER_UNWIND_CACHE_NEW), 1);
}

Test(row_cache, one_daemon_has_the_directory) {
        RowCache *second;

        cr_assert_eq(row_cache_new(&second, work_path(".")), ROW_CACHE_E_LOCKED);
        reopen();
}

Test(row_cache, a_directory_where_others_write_is_not_used) {
        RowCache *second;

        cache = row_cache_free(cache);
        cr_assert_eq(shell("chmod 777 rows"), 0);
        cr_assert_eq(row_cache_new(&second, work_path(".")), ROW_CACHE_E_UNUSABLE);
        cr_assert_eq(shell("rmdir rows && mkdir x && ln -s x rows"), 0);
        cr_assert_eq(row_cache_new(&second, work_path(".")), ROW_CACHE_E_UNUSABLE);
        cr_assert_eq(row_cache_new(&second, work_path("no/such/parent")), ROW_CACHE_E_UNUSABLE);
}

/* A limit of the size of files stands for a full disk. */
Test(row_cache, what_cannot_be_written_is_counted_and_leaves_nothing) {
        struct rlimit before, none = { 100, 100 };
        RowKey other = key;
        Table table = own;

        getrlimit(RLIMIT_FSIZE, &before);
        none.rlim_max = before.rlim_max;
        signal(SIGXFSZ, SIG_IGN);
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
        table.data = malloc(own.size);
        memcpy(table.data, own.data, own.size);
        row_cache_keep(cache, &key, &limits, 0, &table);
        while (!stat_get(COUNTER_UNWIND_CACHE_FAILED))
                cr_assert(!finds(&key));
        setrlimit(RLIMIT_FSIZE, &before);
        cr_assert_eq(shell("test -z \"$(ls -A rows)\""), 0);
        other.inode++;
        keep(&other, 0);
}

Test(row_cache, the_least_recently_used_go_when_there_are_too_many_bytes) {
        cache = row_cache_free(cache);
        cr_assert_eq(shell("cd rows; for i in 1 2 3 4 5; do truncate -s 15M 1-$i; touch -d @$((1000 + i)) 1-$i; done;"
                           "touch -d @2000 1-1; touch .new7; truncate -s 80M mine"), 0);
        open_cache();
        cr_assert_str_eq(first_line("ls -A %s | tr '\\n' ' '", work_path("rows")), "1-1 1-3 1-4 1-5 mine ");
}

/* The 256th file that is written lets the oldest go, which is one more job. */
Test(row_cache, it_wakes_nobody_for_nothing) {
        struct pollfd wait = { .fd = row_cache_fd(cache), .events = POLLIN };
        RowCacheResult known;
        RowKey each = key;
        Table table = { 0 };

        cr_assert_eq(shell("touch rows/.new7"), 0);
        for (int i = 0; i < 256; i++) {
                each.inode++;
                row_cache_keep(cache, &each, &limits, TABLE_E_NO_CFI, &table);
        }
        /* rows/.new7 goes with the oldest */
        while (!access(work_path("rows/.new7"), F_OK)) {
                cr_assert_eq(poll(&wait, 1, 60 * 1000), 1, "nothing happens");
                cr_assert(!row_cache_take(cache, &known));
        }
        cr_assert(finds(&each), "behind the job that let the oldest go");
        for (int i = 0; i < 100; i++) {
                cr_assert(row_cache_ask(cache, &each, &each, &limits));
                if (!row_cache_take(cache, &known)) {
                        cr_assert_eq(poll(&wait, 1, 60 * 1000), 1, "nothing happens");
                        cr_assert(row_cache_take(cache, &known), "it woke for nothing");
                }
                cr_assert(known.is_there);
        }
}

/* ---- the queue before it ---- */

static bool is_new(const char *path) {
        TableQueue queue = { .cache = cache };
        TableRequest request = { .fd = open(path, O_RDONLY | O_CLOEXEC) };

        table_queue_add(&queue, &request);
        table_queue_remove(&queue, &request);
        return request.is_new;
}

/* Nobody takes answers here, as while a disk hangs. */
Test(row_cache, a_file_without_an_entry_does_not_wait_for_those_that_have_one) {
        static const char path[] = "/bin/sh";
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        RowKey of_file = row_key_read(fd, clock_read_ns(CLOCK_REALTIME));

        close(fd);
        if (!row_key_is_kept(&of_file))
                cr_skip_test("kernel: mounts have no number of their own before Linux 6.8");
        keep(&key, TABLE_E_NO_CFI);
        while (row_cache_has_room(cache))
                cr_assert(row_cache_ask(cache, cache, &key, &limits));
        cr_assert(is_new(path));
        cr_assert_eq(stat_get(COUNTER_UNWIND_CACHE_NEW), 1);
        reopen();
        of_file.size++;                 /* as it was before: there is some entry */
        keep(&of_file, TABLE_E_NO_CFI);
        while (row_cache_has_room(cache))
                cr_assert(row_cache_ask(cache, cache, &of_file, &limits));
        cr_assert(!is_new(path));
}

/* ---- what a file is known by ---- */

Test(row_cache, a_file_has_a_key_once_it_is_old_enough_and_while_it_is_the_same) {
        uint64_t now_ns = clock_read_ns(CLOCK_REALTIME), later_ns = now_ns + 60 * NS_PER_SEC;
        RowKey first, second;
        int fd;

        cr_assert_eq(shell("printf abc >file"), 0);
        fd = open(work_path("file"), O_RDWR | O_CLOEXEC);
        first = row_key_read(fd, later_ns);
        if (!row_key_is_kept(&first))
                cr_skip_test("kernel: mounts have no number of their own before Linux 6.8");
        cr_assert_eq(!first.disk, !!first.mount, "one of both");
        second = row_key_read(fd, now_ns);
        cr_assert(!row_key_is_kept(&second), "it may change again in this tick of the clock");
        second = row_key_read(fd, later_ns);
        cr_assert_eq(memcmp(&first, &second, sizeof(first)), 0);
        cr_assert_eq(shell("sleep 0.05; touch -r file times; printf abd >file; touch -r times file"), 0);
        second = row_key_read(fd, later_ns);
        cr_assert(first.inode == second.inode && first.size == second.size &&
                          first.mtime_ns == second.mtime_ns,
                  "its owner can set all but one");
        cr_assert_neq(memcmp(&first, &second, sizeof(first)), 0);
        cr_assert_eq(shell("rm file"), 0);
        second = row_key_read(fd, later_ns);
        cr_assert(!row_key_is_kept(&second), "nobody finds it again");
        second = row_key_read(-1, later_ns);
        cr_assert(!row_key_is_kept(&second) && !row_cache_ask(cache, &fd, &second, &limits));
        close(fd);
}

/* Whether a daemon with mounts of its own sees the same key, as each start of a service has them. */
static int look_from_elsewhere(const char *path, const RowKey *here, uint64_t now_ns) {
        RowKey there;
        int status;
        pid_t pid = fork();

        if (pid == 0) {
                if (unshare(CLONE_NEWNS))
                        _exit(2);
                there = row_key_read(open(path, O_RDONLY | O_CLOEXEC), now_ns);
                _exit(memcmp(&there, here, sizeof(there)) ? 1 : 0);
        }
        waitpid(pid, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Test(row_cache, a_file_on_a_disk_has_one_key_in_all_namespaces) {
        uint64_t later_ns = clock_read_ns(CLOCK_REALTIME) + 60 * NS_PER_SEC;
        char path[4096] = "";
        RowKey here;
        int fd, r;

        cr_assert_gt(readlink("/proc/self/exe", path, sizeof(path) - 1), 0);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        here = row_key_read(fd, later_ns);
        close(fd);
        if (!here.disk)
                cr_skip_test("machine: this program is on no disk");
        r = look_from_elsewhere(path, &here, later_ns);
        if (r == 2)
                cr_skip_test("machine: no mounts of its own are allowed here");
        cr_assert_eq(r, 0);
}
