/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Looks for debug files as the daemon does, by a DebugFetcher with intervals of the caller's:
 * `debug-fetch URLS CACHE RETRY-MS AGAIN-MS N-LOOKS [USER:]BUILD-ID…`. Each build id is looked for N-LOOKS times,
 * for a process of that user, each time AGAIN-MS and a tenth after nobody waits for an answer any more, or
 * 20 s. Prints `came ID` for each that did, and the counts.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/util/clock.h"
#include "core/base/util/stat.h"
#include "host/naming/debug-fetcher.h"
#include "host/service/run/worker-main.h"

/* Return: how many still wait. */
static uint32_t wait_for_answers(DebugFetcher *fetcher) {
        uint64_t end_ns = clock_monotonic_ns() + 20 * NS_PER_SEC;
        DebugFetcherState state;

        for (;;) {
                debug_fetcher_state(fetcher, &state);
                if (!state.n_waiting || clock_monotonic_ns() >= end_ns)
                        return state.n_waiting;
                usleep(2000);
        }
}

static void look(DebugFetcher *fetcher, const NameRemote *remote, char **ids, int n) {
        for (int k = 0; k < n; k++) {
                const char *mark = strchr(ids[k], ':');
                SymbolRemote own = remote->remote;
                uint64_t size;
                int fd;

                own.owner = (ShareOwner){ 1, mark ? (uint32_t)atoi(ids[k]) : 0, 1 };
                if (!own.fetch(&own, mark ? mark + 1 : ids[k], &fd, &size))
                        close(fd);
        }
        printf("waiting %u\n", wait_for_answers(fetcher));
}

static void print_those_that_came(const NameRemote *remote) {
        char id[256];

        while (remote->next(remote->remote.userdata, id, sizeof(id)))
                printf("came %s\n", id);
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
        for (int i = 0; i < atoi(argv[5]); i++) {
                if (i)
                        usleep((useconds_t)(strtoull(argv[4], NULL, 10) * 1100));
                look(fetcher, &remote, argv + 6, argc - 6);
        }
        print_those_that_came(&remote);
        debug_fetcher_collect(fetcher);
        for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
                printf("%s %llu\n", counts[i].name, (unsigned long long)stat_get(counts[i].counter));
        debug_fetcher_free(fetcher);
        zygotes_free(zygotes);
        return 0;
}
