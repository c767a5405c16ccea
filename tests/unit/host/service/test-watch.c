/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file/file.h"
#include "core/base/util/clock.h"
#include "core/base/util/stat.h"
#include "host/service/watch/watch-private.h"

enum { WINDOW_S = 15, WINDOWS = 40 };

static uint32_t string(Window *window, const char *text) {
        uint32_t index;

        cr_assert_eq(window_string(window, text, strlen(text), &index), 0);
        return index;
}

static uint32_t stack_of(Window *window, const char *name) {
        const WindowFunction row = { .name = string(window, name) };
        uint32_t function, stack;
        FrameWord words[2];

        cr_assert_eq(window_function(window, &row, &function), 0);
        cr_assert_eq(window_frame(window, &(WindowFrame){ .function = function }, &words[0]), 0);
        words[1] = FRAME_WORD_EMPTY;    /* its caller */
        cr_assert_eq(window_stack(window, words, 2, &stack), 0);
        return stack;
}

/* A window of one process that had @n samples of each function; @names end with NULL. */
static Window *make_window(uint64_t start_s, const char *const *names, const uint32_t *n) {
        uint32_t resource, profile;
        Window *window;

        cr_assert_eq(window_new(&window, start_s * NS_PER_SEC, 0, NULL), 0);
        cr_assert_eq(window_resource(window, 1, &resource), 0);
        cr_assert_eq(window_profile(window, resource, PROFILE_CPU, &profile), 0);
        for (uint32_t i = 0; names[i]; i++)
                for (uint32_t j = 0; j < n[i]; j++)
                        cr_assert_eq(window_sample(window, profile, stack_of(window, names[i]), 0, 0, 1,
                                                   (start_s * n[i] + j * WINDOW_S) * NS_PER_SEC / n[i]), 0);
        cr_assert_eq(window_close(window, (start_s + WINDOW_S) * NS_PER_SEC), 0);
        return window;
}

static const WatchWho shop = { 1000, "/system.slice/shop.service", "shop", "shopd", "aaaa" };

static WatchWho shop_of(const char *build) {
        WatchWho who = shop;

        who.build = build;
        return who;
}

/* Windows in which functions `a`, `b` and the one of @name have so many samples. */
static void run(Watch *watch, const WatchWho *who, uint64_t start_s, const char *name, const uint32_t n[3],
                int n_windows) {
        const char *names[] = { "a", "b", name, NULL };

        for (int i = 0; i < n_windows; i++, start_s += WINDOW_S) {
                Window *window = make_window(start_s, names, n);
                uint64_t serial;

                cr_assert_eq(watch_find(watch, who, start_s, &serial), 0);
                cr_assert_eq(watch_window(watch, window, &serial), 0);
                window_free(window);
        }
}

static const uint32_t usual[] = { 60, 30, 10 }, slower[] = { 60, 30, 30 };

static Watch *make(void) {
        Watch *watch;

        cr_assert_eq(watch_new(&watch, SKETCH_ENOUGH_BLOCKS * WINDOW_S * NS_PER_SEC, WATCH_NAMES), 0);
        return watch;
}

static Text page_of(const Watch *watch, void (*print)(const Watch *, Text *)) {
        Text text = { 0 };

        print(watch, &text);
        cr_assert(!text.failed);
        return text;
}

static void is_in(const Watch *watch, const char *words) {
        Text page = page_of(watch, watch_print);

        cr_assert(strstr(page.data, words), "%s", page.data);
        text_deinit(&page);
}

Test(watch, a_build_is_compared_with_the_one_before) {
        uint64_t n_compared = stat_get(COUNTER_WATCH_BUILDS_COMPARED),
                 n_slower = stat_get(COUNTER_WATCH_BUILDS_SLOWER);
        WatchWho next = shop_of("bbbb"), third = shop_of("cccc"), fourth = shop_of("dddd");
        Watch *watch = make();
        Text json;

        is_in(watch, "no service has been seen yet");
        run(watch, &shop, 0, "vec<int>::push", usual, WINDOWS);
        is_in(watch, "build aaaa: 4000 samples in 40 of 32 parts of the time; the first build");
        run(watch, &next, 10000, "vec<long>::push", slower, 31);
        cr_assert_eq(stat_get(COUNTER_WATCH_BUILDS_COMPARED), n_compared);
        run(watch, &next, 20000, "vec<long>::push", slower, 1);
        cr_assert_eq(stat_get(COUNTER_WATCH_BUILDS_COMPARED), n_compared + 1);
        cr_assert_eq(stat_get(COUNTER_WATCH_BUILDS_SLOWER), n_slower + 1);
        is_in(watch, "shop, program shopd, user 1000, /system.slice/shop.service\n"
                     "  build bbbb: 1 of 3 functions take more than in build aaaa\n");
        is_in(watch, "   10.00 %  25.00 %   +15.00");
        is_in(watch, "  vec::push\n");
        json = page_of(watch, watch_print_json);
        cr_assert(strstr(json.data, "\"compared\":true,\"before\":\"aaaa\",\"functions\":3,\"slower\":1,\"list\":"
                                    "[{\"function\":\"vec::push\",\"before\":0.100000,\"after\":0.250000,"), "%s",
                  json.data);
        text_deinit(&json);

        /* a way back is nothing new, and the next build is compared with the one that ran last */
        run(watch, &shop, 30000, "vec<int>::push", usual, WINDOWS);
        cr_assert_eq(stat_get(COUNTER_WATCH_BUILDS_COMPARED), n_compared + 1);
        run(watch, &third, 40000, "vec<int>::push", slower, WINDOWS);
        is_in(watch, "build cccc: 1 of 3 functions take more than in build aaaa\n");
        run(watch, &shop, 41000, "vec<int>::push", usual, 1);   /* beside `cccc` until the end */
        run(watch, &third, 41000, "vec<int>::push", slower, 1);
        run(watch, &fourth, 50000, "vec<int>::push", slower, WINDOWS);
        is_in(watch, "build dddd: 0 of 3 functions take more than in build cccc\n");
        watch_free(watch);
}

/* They are a target's words. */
Test(watch, a_page_has_names_as_text) {
        WatchWho first = shop, next;
        Watch *watch = make();
        Text page = page_of(watch, watch_print_page);

        cr_assert(strstr(page.data, "<p>no service has been seen yet</p>\n</body>"), "%s", page.data);
        text_deinit(&page);
        first.service = "<b>\"shop\" & co";
        next = first;
        next.build = "bbbb";
        run(watch, &first, 0, "f&g", usual, WINDOWS);
        page = page_of(watch, watch_print_page);
        cr_assert(strstr(page.data, "<p>build aaaa: 4000 samples, not compared yet</p>\n"), "%s", page.data);
        text_deinit(&page);
        run(watch, &next, 10000, "f&g", slower, WINDOWS);
        page = page_of(watch, watch_print_page);
        cr_assert(strstr(page.data, "<h2>&lt;b&gt;&quot;shop&quot; &amp; co, program shopd</h2>\n"
                                    "<p>user 1000, /system.slice/shop.service</p>\n"
                                    "<p>build bbbb: 1 of 3 functions take more than in build aaaa</p>\n"), "%s",
                  page.data);
        cr_assert(strstr(page.data, "<tr><td>10.00 %</td><td>25.00 %</td><td>+15.00</td>"), "%s", page.data);
        cr_assert(strstr(page.data, "</td><td>f&amp;g</td></tr>\n</table>\n"), "%s", page.data);
        text_deinit(&page);
        watch_free(watch);
}

/* Few samples of a build say nothing of it. */
Test(watch, a_build_that_was_brief_is_passed_over) {
        WatchWho brief = shop_of("bbbb"), next = shop_of("cccc");
        Watch *watch = make();

        run(watch, &shop, 0, "f", usual, WINDOWS);
        run(watch, &brief, 10000, "f", slower, 3);
        run(watch, &next, 20000, "f", usual, WINDOWS);
        is_in(watch, "build cccc: 0 of 3 functions take more than in build aaaa\n");
        watch_free(watch);
}

/* A process publishes its version a moment after its first samples. */
Test(watch, a_build_without_its_version_is_none) {
        WatchWho first = shop_of("aaaa 1.0"), next = shop_of("aaaa 2.0"), other = shop_of("aaa");
        Watch *watch = make();
        uint64_t serial;

        run(watch, &shop, 0, "f", usual, 1);
        run(watch, &first, 1000, "f", usual, WINDOWS);
        for (int i = 0; i < 2; i++) {
                cr_assert_eq(watch_find(watch, &shop, 5000, &serial), WATCH_E_NONE);
                cr_assert_str_eq(watch->services[0].now->build, i ? "aaaa 2.0" : "aaaa 1.0");
                run(watch, &next, 10000, "f", usual, WINDOWS);
        }
        is_in(watch, "build aaaa 2.0: 0 of 3 functions take more than in build aaaa 1.0\n");
        cr_assert_eq(watch_find(watch, &other, 20000, &serial), 0);
        watch_free(watch);
}

/* Builds that are to be compared after seconds: a window is cut by the times of its samples. */
Test(watch, a_window_has_several_blocks) {
        WatchWho next = shop_of("bbbb");
        Watch *watch;

        cr_assert_eq(watch_new(&watch, 2 * WINDOW_S * NS_PER_SEC, WATCH_NAMES), 0);
        run(watch, &shop, 0, "f", (uint32_t[]){ 1600, 800, 160 }, 2);
        run(watch, &next, 10000, "f", (uint32_t[]){ 1600, 800, 800 }, 2);
        is_in(watch, "build bbbb: 1 of 3 functions take more than in build aaaa\n");
        cr_assert_eq(watch->services[0].now->n_blocks, 32);
        for (uint32_t i = 0; i < 32; i++)
                cr_assert_eq(watch->services[0].now->total[i], 200, "%u", i);
        watch_free(watch);
}

/* CAPS: what has no name counts for its build, and nothing is written beyond the tables. */
Test(watch, a_window_with_too_many_functions) {
        uint64_t n_before = stat_get(COUNTER_WATCH_FUNCTIONS_OVER_CAP), serial;
        WindowLimits limits = window_default_limits;
        enum { NAMES = 1 << 16, MORE = 500 };
        uint32_t resource, profile;
        Watch *watch = make();
        const Sketch *sketch;
        Window *window;
        char name[32];

        limits.max_strings = limits.max_functions = limits.max_frames = limits.max_stacks = 2 * NAMES;
        limits.max_samples = 2 * NAMES;
        cr_assert_eq(window_new(&window, 0, 0, &limits), 0);
        cr_assert_eq(window_resource(window, 1, &resource), 0);
        cr_assert_eq(window_profile(window, resource, PROFILE_CPU, &profile), 0);
        for (uint32_t i = 0; i < NAMES + MORE; i++) {
                snprintf(name, sizeof(name), "f%u", i);
                cr_assert_eq(window_sample(window, profile, stack_of(window, name), 0, 0, 1, i), 0);
        }
        cr_assert_eq(window_close(window, WINDOW_S * NS_PER_SEC), 0);
        cr_assert_eq(watch_find(watch, &shop, 1, &serial), 0);
        cr_assert_eq(watch_window(watch, window, &serial), 0);
        sketch = watch_sketch(watch, serial);
        cr_assert_eq(sketch->n_rows, SKETCH_ROWS_LEFT);
        cr_assert_eq(sketch->total[0], NAMES + MORE);
        cr_assert_str_eq(sketch->rows[0].name, "[others]");
        cr_assert_eq(sketch->rows[0].n[0], MORE);
        cr_assert_geq(stat_get(COUNTER_WATCH_FUNCTIONS_OVER_CAP) - n_before, MORE);
        window_free(window);
        watch_free(watch);
}

/* A window in which most has no name, and samples whose sketch has gone. */
Test(watch, what_is_in_no_sketch_is_counted) {
        uint64_t n_unknown = stat_get(COUNTER_WATCH_SAMPLES_UNKNOWN), serial, none = 77;
        const char *names[] = { "f", "", NULL };
        Window *window = make_window(0, names, (uint32_t[]){ 10, 31 });
        Watch *watch = make();

        cr_assert_eq(watch_find(watch, &shop, 1, &serial), 0);
        cr_assert_eq(watch_window(watch, window, &serial), 0);
        cr_assert_eq(watch_sketch(watch, serial)->total[0], 0);
        cr_assert_eq(stat_get(COUNTER_WATCH_SAMPLES_UNKNOWN), n_unknown + 41);
        cr_assert_eq(watch_window(watch, window, &none), 0);
        cr_assert_eq(stat_get(COUNTER_WATCH_SAMPLES_UNKNOWN), n_unknown + 82);
        window_free(window);
        watch_free(watch);
}

/* What tells services apart: whoever claims a name of others has sketches of their own. */
Test(watch, who_claims_a_name_has_no_part_in_its_sketch) {
        const WatchWho liars[] = { { 1001, shop.place, shop.service, shop.program, shop.build },
                                   { 1000, "/user.slice/user-1000.slice", shop.service, shop.program, shop.build },
                                   { 1000, shop.place, shop.service, "other", shop.build },
                                   { 1000, shop.place, "other", shop.program, shop.build } };
        Watch *watch = make();
        uint64_t serial, other;

        cr_assert_eq(watch_find(watch, &shop, 1, &serial), 0);
        for (size_t i = 0; i < ARRAY_SIZE(liars); i++) {
                cr_assert_eq(watch_find(watch, &liars[i], 1, &other), 0);
                cr_assert_neq(serial, other);
        }
        cr_assert_eq(watch_find(watch, &shop, 1, &other), 0);
        cr_assert_eq(serial, other);
        cr_assert_eq(watch->n_services, 1 + ARRAY_SIZE(liars));
        watch_free(watch);
}

/* CAPS: a user with many services has one place of the last, and those that others have stay. */
Test(watch, a_full_table_takes_from_who_has_most) {
        uint64_t n_full = stat_get(COUNTER_WATCH_SERVICES_OVER_CAP), serial, mine;
        Watch *watch = make();
        char name[32];

        cr_assert_eq(watch_find(watch, &shop, 1, &mine), 0);
        for (int i = 0; i < 1000; i++) {
                WatchWho many = { 1001, "/user.slice/user-1001.slice", name, "p", "b" };

                snprintf(name, sizeof(name), "s%d", i);
                cr_assert_eq(watch_find(watch, &many, 2 + (uint64_t)i, &serial), 0);
                cr_assert(watch_sketch(watch, serial));
        }
        cr_assert_eq(watch->n_services, WATCH_MAX_SERVICES);
        cr_assert_eq(stat_get(COUNTER_WATCH_SERVICES_OVER_CAP) - n_full, 1001 - WATCH_MAX_SERVICES);
        cr_assert(watch_sketch(watch, mine));
        cr_assert_str_eq(watch->services[1].service, "s937");   /* the oldest went first */
        for (int i = 0; i < 20; i++) {
                snprintf(name, sizeof(name), "/system.slice/%d.service", i);
                cr_assert_eq(watch_find(watch, &(WatchWho){ 0, name, "n", "p", "b" }, 2000, &serial), 0);
        }
        cr_assert_eq(watch->n_services, WATCH_MAX_SERVICES);
        cr_assert(watch_sketch(watch, mine));
        watch_free(watch);
}

static void make_enough(Sketch *sketch) {
        sketch->n_blocks = SKETCH_ENOUGH_BLOCKS;
        sketch->total[0] = SKETCH_ENOUGH_SAMPLES;
}

/* Where all have one, only who was not seen for an hour gives way, if all may be compared. */
Test(watch, who_is_gone_gives_way) {
        Watch *watch = make();
        uint64_t serial;
        char place[32];

        for (int i = 0; i < WATCH_MAX_SERVICES + 1; i++) {
                WatchWho who = { 0, place, "n", "p", "b" };

                snprintf(place, sizeof(place), "/%d", i);
                cr_assert_eq(watch_find(watch, &who, 1000 + (uint64_t)i, &serial),
                             i < WATCH_MAX_SERVICES ? 0 : WATCH_E_FULL);
                make_enough(watch_sketch(watch, serial));
        }
        cr_assert_eq(watch_find(watch, &(WatchWho){ 0, place, "n", "p", "b" }, 1000 + 3599, &serial),
                     WATCH_E_FULL);
        cr_assert_eq(watch_find(watch, &(WatchWho){ 0, place, "n", "p", "b" }, 1000 + 3600, &serial), 0);
        cr_assert_eq(watch->n_services, WATCH_MAX_SERVICES);
        cr_assert_str_eq(watch->services[0].place, "/1");
        watch_free(watch);
}

/* Jobs come and go: whoever has nothing to compare gives way after some minutes, and before who has. */
Test(watch, who_was_brief_gives_way_first) {
        Watch *watch = make();
        uint64_t serial, mine;
        char place[32];

        run(watch, &shop, 0, "f", usual, WINDOWS);
        cr_assert_eq(watch_find(watch, &shop, 600, &mine), 0);
        for (int i = 0; i < WATCH_MAX_SERVICES; i++) {
                WatchWho who = { 0, place, "n", "p", "b" };
                bool has_room = i < WATCH_MAX_SERVICES - 1;

                snprintf(place, sizeof(place), "/%d", i);
                cr_assert_eq(watch_find(watch, &who, 1000 + (uint64_t)i, &serial),
                             has_room ? 0 : WATCH_E_FULL);
        }
        cr_assert_eq(watch_find(watch, &(WatchWho){ 0, place, "n", "p", "b" }, 1000 + 300, &serial), 0);
        cr_assert_eq(watch->n_services, WATCH_MAX_SERVICES);
        cr_assert(watch_sketch(watch, mine));
        cr_assert_str_eq(watch->services[1].place, "/1");
        watch_free(watch);
}

static Watch *make_busy(void) {
        WatchWho next = shop_of("bbbb"), other = shop_of("cccc");
        Watch *watch = make();

        run(watch, &shop, 0, "f", usual, 60);
        run(watch, &next, 10000, "f", slower, WINDOWS);
        other.user = 1001;
        run(watch, &other, 20000, "g", usual, 3);
        return watch;
}

Test(watch, all_is_kept_in_a_file) {
        char directory[] = "/tmp/spanprof-watch-XXXXXX";
        Watch *watch = make_busy(), *read = make(), *later;
        Text before, after;
        struct stat st;
        int fd;

        cr_assert(mkdtemp(directory));
        fd = open(directory, O_RDONLY | O_DIRECTORY);
        cr_assert_eq(watch_load(read, fd), 0);
        cr_assert_eq(watch_save(watch, fd), 0);
        cr_assert_eq(fstatat(fd, "watch", &st, 0), 0);
        cr_assert_eq(st.st_mode & 0777, 0600);
        cr_assert_eq(watch_load(read, fd), 0);
        before = page_of(watch, watch_write);
        after = page_of(read, watch_write);
        cr_assert_eq(before.size, after.size);
        cr_assert_eq(memcmp(before.data, after.data, before.size), 0);
        is_in(read, "build bbbb: 1 of 3 functions take more than in build aaaa\n");

        /* what has not changed is not written */
        cr_assert_eq(unlinkat(fd, "watch", 0), 0);
        cr_assert_eq(watch_save(watch, fd), 0);
        cr_assert_neq(fstatat(fd, "watch", &st, 0), 0);

        /* sketches of another time, or another way, are of no use */
        for (int i = 0; i < 2; i++) {
                cr_assert_eq(watch_new(&later, i ? NS_PER_SEC : watch->time_ns,
                                       i ? WATCH_NAMES : WATCH_KERNEL),
                             0);
                cr_assert_eq(watch_parse(later, before.data, before.size), 0);
                cr_assert_eq(later->n_services, 0);
                watch_free(later);
        }

        close(fd);
        rmdir(directory);
        text_deinit(&before);
        text_deinit(&after);
        watch_free(watch);
        watch_free(read);
}

/* One that is no text would make the file unreadable for all. */
Test(watch, what_is_no_text_is_in_no_sketch) {
        const WatchWho bad[] = { { 1000, "/\xff", shop.service, shop.program, shop.build },
                                 { 1000, shop.place, "s\xff", shop.program, shop.build },
                                 { 1000, shop.place, shop.service, "p\xff", shop.build },
                                 { 1000, shop.place, shop.service, shop.program, "b\xff" } };
        Watch *watch = make_busy(), *read = make();
        uint32_t n = watch->n_services;
        uint64_t serial;
        Text text;

        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                cr_assert_eq(watch_find(watch, &bad[i], 30000, &serial), WATCH_E_NONE, "%zu", i);
        cr_assert_eq(watch->n_services, n);
        text = page_of(watch, watch_write);
        cr_assert_eq(watch_parse(read, text.data, text.size), 0);
        cr_assert_eq(read->n_services, n);
        text_deinit(&text);
        watch_free(watch);
        watch_free(read);
}

/* A directory stands where the file goes. */
Test(watch, a_file_that_cannot_be_written_leaves_nothing) {
        char directory[] = "/tmp/spanprof-watch-XXXXXX";
        Watch *watch = make_busy();
        int fd;

        cr_assert(mkdtemp(directory));
        fd = open(directory, O_RDONLY | O_DIRECTORY);
        cr_assert_eq(mkdirat(fd, "watch", 0700), 0);
        for (int i = 0; i < 2; i++)     /* the second one is an attempt, too */
                cr_assert_lt(watch_save(watch, fd), 0);
        cr_assert_neq(faccessat(fd, "watch.new", F_OK, 0), 0);
        cr_assert_eq(unlinkat(fd, "watch", AT_REMOVEDIR), 0);
        cr_assert_eq(watch_save(watch, fd), 0);
        unlinkat(fd, "watch", 0);
        close(fd);
        rmdir(directory);
        watch_free(watch);
}

static void is_dropped(int fd, const char *data, size_t size) {
        uint64_t n_dropped = stat_get(COUNTER_WATCH_FILES_DROPPED);
        int file = openat(fd, "watch", O_WRONLY | O_CREAT | O_TRUNC, 0600);
        Watch *watch = make();

        cr_assert_eq(file_write(file, data, size), 0);
        close(file);
        cr_assert_eq(watch_load(watch, fd), WATCH_E_MALFORMED);
        cr_assert_eq(stat_get(COUNTER_WATCH_FILES_DROPPED), n_dropped + 1);
        cr_assert_eq(watch->n_services, 0);
        watch_free(watch);
}

Test(watch, a_file_that_makes_no_sense_is_dropped) {
        char directory[] = "/tmp/spanprof-watch-XXXXXX";
        Watch *watch = make_busy();
        char *data;
        size_t size;
        int fd, file;

        cr_assert(mkdtemp(directory));
        fd = open(directory, O_RDONLY | O_DIRECTORY);
        cr_assert_eq(watch_save(watch, fd), 0);
        file = openat(fd, "watch", O_RDONLY);
        cr_assert_eq(file_read_fd(file, 1 << 20, &data, &size), 0);
        close(file);
        is_dropped(fd, "", 0);
        is_dropped(fd, "garbage\n", 8);
        is_dropped(fd, data, size - 1);
        data[size / 2] ^= 1;
        is_dropped(fd, data, size);
        unlinkat(fd, "watch", 0);
        close(fd);
        rmdir(directory);
        free(data);
        watch_free(watch);
}

/* Each byte of what is written, cut there, or changed: all of it or nothing. */
Test(watch, torn_sketches_are_none) {
        Watch *watch = make_busy();
        Text text = page_of(watch, watch_write);

        for (size_t i = 0; i < text.size; i++) {
                Watch *read = make();

                cr_assert_eq(watch_parse(read, text.data, i), WATCH_E_MALFORMED, "%zu", i);
                cr_assert_eq(read->n_services, 0);
                text.data[i] ^= 0x15;
                cr_assert_geq(watch_parse(read, text.data, text.size), 0);
                text.data[i] ^= 0x15;
                watch_free(read);
        }
        text_deinit(&text);
        watch_free(watch);
}
