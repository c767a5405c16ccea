/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-traces LOG N BURN_MS [SLOW TIMES]: requests that go through two processes
 *
 * Two processes publish spans. Of N traces, one after the other, the first one burns BURN_MS of CPU in
 * traces_front() for a span, then hands the request to the second one, which burns as much in traces_back()
 * for another span of the same trace. Trace n is (9, n), its spans 2n and 2n + 1. Trace SLOW takes TIMES as
 * long in traces_front(). LOG gets at the end
 *
 *     part PID TRACE SPAN CPU BEGIN END       in ns: CPU time by the thread's clock; MONOTONIC
 *     all CPU                                 CPU time of the first process
 *
 * victim-traces crowd THREADS: THREADS threads burn the CPU until SIGTERM, each some 0.2 ms long for a trace
 * of its own and below a stack of its own, 64 calls deep.
 *
 * Prints first, of the second process alone with N:
 *     pid 4711
 *     back 4712
 * and, as all traces are done:
 *     done
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>

#include "spanprof/context.h"
#include "victim.h"

enum { DEPTH = 64 };

typedef struct Part {
        pid_t pid;
        uint64_t trace, span, cpu_ns, begin_ns, end_ns;
} Part;

STEP void traces_front(uint64_t burn_ns);
STEP void traces_back(uint64_t burn_ns);
STEP void traces_left(uint64_t way, int depth);
STEP void traces_right(uint64_t way, int depth);

static void burn(uint64_t burn_ns) {
        uint64_t end_ns = victim_cpu_ns() + burn_ns;

        while (victim_cpu_ns() < end_ns)
                victim_sink = victim_spin(victim_sink, 20000);
}

STEP void traces_front(uint64_t burn_ns) {
        burn(burn_ns);
        victim_sink++;                  /* the call is not the last thing here */
}

STEP void traces_back(uint64_t burn_ns) {
        burn(burn_ns);
        victim_sink++;                  /* the call is not the last thing here */
}

static Part serve(uint64_t trace, uint64_t span, void (*work)(uint64_t), uint64_t burn_ns) {
        Part part = { .pid = getpid(), .trace = trace, .span = span };

        part.begin_ns = victim_clock_ns(CLOCK_MONOTONIC);
        part.cpu_ns = victim_cpu_ns();
        spanprof_context_set(9, trace, span);
        work(burn_ns);
        spanprof_context_clear();
        part.cpu_ns = victim_cpu_ns() - part.cpu_ns;
        part.end_ns = victim_clock_ns(CLOCK_MONOTONIC);
        return part;
}

static void back_main(int from, int to, uint64_t burn_ns) {
        uint64_t trace;

        while (read(from, &trace, sizeof(trace)) == sizeof(trace)) {
                Part part = serve(trace, 2 * trace + 1, traces_back, burn_ns);

                if (write(to, &part, sizeof(part)) != sizeof(part))
                        break;
        }
        _exit(0);
}

static void tell(FILE *log, const Part *part) {
        fprintf(log, "part %d %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", part->pid, part->trace,
                part->span, part->cpu_ns, part->begin_ns, part->end_ns);
}

static int requests(FILE *log, uint64_t n, uint64_t burn_ns, uint64_t slow, uint64_t times) {
        int there[2], back[2];
        char line[16];
        pid_t pid;

        if (pipe(there) || pipe(back))
                return 1;
        pid = fork();
        if (pid < 0)
                return 1;
        if (!pid) {
                close(there[1]);
                back_main(there[0], back[1], burn_ns);
        }
        printf("back %d\n", pid);
        fflush(stdout);
        if (!fgets(line, sizeof(line), stdin))  /* until whoever looks has begun */
                return 1;
        for (uint64_t i = 1; i <= n; i++) {
                Part front = serve(i, 2 * i, traces_front, i == slow ? times * burn_ns : burn_ns), part;

                if (write(there[1], &i, sizeof(i)) != sizeof(i) ||
                    read(back[0], &part, sizeof(part)) != sizeof(part))
                        return 1;
                tell(log, &front);
                tell(log, &part);
        }
        fprintf(log, "all %" PRIu64 "\n", victim_clock_ns(CLOCK_PROCESS_CPUTIME_ID));
        fflush(log);
        printf("done\n");
        fflush(stdout);
        while (fgets(line, sizeof(line), stdin))        /* both live on until it ends */
                ;
        close(there[1]);
        waitpid(pid, NULL, 0);
        return 0;
}

/* Which of the two is called at each depth is a bit of @way: of each trace another stack. */
static void go_down(uint64_t way, int depth) {
        if (!depth)
                victim_sink = victim_spin(victim_sink, 200000);
        else if (way & 1)
                traces_left(way >> 1, depth - 1);
        else
                traces_right(way >> 1, depth - 1);
        victim_sink++;                  /* as above */
}

STEP void traces_left(uint64_t way, int depth) {
        go_down(way, depth);
}

STEP void traces_right(uint64_t way, int depth) {
        go_down(way, depth);
}

static void *crowd_main(void *data) {
        uint64_t tid = (uint64_t)gettid();

        for (uint64_t n = 1; !victim_stopped; n++) {
                spanprof_context_set(tid, n, n);
                traces_left(victim_spin(n, 3), DEPTH);
        }
        spanprof_context_clear();
        return NULL;
}

static int crowd(int n) {
        pthread_t threads[64];

        victim_stop_after(0);
        for (int i = 0; i < n; i++)
                if (pthread_create(&threads[i], NULL, crowd_main, NULL))
                        return 1;
        for (int i = 0; i < n; i++)
                pthread_join(threads[i], NULL);
        return 0;
}

int main(int argc, char **argv) {
        static const char usage[] = "victim-traces LOG N BURN_MS [SLOW TIMES], or victim-traces crowd THREADS";
        const bool is_crowd = argc == 3 && !strcmp(argv[1], "crowd");
        FILE *log = argc == 4 || argc == 6 ? fopen(argv[1], "we") : NULL;

        if ((!log && !is_crowd) || spanprof_context_start(NULL)) {
                fprintf(stderr, "usage: %s\n", usage);
                return 2;
        }
        printf("pid %d\n", getpid());
        fflush(stdout);
        if (is_crowd)
                return crowd((int)victim_argument(argc, argv, 2, 1, 1, 64, usage));
        return requests(log, (uint64_t)victim_argument(argc, argv, 2, 1, 1, 1e6, usage),
                        (uint64_t)(victim_argument(argc, argv, 3, 1, 0, 1e6, usage) * 1e6),
                        (uint64_t)victim_argument(argc, argv, 4, 0, 1, 1e6, usage),
                        (uint64_t)victim_argument(argc, argv, 5, 1, 1, 1000, usage));
}
