/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Copies of files as the reader makes them, here of a local disk. What a silent server does is shown on real
 * FUSE mounts by tests/integration/desk/test-remote-files.py.
 */

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/sandbox/remote-reader.h"
#include "core/base/util/clock.h"
#include "core/base/util/macro.h"
#include "core/base/util/stat.h"
#include "core/symbol/object/object-file.h"
#include "core/symbol/object/remote-files.h"
#include "stat-reset.h"
#include "work-directory.h"

TestSuite(remote_files, .init = work_directory_make, .fini = work_directory_remove);
TestSuite(remote_reader, .init = work_directory_make, .fini = work_directory_remove);

enum { LONG = 300000 };                 /* bytes: more than two pieces */

static const MountServer own_fuse = { .type = "fuse.x", .is_fuse = true, .is_own = true };

static int make_file(const char *name, size_t size) {
        _cleanup_(closep) int fd = open(work_path(name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

        cr_assert_geq(fd, 0);
        for (size_t i = 0; i < size; i += sizeof(uint32_t)) {
                uint32_t word = (uint32_t)(i * UINT32_C(2654435761));

                cr_assert_eq(write(fd, &word, sizeof(word)), sizeof(word));
        }
        return open(work_path(name), O_PATH | O_CLOEXEC);
}

/* Zeros that take no room on the disk. */
static int make_sparse_file(const char *name, off_t size) {
        _cleanup_(closep) int fd = open(work_path(name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

        cr_assert(fd >= 0 && !ftruncate(fd, size));
        return open(work_path(name), O_PATH | O_CLOEXEC);
}

static void compare(const char *name, int copy_fd, size_t size) {
        _cleanup_(closep) int fd = open(work_path(name), O_RDONLY | O_CLOEXEC);
        static char wanted[LONG + 1], got[LONG + 1];

        cr_assert_eq(pread(fd, wanted, sizeof(wanted), 0), (ssize_t)size);
        cr_assert_eq(pread(copy_fd, got, sizeof(got), 0), (ssize_t)size);
        cr_assert_eq(memcmp(wanted, got, size), 0);
}

static RemoteReply last_reply(RemoteReader *reader, int *fdp, unsigned *n_beforep) {
        uint64_t until_ns = clock_monotonic_ns() + 60 * NS_PER_SEC;
        RemoteReply reply = { 0 };

        *n_beforep = 0;
        while (clock_monotonic_ns() < until_ns) {
                remote_reader_wait(reader, until_ns);
                if (remote_reader_hear(reader, &reply, fdp))
                        continue;
                if (reply.result != REMOTE_READER_GOES_ON)
                        return reply;
                ++*n_beforep;
        }
        cr_assert_fail("no reply");
        return reply;
}

Test(remote_reader, copies_a_file_says_how_far_it_is_and_seals_the_copy) {
        const RemoteRequest request = { .serial = 7, .max_bytes = LONG };
        RemoteReader *reader = NULL;
        int path_fd = make_file("x", LONG), fd;
        RemoteReply reply;
        unsigned n_before;

        cr_assert_eq(remote_reader_new(&reader), 0);
        cr_assert_eq(remote_reader_ask(reader, &request, path_fd), 0);
        reply = last_reply(reader, &fd, &n_before);
        cr_assert_eq(reply.serial, 7);
        cr_assert_eq(reply.result, 0);
        cr_assert_eq(reply.size, LONG);
        cr_assert_geq(n_before, 2);
        compare("x", fd, LONG);
        cr_assert_eq(pwrite(fd, "y", 1, 0), -1);
        cr_assert_eq(errno, EPERM);
        close(fd);
        close(path_fd);
        remote_reader_free(reader);
}

Test(remote_reader, refuses_what_is_too_long_empty_or_no_file) {
        RemoteReader *reader = NULL;
        int fds[] = { make_file("long", LONG), make_file("empty", 0), open(work_path("."), O_PATH | O_CLOEXEC) };
        unsigned n_before;
        int fd;

        cr_assert_eq(remote_reader_new(&reader), 0);
        for (uint32_t i = 0; i < ARRAY_SIZE(fds); i++) {
                const RemoteRequest request = { .serial = i + 1, .max_bytes = LONG - 1 };
                RemoteReply reply;

                cr_assert_eq(remote_reader_ask(reader, &request, fds[i]), 0);
                reply = last_reply(reader, &fd, &n_before);
                cr_assert_eq(reply.serial, i + 1);
                cr_assert_eq(reply.result, -EFBIG, "%u", i);
                cr_assert_eq(fd, -1);
                close(fds[i]);
        }
        remote_reader_free(reader);
}

/*
 * Copiers of a long file do not end while nothing is heard of them. The ninth of one mount is refused, and so
 * is that of another mount of the same user.
 */
Test(remote_reader, gives_a_mount_and_a_user_eight_places) {
        int path_fd = make_sparse_file("long", 512 << 20), short_fd = make_file("x", 8192), fd;
        const RemoteRequest others[] = {
                { .serial = 9, .device = 1, .max_bytes = LONG },
                { .serial = 10, .device = 2, .has_user = true, .user = 33, .max_bytes = LONG },
                { .serial = 11, .device = 2, .has_user = true, .user = 34, .max_bytes = LONG },
                { .serial = 12, .device = 3, .max_bytes = LONG },
        };
        int results[ARRAY_SIZE(others)];
        RemoteReader *reader = NULL;
        unsigned n_before;

        cr_assert_eq(remote_reader_new(&reader), 0);
        for (uint32_t i = 1; i <= REMOTE_READER_SHARE; i++) {
                const RemoteRequest request = { .serial = i, .device = 1, .has_user = true, .user = 33,
                                                .max_bytes = 512 << 20 };

                cr_assert_eq(remote_reader_ask(reader, &request, path_fd), 0);
        }
        for (size_t i = 0; i < ARRAY_SIZE(others); i++)
                cr_assert_eq(remote_reader_ask(reader, &others[i], short_fd), 0);
        for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
                RemoteReply reply = last_reply(reader, &fd, &n_before);

                cr_assert(reply.serial >= 9 && reply.serial <= 12);
                results[reply.serial - 9] = reply.result;
                if (fd >= 0)
                        close(fd);
        }
        cr_assert_eq(results[0], -EBUSY);
        cr_assert_eq(results[1], -EBUSY);
        cr_assert_eq(results[2], 0);
        cr_assert_eq(results[3], 0);
        remote_reader_free(reader);
}

/* Four users ask for all places, and the last of them leaves as many free as it has. */
Test(remote_reader, leaves_places_beside_users_whose_copiers_hang) {
        enum { N_USERS = REMOTE_READER_MAX_COPIERS / REMOTE_READER_SHARE, HONEST = 1000 };
        const RemoteRequest honest = { .serial = HONEST, .device = HONEST, .has_user = true, .user = HONEST,
                                       .max_bytes = LONG };
        int path_fd = make_sparse_file("long", 512 << 20), short_fd = make_file("x", 8192), fd;
        unsigned n_before, n_refused = 0;
        RemoteReader *reader = NULL;
        RemoteReply reply;

        cr_assert_eq(remote_reader_new(&reader), 0);
        for (uint32_t i = 1; i <= REMOTE_READER_MAX_COPIERS; i++) {
                uint32_t user = (i - 1) / REMOTE_READER_SHARE;
                const RemoteRequest request = { .serial = i, .device = user, .has_user = true, .user = user,
                                                .max_bytes = 512 << 20 };

                cr_assert_eq(remote_reader_ask(reader, &request, path_fd), 0);
        }
        cr_assert_eq(remote_reader_ask(reader, &honest, short_fd), 0);
        while (reply = last_reply(reader, &fd, &n_before), reply.serial != HONEST) {
                cr_assert_eq(reply.result, -EBUSY);
                cr_assert_geq(reply.serial, (N_USERS - 1) * REMOTE_READER_SHARE);
                n_refused++;
        }
        cr_assert_eq(reply.result, 0);
        cr_assert_eq(n_refused, REMOTE_READER_SHARE / 2);
        close(fd);
        remote_reader_free(reader);
}

static ObjectFile known(int path_fd) {
        struct stat st;

        cr_assert_eq(fstat(path_fd, &st), 0);
        return (ObjectFile){ .device = st.st_dev, .inode = st.st_ino, .size = (uint64_t)st.st_size,
                             .is_remote = 1 };
}

Test(remote_files, are_asked_for_once_and_are_there_for_all) {
        int path_fd = make_file("x", LONG), fd = -1, other = -1;
        ObjectFile file = known(path_fd);
        uint64_t number = 0;
        struct stat st;
        uid_t owner = 0;

        cr_assert_eq(remote_files_open(&file, &fd), 1);
        cr_assert_eq(remote_files_ask(&file, 4711, path_fd, &own_fuse, &fd), REMOTE_FILE_AWAITED);
        cr_assert_eq(remote_files_open(&file, &fd), 1);
        cr_assert(remote_files_wait());
        cr_assert_not(remote_files_tend(), "nothing is awaited any more");
        cr_assert_eq(remote_files_ask(&file, 4711, path_fd, &own_fuse, &fd), REMOTE_FILE_THERE);
        compare("x", fd, LONG);
        cr_assert_eq(fstat(fd, &st), 0);
        cr_assert(remote_files_number_of(st.st_dev, st.st_ino, &number, &owner));
        cr_assert_eq(number, object_file_number(&file));
        cr_assert(object_number_is_remote(number));
        cr_assert_eq(owner, 4711);
        cr_assert_eq(remote_files_open_number(number, &other), 0);
        compare("x", other, LONG);
        close(fd);
        close(other);
        close(path_fd);
        remote_files_stop();
        cr_assert_eq(remote_files_open(&file, &fd), 1);
}

/* Who asks hears of all copies that have come: the next call tells of them. */
Test(remote_files, that_come_while_one_is_asked_for_are_news_once) {
        int path_fd = make_file("x", 8192), fd = -1;
        ObjectFile file = known(path_fd);
        uint64_t until_ns = clock_monotonic_ns() + 60 * NS_PER_SEC;

        while (remote_files_ask(&file, 0, path_fd, &own_fuse, &fd) == REMOTE_FILE_AWAITED &&
               clock_monotonic_ns() < until_ns)
                ;
        cr_assert_geq(fd, 0);
        cr_assert(remote_files_tend());
        cr_assert_not(remote_files_tend());
        remote_files_stop();
}

/* A FUSE that lets in none but its user tells us neither size nor times. */
Test(remote_files, of_which_nothing_is_known_get_size_and_times_with_the_copy) {
        int path_fd = make_file("x", LONG), fd = -1;
        ObjectFile file = known(path_fd);
        ObjectFile asked = { .device = file.device, .inode = file.inode, .is_remote = 1 };
        struct stat st;

        cr_assert_eq(fstat(path_fd, &st), 0);
        cr_assert_eq(remote_files_ask(&asked, 0, path_fd, &own_fuse, &fd), REMOTE_FILE_AWAITED);
        cr_assert(remote_files_wait());
        cr_assert_eq(remote_files_ask(&asked, 0, path_fd, &own_fuse, &fd), REMOTE_FILE_THERE);
        compare("x", fd, LONG);
        cr_assert_eq(asked.size, LONG);
        cr_assert_eq(asked.mtime_ns, st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec);
        close(fd);
        cr_assert_eq(remote_files_open(&asked, &fd), 0);
        close(fd);
        close(path_fd);
        remote_files_stop();
}

Test(remote_files, of_which_nothing_is_known_are_left_if_they_are_longer_than_their_room) {
        int path_fd = make_sparse_file("x", (64 << 20) + 1), fd = -1;
        ObjectFile file = known(path_fd);
        ObjectFile asked = { .device = file.device, .inode = file.inode, .is_remote = 1 };

        cr_assert_eq(remote_files_ask(&asked, 0, path_fd, &own_fuse, &fd), REMOTE_FILE_AWAITED);
        cr_assert(remote_files_wait());
        cr_assert_eq(remote_files_ask(&asked, 0, path_fd, &own_fuse, &fd), REMOTE_FILE_LEFT);
        remote_files_stop();
}

Test(remote_files, a_file_of_another_size_than_it_had_is_left) {
        int path_fd = make_file("x", 4096), fd = -1;
        ObjectFile file = known(path_fd);

        file.size = 4092;
        cr_assert_eq(remote_files_ask(&file, 0, path_fd, &own_fuse, &fd), REMOTE_FILE_AWAITED);
        cr_assert(remote_files_wait());
        cr_assert_eq(remote_files_ask(&file, 0, path_fd, &own_fuse, &fd), REMOTE_FILE_LEFT);
        close(path_fd);
        remote_files_stop();
}

Test(remote_files, of_network_filesystems_and_other_namespaces_come_if_they_are_chosen) {
        const MountServer network = { .type = "nfs4", .is_own = true }, hidden = { 0 },
                          elsewhere = { .type = "fuse.x", .is_fuse = true };

        cr_assert(remote_files_may_come(&own_fuse));
        cr_assert_not(remote_files_may_come(&network));
        cr_assert_not(remote_files_may_come(&hidden));
        cr_assert_not(remote_files_may_come(&elsewhere));
        remote_files_choose(true);
        cr_assert(remote_files_may_come(&network));
        cr_assert(remote_files_may_come(&hidden));
        cr_assert(remote_files_may_come(&elsewhere));
}

/* A program that has both mapped is read again while a file is awaited: that has an end, with one of them. */
Test(remote_files, that_together_are_over_the_cap_do_not_take_turns) {
        int path_fds[] = { make_sparse_file("a", 80 << 20), make_sparse_file("b", 80 << 20) }, fd = -1;
        unsigned n_there = 0, turn = 0;
        bool is_awaited = true;

        for (; is_awaited && turn < 8; turn++) {
                n_there = 0;
                is_awaited = false;
                for (size_t i = 0; i < ARRAY_SIZE(path_fds); i++) {
                        ObjectFile file = known(path_fds[i]);
                        RemoteState state = remote_files_ask(&file, 0, path_fds[i], &own_fuse, &fd);

                        is_awaited |= state == REMOTE_FILE_AWAITED;
                        n_there += state == REMOTE_FILE_THERE;
                        if (state == REMOTE_FILE_THERE)
                                close(fd);
                }
                if (is_awaited)
                        remote_files_wait();
        }
        cr_assert_not(is_awaited);
        cr_assert_eq(n_there, 1);
        cr_assert_leq(turn, 3);
        remote_files_stop();
}

/* A small control group is charged for the copies, too. */
Test(remote_files, are_left_that_are_longer_than_the_limit) {
        _cleanup_(closep) int path_fd = make_sparse_file("a", 2 << 20), fd = -1;
        ObjectFile file = known(path_fd);

        remote_files_limit((2 << 20) - 1);
        cr_assert_eq(remote_files_ask(&file, 0, path_fd, &own_fuse, &fd), REMOTE_FILE_LEFT);
        remote_files_limit(2 << 20);
        file.ctime_ns++;                /* one that was left stays so for a minute */
        cr_assert_eq(remote_files_ask(&file, 0, path_fd, &own_fuse, &fd), REMOTE_FILE_AWAITED);
        remote_files_stop();
}

static RemoteState ask_for_sparse(unsigned number, off_t size, const MountServer *server, uint64_t device) {
        char name[32];
        _cleanup_(closep) int path_fd = -1, fd = -1;
        ObjectFile file;

        snprintf(name, sizeof(name), "%u-%u", server->user, number);
        path_fd = open(work_path(name), O_PATH | O_CLOEXEC);
        if (path_fd < 0)
                path_fd = make_sparse_file(name, size);
        file = known(path_fd);
        file.device = device;
        return remote_files_ask(&file, 0, path_fd, server, &fd);
}

/* All copies are young: none is older than a minute. A user's second mount is no second share. */
Test(remote_files, of_a_user_with_all_the_room_give_way_to_those_of_another) {
        const MountServer greedy = { .type = "fuse.x", .is_fuse = true, .is_own = true, .has_user = true,
                                     .user = 33 };
        const MountServer honest = { .type = "fuse.x", .is_fuse = true, .is_own = true, .has_user = true,
                                     .user = 34 };
        const off_t size = 16 << 20;
        unsigned n_there = 0;

        stat_reset();
        for (unsigned i = 0; i < 8; i++) {
                cr_assert_eq(ask_for_sparse(i, size, &greedy, 1 + i % 2), REMOTE_FILE_AWAITED, "%u", i);
                remote_files_wait();
        }
        cr_assert_eq(ask_for_sparse(8, size, &greedy, 3), REMOTE_FILE_LEFT, "its share is all that there is");
        for (unsigned i = 0; i < 4; i++) {
                cr_assert_eq(ask_for_sparse(i, size, &honest, 4), REMOTE_FILE_AWAITED, "%u", i);
                remote_files_wait();
                cr_assert_eq(ask_for_sparse(i, size, &honest, 4), REMOTE_FILE_THERE, "%u", i);
        }
        cr_assert_eq(stat_get(COUNTER_OBJECTS_EVICTED), 4);
        cr_assert_eq(ask_for_sparse(4, size, &honest, 4), REMOTE_FILE_LEFT, "both have a half");
        for (unsigned i = 0; i < 8; i++)
                n_there += ask_for_sparse(i, size, &greedy, 1 + i % 2) == REMOTE_FILE_THERE;
        cr_assert_eq(n_there, 4, "none takes a place back");
        remote_files_stop();
}

Test(remote_files, many_at_once_wait_for_their_turn) {
        int path_fds[2 * REMOTE_READER_MAX_COPIES], fd = -1;
        unsigned n_there = 0;
        char name[16];

        for (unsigned i = 0; i < ARRAY_SIZE(path_fds); i++) {
                snprintf(name, sizeof(name), "%u", i);
                path_fds[i] = make_file(name, 8192);
        }
        for (unsigned turn = 0; turn < ARRAY_SIZE(path_fds) && n_there < ARRAY_SIZE(path_fds); turn++) {
                n_there = 0;
                for (unsigned i = 0; i < ARRAY_SIZE(path_fds); i++) {
                        ObjectFile file = known(path_fds[i]);
                        RemoteState state = remote_files_ask(&file, 0, path_fds[i], &own_fuse, &fd);

                        cr_assert_neq(state, REMOTE_FILE_LEFT);
                        n_there += state == REMOTE_FILE_THERE;
                        if (state == REMOTE_FILE_THERE)
                                close(fd);
                }
                remote_files_wait();
        }
        cr_assert_eq(n_there, ARRAY_SIZE(path_fds));
        remote_files_stop();
}
