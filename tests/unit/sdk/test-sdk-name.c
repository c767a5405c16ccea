/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of local roots, read as a profiler reads them: by the pointer of a thread, byte by byte. Expected
 * attributes are written down by hand: {index of the key, length, bytes}.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spanprof/context.h"
#include "spanprof/otel.h"

enum { SPAN = 16, VALID = 24, SIZE = 26, ATTRIBUTES = 28, RECORD = 640 };

static const uint8_t *record(void) {
        extern _Thread_local uint8_t *otel_thread_ctx_v1;

        return otel_thread_ctx_v1;
}

static bool has(const uint8_t *bytes, const char *expected, size_t size) {
        uint16_t there;

        memcpy(&there, bytes + SIZE, sizeof(there));
        return bytes[VALID] == 1 && there == size && memcmp(bytes + ATTRIBUTES, expected, size) == 0;
}

#define check_attributes(expected) \
        cr_assert(has(record(), expected, sizeof(expected) - 1), "attributes are not " #expected)

static void name(struct spanprof_otel_root *root, const char *text, const char *route) {
        spanprof_otel_name(root, text, strlen(text), route, route ? strlen(route) : 0);
}

Test(sdk_name, a_span_has_the_name_and_the_route_of_its_root) {
        struct spanprof_otel_root root = { 0 }, other = { 0 };

        name(&root, "checkout", NULL);
        spanprof_otel_set_root(1, 2, 3, &root);
        check_attributes("\0\10checkout");
        spanprof_otel_set(1, 2, 4);
        check_attributes("");
        name(&other, "shop.Cart/Add", "/cart");
        spanprof_otel_set_root(1, 2, 5, &other);
        check_attributes("\0\15shop.Cart/Add\1\5/cart");
        cr_assert_eq(record()[SPAN + 7], 5);
        spanprof_otel_set_root(1, 2, 6, NULL);
        check_attributes("");
}

Test(sdk_name, a_name_that_is_a_method_alone_gets_the_route) {
        static const char *const bare[] = { "GET", "HTTP GET" };

        for (size_t i = 0; i < 2; i++) {
                struct spanprof_otel_root root = { 0 };

                name(&root, bare[i], NULL);
                name(&root, bare[i], "/cart/:id");
                spanprof_otel_set_root(1, 2, 3, &root);
                check_attributes("\0\15GET /cart/:id\1\11/cart/:id");
        }
        for (size_t i = 0; i < 2; i++) {
                static const char *const whole[] = { "GET /", "GETTER" };
                struct spanprof_otel_root root = { 0 };

                name(&root, whole[i], "/");
                spanprof_otel_set_root(1, 2, 3, &root);
                cr_assert_eq(record()[ATTRIBUTES + 1], strlen(whole[i]));
        }
}

Test(sdk_name, a_long_name_is_cut_behind_a_whole_character) {
        struct spanprof_otel_root root = { 0 };
        char text[400];

        memset(text, 'a', sizeof(text));
        memcpy(text + 126, "\u20ac", 3);       /* bytes 126, 127, 128: 128 would split it */
        spanprof_otel_name(&root, text, sizeof(text), text, 127);
        spanprof_otel_set_root(1, 2, 3, &root);
        cr_assert_eq(record()[ATTRIBUTES + 1], 126);
        cr_assert_eq(memcmp(record() + ATTRIBUTES + 2, text, 126), 0);
        cr_assert_eq(record()[ATTRIBUTES + 2 + 126 + 1], 127, "what is short enough is whole");
        memset(text, 'b', sizeof(text));
        spanprof_otel_name(&root, text, 128, text, 129);
        cr_assert_eq(record()[ATTRIBUTES + 1], 128);
        cr_assert_eq(record()[ATTRIBUTES + 2 + 128 + 1], 128);
}

Test(sdk_name, a_late_name_reaches_this_thread_and_keeps_other_attributes) {
        struct spanprof_otel_root root = { 0 };

        name(&root, "GET", NULL);
        spanprof_otel_set_root(1, 2, 3, &root);
        cr_assert_eq(spanprof_otel_attribute(7, "xy", 2), 0);
        name(&root, "GET /a/long/route", NULL);
        check_attributes("\0\21GET /a/long/route\7\2xy");
        name(&root, "", NULL);
        check_attributes("\7\2xy");
        spanprof_otel_clear();
        name(&root, "late", NULL);
        cr_assert_null(record(), "no name brings a span back");
}

struct peer {
        pthread_t thread;
        pthread_barrier_t barrier;
        struct spanprof_otel_root *root;
        bool before, after;
};

static void *work_for_root(void *data) {
        struct peer *peer = data;

        spanprof_otel_set_root(1, 2, 9, peer->root);
        peer->before = has(record(), "\0\3GET", 5);
        pthread_barrier_wait(&peer->barrier);
        pthread_barrier_wait(&peer->barrier);
        peer->after = has(record(), "\0\12GET /carts\1\6/carts", 20) && record()[SPAN + 7] == 9;
        return NULL;
}

static void check_peer(void) {
        struct spanprof_otel_root root = { 0 }, other = { 0 };
        struct peer peer = { .root = &root };

        name(&root, "GET", NULL);
        name(&other, "other", NULL);
        pthread_barrier_init(&peer.barrier, NULL, 2);
        spanprof_otel_set_root(1, 2, 3, &root);
        cr_assert_eq(pthread_create(&peer.thread, NULL, work_for_root, &peer), 0);
        pthread_barrier_wait(&peer.barrier);
        spanprof_otel_set_root(1, 2, 8, &other);
        name(&root, "GET", "/carts");
        check_attributes("\0\5other");
        pthread_barrier_wait(&peer.barrier);
        pthread_join(peer.thread, NULL);
        cr_assert(peer.before && peer.after, "%d %d", peer.before, peer.after);
}

Test(sdk_name, a_late_name_reaches_threads_on_spans_of_that_root_and_no_others) {
        check_peer();
}

Test(sdk_name, a_forked_child_names_its_threads) {
        int status;
        pid_t pid;

        check_peer();
        pid = fork();
        if (pid == 0) {
                check_peer();
                _exit(0);
        }
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        cr_assert_eq(status, 0);
}

static atomic_bool done;

static void *rename_always(void *data) {
        for (uint32_t i = 0; !atomic_load(&done); i++)
                name(data, i % 2 ? "one" : "another", NULL);
        return NULL;
}

Test(sdk_name, a_thread_that_is_renamed_all_the_time_has_the_ids_that_it_sets) {
        struct spanprof_otel_root root = { 0 };
        unsigned n_whole = 0;
        pthread_t thread;

        name(&root, "one", NULL);
        cr_assert_eq(pthread_create(&thread, NULL, rename_always, &root), 0);
        for (uint32_t i = 1; i < 200000; i++) {
                uint8_t bytes[RECORD], expected[SPAN + 8] = { 0 };
                const uint8_t *at;

                expected[7] = expected[15] = expected[20] = (uint8_t)i;
                expected[23] = (uint8_t)i | 1;
                spanprof_otel_set_root((uint8_t)i, (uint8_t)i, (uint64_t)(uint8_t)i << 24 | (uint8_t)(i | 1),
                                       &root);
                at = record();
                memcpy(bytes, at, sizeof(bytes));
                if (record() != at)
                        continue;       /* a reader would have had this thread stopped */
                cr_assert_eq(memcmp(bytes, expected, sizeof(expected)), 0, "%u", i);
                cr_assert(has(bytes, "\0\3one", 5) || has(bytes, "\0\7another", 9), "%u", i);
                n_whole++;
        }
        atomic_store(&done, true);
        pthread_join(thread, NULL);
        cr_assert_gt(n_whole, 10000);
}

Test(sdk_name, a_thousand_names_are_enough) {
        struct spanprof_otel_root root = { 0 };
        char text[20];

        for (int i = 0; i < 1000; i++) {
                snprintf(text, sizeof(text), "name %d", i);
                name(&root, text, NULL);
        }
        spanprof_otel_set_root(1, 2, 3, &root);
        check_attributes("\0\10name 999");
        cr_assert_eq(spanprof_otel_names_refused(), 0);
        name(&root, "one more", NULL);
        check_attributes("");
        cr_assert_eq(spanprof_otel_names_refused(), 1);
        name(&root, "name 7", NULL);
        check_attributes("\0\6name 7");
        cr_assert_eq(spanprof_otel_names_refused(), 1);
}

Test(sdk_name, names_stay_here_if_the_environment_says_so) {
        struct spanprof_otel_root root = { 0 };

        setenv("SPANPROF_SPAN_NAMES", "off", 1);
        name(&root, "GET", "/cart");
        spanprof_otel_set_root(1, 2, 3, &root);
        check_attributes("");
        cr_assert_eq(spanprof_otel_names_refused(), 0);
}

Test(sdk_name, keys_that_mean_something_else_get_no_names) {
        static const char *const keys[] = { "zone", "http.route" };
        static const char *const more[] = { "span.name", "http.route", "zone" };
        struct spanprof_otel_process process = { .size = sizeof(process), .n_keys = 2, .keys = keys };
        struct spanprof_otel_root root = { 0 };

        cr_assert_eq(spanprof_otel_publish(&process), 0);
        name(&root, "work", NULL);
        spanprof_otel_set_root(1, 2, 3, &root);
        check_attributes("");
        process.n_keys = 3;
        process.keys = more;
        cr_assert_eq(spanprof_otel_publish(&process), 0);
        spanprof_otel_set_root(1, 2, 3, &root);
        check_attributes("\0\4work");
}

Test(sdk_name, a_ring_has_spans_without_names) {
        struct spanprof_context_options options = { .size = sizeof(options),
                                                    .storage = SPANPROF_CONTEXT_THREAD };
        struct spanprof_otel_root root = { 0 };

        name(&root, "work", NULL);
        cr_assert_eq(spanprof_context_start(&options), 0);
        spanprof_context_set_root(1, 2, 3, &root);
        check_attributes("\0\4work");
        spanprof_context_clear();
        cr_assert_null(record());
        spanprof_context_stop();
        options.storage = SPANPROF_CONTEXT_RING;
        cr_assert_eq(spanprof_context_start(&options), 0);
        spanprof_context_set_root(1, 2, 3, &root);
        cr_assert_null(record());
        spanprof_context_stop();
}
