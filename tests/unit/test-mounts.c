/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "sampling/process/mounts.h"

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
        const char *first;
        struct stat st;

        cr_assert(proc_fd >= 0 && nobodys >= 0 && !fstat(proc_fd, &st));
        cr_expect_eq(mounts_of_process(&mounts, proc_fd, major(st.st_dev), minor(st.st_dev)), MOUNT_LOCAL);
        first = mounts.text;
        cr_expect_eq(mounts_of_process(&mounts, nobodys, major(st.st_dev), minor(st.st_dev)), MOUNT_LOCAL);
        cr_expect_eq(mounts.text, first);
        mounts_deinit(&mounts);
        cr_expect_eq(mounts_of_process(&mounts, nobodys, major(st.st_dev), minor(st.st_dev)), MOUNT_UNKNOWN,
                     "no process is there");
        mounts_deinit(&mounts);
        close(proc_fd);
        close(nobodys);
}
