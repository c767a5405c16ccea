/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Real workers. The zygotes is this program once more: under that name it does what a request's first byte
 * says, before criterion sees anything of it.
 */

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "core/base/file/file.h"
#include "core/base/sandbox/channel.h"
#include "core/base/sandbox/helper.h"
#include "core/base/util/clock.h"
#include "core/base/util/stat.h"
#include "stat-reset.h"

#define TIME_LIMIT_NS (60 * NS_PER_SEC)

static int try_fork(void) {
        return (int)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

/* What no worker may; each of them is its end, before it can say that it was not. */
static void misbehave(char how) {
        struct rlimit limit = { 1 << 30, 1 << 30 };
        char *argv[] = { (char *)"/bin/true", NULL };

        switch (how) {
        case 'o': syscall(SYS_openat, AT_FDCWD, "/etc/passwd", O_RDONLY); break;
        case 'w': (void)!write(1, "x", 1); break;
        case 's': syscall(SYS_socket, AF_INET, SOCK_STREAM, 0); break;
        case 'c': syscall(SYS_connect, 0, NULL, 0); break;
        case 'x': execv(argv[0], argv); break;
        case 'f': try_fork(); break;
        case 'k': syscall(SYS_kill, getppid(), 0); break;
        case 'p': syscall(SYS_ptrace, PTRACE_TRACEME, 0, NULL, NULL); break;
        case 'r': syscall(SYS_process_vm_readv, 1, NULL, 0, NULL, 0, 0); break;
        case 'm':
                syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                break;
        case 'M':
                syscall(SYS_mprotect, (uintptr_t)misbehave & ~4095UL, 4096,
                        PROT_READ | PROT_WRITE | PROT_EXEC);
                break;
        case 'b': syscall(SYS_bpf, 0, NULL, 0); break;
        case 'l': syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &limit, NULL); break;
        case 'u': syscall(SYS_setresuid, 0, 0, 0); break;
        case 'n': syscall(SYS_memfd_create, "x", 0); break;
        case 'd': syscall(SYS_dup, 0); break;
#ifdef __x86_64__
        case '3': __asm__ volatile("int $0x80" : : "a"(20)); break;             /* getpid of the other ABI */
#endif
        }
}

static const char misdeeds[] = "owscxfkprmMblund";

/* The file's first bytes, which the descriptor that came leads to. */
static void answer_file(int socket, int fd) {
        char text[16];
        ssize_t n = pread(fd, text, sizeof(text), 0);

        channel_send(socket, text, (size_t)(n > 0 ? n : 0), -1);
}

/* libdw asks this, and goes on without an answer. */
static void answer_refusal(int socket) {
        char text[16];

        if (readlinkat(AT_FDCWD, "/proc/self/exe", text, sizeof(text)) < 0 && errno == EACCES)
                channel_send(socket, "no", 2, -1);
}

static void work(int socket) {
        char how;
        int fd;

        if (channel_receive(socket, &how, sizeof(how), &fd, 0) != sizeof(how))
                _exit(0);
        if (how == 'e')
                answer_file(socket, fd);
        else if (how == 'L')
                answer_refusal(socket);
        else if (how == 'z')
                *(volatile int *)NULL = 1;
        else if (how == 'h')
                for (;;)
                        poll(NULL, 0, 1000);
        else if (how == 'i')
                for (volatile int i = 0;;)
                        i = 1 - i;
        else {
                misbehave(how);
                channel_send(socket, "alive", 5, -1);
        }
        _exit(0);
}

__attribute__((__constructor__)) static void become_zygote(int argc, char **argv) {
        if (argc == 1 && !strcmp(argv[0], ZYGOTE_NAME))
                zygote_serve(work);
}

static Zygotes *zygotes;
static Helper *helper;

static void setup(void) {
        stat_reset();
        cr_assert_eq(zygotes_new(&zygotes), 0);
        cr_assert_eq(zygotes_wait(zygotes, 60000), 0);
        cr_assert_eq(helper_new(&helper, zygotes), 0);
}

static void teardown(void) {
        helper = helper_free(helper);
        zygotes = zygotes_free(zygotes);
        cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1, "a child is left");
}

TestSuite(sandbox, .init = setup, .fini = teardown);

/* One request; *textp: what came until the worker's end or @n bytes. */
static int ask(char how, int fd, uint64_t timeout_ns, char *text, size_t room, size_t *np) {
        uint64_t end_ns = clock_monotonic_ns() + TIME_LIMIT_NS;
        int r;

        helper_ask(helper, &how, 1, fd, timeout_ns);
        for (;;) {
                struct pollfd wait = { .fd = helper_fd(helper), .events = POLLIN };

                r = helper_read(helper, text, room, np);
                if (r != HELPER_E_WAIT)
                        return r;
                cr_assert_lt(clock_monotonic_ns(), end_ns, "nothing happens");
                poll(&wait, 1, 1000);
        }
}

static void expect_an_answer(void) {
        int r;
        int fd = memfd_create("test", MFD_CLOEXEC);
        char text[16];
        size_t n = 0;

        cr_assert_eq(write(fd, "file", 4), 4);
        r = ask('e', fd, TIME_LIMIT_NS, text, sizeof(text), &n);
        cr_assert_eq(r, 0, "%d", r);
        cr_assert_eq(n, 4);
        cr_assert_eq(memcmp(text, "file", 4), 0);
        helper_done(helper, false);
        close(fd);
}

Test(sandbox, a_worker_reads_what_it_is_given_and_each_request_has_its_own) {
        for (int i = 0; i < 20; i++)
                expect_an_answer();
        cr_assert_geq(stat_get(COUNTER_WORKERS_STARTED), 20);
        cr_assert_eq(stat_get(COUNTER_WORKERS_DIED), 0);
}

Test(sandbox, a_forbidden_call_is_the_end_of_a_worker_and_of_nothing_else) {
        for (size_t i = 0; i < strlen(misdeeds); i++) {
                char text[16];
                size_t n;

                cr_assert_eq(ask(misdeeds[i], -1, TIME_LIMIT_NS, text, sizeof(text), &n), HELPER_E_DIED,
                             "'%c' is allowed", misdeeds[i]);
                cr_assert_eq(stat_get(COUNTER_WORKERS_DIED), i + 1);
                expect_an_answer();
        }
}

Test(sandbox, a_call_that_a_library_makes_for_nothing_is_refused) {
        char text[16];
        size_t n = 0;

        cr_assert_eq(ask('L', -1, TIME_LIMIT_NS, text, sizeof(text), &n), 0);
        cr_assert_eq(n, 2);
        cr_assert_eq(memcmp(text, "no", 2), 0);
        helper_done(helper, false);
        expect_an_answer();
}

#ifdef __x86_64__
Test(sandbox, the_other_abi_is_forbidden) {
        char text[16];
        size_t n;

        cr_assert_eq(ask('3', -1, TIME_LIMIT_NS, text, sizeof(text), &n), HELPER_E_DIED);
}
#endif

Test(sandbox, a_worker_that_crashes_is_replaced) {
        char text[16];
        size_t n;

        for (int i = 0; i < 3; i++)
                cr_assert_eq(ask('z', -1, TIME_LIMIT_NS, text, sizeof(text), &n), HELPER_E_DIED);
        expect_an_answer();
}

Test(sandbox, a_worker_that_hangs_or_spins_is_killed_when_its_time_is_over) {
        char text[16];
        size_t n;

        cr_assert_eq(ask('h', -1, 50 * NS_PER_MS, text, sizeof(text), &n), HELPER_E_LATE);
        cr_assert_eq(ask('i', -1, 50 * NS_PER_MS, text, sizeof(text), &n), HELPER_E_LATE);
        expect_an_answer();
}

/* The line of /proc/PID/status behind @name. */
static void read_status(int32_t pid, const char *name, char *value) {
        char path[64], *text, *at;
        size_t size;

        snprintf(path, sizeof(path), "/proc/%d/status", pid);
        cr_assert_eq(file_read(path, 1 << 16, &text, &size), 0);
        at = strstr(text, name);
        cr_assert_not_null(at);
        cr_assert_eq(sscanf(at + strlen(name), "%31s", value), 1);
        free(text);
}

Test(sandbox, the_nursery_has_no_rights_either) {
        static const char *const none[] = { "\nCapInh:", "\nCapPrm:", "\nCapEff:", "\nCapAmb:" };
        char value[32];

        for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
                read_status(zygotes_pid(zygotes, 0), none[i], value);
                cr_expect_eq(strtoull(value, NULL, 16), 0, "%s %s", none[i], value);
        }
        read_status(zygotes_pid(zygotes, 0), "\nSeccomp:", value);
        cr_expect_str_eq(value, "2");
        read_status(zygotes_pid(zygotes, 0), "\nNoNewPrivs:", value);
        cr_expect_str_eq(value, "1");
}

Test(sandbox, nothing_of_our_environment_goes_along) {
        char path[64], *text;
        size_t size;

        snprintf(path, sizeof(path), "/proc/%d/environ", zygotes_pid(zygotes, 0));
        if (file_read(path, 1 << 16, &text, &size) != 0)
                cr_skip_test("root: needs to read what is not dumpable");
        cr_assert_eq(size, 0);
        free(text);
}

/* All children of ours, at once. */
static void signal_children(int signal) {
        char path[64], *text, *at;
        size_t size;

        snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
        cr_assert_eq(file_read(path, 1 << 16, &text, &size), 0);
        for (at = text; *at;)
                kill((pid_t)strtol(at, &at, 10), signal), at += strspn(at, " ");
        free(text);
}

static void wait_replaced(uint64_t n) {
        uint64_t end_ns = clock_monotonic_ns() + TIME_LIMIT_NS;

        while (stat_get(COUNTER_NURSERIES_REPLACED) < n) {
                struct pollfd wait = { .fd = helper_fd(helper), .events = POLLIN };

                cr_assert_lt(clock_monotonic_ns(), end_ns, "nobody takes its place");
                poll(&wait, 1, 1000);
                helper_tend(helper);
        }
}

Test(sandbox, a_nursery_that_is_killed_is_replaced_again_and_again) {
        for (uint64_t i = 0; i < 8; i++) {
                pid_t pid = zygotes_pid(zygotes, 0);

                cr_assert_gt(pid, 1);
                cr_assert_eq(kill(pid, SIGKILL), 0);
                expect_an_answer();
                wait_replaced(i + 1);
                cr_assert_neq(zygotes_pid(zygotes, 0), pid);
                cr_assert(zygotes_is_ours(zygotes, (uint32_t)pid, NULL), "its samples may still be on their way");
        }
}

Test(sandbox, one_that_is_stopped_is_as_good_as_gone) {
        pid_t pid = zygotes_pid(zygotes, 0);

        cr_assert_gt(pid, 1);
        cr_assert_eq(kill(pid, SIGSTOP), 0);
        for (int i = 0; i < 4; i++)     /* more than there are workers ahead */
                expect_an_answer();
        wait_replaced(1);
        cr_assert_neq(zygotes_pid(zygotes, 0), pid);
        expect_an_answer();
}

Test(sandbox, without_any_zygote_a_request_fails_at_once) {
        char text[16];
        size_t n;
        int r;

        expect_an_answer();
        while (zygotes_is_there(zygotes)) {
                signal_children(SIGKILL);
                helper_tend(helper);
        }
        do              /* the one that was started ahead may still answer */
                r = ask('h', -1, 50 * NS_PER_MS, text, sizeof(text), &n);
        while (r == HELPER_E_LATE || r == HELPER_E_DIED);
        cr_assert_eq(r, HELPER_E_GONE);
        cr_assert_eq(zygotes_pid(zygotes, 0), 0);
}

Test(sandbox, workers_are_known_as_ours_also_a_while_after_their_end) {
        char text[16];
        size_t n;

        cr_assert(zygotes_is_ours(zygotes, (uint32_t)zygotes_pid(zygotes, 0), NULL));
        cr_assert(zygotes_is_ours(zygotes, (uint32_t)zygotes_pid(zygotes, 0), ZYGOTE_COMM));
        cr_assert_not(zygotes_is_ours(zygotes, 1, ZYGOTE_COMM));
        cr_assert_not(zygotes_is_ours(zygotes, (uint32_t)getpid(), NULL));
        cr_assert_eq(ask('z', -1, TIME_LIMIT_NS, text, sizeof(text), &n), HELPER_E_DIED);
        cr_assert_gt(zygotes_cpu_ns(zygotes), 0);
        cr_assert_gt(zygotes_resident_bytes(zygotes), 0);
}
