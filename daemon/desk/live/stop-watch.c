/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Waits in a thread for a signal or for its end, by two descriptors.
 */

#include "desk/live/stop-watch.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "core/base/file/file.h"
#include "core/base/thread/thread.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"

struct StopWatch {
        StopSignals *signals;
        void (*heard)(void *userdata, StopWish wish, int number);
        void *userdata;
        Thread *thread;
        int signal_fd, end_fd;          /* end_fd: written to when the thread shall end */
};

static void take_signal(StopWatch *watch) {
        struct signalfd_siginfo info;
        StopWish wish;

        if (read(watch->signal_fd, &info, sizeof(info)) != sizeof(info))
                return;
        wish = stop_signals_take(watch->signals, (int)info.ssi_signo, info.ssi_code, clock_monotonic_ns());
        watch->heard(watch->userdata, wish, (int)info.ssi_signo);
}

static void watch_signals(void *userdata) {
        StopWatch *watch = userdata;
        struct pollfd fds[] = { { .fd = watch->end_fd, .events = POLLIN },
                                { .fd = watch->signal_fd, .events = POLLIN } };

        while (!fds[0].revents)
                if (poll(fds, ARRAY_SIZE(fds), -1) > 0 && fds[1].revents)
                        take_signal(watch);
}

static int start(StopWatch *watch) {
        const ThreadConfig config = { .name = "signals", .run = watch_signals, .userdata = watch };
        sigset_t set;

        stop_signals_fill(&set);
        watch->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        if (watch->signal_fd < 0)
                return error_origin(-errno);
        watch->end_fd = eventfd(0, EFD_CLOEXEC);
        if (watch->end_fd < 0)
                return error_origin(-errno);
        return thread_new(&watch->thread, &config);
}

int stop_watch_new(StopWatch **watchp, StopSignals *signals,
                   void (*heard)(void *userdata, StopWish wish, int number), void *userdata) {
        StopWatch *watch = calloc(1, sizeof(*watch));
        int r;

        if (!watch)
                return error_origin(-ENOMEM);
        *watch = (StopWatch){ .signals = signals, .heard = heard, .userdata = userdata,
                              .signal_fd = -1, .end_fd = -1 };
        r = start(watch);
        if (r)
                watch = stop_watch_free(watch);
        else
                *watchp = watch;
        return r;
}

StopWatch *stop_watch_free(StopWatch *watch) {
        if (!watch)
                return NULL;
        if (watch->thread)
                eventfd_write(watch->end_fd, 1);
        watch->thread = thread_join(watch->thread);
        closep(&watch->signal_fd);
        closep(&watch->end_fd);
        free(watch);
        return NULL;
}
