/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Conversations with real workers from a thread that waits. The zygotes is this program once more, as in
 * test-sandbox.c.
 */

#include <criterion/criterion.h>
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/sandbox/channel.h"
#include "core/base/sandbox/worker-session.h"
#include "core/base/util/clock.h"
#include "core/base/util/stat.h"
#include "stat-reset.h"

#define TIME_LIMIT_NS (60 * NS_PER_SEC)

enum { N_THREADS = 4, N_TIMES = 25, LARGE = 3 << 20 };

/* Says after each letter what it means, until the other side has enough. */
static void work(int socket) {
        static char large[LARGE];
        char letter, first;
        int fd;

        while (channel_receive(socket, &letter, 1, &fd, 0) == 1) {
                if (letter == 'q')
                        _exit(0);
                if (letter == 'c')
                        *(volatile int *)NULL = 1;
                if (letter == 'h')
                        poll(NULL, 0, -1);
                while (letter == 'e')           /* it never stops, unless nobody listens */
                        if (channel_send(socket, &letter, 1, -1))
                                _exit(0);
                if (letter == 'm') {            /* three pieces of an answer, with gifts, and no more */
                        for (int i = 0; i < 3; i++)
                                channel_send(socket, &letter, 1, socket);
                        _exit(0);
                }
                if (letter == 'l')
                        channel_send(socket, memset(large, 'l', sizeof(large)), sizeof(large), -1);
                else if (letter == 'f' && pread(fd, &first, 1, 0) == 1)
                        channel_send(socket, &first, 1, -1);
                else
                        channel_send(socket, &letter, 1, -1);
                if (fd >= 0)
                        close(fd);
        }
        _exit(0);
}

__attribute__((__constructor__)) static void become_zygote(int argc, char **argv) {
        if (argc == 1 && !strcmp(argv[0], ZYGOTE_NAME))
                zygote_serve(work);
}

static Zygotes *zygotes;
static WorkerSessionCounts counts;

static void setup(void) {
        stat_reset();
        cr_assert_eq(zygotes_new(&zygotes), 0);
        cr_assert_eq(zygotes_wait(zygotes, 60000), 0);
}

static void teardown(void) {
        zygotes = zygotes_free(zygotes);
        cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1, "a child is left");
}

TestSuite(session, .init = setup, .fini = teardown);

static WorkerSession make(WorkerSessionCounts *to, uint64_t time_ns) {
        return (WorkerSession){
                .zygotes = zygotes, .end_ns = clock_monotonic_ns() + time_ns, .counts = to, .socket = -1
        };
}

static int ask(WorkerSession *session, char letter, int fd, char *answer) {
        int r = worker_session_begin(session);

        if (!r)
                r = worker_session_send(session, &letter, 1, fd);
        return r ? r : worker_session_receive(session, answer, 1);
}

Test(session, one_worker_answers_several_questions) {
        WorkerSession session = make(&counts, TIME_LIMIT_NS);
        int fd = memfd_create("test", MFD_CLOEXEC);
        char answer = 0;

        cr_assert_eq(write(fd, "!", 1), 1);
        for (char letter = 'A'; letter <= 'Z'; letter++) {
                cr_assert_eq(ask(&session, letter, -1, &answer), 0);
                cr_assert_eq(answer, letter);
        }
        for (int i = 0; i < 40; i++)            /* more than it may hold at a time */
                cr_assert_eq(ask(&session, 'f', fd, &answer), 0);
        cr_assert_eq(answer, '!');
        cr_assert_eq(counts.n_started, 1);
        worker_session_end(&session);
        cr_assert_eq(counts.n_died + counts.n_late + counts.n_malformed, 0);
        close(fd);
}

Test(session, an_answer_may_be_larger_than_a_socket_holds) {
        WorkerSession session = make(&counts, TIME_LIMIT_NS);
        char *answer = malloc(LARGE);

        cr_assert_eq(ask(&session, 'l', -1, answer), 0);
        cr_assert_eq(worker_session_receive(&session, answer + 1, LARGE - 1), 0);
        for (int i = 0; i < LARGE; i++)
                cr_assert_eq(answer[i], 'l');
        worker_session_end(&session);
        free(answer);
}

Test(session, who_dies_is_known_to_be_dead_and_the_next_question_has_another) {
        WorkerSession session = make(&counts, TIME_LIMIT_NS);
        char answer = 0;

        cr_assert_eq(ask(&session, 'c', -1, &answer), WORKER_SESSION_E_DIED);
        cr_assert_eq(ask(&session, 'q', -1, &answer), WORKER_SESSION_E_DIED);
        cr_assert_eq(ask(&session, 'x', -1, &answer), 0);
        cr_assert_eq(answer, 'x');
        cr_assert_eq(worker_session_refuse(&session), WORKER_SESSION_E_DIED);
        cr_assert_eq(ask(&session, 'y', -1, &answer), 0);
        worker_session_end(&session);
        worker_session_count(&counts);
        cr_assert_eq(stat_get(COUNTER_WORKERS_STARTED), 4);
        cr_assert_eq(stat_get(COUNTER_WORKERS_DIED), 2);
        cr_assert_eq(stat_get(COUNTER_WORKERS_MALFORMED), 1);
        cr_assert_eq(stat_get(COUNTER_WORKERS_LATE), 0);
}

static unsigned count_descriptors(void) {
        DIR *dir = opendir("/proc/self/fd");
        unsigned n = 0;

        while (readdir(dir))
                n++;
        closedir(dir);
        return n;
}

Test(session, who_dies_in_the_middle_of_an_answer_leaves_no_descriptor) {
        WorkerSession session = make(&counts, TIME_LIMIT_NS);
        int fd = memfd_create("test", MFD_CLOEXEC);
        unsigned before = count_descriptors();
        char answer[4] = { 0 };

        for (int i = 0; i < 20; i++) {
                cr_assert_eq(ask(&session, 'm', fd, answer), 0);
                cr_assert_eq(worker_session_receive(&session, answer + 1, 3), WORKER_SESSION_E_DIED);
                cr_assert_eq(answer[2], 'm');
        }
        cr_assert_eq(counts.n_died, 20);
        cr_assert_eq(count_descriptors(), before);
        close(fd);
}

Test(session, who_takes_too_long_is_late_and_killed) {
        WorkerSession session = make(&counts, 200 * NS_PER_MS), next = make(&counts, TIME_LIMIT_NS);
        char answer = 0;

        cr_assert_eq(ask(&session, 'h', -1, &answer), WORKER_SESSION_E_LATE);
        cr_assert_eq(counts.n_late, 1);
        cr_assert_eq(session.socket, -1);
        cr_assert_eq(ask(&next, 'x', -1, &answer), 0);
        worker_session_end(&next);
}

Test(session, who_never_stops_talking_is_late) {
        WorkerSession session = make(&counts, 200 * NS_PER_MS);
        char answer = 0;
        int r = ask(&session, 'e', -1, &answer);

        while (!r)
                r = worker_session_receive(&session, &answer, 1);
        cr_assert_eq(r, WORKER_SESSION_E_LATE);
        cr_assert_geq(clock_monotonic_ns(), session.end_ns);
        cr_assert_eq(counts.n_late, 1);
        cr_assert_eq(session.socket, -1);
}

Test(session, without_a_zygote_there_is_nobody) {
        WorkerSession session = make(&counts, TIME_LIMIT_NS);
        char answer;

        zygotes_ref(zygotes);
        zygotes_free(zygotes);
        cr_assert_eq(ask(&session, 'x', -1, &answer), WORKER_SESSION_E_NONE);
        cr_assert_eq(counts.n_started, 0);
        zygotes = zygotes_unref(zygotes);
        setup();
}

static void *converse(void *userdata) {
        WorkerSessionCounts *mine = userdata;

        for (int i = 0; i < N_TIMES; i++) {
                WorkerSession session = make(mine, TIME_LIMIT_NS);
                char answer = 0;

                cr_assert_eq(ask(&session, i % 5 ? 'x' : 'c', -1, &answer),
                             i % 5 ? 0 : WORKER_SESSION_E_DIED);
                worker_session_end(&session);
        }
        return NULL;
}

Test(session, several_threads_have_workers_at_once) {
        WorkerSessionCounts mine[N_THREADS] = { 0 };
        pthread_t threads[N_THREADS];

        for (int i = 0; i < N_THREADS; i++)
                cr_assert_eq(pthread_create(&threads[i], NULL, converse, &mine[i]), 0);
        for (int i = 0; i < N_THREADS; i++) {
                pthread_join(threads[i], NULL);
                cr_assert_eq(mine[i].n_started, N_TIMES);
                cr_assert_eq(mine[i].n_died, N_TIMES / 5);
                cr_assert_eq(mine[i].n_late, 0);
        }
}
