/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-spans THREADS [SECONDS]: more spans than anybody can keep
 *
 * THREADS threads burn the CPU and begin a new span some 100,000 times a second
 * each: every sample has a span of its own. Trace = (thread's tid, 1), spans of a
 * thread = its tid << 40 + 1, 2, 3 … Prints first:
 *     pid 4711
 */
#include <pthread.h>

#include "spanprof/context.h"
#include "victim.h"

STEP void spans_burn(void);

STEP void spans_burn(void) {
        uint64_t tid = (uint64_t)gettid();

        for (uint64_t n = 1; !victim_stopped; n++) {
                spanprof_context_set(tid, 1, (tid << 40) + n);
                victim_sink = victim_spin(victim_sink, 5000);
        }
        spanprof_context_clear();
}

static void *spans_main(void *data) {
        spans_burn();
        return NULL;
}

int main(int argc, char **argv) {
        static const char usage[] = "victim-spans THREADS [SECONDS]";
        unsigned int n = (unsigned int)victim_argument(argc, argv, 1, 1, 1, 1000, usage);
        pthread_t thread;

        victim_stop_after(victim_argument(argc, argv, 2, 0, 0, 1e6, usage));
        if (spanprof_context_start(NULL))
                return 1;
        printf("pid %d\n", getpid());
        fflush(stdout);
        for (unsigned int i = 1; i < n; i++)
                if (pthread_create(&thread, NULL, spans_main, NULL))
                        return 1;
        spans_burn();
        return 0;
}
