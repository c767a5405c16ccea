/* SPDX-License-Identifier: Apache-2.0 */

/* Conversations with real workers from a thread that waits. The nursery is this program once more, as in test-jail.c. */

#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/channel.h"
#include "jail/errand.h"
#include "util/clock.h"
#include "util/stat.h"

#define PATIENCE_NS (60 * NS_PER_SEC)

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

__attribute__((__constructor__)) static void become_nursery(int argc, char **argv) {
        if (argc == 1 && !strcmp(argv[0], NURSERY_NAME))
                nursery_serve(work);
}

static Nursery *nursery;
static ErrandCounts counts;

static void setup(void) {
        stat_reset();
        cr_assert_eq(nursery_new(&nursery), 0);
        cr_assert_eq(nursery_wait(nursery, 60000), 0);
}

static void teardown(void) {
        nursery = nursery_free(nursery);
        cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1, "a child is left");
}

TestSuite(errand, .init = setup, .fini = teardown);

static Errand make(ErrandCounts *to, uint64_t time_ns) {
        return (Errand){ .nursery = nursery, .end_ns = clock_monotonic_ns() + time_ns, .counts = to, .socket = -1 };
}

static int ask(Errand *errand, char letter, int fd, char *answer) {
        int r = errand_begin(errand);

        if (!r)
                r = errand_send(errand, &letter, 1, fd);
        return r ? r : errand_receive(errand, answer, 1);
}

Test(errand, one_worker_answers_several_questions) {
        Errand errand = make(&counts, PATIENCE_NS);
        int fd = memfd_create("test", MFD_CLOEXEC);
        char answer = 0;

        cr_assert_eq(write(fd, "!", 1), 1);
        for (char letter = 'A'; letter <= 'Z'; letter++) {
                cr_assert_eq(ask(&errand, letter, -1, &answer), 0);
                cr_assert_eq(answer, letter);
        }
        for (int i = 0; i < 40; i++)            /* more than it may hold at a time */
                cr_assert_eq(ask(&errand, 'f', fd, &answer), 0);
        cr_assert_eq(answer, '!');
        cr_assert_eq(counts.n_started, 1);
        errand_end(&errand);
        cr_assert_eq(counts.n_died + counts.n_late + counts.n_malformed, 0);
        close(fd);
}

Test(errand, an_answer_may_be_larger_than_a_socket_holds) {
        Errand errand = make(&counts, PATIENCE_NS);
        char *answer = malloc(LARGE);

        cr_assert_eq(ask(&errand, 'l', -1, answer), 0);
        cr_assert_eq(errand_receive(&errand, answer + 1, LARGE - 1), 0);
        for (int i = 0; i < LARGE; i++)
                cr_assert_eq(answer[i], 'l');
        errand_end(&errand);
        free(answer);
}

Test(errand, who_dies_is_known_to_be_dead_and_the_next_question_has_another) {
        Errand errand = make(&counts, PATIENCE_NS);
        char answer = 0;

        cr_assert_eq(ask(&errand, 'c', -1, &answer), ERRAND_E_DIED);
        cr_assert_eq(ask(&errand, 'q', -1, &answer), ERRAND_E_DIED);
        cr_assert_eq(ask(&errand, 'x', -1, &answer), 0);
        cr_assert_eq(answer, 'x');
        cr_assert_eq(errand_refuse(&errand), ERRAND_E_DIED);
        cr_assert_eq(ask(&errand, 'y', -1, &answer), 0);
        errand_end(&errand);
        errand_count(&counts);
        cr_assert_eq(stat_get(COUNTER_WORKERS_STARTED), 4);
        cr_assert_eq(stat_get(COUNTER_WORKERS_DIED), 2);
        cr_assert_eq(stat_get(COUNTER_WORKERS_MALFORMED), 1);
        cr_assert_eq(stat_get(COUNTER_WORKERS_LATE), 0);
}

Test(errand, who_takes_too_long_is_late_and_killed) {
        Errand errand = make(&counts, 200 * NS_PER_MS), next = make(&counts, PATIENCE_NS);
        char answer = 0;

        cr_assert_eq(ask(&errand, 'h', -1, &answer), ERRAND_E_LATE);
        cr_assert_eq(counts.n_late, 1);
        cr_assert_eq(errand.socket, -1);
        cr_assert_eq(ask(&next, 'x', -1, &answer), 0);
        errand_end(&next);
}

Test(errand, without_a_nursery_there_is_nobody) {
        Errand errand = make(&counts, PATIENCE_NS);
        char answer;

        nursery_ref(nursery);
        nursery_free(nursery);
        cr_assert_eq(ask(&errand, 'x', -1, &answer), ERRAND_E_NONE);
        cr_assert_eq(counts.n_started, 0);
        nursery = nursery_unref(nursery);
        setup();
}

static void *converse(void *userdata) {
        ErrandCounts *mine = userdata;

        for (int i = 0; i < N_TIMES; i++) {
                Errand errand = make(mine, PATIENCE_NS);
                char answer = 0;

                cr_assert_eq(ask(&errand, i % 5 ? 'x' : 'c', -1, &answer), i % 5 ? 0 : ERRAND_E_DIED);
                errand_end(&errand);
        }
        return NULL;
}

Test(errand, several_threads_have_workers_at_once) {
        ErrandCounts mine[N_THREADS] = { 0 };
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
