/* SPDX-License-Identifier: Apache-2.0 */

/* The inside of a zygote (zygotes.c). No byte that a target wrote is seen here. */

#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/sandbox/channel.h"
#include "core/base/sandbox/sandbox.h"
#include "core/base/sandbox/zygotes.h"
#include "core/base/util/macro.h"
#include "core/base/util/short-turns.h"

enum {
        SOCKET_FD = 3,
        /* behind the daemon, whose samples do not wait; each worker has it from us */
        NICE = 5,
};

static void become_worker(int own, int socket, void (*work)(int socket)) {
        for (int fd = 0; fd < SOCKET_FD; fd++)
                close(fd);
        close(own);
        if (sandbox_enter_worker() == 0)
                work(socket);
        _exit(1);
}

/* Without the library's fork(), which has more to do than we are allowed. */
static int32_t fork_sibling(void) {
        long pid = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);

        return pid < 0 ? -errno : (int32_t)pid;
}

static void fork_worker(int own, uint32_t serial, int socket, void (*work)(int socket)) {
        ZygoteReply reply = { .serial = serial, .pid = fork_sibling() };

        if (reply.pid == 0)
                become_worker(own, socket, work);
        close(socket);
        if (channel_send(own, &reply, sizeof(reply), -1) < 0)
                _exit(1);
}

static void say_hello(int own, int32_t pid) {
        const ZygoteReply hello = { .serial = ZYGOTE_HELLO, .pid = pid };

        if (channel_send(own, &hello, sizeof(hello), -1) < 0 || pid < 0)
                _exit(1);
}

/*
 * The successor has given up what we have. It says hello itself, so it does not matter if we end now. Return:
 * the socket of the process that goes on: ours, or the successor's.
 */
static int fork_successor(int own, int socket) {
        int32_t pid = fork_sibling();

        if (pid != 0) {
                close(socket);
                return own;
        }
        close(own);
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        say_hello(socket, (int32_t)syscall(SYS_getpid));
        return socket;
}

/*
 * Signals for everybody on a terminal or in a control group are the daemon's: it ends us by closing the
 * socket.
 */
static void ignore_signals(void) {
        static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE };

        for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
                signal(signals[i], SIG_IGN);
}

static int compare_numbers(const void *a, const void *b) {
        const uint64_t *x = a, *y = b;

        return *x < *y ? -1 : *x > *y;
}

/* The library's qsort() asks the system once how much memory there is: before the sandbox forbids that. */
static void warm_sorting(void) {
        uint64_t numbers[1024];

        for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
                numbers[i] = ARRAY_SIZE(numbers) - i;
        qsort(numbers, ARRAY_SIZE(numbers), sizeof(numbers[0]), compare_numbers);
}

_Noreturn void zygote_serve(void (*work)(int socket)) {
        int32_t pid = getpid(), r;
        int own = SOCKET_FD;

        prctl(PR_SET_NAME, ZYGOTE_COMM, 0, 0, 0);
        ignore_signals();
        setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + NICE);
        short_turns_take();      /* the daemon waits for answers */
        free(malloc(1));                /* the allocator asks the system before the sandbox forbids it */
        warm_sorting();
        r = sandbox_enter_zygote();
        say_hello(own, r ? r : pid);
        for (;;) {
                uint32_t serial;
                int socket;

                if (channel_receive(own, &serial, sizeof(serial), &socket, 0) != sizeof(serial))
                        _exit(0);
                if (socket >= 0 && serial == ZYGOTE_SUCCESSOR)
                        own = fork_successor(own, socket);
                else if (socket >= 0)
                        fork_worker(own, serial, socket, work);
        }
}
