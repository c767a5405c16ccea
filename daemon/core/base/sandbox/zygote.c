/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Starts one zygote, as a fork of this process that executes this program again or as a fork of an older
 * zygote, and believes its first message only if it names a living child.
 */

#include "core/base/sandbox/zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/file/file.h"
#include "core/base/sandbox/channel.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"

enum { SOCKET_FD = 3 };                 /* in the other process */

/*
 * Between fork() and exec(): only what is safe in a signal handler. No descriptor but the socket, no
 * environment: the daemon's may hold what a collector wants to see.
 */
static _Noreturn void become_zygote(int socket) {
        static char *const arguments[] = { (char *)ZYGOTE_NAME, NULL }, *const environment[] = { NULL };
        int null = file_open_null(O_RDWR),
            moved = fcntl(socket, F_DUPFD_CLOEXEC, SOCKET_FD + 1);

        for (int fd = 0; fd < SOCKET_FD; fd++)
                if (dup2(null, fd) < 0)         /* there is no such device */
                        close(fd);
        if (dup2(moved, SOCKET_FD) == SOCKET_FD && syscall(SYS_close_range, SOCKET_FD + 1, ~0u, 0) == 0)
                execve("/proc/self/exe", arguments, environment);
        _exit(1);
}

/* *farp: the other process' end. */
static int make_channel(Zygote *zygote, int *farp) {
        int ends[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
                return -errno;
        *zygote = (Zygote){ .socket = ends[0], .begin_ns = clock_monotonic_ns() };
        *farp = ends[1];
        return 0;
}

int zygote_start(Zygote *zygote) {
        _cleanup_(closep) int far = -1;
        int r = make_channel(zygote, &far);

        if (r)
                return error_origin(r);
        zygote->pid = fork();
        if (zygote->pid == 0)
                become_zygote(far);
        if (zygote->pid > 0)
                return 0;
        r = -errno;
        zygote_close(zygote);
        return error_origin(r);
}

int zygote_start_successor(Zygote *zygote, const Zygote *parent) {
        _cleanup_(closep) int far = -1;
        int r = make_channel(zygote, &far);

        if (!r)
                r = zygote_order(parent, ZYGOTE_SUCCESSOR, far);
        if (r)
                zygote_close(zygote);
        return r;
}

int zygote_order(const Zygote *zygote, uint32_t serial, int socket) {
        return channel_send(zygote->socket, &serial, sizeof(serial), socket);
}

/* Is it told the truth? Of its own id, as of others': a child of ours that lives. */
static int greet(Zygote *zygote, const ZygoteReply *hello) {
        if (hello->serial != ZYGOTE_HELLO || hello->pid <= 1 || (zygote->pid && zygote->pid != hello->pid) ||
            waitpid(hello->pid, NULL, WNOHANG) != 0)
                return ZYGOTE_SOCKET_E_GONE;
        zygote->pid = hello->pid;
        zygote->is_up = true;
        return ZYGOTE_SOCKET_E_NOTHING;
}

int zygote_receive(Zygote *zygote, ZygoteReply *reply) {
        for (;;) {
                ssize_t n = channel_receive(zygote->socket, reply, sizeof(*reply), NULL, MSG_DONTWAIT);

                if (n == -EAGAIN)
                        return ZYGOTE_SOCKET_E_NOTHING;
                if (n != sizeof(*reply))
                        return ZYGOTE_SOCKET_E_GONE;
                if (zygote->is_up)
                        return 0;
                if (greet(zygote, reply) == ZYGOTE_SOCKET_E_GONE)
                        return ZYGOTE_SOCKET_E_GONE;
        }
}

void zygote_close(Zygote *zygote) {
        closep(&zygote->socket);
        *zygote = (Zygote){ .socket = -1 };
}
