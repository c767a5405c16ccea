/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/symbol/object/mounts.h"

static const char text[] =
        "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
        "36 35 254:0 /mnt1 / rw,noatime master:1 shared:7 - ext4 /dev/root rw,errors=continue\n"
        "40 36 0:45 / /home/u/mnt\\040x rw,nosuid - fuse.sshfs u@host:/ rw,user_id=0\n"
        "41 36 0:46 / /f rw - fuse.x - rw\n"
        "42 36 8:17 / /ntfs rw - fuseblk /dev/sdb1 rw\n"
        "43 36 0:47 / /n rw - nfs4 server:/x rw\n"
        "44 36 0:48 / /o rw - overlay overlay rw,lowerdir=/a - b:/c\n"
        "45 36 0:49 / /r rw - fuser x rw\n"
        "46 36 0:50 / /twice rw - tmpfs x rw\n"
        "47 36 0:50 / /twice rw - 9p x rw\n"
        "48 36 0:5";

static MountKind find(uint32_t major, uint32_t minor) {
        return mounts_find(text, sizeof(text) - 1, major, minor);
}

Test(mounts, tells_local_from_remote_by_type) {
        cr_assert_eq(find(0, 21), MOUNT_LOCAL);
        cr_assert_eq(find(254, 0), MOUNT_LOCAL);
        cr_assert_eq(find(0, 45), MOUNT_REMOTE);
        cr_assert_eq(find(0, 46), MOUNT_REMOTE);
        cr_assert_eq(find(8, 17), MOUNT_REMOTE);
        cr_assert_eq(find(0, 47), MOUNT_REMOTE);
        cr_assert_eq(find(0, 48), MOUNT_LOCAL);
        cr_assert_eq(find(0, 49), MOUNT_LOCAL);         /* a type that only starts like one */
        cr_assert_eq(find(0, 50), MOUNT_REMOTE);        /* in doubt */
}

Test(mounts_find_server, says_who_has_mounted_a_fuse) {
        static const char users[] = "1 1 0:9 / /x rw - fuse.squashfuse s rw,user_id=1000,group_id=100,allow_other\n"
                                    "2 1 0:10 / /y rw - nfs4 s:/user_id=7 rw,user_id=3,group_id=4\n"
                                    "3 1 0:11 / /z rw - fuse.x s rw,user_id=5";
        MountServer server = { .type = "as it was" };

        cr_assert(!mounts_find_server(users, sizeof(users) - 1, 0, 12, &server));
        cr_assert_str_eq(server.type, "as it was");
        cr_assert(mounts_find_server(users, sizeof(users) - 1, 0, 9, &server));
        cr_assert_str_eq(server.type, "fuse.squashfuse");
        cr_assert(server.is_fuse && server.has_user);
        cr_assert_eq(server.user, 1000);
        cr_assert_eq(server.group, 100);
        cr_assert(mounts_find_server(users, sizeof(users) - 1, 0, 10, &server));
        cr_assert(!server.is_fuse && !server.has_user);
        cr_assert(mounts_find_server(users, sizeof(users) - 1, 0, 11, &server));
        cr_assert(server.is_fuse && !server.has_user, "without the group");
}

/* Who mounts a FUSE writes its subtype and its source; the last options are the kernel's text. */
Test(mounts_find_server, takes_the_user_from_the_options_of_the_kernel_alone) {
        static const char users[] =
                "1 1 0:9 / /x rw - fuse user_id=33,group_id=33 rw,user_id=1000,group_id=100\n"
                "2 1 0:10 / /y rw - fuse.user_id=33,group_id=33 s rw,user_id=1000,group_id=100\n"
                "3 1 0:11 / /z rw - fuse user_id=33,group_id=33 rw,relatime\n"
                "4 1 0:12 / /w rw - fuse s rw,xuser_id=33,user_id=1000,group_id=100\n"
                "5 1 0:13 / /v rw - fuse  rw,user_id=1000,group_id=100\n"
                "6 1 0:14 / /u rw - fuse s rw,user_id=1000x,group_id=100\n"
                "7 1 0:15 / /t rw - fuse.user_id=33,group_id=33";

        for (uint32_t minor = 9; minor <= 15; minor++) {
                MountServer server = { 0 };

                cr_assert(mounts_find_server(users, sizeof(users) - 1, 0, minor, &server));
                cr_assert(server.is_fuse);
                cr_assert_eq(server.has_user, minor != 11 && minor < 14, "%u", minor);
                if (server.has_user)
                        cr_assert(server.user == 1000 && server.group == 100, "%u", minor);
        }
}

Test(mounts_find_remote, says_the_type_of_what_is_remote_and_nothing_else) {
        static const char long_line[] = "1 1 0:9 / /x rw - fuse.a-name-of-a-type-that-is-long s rw\n";
        char type[MOUNTS_TYPE_SIZE] = "as it was";

        cr_assert(!mounts_find_remote(text, sizeof(text) - 1, 254, 0, type));
        cr_assert(!mounts_find_remote(text, sizeof(text) - 1, 0, 2, type));
        cr_assert_str_eq(type, "as it was");
        cr_assert(mounts_find_remote(text, sizeof(text) - 1, 0, 45, type));
        cr_assert_str_eq(type, "fuse.sshfs");
        cr_assert(mounts_find_remote(text, sizeof(text) - 1, 0, 50, type));
        cr_assert_str_eq(type, "9p");
        cr_assert(mounts_find_remote(long_line, sizeof(long_line) - 1, 0, 9, type));
        cr_assert_str_eq(type, "fuse.a-name-of-a-type-t");
}

Test(mounts, does_not_know_what_is_not_listed) {
        cr_assert_eq(find(0, 2), MOUNT_UNKNOWN);
        cr_assert_eq(find(0, 5), MOUNT_UNKNOWN);        /* the last line is cut */
        cr_assert_eq(find(36, 35), MOUNT_UNKNOWN);      /* other columns */
        cr_assert_eq(mounts_find("", 0, 0, 0), MOUNT_UNKNOWN);
        cr_assert_eq(mounts_find("\n \n  \n - \n", 10, 0, 0), MOUNT_UNKNOWN);
}

Test(mounts, stays_inside_of_any_prefix) {
        for (size_t n = 0; n < sizeof(text); n++) {
                char *copy = malloc(n ? n : 1);

                memcpy(copy, text, n);
                mounts_find(copy, n, 0, 50);
                free(copy);
        }
}

/* /proc is where it is, and is mounted as itself. */
Test(mounts, of_a_process_are_read_once) {
        int proc_fd = open("/proc/self", O_RDONLY | O_DIRECTORY), nobodys = open("/", O_RDONLY | O_DIRECTORY);
        Mounts mounts = { 0 };
        struct stat st;

        cr_assert(proc_fd >= 0 && nobodys >= 0 && !fstat(proc_fd, &st));
        cr_expect_eq(mounts_of_process(&mounts, proc_fd, major(st.st_dev), minor(st.st_dev)), MOUNT_LOCAL);
        cr_expect(mounts.is_held && !mounts.text, "our own namespace is held");
        cr_expect_eq(mounts_of_process(&mounts, nobodys, major(st.st_dev), minor(st.st_dev)), MOUNT_LOCAL);
        mounts.is_held = false;
        cr_expect_eq(mounts_of_process(&mounts, nobodys, major(st.st_dev), minor(st.st_dev)), MOUNT_LOCAL,
                     "the answer is known");
        mounts_renew(&mounts);
        cr_expect_eq(mounts_of_process(&mounts, nobodys, major(st.st_dev), minor(st.st_dev)), MOUNT_UNKNOWN,
                     "the list is asked again");
        mounts_deinit(&mounts);
        cr_expect_eq(mounts_of_process(&mounts, nobodys, major(st.st_dev), minor(st.st_dev)), MOUNT_UNKNOWN,
                     "no process is there");
        mounts_deinit(&mounts);
        close(proc_fd);
        close(nobodys);
}

/* What is mounted, and what was, in a namespace of our own. */
Test(mounts, held_ones_follow_changes) {
        char directory[] = "/tmp/spanprof-mounts-XXXXXX";
        struct stat st;

        if (geteuid() || unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
                cr_skip_test("root: only root may mount");
        cr_assert(mkdtemp(directory));
        cr_expect_eq(mounts_of_us(0, 0xfffff), MOUNT_UNKNOWN);
        for (int round = 0; round < 2; round++) {
                cr_assert(!mount("none", directory, "tmpfs", 0, NULL) && !stat(directory, &st));
                cr_expect_eq(mounts_of_us(major(st.st_dev), minor(st.st_dev)), MOUNT_LOCAL, "%d", round);
                cr_assert(!umount(directory));
                cr_expect_eq(mounts_of_us(major(st.st_dev), minor(st.st_dev)), MOUNT_UNKNOWN, "%d", round);
        }
        rmdir(directory);
}

/* A process that left our namespace is asked for its own list. */
Test(mounts, of_another_namespace_are_its_own) {
        char directory[] = "/tmp/spanprof-mounts-XXXXXX", path[32];
        int pipes[2], proc_fd;
        Mounts mounts = { 0 };
        dev_t device = 0;
        pid_t child;

        if (geteuid())
                cr_skip_test("root: only root may mount");
        cr_assert(mkdtemp(directory) && !pipe(pipes));
        child = fork();
        if (!child) {
                struct stat st = { 0 };

                if (!unshare(CLONE_NEWNS) && !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
                    !mount("none", directory, "tmpfs", 0, NULL))
                        stat(directory, &st);
                if (write(pipes[1], &st.st_dev, sizeof(st.st_dev)) > 0)
                        pause();
                _exit(1);
        }
        cr_assert_eq(read(pipes[0], &device, sizeof(device)), sizeof(device));
        snprintf(path, sizeof(path), "/proc/%d", (int)child);
        proc_fd = open(path, O_RDONLY | O_DIRECTORY);
        if (device) {
                cr_expect_eq(mounts_of_us(major(device), minor(device)), MOUNT_UNKNOWN);
                cr_expect_eq(mounts_of_process(&mounts, proc_fd, major(device), minor(device)), MOUNT_LOCAL);
                cr_expect(mounts.text && !mounts.is_held);
        }
        mounts_deinit(&mounts);
        close(proc_fd);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        rmdir(directory);
        if (!device)
                cr_skip_test("root: no namespace may be made here");
}
