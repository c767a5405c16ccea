/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-operations LOG ring|thread: threads that use the CPU in spans, and know how much
 *
 * Obeys lines on its standard input and answers `ok` to each:
 *
 *     go [NAME…]
 *             three threads work, or those that are named. `steps` has two spans, and sleeps as each begins
 *             and ends: its spans change where it has no CPU to speak of. `requests` sleeps without a span,
 *             and has one in between. `changes` goes from span to span without a sleep, and sleeps in the
 *             midst of each. Sleeps differ, and none ends with a timer of others: so ticks come at any place
 *
 * In the form `thread`, spans have an operation: the attribute http.route. The service is `shop`.
 *
 * LOG gets lines once they have worked, times in ns, of this and all earlier work. The threads of `go` live
 * on, and sleep:
 *
 *     span TID SPAN OPERATION CPU         CPU time within the span, by the thread's own clock
 *     all CPU                             of all threads of the process
 *
 * TRACE = 7, 8. Prints first:
 *     pid 4711
 */
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>

#include "spanprof/context.h"
#include "spanprof/otel.h"
#include "victim.h"

enum { ROUNDS = 60, BURN_US = 2000, MAX_SPANS = 2 };

typedef struct Worker {
        const char *name;
        void (*work)(struct Worker *self);
        uint64_t first_span;
        uint64_t n_spans;
        const char *operations[MAX_SPANS];
        uint64_t begin_cpu_ns;
        uint64_t cpu_ns[MAX_SPANS];
        pid_t tid;
        uint32_t draw;
} Worker;

static bool has_operations;
static sem_t done;

static void enter(Worker *self, uint64_t n) {
        const char *operation = self->operations[n];

        spanprof_context_set(7, 8, self->first_span + n);
        if (has_operations && spanprof_context_attribute(0, operation, strlen(operation)))
                abort();
        self->begin_cpu_ns = victim_cpu_ns();
}

static void leave(Worker *self, uint64_t n) {
        self->cpu_ns[n] += victim_cpu_ns() - self->begin_cpu_ns;
        spanprof_context_clear();
}

static void nap(Worker *self) {
        self->draw += 0x9E3779B9;       /* 2^32 ÷ the golden ratio */
        nanosleep(&(struct timespec){ .tv_nsec = 100000 + (long)(self->draw % 200000) }, NULL);
}

static void burn(void) {
        uint64_t end_ns = victim_cpu_ns() + BURN_US * UINT64_C(1000);

        while (victim_cpu_ns() < end_ns)
                victim_sink = victim_spin(victim_sink, 1000);
}

static void steps(Worker *self) {
        for (int i = 0; i < ROUNDS; i++) {
                enter(self, i % 2);
                nap(self);
                burn();
                nap(self);
                burn();
                nap(self);
                leave(self, i % 2);
                nap(self);
        }
}

static void requests(Worker *self) {
        for (int i = 0; i < 2 * ROUNDS; i++) {
                nap(self);
                enter(self, 0);
                burn();
                leave(self, 0);
        }
        nap(self);
}

static void changes(Worker *self) {
        enter(self, 0);
        for (int i = 0; i < ROUNDS; i++) {
                nap(self);
                burn();
                leave(self, i % 2);
                enter(self, (i + 1) % 2);
                burn();
        }
        nap(self);
        leave(self, ROUNDS % 2);
        nap(self);
}

static Worker workers[] = { { "steps", steps, 10, 2, { "/checkout", "/search" }, 0, { 0 }, 0, 0 },
                            { "requests", requests, 20, 1, { "/short" }, 0, { 0 }, 0, 0 },
                            { "changes", changes, 30, 2, { "/first", "/second" }, 0, { 0 }, 0, 0 } };

enum { N_WORKERS = sizeof(workers) / sizeof(*workers) };

static void *worker_main(void *data) {
        Worker *self = data;

        self->tid = gettid();
        prctl(PR_SET_TIMERSLACK, 1);
        self->work(self);
        sem_post(&done);
        while (true)
                pause();
        return NULL;
}

static void go(FILE *log, const char *names) {
        pthread_t thread;
        int n_begun = 0;

        for (int i = 0; i < N_WORKERS; i++) {
                if (*names && !strstr(names, workers[i].name))
                        continue;
                if (pthread_create(&thread, NULL, worker_main, &workers[i]))
                        abort();
                n_begun++;
        }
        while (n_begun--)
                sem_wait(&done);
        for (int i = 0; i < N_WORKERS; i++)
                for (uint64_t n = 0; n < workers[i].n_spans; n++)
                        fprintf(log, "span %d %" PRIu64 " %s %" PRIu64 "\n", workers[i].tid,
                                workers[i].first_span + n, workers[i].operations[n], workers[i].cpu_ns[n]);
        fprintf(log, "all %" PRIu64 "\n", victim_clock_ns(CLOCK_PROCESS_CPUTIME_ID));
        fflush(log);
}

static int publish(const char *form) {
        static const struct spanprof_otel_attribute resource[] = { { "service.name", "shop" } };
        static const char *const keys[] = { "http.route" };
        struct spanprof_otel_process process = { sizeof(process), 1, resource, 1, keys };
        struct spanprof_context_options options = { .size = sizeof(options) };

        has_operations = !strcmp(form, "thread");
        options.storage = has_operations ? SPANPROF_CONTEXT_THREAD : SPANPROF_CONTEXT_RING;
        return spanprof_otel_publish(&process) || spanprof_context_start(&options);
}

int main(int argc, char **argv) {
        FILE *log = argc == 3 ? fopen(argv[1], "we") : NULL;
        char line[64];

        if (!log) {
                fprintf(stderr, "usage: victim-operations LOG ring|thread\n");
                return 2;
        }
        if (publish(argv[2]) || sem_init(&done, 0, 0))
                return 1;
        printf("pid %d\n", getpid());
        fflush(stdout);
        while (fgets(line, sizeof(line), stdin)) {
                line[strcspn(line, "\n")] = 0;
                if (!strncmp(line, "go", 2))
                        go(log, line + 2);
                printf("ok\n");
                fflush(stdout);
        }
        return 0;
}
