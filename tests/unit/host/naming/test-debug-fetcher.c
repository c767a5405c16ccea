/* SPDX-License-Identifier: Apache-2.0 */

/* Whose wishes were dropped; what servers are asked for is tested with servers (test-run-debuginfod.py). */

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/shares.h"
#include "core/base/sandbox/zygotes.h"
#include "core/base/util/stat.h"
#include "host/naming/debug-fetcher.h"
#include "host/sampling/process/identity.h"
#include "host/service/run/worker-main.h"

enum { N_PLACES = 1024, N_ROOM = N_PLACES / 4, MANY = 61001, SOME };

__attribute__((__constructor__)) static void become_zygote(int argc, char **argv) {
        if (argc == 1 && !strcmp(argv[0], ZYGOTE_NAME))
                zygote_serve(worker_main);
}

/* @n build ids of a user that nobody has looked for. */
static void look(const NameRemote *remote, uint32_t user, unsigned n) {
        static unsigned last;
        SymbolRemote own = remote->remote;
        char id[16];
        uint64_t size;
        int fd;

        own.owner = (ShareOwner){ 1, user, user };
        for (unsigned i = 0; i < n; i++) {
                snprintf(id, sizeof(id), "%08x", ++last);
                cr_assert_eq(own.fetch(&own, id, &fd, &size), 1);
        }
}

static uint64_t n_told(uint32_t user) {
        uint64_t n_others;
        size_t n;
        const ShareUser *users = shares_users(&n, &n_others);

        for (size_t i = 0; i < n; i++)
                if (users[i].user == user)
                        return users[i].n;
        return 0;
}

/* No server answers, and each is asked again after an hour. */
Test(debug_fetcher, wishes_that_are_dropped_are_told_of_their_users) {
        char directory[] = "/tmp/test-debug-fetcher-XXXXXX", command[64];
        DebugFetcherConfig config = { .client = { .urls = "http://127.0.0.1:9" }, .retry_ns = UINT64_C(3600000000000) };
        DebugFetcher *fetcher;
        uint64_t sum;
        NameRemote remote;

        cr_assert_not_null(mkdtemp(directory));
        config.client.directory = directory;
        cr_assert_eq(zygotes_new(&config.client.zygotes), 0);
        cr_assert_eq(debug_fetcher_new(&fetcher, &config), 0);
        remote = debug_fetcher_remote(fetcher);
        look(&remote, MANY, N_ROOM);
        debug_fetcher_collect(fetcher);
        cr_assert_eq(n_told(MANY), 0);
        look(&remote, SOME, N_PLACES);
        sum = n_told(SOME);
        cr_assert_eq(sum, 0, "the loop has not looked yet");
        look(&remote, MANY, 500);
        look(&remote, SOME, 1);
        debug_fetcher_collect(fetcher);
        cr_assert_eq(n_told(MANY), 500);
        sum = n_told(SOME);
        cr_assert(sum > N_PLACES / 2 && sum <= N_PLACES, "%u", (unsigned)sum);
        debug_fetcher_collect(fetcher);
        cr_assert_eq(n_told(MANY), 500);

        /* more users than a table of them has places, after the first of which the line is full */
        for (uint32_t user = 1; user <= 2 * SHARES_MAX_USERS; user++)
                look(&remote, user, 100);
        debug_fetcher_collect(fetcher);
        cr_assert_gt(n_told(IDENTITY_NOBODY), 0);
        debug_fetcher_free(fetcher);
        zygotes_free(config.client.zygotes);
        snprintf(command, sizeof(command), "rm -rf %s", directory);
        cr_assert_eq(system(command), 0);
}
