/* SPDX-License-Identifier: Apache-2.0 */
#include "coro/engine/socket-holder.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/util/error.h"

enum {
        MAX_CONNECTIONS = 1024,         /* further ones wait in the queue of the socket, which wakes nobody */
        BACKLOG = 128,
        CONTROL = 0, LISTENER = 1, TARGET = 2, FIRST = 3,       /* places in fds */
};

typedef struct Keep {
        struct pollfd fds[FIRST + MAX_CONNECTIONS];
        nfds_t n_fds;
        Region *region;
        const char *socket_path, *region_path;
        bool released, alone;           /* the engine has said good-bye; is gone */
} Keep;

/* One message with at most one descriptor. */
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

static void take_connection(Keep *keep) {
        int fd = accept4(keep->fds[LISTENER].fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0)
                return;
        keep->fds[keep->n_fds++] = (struct pollfd){ .fd = fd, .events = POLLRDHUP };
        if (keep->fds[CONTROL].fd >= 0)
                /* an engine that stands still gets them later, or never */
                send_fd(keep->fds[CONTROL].fd, 'c', fd);
}

/* From here on nobody scans: nobody must be woken. */
static void be_alone(Keep *keep) {
        close(keep->fds[CONTROL].fd);
        keep->fds[CONTROL].fd = -1;
        keep->alone = true;
        __atomic_store_n(&keep->region->header->tracer_sleeping, 0, __ATOMIC_SEQ_CST);
}

static void hear(Keep *keep) {
        char what = 0;
        int fd, r = receive_fd(keep->fds[CONTROL].fd, &what, &fd);

        if (r == 1 && what == 'q')
                keep->released = true;
        else if (r == 1 && fd >= 0)
                keep->fds[TARGET].fd = fd;
        else if (r == 0)
                be_alone(keep);
}

static void remove_file(const char *path, const struct stat *was) {
        struct stat st;

        if (!lstat(path, &st) && st.st_dev == was->st_dev && st.st_ino == was->st_ino)
                unlink(path);
}

static bool is_over(const Keep *keep) {
        return keep->alone && keep->n_fds == FIRST && (keep->released || keep->fds[TARGET].fd < 0);
}

static void keep_on(Keep *keep) {
        while (!is_over(keep)) {
                keep->fds[LISTENER].events = keep->n_fds < ARRAY_SIZE(keep->fds) ? POLLIN : 0;
                if (poll(keep->fds, keep->n_fds, -1) < 0)
                        continue;
                for (nfds_t i = keep->n_fds; i-- > FIRST;)
                        if (keep->fds[i].revents) {
                                close(keep->fds[i].fd);
                                keep->fds[i] = keep->fds[--keep->n_fds];
                        }
                if (keep->fds[CONTROL].revents)
                        hear(keep);
                if (keep->fds[LISTENER].revents & POLLIN)
                        take_connection(keep);
                if (keep->fds[TARGET].fd >= 0 && keep->fds[TARGET].revents)
                        keep->fds[TARGET].fd = -1;
        }
}

/* Whoever reads our output waits for its end: the keeper must not hold it. Nor may Ctrl-C end it. */
static void detach(void) {
        static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2, SIGTSTP };
        int null = open("/dev/null", O_RDWR);

        setsid();
        prctl(PR_SET_NAME, "spanprof-keeper");
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO && null >= 0; fd++)
                dup2(null, fd);
        for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
                signal(ignored[i], SIG_IGN);
}

static void run(Keep *keep) {
        struct stat socket_file = { 0 },
                    region_file = { .st_dev = keep->region->device, .st_ino = keep->region->inode };

        lstat(keep->socket_path, &socket_file);
        detach();
        keep_on(keep);
        if (!keep->released) {
                remove_file(keep->socket_path, &socket_file);
                remove_file(keep->region_path, &region_file);
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
                static Keep keep;

                close(control[0]);
                keep = (Keep){ .region = region,
                               .socket_path = socket_path,
                               .region_path = region_path,
                               .n_fds = FIRST };
                keep.fds[CONTROL] = (struct pollfd){ .fd = control[1], .events = POLLIN };
                keep.fds[LISTENER] = (struct pollfd){ .fd = listener };
                keep.fds[TARGET] = (struct pollfd){ .fd = -1, .events = POLLIN };
                run(&keep);
        }
        close(control[1]);
        if (pid < 0) {
                close(control[0]);
                return SOCKET_HOLDER_E_SYSTEM;
        }
        *holder = (SocketHolder){ .pid = pid, .control = control[0] };
        return 0;
}

void socket_holder_watch(SocketHolder *holder, int pidfd) {
        send_fd(holder->control, 't', pidfd);
}

int socket_holder_accept(SocketHolder *holder) {
        char what;
        int fd;

        return receive_fd(holder->control, &what, &fd) == 1 ? fd : -1;
}

void socket_holder_release(SocketHolder *holder) {
        if (holder->control < 0)
                return;
        send_fd(holder->control, 'q', -1);
        close(holder->control);
        *holder = SOCKET_HOLDER_NONE;
}
