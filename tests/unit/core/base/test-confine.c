/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/base/sandbox/confine.h"

/* Each case has a process of its own, so that the filter ends with it. */
static void setup(void) {
        cr_assert_eq(confine(), 0);
}

TestSuite(confine, .init = setup);

#define assert_refused(_call) \
        do { \
                errno = 0; \
                cr_assert_eq((_call), -1); \
                cr_assert_eq(errno, EPERM); \
        } while (0)

Test(confine, starts_no_program) {
        char *argv[] = { (char *)"/bin/true", NULL };

        assert_refused(execv(argv[0], argv));
        assert_refused(syscall(SYS_execveat, AT_FDCWD, "/bin/true", argv, NULL, 0));
}

Test(confine, writes_no_other_process_and_still_reads_its_own) {
        char from[] = "abc", to[4] = "";
        struct iovec local = { to, 3 }, remote = { from, 3 };

        assert_refused(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
        assert_refused(process_vm_writev(getpid(), &local, 1, &remote, 1, 0));
        cr_assert_eq(process_vm_readv(getpid(), &local, 1, &remote, 1, 0), 3);
        cr_assert_str_eq(to, "abc");
}

Test(confine, changes_no_view_of_the_machine) {
        assert_refused(unshare(CLONE_NEWNS));
        assert_refused(mount("none", "/tmp", "tmpfs", 0, NULL));
        assert_refused(chroot("/"));
        assert_refused(syscall(SYS_setns, 0, 0));
}

Test(confine, loads_nothing_into_the_kernel_and_opens_no_ring) {
        assert_refused(syscall(SYS_finit_module, -1, "", 0));
        assert_refused(syscall(SYS_io_uring_setup, 1, NULL));
        assert_refused(syscall(SYS_keyctl, 0, 0));
}

#ifdef __x86_64__
Test(confine, refuses_the_other_abi) {
        assert_refused(syscall(0x40000000 | SYS_getpid));
}
#endif

static void *in_thread(void *result) {
        char *argv[] = { (char *)"/bin/true", NULL };

        *(int *)result = execv(argv[0], argv) == -1 && errno == EPERM;
        return NULL;
}

Test(confine, holds_in_threads_and_lets_through_what_shipping_needs) {
        pthread_t thread;
        int held = 0, fd;

        cr_assert_eq(pthread_create(&thread, NULL, in_thread, &held), 0);
        pthread_join(thread, NULL);
        cr_assert(held);
        fd = socket(AF_INET, SOCK_STREAM, 0);
        cr_assert_geq(fd, 0);
        close(fd);
        cr_assert_eq(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), 1);
}
