/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-waits LOG: threads that wait, and know how long
 *
 * Obeys lines on its standard input and answers `ok` to each:
 *
 *     go      six threads wait, each in spans of its own, and end: `ping` and `pong` hand a byte over through
 *             pipes, on two CPUs; `holder` sleeps with a mutex, and tells `waiter` each time, who then wants it;
 *             `grid` sleeps 1, 2, 5 ms in turn, each in another span; `server` waits in poll()
 *     slow    the same, but `holder` has the mutex for 200 ms each time, and `server` waits as long
 *     hold    a thread begins to wait for a byte that never comes, in span 90, and for nothing else there
 *     exit    ends the process while that one waits; never answers
 *
 * LOG gets lines, times in ns:
 *
 *     span TID TRACE SPAN REASON WALL OFF INSIDE
 *                                          time by CLOCK_MONOTONIC around the span, and the same less the
 *                                          thread's own CPU time: it had no CPU; INSIDE: such time by clocks
 *                                          within the span. The thread may lose its CPU between a clock
 *                                          and the span, so the truth lies between INSIDE and OFF
 *     life TID WALL CPU DELAY              of the thread from its first span to its last; DELAY: run_delay of
 *                                          /proc/…/schedstat
 *     book TID LIFE WALL CPU RUN DELAY     with `books`: of the thread from its first line to its last; RUN: also
 *                                          of schedstat; LIFE: to its last line, from before it was made
 *     hold TID TRACE SPAN SINCE            the thread waits since then
 *     exit AT                              the process ends now
 *
 * TRACE = the thread's id. Prints first:
 *     pid 4711
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "spanprof/context.h"
#include "victim.h"

enum { ROUND_TRIPS = 3000, GRID_ROUNDS = 40, MAX_SPANS = 8 };

/* How often `holder` holds the mutex, how often `server` polls, and for how long each time. */
typedef struct Lengths {
        int holds, polls;
        int hold_ms, poll_ms;
} Lengths;

static const Lengths usual = { 15, 30, 20, 10 }, slow = { 5, 5, 200, 200 };
static Lengths lengths;

typedef struct Waiter {
        const char *reason;             /* what the kernel must call it */
        uint64_t first_span;
        uint64_t n_spans;
        uint64_t tid;
        uint64_t in_ns[MAX_SPANS], off_ns[MAX_SPANS], inside_off_ns[MAX_SPANS];
        uint64_t begin_ns, begin_cpu_ns, begin_delay_ns;        /* of the thread */
        uint64_t span_ns, span_cpu_ns;                          /* of its span, before it begins */
        uint64_t inside_ns, inside_cpu_ns;                      /* once it has begun */
        uint64_t wall_ns, cpu_ns, delay_ns;
} Waiter;

typedef struct Book {
        void *(*work)(void *);
        bool stays;
        uint32_t is_done;
        uint64_t begin_ns, tid, life_ns, wall_ns, cpu_ns, run_ns, delay_ns;
} Book;

static Waiter ping = { "read", 10, 1 }, pong = { "read", 20, 1 }, holder = { "sleep", 30, 1 },
              waiter = { "futex", 40, 1 }, grid = { "sleep", 50, 3 }, server = { "poll", 60, 1 };
static int to_pong[2], to_ping[2], never[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t held;      /* how often `holder` has had the mutex, less what `waiter` knows of */
static pthread_barrier_t barrier;
static FILE *log_file;
static sem_t holds;                             /* the next two are known */
static uint64_t hold_tid, hold_since_ns;

/* What the scheduler says of this thread: time on a CPU, and time in the queue for one. */
static void read_schedstat(uint64_t *runp, uint64_t *delayp) {
        char path[64], text[128] = "";
        unsigned long long cpu, delay = 0;
        int fd;

        snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", gettid());
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0 || sscanf(text, "%llu %llu", &cpu, &delay) != 2)
                abort();
        close(fd);
        *runp = cpu;
        *delayp = delay;
}

static uint64_t delay_ns(void) {
        uint64_t run, delay;

        read_schedstat(&run, &delay);
        return delay;
}

static void read_book(Book *book) {
        read_schedstat(&book->run_ns, &book->delay_ns);
        book->cpu_ns = victim_cpu_ns();
        book->wall_ns = victim_clock_ns(CLOCK_MONOTONIC);
}

/*
 * A thread that ends may be preempted behind the last moment at which anybody sees it. So threads with books
 * stay, and wait for a signal.
 */
static void *keep_book(void *data) {
        Book *book = data, before;

        book->tid = (uint64_t)gettid();
        read_book(&before);
        book->work(NULL);
        read_book(book);
        book->life_ns = book->wall_ns - book->begin_ns;
        book->wall_ns -= before.wall_ns;
        book->cpu_ns -= before.cpu_ns;
        book->run_ns -= before.run_ns;
        book->delay_ns -= before.delay_ns;
        __atomic_store_n(&book->is_done, 1, __ATOMIC_RELEASE);
        while (book->stays)
                pause();
        return NULL;
}

static void begin(Waiter *self) {
        memset(self->in_ns, 0, sizeof(self->in_ns));
        memset(self->off_ns, 0, sizeof(self->off_ns));
        memset(self->inside_off_ns, 0, sizeof(self->inside_off_ns));
        self->tid = (uint64_t)gettid();
        self->begin_delay_ns = delay_ns();
        self->begin_cpu_ns = victim_cpu_ns();
        self->begin_ns = victim_clock_ns(CLOCK_MONOTONIC);
}

static void end(Waiter *self) {
        self->wall_ns = victim_clock_ns(CLOCK_MONOTONIC) - self->begin_ns;
        self->cpu_ns = victim_cpu_ns() - self->begin_cpu_ns;
        self->delay_ns = delay_ns() - self->begin_delay_ns;
}

static void enter(Waiter *self, uint64_t n) {
        self->span_ns = victim_clock_ns(CLOCK_MONOTONIC);
        self->span_cpu_ns = victim_cpu_ns();
        spanprof_context_set(0, self->tid, self->first_span + n);
        self->inside_cpu_ns = victim_cpu_ns();
        self->inside_ns = victim_clock_ns(CLOCK_MONOTONIC);
}

static void leave(Waiter *self, uint64_t n) {
        uint64_t inside_ns = victim_clock_ns(CLOCK_MONOTONIC) - self->inside_ns,
                 inside_cpu_ns = victim_cpu_ns() - self->inside_cpu_ns, cpu_ns, ns;

        spanprof_context_clear();
        cpu_ns = victim_cpu_ns() - self->span_cpu_ns;
        ns = victim_clock_ns(CLOCK_MONOTONIC) - self->span_ns;
        self->in_ns[n] += ns;
        self->off_ns[n] += ns - cpu_ns;
        if (inside_ns > inside_cpu_ns)
                self->inside_off_ns[n] += inside_ns - inside_cpu_ns;
}

static void sleep_us(long us) {
        nanosleep(&(struct timespec){ 0, us * 1000 }, NULL);
}

static void sleep_ms(long ms) {
        sleep_us(ms * 1000);
}

/* The second CPU where there is one; the threads share a CPU else. */
static void pin(int cpu) {
        cpu_set_t set;

        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        sched_setaffinity(0, sizeof(set), &set);
}

STEP void hand_over(int from, int to);

STEP void hand_over(int from, int to) {
        char byte = 0;

        if (read(from, &byte, 1) != 1 || write(to, &byte, 1) != 1)
                abort();
        KEEP_FRAME();
}

static void *ping_main(void *data) {
        pin(0);
        pthread_barrier_wait(&barrier);
        begin(&ping);
        enter(&ping, 0);
        if (write(to_pong[1], "", 1) != 1)
                abort();
        for (int i = 0; i < ROUND_TRIPS; i++)
                hand_over(to_ping[0], to_pong[1]);
        leave(&ping, 0);
        end(&ping);
        return NULL;
}

static void *pong_main(void *data) {
        char byte;

        pin(1);
        pthread_barrier_wait(&barrier);
        begin(&pong);
        enter(&pong, 0);
        for (int i = 0; i < ROUND_TRIPS; i++)
                hand_over(to_pong[0], to_ping[1]);
        if (read(to_pong[0], &byte, 1) != 1)
                abort();
        leave(&pong, 0);
        end(&pong);
        return NULL;
}

static void *holder_main(void *data) {
        begin(&holder);
        enter(&holder, 0);
        for (int i = 0; i < lengths.holds; i++) {
                pthread_mutex_lock(&mutex);
                if (!i)
                        pthread_barrier_wait(&barrier);
                sem_post(&held);
                sleep_ms(lengths.hold_ms);
                pthread_mutex_unlock(&mutex);
                sleep_ms(1);            /* the other one has it meanwhile */
        }
        leave(&holder, 0);
        end(&holder);
        return NULL;
}

static void wait_for(sem_t *what) {
        while (sem_wait(what))
                if (errno != EINTR)
                        abort();
}

STEP void want_mutex(void);

STEP void want_mutex(void) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
        KEEP_FRAME();
}

static void *waiter_main(void *data) {
        pthread_barrier_wait(&barrier);
        begin(&waiter);
        enter(&waiter, 0);
        for (int i = 0; i < lengths.holds - 1; i++) {
                wait_for(&held);
                want_mutex();
        }
        leave(&waiter, 0);
        end(&waiter);
        return NULL;
}

STEP void sleep_in_grid(long ms);

STEP void sleep_in_grid(long ms) {
        sleep_ms(ms);
        KEEP_FRAME();
}

static void *grid_main(void *data) {
        static const long lengths_ms[] = { 1, 2, 5 };

        pthread_barrier_wait(&barrier);
        begin(&grid);
        for (int i = 0; i < GRID_ROUNDS; i++)
                for (uint64_t n = 0; n < 3; n++) {
                        enter(&grid, n);
                        sleep_in_grid(lengths_ms[n]);
                        leave(&grid, n);
                }
        end(&grid);
        return NULL;
}

static void *server_main(void *data) {
        struct pollfd ready = { .fd = never[0], .events = POLLIN };

        pthread_barrier_wait(&barrier);
        begin(&server);
        enter(&server, 0);
        for (int i = 0; i < lengths.polls; i++)
                poll(&ready, 1, lengths.poll_ms);
        leave(&server, 0);
        end(&server);
        return NULL;
}

/* Nothing but read() holds it up in its span: the main thread writes what it says. */
static void *hold_main(void *data) {
        char byte;

        hold_tid = (uint64_t)gettid();
        spanprof_context_set(0, hold_tid, 90);
        hold_since_ns = victim_clock_ns(CLOCK_MONOTONIC);
        sem_post(&holds);
        if (read(never[0], &byte, 1) == 1)
                abort();
        return NULL;
}

static void start(pthread_t *thread, void *(*func)(void *), void *data) {
        if (pthread_create(thread, NULL, func, data))
                abort();
}

static void hold(void) {
        pthread_t thread;

        start(&thread, hold_main, NULL);
        wait_for(&holds);
        fprintf(log_file, "hold %" PRIu64 " %" PRIu64 " 90 %" PRIu64 "\n", hold_tid, hold_tid, hold_since_ns);
        fflush(log_file);
}

static void go(const Lengths *of, bool stays) {
        static Book books[] = { { ping_main },   { pong_main }, { holder_main },
                         { waiter_main }, { grid_main }, { server_main } };
        static const Waiter *const waiters[] = { &ping, &pong, &holder, &waiter, &grid, &server };
        pthread_t threads[6];

        lengths = *of;
        pthread_barrier_init(&barrier, NULL, 6);
        sem_init(&held, 0, 0);
        for (int i = 0; i < 6; i++) {
                books[i].stays = stays;
                books[i].begin_ns = victim_clock_ns(CLOCK_MONOTONIC);
                start(&threads[i], keep_book, &books[i]);
        }
        for (int i = 0; i < 6; i++) {
                if (!stays)
                        pthread_join(threads[i], NULL);
                while (!__atomic_load_n(&books[i].is_done, __ATOMIC_ACQUIRE))
                        sleep_ms(1);
        }
        for (int i = 0; i < 6; i++) {
                const Waiter *w = waiters[i];
                const Book *book = &books[i];

                for (uint64_t n = 0; n < w->n_spans; n++)
                        fprintf(log_file,
                                "span %" PRIu64 " %" PRIu64 " %" PRIu64 " %s %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
                                w->tid, w->tid, w->first_span + n, w->reason, w->in_ns[n], w->off_ns[n],
                                w->inside_off_ns[n]);
                fprintf(log_file, "life %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", w->tid, w->wall_ns,
                        w->cpu_ns, w->delay_ns);
                if (!stays)
                        continue;
                fprintf(log_file,
                        "book %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", book->tid,
                        book->life_ns, book->wall_ns, book->cpu_ns, book->run_ns, book->delay_ns);
        }
        fflush(log_file);
}

int main(int argc, char **argv) {
        char line[64];

        log_file = argc == 2 ? fopen(argv[1], "we") : NULL;
        if (!log_file) {
                fprintf(stderr, "usage: victim-waits LOG\n");
                return 2;
        }
        if (pipe(to_pong) || pipe(to_ping) || pipe(never) ||
            sem_init(&holds, 0, 0) || spanprof_context_start(NULL))
                return 1;
        printf("pid %d\n", getpid());
        fflush(stdout);
        while (fgets(line, sizeof(line), stdin)) {
                if (!strcmp(line, "go\n")) {
                        go(&usual, false);
                } else if (!strcmp(line, "slow\n")) {
                        go(&slow, false);
                } else if (!strcmp(line, "books\n")) {
                        go(&usual, true);
                } else if (!strcmp(line, "hold\n")) {
                        hold();
                } else if (!strcmp(line, "exit\n")) {
                        fprintf(log_file, "exit %" PRIu64 "\n", victim_clock_ns(CLOCK_MONOTONIC));
                        fflush(log_file);
                        _exit(0);
                } else {
                        return 1;
                }
                printf("ok\n");
                fflush(stdout);
        }
        return 0;
}
