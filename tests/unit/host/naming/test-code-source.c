/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Each test is a process of its own, and the process that is looked at: its perf-map is /tmp/perf-PID.map
 * with its pid.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/util/macro.h"
#include "host/naming/code-source.h"
#include "host/sampling/process/process.h"
#include "jitdump-maker.h"
#include "own-code.h"

static CodeSource *source;
static CodeLook found;

static void init(void) {
        own_code_begin();
        cr_assert_eq(code_source_new(&source, NULL, NULL), 0);
}

static void fini(void) {
        code_source_unref(source);
        own_code_end();
}
TestSuite(code_source, .init = init, .fini = fini);

static void write_map(const char *mode, const char *text) {
        put(path, mode, text, strlen(text));
}

static void look(void) {
        code_source_look(source, &place, &found);
}

static void assert_name(uint64_t address, const char *expected) {
        char name[CODE_MAX_NAME];
        size_t size;
        uint64_t start;
        bool is_past;
        int r = code_source_find(source, address, 0, name, &size, &start, &is_past);

        cr_assert_eq(r, expected ? 0 : CODE_SOURCE_E_NONE, "%#lx", address);
        if (expected)
                cr_assert(size == strlen(expected) && !memcmp(name, expected, size), "%#lx is %.*s, not %s",
                          address, (int)size, name, expected);
}

Test(code_source, finds_nothing_where_there_is_none) {
        look();
        cr_assert(!found.has_file && !found.is_changed && !found.failed);
        cr_assert_eq(found.n_opened + found.n_refused + found.n_unreadable, 0);
        assert_name(0x1000, NULL);
}

Test(code_source, reads_the_tail_of_a_file_that_grows) {
        write_map("w", "1000 10 first\n2000 10 sec");
        look();
        cr_assert(found.has_file && found.is_changed);
        cr_assert_eq(found.n_opened, 1);
        cr_assert_eq(found.n_taken, 1);
        assert_name(0x1008, "first");
        assert_name(0x2000, NULL);
        look();
        cr_assert(found.has_file && !found.is_changed);
        cr_assert_eq(found.n_opened, 0, "it was there before");
        write_map("a", "ond\nnonsense\n1000 8 third\n");
        look();
        cr_assert_eq(found.n_taken, 2, "no line twice");
        cr_assert_eq(found.n_malformed, 1);
        assert_name(0x2000, "second");
        assert_name(0x1007, "third");
        assert_name(0x1008, "first");
}

/* As `jcmd PID Compiler.perfmap` does: the same file, cut and written anew, and longer than before. */
Test(code_source, reads_a_file_anew_that_was_written_anew) {
        write_map("w", "1000 10 first\n");
        look();
        write_map("w", "1000 10 other\n2000 10 second\n3000 10 third\n");
        look();
        assert_name(0x1000, "other");
        assert_name(0x3000, "third");
        write_map("w", "4000 10 short\n");
        look();
        assert_name(0x4000, "short");
        assert_name(0x3000, "third");           /* nobody says that it is gone */
}

Test(code_source, reads_a_file_that_has_taken_the_place_of_another) {
        char other[80];

        write_map("w", "1000 10 first\n");
        look();
        snprintf(other, sizeof(other), "%s.new", path);
        put(other, "w", "1000 10 other\n", 14);
        cr_assert_eq(rename(other, path), 0);
        look();
        cr_assert_eq(found.n_opened, 1);
        assert_name(0x1000, "other");
        unlink(path);
        look();
        cr_assert(!found.has_file);
        assert_name(0x1000, "other");
}

static void assert_refused(const char *what) {
        look();
        cr_assert(!found.has_file, "%s", what);
        cr_assert_eq(found.n_refused, 1, "%s", what);
        cr_assert_eq(found.n_taken, 0, "%s", what);
        look();
        cr_assert_eq(found.n_refused, 0, "%s: counted once", what);
        assert_name(0x1000, NULL);
}

Test(code_source, refuses_what_is_no_file) {
        char aside[80];

        snprintf(aside, sizeof(aside), "%s.aside", path);
        cr_assert_eq(mkfifo(path, 0600), 0);
        assert_refused("a pipe, which would never be opened");
        /* there for so long, the directory cannot get its number and be taken for it */
        cr_assert_eq(rename(path, aside), 0);
        cr_assert_eq(mkdir(path, 0700), 0);
        assert_refused("a directory");
        unlink(aside);
        rmdir(path);
        write_map("w", "1000 10 good\n");
        look();
        assert_name(0x1000, "good");
}

Test(code_source, follows_no_link) {
        put(dump_path, "w", "1000 10 linked\n", 15);
        cr_assert_eq(symlink(dump_path, path), 0);
        look();
        cr_assert(!found.has_file);
        assert_name(0x1000, NULL);
}

Test(code_source, refuses_what_anybody_may_write) {
        write_map("w", "1000 10 anybody\n");
        cr_assert_eq(chmod(path, 0666), 0);
        assert_refused("writable by all");
        cr_assert_eq(chmod(path, 0664), 0);
        look();
        assert_name(0x1000, "anybody");
}

Test(code_source, refuses_the_file_of_another_user) {
        if (getuid() != 0)
                cr_skip_test("root: another owner cannot be made");
        write_map("w", "1000 10 stranger\n");
        cr_assert_eq(chown(path, 4711, 4711), 0);
        assert_refused("of another user");
        cr_assert_eq(chown(path, 0, 0), 0);
        look();
        assert_name(0x1000, "stranger");
}

/* Process ids are used again, and the files that go by them stay. */
Test(code_source, refuses_what_is_older_than_the_process) {
        struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, { .tv_nsec = UTIME_NOW } };
        Process *process;

        cr_assert_eq(process_new(&process, getpid()), 0);
        place.start_time_ns = process->start_time_ns;
        process_free(process);
        write_map("w", "1000 10 of another\n");
        times[1] = (struct timespec){ .tv_sec = time(NULL) - 3600 };
        cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0);
        assert_refused("of an hour ago");
        write_map("w", "1000 10 its own\n");
        look();
        assert_name(0x1000, "its own");
}

Test(code_source, reads_the_jitdump_that_is_mapped) {
        _cleanup_(text_deinit) Text dump = { 0 };

        dump_header(&dump, 0x4A695444, 1, 40, 0);
        dump_load(&dump, 1000, 0x1000, 0x10, 1, "first");
        map_dump(&dump);
        look();
        cr_assert_eq(found.n_opened, 1);
        assert_name(0x1000, "first");
        text_deinit(&dump);
        dump_move(&dump, 2000, 0x1000, 0x2000, 0x10, 1);
        dump_load(&dump, 3000, 0x3000, 100000, 2, "long");
        dump_load(&dump, 4000, 0x40000, 0x10, 3, "behind");
        put(dump_path, "a", dump.data, dump.size);
        look();
        cr_assert_eq(found.n_taken, 3);
        assert_name(0x2000, "first");
        assert_name(0x3100, "long");
        assert_name(0x40000, "behind");
        /* it counts as long as it is mapped, whatever it is called by now */
        unlink(dump_path);
        look();
        cr_assert(found.has_file);
}

Test(code_source, refuses_a_mapped_file_that_is_no_jitdump) {
        _cleanup_(text_deinit) Text dump = { 0 };

        dump_header(&dump, 0x4454694A, 1, 40, 0);       /* of the other byte order */
        dump_load(&dump, 1000, 0x1000, 0x10, 1, "first");
        map_dump(&dump);
        look();
        cr_assert_eq(found.n_malformed, 1);
        cr_assert_eq(found.n_taken, 0);
        look();
        cr_assert_eq(found.n_malformed, 0);
}

Test(code_source, takes_no_more_than_its_share_at_once) {
        static char line[4096];
        FILE *file = fopen(path, "w");
        unsigned n = 0;

        memset(line, 'x', sizeof(line) - 1);
        for (unsigned i = 0; i < 3000; i++)             /* 12 MiB */
                fprintf(file, "%x 10 %u%s\n", 0x1000 + i * 0x10, i, line);
        fclose(file);
        do
                look();
        while (n++ < 100 && found.has_more);
        cr_assert_eq(n, 3);
        assert_name(0x1000 + 2000 * 0x10 + 0x100000, NULL);
}

Test(code_source, is_asked_of_a_process_that_is_gone) {
        write_map("w", "1000 10 first\n");
        look();
        place.start_time_ns = 1;                /* another process has the number now */
        look();
        cr_assert(!found.has_file);
        assert_name(0x1000, "first");
}

Test(code_source, knows_a_dump_by_its_name) {
        static const struct {
                const char *path;
                bool is;
                uint64_t number;
        } cases[] = {
                { "/tmp/jit-812.dump", true, 812 },
                { "jit-1.dump", true, 1 },
                { "/home/x/.debug/jit/a/jit-77.dump", true, 77 },
                { "/tmp/jit-.dump", false, 0 },
                { "/tmp/jit-8x.dump", false, 0 },
                { "/tmp/jit-8.dumps", false, 0 },
                { "/tmp/jit-8.dump/x", false, 0 },
                { "", false, 0 },
                { "/tmp/jit-99999999999999999999999999.dump", false, 0 },
                { "/tmp/ajit-8.dump", false, 0 },
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                uint64_t number = 0;

                cr_expect_eq(code_is_dump_path(cases[i].path, &number), cases[i].is, "%s", cases[i].path);
                cr_expect_eq(number, cases[i].number, "%s", cases[i].path);
        }
}

Test(code_source, knows_which_number_a_process_has_itself) {
        uint64_t pid = 0;

        cr_assert_eq(code_parse_own_pid("Name:\tx\nPid:\t8123\nNSpid:\t8123\t77\t5\nNSpgid:\t1\n", &pid), 0);
        cr_assert_eq(pid, 5);
        cr_assert_eq(code_parse_own_pid("Name:\tx\nPid:\t8123\nNSpid:\t8123\n", &pid), 0);
        cr_assert_eq(pid, 8123);
        cr_assert_eq(code_parse_own_pid("Name:\tx\nPid:\t812\nPPid:\t1\n", &pid), 0);
        cr_assert_eq(pid, 812);
        cr_assert_eq(code_parse_own_pid("Name:\tNSpid:\t5\n", &pid), 1);
        cr_assert_eq(code_parse_own_pid("Name:\tx\nNSpid:\t8123\tx\n", &pid), 1);
        cr_assert_eq(code_parse_own_pid("Name:\tx\nNSpid:", &pid), 1);
}
