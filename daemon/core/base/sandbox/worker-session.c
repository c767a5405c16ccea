/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sends and receives with the time that is left until the deadline. A worker that is late, dead or answers
 * nonsense is ended and counted, and the next question starts another one.
 */

#include "core/base/sandbox/worker-session.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include "core/base/sandbox/channel.h"
#include "core/base/util/clock.h"
#include "core/base/util/macro.h"
#include "core/base/util/stat.h"

#define MAX_WAIT_NS (NS_PER_SEC)        /* for those that were ended to be gone */

static uint64_t left_ns(const WorkerSession *session) {
        uint64_t now_ns = clock_monotonic_ns();

        return now_ns < session->end_ns ? session->end_ns - now_ns : 0;
}

/* The socket may block, in sends as long as there is time: messages to a worker are short. */
static int prepare(const WorkerSession *session) {
        uint64_t time_ns = MAX(left_ns(session), (uint64_t)NS_PER_MS);
        const struct timeval time = { .tv_sec = (time_t)(time_ns / NS_PER_SEC),
                                      .tv_usec = (suseconds_t)(time_ns % NS_PER_SEC / NS_PER_US) };

        return fcntl(session->socket, F_SETFL, 0) < 0 ||
               setsockopt(session->socket, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time)) < 0;
}

int worker_session_begin(WorkerSession *session) {
        const struct timespec pause = { .tv_nsec = NS_PER_MS };
        uint64_t end_ns = clock_monotonic_ns() + MIN(left_ns(session), (uint64_t)MAX_WAIT_NS);
        int r;

        if (session->socket >= 0)
                return 0;
        while ((r = zygotes_spawn(session->zygotes, &session->socket, &session->serial)) == ZYGOTE_E_FULL &&
               clock_monotonic_ns() < end_ns) {
                nanosleep(&pause, NULL);
                zygotes_tend(session->zygotes);
        }
        if (r)
                return WORKER_SESSION_E_NONE;
        session->counts->n_started++;
        if (prepare(session)) {
                worker_session_end(session);
                return WORKER_SESSION_E_NONE;
        }
        return 0;
}

void worker_session_end(WorkerSession *session) {
        if (session->socket < 0)
                return;
        closep(&session->socket);
        session->socket = -1;
        zygotes_end(session->zygotes, session->serial);
}

static int fail(WorkerSession *session, bool is_late) {
        ++*(is_late ? &session->counts->n_late : &session->counts->n_died);
        worker_session_end(session);
        return is_late ? WORKER_SESSION_E_LATE : WORKER_SESSION_E_DIED;
}

int worker_session_refuse(WorkerSession *session) {
        session->counts->n_malformed++;
        worker_session_end(session);
        return WORKER_SESSION_E_DIED;
}

int worker_session_judge(WorkerSession *session, bool is_sound) {
        return is_sound ? 0 : worker_session_refuse(session);
}

int worker_session_send(WorkerSession *session, const void *data, size_t size, int fd) {
        int r = channel_send(session->socket, data, size, fd);

        return r ? fail(session, r == -EAGAIN) : 0;
}

/* Return: whether there is something to read, or an end. */
static bool wait_for_bytes(const WorkerSession *session) {
        struct pollfd fd = { .fd = session->socket, .events = POLLIN };
        int r;

        do
                r = poll(&fd, 1, (int)((left_ns(session) + NS_PER_MS - 1) / NS_PER_MS));
        while (r < 0 && errno == EINTR);
        return r > 0;
}

int worker_session_receive_some(WorkerSession *session, void *data, size_t size, size_t *np) {
        ssize_t n;

        do {
                if (!wait_for_bytes(session))
                        return fail(session, true);
                n = channel_receive(session->socket, data, size, NULL, MSG_DONTWAIT);
        } while (n == -EAGAIN);
        if (n <= 0)
                return fail(session, false);
        /* there is always more to read of one that never stops talking */
        if (!left_ns(session))
                return fail(session, true);
        *np = (size_t)n;
        return 0;
}

int worker_session_receive(WorkerSession *session, void *data, size_t size) {
        for (size_t at = 0, n; at < size; at += n) {
                int r = worker_session_receive_some(session, (char *)data + at, size - at, &n);

                if (r)
                        return r;
        }
        return 0;
}

/* ---- questions ---- */

WorkerSession worker_session_make(Zygotes *zygotes, const WorkerQuestion *question,
                                  WorkerSessionCounts *counts) {
        return (WorkerSession){ .zygotes = zygotes,
                                .end_ns = clock_monotonic_ns() + question->timeout_ns,
                                .counts = counts,
                                .socket = -1 };
}

int worker_session_request(WorkerSession *session, const WorkerQuestion *question, const void *request,
                           int fd) {
        int r = worker_session_begin(session);

        return r ?: worker_session_send(session, request, question->request_size, fd);
}

int worker_session_hear(WorkerSession *session, const WorkerQuestion *question, const void *request,
                        void *answer) {
        int r = worker_session_receive(session, answer, question->answer_size);

        return r ?: worker_session_judge(session, question->is_sound(answer, request));
}

int worker_session_ask(WorkerSession *session, const WorkerQuestion *question, const void *request, int fd,
                       void *answer) {
        int r = worker_session_request(session, question, request, fd);

        return r ?: worker_session_hear(session, question, request, answer);
}

void worker_session_count(const WorkerSessionCounts *counts) {
        stat_add(COUNTER_WORKERS_STARTED, counts->n_started);
        stat_add(COUNTER_WORKERS_DIED, counts->n_died);
        stat_add(COUNTER_WORKERS_LATE, counts->n_late);
        stat_add(COUNTER_WORKERS_MALFORMED, counts->n_malformed);
}
