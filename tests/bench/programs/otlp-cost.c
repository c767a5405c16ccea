/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What one request costs behind the encoder: decoding, validating, JSON, gzip, and a write to the spool with
 * its flush. Best of ROUNDS.
 *
 * usage: otlp-cost REQUEST SPOOL-DIRECTORY [ROUNDS]
 */

#include <stdio.h>
#include <stdlib.h>

#include "core/base/file/file.h"
#include "core/base/file/gzip.h"
#include "core/base/util/clock.h"
#include "core/base/util/macro.h"
#include "core/otlp/decode.h"
#include "core/otlp/transcode.h"
#include "core/otlp/validate.h"
#include "host/delivery/spool/spool.h"

typedef struct Bench {
        const uint8_t *data;
        size_t size;
        Spool *spool;
} Bench;

static void check(int r) {
        if (r)
                abort();
}

static void decode(const Bench *bench) {
        _cleanup_(otlp_request_freep) OtlpRequest *request = NULL;
        char where[128];

        check(otlp_decode_request(bench->data, bench->size, &request, where, sizeof(where)));
}

static void validate(const Bench *bench) {
        ValidateCounts counts;

        check(otlp_validate(bench->data, bench->size, NULL, NULL, &counts));
        check(counts.n_errors != 0);
}

static void to_json(const Bench *bench) {
        _cleanup_(freep) uint8_t *json = NULL;
        size_t size;

        check(otlp_transcode(bench->data, bench->size, true, &json, &size));
}

static void compress(const Bench *bench) {
        _cleanup_(freep) uint8_t *packed = NULL;
        size_t size;

        check(gzip_compress(bench->data, bench->size, &packed, &size));
}

static void store(const Bench *bench) {
        SpoolHeader header = { .form = SPOOL_PROTOBUF, .n_events = 1 };
        SpoolEntry entry;

        check(spool_put(bench->spool, &header, bench->data, bench->size, clock_read_ns(CLOCK_REALTIME),
                        SPOOL_PUT_FLUSHED, &entry));
}

static void measure(const char *name, void (*work)(const Bench *), const Bench *bench, int n_rounds) {
        uint64_t best_ns = UINT64_MAX;

        for (int i = 0; i < n_rounds; i++) {
                uint64_t start_ns = clock_monotonic_ns();

                work(bench);
                best_ns = MIN(best_ns, clock_monotonic_ns() - start_ns);
        }
        printf("%s_ns %llu\n", name, (unsigned long long)best_ns);
}

int main(int argc, char **argv) {
        int n_rounds = argc > 3 ? atoi(argv[3]) : 9;
        _cleanup_(spool_freep) Spool *spool = NULL;
        char *data;
        SpoolProblem problem;
        Bench bench;
        size_t size;

        if (argc < 3 || file_read(argv[1], 1 << 30, &data, &size) ||
            spool_new(&spool, argv[2], NULL, false, &problem))
                return 2;
        bench = (Bench){ (const uint8_t *)data, size, spool };
        printf("bytes %zu\n", size);
        measure("decode", decode, &bench, n_rounds);
        measure("validate", validate, &bench, n_rounds);
        measure("json", to_json, &bench, n_rounds);
        measure("gzip", compress, &bench, n_rounds);
        measure("spool", store, &bench, n_rounds);
        free(data);
        return 0;
}
