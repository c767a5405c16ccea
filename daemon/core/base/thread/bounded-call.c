/* SPDX-License-Identifier: Apache-2.0 */

/*
 *     caller ──job──▶ worker ──▶ system call ──▶ done ──▶ caller                   (a few µs each way)
 *            asked                                answered
 *                                     └─ no answer: the caller leaves the worker's thread behind
 *                                        (thread.h) and lists it as stuck; the next call gets a new worker
 *
 * The job works on a copy of the caller's data, or on data that is its own: a stuck one never writes into
 * memory that the caller uses again. A hand-over takes longer than most system calls, so who has many to make
 * hands over all of them as one job, and the calls of this file that such a job makes are made on the spot.
 * Each of them looks, before and after, whether the job was given up, and then says that it is stuck.
 *
 * `asked` and `answered` are semaphores: with a condition and its mutex, who was woken went to sleep again for
 * the mutex that the other still held, which was a third of the price of a call. And the worker runs on the
 * CPU of its caller, who only waits: to wake up another CPU takes longer than most of what is asked for.
 */
#include "core/base/thread/bounded-call.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/base/thread/thread.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/macro.h"
#include "core/base/util/stat.h"

enum {
        MAX_STUCK = 16,                 /* then nothing is tried any more until one of them is back */
        STACK_BYTES = 256 << 10,
};

/* A page from a slow disk takes less. Less and less for many who hold us up: 1.7 s in all. */
#define TIME_LIMIT_NS (500 * NS_PER_MS)
#define SAY_AGAIN_NS (60 * NS_PER_SEC)

/* ThreadSanitizer knows sem_post(), and no sem_clockwait(): this says what the latter has seen. */
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#define AFTER_POST(_semaphore) __tsan_acquire(_semaphore)
#else
#define AFTER_POST(_semaphore) ((void)(_semaphore))
#endif

typedef struct Worker {
        struct Worker *next;            /* among those that hang */
        Thread *thread;
        sem_t asked, answered;          /* a job came, or the end; it is done */
        int cpu;                        /* where it is kept; -1 = anywhere */
        pid_t key;
        ssize_t (*work)(void *data);
        void *data;                     /* a copy, or handed over; the worker's if it was given up, */
        void (*drop)(void *data);       /* … which frees it by this */
        ssize_t result;
        atomic_bool is_given_up;        /* written before `asked` is posted for the last time */
} Worker;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Worker *current;                 /* idle, or at the one job that is waited for; NULL = none yet */
static Worker *stuck;
static unsigned n_stuck;
static _Thread_local const Worker *self;        /* the worker whose thread this is; NULL = another thread */

static void free_worker(Worker *worker) {
        sem_destroy(&worker->asked);
        sem_destroy(&worker->answered);
        free(worker);
}

/* In a thread that was given up, when its call is back. */
static void end_stuck(void *userdata) {
        Worker *worker = userdata, **at = &stuck;

        pthread_mutex_lock(&lock);
        while (*at != worker)
                at = &(*at)->next;
        *at = worker->next;
        n_stuck--;
        pthread_mutex_unlock(&lock);
        worker->drop(worker->data);
        free_worker(worker);
}

static void wait_asked(Worker *worker) {
        while (sem_wait(&worker->asked) < 0)
                ;
}

/* A job that was given up gets no answer; what ends the worker was asked meanwhile. */
static void run_worker(void *userdata) {
        Worker *worker = userdata;

        self = worker;
        for (wait_asked(worker); !worker->is_given_up; wait_asked(worker)) {
                worker->result = worker->work(worker->data);
                sem_post(&worker->answered);
        }
}

static int start_worker(void) {
        Worker *worker = calloc(1, sizeof(*worker));
        const ThreadConfig config = { .stack_bytes = STACK_BYTES,
                                      .run = run_worker,
                                      .destroy = end_stuck,
                                      .userdata = worker };
        int r;

        if (!worker)
                return error_origin(-ENOMEM);
        sem_init(&worker->asked, 0, 0);
        sem_init(&worker->answered, 0, 0);
        r = thread_new(&worker->thread, &config);
        if (r) {
                free_worker(worker);
                return r < 0 ? error_fold(r) : BOUNDED_E_STUCK;        /* no more threads, for now */
        }
        worker->cpu = -1;
        current = worker;
        return 0;
}

static void bring_here(Worker *worker) {
        int cpu = sched_getcpu();

        if (cpu < 0 || cpu == worker->cpu)
                return;
        thread_keep_on(worker->thread, cpu);
        worker->cpu = cpu;
}

static bool is_hopeless(pid_t key) {
        if (n_stuck >= MAX_STUCK)
                return true;
        for (const Worker *worker = stuck; worker; worker = worker->next)
                if (key && worker->key == key)
                        return true;
        return false;
}

static void give_up(Worker *worker) {
        static LogLimit limit;
        uint64_t n_skipped;

        worker->is_given_up = true;
        worker->next = stuck;
        stuck = worker;
        n_stuck++;
        current = NULL;
        thread_end(worker->thread, 0);  /* the thread cannot have ended: it was not asked to */
        if (log_limit(&limit, SAY_AGAIN_NS, &n_skipped))
                log_warning("a target holds up who reads its memory (pid %d): it is not read any more",
                            (int)worker->key);
        sem_post(&worker->asked);       /* from now on it may be gone at any time */
}

/* Waits until the job is done. Return: 0, BOUNDED_E_STUCK. */
static int wait_done(Worker *worker) {
        uint64_t end_ns = clock_monotonic_ns() + TIME_LIMIT_NS / (1 + n_stuck);
        const struct timespec end = { (time_t)(end_ns / NS_PER_SEC), (long)(end_ns % NS_PER_SEC) };

        while (sem_clockwait(&worker->answered, CLOCK_MONOTONIC, &end) < 0)
                if (errno != EINTR)
                        return BOUNDED_E_STUCK;
        AFTER_POST(&worker->answered);
        return 0;
}

/* With the lock held. On BOUNDED_E_STUCK @data is the worker's. */
static int run_job(pid_t key, ssize_t (*work)(void *data), void (*drop)(void *data), void *data,
                   ssize_t *resultp) {
        Worker *worker = current;

        worker->key = key;
        worker->work = work;
        worker->drop = drop;
        worker->data = data;
        bring_here(worker);
        sem_post(&worker->asked);
        if (wait_done(worker)) {
                give_up(worker);
                return BOUNDED_E_STUCK;
        }
        *resultp = worker->result;
        worker->data = NULL;
        return 0;
}

static int run_copy(pid_t key, ssize_t (*work)(void *data), void *data, size_t size, ssize_t *resultp) {
        void *copy = malloc(size);
        int r;

        if (!copy)
                return error_origin(-ENOMEM);
        memcpy(copy, data, size);
        r = run_job(key, work, free, copy, resultp);
        if (r)
                return r;
        memcpy(data, copy, size);
        explicit_bzero(copy, size);     /* the memory may be part of an environment */
        free(copy);
        return 0;
}

/* Whether a thread waits for a job. Return: 0, BOUNDED_E_STUCK, -ENOMEM. */
static int get_ready(pid_t key) {
        if (is_hopeless(key))
                return BOUNDED_E_STUCK;
        return current ? 0 : start_worker();
}

/* In a job. Return: 0, BOUNDED_E_STUCK. */
static int run_here(ssize_t (*work)(void *data), void *data, ssize_t *resultp) {
        if (self->is_given_up)
                return BOUNDED_E_STUCK;
        *resultp = work(data);
        return self->is_given_up ? BOUNDED_E_STUCK : 0;
}

int bounded_run(pid_t key, ssize_t (*work)(void *data), void *data, size_t size, ssize_t *resultp) {
        int r;

        if (self)
                return run_here(work, data, resultp);
        pthread_mutex_lock(&lock);
        r = get_ready(key);
        if (!r)
                r = run_copy(key, work, data, size, resultp);
        pthread_mutex_unlock(&lock);
        stat_add(COUNTER_READS_STUCK, r == BOUNDED_E_STUCK);
        return r;
}

int bounded_hand_over(pid_t key, ssize_t (*work)(void *data), void (*drop)(void *data), void **datap,
                      ssize_t *resultp) {
        void *data = *datap;
        bool is_handed;
        int r;

        if (self)
                return run_here(work, data, resultp);
        pthread_mutex_lock(&lock);
        r = get_ready(key);
        is_handed = !r;
        if (is_handed)
                r = run_job(key, work, drop, data, resultp);
        pthread_mutex_unlock(&lock);
        if (is_handed && r)
                *datap = NULL;
        stat_add(COUNTER_READS_STUCK, r == BOUNDED_E_STUCK);
        return r;
}

bool bounded_is_here(void) {
        return self;
}

unsigned bounded_n_stuck(void) {
        unsigned n;

        pthread_mutex_lock(&lock);
        n = n_stuck;
        pthread_mutex_unlock(&lock);
        return n;
}

typedef struct ReadJob {
        int fd;
        bool ended;
        int64_t offset;
        size_t size;
        char *to;                       /* NULL = `bytes`, in a copy */
        char bytes[BOUNDED_MAX_READ];
} ReadJob;

static ssize_t do_read(void *data) {
        ReadJob *job = data;
        char *to = job->to ?: job->bytes;
        ssize_t n;

        do
                n = job->offset < 0 ? read(job->fd, to, job->size) :
                                      pread(job->fd, to, job->size, (off_t)job->offset);
        while (n < 0 && errno == EINTR);
        return n < 0 ? -errno : n;
}

static ssize_t do_fill(void *data) {
        ReadJob *job = data;
        char *to = job->to ?: job->bytes;
        size_t done = 0;
        ssize_t n;

        do {
                n = read(job->fd, to + done, job->size - done);
                done += n > 0 ? (size_t)n : 0;
        } while ((n > 0 && done < job->size) || (n < 0 && errno == EINTR));
        job->ended = n == 0;
        return n < 0 && !done ? -errno : (ssize_t)done;
}

static ssize_t run_read(pid_t key, ssize_t (*work)(void *data), int fd, void *data, size_t size,
                        int64_t offset, bool *endedp) {
        ReadJob job;
        ssize_t n = 0;
        int r;

        job.fd = fd;
        job.ended = false;
        job.offset = offset;
        job.size = MIN(size, sizeof(job.bytes));
        job.to = self ? data : NULL;
        r = bounded_run(key, work, &job, offsetof(ReadJob, bytes) + job.size, &n);
        if (r)
                return r < 0 ? r : -ETIMEDOUT;
        *endedp = job.ended;
        if (job.to)
                return n;
        if (n > 0)
                memcpy(data, job.bytes, (size_t)n);
        explicit_bzero(job.bytes, job.size);
        return n;
}

ssize_t bounded_read(pid_t key, int fd, void *data, size_t size, int64_t offset) {
        bool ended;

        return run_read(key, do_read, fd, data, size, offset, &ended);
}

ssize_t bounded_fill(pid_t key, int fd, void *data, size_t size) {
        bool ended;

        return run_read(key, do_fill, fd, data, size, -1, &ended);
}

ssize_t bounded_fill_some(pid_t key, int fd, void *data, size_t size, bool *endedp) {
        return run_read(key, do_fill, fd, data, size, -1, endedp);
}

typedef struct MemoryJob {
        pid_t pid;
        size_t n, each;
        uint8_t *to;                    /* NULL = `bytes`, in a copy */
        uint64_t addresses[BOUNDED_MAX_ADDRESSES];
        uint8_t bytes[BOUNDED_MAX_ADDRESSES * BOUNDED_MAX_EACH];
} MemoryJob;

static ssize_t do_read_memory(void *data) {
        MemoryJob *job = data;
        struct iovec local = { job->to ?: job->bytes, job->n * job->each }, remote[BOUNDED_MAX_ADDRESSES];
        ssize_t n;

        for (size_t i = 0; i < job->n; i++)
                remote[i] = (struct iovec){ (void *)(uintptr_t)job->addresses[i], job->each };
        n = process_vm_readv(job->pid, &local, 1, remote, job->n, 0);
        return n < 0 ? -errno : n;
}

ssize_t bounded_read_memory(pid_t pid, const uint64_t *addresses, size_t n, size_t each, void *data) {
        MemoryJob job;
        ssize_t done = 0;
        int r;

        if (n > BOUNDED_MAX_ADDRESSES || each > BOUNDED_MAX_EACH)
                return error_origin(-EINVAL);
        job.pid = pid;
        job.n = n;
        job.each = each;
        job.to = self ? data : NULL;
        memcpy(job.addresses, addresses, n * sizeof(*addresses));
        r = bounded_run(pid, do_read_memory, &job, offsetof(MemoryJob, bytes) + n * each, &done);
        if (!r && done > 0 && !job.to)
                memcpy(data, job.bytes, (size_t)done);
        return r > 0 ? -ETIMEDOUT : r ? r : done;
}
