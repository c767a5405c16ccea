/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "core/base/util/stat.h"
#include "host/sampling/process/process.h"
#include "stat-reset.h"

/* A file that nobody can open, told from others by its path: enough for everything but ELF. */
static Mapping file(uint64_t start, uint64_t end, const char *path) {
        return (Mapping){ .start = start, .end = end, .kind = MAPPING_UNREADABLE, .path = strdup(path) };
}

static void map(Process *process, uint64_t start, uint64_t end, const char *path, uint64_t time_ns) {
        Mapping mapping = file(start, end, path);

        cr_assert_eq(process_change(process, &mapping, time_ns), 0);
        cr_assert_null(mapping.path);
}

static const char *at(const Process *process, uint64_t address, uint64_t time_ns) {
        ProcessAnswer answer;

        process_resolve(process, address, time_ns, &answer);
        return answer.mapping ? answer.mapping->path : "none";
}

static bool is_stale(const Process *process, uint64_t address, uint64_t time_ns) {
        ProcessAnswer answer;

        process_resolve(process, address, time_ns, &answer);
        cr_assert_eq(answer.is_current, process_is_current(process, time_ns));
        return answer.is_stale;
}

static Process *new_process(void) {
        char comm[ABI_COMM_SIZE] = "test";
        Process *process;

        stat_reset();
        cr_assert_eq(process_new_gone(&process, 4711, 10, comm), 0);
        return process;
}

Test(history, resolves_by_the_mappings_of_the_samples_time) {
        _cleanup_(process_freep) Process *process = new_process();

        map(process, 0x1000, 0x3000, "a", 100);
        mapping_history_publish(&process->history, 150);
        map(process, 0x1000, 0x3000, "b", 200);
        map(process, 0x1000, 0x3000, "a", 300);
        cr_assert_str_eq(at(process, 0x1fff, 199), "a");
        cr_assert_str_eq(at(process, 0x1fff, 200), "b");
        cr_assert_str_eq(at(process, 0x1fff, 299), "b");
        cr_assert_str_eq(at(process, 0x1fff, 300), "a");
        cr_assert_str_eq(at(process, 0x3000, 250), "none");
}

Test(history, is_stale_from_a_change_until_the_kernel_knows) {
        _cleanup_(process_freep) Process *process = new_process();

        map(process, 0x1000, 0x3000, "a", 100);
        cr_assert_not(is_stale(process, 0x1000, 120), "what is new was nothing else before");
        mapping_history_publish(&process->history, 150);
        cr_assert(process_is_current(process, 150));
        map(process, 0x2000, 0x3000, "b", 200);
        cr_assert_not(process_is_current(process, 250));
        cr_assert_not(is_stale(process, 0x2000, 199));
        cr_assert(is_stale(process, 0x2000, 200));
        cr_assert_not(is_stale(process, 0x1fff, 200), "only what changed");
        mapping_history_publish(&process->history, 260);
        cr_assert(is_stale(process, 0x2000, 259));
        cr_assert_not(is_stale(process, 0x2000, 260));
        cr_assert(process_is_current(process, 260));
}

Test(history, keeps_the_pieces_beside_a_new_mapping) {
        _cleanup_(process_freep) Process *process = new_process();

        map(process, 0x1000, 0x9000, "a", 100);
        map(process, 0x3000, 0x4000, "b", 200);
        cr_assert_eq(process->n_mappings, 3);
        cr_assert_eq(process->mappings[2].start, 0x4000);
        cr_assert_eq(process->mappings[2].offset, 0x3000);
        map(process, 0x2000, 0x5000, "c", 300);
        cr_assert_eq(process->n_mappings, 3);
        for (uint64_t address = 0x1000; address < 0x9000; address += 0x1000)
                cr_assert_str_eq(at(process, address, 400),
                                 address >= 0x2000 && address < 0x5000 ? "c" : "a");
        cr_assert_str_eq(at(process, 0x3800, 250), "b");
        cr_assert_str_eq(at(process, 0x3800, 150), "a");
        cr_assert_str_eq(at(process, 0x4800, 250), "a");
}

Test(history, does_not_change_by_what_is_there_already) {
        _cleanup_(process_freep) Process *process = new_process();
        uint64_t serial;

        map(process, 0x1000, 0x3000, "a", 100);
        serial = process->maps_serial;
        map(process, 0x1000, 0x3000, "a", 200);
        map(process, 0x1000, 0x2000, "a", 300);
        cr_assert_eq(process->maps_serial, serial);
        map(process, 0x1000, 0x4000, "a", 400);         /* has grown */
        cr_assert_neq(process->maps_serial, serial);
        cr_assert_eq(process->n_mappings, 1);
        cr_assert_eq(process->history.n, 0);
}

Test(history, learns_later_when_it_was_that_a_read_found_a_change) {
        _cleanup_(process_freep) Process *process = new_process();
        Mapping old = file(0x1000, 0x2000, "a");

        /*
         * As a read at 500 leaves it, the one before being of 100: b was there, a is gone since an unknown
         * time.
         */
        map(process, 0x1000, 0x2000, "b", 100);
        process->maps_read_ns = 500;
        cr_assert_eq(mapping_history_add(&process->history, &old, 500, 100), 0);
        cr_assert(is_stale(process, 0x1000, 150));
        map(process, 0x1000, 0x2000, "c", 200);         /* the notices come in: a, c, b */
        map(process, 0x1000, 0x2000, "b", 300);
        cr_assert_str_eq(at(process, 0x1000, 150), "a");
        cr_assert_str_eq(at(process, 0x1000, 250), "c");
        cr_assert_str_eq(at(process, 0x1000, 350), "b");
        cr_assert_not(is_stale(process, 0x1000, 150));
        cr_assert(is_stale(process, 0x1000, 250));
}

Test(history, tells_apart_what_came_and_went_before_a_read) {
        _cleanup_(process_freep) Process *process = new_process();

        /*
         * b was there at the read before and is there at this one, of 500; the notices between both come in
         * after it.
         */
        map(process, 0x1000, 0x2000, "b", 100);
        mapping_history_publish(&process->history, 150);
        process->maps_read_ns = 500;
        for (uint64_t time_ns = 200; time_ns < 500; time_ns += 100)
                map(process, 0x1000, 0x2000, time_ns == 300 ? "b" : "a", time_ns);
        map(process, 0x1000, 0x2000, "b", 490);
        cr_assert_str_eq(at(process, 0x1000, 199), "b");
        cr_assert_str_eq(at(process, 0x1000, 250), "a");
        cr_assert_str_eq(at(process, 0x1000, 350), "b");
        cr_assert_str_eq(at(process, 0x1000, 450), "a");
        cr_assert_str_eq(at(process, 0x1000, 495), "b");
        cr_assert_not(is_stale(process, 0x1000, 199));
        for (uint64_t time_ns = 200; time_ns < 500; time_ns += 50)
                cr_assert(is_stale(process, 0x1000, time_ns), "%lu", (unsigned long)time_ns);
}

Test(history, learns_when_it_was_that_something_changed_under_a_read) {
        _cleanup_(process_freep) Process *process = new_process();
        Mapping old = file(0x1000, 0x2000, "a");

        /* A read that began at 500 found b, and the notice says that it came at 510. */
        map(process, 0x1000, 0x2000, "b", 100);
        process->maps_read_ns = 500;
        cr_assert_eq(mapping_history_add(&process->history, &old, 500, 100), 0);
        map(process, 0x1000, 0x2000, "b", 510);
        cr_assert_str_eq(at(process, 0x1000, 505), "a");
        cr_assert_str_eq(at(process, 0x1000, 510), "b");
        cr_assert_not(is_stale(process, 0x1000, 505));
        cr_assert(is_stale(process, 0x1000, 510));
}

Test(history, is_bounded_and_takes_nothing_for_sure_that_it_forgot) {
        _cleanup_(process_freep) Process *process = new_process();

        map(process, 0x1000, 0x2000, "a", 1);
        for (uint64_t i = 0; i < MAPPING_HISTORY_MAX + 10; i++)
                map(process, 0x1000, 0x2000, i % 2 ? "a" : "b", 1000 + i);
        cr_assert_eq(process->history.n, MAPPING_HISTORY_MAX);
        cr_assert_eq(stat_get(COUNTER_MAPPINGS_PAST_DROPPED), 10);
        cr_assert(is_stale(process, 0x999000, 5000), "not even elsewhere");
        mapping_history_publish(&process->history, 6000);
        cr_assert_not(is_stale(process, 0x999000, 6000));
        cr_assert_not(is_stale(process, 0x1000, 6000));
        mapping_history_publish(&process->history, 6000 + MAPPING_HISTORY_KEEP_NS + 1);
        cr_assert_eq(process->history.n, 0);
}

/* What is older than the history asks for code that has gone since: no other is said to be it. */
Test(history, knows_where_code_has_ended_that_it_does_not_have_any_more) {
        const uint64_t later = 1000 + 2 * MAPPING_HISTORY_KEEP_NS;
        _cleanup_(process_freep) Process *process = new_process();

        map(process, 0x1000, 0x3000, "a", 100);
        map(process, 0x8000, 0x9000, "c", 100);
        mapping_history_publish(&process->history, 150);
        map(process, 0x1000, 0x3000, "b", 1000);
        mapping_history_publish(&process->history, 1100);
        mapping_history_publish(&process->history, later);
        cr_assert_eq(process->history.n, 0);
        cr_assert(is_stale(process, 0x2fff, 200) && is_stale(process, 0x1000, 999));
        cr_assert_not(is_stale(process, 0x8000, 200), "this is what it was");
        cr_assert_not(is_stale(process, 0x1000, 1000));
        cr_assert(process_is_current(process, later));
}

Test(history, forgets_the_first_end_where_there_are_too_many) {
        _cleanup_(process_freep) Process *process = new_process();

        for (uint64_t i = 0; i < MAPPING_HISTORY_ENDS + 2; i++) {
                map(process, 0x10000 * (i + 1), 0x10000 * (i + 1) + 0x1000, "a", 10);
                map(process, 0x10000 * (i + 1), 0x10000 * (i + 1) + 0x1000, "b", 1000 + i);
        }
        mapping_history_publish(&process->history, 2000);
        mapping_history_publish(&process->history, 2001 + MAPPING_HISTORY_KEEP_NS);
        cr_assert_eq(process->history.n_ends, MAPPING_HISTORY_ENDS);
        cr_assert(is_stale(process, 0x999000, 1000), "not even elsewhere");
        cr_assert_not(is_stale(process, 0x999000, 1001));
}

/* What @process has had is older than the history. Return: a time after all of that. */
static uint64_t age(Process *process, uint64_t time_ns) {
        mapping_history_publish(&process->history, time_ns);
        mapping_history_publish(&process->history, time_ns + MAPPING_HISTORY_KEEP_NS + 1);
        cr_assert_eq(process->history.n, 0);
        return time_ns + MAPPING_HISTORY_KEEP_NS + 2;
}

Test(history, forgets_the_end_that_was_first_in_time) {
        _cleanup_(process_freep) Process *process = new_process();
        uint64_t again_ns;

        for (uint64_t i = 0; i < MAPPING_HISTORY_ENDS; i++) {
                map(process, 0x10000 * (i + 1), 0x10000 * (i + 1) + 0x1000, "a", 10);
                map(process, 0x10000 * (i + 1), 0x10000 * (i + 1) + 0x1000, "b", 1000 + i);
        }
        again_ns = age(process, 2000);
        map(process, 0x10000, 0x11000, "c", again_ns);          /* the first of the list has ended again */
        map(process, 0x20000, 0x20800, "c", again_ns + 10);     /* one more */
        age(process, again_ns + 20);
        cr_assert_eq(process->history.n_ends, MAPPING_HISTORY_ENDS);
        cr_assert(is_stale(process, 0x999000, 1000), "the second has been forgotten");
        cr_assert_not(is_stale(process, 0x999000, 1001));
        cr_assert(is_stale(process, 0x10000, again_ns - 1));
        cr_assert(is_stale(process, 0x20000, again_ns + 9));
        cr_assert(is_stale(process, 0x30000, 1001));
}

Test(history, knows_a_part_that_has_ended_from_the_whole_that_ended_before) {
        _cleanup_(process_freep) Process *process = new_process();
        uint64_t part_ns;

        map(process, 0x1000, 0x9000, "a", 100);
        map(process, 0x1000, 0x9000, "b", 1000);
        part_ns = age(process, 2000);
        map(process, 0x3000, 0x4000, "c", part_ns);
        map(process, 0x3000, 0x4000, "d", part_ns + 10);
        age(process, part_ns + 20);
        cr_assert(is_stale(process, 0x8000, 999));
        cr_assert_not(is_stale(process, 0x8000, 1500), "b is there still");
        cr_assert(is_stale(process, 0x3000, 1500));
}

Test(history, leaves_out_mappings_over_the_cap) {
        _cleanup_(process_freep) Process *process = new_process();

        for (uint64_t i = 1; i <= PROCESS_MAX_MAPPINGS + 5; i++)
                map(process, i * 0x2000, i * 0x2000 + 0x1000, "a", i);
        cr_assert_leq(process->n_mappings, PROCESS_MAX_MAPPINGS);
        cr_assert_eq(stat_get(COUNTER_MAPPINGS_OVER_CAP), PROCESS_MAX_MAPPINGS + 5 - process->n_mappings);
}
