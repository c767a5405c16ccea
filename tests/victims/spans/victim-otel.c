/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-otel: the SDK's process and thread contexts
 *
 * Threads as those of victim-context, of which the first sets nothing, but written by the SDK's library.
 * With `fork`, a child that publishes nothing itself does the same. Each prints `pid N` and
 * `thread TID set|none`, and burns until SIGTERM, a child at most until its parent's end.
 */
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "spanprof/otel.h"
#include "victim.h"

static void *live(void *data) {
        unsigned int tid = (unsigned int)syscall(SYS_gettid);
        const char *parity = tid % 2 ? "odd" : "even";
        char route[16];
        int n = snprintf(route, sizeof(route), "/route/%u", tid % 3);

        printf("thread %u %s\n", tid, data ? "set" : "none");
        while (!victim_stopped) {
                if (data) {
                        spanprof_otel_set(0x1111222233334444, tid, UINT64_C(0x5555000000000000) | tid);
                        spanprof_otel_attribute(0, route, (size_t)n);
                        spanprof_otel_attribute(1, parity, strlen(parity));
                }
                for (int i = 0; i < 1000; i++)
                        victim_sink = victim_spin(victim_sink, 1000);
        }
        return NULL;
}

int main(int argc, char **argv) {
        struct spanprof_otel_attribute resource[] = { { "service.name", "shop" },
                                                      { "service.version", "1.2" } };
        const char *keys[] = { "http.route", "parity" };
        struct spanprof_otel_process process = { sizeof(process), 2, resource, 2, keys };
        pthread_t threads[4];

        setlinebuf(stdout);
        victim_stop_after(0);
        if (spanprof_otel_publish(&process))
                return 1;
        if (argc == 2 && strcmp(argv[1], "fork") == 0 && fork() == 0)
                prctl(PR_SET_PDEATHSIG, SIGTERM);
        printf("pid %d\n", getpid());
        for (uintptr_t i = 0; i < 4; i++)
                if (pthread_create(&threads[i], NULL, live, (void *)i))
                        return 1;
        for (int i = 0; i < 4; i++)
                pthread_join(threads[i], NULL);
        return 0;
}
