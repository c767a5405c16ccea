/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "core/profile/window.h"
#include "desk/live/history.h"
#include "desk/live/keys.h"
#include "desk/live/screen.h"
#include "desk/live/view.h"

/*
 * Ten samples of one thread of shop (pid 7): six in main → work → hash, three in main → work → work (it calls
 * itself), one in main; of these the first six are of span 2, which says http.route=/cart, and the last one's
 * stack ends early.
 */
static void add_samples(Window *window, uint32_t profile, const char *const *functions, size_t n,
                        const uint32_t *set, size_t n_set, uint32_t link, unsigned count) {
        FrameWord words[8];
        uint32_t stack, attributes;

        for (size_t i = 0; i < n; i++) {
                WindowFunction function = { 0 };
                WindowFrame frame = { 0 };

                cr_assert_eq(window_string(window, functions[i], strlen(functions[i]), &function.name), 0);
                cr_assert_eq(window_string(window, "/src/shop.c", 11, &function.filename), 0);
                cr_assert_eq(window_function(window, &function, &frame.function), 0);
                cr_assert_eq(window_frame(window, &frame, &words[i]), 0);
        }
        cr_assert_eq(window_stack(window, words, n, &stack), 0);
        cr_assert_eq(window_attribute_set(window, set, n_set, &attributes), 0);
        for (unsigned i = 0; i < count; i++)
                cr_assert_eq(window_sample(window, profile, stack, attributes, link, 1, 1000 + i), 0);
}

static void fill(Counts *counts) {
        static const char *const hash[] = { "hash", "work", "main" },
                                 *const twice[] = { "work", "work", "main" }, *const alone[] = { "main" };
        uint32_t resource, profile, link, process[2], set[6];
        const WindowLink row = { .trace_id = { [15] = 1 }, .span_id = { [7] = 2 } };
        Window *window;

        cr_assert_eq(window_new(&window, 1, 0, NULL), 0);
        cr_assert_eq(window_resource(window, 1, &resource), 0);
        cr_assert_eq(window_attribute_string(window, "service.name", "shop", 4, &process[0]), 0);
        cr_assert_eq(window_attribute_int(window, "process.pid", 7, &process[1]), 0);
        cr_assert_eq(window_resource_attributes(window, resource, process, 2), 0);
        cr_assert_eq(window_profile(window, resource, PROFILE_CPU, &profile), 0);
        cr_assert_eq(window_attribute_int(window, "thread.id", 8, &set[0]), 0);
        cr_assert_eq(window_attribute_string(window, "thread.name", "wor\033[2Jker", 10, &set[1]), 0);
        cr_assert_eq(window_attribute_string(window, "http.route", "/cart", 5, &set[2]), 0);
        cr_assert_eq(window_attribute_string(window, "profile.stack.truncated", "depth", 5, &set[3]), 0);
        cr_assert_eq(window_attribute_int(window, "coroutine.station", 3, &set[4]), 0);
        cr_assert_eq(window_attribute_int(window, "coroutine.birth_ns", 77, &set[5]), 0);
        cr_assert_eq(window_link(window, &row, &link), 0);
        add_samples(window, profile, hash, 3, set, 3, link, 6);
        add_samples(window, profile, twice, 3, set, 2, 0, 3);
        add_samples(window, profile, alone, 1, (uint32_t[]){ set[0], set[1], set[3], set[4], set[5] }, 5, 0,
                    1);
        window_set_period(window, PROFILE_CPU, 10 * NS_PER_MS);
        cr_assert_eq(window_close(window, 2000), 0);
        counts_init(counts);
        cr_assert_eq(counts_add(counts, window), 0);
        window_free(window);
}

static const ViewFigures figures = { .length_ns = NS_PER_SEC / 2, .n_lost = 5, .n_processes = 1 };

/*
 * 30 ms of a worker of shop in take, which calls futex_wait of libc.so.6, ended by thread 9; then 10 ms in
 * which it wanted a CPU.
 */
static void fill_waits(Counts *counts) {
        static const char *const functions[] = { "futex_wait", "take" };
        uint32_t resource, profile, stack, attributes, service, set[6];
        FrameWord words[2];
        Window *window;

        cr_assert_eq(window_new(&window, 1, 0, NULL), 0);
        cr_assert_eq(window_resource(window, 1, &resource), 0);
        cr_assert_eq(window_attribute_string(window, "service.name", "shop", 4, &service), 0);
        cr_assert_eq(window_resource_attributes(window, resource, &service, 1), 0);
        cr_assert_eq(window_profile(window, resource, PROFILE_OFF_CPU, &profile), 0);
        for (size_t i = 0; i < 2; i++) {
                WindowModule module = { .limit = 4096 };
                WindowFunction function = { 0 };
                WindowFrame frame = { .address = 16 * (i + 1) };
                const char *path = i ? "/opt/shop" : "/lib/libc.so.6";

                cr_assert_eq(window_string(window, path, strlen(path), &module.path), 0);
                cr_assert_eq(window_string(window, i ? "aa" : "bb", 2, &module.build_id_gnu), 0);
                cr_assert_eq(window_module(window, &module, &frame.module), 0);
                cr_assert_eq(window_string(window, functions[i], strlen(functions[i]), &function.name), 0);
                cr_assert_eq(window_function(window, &function, &frame.function), 0);
                cr_assert_eq(window_frame(window, &frame, &words[i]), 0);
        }
        cr_assert_eq(window_stack(window, words, 2, &stack), 0);
        cr_assert_eq(window_attribute_string(window, "thread.name", "worker", 6, &set[0]), 0);
        cr_assert_eq(window_attribute_string(window, "wait.state", "blocked", 7, &set[1]), 0);
        cr_assert_eq(window_attribute_string(window, "wait.reason", "read", 4, &set[2]), 0);
        cr_assert_eq(window_attribute_string(window, "wait.file.kind", "pipe", 4, &set[3]), 0);
        cr_assert_eq(window_attribute_string(window, "wait.waker.kind", "thread", 6, &set[4]), 0);
        cr_assert_eq(window_attribute_int(window, "wait.waker.thread.id", 9, &set[5]), 0);
        cr_assert_eq(window_attribute_set(window, set, 6, &attributes), 0);
        cr_assert_eq(window_sample(window, profile, stack, attributes, 0, 30 * NS_PER_MS, 1000), 0);
        cr_assert_eq(window_attribute_string(window, "wait.state", "runnable", 8, &set[1]), 0);
        cr_assert_eq(window_attribute_set(window, set, 4, &attributes), 0);
        cr_assert_eq(window_sample(window, profile, 0, attributes, 0, 10 * NS_PER_MS, 1000), 0);
        cr_assert_eq(window_close(window, 2000), 0);
        counts_init(counts);
        cr_assert_eq(counts_add(counts, window), 0);
        window_free(window);
}

static CountsRow find(CountsRow *rows, size_t n, const char *text) {
        for (size_t i = 0; i < n; i++)
                if (!strcmp(rows[i].texts[0], text))
                        return rows[i];
        cr_assert(0, "no row %s", text);
        return (CountsRow){ 0 };
}

Test(counts, count_a_function_once_a_stack) {
        CountsRow *rows;
        Counts counts;
        size_t n;

        fill(&counts);
        cr_assert_eq(counts_rows(&counts, COUNTS_FUNCTIONS, COUNTS_BY_SELF, &rows, &n), 0);
        cr_assert_eq(n, 3);
        cr_assert_eq(find(rows, n, "hash").self, 6);
        cr_assert_eq(find(rows, n, "hash").total, 6);
        cr_assert_eq(find(rows, n, "work").self, 3);
        cr_assert_eq(find(rows, n, "work").total, 9, "though it called itself");
        cr_assert_eq(find(rows, n, "main").self, 1);
        cr_assert_eq(find(rows, n, "main").total, 10);
        cr_assert_str_eq(rows[0].texts[0], "hash");
        cr_assert_str_eq(rows[0].texts[1], "shop.c");
        free(rows);
        cr_assert_eq(counts_rows(&counts, COUNTS_FUNCTIONS, COUNTS_BY_TOTAL, &rows, &n), 0);
        cr_assert_str_eq(rows[0].texts[0], "main");
        free(rows);
        counts_deinit(&counts);
}

Test(counts, know_spans_threads_processes_and_reasons) {
        CountsRow *rows;
        Counts counts;
        size_t n;

        fill(&counts);
        cr_assert_eq(counts_rows(&counts, COUNTS_SPANS, COUNTS_BY_SELF, &rows, &n), 0);
        cr_assert_eq(n, 1);
        cr_assert_str_eq(rows[0].texts[0], "0000000000000002");
        cr_assert_str_eq(rows[0].texts[1], "00000000000000000000000000000001");
        cr_assert_str_eq(rows[0].texts[2], "http.route=/cart");
        cr_assert_str_eq(rows[0].texts[3], "shop");
        cr_assert_eq(rows[0].self, 6);
        free(rows);
        cr_assert_eq(counts_rows(&counts, COUNTS_OPERATIONS, COUNTS_BY_SELF, &rows, &n), 0);
        cr_assert_eq(n, 1, "four samples are of no span");
        cr_assert_str_eq(rows[0].texts[0], "/cart");
        cr_assert_str_eq(rows[0].texts[1], "shop");
        cr_assert_eq(rows[0].self, 6);
        free(rows);
        cr_assert_eq(counts_rows(&counts, COUNTS_THREADS, COUNTS_BY_SELF, &rows, &n), 0);
        cr_assert_eq(n, 1);
        cr_assert_str_eq(rows[0].texts[1], "8");
        cr_assert_eq(rows[0].self, 10);
        free(rows);
        cr_assert_eq(counts_rows(&counts, COUNTS_PROCESSES, COUNTS_BY_SELF, &rows, &n), 0);
        cr_assert_str_eq(rows[0].texts[1], "7");
        free(rows);
        cr_assert_eq(counts_rows(&counts, COUNTS_COROUTINES, COUNTS_BY_SELF, &rows, &n), 0);
        cr_assert_eq(n, 1, "nine samples are of none");
        cr_assert_str_eq(rows[0].texts[0], "3");
        cr_assert_str_eq(rows[0].texts[1], "");
        cr_assert_str_eq(rows[0].texts[2], "77");
        cr_assert_str_eq(rows[0].texts[3], "shop");
        cr_assert_eq(rows[0].self, 1);
        free(rows);
        cr_assert_eq(counts_rows(&counts, COUNTS_REASONS, COUNTS_BY_SELF, &rows, &n), 0);
        cr_assert_str_eq(rows[0].texts[0], "depth");
        cr_assert_eq(rows[0].self, 1);
        free(rows);
        cr_assert_eq(counts.n_events, 10);
        cr_assert_eq(counts.n_linked, 6);
        cr_assert_eq(counts.n_truncated, 1);
        cr_assert_eq(counts.cpu_ns, 1e8, "ten times 10 ms");
        counts_deinit(&counts);
        counts_init(&counts);
        cr_assert_eq(counts_rows(&counts, COUNTS_THREADS, COUNTS_BY_SELF, &rows, &n), 0);
        cr_assert_eq(n, 0);
        free(rows);
        counts_deinit(&counts);
}

Test(view, is_a_page_of_the_terminals_size) {
        for (unsigned rows = 1; rows < 12; rows++) {
                for (unsigned columns = 1; columns < 140; columns += 7) {
                        View view = { .rows = rows, .columns = columns, .interval_ns = NS_PER_SEC };
                        unsigned n_lines = 0;
                        Text page = { 0 };
                        Counts counts;

                        fill(&counts);
                        for (CountsTable tab = 0; tab < VIEW_N_TABS; tab++) {
                                view.tab = tab;
                                page.size = 0;
                                cr_assert_eq(view_page(&view, &counts, &figures, &page), 0);
                                n_lines = 0;
                                for (const char *line = page.data; *line;
                                     line += strcspn(line, "\n") + 1, n_lines++)
                                        cr_assert_leq(strcspn(line, "\n"), columns + 2 * strlen("…"),
                                                      "columns of %u: %s", columns, line);
                                cr_assert_leq(n_lines, rows);
                        }
                        text_deinit(&page);
                        counts_deinit(&counts);
                }
        }
}

Test(view, shows_shares_and_cpu_time) {
        View view = { .rows = 20, .columns = 100, .interval_ns = NS_PER_SEC };
        Text page = { 0 };
        Counts counts;

        fill(&counts);
        cr_assert_eq(view_page(&view, &counts, &figures, &page), 0);
        cr_assert_not_null(
                strstr(page.data, "1 process, 10 samples in 0.5 s, 0.20 CPUs busy, 60 % in spans\n"));
        cr_assert_eq(strstr(page.data, "5 LOST spanprof top: "), page.data, "in the sight of narrow terminals");
        cr_assert_not_null(strstr(page.data, "  60.0 %  60.0 %  hash"));
        cr_assert_not_null(strstr(page.data, "  30.0 %  90.0 %  work"));
        page.size = 0;
        view.tab = COUNTS_THREADS;
        cr_assert_eq(view_page(&view, &counts, &figures, &page), 0);
        cr_assert_not_null(strstr(page.data, " 100.0 %  20.0 %  wor?[2Jker"));
        text_deinit(&page);
        counts_deinit(&counts);
}

Test(view, says_first_what_must_not_be_overlooked) {
        View view = { .rows = 20, .columns = 80, .interval_ns = NS_PER_SEC, .paused = true };
        ViewFigures past = figures;
        Text page = { 0 };
        Counts counts;

        fill(&counts);
        past.ago_ns = 42 * NS_PER_SEC;
        cr_assert_eq(view_page(&view, &counts, &past, &page), 0);
        cr_assert_eq(strstr(page.data, "PAUSED 42 s AGO 5 LOST spanprof top: 1 process"), page.data);
        text_deinit(&page);
        counts_deinit(&counts);
}

Test(view, says_how_many_tables_of_files_are_read_while_some_are_not) {
        View view = { .rows = 20, .columns = 80, .interval_ns = NS_PER_SEC };
        ViewFigures reading = figures;
        Text page = { 0 };
        Counts counts;

        fill(&counts);
        reading.n_tables_made = 120;
        reading.n_tables = 400;
        cr_assert_eq(view_page(&view, &counts, &reading, &page), 0);
        cr_assert_eq(strstr(page.data, "5 LOST reading tables 120/400 spanprof top: "), page.data);
        text_deinit(&page);
        counts_deinit(&counts);
}

Test(view, names_all_views_on_80_columns) {
        View view = { .rows = 24, .columns = 80, .interval_ns = NS_PER_SEC };
        Text page = { 0 };
        Counts counts;

        fill(&counts);
        for (view.tab = 0; view.tab < VIEW_N_TABS; view.tab++, page.size = 0) {
                cr_assert_eq(view_page(&view, &counts, &figures, &page), 0);
                for (const char *const *name = (const char *const[]){ "1functions", "2spans", "3threads", "4processes",
                                                                      "5coroutines", "6tree", "7waits", "8operations",
                                                                      NULL };
                     *name; name++)
                        cr_assert_not_null(strstr(page.data, *name), "%s: %s", *name, page.data);
        }
        text_deinit(&page);
        counts_deinit(&counts);
}

Test(view, says_what_an_empty_one_waits_for) {
        View view = { .rows = 20, .columns = 100, .interval_ns = NS_PER_SEC };
        ViewFigures none = figures;
        Text page = { 0 };
        Counts counts;

        counts_init(&counts);
        view.tab = COUNTS_SPANS;
        cr_assert_eq(view_page(&view, &counts, &none, &page), 0);
        cr_assert_not_null(strstr(page.data, "no sample is in a span: waiting for a service"));
        page.size = 0;
        for (view.tab = 0, view.columns = 400; view.tab < VIEW_N_TABS; view.tab++, page.size = 0) {
                cr_assert_eq(view_page(&view, &counts, &none, &page), 0);
                cr_assert_leq(strcspn(strstr(page.data, "\n  no ") + 1, "\n"), 80, "%s", page.data);
        }
        view.tab = COUNTS_SPANS;
        none.n_processes = 0;
        cr_assert_eq(view_page(&view, &counts, &none, &page), 0);
        cr_assert_not_null(strstr(page.data, "no process is chosen (yet)"));
        page.size = 0;
        strcpy(view.filter, "xyz");
        cr_assert_eq(view_page(&view, &counts, &none, &page), 0);
        cr_assert_not_null(strstr(page.data, "no row has \"xyz\" in it; Esc shows all"));
        text_deinit(&page);
        counts_deinit(&counts);
}

Test(view, shows_all_keys_on_a_narrow_terminal) {
        static const char *const keys[] = { "q quit", "1-8 Tab", "t tree", "w what", "o operations", "s sort",
                                            "/ filter", "Esc", "space pause", "c since", "← →", "+ -", "% of",
                                            "< >", "↑ ↓", "h no help" };
        View view = { .rows = 24, .columns = 80, .interval_ns = NS_PER_SEC, .help = true };
        Text page = { 0 };
        Counts counts;

        fill(&counts);
        cr_assert_eq(view_page(&view, &counts, &figures, &page), 0);
        for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
                cr_assert_not_null(strstr(page.data, keys[i]), "%s", keys[i]);
        cr_assert_null(strstr(page.data, "hash"), "in the place of rows");
        text_deinit(&page);
        counts_deinit(&counts);
}

Test(view, shows_calls_as_a_tree) {
        View view = { .rows = 20, .columns = 100, .interval_ns = NS_PER_SEC, .tab = COUNTS_TREE };
        Text page = { 0 };
        Counts counts;

        fill(&counts);
        cr_assert_eq(view_page(&view, &counts, &figures, &page), 0);
        cr_assert_not_null(strstr(page.data, "\n  10.0 % 100.0 %  main "));
        cr_assert_not_null(strstr(page.data, "\n   0.0 %  90.0 %    work "));
        cr_assert_not_null(strstr(page.data, "\n  60.0 %  60.0 %      hash "));
        cr_assert_not_null(strstr(page.data, "\n  30.0 %  30.0 %      work "));
        cr_assert_lt(strstr(page.data, "      hash "), strstr(page.data, "      work "), "the largest first");
        page.size = 0;
        view.of_cpu = true;
        cr_assert_eq(view_page(&view, &counts, &figures, &page), 0);
        cr_assert_not_null(strstr(page.data, "\n   2.0 %  20.0 %  main "), "100 ms in half a second");
        text_deinit(&page);
        counts_deinit(&counts);
}

Test(history, keeps_the_last_moments) {
        static History history;
        Counts counts;

        cr_assert_null(history_get(&history, 0));
        for (uint64_t i = 0; i < HISTORY_MAX + 5; i++) {
                fill(&counts);
                history_add(&history, &counts, i, i);
                cr_assert_eq(counts.n_events, 0, "taken over");
        }
        cr_assert_null(history_get(&history, 4));
        cr_assert_eq(history_get(&history, 5)->end_ns, 5);
        cr_assert_eq(history_get(&history, HISTORY_MAX + 4)->counts.n_events, 10);
        cr_assert_null(history_get(&history, HISTORY_MAX + 5));
        history_deinit(&history);
        cr_assert_eq(history.n_kept, 0);
}

static ViewAction type(View *view, const char *keys) {
        ViewAction action = VIEW_NOTHING;

        for (; *keys; keys++)
                action = view_key(view, (unsigned char)*keys);
        return action;
}

Test(view, shows_waits) {
        View view = { .rows = 20, .columns = 100, .interval_ns = NS_PER_SEC, .tab = COUNTS_WAITS };
        Counts counts;
        Text text = { 0 };

        fill_waits(&counts);
        cr_assert_eq(counts.wait_ns, 40 * NS_PER_MS);
        cr_assert_eq(counts.n_events, 0);
        cr_assert_eq(view_block(&view, &counts, &figures, 10, &text), 0);
        cr_assert(strstr(text.data, "  75.0 %    0.06  worker           blocked  read pipe        take "), "%s",
                  text.data);
        cr_assert(strstr(text.data, " thread 9\n"), "%s", text.data);
        cr_assert(strstr(text.data, "  25.0 %    0.02  worker           runnable read pipe\n"), "%s", text.data);
        text_deinit(&text);
        text = (Text){ 0 };
        cr_assert_eq(view_json(&view, &counts, &figures, 1, &text), 0);
        cr_assert(strstr(text.data, "\"waits\": [{\"thread\": \"worker\", \"state\": \"blocked\", \"on\": \"read pipe\", "
                                    "\"in\": \"take\", \"ended_by\": \"thread 9\", \"process\": \"shop\", "
                                    "\"nanoseconds\": 30000000, \"threads\": 0.060}]"), "%s", text.data);
        text_deinit(&text);
        counts_deinit(&counts);
}

Test(view, obeys_keys) {
        View view = { .rows = 24, .columns = 80, .interval_ns = NS_PER_SEC };

        cr_assert_eq(type(&view, "3"), VIEW_REDRAW);
        cr_assert_eq(view.tab, COUNTS_THREADS);
        view_key(&view, '\t');
        cr_assert_eq(view.tab, COUNTS_PROCESSES);
        view_key(&view, '\t');
        view_key(&view, '\t');
        view_key(&view, '\t');
        view_key(&view, '\t');
        view_key(&view, '\t');
        cr_assert_eq(view.tab, COUNTS_FUNCTIONS, "round");
        view_key(&view, KEY_BACK_TAB);
        cr_assert_eq(view.tab, COUNTS_OPERATIONS);
        type(&view, "1o");
        cr_assert_eq(view.tab, COUNTS_OPERATIONS);
        type(&view, "t");
        cr_assert_eq(view.tab, COUNTS_TREE);
        type(&view, "w");
        cr_assert_eq(view.tab, COUNTS_WAITS);
        view_key(&view, KEY_LEFT);
        view_key(&view, KEY_LEFT);
        view_key(&view, KEY_RIGHT);
        cr_assert_eq(view.by_moments, 1, "one interval back");
        type(&view, ">");
        cr_assert_gt(view.sideways, 0);
        type(&view, "<<");
        cr_assert_eq(view.sideways, 0);
        type(&view, "s");
        cr_assert_eq(view.order, COUNTS_BY_TOTAL);
        type(&view, "ss");
        cr_assert_eq(view.order, COUNTS_BY_SELF);
        type(&view, "++");
        cr_assert_eq(view.interval_ns, 4 * NS_PER_SEC);
        for (int i = 0; i < 99; i++)
                type(&view, "-");
        cr_assert_eq(view.interval_ns, VIEW_INTERVAL_MIN_MS * NS_PER_MS);
        for (int i = 0; i < 99; i++)
                type(&view, "+");
        cr_assert_eq(view.interval_ns, VIEW_INTERVAL_MAX_MS * NS_PER_MS);
        cr_assert_eq(view_key(&view, KEY_OTHER), VIEW_NOTHING);
        cr_assert_eq(type(&view, "q"), VIEW_QUIT);
}

Test(view, filters_while_it_is_typed) {
        View view = { .rows = 24, .columns = 80, .interval_ns = NS_PER_SEC };
        Text page = { 0 };
        Counts counts;

        fill(&counts);
        type(&view, "/HaqX\x7f\x7f\xc3\xa9\x7fS\r");
        cr_assert_str_eq(view.filter, "HaS", "q is a letter there, and a character goes with all its bytes");
        cr_assert_not(view.typing);
        cr_assert_eq(view_page(&view, &counts, &figures, &page), 0);
        cr_assert_not_null(strstr(page.data, "%  hash"));
        cr_assert_null(strstr(page.data, "%  work"));
        type(&view, "/");
        for (int i = 0; i < 200; i++)
                type(&view, "x");
        cr_assert_eq(strlen(view.filter), VIEW_FILTER_MAX - 1);
        view_key(&view, KEY_ESCAPE);
        cr_assert_str_eq(view.filter, "");
        cr_assert_not(view.typing);
        text_deinit(&page);
        counts_deinit(&counts);
}

Test(view, scrolls_no_further_than_there_are_rows) {
        View view = { .rows = 6, .columns = 80, .interval_ns = NS_PER_SEC };
        Text page = { 0 };
        Counts counts;

        fill(&counts);
        view_key(&view, KEY_UP);
        cr_assert_eq(view.first, 0);
        view_key(&view, KEY_END);
        cr_assert_eq(view_page(&view, &counts, &figures, &page), 0);
        cr_assert_eq(view.first, 1, "three rows, of which two fit");
        cr_assert_null(strstr(page.data, "%  hash"));
        cr_assert_not_null(strstr(page.data, "%  main"));
        text_deinit(&page);
        counts_deinit(&counts);
}

Test(screen, cleans_cuts_and_fills_what_strangers_wrote) {
        static const struct {
                const char *text;
                unsigned columns;
                bool fill;
                const char *shown;
        } all[] = {
                { "plain", 10, false, "plain" },
                { "plain", 7, true, "plain  " },
                { "plain", 5, true, "plain" },
                { "plain", 4, true, "pla…" },
                { "plain", 1, true, "…" },
                { "plain", 0, true, "" },
                { "a\033[2Jb\x07\x7f", 20, false, "a?[2Jb??" },
                { "\xc2\x9b" "2J", 20, false, "?2J" },                  /* CSI as one character, U+009B */
                { "a\xe2\x80\xae" "b\xe2\x81\xa6", 20, false, "a?b?" }, /* U+202E, U+2066 */
                { "\xc3\xa9\xc3\xa9\xc3\xa9", 2, false, "\xc3\xa9…" },
                { "\xc2\xa0", 5, false, "\xc2\xa0" },                   /* U+00A0 is no control */
        };

        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
                Text text = { 0 };

                screen_text(&text, all[i].text, all[i].columns, all[i].fill);
                cr_assert_str_eq(text.data ? text.data : "", all[i].shown);
                text_deinit(&text);
        }
}
