/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-threads BURNING [SLEEPING [SECONDS [CAPACITY [DEPTH]]]]: threads with names
 *
 * BURNING threads named burn-0, burn-1 … that use the CPU in threads_burn(), and
 * SLEEPING ones named sleep-0 … that do nothing; the main thread sleeps too.
 * With CAPACITY it publishes a context ring of so many slots (by the SDK), in
 * which every thread, from its start to its end, works for the span 1, 2, 3 …
 * of trace 7, 8: with few slots, threads share one. threads_burn() is called
 * through DEPTH calls more.
 *
 * Prints first, span 0 = nothing published, and at the end the CPU time of each:
 *     thread 4712 burn-0 span 0
 *     thread 4713 sleep-0 span 0
 *     pid 4711 ready
 *     cpu 4712 burn-0 1001382771
 *     cpu 4713 sleep-0 31822
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>

#include "spanprof/context.h"
#include "victim.h"

typedef struct Member {
        pthread_t thread;
        pid_t tid;
        char name[24];
        bool burns;
        unsigned int span;              /* 0 = none */
        uint64_t cpu_ns;
} Member;

static sem_t started;
static unsigned int depth;

STEP void threads_burn(void);

STEP void threads_burn(void) {
        KEEP_FRAME();
        while (!victim_stopped)
                victim_sink = victim_spin(victim_sink, 10000);
}

STEP void threads_descend(unsigned int left);

STEP void threads_descend(unsigned int left) {
        KEEP_FRAME();
        if (left)
                threads_descend(left - 1);
        else
                threads_burn();
        victim_sink++;                  /* no call is the last thing */
}

static void threads_sleep(void) {
        struct timespec step = { .tv_nsec = 20000000 };

        while (!victim_stopped)
                nanosleep(&step, NULL);
}

static void *member_main(void *data) {
        Member *member = data;

        member->tid = gettid();
        pthread_setname_np(pthread_self(), member->name);
        if (member->span)
                spanprof_context_set(7, 8, member->span);
        sem_post(&started);
        if (member->burns)
                threads_descend(depth);
        else
                threads_sleep();
        member->cpu_ns = victim_cpu_ns();
        return NULL;
}

static void member_start(Member *member, unsigned int n, unsigned int n_burning, bool published) {
        member->burns = n < n_burning;
        member->span = published ? n + 1 : 0;
        snprintf(member->name, sizeof(member->name), "%s-%u", member->burns ? "burn" : "sleep",
                 member->burns ? n : n - n_burning);
        if (pthread_create(&member->thread, NULL, member_main, member)) {
                perror("victim-threads");
                exit(1);
        }
        sem_wait(&started);
        printf("thread %d %s span %u\n", member->tid, member->name, member->span);
}

int main(int argc, char **argv) {
        static const char usage[] = "victim-threads BURNING [SLEEPING [SECONDS [CAPACITY [DEPTH]]]]";
        unsigned int n_burning = (unsigned int)victim_argument(argc, argv, 1, 1, 0, 10000, usage);
        unsigned int n = n_burning + (unsigned int)victim_argument(argc, argv, 2, 0, 0, 10000, usage);
        struct spanprof_context_options options = {
                .size = sizeof(options),
                .capacity = (uint32_t)victim_argument(argc, argv, 4, 0, 0, 1 << 24, usage),
        };
        Member *members = calloc(n + 1, sizeof(*members));

        depth = (unsigned int)victim_argument(argc, argv, 5, 0, 0, 100, usage);
        victim_stop_after(victim_argument(argc, argv, 3, 0, 0, 1e6, usage));
        if (!members || sem_init(&started, 0, 0) || (options.capacity && spanprof_context_start(&options)))
                return 1;
        for (unsigned int i = 0; i < n; i++)
                member_start(&members[i], i, n_burning, options.capacity != 0);
        printf("pid %d ready\n", getpid());
        fflush(stdout);
        threads_sleep();
        for (unsigned int i = 0; i < n; i++) {
                pthread_join(members[i].thread, NULL);
                printf("cpu %d %s %lu\n", members[i].tid, members[i].name, members[i].cpu_ns);
        }
        free(members);
        return 0;
}
