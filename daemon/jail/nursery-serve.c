/* SPDX-License-Identifier: Apache-2.0 */

/* The other process of nursery.h: it sees no byte that a target wrote. */

#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jail/channel.h"
#include "jail/jail.h"
#include "jail/nursery.h"

enum { SOCKET_FD = 3 };

static void become_worker(int socket, void (*work)(int socket)) {
        for (int fd = 0; fd <= SOCKET_FD; fd++)
                close(fd);
        if (jail_enter_worker() == 0)
                work(socket);
        _exit(1);
}

/* Without the library's fork(), which has more to do than we are allowed. */
static int32_t fork_sibling(void) {
        long pid = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);

        return pid < 0 ? -errno : (int32_t)pid;
}

static void serve_one(uint32_t serial, int socket, void (*work)(int socket)) {
        NurseryReply reply = { .serial = serial, .pid = fork_sibling() };

        if (reply.pid == 0)
                become_worker(socket, work);
        close(socket);
        if (channel_send(SOCKET_FD, &reply, sizeof(reply), -1) < 0)
                _exit(1);
}

/* Signals for everybody on a terminal or in a control group are the daemon's: it ends us by closing the socket. */
static void ignore_signals(void) {
        static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE };

        for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
                signal(signals[i], SIG_IGN);
}

_Noreturn void nursery_serve(void (*work)(int socket)) {
        NurseryReply hello = { 0 };

        prctl(PR_SET_NAME, NURSERY_COMM, 0, 0, 0);
        ignore_signals();
        free(malloc(1));                /* what the allocator asks of the system once, it has asked */
        hello.pid = jail_enter_nursery();
        if (channel_send(SOCKET_FD, &hello, sizeof(hello), -1) < 0 || hello.pid)
                _exit(1);
        for (;;) {
                uint32_t serial;
                int socket;

                if (channel_receive(SOCKET_FD, &serial, sizeof(serial), &socket, 0) != sizeof(serial))
                        _exit(0);
                if (socket >= 0)
                        serve_one(serial, socket, work);
        }
}
