/* SPDX-License-Identifier: Apache-2.0 */
/*
 * context-switches [SECONDS]: four threads set contexts all the time, another one reads theirs by their ids,
 * and meanwhile the SDK is started and stopped, in each of its storages in turn. Each context's halves follow
 * from each other. Prints `seen N` and `mixed N`; exit status 1 if one was mixed. For ThreadSanitizer, too.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "spanprof/context-api.h"
#include "victim.h"

enum { WRITERS = 4 };

static atomic_int tids[WRITERS];
static atomic_ulong n_seen, n_mixed;
static atomic_bool stops;

static void check(bool found, uint64_t high, uint64_t low, uint64_t span) {
        if (!found)
                return;
        n_seen++;
        if ((high && high != ~low) || span != ~low * 3)
                n_mixed++;
}

static void *write_contexts(void *data) {
        uint64_t high, low, span;

        atomic_store((atomic_int *)data, (int)syscall(SYS_gettid));
        for (uint64_t n = 1; !atomic_load(&stops); n++) {
                spanprof_context_set(n, ~n, n * 3);
                if (n % 5 == 0)
                        spanprof_context_clear();
                if (n % 3 == 0 && spanprof_api_get_otel(&high, &low, &span))
                        check(true, high, low, span);
        }
        return NULL;
}

static void *read_contexts(void *data) {
        uint64_t high, low, span;

        while (!atomic_load(&stops))
                for (int i = 0; i < WRITERS; i++)
                        if (spanprof_api_get_otel_by_tid(atomic_load(&tids[i]), &high, &low, &span))
                                check(true, high, low, span);
        return NULL;
}

int main(int argc, char **argv) {
        static const char *const storages[] = { "ctxstorage=otel", "ctxstorage=profiler", "ctxstorage=thread",
                                                "ctxstorage=otel,capacity=4096" };
        struct timespec pause = { .tv_nsec = 3000000 };
        pthread_t threads[WRITERS + 1];
        sigset_t all, before;
        int n = 0;

        victim_stop_after(victim_argument(argc, argv, 1, 1, 0.1, 3600, "context-switches [SECONDS]"));
        /* the signal that ends it is the main thread's */
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        for (int i = 0; i < WRITERS; i++)
                n += !pthread_create(&threads[i], NULL, write_contexts, &tids[i]);
        n += !pthread_create(&threads[WRITERS], NULL, read_contexts, NULL);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        for (unsigned int i = 0; n == WRITERS + 1 && !victim_stopped; i++) {
                if (!spanprof_api_initialize(storages[i % 4]))
                        return 1;
                nanosleep(&pause, NULL);
                spanprof_api_shutdown();
        }
        atomic_store(&stops, true);
        for (int i = 0; i < n; i++)
                pthread_join(threads[i], NULL);
        printf("seen %lu\nmixed %lu\n", (unsigned long)n_seen, (unsigned long)n_mixed);
        return n_mixed || n < WRITERS + 1;
}
