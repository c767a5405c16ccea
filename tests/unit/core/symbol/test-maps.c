/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/util/stat.h"
#include "core/symbol/object/maps.h"

/* As printed by Linux 6.18 for real programs; names of anonymous memory from a kernel that has them. */
static const char text[] =
        "558645495000-55864549a000 r-xp 00002000 fe:00 247026                     /usr/bin/cat\n"
        "7f0a3c028000-7f0a3c1bd000 r--s 00028000 103:2f 18446744073709551615      /srv/with blank/lib (deleted)\n"
        "7f1000000000-7f1000801000 rw-p 00000000 00:00 0 \n"
        "7f2000000000-7f2000201000 rw-p 00000000 00:00 0                          [anon:DD_OTEL_CTX]\n"
        "7f3000000000-7f3000001000 rw-s 00000000 00:01 2062                       /memfd:DD_OTEL_CTX (deleted)\n"
        "7ffd1cd0c000-7ffd1cd2d000 rw-p 00000000 00:00 0                          [stack]\n"
        "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";

static MapsEntry nth(unsigned n) {
        MapsCursor cursor = maps_cursor(text, sizeof(text) - 1);
        MapsEntry entry;

        do
                cr_assert_eq(maps_next(&cursor, &entry), 0);
        while (n--);
        return entry;
}

Test(maps_next, reads_every_field) {
        MapsEntry entry = nth(0);

        cr_assert_eq(entry.start, 0x558645495000);
        cr_assert_eq(entry.end, 0x55864549a000);
        cr_assert_eq(entry.offset, 0x2000);
        cr_assert_eq(entry.major, 0xfe);
        cr_assert_eq(entry.minor, 0);
        cr_assert_eq(entry.inode, 247026);
        cr_assert(entry.readable && !entry.writable && entry.executable && !entry.shared);
        cr_assert_eq(entry.name_size, strlen("/usr/bin/cat"));

        entry = nth(1);
        cr_assert_eq(entry.major, 0x103);
        cr_assert_eq(entry.minor, 0x2f);
        cr_assert_eq(entry.inode, UINT64_MAX);
        cr_assert(entry.readable && !entry.writable && !entry.executable && entry.shared);

        entry = nth(6);
        cr_assert_eq(entry.start, 0xffffffffff600000);
        cr_assert(!entry.readable && entry.executable);
}

Test(maps_next, ends_at_the_end_with_or_without_a_newline) {
        MapsCursor cursor = maps_cursor("1000-2000 r--p 0 0:0 0\n1000-2000 r--p 0 0:0 0", 45);
        MapsEntry entry;

        cr_assert_eq(maps_next(&cursor, &entry), 0);
        cr_assert_eq(maps_next(&cursor, &entry), 0);
        cr_assert_eq(maps_next(&cursor, &entry), MAPS_E_EOF);
        cr_assert_eq(maps_next(&cursor, &entry), MAPS_E_EOF);
        cursor = maps_cursor("", 0);
        cr_assert_eq(maps_next(&cursor, &entry), MAPS_E_EOF);
}

Test(maps_next, refuses_what_no_kernel_prints_and_goes_on_behind_it) {
        static const char *const bad[] = {
                "",                                             /* an empty line */
                "2000-1000 r--p 0 0:0 0",                       /* ends before it starts */
                "1000-1000 r--p 0 0:0 0",
                "x000-2000 r--p 0 0:0 0",
                "-2000 r--p 0 0:0 0",
                "1000-2000 r--q 0 0:0 0",
                "1000-2000 r--pp 0 0:0 0",
                "1000-2000 z--p 0 0:0 0",
                "1000-2000 r--p 0 0:0 ",                        /* no inode */
                "1000-2000 r--p 0 0:0 12a",
                "1000-2000 r--p 0 0:0 18446744073709551616",    /* 2^64 */
                "1000-2000 r--p 0 00 0",
                "1000-2000 r--p 0 0:100000000 0",               /* minor of 33 bits */
                "10000000000000000-20000000000000000 r--p 0 0:0 0",     /* 65 bits */
                "1000-2000",
                "1000",
        };

        for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
                MapsEntry entry, before;
                MapsCursor cursor;
                char line[256];

                memset(&entry, 0xA5, sizeof(entry));
                before = entry;
                snprintf(line, sizeof(line), "%s\n3000-4000 rw-p 0 0:0 0\n", bad[i]);
                cursor = maps_cursor(line, strlen(line));
                cr_expect_eq(maps_next(&cursor, &entry), MAPS_E_MALFORMED, "%s", bad[i]);
                cr_expect_arr_eq(&entry, &before, sizeof(entry), "%s", bad[i]);
                cr_assert_eq(maps_next(&cursor, &entry), 0);
                cr_assert_eq(entry.start, 0x3000);
        }
}

Test(maps, tells_the_page_of_probes_apart) {
        static const struct {
                const char *line;
                bool is_probes;
        } cases[] = {
                { "7fffffffe000-7ffffffff000 --xp 00000000 00:00 0                          [uprobes]", true },
                { "7fffffffe000-7ffffffff000 r-xp 00000000 00:00 0                          [vdso]", false },
                { "7fffffffe000-7ffffffff000 r-xp 00000000 00:00 0                          [uprobes]x", false },
                { "7fffffffe000-7ffffffff000 r-xp 00000000 fe:00 7                          [uprobes]", false },
                { "7fffffffe000-7ffffffff000 r-xp 00000000 00:00 0 ", false },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                MapsCursor cursor = maps_cursor(cases[i].line, strlen(cases[i].line));
                MapsEntry entry;

                cr_assert_eq(maps_next(&cursor, &entry), 0);
                cr_expect_eq(maps_is_probes(&entry), cases[i].is_probes, "%s", cases[i].line);
        }
}

Test(maps, tells_kinds_of_memory_apart) {
        static const struct {
                bool file, memfd, memory, named;
        } expected[] = {
                { true, false, false, false }, { true, false, false, false }, { false, false, true, false },
                { false, false, true, true },  { true, true, false, true },   { false, false, false, false },
                { false, false, false, false },
        };

        for (unsigned i = 0; i < 7; i++) {
                MapsEntry entry = nth(i);

                cr_expect_eq(maps_is_file(&entry), expected[i].file, "%u", i);
                cr_expect_eq(maps_is_memfd(&entry), expected[i].memfd, "%u", i);
                cr_expect_eq(maps_is_private_memory(&entry), expected[i].memory, "%u", i);
                cr_expect_eq(maps_has_name(&entry, "DD_OTEL_CTX"), expected[i].named, "%u", i);
        }
}

static void check_path(const char *line, const char *expected, bool expected_deleted) {
        MapsCursor cursor = maps_cursor(line, strlen(line));
        char path[MAPS_MAX_NAME];
        MapsEntry entry;
        bool deleted;

        cr_assert_eq(maps_next(&cursor, &entry), 0);
        cr_expect_eq(maps_path(&entry, path, &deleted), strlen(expected));
        cr_expect_str_eq(path, expected);
        cr_expect_eq(deleted, expected_deleted);
}

Test(maps_path, decodes_only_what_the_kernel_escapes) {
        check_path("1000-2000 r-xp 0 8:1 5   /a\\012b", "/a\nb", false);
        check_path("1000-2000 r-xp 0 8:1 5   /a\\040b\\", "/a\\040b\\", false);
        check_path("1000-2000 r-xp 0 8:1 5   /lib (deleted)", "/lib", true);
        check_path("1000-2000 r-xp 0 8:1 5   /lib (deleted) (deleted)", "/lib (deleted)", true);
        check_path("1000-2000 r-xp 0 8:1 5   /tr\xff\xfe", "/tr\xff\xfe", false);
        check_path("1000-2000 r-xp 0 8:1 0", "", false);
}

Test(maps_path, cuts_names_that_are_too_long) {
        static char line[3 * MAPS_MAX_NAME], path[MAPS_MAX_NAME];
        size_t n = (size_t)sprintf(line, "1000-2000 r-xp 0 8:1 5   /");
        MapsCursor cursor = maps_cursor(line, sizeof(line));
        MapsEntry entry;

        memset(line + n, 'x', sizeof(line) - n);
        cr_assert_eq(maps_next(&cursor, &entry), 0);
        cr_assert_eq(maps_path(&entry, path, NULL), MAPS_MAX_NAME - 1);
        cr_assert_eq(path[MAPS_MAX_NAME - 1], 0);
}

/* Writes through a pipe, so that the reader gets pieces that end anywhere. */
Test(maps_reader, joins_lines_that_come_in_pieces) {
        static MapsReader reader;
        MapsEntry entry;
        int fds[2];

        cr_assert_eq(pipe2(fds, O_NONBLOCK), 0);
        cr_assert_eq(write(fds[1], text, 40), 40);
        maps_reader_init(&reader, fds[0]);
        cr_assert_eq(maps_reader_next(&reader, &entry), MAPS_E_FAILED);  /* EAGAIN: nothing more yet */
        cr_assert_eq(write(fds[1], text + 40, sizeof(text) - 41), (ssize_t)sizeof(text) - 41);
        close(fds[1]);
        for (unsigned i = 0; i < 7; i++) {
                MapsEntry expected = nth(i);

                cr_assert_eq(maps_reader_next(&reader, &entry), 0);
                cr_assert_eq(entry.start, expected.start);
                cr_assert_eq(entry.name_size, expected.name_size);
                cr_assert_arr_eq(entry.name, expected.name, expected.name_size);
        }
        cr_assert_eq(maps_reader_next(&reader, &entry), MAPS_E_EOF);
        close(fds[0]);
}

Test(maps_reader, skips_a_line_that_is_longer_than_any_name) {
        static MapsReader reader;
        static char junk[1 << 16];
        MapsEntry entry;
        FILE *file = tmpfile();
        unsigned n_bad = 0;
        int r;

        memset(junk, 'x', sizeof(junk));
        fwrite(junk, 1, sizeof(junk), file);
        fputs("\n3000-4000 rw-p 0 0:0 0\n", file);
        fflush(file);
        lseek(fileno(file), 0, SEEK_SET);
        maps_reader_init(&reader, fileno(file));
        while ((r = maps_reader_next(&reader, &entry)) == MAPS_E_MALFORMED)
                n_bad++;
        cr_assert_eq(r, 0);
        cr_assert_eq(entry.start, 0x3000);
        cr_assert_gt(n_bad, 0);
        cr_assert_eq(maps_reader_next(&reader, &entry), MAPS_E_EOF);
        fclose(file);
}

static unsigned count_entries(MapsReader *reader) {
        MapsEntry entry;
        unsigned n = 0;

        for (; maps_reader_next(reader, &entry) == 0; n++)
                cr_assert_eq(entry.start, 0x1000 * (n + 1));
        return n;
}

/* Numbered mappings, 31 bytes each, so that the buffer holds some 650. */
static void read_again(unsigned n, bool is_kept) {
        static MapsReader reader;
        FILE *file = tmpfile();

        for (unsigned i = 1; i <= n; i++)
                fprintf(file, "%08x-%08x rw-p 0 0:0 0\n", i * 0x1000, (i + 1) * 0x1000);
        fflush(file);
        lseek(fileno(file), 0, SEEK_SET);
        maps_reader_init(&reader, fileno(file));
        cr_assert(!maps_reader_again(&reader), "nothing was read yet");
        cr_assert_eq(count_entries(&reader), n);
        cr_assert_eq(maps_reader_again(&reader), is_kept, "%u", n);
        cr_assert_eq(count_entries(&reader), is_kept ? n : 0);
        fclose(file);
}

Test(maps_reader, gives_again_what_its_buffer_has) {
        read_again(1, true);
        read_again(500, true);
        read_again(1000, false);
        read_again(5000, false);
}

/* 23 bytes a line: the last one that is read is cut, and not taken for a whole one. */
Test(maps_reader, ends_where_nobody_would_read_on, .timeout = 60) {
        static const char line[] = "3000-4000 rw-p 0 0:0 0\n";
        static MapsReader reader;
        FILE *file = tmpfile();
        unsigned n_lines = 0;
        MapsEntry entry;
        int r;

        for (size_t i = 0; i < MAPS_MAX_TEXT / (sizeof(line) - 1) + 1000; i++)
                fputs(line, file);
        fflush(file);
        lseek(fileno(file), 0, SEEK_SET);
        maps_reader_init(&reader, fileno(file));
        while (!(r = maps_reader_next(&reader, &entry)))
                n_lines++;
        cr_assert_eq(r, MAPS_E_EOF);
        cr_assert_eq(n_lines, (32 << 20) / 23);
        cr_assert_eq(stat_get(COUNTER_MAPS_CUT), 1);
        cr_assert_eq(maps_reader_next(&reader, &entry), MAPS_E_EOF);
        fclose(file);
}

Test(maps_reader, sees_every_mapping_of_a_process_with_thousands) {
        enum { N = 3000 };
        static MapsReader reader;
        char *memory = mmap(NULL, 2 * N * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        unsigned n_readable = 0;
        MapsEntry entry;
        int fd, r;

        for (int i = 0; i < N; i++)
                mprotect(memory + 2 * i * 4096, 4096, PROT_READ);
        fd = open("/proc/self/maps", O_RDONLY);
        maps_reader_init(&reader, fd);
        while (!(r = maps_reader_next(&reader, &entry)))
                if (entry.start >= (uintptr_t)memory && entry.start < (uintptr_t)memory + 2 * N * 4096)
                        n_readable += entry.readable;
        cr_assert_eq(r, MAPS_E_EOF);
        cr_assert_eq(n_readable, N);
        close(fd);
}

/*
 * Whoever reads on in the next turn sees what one who reads at once sees, and no turn takes much more than it
 * may.
 */
Test(maps_reader, stops_where_its_turn_ends_and_loses_nothing) {
        enum { N = 3000, FREE = 4096, LEFT = 30000 };
        static MapsReader reader;
        char *memory = mmap(NULL, 2 * N * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        unsigned n_readable = 0, n_turns = 0;
        MapsEntry entry;
        int fd, r;

        for (int i = 0; i < N; i++)
                mprotect(memory + 2 * i * 4096, 4096, PROT_READ);
        fd = open("/proc/self/maps", O_RDONLY);
        maps_reader_init(&reader, fd);
        do {
                size_t left = LEFT, before = reader.left;

                maps_reader_begin_turn(&reader, FREE, &left);
                while (!(r = maps_reader_next(&reader, &entry)))
                        if (entry.start >= (uintptr_t)memory &&
                            entry.start < (uintptr_t)memory + 2 * N * 4096)
                                n_readable += entry.readable;
                maps_reader_end_turn(&reader, &left);
                cr_assert_leq(before - reader.left, FREE + LEFT + sizeof(reader.buffer));
                cr_assert(r != MAPS_E_PAUSED || !left);
                n_turns++;
        } while (r == MAPS_E_PAUSED);
        cr_assert_eq(r, MAPS_E_EOF);
        cr_assert_eq(n_readable, N);
        cr_assert_gt(n_turns, 4);               /* more than 2 * N lines of 40 bytes and more */
        close(fd);
}

/* Of a turn that others have used up, each still has what is free. */
Test(maps_reader, always_gets_what_is_free) {
        static const char line[] = "3000-4000 rw-p 0 0:0 0\n";
        static MapsReader reader;
        FILE *file = tmpfile();
        size_t left = 0;
        MapsEntry entry;

        for (unsigned i = 0; i < 100; i++)
                fputs(line, file);
        fflush(file);
        lseek(fileno(file), 0, SEEK_SET);
        maps_reader_init(&reader, fileno(file));
        maps_reader_begin_turn(&reader, 100 * (sizeof(line) - 1) + 1, &left);
        for (unsigned i = 0; i < 100; i++)
                cr_assert_eq(maps_reader_next(&reader, &entry), 0);
        cr_assert_eq(maps_reader_next(&reader, &entry), MAPS_E_EOF);
        maps_reader_end_turn(&reader, &left);
        cr_assert_eq(left, 0);
        fclose(file);
}
