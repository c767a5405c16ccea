/* SPDX-License-Identifier: Apache-2.0 */
#include "jail/raiser.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/channel.h"
#include "util/clock.h"
#include "util/error.h"

enum { SOCKET_FD = 3 };                 /* in the other process */

/*
 * Between fork() and exec(): only what is safe in a signal handler. No descriptor but the socket, no environment: the
 * daemon's may hold what a collector wants to see.
 */
static _Noreturn void become_nursery(int socket) {
        static char *const arguments[] = { (char *)NURSERY_NAME, NULL }, *const environment[] = { NULL };
        int null = open("/dev/null", O_RDWR | O_CLOEXEC), moved = fcntl(socket, F_DUPFD_CLOEXEC, SOCKET_FD + 1);

        for (int fd = 0; fd < SOCKET_FD; fd++)
                if (dup2(null, fd) < 0)         /* there is no such device */
                        close(fd);
        if (dup2(moved, SOCKET_FD) == SOCKET_FD && syscall(SYS_close_range, SOCKET_FD + 1, ~0u, 0) == 0)
                execve("/proc/self/exe", arguments, environment);
        _exit(1);
}

/* *farp: the other process' end. */
static int make_channel(Raiser *raiser, int *farp) {
        int ends[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
                return -errno;
        *raiser = (Raiser){ .socket = ends[0], .begin_ns = clock_monotonic_ns() };
        *farp = ends[1];
        return 0;
}

int raiser_start(Raiser *raiser) {
        _cleanup_(closep) int far = -1;
        int r = make_channel(raiser, &far);

        if (r)
                return error_origin(r);
        raiser->pid = fork();
        if (raiser->pid == 0)
                become_nursery(far);
        if (raiser->pid > 0)
                return 0;
        r = -errno;
        raiser_close(raiser);
        return error_origin(r);
}

int raiser_start_successor(Raiser *raiser, const Raiser *parent) {
        _cleanup_(closep) int far = -1;
        int r = make_channel(raiser, &far);

        if (!r)
                r = raiser_order(parent, NURSERY_SUCCESSOR, far);
        if (r)
                raiser_close(raiser);
        return r;
}

int raiser_order(const Raiser *raiser, uint32_t serial, int socket) {
        return channel_send(raiser->socket, &serial, sizeof(serial), socket);
}

/* Is it told the truth? Of its own id, as of others': a child of ours that lives. */
static int greet(Raiser *raiser, const NurseryReply *hello) {
        if (hello->serial != NURSERY_HELLO || hello->pid <= 1 || (raiser->pid && raiser->pid != hello->pid) ||
            waitpid(hello->pid, NULL, WNOHANG) != 0)
                return RAISER_E_GONE;
        raiser->pid = hello->pid;
        raiser->is_up = true;
        return RAISER_E_NOTHING;
}

int raiser_receive(Raiser *raiser, NurseryReply *reply) {
        for (;;) {
                ssize_t n = channel_receive(raiser->socket, reply, sizeof(*reply), NULL, MSG_DONTWAIT);

                if (n == -EAGAIN)
                        return RAISER_E_NOTHING;
                if (n != sizeof(*reply))
                        return RAISER_E_GONE;
                if (raiser->is_up)
                        return 0;
                if (greet(raiser, reply) == RAISER_E_GONE)
                        return RAISER_E_GONE;
        }
}

void raiser_close(Raiser *raiser) {
        closep(&raiser->socket);
        *raiser = (Raiser){ .socket = -1 };
}
