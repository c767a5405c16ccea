/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sends and receives bytes with at most one descriptor beside them (SCM_RIGHTS). Descriptors that were not
 * asked for are closed at once.
 */

#include "core/base/sandbox/channel.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_FDS = 4 };                   /* callers ask for one; the kernel drops what finds no room */

typedef union Ancillary {
        struct cmsghdr header;
        char room[CMSG_SPACE(MAX_FDS * sizeof(int))];
} Ancillary;

static void attach(struct msghdr *message, Ancillary *ancillary, int fd) {
        memset(ancillary, 0, sizeof(*ancillary));
        message->msg_control = ancillary->room;
        message->msg_controllen = CMSG_SPACE(sizeof(fd));
        ancillary->header.cmsg_level = SOL_SOCKET;
        ancillary->header.cmsg_type = SCM_RIGHTS;
        ancillary->header.cmsg_len = CMSG_LEN(sizeof(fd));
        memcpy(CMSG_DATA(&ancillary->header), &fd, sizeof(fd));
}

int channel_send(int socket, const void *data, size_t size, int fd) {
        size_t sent = 0;

        while (sent < size) {
                struct iovec piece = { (char *)data + sent, size - sent };
                struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 };
                Ancillary ancillary;
                ssize_t n;

                if (fd >= 0)
                        attach(&message, &ancillary, fd);
                n = sendmsg(socket, &message, MSG_NOSIGNAL);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                sent += (size_t)n;
                fd = -1;
        }
        return 0;
}

/* Keeps the first descriptor if one is wanted. */
static void take_fds(struct msghdr *message, int *fdp) {
        for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
                size_t n = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);

                if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
                        continue;
                for (size_t i = 0; i < n; i++) {
                        int fd;

                        memcpy(&fd, CMSG_DATA(header) + i * sizeof(fd), sizeof(fd));
                        if (fdp && *fdp < 0)
                                *fdp = fd;
                        else
                                close(fd);
                }
        }
}

ssize_t channel_receive(int socket, void *data, size_t size, int *fdp, int flags) {
        struct iovec piece = { data, size };
        Ancillary ancillary;
        struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1, .msg_control = ancillary.room,
                                  .msg_controllen = sizeof(ancillary.room) };
        ssize_t n;

        if (fdp)
                *fdp = -1;
        do
                n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | flags);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        take_fds(&message, fdp);
        return n;
}

int channel_receive_all(int socket, void *data, size_t size) {
        for (size_t at = 0; at < size;) {
                ssize_t n = channel_receive(socket, (char *)data + at, size - at, NULL, 0);

                if (n <= 0)
                        return n ? (int)n : -EPIPE;
                at += (size_t)n;
        }
        return 0;
}
