/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a sample costs from the window to the bytes: 100,000 samples of depth 30 with 100, 10,000 and 100,000
 * distinct stacks, in turn. Stacks are made as programs have them: a walk down a call graph of 5,000 places
 * in 20 modules, most of it shared with the stack before. Each sample has a thread; a third of them a span of
 * 1,000.
 *
 * usage: encode-cost [ROUNDS [DIRECTORY]]      best of ROUNDS (5); keeps the requests in DIRECTORY
 */

#include <malloc.h>

#include "fill-window.h"
#include "core/base/file/gzip.h"
#include "core/base/util/clock.h"
#include "core/otlp/encode.h"

enum { N_SAMPLES = 100000, DEPTH = 30, N_PLACES = 5000, N_MODULES = 20 };

struct result {
        uint64_t fill_ns, encode_ns, split_ns;
        size_t bytes, gzip_bytes, memory, base, window;
        unsigned n_parts;
};

static uint64_t next_random(uint64_t *state) {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        return *state;
}

static void make_places(Window *window, FrameWord *places) {
        uint64_t random = 88172645463325252;

        for (uint32_t i = 0; i < N_PLACES; i++) {
                char path[64], build_id[64];
                uint32_t m = i % N_MODULES, module;

                snprintf(path, sizeof(path), "/usr/lib/x86_64-linux-gnu/libexample-%u.so.1", m);
                snprintf(build_id, sizeof(build_id), "%08x%08x%08x%08x%08x", m, m * 7, m * 11, m * 13,
                         m * 17);
                module = fill_module(window, path, build_id, 0x1000, 0x400000);
                places[i] = fill_native(window, FRAME_MARK_NATIVE, module,
                                        0x1000 + next_random(&random) % 0x3ff000);
        }
}

/* Leaf first: the nearer the leaf, the more often it changes. */
static void next_stack(FrameWord *stack, const FrameWord *places, uint64_t *random) {
        uint64_t draw = next_random(random);
        uint32_t n = 1 + (uint32_t)__builtin_ctzll(draw | 1 << 29) * 2;

        for (uint32_t i = 0; i < n && i < DEPTH; i++)
                stack[i] = places[next_random(random) % N_PLACES];
}

static Window *make_window(uint32_t n_stacks, uint64_t *fill_nsp) {
        FrameWord *places = malloc(N_PLACES * sizeof(*places));
        FrameWord (*stacks)[DEPTH] = malloc(n_stacks * sizeof(*stacks));
        uint32_t profile, threads[16], sets[16], links[1000];
        WindowLimits limits = window_default_limits;
        uint64_t random = 1234567, start_ns;
        Window *window;

        limits.max_bytes = 256 << 20;
        FILL(window_new(&window, FILL_START_NS, FILL_OFFSET_NS, &limits));
        profile = fill_profile(window, fill_resource(window, 1, 1, "bench"), PROFILE_CPU);
        window_set_period(window, PROFILE_CPU, 10101010);
        make_places(window, places);
        for (uint32_t i = 0; i < DEPTH; i++)
                stacks[0][i] = places[i];
        for (uint32_t i = 0; i < n_stacks; i++) {
                if (i)
                        memcpy(stacks[i], stacks[i - 1], sizeof(*stacks));
                next_stack(stacks[i], places, &random);
        }
        for (uint32_t i = 0; i < 16; i++) {
                threads[i] = fill_int(window, "thread.id", 1000 + i);
                FILL(window_attribute_set(window, &threads[i], 1, &sets[i]));
        }
        for (uint32_t i = 0; i < 1000; i++) {
                WindowLink link = { .trace_id = { 1 }, .span_id = { 1 } };

                for (uint32_t j = 1; j < 16; j++)
                        link.trace_id[j] = (uint8_t)next_random(&random);
                for (uint32_t j = 1; j < 8; j++)
                        link.span_id[j] = (uint8_t)next_random(&random);
                FILL(window_link(window, &link, &links[i]));
        }
        start_ns = clock_monotonic_ns();
        for (uint32_t i = 0; i < N_SAMPLES; i++) {
                uint32_t stack, which = i % n_stacks;

                FILL(window_stack(window, stacks[which], DEPTH, &stack));
                FILL(window_sample(window, profile, stack, sets[which % 16],
                                   which % 3 ? 0 : links[which % 1000], 1,
                                   FILL_START_NS + i * 150000 + next_random(&random) % 150000));
        }
        FILL(window_close(window, FILL_START_NS + UINT64_C(15000000000)));
        *fill_nsp = clock_monotonic_ns() - start_ns;
        free(places);
        free(stacks);
        return window;
}

static size_t heap_bytes(void) {
        struct mallinfo2 info = mallinfo2();

        return info.uordblks + info.hblkhd;
}

/* For others to read: STACKS.pb. */
static void keep(const char *directory, uint32_t n_stacks, const uint8_t *data, size_t size) {
        char path[256];
        FILE *file;

        snprintf(path, sizeof(path), "%s/%06u.pb", directory, n_stacks);
        file = fopen(path, "we");
        if (!file || fwrite(data, 1, size, file) != size || fclose(file))
                abort();
}

static const char *directory;
static uint32_t n_stacks_now;

/* While the request is handed over, everything that the encoder holds is there. */
static int measure(const uint8_t *data, size_t size, uint64_t n_events, uint64_t n_profiles, void *userdata) {
        struct result *result = userdata;
        uint8_t *packed;

        result->memory = heap_bytes() - result->base;
        result->bytes = size;
        if (result->gzip_bytes)
                return 0;
        if (directory)
                keep(directory, n_stacks_now, data, size);
        FILL(gzip_compress(data, size, &packed, &result->gzip_bytes));
        free(packed);
        return 0;
}

static int count(const uint8_t *data, size_t size, uint64_t n_events, uint64_t n_profiles, void *userdata) {
        ++*(unsigned *)userdata;
        return 0;
}

static uint64_t time_encode(const Window *window, size_t max_bytes, OtlpSink sink, void *userdata) {
        OtlpOptions options = { .max_bytes = max_bytes, .scope_version = "1", .timestamps = 1 };
        uint64_t n_lost, start_ns = clock_monotonic_ns();

        FILL(otlp_encode(window, &options, sink, userdata, &n_lost));
        return clock_monotonic_ns() - start_ns;
}

static void run(uint32_t n_stacks, unsigned n_rounds) {
        struct result best = { .fill_ns = UINT64_MAX, .encode_ns = UINT64_MAX, .split_ns = UINT64_MAX };

        n_stacks_now = n_stacks;
        for (unsigned i = 0; i < n_rounds; i++) {
                unsigned n_parts = 0;
                uint64_t fill_ns, encode_ns, split_ns;
                Window *window = make_window(n_stacks, &fill_ns);

                best.window = window_memory(window);
                best.base = heap_bytes();
                time_encode(window, 1 << 30, measure, &best);           /* warms up; compresses once */
                best.fill_ns = MIN(best.fill_ns, fill_ns);
                encode_ns = time_encode(window, 1 << 30, measure, &best);
                best.encode_ns = MIN(best.encode_ns, encode_ns);
                split_ns = time_encode(window, 0, count, &n_parts);
                best.split_ns = MIN(best.split_ns, split_ns);
                best.n_parts = n_parts;
                window_free(window);
        }
        printf("| %u | %.0f | %.0f | %.1f | %.0f (%u) | %.1f | %.1f | %.2f | %.1f |\n", n_stacks,
               (double)best.fill_ns / N_SAMPLES, (double)best.encode_ns / N_SAMPLES,
               (double)N_SAMPLES * DEPTH * 1000 / (double)best.encode_ns, (double)best.split_ns / N_SAMPLES,
               best.n_parts, (double)best.bytes / N_SAMPLES, (double)best.gzip_bytes / N_SAMPLES,
               (double)best.memory / (double)best.bytes, (double)best.window / (1 << 20));
}

int main(int argc, char **argv) {
        unsigned n_rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 5;

        directory = argc > 2 ? argv[2] : NULL;
        printf("| distinct stacks | fill, ns a sample | encode, ns a sample | M frames/s | split at 4 MiB, ns a sample "
               "(requests) | bytes a sample | gzipped | encoder's memory ÷ request | window, MiB |\n"
               "|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
        run(100, n_rounds);
        run(10000, n_rounds);
        run(100000, n_rounds);
        return 0;
}
