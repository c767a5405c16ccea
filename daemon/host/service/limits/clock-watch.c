/* SPDX-License-Identifier: Apache-2.0 */

/*
 * timerfd_create(2): a timer on CLOCK_REALTIME with TFD_TIMER_ABSTIME and
 * TFD_TIMER_CANCEL_ON_SET makes read() fail with ECANCELED when the clock is set
 * discontinuously. The timer itself is set so far ahead that it never fires.
 */

#include "host/service/limits/clock-watch.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <time.h>

#include "core/base/util/error.h"

#define FAR_AHEAD_SEC ((time_t)1 << 40)

struct ClockWatch {
        int fd;
        sd_event_source *source;
        void (*on_step)(void *userdata);
        void *userdata;
};

static int arm(int fd) {
        struct itimerspec spec = { .it_value.tv_sec = FAR_AHEAD_SEC };

        /*
         * Fails with ECANCELED when the clock was set since the last call; the timer is armed all the same.
         */
        if (timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &spec, NULL) < 0 &&
            errno != ECANCELED)
                return error_origin(-errno);
        return 0;
}

static int on_readable(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        ClockWatch *watch = userdata;
        uint64_t expirations;

        if (read(fd, &expirations, sizeof(expirations)) < 0 && errno == ECANCELED)
                watch->on_step(watch->userdata);
        return arm(fd);
}

int clock_watch_new(ClockWatch **watchp, sd_event *event, void (*on_step)(void *userdata), void *userdata) {
        _cleanup_(clock_watch_freep) ClockWatch *watch = calloc(1, sizeof(*watch));
        int r;

        if (!watch)
                return error_origin(-ENOMEM);
        watch->on_step = on_step;
        watch->userdata = userdata;
        watch->fd = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
        if (watch->fd < 0)
                return error_origin(-errno);
        r = arm(watch->fd);
        if (!r)
                r = sd_event_add_io(event, &watch->source, watch->fd, EPOLLIN, on_readable, watch);
        if (r < 0)
                return error_fold(r);
        *watchp = take(watch);
        return 0;
}

ClockWatch *clock_watch_free(ClockWatch *watch) {
        if (!watch)
                return NULL;
        sd_event_source_disable_unref(watch->source);
        closep(&watch->fd);
        free(watch);
        return NULL;
}
