/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Asks for debug files with limits of the caller's:
 * `debuginfod-get URLS CACHE MAX-FILE MAX-CACHE IDLE-SECONDS BUILD-ID…`. Prints a size, or `none`, for each build id.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/util/clock.h"
#include "core/symbol/debug/debuginfod.h"
#include "host/service/run/worker-main.h"

int main(int argc, char **argv) {
        Zygotes *zygotes = NULL;
        Debuginfod *client = NULL;
        DebuginfodConfig config;

        if (argc == 1 && !strcmp(argv[0], ZYGOTE_NAME))
                zygote_serve(worker_main);
        if (argc < 7 || zygotes_new(&zygotes) || zygotes_wait(zygotes, 5000))
                return 2;
        config = (DebuginfodConfig){ .urls = argv[1],
                                     .directory = argv[2],
                                     .max_file_bytes = strtoull(argv[3], NULL, 10),
                                     .max_cache_bytes = strtoull(argv[4], NULL, 10),
                                     .idle_ns = strtoull(argv[5], NULL, 10) * NS_PER_SEC,
                                     .zygotes = zygotes };
        if (debuginfod_new(&client, &config))
                return 1;
        for (int i = 6; i < argc; i++) {
                uint64_t size;
                int fd;

                if (debuginfod_get(client, argv[i], &fd, &size)) {
                        puts("none");
                        continue;
                }
                printf("%llu\n", (unsigned long long)size);
                close(fd);
        }
        debuginfod_free(client);
        zygotes_free(zygotes);
        return 0;
}
