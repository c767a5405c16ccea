/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Names for addresses on standard input (hexadecimal, one a line), by the file at a path. Prints one line:
 *
 *     found N load_ns N lookup_ns N bytes N hash N     lookup_ns: of all, the best of --rounds, after the
 *                                                      first; hash: of all names
 *
 * usage: symbol-cost FILE [names|lines|workers] [ROUNDS]        workers: the file is read by one without
 * rights, as in `run`
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <fcntl.h>

#include "core/base/util/clock.h"
#include "core/symbol/function/symbol-session.h"
#include "core/symbol/function/symbol-wire.h"
#include "host/service/run/worker-main.h"

static uint64_t *addresses;
static uint32_t n_addresses, n_found;
static uint64_t hash;
static Zygotes *zygotes;
static WorkerSessionCounts counts;

__attribute__((__constructor__)) static void become_zygote(int argc, char **argv) {
        if (argc == 1 && !strcmp(argv[0], ZYGOTE_NAME))
                zygote_serve(worker_main);
}

static void start_zygotes(void) {
        if (zygotes_new(&zygotes) || zygotes_wait(zygotes, 10000))
                exit(1);
}

static void read_addresses(void) {
        uint32_t room = 0;
        uint64_t address;

        while (scanf("%" SCNx64, &address) == 1) {
                if (n_addresses == room) {
                        room = room ? room * 2 : 4096;
                        addresses = reallocarray(addresses, room, sizeof(*addresses));
                        if (!addresses)
                                exit(1);
                }
                addresses[n_addresses++] = address;
        }
}

static ImageIds ids_of(const char *path) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ElfImage image;
        struct stat st;
        ImageIds ids;

        if (fd < 0 || fstat(fd, &st) < 0 || elf_image_init(&image, fd, 0, (uint64_t)st.st_size) ||
            elf_image_ids(&image, &ids))
                exit(1);
        elf_image_deinit(&image);
        close(fd);
        return ids;
}

static void look_up_all(Symbolizer *symbolizer, const SymbolObject *object) {
        n_found = 0;
        hash = 0;
        for (uint32_t i = 0; i < n_addresses; i++) {
                SymbolName name;

                if (zygotes && i % SYMBOL_WIRE_MAX_NAMES == 0 &&
                    symbol_session_run(zygotes, symbolizer, object, addresses + i,
                                       MIN(n_addresses - i, (uint32_t)SYMBOL_WIRE_MAX_NAMES), &counts))
                        exit(3);
                if (symbolizer_name(symbolizer, object, addresses[i], &name))
                        exit(1);
                n_found += name.name != NULL;
                for (const char *at = name.name; at && *at; at++)
                        hash = hash * 31 + (uint8_t)*at;
        }
}

static int count(void *userdata, uint32_t index, const LineFrame *frames, size_t n) {
        n_found++;
        return 0;
}

static uint64_t time_of(Symbolizer *symbolizer, const SymbolObject *object, bool lines) {
        uint64_t start_ns = clock_monotonic_ns();
        LinesState state;

        n_found = 0;
        if (!lines)
                look_up_all(symbolizer, object);
        else if (symbolizer_lines(symbolizer, object, addresses, n_addresses, count, NULL, &state))
                exit(1);
        return clock_monotonic_ns() - start_ns;
}

int main(int argc, char **argv) {
        bool lines = argc > 2 && !strcmp(argv[2], "lines");
        long rounds = argc > 3 ? strtol(argv[3], NULL, 10) : 5;
        SymbolizerOptions options = { .lines = { .program = getenv("SPANPROF") } };
        Symbolizer *symbolizer = NULL;
        uint64_t start_ns, load_ns, best_ns = UINT64_MAX;
        SymbolObject object = { 0 };
        SymbolName name;
        ImageIds ids;

        if (argc < 2 || symbolizer_new(&symbolizer, &options))
                return 2;
        ids = ids_of(argv[1]);
        object = (SymbolObject){ .path = argv[1], .build_id_gnu = ids.gnu, .build_id_go = ids.go };
        read_addresses();
        if (argc > 2 && !strcmp(argv[2], "workers"))
                start_zygotes();
        start_ns = clock_monotonic_ns();
        if (zygotes && symbol_session_run(zygotes, symbolizer, &object, addresses, 0, &counts))
                return 3;
        if (symbolizer_name(symbolizer, &object, 0, &name))
                return 1;
        load_ns = clock_monotonic_ns() - start_ns;
        if (lines)
                rounds = 1;
        for (long i = 0; i < rounds; i++) {
                uint64_t took_ns = time_of(symbolizer, &object, lines);

                best_ns = MIN(best_ns, took_ns);
        }
        printf("found %u load_ns %" PRIu64 " lookup_ns %" PRIu64 " bytes %zu hash %" PRIu64 "\n", n_found,
               load_ns, best_ns, symbolizer_memory(symbolizer), hash);
        if (zygotes)
                printf("workers %u died %u late %u malformed %u left_out %" PRIu64 "\n", counts.n_started,
                       counts.n_died, counts.n_late, counts.n_malformed, symbolizer_stats(symbolizer)->n_cut);
        zygotes_free(zygotes);
        symbolizer_free(symbolizer);
        free(addresses);
        return 0;
}
