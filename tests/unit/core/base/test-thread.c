/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/thread/thread.h"
#include "core/base/util/clock.h"

#define LONG_NS (60 * NS_PER_SEC)
#define SHORT_NS (20 * NS_PER_MS)

typedef struct Work {
        sem_t begun, go;
        char name[16];
        int nice, number;
        sigset_t blocked;
} Work;

static atomic_uint n_destroyed;

static Work *new_work(void) {
        Work *work = calloc(1, sizeof(*work));

        sem_init(&work->begun, 0, 0);
        sem_init(&work->go, 0, 0);
        return work;
}

static void look(void *userdata) {
        Work *work = userdata;

        pthread_getname_np(pthread_self(), work->name, sizeof(work->name));
        work->nice = getpriority(PRIO_PROCESS, 0);
        pthread_sigmask(SIG_SETMASK, NULL, &work->blocked);
        work->number = 42;
}

static void hang(void *userdata) {
        Work *work = userdata;

        sem_post(&work->begun);
        sem_wait(&work->go);
        work->number = 43;
}

static void destroy(void *userdata) {
        free(userdata);
        atomic_fetch_add(&n_destroyed, 1);
}

Test(thread_new, gives_a_thread_its_name_and_priority_and_no_signals) {
        Work *work = new_work();
        int nice = getpriority(PRIO_PROCESS, 0);
        sigset_t before, after;
        Thread *thread;

        pthread_sigmask(SIG_SETMASK, NULL, &before);
        cr_assert_eq(thread_new(&thread, &(ThreadConfig){ .name = "a-worker", .nice = 10, .run = look,
                                                          .destroy = destroy, .userdata = work }), 0);
        cr_assert_eq(thread_end(thread, clock_monotonic_ns() + LONG_NS), 0);
        cr_assert_str_eq(work->name, "a-worker");
        cr_assert_eq(work->nice, 10);
        cr_assert_eq(getpriority(PRIO_PROCESS, 0), nice, "that of the creator stays");
        cr_assert(sigismember(&work->blocked, SIGTERM) && sigismember(&work->blocked, SIGINT));
        pthread_sigmask(SIG_SETMASK, NULL, &after);
        cr_assert_eq(sigismember(&before, SIGTERM), sigismember(&after, SIGTERM));
        cr_assert_eq(atomic_load(&n_destroyed), 0, "what a thread used that ended is its owner's");
        free(work);
}

Test(thread_new, says_when_there_are_no_more_threads) {
        Thread *thread = NULL;

        /* 2^46 bytes of stack: there is no such room */
        cr_assert_eq(thread_new(&thread, &(ThreadConfig){ .stack_bytes = (size_t)1 << 46, .run = look }),
                     THREAD_E_UNABLE);
        cr_assert_null(thread);
}

Test(thread_wait, tells_whether_the_work_has_returned) {
        Work *work = new_work();
        Thread *thread;

        cr_assert_eq(thread_new(&thread, &(ThreadConfig){ .run = hang, .userdata = work }), 0);
        sem_wait(&work->begun);
        cr_assert_not(thread_wait(thread, 0));
        cr_assert_not(thread_wait(thread, clock_monotonic_ns() + SHORT_NS));
        sem_post(&work->go);
        cr_assert(thread_wait(thread, clock_monotonic_ns() + LONG_NS));
        cr_assert_eq(work->number, 43);
        cr_assert_eq(thread_end(thread, 0), 0);
        free(work);
}

Test(thread_join, waits_as_long_as_it_takes) {
        Work *work = new_work();
        Thread *thread;

        cr_assert_eq(thread_new(&thread, &(ThreadConfig){ .run = hang, .userdata = work }), 0);
        sem_post(&work->go);
        cr_assert_null(thread_join(thread));
        cr_assert_eq(work->number, 43);
        cr_assert_null(thread_join(NULL));
        free(work);
}

Test(thread_end, leaves_behind_a_thread_that_hangs_with_what_it_owns) {
        Work *works[8];
        Thread *thread;

        for (unsigned i = 0; i < 8; i++) {
                works[i] = new_work();
                cr_assert_eq(thread_new(&thread, &(ThreadConfig){ .run = hang, .destroy = destroy,
                                                                  .userdata = works[i] }), 0);
                sem_wait(&works[i]->begun);
                cr_assert_eq(thread_end(thread, i % 2 ? clock_monotonic_ns() + SHORT_NS : 0), THREAD_E_LEFT);
        }
        cr_assert_eq(atomic_load(&n_destroyed), 0);
        for (unsigned i = 0; i < 8; i++)
                sem_post(&works[i]->go);
        while (atomic_load(&n_destroyed) < 8)
                usleep(1000);
}

/* The side that comes last frees: the end of the work and thread_end() meet in any order. */
Test(thread_end, meets_a_thread_that_ends_at_that_moment) {
        unsigned n_left = 0, n_all = 500;

        for (unsigned i = 0; i < n_all; i++) {
                Work *work = new_work();
                Thread *thread;

                cr_assert_eq(thread_new(&thread, &(ThreadConfig){ .run = hang, .destroy = destroy,
                                                                  .userdata = work }), 0);
                sem_post(&work->go);
                if (thread_end(thread, i % 3 ? clock_monotonic_ns() + i : 0) == THREAD_E_LEFT) {
                        n_left++;
                        continue;
                }
                cr_assert_eq(work->number, 43);
                free(work);
        }
        while (atomic_load(&n_destroyed) < n_left)
                usleep(1000);
}
