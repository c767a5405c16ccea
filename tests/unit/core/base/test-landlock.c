/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/sandbox/landlock.h"

/* Each case has a process of its own, so that the rules end with it. */

static char inside[64], outside[64];

static void make_directories(void) {
        snprintf(inside, sizeof(inside), "/tmp/test-landlock-XXXXXX");
        snprintf(outside, sizeof(outside), "/tmp/test-landlock-XXXXXX");
        cr_assert_not_null(mkdtemp(inside));
        cr_assert_not_null(mkdtemp(outside));
}

/* What the confined process leaves cannot be removed by it. */
static void remove_directories(void) {
        rmdir(inside);
        rmdir(outside);
}

TestSuite(landlock, .init = make_directories);

static int child_status(void (*func)(void)) {
        int status;
        pid_t pid = fork();

        cr_assert_geq(pid, 0);
        if (!pid) {
                func();
                _exit(0);
        }
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        return status;
}

/* 77 = this kernel has none. */
static void enter(bool connects) {
        int r = landlock_enter(&(Landlock){ inside, connects });

        if (r)
                _exit(r == LANDLOCK_E_ABSENT ? 77 : 1);
}

static int create(const char *directory) {
        char path[128];
        int fd;

        snprintf(path, sizeof(path), "%s/file", directory);
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0)
                return errno;
        close(fd);
        return unlink(path) ? errno : 0;
}

static void write_below(void) {
        enter(false);
        if (create(inside))
                _exit(2);
        if (create(outside) != EACCES)
                _exit(3);
        if (!rmdir(outside) || errno != EACCES)
                _exit(4);
        if (access("/etc/passwd", R_OK))
                _exit(5);
}

static void judge(int status) {
        remove_directories();
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
                cr_skip_test("machine: this kernel has no Landlock");
        cr_assert_eq(status, 0, "status %x", status);
}

Test(landlock, changes_one_directory_alone) {
        judge(child_status(write_below));
}

/* The connection to a closed port says how far it came. */
static int connect_error(void) {
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(1),
                                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
                return 0;
        return errno;
}

static void connect_when_allowed(void) {
        enter(true);
        if (connect_error() == EACCES)
                _exit(2);
}

Test(landlock, lets_connect_who_forwards) {
        judge(child_status(connect_when_allowed));
}

static void refuse_missing(void) {
        int r = landlock_enter(&(Landlock){ "/nowhere", false });

        _exit(r == LANDLOCK_E_ABSENT ? 77 : r == -ENOENT ? 0 : 2);
}

Test(landlock, says_that_the_directory_is_missing) {
        judge(child_status(refuse_missing));
}
