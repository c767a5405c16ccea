/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "desk/report/report.h"
#include "hand-elf.h"

/*
 * The windows of these tests, two processes with CPU samples and one of them with off-CPU time:
 *
 *     4711 `shop`   hot ← serve ← main             6, spans A (5) and B (1)
 *                   serve ← serve ← main           2, no span, truncated: depth
 *                   clear_page [kernel] ← main     1, no span
 *                   (no stack)                     1, no span, truncated: fault
 *     4712 `batch`  hot ← main                     10, span C
 *     4711 off-CPU  hot ← serve ← main             1.5 ms in 2 events
 */
enum { START = 1000000, PERIOD = 10000000 };
#define OFFSET INT64_C(1700000000000000000)     /* 2023-11-14 22:13:20 UTC */

static uint32_t string(Window *window, const char *text) {
        uint32_t index;

        cr_assert_eq(window_string(window, text, strlen(text), &index), 0);
        return index;
}

static FrameWord frame(Window *window, const char *function, const char *path, const char *type) {
        WindowModule module = { .path = string(window, path), .start = 0x1000, .limit = 0x9000,
                                .build_id_htlhash = string(window, "00112233445566778899aabbccddeeff") };
        WindowFunction row = { .name = string(window, function) };
        WindowFrame new = { .address = 0x1234, .type = string(window, type) };
        FrameWord word;

        cr_assert_eq(window_module(window, &module, &new.module), 0);
        cr_assert_eq(window_function(window, &row, &new.function), 0);
        cr_assert_eq(window_frame(window, &new, &word), 0);
        return word;
}

static uint32_t stack_of(Window *window, const char *const *names) {
        FrameWord words[16];
        uint32_t stack;
        size_t n = 0;

        for (; names[n]; n++)
                words[n] = !strcmp(names[n], "clear_page")
                        ? frame(window, names[n], "vmlinux", "kernel")
                        : frame(window, names[n],
                                !strcmp(names[n], "unlock") ? "/lib/libc.so.6" : "/opt/shop/bin/shop", "native");
        cr_assert_eq(window_stack(window, words, n, &stack), 0);
        return stack;
}

static uint32_t resource_of(Window *window, int64_t pid, const char *name, const char *service) {
        uint32_t resource, attributes[3];

        cr_assert_eq(window_resource(window, (uint64_t)pid, &resource), 0);
        cr_assert_eq(
                window_attribute_string(window, "service.name", service, strlen(service), &attributes[0]), 0);
        cr_assert_eq(window_attribute_int(window, "process.pid", pid, &attributes[1]), 0);
        cr_assert_eq(window_attribute_string(window, "process.executable.name", name, strlen(name),
                                             &attributes[2]),
                     0);
        cr_assert_eq(window_resource_attributes(window, resource, attributes, 3), 0);
        return resource;
}

static uint32_t profile_of(Window *window, uint32_t resource, ProfileType type) {
        uint32_t profile;

        cr_assert_eq(window_profile(window, resource, type, &profile), 0);
        return profile;
}

static uint32_t link_of(Window *window, uint8_t id) {
        WindowLink link = { .trace_id = { 0xaa }, .span_id = { [7] = id } };
        uint32_t index;

        cr_assert_eq(window_link(window, &link, &index), 0);
        return index;
}

static uint32_t truncated(Window *window, const char *reason) {
        uint32_t attribute, set;

        cr_assert_eq(window_attribute_string(window, "profile.stack.truncated", reason, strlen(reason),
                                             &attribute),
                     0);
        cr_assert_eq(window_attribute_set(window, &attribute, 1, &set), 0);
        return set;
}

static void sample(Window *window, uint32_t profile, uint32_t stack, uint32_t set, uint32_t link,
                   int64_t value, int n) {
        for (int i = 0; i < n; i++)
                cr_assert_eq(window_sample(window, profile, stack, set, link, value, START + 1 + (uint64_t)i),
                             0);
}

#define STACK(...) stack_of(window, (const char *const[]){ __VA_ARGS__, NULL })

static Window *make_window(void) {
        Window *window = NULL;
        uint32_t shop, batch, off, resource;

        cr_assert_eq(window_new(&window, START, OFFSET, NULL), 0);
        window_set_period(window, PROFILE_CPU, PERIOD);
        resource = resource_of(window, 4711, "shop", "store");
        shop = profile_of(window, resource, PROFILE_CPU);
        off = profile_of(window, resource, PROFILE_OFF_CPU);
        batch = profile_of(window, resource_of(window, 4712, "batch", "nightly"), PROFILE_CPU);
        sample(window, shop, STACK("hot", "serve", "main"), 0, link_of(window, 0xa), 1, 5);
        sample(window, shop, STACK("hot", "serve", "main"), 0, link_of(window, 0xb), 1, 1);
        sample(window, shop, STACK("serve", "serve", "main"), truncated(window, "depth"), 0, 1, 2);
        sample(window, shop, STACK("clear_page", "main"), 0, 0, 1, 1);
        sample(window, shop, 0, truncated(window, "fault"), 0, 1, 1);
        sample(window, batch, STACK("hot", "main"), 0, link_of(window, 0xc), 1, 10);
        sample(window, off, STACK("hot", "serve", "main"), 0, 0, 750000, 2);
        cr_assert_eq(window_close(window, START + UINT64_C(2500000000)), 0);
        return window;
}

static char *text_of(const ReportOptions *options, int n_windows, uint32_t top, bool json) {
        _cleanup_(report_freep) Report *report = NULL;
        ReportFormat format = { .top = top, .n_files = (size_t)n_windows };
        char *text = NULL;
        size_t size;
        FILE *out = open_memstream(&text, &size);

        cr_assert_eq(report_new(&report, options), 0);
        for (int i = 0; i < n_windows; i++) {
                _cleanup_(window_freep) Window *window = make_window();

                cr_assert_eq(report_add(report, window), 0);
        }
        cr_assert_eq(json ? report_print_json(report, &format, out) : report_print(report, &format, out), 0);
        fclose(out);
        return text;
}

static void assert_has(const char *text, const char *part) {
        cr_assert_not_null(strstr(text, part), "no `%s` in\n%s", part, text);
}

static void assert_lacks(const char *text, const char *part) {
        cr_assert_null(strstr(text, part), "`%s` in\n%s", part, text);
}

Test(report, prints_known_numbers_over_all_processes) {
        _cleanup_(freep) char *text = text_of(&(ReportOptions){ 0 }, 1, 20, false);

        assert_has(text, "Time        2023-11-14 22:13:20.001 UTC, 2.50 s\nProcesses   2\n");
        assert_has(text, "\nProfile     samples in count, one every 10.0 ms of cpu\n"
                         "  value       20, which is 200 ms of cpu\n"
                         "  with span    80.0%\n"
                         "  incomplete   15.0%, ended at more frames than are kept (2), unreadable memory (1)\n");
        assert_has(text, "\nProcesses\n"
                         "  value         with span  incomplete  process           service\n"
                         "     10  50.0%      60.0%       30.0%  shop (pid 4711)   store\n"
                         "     10  50.0%     100.0%        0.0%  batch (pid 4712)  nightly\n");
        /* `serve` is twice in one stack, and counts once. */
        assert_has(text, "\nFunctions\n"
                         "  self         total         function    object\n"
                         "    16  80.0%     16  80.0%  hot         shop\n"
                         "     2  10.0%      8  40.0%  serve       shop\n"
                         "     1   5.0%      1   5.0%  clear_page  [kernel]\n"
                         "     0   0.0%     19  95.0%  main        shop\n");
        assert_has(text, "\nStacks, the innermost function first\n"
                         "        10   50.0%  hot ← main\n"
                         "         6   30.0%  hot ← serve ← main\n"
                         "         2   10.0%  serve ← serve ← main\n"
                         "         1    5.0%  (no stack)\n"
                         "         1    5.0%  clear_page ← main\n");
        assert_has(text, "\nSpans\n"
                         "  value         trace                             span\n"
                         "     10  50.0%  aa000000000000000000000000000000  000000000000000c\n"
                         "      5  25.0%  aa000000000000000000000000000000  000000000000000a\n"
                         "      1   5.0%  aa000000000000000000000000000000  000000000000000b\n");
        assert_has(text, "\nObjects\n"
                         "  self         object    build id  names\n"
                         "    18  90.0%  shop                names in the profile\n"
                         "     1   5.0%  [kernel]            names in the profile\n");
        assert_has(text, "\nProfile     off_cpu in nanoseconds\n"
                         "  value       1.50 ms\n");
        assert_has(text, "  1.50 ms  100.0%  1.50 ms  100.0%  hot       shop\n");
}

Test(report, prints_a_section_for_each_process) {
        _cleanup_(freep) char *text = text_of(&(ReportOptions){ 0 }, 1, 20, false);
        const char *shop = strstr(text, "\nProcess     shop (pid 4711)\n");
        const char *batch = strstr(text, "\nProcess     batch (pid 4712)\n");

        cr_assert_not_null(shop);
        cr_assert_not_null(batch);
        assert_has(batch,
                   "  value       10, which is 100 ms of cpu\n  with span   100.0%\n  incomplete    0.0%\n");
        assert_has(shop, "  service.name             store\n  process.pid              4711\n");
        assert_has(
                batch,
                "    10  100.0%     10  100.0%  hot       shop\n     0    0.0%     10  100.0%  main      shop\n");
}

Test(report, merges_the_windows_of_a_process) {
        _cleanup_(freep) char *text = text_of(&(ReportOptions){ 0 }, 3, 20, false);

        assert_has(text, "Files       3\n");
        assert_has(text, "Processes   2\n");
        assert_has(text, "  value       60, which is 600 ms of cpu\n");
        assert_has(text, "    48  80.0%     48  80.0%  hot         shop\n");
}

Test(report, counts_a_profile_that_is_there_twice_once) {
        _cleanup_(window_freep) Window *window = make_window();
        _cleanup_(report_freep) Report *report = NULL;
        _cleanup_(freep) char *text = NULL;
        size_t size;
        FILE *out = open_memstream(&text, &size);

        cr_assert_eq(report_new(&report, &(ReportOptions){ 0 }), 0);
        cr_assert_eq(report_add(report, window) | report_add(report, window), 0);
        cr_assert_eq(report_print(report, &(ReportFormat){ .n_files = 2 }, out), 0);
        fclose(out);
        assert_has(text, "Repeated    3 profiles that were there before (same profile id), counted once\n");
        assert_has(text, "  value       20, which is 200 ms of cpu\n");
}

/* 20 samples of 10 ms, and 5 of 2 ms. */
static char *text_with_boost(const ReportOptions *options) {
        _cleanup_(report_freep) Report *report = NULL;
        _cleanup_(window_freep) Window *window = NULL, *others = make_window();
        char *text = NULL;
        size_t size;
        FILE *out = open_memstream(&text, &size);

        cr_assert_eq(window_new(&window, START, OFFSET, NULL), 0);
        window_set_period(window, PROFILE_BOOST, PERIOD / 5);
        sample(window, profile_of(window, resource_of(window, 4711, "shop", "store"), PROFILE_BOOST),
               STACK("hot", "main"), 0, 0, 1, 5);
        cr_assert_eq(window_close(window, START + 9), 0);
        cr_assert_eq(report_new(&report, options), 0);
        cr_assert_eq(report_add(report, others) | report_add(report, window), 0);
        cr_assert_eq(report_print(report, &(ReportFormat){ .n_files = 2 }, out), 0);
        fclose(out);
        return text;
}

Test(report, says_where_boosted_samples_count_as_others) {
        _cleanup_(freep) char *counted = text_with_boost(&(ReportOptions){ 0 }),
                              *timed = text_with_boost(&(ReportOptions){ .wall = true });
        static const char note[] = "Samples count alike here";

        assert_has(counted, "one every 2.00 ms to 10.0 ms of cpu\n  value       25, which is 210 ms of cpu\n");
        assert_has(counted, note);
        cr_assert_null(strstr(timed, note));
        assert_has(timed, "  value       212 ms\n");
}

Test(report, prints_only_the_rows_asked_for) {
        _cleanup_(freep) char *text = text_of(&(ReportOptions){ 0 }, 1, 2, false);

        assert_has(text, "     2  10.0%      8  40.0%  serve     shop\n  … and 2 more functions\n");
        assert_has(text, "  … and 3 more stacks\n");
        assert_has(text, "  … and 1 more spans\n");
}

Test(report, leaves_out_processes_that_were_not_asked_for) {
        uint32_t pid = 4712, none = 1;
        char *names[] = { (char[]){ "sto*" } };
        _cleanup_(freep) char *by_pid = text_of(&(ReportOptions){ .pids = &pid, .n_pids = 1 }, 1, 20, false);
        _cleanup_(freep) char *by_name = text_of(&(ReportOptions){ .names = names, .n_names = 1 }, 1, 20,
                                                 false);
        _cleanup_(freep) char *both = text_of(&(ReportOptions){ .names = names, .n_names = 1, .pids = &pid,
                                                                .n_pids = 1 }, 1, 20, false);
        _cleanup_(freep) char *nobody = text_of(&(ReportOptions){ .pids = &none, .n_pids = 1 }, 1, 20, false);

        assert_has(by_pid, "Processes   1 (and 1 that were not asked for)\n");
        assert_has(by_pid, "  value       10, which is 100 ms of cpu\n  with span   100.0%\n");
        assert_lacks(by_pid, "serve");
        assert_has(by_name, "  with span    60.0%\n");
        assert_lacks(by_name, "nightly");
        assert_has(both, "  value       20, which is");
        assert_has(nobody,
                   "Processes   0 (and 2 that were not asked for)\nThere are no samples to report.\n");
}

Test(report, joins_spans_with_operations) {
        static const char csv[] = "span_id,operation\n000000000000000a,checkout\n000000000000000c,search\n";
        _cleanup_(span_list_freep) SpanList *list = NULL;
        _cleanup_(freep) char *text = NULL;
        SpanListProblem problem;

        cr_assert_eq(span_list_new(&list, csv, sizeof(csv) - 1, &problem), 0);
        text = text_of(&(ReportOptions){ .spans = list }, 1, 20, false);
        assert_has(text, "\nOperations\n"
                         "  value         operation\n"
                         "     10  50.0%  search\n"
                         "      5  25.0%  checkout\n"
                         "      4  20.0%  (no span)\n"
                         "      1   5.0%  (span not in the list)\n");
        assert_has(text, "\nFunctions of checkout\n"
                         "  self          total          function  object\n"
                         "     5  100.0%      5  100.0%  hot       shop\n"
                         "     0    0.0%      5  100.0%  main      shop\n"
                         "     0    0.0%      5  100.0%  serve     shop\n");
        assert_has(text, "\nFunctions of (no span)\n"
                         "  self         total         function    object\n"
                         "     2  50.0%      2  50.0%  serve       shop\n"
                         "     1  25.0%      1  25.0%  clear_page  [kernel]\n"
                         "     0   0.0%      3  75.0%  main        shop\n");
        assert_has(text, "      5  25.0%  aa000000000000000000000000000000  000000000000000a  checkout\n");
}

/* 20 samples of 10 ms, and 1.5 ms of waits. */
Test(report, adds_waits_to_cpu_time) {
        _cleanup_(freep) char *text = text_of(&(ReportOptions){ .wall = true }, 1, 20, false);

        assert_has(text, "\nProfile     wall in nanoseconds\n  value       202 ms\n");
        assert_has(text, "\nFunctions\n"
                         "     self           total         function    object\n"
                         "   162 ms  80.1%   162 ms  80.1%  hot         shop\n");
        assert_lacks(text, "off_cpu in");
        assert_lacks(text, "samples in count");
}

/* Of a wait. @id, @thread: of the waker; NULL, 0 = none. */
static uint32_t wait_set(Window *window, const char *state, const char *reason, const char *kind,
                         const char *id, int64_t thread) {
        const struct {
                const char *key, *value;
        } texts[] = { { "wait.state", state },
                      { "wait.reason", reason },
                      { "wait.file.kind", strcmp(reason, "read") ? NULL : "pipe" },
                      { "wait.waker.kind", kind },
                      { "wait.waker.span_id", id } };
        uint32_t attributes[6], set;
        size_t n = 0;

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
                if (texts[i].value)
                        cr_assert_eq(window_attribute_string(window, texts[i].key, texts[i].value,
                                                             strlen(texts[i].value), &attributes[n++]),
                                     0);
        if (thread)
                cr_assert_eq(window_attribute_int(window, "wait.waker.thread.id", thread, &attributes[n++]), 0);
        cr_assert_eq(window_attribute_set(window, attributes, n, &set), 0);
        return set;
}

static char *text_of_window(Window *window, const SpanList *list, bool json) {
        _cleanup_(report_freep) Report *report = NULL;
        const ReportFormat format = { .top = 20, .n_files = 1 };
        char *text = NULL;
        size_t size;
        FILE *out = open_memstream(&text, &size);

        cr_assert_eq(window_close(window, START + UINT64_C(2500000000)), 0);
        cr_assert_eq(report_new(&report, &(ReportOptions){ .spans = list }), 0);
        cr_assert_eq(report_add(report, window), 0);
        cr_assert_eq((json ? report_print_json : report_print)(report, &format, out), 0);
        fclose(out);
        return text;
}

static char *waits_text(const SpanList *list, bool json) {
        _cleanup_(window_freep) Window *window = NULL;
        uint32_t off;

        cr_assert_eq(window_new(&window, START, OFFSET, NULL), 0);
        off = profile_of(window, resource_of(window, 4711, "shop", "store"), PROFILE_OFF_CPU);
        sample(window, off, 0, wait_set(window, "blocked", "futex", "thread", "000000000000000b", 7),
               link_of(window, 0xa), 5000000, 1);
        sample(window, off, 0, wait_set(window, "blocked", "futex", "thread", "000000000000000d", 7),
               link_of(window, 0xa), 3000000, 1);
        sample(window, off, 0, wait_set(window, "blocked", "futex", "thread", "no id, and long", 8),
               link_of(window, 0xa), 2000000, 1);
        sample(window, off, 0, wait_set(window, "blocked", "read", "process", NULL, 0), 0, 1000000, 1);
        sample(window, off, 0, wait_set(window, "runnable", "preempted", NULL, NULL, 0), link_of(window, 0xe),
               500000, 1);
        return text_of_window(window, list, json);
}

static char *locks_text(bool json) {
        _cleanup_(window_freep) Window *window = NULL;
        uint32_t off, attributes[5], set;

        cr_assert_eq(window_new(&window, START, OFFSET, NULL), 0);
        off = profile_of(window, resource_of(window, 4711, "shop", "store"), PROFILE_OFF_CPU);
        cr_assert_eq(window_attribute_string(window, "wait.state", "blocked", 7, &attributes[0]), 0);
        cr_assert_eq(window_attribute_string(window, "wait.reason", "futex", 5, &attributes[1]), 0);
        cr_assert_eq(window_attribute_string(window, "wait.lock.kind", "monitor", 7, &attributes[2]), 0);
        cr_assert_eq(window_attribute_string(window, "wait.lock.class", "shop.Cart", 9, &attributes[3]), 0);
        cr_assert_eq(window_attribute_int(window, "wait.lock.owner.thread.id", 4712, &attributes[4]), 0);
        cr_assert_eq(window_attribute_set(window, attributes, 5, &set), 0);
        sample(window, off, 0, set, link_of(window, 0xa), 5000000, 1);
        cr_assert_eq(window_attribute_set(window, attributes, 4, &set), 0);
        sample(window, off, 0, set, link_of(window, 0xa), 3000000, 1);
        return text_of_window(window, NULL, json);
}

Test(report, says_which_lock_a_wait_was_for_and_who_had_it) {
        _cleanup_(freep) char *text = locks_text(false), *json = locks_text(true);

        assert_has(text, "  blocked  futex monitor shop.Cart of thread 4712\n");
        assert_has(text, "  blocked  futex monitor shop.Cart\n");
        assert_has(json, "\"on\":\"futex\",\"lock\":\"monitor\",\"lock_class\":\"shop.Cart\","
                         "\"lock_owner_thread\":4712,\"ended_by\":\"\",\"value\":5000000}");
        assert_has(json, "\"lock_class\":\"shop.Cart\",\"ended_by\":\"\",\"value\":3000000}");
}

/* A wait that somebody's unlock has ended. */
static char *wakers_text(bool json) {
        _cleanup_(window_freep) Window *window = NULL;
        uint32_t waker;

        cr_assert_eq(window_new(&window, START, OFFSET, NULL), 0);
        waker = profile_of(window, resource_of(window, 4711, "shop", "store"), PROFILE_WAKER);
        sample(window, waker, STACK("unlock", "rebuild", "main"),
               wait_set(window, "blocked", "futex", "thread", NULL, 7), link_of(window, 0xa), 5000000, 1);
        return text_of_window(window, NULL, json);
}

Test(report, says_where_those_were_who_ended_waits) {
        _cleanup_(freep) char *text = wakers_text(false), *json = wakers_text(true);

        assert_has(text, "\nWaits\n"
                         "    value          who                    state    on     ended by  in\n"
                         "  5.00 ms  100.0%  span 000000000000000a  blocked  futex  thread 7  rebuild\n");
        assert_has(json, "\"on\":\"futex\",\"ended_by\":\"thread\",\"ended_by_thread\":7,"
                         "\"ended_in\":\"rebuild\",\"value\":5000000}");
}

Test(report, says_who_ended_which_wait_as_json) {
        static const char csv[] = "span_id,operation\n000000000000000a,checkout\n000000000000000b,rebuild\n";
        _cleanup_(freep) char *by_span = waits_text(NULL, true), *by_operation = NULL;
        _cleanup_(span_list_freep) SpanList *list = NULL;
        SpanListProblem problem;

        assert_has(by_span,
                   "\"waits\":[{\"span_id\":\"000000000000000a\",\"state\":\"blocked\",\"on\":\"futex\","
                   "\"ended_by\":\"thread\",\"ended_by_span_id\":\"000000000000000b\",\"value\":5000000}");
        assert_has(by_span, "\"ended_by\":\"thread\",\"ended_by_thread\":8,\"value\":2000000}");
        assert_has(by_span, "{\"state\":\"blocked\",\"on\":\"read\",\"file\":\"pipe\",\"ended_by\":\"process\","
                            "\"value\":1000000}");
        assert_has(by_span, "\"state\":\"runnable\",\"on\":\"preempted\",\"ended_by\":\"\",\"value\":500000}");
        cr_assert_eq(span_list_new(&list, csv, sizeof(csv) - 1, &problem), 0);
        by_operation = waits_text(list, true);
        assert_has(by_operation,
                   "\"waits\":[{\"operation\":\"checkout\",\"state\":\"blocked\",\"on\":\"futex\","
                   "\"ended_by\":\"thread\",\"ended_by_operation\":\"rebuild\",\"value\":5000000}");
}

Test(report, says_who_ended_which_wait) {
        static const char csv[] = "span_id,operation\n000000000000000a,checkout\n000000000000000b,rebuild\n";
        _cleanup_(freep) char *by_span = waits_text(NULL, false), *by_operation = NULL;
        _cleanup_(span_list_freep) SpanList *list = NULL;
        SpanListProblem problem;

        assert_has(by_span, "\nWaits\n"
                            "    value         who                    state     on         ended by\n"
                            "  5.00 ms  43.5%  span 000000000000000a  blocked   futex      span 000000000000000b\n"
                            "  3.00 ms  26.1%  span 000000000000000a  blocked   futex      span 000000000000000d\n"
                            "  2.00 ms  17.4%  span 000000000000000a  blocked   futex      thread 8\n"
                            "  1.00 ms   8.7%  (no span)              blocked   read pipe  process\n"
                            "   500 µs   4.3%  span 000000000000000e  runnable  preempted\n");
        cr_assert_eq(span_list_new(&list, csv, sizeof(csv) - 1, &problem), 0);
        by_operation = waits_text(list, false);
        assert_has(by_operation, "  5.00 ms  43.5%  checkout               blocked   futex      rebuild\n");
        assert_has(by_operation,
                   "  3.00 ms  26.1%  checkout               blocked   futex      span 000000000000000d\n");
        assert_has(by_operation, "   500 µs   4.3%  span 000000000000000e  runnable  preempted\n");
}

Test(report, says_the_same_as_json) {
        _cleanup_(freep) char *text = text_of(&(ReportOptions){ 0 }, 1, 20, true);

        assert_has(text, "\"start_unix_nano\":1700000000001000000,");
        assert_has(
                text,
                "{\"type\":\"samples\",\"unit\":\"count\",\"period_type\":\"cpu\",\"period_unit\":\"nanoseconds\","
                "\"value\":20,\"events\":20,\"with_span\":16,\"truncated\":3,\"period_min\":10000000,"
                "\"period_max\":10000000,\"truncated_by\":[{\"reason\":\"depth\",\"value\":2},"
                "{\"reason\":\"fault\",\"value\":1}]");
        assert_has(
                text,
                "{\"function\":\"serve\",\"object\":\"shop\",\"path\":\"/opt/shop/bin/shop\",\"self\":2,\"total\":8}");
        assert_has(text, "\"value\":1500000,\"events\":2,");
}

Test(report, counts_what_its_tables_cannot_hold) {
        _cleanup_(freep) char *text = text_of(&(ReportOptions){ .max_rows = 40 }, 1, 20, false);
        _cleanup_(freep) char *small = text_of(&(ReportOptions){ .max_rows = 3 }, 1, 20, false);

        assert_lacks(text, "Left out");
        assert_has(small, "Left out");
}

Test(report, shortens_long_stacks_and_rows_of_frames_without_a_name) {
        _cleanup_(window_freep) Window *window = NULL;
        _cleanup_(report_freep) Report *report = NULL;
        _cleanup_(freep) char *text = NULL;
        uint32_t profile, stack;
        FrameWord words[40];
        size_t size;
        FILE *out = open_memstream(&text, &size);

        cr_assert_eq(window_new(&window, START, OFFSET, NULL), 0);
        profile = profile_of(window, resource_of(window, 1, "x", "y"), PROFILE_CPU);
        for (unsigned i = 0; i < 40; i++)       /* f0 to f39 */
                words[i] = frame(window, (char[]){ 'f', (char)('0' + i / 10), (char)('0' + i % 10), 0 }, "/x",
                                 "native");
        cr_assert_eq(window_stack(window, words, 40, &stack), 0);
        sample(window, profile, stack, 0, 0, 1, 2);
        for (unsigned i = 0; i < 3; i++)
                cr_assert_eq(window_native_frame(window, FRAME_MARK_UNKNOWN, 0, 0x1000 + i, &words[1 + i]),
                             0);
        cr_assert_eq(window_stack(window, words, 5, &stack), 0);
        sample(window, profile, stack, 0, 0, 1, 1);
        cr_assert_eq(window_close(window, START + 1000), 0);
        cr_assert_eq(report_new(&report, &(ReportOptions){ 0 }), 0);
        cr_assert_eq(report_add(report, window), 0);
        cr_assert_eq(report_print(report, &(ReportFormat){ .width = 200 }, out), 0);
        fclose(out);
        assert_has(text, " ← f10 ← f11 ← (16 more) ← f28 ← f29 ← ");
        assert_has(text, "f00 ← [unknown] ×3 ← f04\n");
        /* a share of none says nothing where no sample has a span */
        assert_has(text, "  incomplete    0.0%\n");
        assert_lacks(text, "with span");
}

static uint32_t coroutine(Window *window, int64_t station, const char *state) {
        uint32_t attributes[4], set;

        cr_assert_eq(window_attribute_int(window, "coroutine.station", station, &attributes[0]), 0);
        cr_assert_eq(window_attribute_string(window, "coroutine.probe_id", "0x00000000000000aa", 18,
                                             &attributes[1]),
                     0);
        cr_assert_eq(window_attribute_int(window, "coroutine.birth_ns", 7000 + station, &attributes[2]), 0);
        cr_assert_eq(window_attribute_string(window, "coroutine.state", state, strlen(state), &attributes[3]),
                     0);
        cr_assert_eq(window_attribute_set(window, attributes, 4, &set), 0);
        return set;
}

/*
 * Station 3 of shop runs 4 and is suspended for 1.5 ms; station 3 of batch runs 2; station 4 of shop runs 1;
 * 1 runs in none.
 */
static char *text_of_coroutines(bool json) {
        _cleanup_(window_freep) Window *window = NULL;
        _cleanup_(report_freep) Report *report = NULL;
        uint32_t shop, profile, stack;
        char *text = NULL;
        size_t size;
        FILE *out = open_memstream(&text, &size);

        cr_assert_eq(window_new(&window, START, OFFSET, NULL), 0);
        window_set_period(window, PROFILE_CPU, PERIOD);
        shop = resource_of(window, 4711, "shop", "store");
        profile = profile_of(window, shop, PROFILE_CPU);
        stack = STACK("hot", "main");
        sample(window, profile, stack, coroutine(window, 3, "running"), 0, 1, 4);
        sample(window, profile, stack, coroutine(window, 4, "running"), 0, 1, 1);
        sample(window, profile, stack, 0, 0, 1, 1);
        sample(window, profile_of(window, shop, PROFILE_SUSPENDED), stack, coroutine(window, 3, "suspended"),
               0, 750000, 2);
        profile = profile_of(window, resource_of(window, 4712, "batch", "nightly"), PROFILE_CPU);
        sample(window, profile, stack, coroutine(window, 3, "running"), 0, 1, 2);
        cr_assert_eq(window_close(window, START + 1000), 0);
        cr_assert_eq(report_new(&report, &(ReportOptions){ 0 }), 0);
        cr_assert_eq(report_add(report, window), 0);
        cr_assert_eq((json ? report_print_json : report_print)(report, &(ReportFormat){ .width = 120 }, out),
                     0);
        fclose(out);
        return text;
}

Test(report, tells_coroutines_of_two_processes_apart_and_joins_how_long_each_was_suspended) {
        _cleanup_(freep) char *text = text_of_coroutines(false), *json = text_of_coroutines(true);

        assert_has(text, "  coroutine    87.5%\n");
        assert_has(
                text,
                "\nCoroutines\n"
                "  value         suspended  station  probe id            birth  state    process\n"
                "      4  50.0%    1.50 ms        3  0x00000000000000aa   7003  running  shop (pid 4711)\n"
                "      2  25.0%       0 ns        3  0x00000000000000aa   7003  running  batch (pid 4712)\n"
                "      1  12.5%       0 ns        4  0x00000000000000aa   7004  running  shop (pid 4711)\n");
        assert_has(
                json,
                "\"coroutines\":[{\"station\":3,\"probe_id\":\"0x00000000000000aa\",\"birth_ns\":7003,\"pid\":4711,"
                "\"state\":\"running\",\"suspended_ns\":1500000,\"value\":4}");
        assert_has(json, "\"in_coroutines\":7");
        assert_has(json, "\"state\":\"suspended\",\"suspended_ns\":1500000,\"value\":1500000}");
}

/* Tasks of asyncio: 3 samples of checkout, 1 of search, of which a name may bear anything; 1 of a station. */
Test(report, has_a_table_of_tasks_by_name_beside_that_of_coroutines) {
        static const char *const names[] = { "checkout", "checkout", "checkout", "se\033[2Jarch" };
        _cleanup_(window_freep) Window *window = NULL;
        _cleanup_(report_freep) Report *report = NULL;
        _cleanup_(freep) char *text = NULL, *json = NULL;
        uint32_t profile, stack, row, set;
        size_t size;
        FILE *out = open_memstream(&text, &size), *json_out = open_memstream(&json, &size);

        cr_assert_eq(window_new(&window, START, OFFSET, NULL), 0);
        window_set_period(window, PROFILE_CPU, PERIOD);
        profile = profile_of(window, resource_of(window, 4711, "shop", "store"), PROFILE_CPU);
        stack = STACK("hot", "main");
        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                cr_assert_eq(window_attribute_string(window, "coroutine.name", names[i], strlen(names[i]), &row), 0);
                cr_assert_eq(window_attribute_set(window, &row, 1, &set), 0);
                sample(window, profile, stack, set, 0, 1, 1);
        }
        sample(window, profile, stack, coroutine(window, 3, "running"), 0, 1, 1);
        cr_assert_eq(window_close(window, START + 1000), 0);
        cr_assert_eq(report_new(&report, &(ReportOptions){ 0 }), 0);
        cr_assert_eq(report_add(report, window), 0);
        cr_assert_eq(report_print(report, &(ReportFormat){ .width = 80 }, out), 0);
        cr_assert_eq(report_print_json(report, &(ReportFormat){ .width = 80 }, json_out), 0);
        fclose(out);
        fclose(json_out);
        assert_has(text, "\nTasks\n"
                         "  value         task        process\n"
                         "      3  60.0%  checkout    shop (pid 4711)\n"
                         "      1  20.0%  se?[2Jarch  shop (pid 4711)\n");
        assert_has(text, "\nCoroutines\n");
        assert_has(json, "{\"name\":\"checkout\",\"pid\":4711,\"state\":\"\",\"suspended_ns\":0,\"value\":3}");
}

/* The names of native frames come from the file with that build id, and only from it. */
Test(report, names_native_frames_by_their_object) {
        static const uint8_t id[20] = { 0xab, 0xcd };
        HandSymbol symbols[] = { HAND_FUNCTION("from_the_file", 0x1000, 0x100) };
        HandElf elf = hand_elf(symbols, 1, id);
        char path[] = "/tmp/spanprof-report-XXXXXX";
        int fd = mkstemp(path);
        _cleanup_(symbolizer_freep) Symbolizer *symbolizer = NULL;
        _cleanup_(report_freep) Report *report = NULL;
        _cleanup_(window_freep) Window *window = NULL;
        _cleanup_(freep) char *text = NULL;
        size_t size;
        FILE *out = open_memstream(&text, &size);

        cr_assert_eq(write(fd, elf.data, elf.size), (ssize_t)elf.size);
        close(fd);
        free(elf.data);
        cr_assert_eq(window_new(&window, START, OFFSET, NULL), 0);
        for (int i = 0; i < 3; i++) {
                WindowModule module = { .path = string(window, path),
                                        .start = 0x1000,
                                        .limit = 0x2000,
                                        .build_id_gnu = string(
                                                window,
                                                i == 1 ? "abce000000000000000000000000000000000000"
                                                       : "abcd000000000000000000000000000000000000") };
                uint32_t index, stack;
                FrameWord word;

                cr_assert_eq(window_module(window, &module, &index), 0);
                cr_assert_eq(window_native_frame(window, FRAME_MARK_NATIVE, index, i == 2 ? 0x1200 : 0x1008,
                                                 &word),
                             0);
                cr_assert_eq(window_stack(window, &word, 1, &stack), 0);
                sample(window, profile_of(window, resource_of(window, 1, "x", "y"), PROFILE_CPU), stack, 0, 0,
                       1, i + 1);
        }
        cr_assert_eq(window_close(window, START + 1000), 0);
        cr_assert_eq(symbolizer_new(&symbolizer, NULL), 0);
        cr_assert_eq(report_new(&report, &(ReportOptions){ .symbolizer = symbolizer }), 0);
        cr_assert_eq(report_add(report, window), 0);
        cr_assert_eq(report_print(report, &(ReportFormat){ .width = 120 }, out), 0);
        fclose(out);
        cr_assert_eq(unlink(path), 0);
        assert_has(text, "     1  16.7%      1  16.7%  from_the_file  spanprof-report-");
        assert_has(text, "  abcd00000000…  symbols\n");
        assert_has(text, "  abce00000000…  another build on this machine\n");
        assert_has(text, "     3  50.0%      3  50.0%  [unknown]      spanprof-report-");
        assert_has(text, "     2  33.3%      2  33.3%  [unknown]      spanprof-report-");
}
