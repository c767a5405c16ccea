/* SPDX-License-Identifier: Apache-2.0 */

/* What tells one file from another, whoever made it. */

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "core/base/util/macro.h"
#include "core/symbol/object/object-file.h"
#include "work-directory.h"

TestSuite(object_file, .init = work_directory_make, .fini = work_directory_remove);

static const ObjectFile known = {
        .device = 1, .inode = 2, .size = 3, .mtime_ns = 4, .ctime_ns = 5, .btime_ns = 6
};

Test(object_file, is_told_from_others_by_each_part) {
        const ObjectFile others[] = {
                { 7, 2, 3, 4, 5, 6 }, { 1, 7, 3, 4, 5, 6 }, { 1, 2, 7, 4, 5, 6 },
                { 1, 2, 3, 7, 5, 6 }, { 1, 2, 3, 4, 7, 6 }, { 1, 2, 3, 4, 5, 7 },
        };
        ObjectFile same = known;

        cr_assert_eq(object_file_number(&known), object_file_number(&same));
        cr_assert_neq(object_file_number(&known), 0);
        cr_assert_not(object_number_is_remote(object_file_number(&known)));
        same.is_remote = 1;
        cr_assert(object_number_is_remote(object_file_number(&same)));
        for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
                cr_assert_neq(object_file_number(&known), object_file_number(&others[i]), "part %zu", i);
                cr_assert_eq(object_file_is_same(&known, &others[i]), i == 4,
                             "part %zu: ctime alone may be a new name", i);
        }
}

Test(object_file, needs_the_same_ctime_where_nothing_tells_when_it_was_made) {
        ObjectFile then = known, now = known;

        then.btime_ns = now.btime_ns = 0;
        cr_assert(object_file_is_same(&then, &now));
        now.ctime_ns++;
        cr_assert_not(object_file_is_same(&then, &now));
        now = known;
        cr_assert_not(object_file_is_same(&then, &now), "one that suddenly tells");
}

static uint64_t number_of(const char *name) {
        int fd = open(work_path(name), O_RDONLY | O_CLOEXEC);
        uint64_t number = 0;
        uid_t owner = 4711;

        cr_assert_geq(fd, 0);
        cr_assert_eq(object_file_number_of(fd, &number, &owner), 0);
        cr_assert_eq(owner, geteuid());
        close(fd);
        return number;
}

Test(object_file, has_another_number_when_its_content_or_place_is_anothers) {
        uint64_t first, second, third;

        cr_assert_eq(shell("printf abc >a && cp -p a b && ln a c"), 0);
        first = number_of("a");
        cr_assert_eq(first, number_of("c"), "another name of it");
        cr_assert_neq(first, number_of("b"), "the same content, size and time");
        cr_assert_eq(
                shell("touch -r a time && printf xyz | dd of=a conv=notrunc status=none && touch -r time a"),
                0);
        second = number_of("a");
        cr_assert_neq(second, first, "written in place, its time set back");
        cr_assert_eq(shell("touch -r b b && mv b a"), 0);
        third = number_of("a");
        cr_assert(third != first && third != second, "another file under its path");
}

Test(object_file, has_no_number_if_it_is_no_regular_file) {
        static const char *const names[] = { "pipe", "folder" };

        cr_assert_eq(shell("mkfifo pipe && mkdir folder"), 0);
        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                int fd = open(work_path(names[i]), O_PATH | O_CLOEXEC);
                uint64_t number;
                uid_t owner;

                cr_assert_eq(object_file_number_of(fd, &number, &owner), OBJECT_E_UNREADABLE, "%s", names[i]);
                close(fd);
        }
}

static ObjectFile file_of(const char *name) {
        struct statx stx;

        cr_assert_eq(statx(AT_FDCWD, work_path(name), 0, STATX_BASIC_STATS | STATX_BTIME, &stx), 0);
        return (ObjectFile){ .device = (uint64_t)stx.stx_dev_major << 8 | stx.stx_dev_minor,
                             .inode = stx.stx_ino,
                             .size = stx.stx_size,
                             .mtime_ns = stx.stx_mtime.tv_sec * INT64_C(1000000000) + stx.stx_mtime.tv_nsec,
                             .ctime_ns = stx.stx_ctime.tv_sec * INT64_C(1000000000) + stx.stx_ctime.tv_nsec,
                             .btime_ns = stx.stx_mask & STATX_BTIME
                                     ? stx.stx_btime.tv_sec * INT64_C(1000000000) + stx.stx_btime.tv_nsec
                                     : 0 };
}

Test(object_file, is_opened_at_its_path_only_if_it_lies_there) {
        ObjectFile file;
        int fd = -1;

        cr_assert_eq(shell("printf abc >a && cp -p a b"), 0);
        file = file_of("a");
        cr_assert_eq(object_file_open_here(&file, work_path("a"), &fd), 0);
        close(fd);
        cr_assert_eq(object_file_open_here(&file, work_path("b"), &fd), OBJECT_E_MOVED);
        cr_assert_eq(object_file_open_here(&file, work_path("gone"), &fd), OBJECT_E_MOVED);
        cr_assert_eq(object_file_open_here(&file, work_path("."), &fd), OBJECT_E_MOVED);
        cr_assert_eq(shell("ln -s a link"), 0);
        cr_assert_eq(object_file_open_here(&file, work_path("link"), &fd), OBJECT_E_MOVED,
                     "links are not followed");
}
