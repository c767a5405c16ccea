/* SPDX-License-Identifier: Apache-2.0 */

/* Areas of made code: since when their rows hold, and what makes them void. Times are by hand. */

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/macro.h"
#include "host/sampling/process/made-areas.h"
#include "host/sampling/process/process.h"

enum { PAGE = 4096 };

static MadeAreas *areas;
static uint64_t read_at_ns = 5;         /* begin of the next look */

static void begin(void) {
        areas = calloc(1, sizeof(*areas));
        cr_assert_not_null(areas);
}

static void end(void) {
        areas = made_areas_free(areas);
}

TestSuite(made_areas, .init = begin, .fini = end);

/* Runs [start, start + PAGE) and [start + 4 PAGE, start + 5 PAGE). */
static MadePiece piece_at(uint64_t start, uint64_t hash) {
        MadePiece piece = { .start = start, .end = start + 5 * PAGE, .n_runs = 2, .hash = hash,
                            .runs = calloc(2, sizeof(MadeRun)) };

        cr_assert_not_null(piece.runs);
        piece.runs[0] = (MadeRun){ start, start + PAGE };
        piece.runs[1] = (MadeRun){ start + 4 * PAGE, start + 5 * PAGE };
        return piece;
}

static uint64_t hold(uint64_t start, uint64_t read_ns) {
        MadePiece piece = piece_at(start, 1);
        uint64_t since_ns = 0;
        bool holds = made_areas_hold(areas, &piece, read_ns, &since_ns);

        free(piece.runs);
        return holds ? since_ns : 0;
}

/* Return: whether anything is other than before. */
static bool take_one(uint64_t start, uint64_t hash, uint64_t since_ns, bool is_void) {
        MadePiece piece = piece_at(start, hash);

        piece.since_ns = since_ns;
        piece.is_void = is_void;
        return made_areas_take(areas, &piece, 1, read_at_ns);
}

Test(made_areas, hold_from_the_last_notice_before_the_read_on) {
        cr_assert_eq(hold(0x10000, 50), 50);            /* no notice is known */
        made_areas_change(areas, 0x10000, 0x11000, 20);
        made_areas_change(areas, 0x14000, 0x15000, 30);
        made_areas_change(areas, 0x11000, 0x14000, 40); /* between both runs */
        cr_assert_eq(hold(0x10000, 50), 30);
        cr_assert_eq(hold(0x20000, 50), 50);
        cr_assert_eq(hold(0x10000, 30), 0);
        cr_assert_eq(hold(0x10000, 25), 0);
}

Test(made_areas, are_void_once_code_of_theirs_changes) {
        cr_assert(take_one(0x10000, 1, 10, false));
        cr_assert(!made_areas_change(areas, 0x11000, 0x14000, 20));
        cr_assert(!made_areas_change(areas, 0x15000, 0x16000, 20));
        cr_assert_not_null(made_areas_next(areas, 0x10000, 20));
        cr_assert(made_areas_change(areas, 0x14fff, 0x15000, 30));
        cr_assert_null(made_areas_next(areas, 0x10000, 20));
        cr_assert(!made_areas_change(areas, 0x10000, 0x11000, 40));     /* it is already */
}

/* The same content has the table that it had. */
Test(made_areas, keep_their_ids_while_they_are_as_they_were) {
        uint64_t id;

        cr_assert(take_one(0x10000, 1, 10, false));
        id = areas->pieces[0].id;
        cr_assert_geq(id, MADE_FIRST_ID);
        cr_assert(!take_one(0x10000, 1, 20, false));
        cr_assert_eq(areas->pieces[0].id, id);
        cr_assert_eq(areas->pieces[0].since_ns, 10);    /* they have held since then */
        made_areas_change(areas, 0x10000, 0x11000, 30);
        cr_assert(take_one(0x10000, 1, 30, false));
        cr_assert_eq(areas->pieces[0].id, id);
        cr_assert_eq(areas->pieces[0].since_ns, 30);
        cr_assert(take_one(0x10000, 2, 40, false));
        cr_assert_neq(areas->pieces[0].id, id);
        cr_assert(take_one(0x10000, 2, 40, true));
        cr_assert(made_areas_take(areas, NULL, 0, 50));
        cr_assert(!made_areas_take(areas, NULL, 0, 50));
}

/* What was registered since then, and before it became executable, is not what the notice was of. */
Test(made_areas, hold_from_their_own_look_on_without_a_notice_since_the_last_one) {
        read_at_ns = 50;
        cr_assert(take_one(0x10000, 1, 20, false));
        cr_assert_eq(areas->pieces[0].since_ns, 20);    /* nothing was read before */
        read_at_ns = 80;
        cr_assert(take_one(0x10000, 2, 20, false));
        cr_assert_eq(areas->pieces[0].since_ns, 80);
        read_at_ns = 90;
        cr_assert(!take_one(0x10000, 2, 20, false));
        cr_assert_eq(areas->pieces[0].since_ns, 80);
        read_at_ns = 120;
        cr_assert(take_one(0x10000, 3, 91, false));
        cr_assert_eq(areas->pieces[0].since_ns, 91);
        made_areas_take(areas, NULL, 0, 130);
        read_at_ns = 140;
        cr_assert(take_one(0x10000, 3, 91, false));
        cr_assert_eq(areas->pieces[0].since_ns, 140);
}

Test(made_areas, are_found_by_address_and_time) {
        MadePiece two[] = { piece_at(0x10000, 1), piece_at(0x20000, 2) };

        two[0].since_ns = 10;
        two[1].since_ns = 20;
        cr_assert(made_areas_take(areas, two, 2, 50));
        cr_assert_null(two[0].runs);
        cr_assert_eq(made_areas_next(areas, 0, 15)->start, 0x10000);
        cr_assert_eq(made_areas_next(areas, 0x14fff, 15)->start, 0x10000);
        cr_assert_null(made_areas_next(areas, 0x15000, 15));
        cr_assert_eq(made_areas_next(areas, 0x15000, 20)->start, 0x20000);
        cr_assert_null(made_areas_next(areas, 0x25000, 20));
        cr_assert_null(made_areas_next(areas, 0, 9));
        cr_assert_null(made_areas_next(NULL, 0, 9));
}

Test(made_areas, are_not_sure_where_changes_are_forgotten) {
        for (uint64_t i = 0; i < MADE_MAX_CHANGES + 1; i++)
                made_areas_change(areas, 0x90000, 0x91000, 100 + i);
        cr_assert_eq(areas->forgotten_ns, 100);
        cr_assert_eq(hold(0x10000, 100), 0);
        cr_assert_eq(hold(0x10000, 101), 101);
        cr_assert(take_one(0x10000, 1, 101, false));
        cr_assert(made_areas_change_all(areas, 500));
        cr_assert(!made_areas_change_all(areas, 500));
        cr_assert_eq(hold(0x10000, 500), 0);
        cr_assert_eq(hold(0x10000, 501), 501);
}

/* ---- in a process ---- */

static Process *process;

static void change_memory(uint64_t start, uint64_t size, uint64_t time_ns, bool may_change) {
        Mapping mapping = { .start = start, .end = start + size, .kind = MAPPING_ANONYMOUS,
                            .may_change = may_change, .path = strdup("//anon") };

        cr_assert_eq(process_change(process, &mapping, time_ns), 0);
}

static bool take_read(uint64_t start, uint64_t read_ns) {
        MadePiece piece = piece_at(start, 1);
        bool is_other;

        cr_assert_eq(process_take_made(process, &piece, 1, read_ns, &is_other), 0);
        return is_other;
}

static bool is_stale(uint64_t address, uint64_t time_ns) {
        ProcessAnswer answer;

        process_resolve(process, address, time_ns, &answer);
        return answer.is_stale;
}

static void begin_process(void) {
        char comm[ABI_COMM_SIZE] = "maker";

        cr_assert_eq(process_new_gone(&process, 4711, 1, comm), 0);
        change_memory(0x10000, 8 * PAGE, 100, false);
}

static void end_process(void) {
        process = process_free(process);
}

TestSuite(made_process, .init = begin_process, .fini = end_process);

Test(made_process, has_areas_in_memory_that_is_made_anew_alone) {
        uint64_t serial = process->maps_serial;

        cr_assert(take_read(0x10000, 200));
        cr_assert_neq(process->maps_serial, serial);
        cr_assert_eq(made_areas_next(process->made, 0, 100)->since_ns, 100);
        cr_assert(!take_read(0x10000, 300));
        cr_assert(take_read(0x14000, 300));             /* its second run is beyond */
        cr_assert_null(made_areas_next(process->made, 0, 400));
        change_memory(0x10000, 8 * PAGE, 400, true);
        take_read(0x10000, 500);
        cr_assert_null(made_areas_next(process->made, 0, 600));
}

/* As the notice says that came last: of a part, too. */
Test(made_process, has_areas_in_memory_that_is_no_longer_writable) {
        change_memory(0x14000, PAGE, 200, true);
        take_read(0x10000, 300);
        cr_assert_null(made_areas_next(process->made, 0, 400));
        change_memory(0x14000, PAGE, 400, false);
        take_read(0x10000, 500);
        cr_assert_eq(made_areas_next(process->made, 0, 500)->since_ns, 400);
        /* a notice from before the last read of all mappings says nothing of now */
        process->maps_read_ns = 600;
        change_memory(0x10000, PAGE, 550, true);
        take_read(0x10000, 700);
        cr_assert_not_null(made_areas_next(process->made, 0, 700));
        change_memory(0x10000, PAGE, 650, true);
        take_read(0x10000, 700);
        cr_assert_null(made_areas_next(process->made, 0, 700));
}

/* From its notice on until the kernel half is told. */
Test(made_process, is_stale_where_code_has_changed_under_its_rows) {
        cr_assert(take_read(0x10000, 200));
        mapping_history_publish(&process->history, 250);
        cr_assert(!is_stale(0x10000, 300));
        change_memory(0x10000, PAGE, 310, false);
        cr_assert_null(made_areas_next(process->made, 0, 300));
        cr_assert(!is_stale(0x10000, 305));
        cr_assert(is_stale(0x10000, 310));
        cr_assert(is_stale(0x14000, 310));
        mapping_history_publish(&process->history, 320);
        cr_assert(is_stale(0x10000, 315));
        cr_assert(!is_stale(0x10000, 320));
        /* a look that had begun before does not count */
        cr_assert(!take_read(0x10000, 305));
        cr_assert_null(made_areas_next(process->made, 0, 400));
        cr_assert(take_read(0x10000, 330));
        cr_assert_eq(made_areas_next(process->made, 0, 400)->since_ns, 310);
}

Test(made_process, is_stale_as_a_whole_where_notices_were_lost) {
        process_void_made(process, 150);
        cr_assert(!is_stale(0x10000, 160));             /* it had no rows */
        cr_assert(take_read(0x10000, 200));
        mapping_history_publish(&process->history, 210);
        process_void_made(process, 300);
        cr_assert_null(made_areas_next(process->made, 0, 300));
        cr_assert(is_stale(0x10000, 220));
        mapping_history_publish(&process->history, 310);
        cr_assert(is_stale(0x10000, 220));
        cr_assert(!is_stale(0x10000, 310));
}

/* Also before the first of its memory without a file is known. */
Test(made_process, has_no_areas_of_a_look_that_spans_lost_notices) {
        char comm[ABI_COMM_SIZE] = "maker";
        Process *parent = process;

        cr_assert_eq(process_new_gone(&process, 4713, 3, comm), 0);
        cr_assert_eq(process_inherit(process, parent, 150), 0);
        cr_assert_null(process->made);
        process_void_made(process, 300);
        process_void_made(process, 250);
        take_read(0x10000, 300);
        cr_assert_null(made_areas_next(process->made, 0, 400));
        cr_assert(take_read(0x10000, 301));
        cr_assert_eq(made_areas_next(process->made, 0, 400)->since_ns, 301);
        process_free(parent);
}

/* A child's code is walked by its parent's rows until it is known. */
Test(made_process, has_a_child_whose_code_may_be_other_code) {
        char comm[ABI_COMM_SIZE] = "maker";
        Process *parent = process, *child;
        ProcessAnswer answer;

        cr_assert(take_read(0x10000, 200));
        cr_assert_eq(process_new_gone(&child, 4712, 2, comm), 0);
        cr_assert_eq(process_inherit(child, parent, 300), 0);
        cr_assert_null(child->made);
        process_resolve(child, 0x10000, 310, &answer);
        cr_assert(answer.is_stale);
        /* a notice of the child's own does not say what it had before */
        process = child;
        change_memory(0x10000, 8 * PAGE, 350, false);
        cr_assert(is_stale(0x10000, 310));
        cr_assert(is_stale(0x10000, 360));
        process = parent;
        process_free(child);
}
