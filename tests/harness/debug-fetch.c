/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Looks for debug files as the daemon does, by a DebugFetcher with intervals of the caller's:
 * `debug-fetch URLS CACHE RETRY-MS AGAIN-MS N-LOOKS BUILD-ID…`. Each build id is looked for N-LOOKS times,
 * AGAIN-MS apart. Then it waits until no one waits for an answer, or 20 s. Prints `came ID` for each that did,
 * and the counts.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util/clock.h"
#include "base/util/stat.h"
#include "service/run/worker-main.h"
#include "symbol/remote/debug-fetcher.h"

static void look(const NameRemote *remote, int n_looks, uint64_t again_ms, char **ids, int n) {
        for (int i = 0; i < n_looks; i++) {
                for (int k = 0; k < n; k++) {
                        uint64_t size;
                        int fd;

                        if (!remote->remote.fetch(remote->remote.userdata, ids[k], &fd, &size))
                                close(fd);
                }
                usleep((useconds_t)(again_ms * 1100));
        }
}

static void wait_for_answers(DebugFetcher *fetcher, const NameRemote *remote) {
        uint64_t end_ns = clock_monotonic_ns() + 20 * NS_PER_SEC;
        DebugFetcherState state;
        char id[256];

        do {
                debug_fetcher_state(fetcher, &state);
                while (remote->next(remote->remote.userdata, id, sizeof(id)))
                        printf("came %s\n", id);
                usleep(2000);
        } while (state.n_waiting && clock_monotonic_ns() < end_ns);
        while (remote->next(remote->remote.userdata, id, sizeof(id)))
                printf("came %s\n", id);
        printf("waiting %u\n", state.n_waiting);
}

int main(int argc, char **argv) {
        static const struct {
                const char *name;
                enum counter counter;
        } counts[] = {
                { "cached", COUNTER_DEBUGINFOD_CACHED }, { "fetched", COUNTER_DEBUGINFOD_FETCHED },
                { "none", COUNTER_DEBUGINFOD_NONE },     { "refused", COUNTER_DEBUGINFOD_REFUSED },
                { "failed", COUNTER_DEBUGINFOD_FAILED }, { "dropped", COUNTER_DEBUGINFOD_DROPPED },
        };
        DebugFetcherConfig config = { 0 };
        DebugFetcher *fetcher = NULL;
        Zygotes *zygotes = NULL;
        NameRemote remote;

        if (argc == 1 && !strcmp(argv[0], ZYGOTE_NAME))
                zygote_serve(worker_main);
        if (argc < 7 || zygotes_new(&zygotes) || zygotes_wait(zygotes, 5000))
                return 2;
        config.client = (DebuginfodConfig){ .urls = argv[1], .directory = argv[2], .none_s = 1,
                                            .zygotes = zygotes };
        config.retry_ns = strtoull(argv[3], NULL, 10) * NS_PER_MS;
        config.again_ns = strtoull(argv[4], NULL, 10) * NS_PER_MS;
        if (debug_fetcher_new(&fetcher, &config))
                return 1;
        remote = debug_fetcher_remote(fetcher);
        look(&remote, atoi(argv[5]), strtoull(argv[4], NULL, 10), argv + 6, argc - 6);
        wait_for_answers(fetcher, &remote);
        debug_fetcher_collect(fetcher);
        for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
                printf("%s %llu\n", counts[i].name, (unsigned long long)stat_get(counts[i].counter));
        debug_fetcher_free(fetcher);
        zygotes_free(zygotes);
        return 0;
}
