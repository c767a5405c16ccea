/* SPDX-License-Identifier: Apache-2.0 */

/* Profiles of Go's heap made by hand: what is sound, functions of a stack, and what a sample stands for. */

#include <criterion/criterion.h>
#include <string.h>

#include "host/runtime/go/go-heap-wire.h"

/* Texts, and where they begin. */
static const char texts[] = "\0" "runtime.makeslice\0" "main.inner\0" "main.outer\0" "main.main\0" "runtime.goexit\0" "a.go";
enum { NONE = 0, MAKE = 1, INNER = 19, OUTER = 30, MAIN = 41, EXIT = 51, FILE_A = 66 };

enum { P_MAKE, P_INNER, P_OUTER, P_MAIN, P_EXIT, P_OTHER, N_PLACES };

static char text[sizeof(texts)];
static GoHeapFrame frames[] = {
        { MAKE, FILE_A, 1, 1 },
        { INNER, FILE_A, 7, 5 }, { OUTER, FILE_A, 20, 10 },     /* inlined into it */
        { OUTER, FILE_A, 20, 10 },
        { MAIN, FILE_A, 33, 30 },
        { EXIT, NONE, 0, 0 },
};
static GoHeapPlace places[N_PLACES] = {
        [P_MAKE] = { .address = 0x100, .frame = 0, .n_frames = 1, .is_runtime = 1 },
        [P_INNER] = { .address = 0x200, .frame = 1, .n_frames = 2 },
        [P_OUTER] = { .address = 0x210, .frame = 3, .n_frames = 1 },
        [P_MAIN] = { .address = 0x300, .frame = 4, .n_frames = 1 },
        [P_EXIT] = { .address = 0x400, .frame = 5, .n_frames = 1, .is_runtime = 1 },
        [P_OTHER] = { .address = 0x7f0000001234 },
};
static uint32_t stacks[8];
static GoHeapSample sample;
static GoHeapProfile profile;
static GoHeapLine lines[GO_HEAP_MAX_LINES];

static void setup(void) {
        memcpy(text, texts, sizeof(texts));
        sample = (GoHeapSample){ .size = 64, .allocs = 3, .frees = 1 };
        profile = (GoHeapProfile){ .n = { .n_samples = 1, .n_stacks = 8, .n_places = N_PLACES, .n_frames = 6,
                                          .n_text = sizeof(texts) },
                                   .samples = &sample, .stacks = stacks, .places = places, .frames = frames,
                                   .text = text };
}

/* Return: number of functions. */
static size_t stack_of(size_t n, const uint32_t *stack) {
        memcpy(stacks, stack, n * sizeof(*stack));
        sample.n_stack = (uint32_t)n;
        cr_assert(go_heap_profile_check(&profile));
        return go_heap_profile_stack(&profile, &sample, lines);
}

#define STACK(...) stack_of(sizeof((uint32_t[]){ __VA_ARGS__ }) / 4, (uint32_t[]){ __VA_ARGS__ })

static void check_line(size_t i, const char *name, uint32_t line, uint64_t address, bool is_inlined) {
        cr_assert_str_eq(lines[i].name, name);
        cr_assert_eq(lines[i].line, line);
        cr_assert_eq(lines[i].address, address);
        cr_assert_eq(lines[i].is_inlined, is_inlined);
}

TestSuite(go_heap_profile, .init = setup);

Test(go_heap_profile, texts_are_where_they_should_be) {
        cr_assert_str_eq(texts + INNER, "main.inner");
        cr_assert_str_eq(texts + OUTER, "main.outer");
        cr_assert_str_eq(texts + MAIN, "main.main");
        cr_assert_str_eq(texts + EXIT, "runtime.goexit");
        cr_assert_str_eq(texts + FILE_A, "a.go");
}

Test(go_heap_profile, a_stack_as_go_shows_it) {
        cr_assert_eq(STACK(P_MAKE, P_INNER, P_OUTER, P_MAIN, P_EXIT), 3);
        check_line(0, "main.inner", 7, 0x200, true);
        check_line(1, "main.outer", 20, 0x200, false);
        check_line(2, "main.main", 33, 0x300, false);
        cr_assert_str_eq(lines[0].file, "a.go");
        cr_assert_eq(lines[0].first_line, 5);
}

Test(go_heap_profile, a_stack_that_was_cut_has_what_its_end_was_inlined_into) {
        cr_assert_eq(STACK(P_MAKE, P_INNER), 2);
        check_line(0, "main.inner", 7, 0x200, true);
        check_line(1, "main.outer", 20, 0x200, false);
}

Test(go_heap_profile, a_function_that_another_one_calls_is_not_inlined) {
        cr_assert_eq(STACK(P_OUTER, P_MAIN), 2);
        check_line(0, "main.outer", 20, 0x210, false);
        cr_assert_eq(STACK(P_INNER, P_MAIN), 2);
        check_line(0, "main.inner", 7, 0x200, false);
        check_line(1, "main.main", 33, 0x300, false);
}

Test(go_heap_profile, the_runtime_alone_is_shown) {
        cr_assert_eq(STACK(P_MAKE, P_EXIT), 1);
        check_line(0, "runtime.makeslice", 1, 0x100, false);
}

Test(go_heap_profile, code_that_is_none_of_go) {
        cr_assert_eq(STACK(P_MAKE, P_OTHER, P_MAIN), 2);
        cr_assert_null(lines[0].name);
        cr_assert_eq(lines[0].address, 0x7f0000001234);
        check_line(1, "main.main", 33, 0x300, false);
        cr_assert_eq(stack_of(0, stacks), 0);
}

/* By scaleHeapSample() of Go 1.26.8. */
Test(go_heap_profile, values_are_those_of_go) {
        static const struct {
                uint64_t size, n;
                int64_t rate, objects, bytes;
        } cases[] = {
                { 1024, 3, 524288, 1537, 1574400 },
                { 16, 1, 524288, 32768, 524296 },
                { 48, 7, 512, 78, 3754 },
                { 1048576, 2, 524288, 2, 2425393 },
                { 8, 5, 1, 5, 40 },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                GoHeapSample one = { .size = cases[i].size, .allocs = cases[i].n + 2, .frees = 2 };
                GoHeapValues values = go_heap_values(&one, cases[i].rate);

                cr_assert_eq(values.inuse_objects, cases[i].objects);
                cr_assert_eq(values.inuse_bytes, cases[i].bytes);
                one = (GoHeapSample){ .size = cases[i].size, .allocs = cases[i].n, .frees = cases[i].n };
                values = go_heap_values(&one, cases[i].rate);
                cr_assert_eq(values.alloc_objects, cases[i].objects);
                cr_assert_eq(values.alloc_bytes, cases[i].bytes);
                cr_assert_eq(values.inuse_objects, 0);
                cr_assert_eq(values.inuse_bytes, 0);
        }
}

/* The largest that the check lets pass is a number. */
Test(go_heap_profile, values_that_are_too_large_are_cut) {
        GoHeapSample one = { .size = 1, .allocs = UINT64_C(1) << 61 };

        cr_assert_eq(go_heap_values(&one, INT64_MAX).alloc_objects, (int64_t)9e18);
}

/* A hostile program says of two stacks that each holds nearly all that can be said. */
Test(go_heap_profile, sums_that_are_too_large_are_cut) {
        const GoHeapValues one = { 1, 2, 3, INT64_C(9000000000000000000) };
        GoHeapValues sum = { 0 };

        go_heap_values_add(&sum, &one);
        cr_assert_eq(sum.inuse_bytes, one.inuse_bytes);
        go_heap_values_add(&sum, &one);
        cr_assert_eq(sum.alloc_objects, 2);
        cr_assert_eq(sum.alloc_bytes, 4);
        cr_assert_eq(sum.inuse_objects, 6);
        cr_assert_eq(sum.inuse_bytes, INT64_MAX);
}

#define REFUSED(_change, _back) \
        do { \
                _change; \
                cr_assert_not(go_heap_profile_check(&profile), #_change); \
                _back; \
                cr_assert(go_heap_profile_check(&profile)); \
        } while (0)

Test(go_heap_profile, unsound_ones) {
        STACK(P_MAKE, P_INNER, P_OUTER, P_MAIN, P_EXIT);
        REFUSED(sample.size = 0, sample.size = 64);
        REFUSED(sample.allocs = 0, sample.allocs = 3);
        REFUSED(sample.frees = 4, sample.frees = 1);
        REFUSED(sample.allocs = UINT64_MAX, sample.allocs = 3);
        REFUSED(sample.size = INT64_MAX, sample.size = 64);
        REFUSED(sample.stack = 4, sample.stack = 0);
        REFUSED(sample.stack = UINT32_MAX, sample.stack = 0);
        REFUSED(sample.n_stack = UINT32_MAX, sample.n_stack = 5);
        REFUSED(stacks[7] = N_PLACES, stacks[7] = 0);
        REFUSED(places[P_MAIN].frame = 6, places[P_MAIN].frame = 4);
        REFUSED(places[P_MAIN].n_frames = UINT32_MAX, places[P_MAIN].n_frames = 1);
        REFUSED(frames[2].name = sizeof(texts), frames[2].name = OUTER);
        REFUSED(frames[2].file = UINT32_MAX, frames[2].file = FILE_A);
        REFUSED(text[sizeof(texts) - 1] = 'x', text[sizeof(texts) - 1] = '\0');
        REFUSED(text[0] = 'x', text[0] = '\0');
        REFUSED(profile.n.n_text = 0, profile.n.n_text = sizeof(texts));
        REFUSED(profile.n.n_samples = GO_HEAP_MAX_BUCKETS + 1, profile.n.n_samples = 1);
}

/* A worker that lets all samples have one stack would make few bytes to very many. */
Test(go_heap_profile, stacks_that_overlap) {
        GoHeapSample samples[] = { { .size = 64, .allocs = 3, .stack = 0, .n_stack = 5 },
                                   { .size = 64, .allocs = 3, .stack = 5, .n_stack = 3 } };

        profile.samples = samples;
        profile.n.n_samples = 2;
        cr_assert(go_heap_profile_check(&profile));
        REFUSED(samples[1].stack = 0, samples[1].stack = 5);
        REFUSED(samples[1].stack = 4, samples[1].stack = 5);
        REFUSED(samples[1].n_stack = 4, samples[1].n_stack = 3);
        REFUSED(samples[0].n_stack = 4, samples[0].n_stack = 5);
}

Test(go_heap_profile, what_a_worker_may_say) {
        const GoHeapSaid good = { .magic = GO_HEAP_WIRE_MAGIC, .kind = 1, .rate = 512,
                                  .sizes = { .n_text = 1 } };
        GoHeapSaid said = good;

        cr_assert(go_heap_said_check(&said));
        said.magic++;
        cr_assert_not(go_heap_said_check(&said));
        said = good;
        said.rate = 0;
        cr_assert_not(go_heap_said_check(&said));
        said = good;
        said.sizes.n_stacks = GO_HEAP_MAX_WORDS + 1;
        cr_assert_not(go_heap_said_check(&said));
        said = good;
        said.result = GO_HEAP_E_OFF;
        cr_assert_not(go_heap_said_check(&said));
        said.sizes = (GoHeapSizes){ 0 };
        cr_assert(go_heap_said_check(&said));
        said.result = GO_HEAP_SAID_N;
        cr_assert_not(go_heap_said_check(&said));
        for (int i = 1; i < GO_HEAP_SAID_N; i++)
                cr_assert(*go_heap_text(i));
        cr_assert_str_empty(go_heap_text(GO_HEAP_SAID_N));
}
