/* SPDX-License-Identifier: Apache-2.0 */
#include "jail/helper.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include "jail/channel.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/stat.h"

#define FIRST_PAUSE_NS (20 * NS_PER_MS)         /* after a second worker that failed; doubled with each */
#define LONGEST_PAUSE_NS NS_PER_SEC     /* files of others wait, too */
#define TEND_NS (10 * NS_PER_MS)

struct Helper {
        Nursery *nursery;
        int epoll_fd, timer_fd;
        int socket;                     /* of the worker; -1 = none */
        uint32_t serial;
        uint64_t next_ns;               /* no new worker before that */
        unsigned n_failures;            /* in a row */
        bool is_asked, is_sent;
        uint8_t request[HELPER_MAX_REQUEST];
        size_t request_size;
        int fd;
        uint64_t timeout_ns, deadline_ns;
};

/* It is closed with its last descriptor, which takes it off the epoll. */
static void drop_worker(Helper *helper) {
        if (helper->socket < 0)
                return;
        closep(&helper->socket);
        helper->socket = -1;
        nursery_end(helper->nursery, helper->serial);
}

Helper *helper_free(Helper *helper) {
        if (!helper)
                return NULL;
        drop_worker(helper);
        closep(&helper->timer_fd);
        closep(&helper->epoll_fd);
        free(helper);
        return NULL;
}

static int watch(Helper *helper, int fd) {
        struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

        return epoll_ctl(helper->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int helper_new(Helper **helperp, Nursery *nursery) {
        _cleanup_(helper_freep) Helper *helper = calloc(1, sizeof(*helper));
        int r;

        if (!helper)
                return error_origin(-ENOMEM);
        helper->nursery = nursery;
        helper->socket = helper->fd = -1;
        helper->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        helper->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (helper->timer_fd < 0 || helper->epoll_fd < 0)
                return error_origin(-errno);
        r = watch(helper, helper->timer_fd);
        if (r)
                return error_origin(r);
        helper_tend(helper);
        *helperp = take(helper);
        return 0;
}

int helper_fd(const Helper *helper) {
        return helper->epoll_fd;
}

/* @time_ns: 0 = off. Setting it takes back that it has fired. */
static void set_timer(Helper *helper, uint64_t time_ns) {
        const struct itimerspec at = { .it_value = { .tv_sec = (time_t)(time_ns / NS_PER_SEC), .tv_nsec = (long)(time_ns % NS_PER_SEC) } };

        timerfd_settime(helper->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
}

/* When there is something to do although no descriptor says so. */
static void plan(Helper *helper, uint64_t now_ns, bool tends) {
        uint64_t next_ns = tends ? now_ns + TEND_NS : UINT64_MAX;

        if (helper->is_asked)
                next_ns = MIN(next_ns, helper->deadline_ns);
        if (helper->socket < 0 && nursery_pid(helper->nursery, 0))
                next_ns = MIN(next_ns, MAX(helper->next_ns, now_ns + 1));
        set_timer(helper, next_ns == UINT64_MAX ? 0 : next_ns);
}

/* The first one to fail is replaced at once: somebody may have meant that one alone. */
static void count_failure(Helper *helper, uint64_t now_ns) {
        uint64_t pause_ns = 0;

        if (helper->n_failures > 0)
                pause_ns = MIN(FIRST_PAUSE_NS << MIN(helper->n_failures - 1, 16U), LONGEST_PAUSE_NS);
        helper->n_failures++;
        helper->next_ns = now_ns + pause_ns;
}

static void spawn(Helper *helper, uint64_t now_ns) {
        if (helper->socket >= 0 || now_ns < helper->next_ns)
                return;
        if (nursery_spawn(helper->nursery, &helper->socket, &helper->serial)) {
                helper->next_ns = now_ns + FIRST_PAUSE_NS;
                return;
        }
        stat_add(COUNTER_WORKERS_STARTED, 1);
        if (watch(helper, helper->socket)) {
                drop_worker(helper);
                count_failure(helper, now_ns);
        }
}

static void fail(Helper *helper, enum counter why, uint64_t now_ns) {
        stat_add(why, 1);
        drop_worker(helper);
        count_failure(helper, now_ns);
        helper->is_asked = helper->is_sent = false;
}

/* One that was waiting and is dead takes nothing: another is asked. */
static void send_request(Helper *helper, uint64_t now_ns) {
        if (!helper->is_asked || helper->is_sent || helper->socket < 0)
                return;
        if (channel_send(helper->socket, helper->request, helper->request_size, helper->fd)) {
                stat_add(COUNTER_WORKERS_DIED, 1);
                drop_worker(helper);
                count_failure(helper, now_ns);
                return;
        }
        helper->is_sent = true;
        helper->deadline_ns = now_ns + helper->timeout_ns;
}

void helper_tend(Helper *helper) {
        uint64_t now_ns = clock_monotonic_ns();
        uint8_t byte;

        /* Nobody has asked it anything. */
        if (!helper->is_sent && helper->socket >= 0 &&
            channel_receive(helper->socket, &byte, sizeof(byte), NULL, MSG_DONTWAIT) != -EAGAIN) {
                stat_add(COUNTER_WORKERS_DIED, 1);
                drop_worker(helper);
                count_failure(helper, now_ns);
        }
        spawn(helper, now_ns);
        send_request(helper, now_ns);
        plan(helper, now_ns, nursery_tend(helper->nursery));
}

void helper_ask(Helper *helper, const void *request, size_t size, int fd, uint64_t timeout_ns) {
        helper->request_size = MIN(size, sizeof(helper->request));
        memcpy(helper->request, request, helper->request_size);
        helper->fd = fd;
        helper->timeout_ns = timeout_ns;
        helper->deadline_ns = clock_monotonic_ns() + timeout_ns;
        helper->is_asked = true;
        helper_tend(helper);
}

/* What it has answered counts, also if we are late ourselves. */
static int read_answer(Helper *helper, void *data, size_t size, size_t *np) {
        uint64_t now_ns = clock_monotonic_ns();
        ssize_t n = channel_receive(helper->socket, data, size, NULL, MSG_DONTWAIT);

        if (n > 0) {
                *np = (size_t)n;
                return 0;
        }
        if (n != -EAGAIN) {
                fail(helper, COUNTER_WORKERS_DIED, now_ns);
                return HELPER_E_DIED;
        }
        if (now_ns < helper->deadline_ns)
                return HELPER_E_WAIT;
        fail(helper, COUNTER_WORKERS_LATE, now_ns);
        return HELPER_E_LATE;
}

int helper_read(Helper *helper, void *data, size_t size, size_t *np) {
        int r = HELPER_E_WAIT;

        if (helper->is_sent)
                r = read_answer(helper, data, size, np);
        else if (helper->is_asked && clock_monotonic_ns() >= helper->deadline_ns)
                r = HELPER_E_LATE;      /* no worker could be had */
        if (r == HELPER_E_LATE)
                helper->is_asked = false;
        if (r)
                helper_tend(helper);
        if (r == HELPER_E_WAIT && helper->socket < 0 && !nursery_pid(helper->nursery, 0)) {
                helper->is_asked = false;
                return HELPER_E_GONE;
        }
        return r;
}

void helper_done(Helper *helper, bool is_bad) {
        helper->is_asked = helper->is_sent = false;
        drop_worker(helper);
        if (is_bad)
                count_failure(helper, clock_monotonic_ns());
        else
                helper->n_failures = 0;
        helper_tend(helper);
}
