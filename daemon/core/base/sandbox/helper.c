/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Keeps one worker at work and another one ready, and waits by an epoll over the answer, the zygotes and a
 * timer. The timer is the deadline of a question, or the pause after workers that failed.
 */

#include "core/base/sandbox/helper.h"

#include <errno.h>
#include <stdalign.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include "core/base/sandbox/channel.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/stat.h"

#define FIRST_PAUSE_NS (20 * NS_PER_MS)         /* after a second worker that failed; doubled with each */
#define LONGEST_PAUSE_NS NS_PER_SEC     /* files of others wait, too */
#define TEND_NS (10 * NS_PER_MS)

/* workers that wait: on a busy machine each takes milliseconds to come up */
enum { AHEAD = 1 };

typedef struct Ahead {
        int socket;                     /* -1 = none here */
        uint32_t serial;
} Ahead;

struct Helper {
        Zygotes *zygotes;
        int epoll_fd, timer_fd;
        Ahead worker;                   /* the worker that has the request */
        Ahead ahead[AHEAD];
        uint64_t next_ns;               /* no new worker before that */
        unsigned n_failures;            /* in a row */
        bool is_asked, is_sent;
        bool is_unclear;                /* whether what ended before its answer ever was there */
        alignas(max_align_t) uint8_t request[HELPER_MAX_REQUEST];      /* is_sound() reads it as a struct */
        size_t request_size, n_heard;   /* bytes; of the answer's head */
        int fd;
        uint64_t timeout_ns, deadline_ns;
};

/* The socket is closed with its last descriptor, which takes it off the epoll. */
static void drop(Helper *helper, Ahead *worker) {
        if (worker->socket < 0)
                return;
        closep(&worker->socket);
        worker->socket = -1;
        zygotes_end(helper->zygotes, worker->serial);
}

Helper *helper_free(Helper *helper) {
        if (!helper)
                return NULL;
        drop(helper, &helper->worker);
        for (int i = 0; i < AHEAD; i++)
                drop(helper, &helper->ahead[i]);
        closep(&helper->timer_fd);
        closep(&helper->epoll_fd);
        free(helper);
        return NULL;
}

static int watch(Helper *helper, int fd) {
        struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

        return epoll_ctl(helper->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int helper_new(Helper **helperp, Zygotes *zygotes) {
        _cleanup_(helper_freep) Helper *helper = calloc(1, sizeof(*helper));
        int r;

        if (!helper)
                return error_origin(-ENOMEM);
        helper->zygotes = zygotes;
        helper->worker.socket = helper->fd = -1;
        for (int i = 0; i < AHEAD; i++)
                helper->ahead[i].socket = -1;
        helper->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        helper->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (helper->timer_fd < 0 || helper->epoll_fd < 0)
                return error_origin(-errno);
        r = watch(helper, helper->timer_fd);
        if (!r)
                r = watch(helper, zygotes_fd(zygotes));
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
        const struct itimerspec at = { .it_value = { .tv_sec = (time_t)(time_ns / NS_PER_SEC),
                                                     .tv_nsec = (long)(time_ns % NS_PER_SEC) } };

        timerfd_settime(helper->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
}

static Ahead *find_free(Helper *helper) {
        for (int i = 0; i < AHEAD; i++)
                if (helper->ahead[i].socket < 0)
                        return &helper->ahead[i];
        return NULL;
}

/* The oldest: it is up, if any is. */
static Ahead *find_ahead(Helper *helper) {
        Ahead *oldest = NULL;

        for (int i = 0; i < AHEAD; i++)
                if (helper->ahead[i].socket >= 0 &&
                    (!oldest || (int32_t)(helper->ahead[i].serial - oldest->serial) < 0))
                        oldest = &helper->ahead[i];
        return oldest;
}

/* When there is something to do although no descriptor says so. */
static void plan(Helper *helper, uint64_t now_ns, bool tends) {
        uint64_t next_ns = tends || helper->is_unclear ? now_ns + TEND_NS : UINT64_MAX;

        if (helper->is_asked)
                next_ns = MIN(next_ns, helper->deadline_ns);
        if (find_free(helper) && zygotes_is_there(helper->zygotes))
                next_ns = MIN(next_ns, MAX(helper->next_ns, now_ns + 1));
        set_timer(helper, next_ns == UINT64_MAX ? 0 : next_ns);
}

/* The first one to fail is replaced at once: that one alone may have been meant. */
static void count_failure(Helper *helper, uint64_t now_ns) {
        uint64_t pause_ns = 0;

        if (helper->n_failures > 0)
                pause_ns = MIN(FIRST_PAUSE_NS << MIN(helper->n_failures - 1, 16U), LONGEST_PAUSE_NS);
        helper->n_failures++;
        helper->next_ns = now_ns + pause_ns;
}

static int spawn_one(Helper *helper, Ahead *place) {
        int r = zygotes_spawn(helper->zygotes, &place->socket, &place->serial);

        if (r)
                return r;
        stat_add(COUNTER_WORKERS_STARTED, 1);
        r = watch(helper, place->socket);
        if (r)
                drop(helper, place);
        return r;
}

static void spawn(Helper *helper, uint64_t now_ns) {
        Ahead *place;

        while (now_ns >= helper->next_ns && (place = find_free(helper)))
                if (spawn_one(helper, place))
                        helper->next_ns = now_ns + FIRST_PAUSE_NS;
}

static bool never_came(Helper *helper, const Ahead *worker, bool *is_openp) {
        zygotes_tend(helper->zygotes);
        return zygotes_never_came(helper->zygotes, worker->serial, is_openp);
}

/* Return: whether it was its fault, and not that of who should have started it. */
static bool fail(Helper *helper, Ahead *worker, enum counter why, uint64_t now_ns) {
        bool is_open, is_forgiven = never_came(helper, worker, &is_open) && why != COUNTER_WORKERS_LATE;

        drop(helper, worker);
        if (is_forgiven)
                return false;
        stat_add(why, 1);
        count_failure(helper, now_ns);
        return true;
}

/* A worker that has died while it waited takes nothing: the next one is asked. */
static void send_request(Helper *helper, uint64_t now_ns) {
        Ahead *worker;

        while (helper->is_asked && !helper->is_sent && (worker = find_ahead(helper))) {
                if (channel_send(worker->socket, helper->request, helper->request_size, helper->fd)) {
                        fail(helper, worker, COUNTER_WORKERS_DIED, now_ns);
                        continue;
                }
                helper->worker = *worker;
                worker->socket = -1;
                helper->is_sent = true;
                helper->deadline_ns = now_ns + helper->timeout_ns;
        }
}

/* Workers that wait were asked nothing yet: a message, or an end, says that they are dead. */
static void look_at_ahead(Helper *helper, uint64_t now_ns) {
        uint8_t byte;

        for (int i = 0; i < AHEAD; i++)
                if (helper->ahead[i].socket >= 0 &&
                    channel_receive(helper->ahead[i].socket, &byte, sizeof(byte), NULL, MSG_DONTWAIT) !=
                            -EAGAIN)
                        fail(helper, &helper->ahead[i], COUNTER_WORKERS_DIED, now_ns);
}

void helper_tend(Helper *helper) {
        uint64_t now_ns = clock_monotonic_ns();
        bool tends = zygotes_tend(helper->zygotes);

        stat_add(COUNTER_NURSERIES_REPLACED, zygotes_take_replaced(helper->zygotes));
        look_at_ahead(helper, now_ns);
        send_request(helper, now_ns);
        spawn(helper, now_ns);
        send_request(helper, now_ns);
        plan(helper, now_ns, tends);
}

void helper_ask(Helper *helper, const void *request, size_t size, int fd, uint64_t timeout_ns) {
        helper->request_size = MIN(size, sizeof(helper->request));
        memcpy(helper->request, request, helper->request_size);
        helper->n_heard = 0;
        helper->fd = fd;
        helper->timeout_ns = timeout_ns;
        helper->deadline_ns = clock_monotonic_ns() + timeout_ns;
        helper->is_asked = true;
        helper_tend(helper);
}

/*
 * The worker has ended, by its file or because it never came to be. Which of them is asked again and again;
 * its socket does not wake the loop any more.
 */
static bool is_unclear(Helper *helper) {
        never_came(helper, &helper->worker, &helper->is_unclear);
        if (helper->is_unclear)
                epoll_ctl(helper->epoll_fd, EPOLL_CTL_DEL, helper->worker.socket, NULL);
        return helper->is_unclear;
}

/* An answer that has come counts, also if we are late ourselves. */
static int read_answer(Helper *helper, void *data, size_t size, size_t *np) {
        uint64_t now_ns = clock_monotonic_ns();
        ssize_t n = channel_receive(helper->worker.socket, data, size, NULL, MSG_DONTWAIT);

        if (n > 0) {
                *np = (size_t)n;
                return 0;
        }
        if (now_ns < helper->deadline_ns && (n == -EAGAIN || is_unclear(helper)))
                return HELPER_E_WAIT;
        helper->is_sent = helper->is_unclear = false;
        if (!fail(helper, &helper->worker, n == -EAGAIN ? COUNTER_WORKERS_LATE : COUNTER_WORKERS_DIED,
                  now_ns))
                return HELPER_E_WAIT;           /* until there is another one */
        helper->is_asked = false;
        return n == -EAGAIN ? HELPER_E_LATE : HELPER_E_DIED;
}

/* Asked, and there is no worker to send it to. */
static int wait_for_worker(Helper *helper) {
        bool is_late = clock_monotonic_ns() >= helper->deadline_ns;

        if (!is_late && (zygotes_is_there(helper->zygotes) || find_ahead(helper)))
                return HELPER_E_WAIT;
        helper->is_asked = false;
        return is_late ? HELPER_E_LATE : HELPER_E_GONE;
}

int helper_read(Helper *helper, void *data, size_t size, size_t *np) {
        int r = HELPER_E_WAIT;

        if (helper->is_sent)
                r = read_answer(helper, data, size, np);
        if (r)
                helper_tend(helper);
        return r == HELPER_E_WAIT && !helper->is_sent ? wait_for_worker(helper) : r;
}

void helper_done(Helper *helper, bool is_bad) {
        helper->is_asked = helper->is_sent = helper->is_unclear = false;
        drop(helper, &helper->worker);
        if (is_bad)
                count_failure(helper, clock_monotonic_ns());
        else
                helper->n_failures = 0;
        helper_tend(helper);
}

void helper_refuse(Helper *helper) {
        stat_add(COUNTER_WORKERS_MALFORMED, 1);
        helper_done(helper, true);
}

int helper_hear(Helper *helper, const WorkerQuestion *question, void *answer) {
        while (helper->n_heard < question->answer_size) {
                size_t n = 0;
                int r = helper_read(helper, (uint8_t *)answer + helper->n_heard,
                                    question->answer_size - helper->n_heard, &n);

                if (r)
                        return r;
                helper->n_heard += n;
        }
        if (question->is_sound(answer, helper->request))
                return 0;
        helper_refuse(helper);
        return HELPER_E_DIED;
}
