/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "core/base/thread/worker.h"
#include "core/base/util/clock.h"

#define LONG_NS (60 * NS_PER_SEC)

typedef struct TestJob {
        WorkerJob job;
        sem_t *begun, *go;              /* says that it works; waits for that. NULL = does not */
        int number, nice;
} TestJob;

static int done[16], stuck[16];
static unsigned n_done, n_stuck;
static atomic_uint n_discarded, n_ended, n_ready;

static void work(WorkerJob *base, void *state) {
        TestJob *job = (TestJob *)base;

        job->nice = getpriority(PRIO_PROCESS, 0);
        if (job->begun)
                sem_post(job->begun);
        if (job->go)
                sem_wait(job->go);
}

static void discard(WorkerJob *job) {
        free(job);
        n_discarded++;
}

static void count_ready(WorkerJob *job) {
        n_ready++;
}

static void take_done(WorkerJob *job, void *userdata) {
        done[n_done++] = ((TestJob *)job)->number;
        cr_assert_eq(((TestJob *)job)->nice, 10, "services go first");
        free(job);
}

static void take_stuck(WorkerJob *job, void *userdata) {
        stuck[n_stuck++] = ((TestJob *)job)->number;
}

static TestJob *new_job(int number, sem_t *begun, sem_t *go) {
        TestJob *job = calloc(1, sizeof(*job));

        job->job = (WorkerJob){
                .work = work, .ready = count_ready, .done = take_done, .stuck = take_stuck, .discard = discard
        };
        job->number = number;
        job->begun = begun;
        job->go = go;
        return job;
}

static void push(Worker *worker, int number, sem_t *begun, sem_t *go) {
        cr_assert_eq(worker_push(worker, &new_job(number, begun, go)->job), 0);
}

static Worker *new_worker(WorkerConfig config) {
        Worker *worker;

        cr_assert_eq(worker_new(&worker, &config), 0);
        return worker;
}

static void collect_all(Worker *worker) {
        cr_assert(worker_wait(worker, clock_monotonic_ns() + LONG_NS));
        worker_collect(worker, clock_monotonic_ns());
}

Test(worker, does_jobs_in_order_and_hands_them_back_when_asked) {
        Worker *worker = new_worker((WorkerConfig){ 0 });

        for (int i = 0; i < 10; i++)
                push(worker, i, NULL, NULL);
        cr_assert_eq(worker_n_waiting(worker), 10);
        cr_assert_eq(n_done, 0);
        collect_all(worker);
        cr_assert_eq(n_done, 10);
        for (int i = 0; i < 10; i++)
                cr_assert_eq(done[i], i);
        cr_assert_eq(worker_n_waiting(worker), 0);
        worker_free(worker);
        cr_assert_eq(n_discarded, 0);
}

Test(worker, does_those_with_a_lower_rank_first) {
        static const uint64_t ranks[] = { 2, 1, 1, 3, 0, 2 };
        static const int order[] = { 9, 4, 1, 2, 0, 5, 3 };
        Worker *worker = new_worker((WorkerConfig){ 0 });
        sem_t begun, go;

        sem_init(&begun, 0, 0);
        sem_init(&go, 0, 0);
        push(worker, 9, &begun, &go);
        sem_wait(&begun);
        for (int i = 0; i < 6; i++) {
                TestJob *job = new_job(i, NULL, NULL);

                job->job.rank = ranks[i];
                cr_assert_eq(worker_push(worker, &job->job), 0);
        }
        sem_post(&go);
        collect_all(worker);
        cr_assert_eq(n_done, 7);
        for (int i = 0; i < 7; i++)
                cr_assert_eq(done[i], order[i]);
        worker_free(worker);
}

Test(worker, takes_no_more_than_the_queue_holds) {
        Worker *worker = new_worker((WorkerConfig){ .max_jobs = 3 });
        TestJob *over = new_job(4, NULL, NULL);
        sem_t begun, go;

        sem_init(&begun, 0, 0);
        sem_init(&go, 0, 0);
        push(worker, 1, &begun, &go);
        push(worker, 2, NULL, NULL);
        push(worker, 3, NULL, NULL);
        cr_assert_eq(worker_push(worker, &over->job), WORKER_E_FULL);
        sem_post(&go);
        collect_all(worker);
        cr_assert_eq(n_done, 3);
        cr_assert_eq(worker_push(worker, &over->job), 0);
        collect_all(worker);
        cr_assert_eq(done[3], 4);
        worker_free(worker);
}

static void *begin(void) {
        return malloc(1);
}

static void end(void *state) {
        free(state);
        n_ended++;
}

/* Whoever is told that a job is ready finds it by one look. */
Test(worker, says_that_a_job_is_ready_when_it_can_be_taken) {
        Worker *worker = new_worker((WorkerConfig){ 0 });

        for (unsigned i = 1; i <= 10; i++) {
                push(worker, (int)i, NULL, NULL);
                while (n_ready < i)
                        sched_yield();
                worker_collect(worker, clock_monotonic_ns());
                cr_assert_eq(n_done, i);
        }
        worker_free(worker);
}

/*
 * The one that hangs is left, those behind it are done by another thread, and the first one clears up when it
 * can.
 */
Test(worker, gives_up_a_job_that_takes_too_long) {
        Worker *worker = new_worker(
                (WorkerConfig){ .begin = begin, .end = end, .time_limit_ns = NS_PER_SEC });
        sem_t begun, go;

        sem_init(&begun, 0, 0);
        sem_init(&go, 0, 0);
        push(worker, 1, &begun, &go);
        push(worker, 2, NULL, NULL);
        sem_wait(&begun);
        worker_collect(worker, clock_monotonic_ns());
        cr_assert_eq(n_stuck, 0, "it has a second");
        worker_collect(worker, clock_monotonic_ns() + 2 * NS_PER_SEC);
        cr_assert_eq(n_stuck, 1);
        cr_assert_eq(stuck[0], 1);
        cr_assert_eq(worker_n_stuck(worker), 1);
        collect_all(worker);
        cr_assert_eq(n_done, 1);
        cr_assert_eq(done[0], 2);
        sem_post(&go);
        while (worker_n_stuck(worker)) {
                sched_yield();
                worker_collect(worker, clock_monotonic_ns());
        }
        cr_assert_eq(n_discarded, 1);
        cr_assert_eq(n_ended, 1);
        cr_assert_eq(n_ready, 1, "what was given up is ready for nobody");
        worker_free(worker);
        cr_assert_eq(n_ended, 2);
}

Test(worker, takes_nothing_more_while_too_many_hang) {
        Worker *worker = new_worker((WorkerConfig){ .time_limit_ns = 1 });
        TestJob *over = new_job(5, NULL, NULL);
        sem_t begun, go;

        sem_init(&begun, 0, 0);
        sem_init(&go, 0, 0);
        for (int i = 1; i <= 4; i++) {
                push(worker, i, &begun, &go);
                sem_wait(&begun);
                worker_collect(worker, clock_monotonic_ns() + NS_PER_SEC);
                cr_assert_eq((int)n_stuck, i);
        }
        cr_assert_eq(worker_push(worker, &over->job), WORKER_E_UNABLE);
        for (int i = 1; i <= 4; i++)
                sem_post(&go);
        while (worker_n_stuck(worker)) {
                sched_yield();
                worker_collect(worker, clock_monotonic_ns());
        }
        cr_assert_eq(worker_push(worker, &over->job), 0);
        collect_all(worker);
        cr_assert_eq(done[0], 5);
        worker_free(worker);
}

Test(worker, ends_though_a_job_hangs) {
        Worker *worker = new_worker((WorkerConfig){ .begin = begin, .end = end });
        sem_t begun, go;

        sem_init(&begun, 0, 0);
        sem_init(&go, 0, 0);
        push(worker, 1, &begun, &go);
        push(worker, 2, NULL, NULL);
        sem_wait(&begun);
        worker_free(worker);
        cr_assert_eq(n_discarded, 1, "the one that waited");
        sem_post(&go);
        while (n_ended < 1 || n_discarded < 2)          /* the thread discards after it has ended its state */
                sched_yield();
        cr_assert_eq(n_discarded, 2);
        cr_assert_eq(n_done, 0);
}

Test(worker, starts_no_thread_before_there_is_work) {
        Worker *worker = new_worker((WorkerConfig){ .begin = begin, .end = end });

        worker_collect(worker, clock_monotonic_ns());
        cr_assert(worker_wait(worker, 0));
        worker_free(worker);
        cr_assert_eq(n_ended, 0);
}
