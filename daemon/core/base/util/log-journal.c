/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sends an entry through one connected socket, since only then poll() says whether the journal has room for
 * it.
 */

#include "core/base/util/log-journal.h"

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

enum {
        ATTEMPTS = 3,                   /* not connected yet, full, and filled by others in between */
        DRAIN_STEPS = 100,
        DRAIN_STEP_NS = 10 * 1000 * 1000,
};

static int fd = -1;

static void open_socket(void) {
        fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/*
 * Connected, since only then poll() knows whether the other side has room. May be done again: nothing is
 * closed under other threads.
 */
static int connect_socket(void) {
        static const struct sockaddr_un address = { .sun_family = AF_UNIX,
                                                    .sun_path = "/run/systemd/journal/socket" };

        return connect(fd, (const struct sockaddr *)&address, sizeof(address));
}

int log_journal_send(const char *entry, size_t size, int time_limit_ms) {
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        struct pollfd room;

        pthread_once(&once, open_socket);
        room = (struct pollfd){ .fd = fd, .events = POLLOUT };
        for (int i = 0; i < ATTEMPTS; i++) {
                if (send(fd, entry, size, MSG_NOSIGNAL) >= 0)
                        return 0;
                if (errno == EAGAIN ? poll(&room, 1, time_limit_ms) != 1 : connect_socket() < 0)
                        return 1;
        }
        return 1;
}

void log_journal_drain(void) {
        static const struct timespec step = { .tv_nsec = DRAIN_STEP_NS };
        int n_bytes = 0;

        for (int i = 0; fd >= 0 && i < DRAIN_STEPS && !ioctl(fd, SIOCOUTQ, &n_bytes) && n_bytes; i++)
                nanosleep(&step, NULL);
}
