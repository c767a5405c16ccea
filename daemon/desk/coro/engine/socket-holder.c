/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A target writes its wake-up byte with write(), without asking. If the other end were closed by a crash of
 * the engine, the write would end the target by SIGPIPE. So a third process holds each connection open:
 *
 *      target ══ connection ══▶ engine (accepts, reads the bytes)
 *                                 │ 'c' + a second descriptor        one message a connection
 *                                 ▼
 *                               holder (keeps it)
 *      engine ── 't' + pidfd of the command ──▶ holder
 *      engine ── 'q' ──▶ holder                 the engine has ended in order, and removed its files
 *
 * The engine accepts, because its first wake-up comes by the new connection. A holder that waits for a CPU
 * would keep it from that for milliseconds. The holder has the listening socket, too, so a connection that
 * was not accepted yet outlives the engine as well.
 *
 * When the engine is gone, with or without 'q', the holder sets tracer_sleeping to 0, so that targets write
 * no more. It accepts from then on, and stays until the last connection is closed. Without 'q' it waits for
 * the end of the command, too, and then removes the region and the socket. It ignores signals of the
 * terminal, and keeps no output of the engine open.
 */

#include "desk/coro/engine/socket-holder.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "core/base/file/file.h"
#include "core/base/util/error.h"

enum {
        MAX_CONNECTIONS = SOCKET_HOLDER_MAX,
        BACKLOG = 4096,                 /* connections that an engine which is stopped has not accepted */
        CONTROL = 0, LISTENER = 1, TARGET = 2, FIRST = 3,       /* indexes of fds */
};

typedef struct HolderState {
        struct pollfd fds[FIRST + MAX_CONNECTIONS];
        nfds_t n_fds;
        Region *region;
        const char *socket_path, *region_path;
        bool released, alone;           /* the engine has ended in order; its end of the control is closed */
} HolderState;

/* Sends a message with at most one descriptor. */
static int send_fd(int socket, char what, int fd) {
        union { struct cmsghdr header; char room[CMSG_SPACE(sizeof(int))]; } control = { 0 };
        struct iovec data = { &what, 1 };
        struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };

        if (fd >= 0) {
                message.msg_control = &control;
                message.msg_controllen = sizeof(control);
                control.header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
                                                   .cmsg_type = SCM_RIGHTS,
                                                   .cmsg_len = CMSG_LEN(sizeof(int)) };
                memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
        }
        return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 ? 0 : -1;
}

/* Return: 1 = a message, 0 = the other end is gone, -1 = none now. */
static int receive_fd(int socket, char *whatp, int *fdp) {
        union { struct cmsghdr header; char room[CMSG_SPACE(sizeof(int))]; } control = { 0 };
        struct iovec data = { whatp, 1 };
        struct msghdr message = {
                .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
        };
        ssize_t n = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

        *fdp = -1;
        if (n == 1 && message.msg_controllen >= CMSG_LEN(sizeof(int)) &&
            control.header.cmsg_type == SCM_RIGHTS)
                memcpy(fdp, CMSG_DATA(&control.header), sizeof(*fdp));
        return n == 1 ? 1 : n == 0 || (errno != EAGAIN && errno != EINTR) ? 0 : -1;
}

/* There is room: whoever hands one over has no more of them, and sees no end of one before we do. */
static void keep(HolderState *state, int fd) {
        if (state->n_fds < ARRAY_SIZE(state->fds))
                state->fds[state->n_fds++] = (struct pollfd){ .fd = fd, .events = POLLRDHUP };
        else
                close(fd);
}

/* The engine is gone and scans no more: targets need not wake it. */
static void be_alone(HolderState *state) {
        close(state->fds[CONTROL].fd);
        state->fds[CONTROL].fd = -1;
        state->alone = true;
        __atomic_store_n(&state->region->header->tracer_sleeping, 0, __ATOMIC_SEQ_CST);
}

static void hear(HolderState *state) {
        char what = 0;
        int fd, r = receive_fd(state->fds[CONTROL].fd, &what, &fd);

        if (r == 1 && what == 'q')
                state->released = true;
        else if (r == 1 && fd >= 0 && what == 'c')
                keep(state, fd);
        else if (r == 1 && fd >= 0)
                state->fds[TARGET].fd = fd;
        else if (r == 0)
                be_alone(state);
}

static void remove_file(const char *path, const struct stat *was) {
        struct stat st;

        if (!lstat(path, &st) && st.st_dev == was->st_dev && st.st_ino == was->st_ino)
                unlink(path);
}

static bool is_over(const HolderState *state) {
        return state->alone && state->n_fds == FIRST && (state->released || state->fds[TARGET].fd < 0);
}

static void hold(HolderState *state) {
        int fd;

        while (!is_over(state)) {
                bool accepts = state->alone && state->n_fds < ARRAY_SIZE(state->fds);

                state->fds[LISTENER].events = accepts ? POLLIN : 0;
                if (poll(state->fds, state->n_fds, -1) < 0)
                        continue;
                for (nfds_t i = state->n_fds; i-- > FIRST;)
                        if (state->fds[i].revents) {
                                close(state->fds[i].fd);
                                state->fds[i] = state->fds[--state->n_fds];
                        }
                if (state->fds[CONTROL].revents)
                        hear(state);
                if (accepts && state->fds[LISTENER].revents & POLLIN &&
                    (fd = accept4(state->fds[LISTENER].fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
                        keep(state, fd);
                if (state->fds[TARGET].fd >= 0 && state->fds[TARGET].revents)
                        state->fds[TARGET].fd = -1;
        }
}

/*
 * Readers of the engine's output wait for its end: the holder must not keep it open. Nor may Ctrl-C end it.
 */
static void detach(void) {
        static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2, SIGTSTP };
        int null = file_open_null(O_RDWR);

        setsid();
        prctl(PR_SET_NAME, "spanprof-keeper");
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO && null >= 0; fd++)
                dup2(null, fd);
        for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
                signal(ignored[i], SIG_IGN);
}

static void run(HolderState *state) {
        struct stat socket_file = { 0 },
                    region_file = { .st_dev = state->region->device, .st_ino = state->region->inode };

        lstat(state->socket_path, &socket_file);
        detach();
        hold(state);
        if (!state->released) {
                remove_file(state->socket_path, &socket_file);
                remove_file(state->region_path, &region_file);
        }
        _exit(0);
}

static int listen_at(const char *path, mode_t mode, int *fdp) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        _cleanup_(closep) int fd = -1;
        struct stat st;
        mode_t old;
        int r;

        if (strlen(path) >= sizeof(address.sun_path)) {
                errno = ENAMETOOLONG;
                return SOCKET_HOLDER_E_SYSTEM;
        }
        strcpy(address.sun_path, path);
        if (!lstat(path, &st)) {
                if (!S_ISSOCK(st.st_mode))
                        return SOCKET_HOLDER_E_EXISTS;
                unlink(path);
        }
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        old = umask(0777 & ~mode);
        r = fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, BACKLOG);
        umask(old);
        if (r)
                return SOCKET_HOLDER_E_SYSTEM;
        *fdp = take_fd(fd);
        return 0;
}

int socket_holder_start(SocketHolder *holder, const char *socket_path, const char *region_path,
                        Region *region, mode_t mode) {
        _cleanup_(closep) int listener = -1;
        int control[2], r = listen_at(socket_path, mode, &listener);
        pid_t pid;

        if (r)
                return r;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control))
                return SOCKET_HOLDER_E_SYSTEM;
        pid = fork();
        if (pid == 0) {
                static HolderState state;

                close(control[0]);
                state = (HolderState){ .region = region,
                               .socket_path = socket_path,
                               .region_path = region_path,
                               .n_fds = FIRST };
                state.fds[CONTROL] = (struct pollfd){ .fd = control[1], .events = POLLIN };
                state.fds[LISTENER] = (struct pollfd){ .fd = listener };
                state.fds[TARGET] = (struct pollfd){ .fd = -1, .events = POLLIN };
                run(&state);
        }
        close(control[1]);
        if (pid < 0) {
                close(control[0]);
                return SOCKET_HOLDER_E_SYSTEM;
        }
        *holder = (SocketHolder){
                .pid = pid, .control = control[0], .listener = take_fd(listener), .unheld = -1
        };
        return 0;
}

void socket_holder_watch(SocketHolder *holder, int pidfd) {
        send_fd(holder->control, 't', pidfd);
}

static bool is_for_later(int error) {
        return error == EAGAIN || error == ENOBUFS || error == ENOMEM || error == ETOOMANYREFS;
}

/* Return: whether the process has it, or is gone. */
static bool hand_over(SocketHolder *holder, int fd) {
        return !send_fd(holder->control, 'c', fd) || !is_for_later(errno);
}

int socket_holder_accept(SocketHolder *holder) {
        int fd;

        if (holder->unheld >= 0 && !hand_over(holder, holder->unheld))
                return -1;
        closep(&holder->unheld);
        fd = accept4(holder->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0 && !hand_over(holder, fd))
                holder->unheld = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        return fd;
}

void socket_holder_release(SocketHolder *holder) {
        if (holder->control < 0)
                return;
        send_fd(holder->control, 'q', -1);
        close(holder->control);
        closep(&holder->listener);
        closep(&holder->unheld);
        *holder = SOCKET_HOLDER_NONE;
}
