/* SPDX-License-Identifier: Apache-2.0 */

/* The mappings of this very process, and notices as the kernel would write them. */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/util/clock.h"
#include "core/base/util/stat.h"
#include "host/sampling/discover/mapping-tracker.h"
#include "stat-reset.h"

typedef struct Bench {
        ObjectCache *objects;
        Process *process;
        MappingTracker tracker;
        TrackedMappings mappings;
        unsigned n_changed;             /* calls back */
} Bench;

static int on_changed(void *userdata, TrackedMappings *mappings) {
        Bench *bench = userdata;

        cr_assert_eq(mappings, &bench->mappings);
        bench->n_changed++;
        return 0;
}

static TrackedMappings *no_program(void *userdata, uint32_t pid, uint64_t time_ns) {
        return NULL;
}

static void begin(Bench *bench) {
        MappingTrackerConfig config = { .program_at = no_program, .changed = on_changed, .userdata = bench };

        stat_reset();
        *bench = (Bench){ 0 };
        cr_assert_eq(object_cache_new(&bench->objects, 64), 0);
        cr_assert_eq(process_new(&bench->process, getpid()), 0);
        config.objects = bench->objects;
        mapping_tracker_init(&bench->tracker, &config);
        mapping_tracker_begin(&bench->mappings, bench->process);
}

static void end(Bench *bench) {
        mapping_tracker_end(&bench->tracker, &bench->mappings, 1);
        mapping_tracker_deinit(&bench->tracker);
        process_free(bench->process);
        object_cache_free(bench->objects);
}

static MappingNotice notice_at(uint64_t start, uint64_t time_ns) {
        return (MappingNotice){ .time_ns = time_ns, .pid = (uint32_t)getpid(), .start = start, .size = 4096,
                                .path = "//anon", .path_size = 6 };
}

static void tell(Bench *bench, uint64_t start, uint64_t time_ns) {
        const MappingNotice notice = notice_at(start, time_ns);

        cr_assert_eq(mapping_tracker_notice(&bench->tracker, &bench->mappings, &notice), 0);
}

Test(mapping_tracker, reads_when_a_sample_needs_it_and_not_again) {
        uint64_t serial;
        Bench bench;

        begin(&bench);
        cr_assert_eq(mapping_tracker_ensure(&bench.tracker, &bench.mappings, 1, true), 0);
        cr_assert_gt(bench.process->n_mappings, 0);
        cr_assert_eq(bench.n_changed, 1);
        serial = bench.process->maps_serial;
        cr_assert_eq(mapping_tracker_ensure(&bench.tracker, &bench.mappings, 1, true), 0);
        cr_assert_eq(stat_get(COUNTER_MAPS_READS), 1);
        cr_assert_eq(bench.process->maps_serial, serial);

        mapping_tracker_outdate(&bench.mappings);
        cr_assert_eq(mapping_tracker_ensure(&bench.tracker, &bench.mappings, 1, true), 0);
        cr_assert_eq(stat_get(COUNTER_MAPS_READS), 2, "notices were lost");
        end(&bench);
}

Test(mapping_tracker, tells_once_of_many_changes) {
        Bench bench;

        begin(&bench);
        tell(&bench, 0x10000, clock_monotonic_ns());
        cr_assert_eq(mapping_tracker_flush(&bench.tracker), 0);
        cr_assert_eq(bench.n_changed, 0, "nothing has been read yet that could change");
        cr_assert_eq(mapping_tracker_read(&bench.tracker, &bench.mappings), 0);
        tell(&bench, 0x10000, clock_monotonic_ns());
        tell(&bench, 0x20000, clock_monotonic_ns());
        cr_assert_not_null(process_find_mapping(bench.process, 0x20000));
        cr_assert_eq(mapping_tracker_flush(&bench.tracker), 0);
        cr_assert_eq(bench.n_changed, 2, "the read, and both changes");
        cr_assert_eq(mapping_tracker_flush(&bench.tracker), 0);
        cr_assert_eq(bench.n_changed, 2);
        end(&bench);
}

/* An exec that has begun: its mappings are not this program's, until its notice is overdue by a second. */
Test(mapping_tracker, leaves_the_mappings_of_the_next_program_alone) {
        uint64_t now_ns;
        Bench bench;

        begin(&bench);
        cr_assert_eq(mapping_tracker_read(&bench.tracker, &bench.mappings), 0);
        now_ns = clock_monotonic_ns();
        mapping_tracker_exec_begins(&bench.mappings, now_ns);
        tell(&bench, 0x10000, now_ns);
        cr_assert_null(process_find_mapping(bench.process, 0x10000));
        cr_assert_not(bench.mappings.is_outdated);
        tell(&bench, 0x10000, now_ns + 2 * NS_PER_SEC);
        cr_assert(bench.mappings.is_outdated, "the notice of the exec was lost");
        tell(&bench, 0x10000, now_ns + 3 * NS_PER_SEC);
        cr_assert_not_null(process_find_mapping(bench.process, 0x10000));
        end(&bench);
}

Test(mapping_tracker, wants_a_new_read_when_far_more_was_mapped_than_read) {
        uint64_t start = 0x10000;
        Bench bench;
        size_t n;

        begin(&bench);
        cr_assert_eq(mapping_tracker_read(&bench.tracker, &bench.mappings), 0);
        n = bench.process->n_mappings;
        for (size_t i = 0; i < n + 64; i++, start += 0x2000) {
                tell(&bench, start, clock_monotonic_ns());
                cr_assert_not(bench.mappings.is_outdated);
        }
        tell(&bench, start, clock_monotonic_ns());
        cr_assert(bench.mappings.is_outdated, "no notice tells of munmap()");
        end(&bench);
}

Test(mapping_tracker, reads_ever_less_often_while_nothing_new_is_found) {
        uint64_t interval_ns;
        Bench bench;

        begin(&bench);
        cr_assert_eq(mapping_tracker_refresh(&bench.tracker, &bench.mappings), 0);
        interval_ns = bench.mappings.refresh_interval_ns;
        cr_assert_eq(mapping_tracker_refresh(&bench.tracker, &bench.mappings), MAPPING_TRACKER_E_NOT_NOW);
        for (unsigned i = 0; i < 10; i++) {
                bench.mappings.refresh_ns = 0;
                cr_assert_eq(mapping_tracker_refresh(&bench.tracker, &bench.mappings), 0);
                cr_assert_geq(bench.mappings.refresh_interval_ns, interval_ns);
        }
        cr_assert_eq(bench.mappings.refresh_interval_ns, 10 * NS_PER_SEC);
        end(&bench);
}

/* What lay there until the exec is not sure for stacks that were walked by the old program's rows. */
Test(mapping_tracker, doubts_where_the_program_before_had_its_code) {
        ProcessAnswer answer;
        Bench before, after;
        uint64_t start;

        begin(&before);
        cr_assert_eq(mapping_tracker_read(&before.tracker, &before.mappings), 0);
        start = before.process->mappings[0].start;
        begin(&after);
        cr_assert_eq(mapping_tracker_inherit(&after.mappings, &before.mappings), 0);
        process_resolve(after.process, start, 1, &answer);
        cr_assert(answer.is_stale);
        cr_assert_null(answer.mapping);
        process_resolve(after.process, start, clock_monotonic_ns() + NS_PER_SEC, &answer);
        cr_assert_not(answer.is_stale);
        end(&after);
        end(&before);
}

Test(mapping_tracker, voids_samples_of_a_child_in_code_over_its_parents) {
        Bench parent, child;
        ProcessAnswer answer;
        uint64_t same, other;

        begin(&parent);
        begin(&child);
        cr_assert_eq(mapping_tracker_read(&parent.tracker, &parent.mappings), 0);
        same = parent.process->mappings[0].start;
        other = parent.process->mappings[1].start;
        cr_assert_eq(mapping_tracker_read(&child.tracker, &child.mappings), 0);
        tell(&child, other, clock_monotonic_ns());
        child.process->maps_read_ns = clock_monotonic_ns();
        mapping_history_deinit(&child.process->history);

        cr_assert_eq(mapping_tracker_fork(&child.mappings, &parent.mappings, 1000), 0);
        process_resolve(child.process, other, 2000, &answer);
        cr_assert(answer.is_stale, "walked by the rows of what its parent has there");
        process_resolve(child.process, same, 2000, &answer);
        cr_assert_not(answer.is_stale);
        process_resolve(child.process, other, clock_monotonic_ns() + NS_PER_SEC, &answer);
        cr_assert_not(answer.is_stale, "its own rows are known since");
        end(&child);
        end(&parent);
}

/*
 * A child that is gone before its mappings were read, and the notice of a fork: its own, or that of who had
 * its id long before. @is_lost: another notice may have been lost since. Return: how many come back.
 */
static size_t recall_dead_child(bool is_own, bool is_lost) {
        uint64_t fork_ns = 1;
        _cleanup_(notice_history_freep) NoticeHistory *notices = NULL;
        Bench bench;
        size_t n;
        pid_t child;

        begin(&bench);
        cr_assert_eq(notice_history_new(&notices, 64 << 10), 0);
        bench.tracker.config.notices = notices;
        bench.process = process_free(bench.process);
        child = fork();
        if (!child) {
                pause();
                _exit(1);
        }
        if (is_own)
                fork_ns = clock_monotonic_ns();
        cr_assert_eq(process_new(&bench.process, child), 0);
        kill(child, SIGKILL);
        cr_assert_eq(waitpid(child, NULL, 0), child);
        mapping_tracker_begin(&bench.mappings, bench.process);
        cr_assert_eq(notice_history_add_fork(notices, (uint32_t)child, (uint32_t)getpid(), fork_ns), 0);
        if (is_lost)
                notice_history_lose(notices, clock_monotonic_ns());
        cr_assert_eq(mapping_tracker_ensure(&bench.tracker, &bench.mappings, clock_monotonic_ns(), true), 0);
        n = bench.process->n_mappings;
        end(&bench);
        return n;
}

Test(mapping_tracker, recalls_what_a_dead_child_was_forked_with) {
        cr_assert_gt(recall_dead_child(true, false), 0);
}

Test(mapping_tracker, recalls_nothing_of_who_had_the_id_before) {
        cr_assert_eq(recall_dead_child(false, false), 0, "it was forked long after");
}

Test(mapping_tracker, recalls_nothing_of_a_child_whose_exec_may_be_lost) {
        cr_assert_eq(recall_dead_child(true, true), 0);
}

/* A file of ours that is mapped, as the kernel's notice tells of it. @process: has its maps read. */
static MappingNotice notice_of_file(const Process *process, uint64_t time_ns) {
        for (size_t i = 0; i < process->n_mappings; i++) {
                const Mapping *mapping = &process->mappings[i];
                ObjectFile file;

                if (mapping->kind != MAPPING_FILE)
                        continue;
                file = object_file(mapping->object);
                return (MappingNotice){ .time_ns = time_ns,
                                        .pid = process->pid,
                                        .start = mapping->start,
                                        .size = mapping->end - mapping->start,
                                        .offset = mapping->offset,
                                        .major = major(file.device),
                                        .minor = minor(file.device),
                                        .inode = file.inode,
                                        .path = mapping->path,
                                        .path_size = strlen(mapping->path) };
        }
        cr_assert_fail("this program is no file");
        return (MappingNotice){ 0 };
}

typedef enum Hitch {
        HITCH_NONE,
        HITCH_NOT_TOLD,
        HITCH_LOST,
        HITCH_EXEC_LATER,
        HITCH_OTHER_FILE,
        HITCH_NO_EXEC,
} Hitch;

/* A living process whose exec and mappings notices tell of. Return: whether its maps were read. */
static bool reads_maps(Hitch hitch) {
        _cleanup_(notice_history_freep) NoticeHistory *notices = NULL;
        _cleanup_(process_freep) Process *known = NULL;
        uint64_t now_ns = clock_monotonic_ns(), exec_ns = hitch == HITCH_EXEC_LATER ? now_ns + 1 : now_ns - 2;
        MappingNotice file, anonymous;
        uint64_t n_before;
        Bench bench;

        begin(&bench);
        cr_assert_eq(notice_history_new(&notices, 64 << 10), 0);
        bench.tracker.config.notices = notices;
        cr_assert_eq(process_new(&known, getpid()), 0);
        cr_assert_eq(process_read_mappings(known, bench.objects), 0);
        n_before = stat_get(COUNTER_MAPS_READS);
        file = notice_of_file(known, exec_ns);
        file.inode += hitch == HITCH_OTHER_FILE;
        anonymous = notice_at(4096, exec_ns);
        mapping_tracker_begin_turn(&bench.tracker);
        if (hitch != HITCH_NO_EXEC)
                cr_assert_eq(notice_history_add_exec(notices, known->pid, known->comm, exec_ns), 0);
        cr_assert_eq(notice_history_add_mapping(notices, &file), 0);
        cr_assert_eq(notice_history_add_mapping(notices, &anonymous), 0);
        if (hitch == HITCH_LOST)
                notice_history_lose(notices, now_ns);
        cr_assert_eq(mapping_tracker_ensure(&bench.tracker, &bench.mappings, now_ns, hitch != HITCH_NOT_TOLD),
                     0);
        cr_assert_eq(bench.n_changed, 1, "its rows are put in force");
        cr_assert_not_null(bench.process->identity);
        if (stat_get(COUNTER_MAPPINGS_TOLD)) {
                const Mapping *found = process_find_mapping(bench.process, file.start);

                cr_assert_eq(bench.process->n_mappings, 2);
                cr_assert(found && found->kind == MAPPING_FILE);
                cr_assert_eq(found->object, process_find_mapping(known, file.start)->object);
                cr_assert_leq(bench.process->read_ns, now_ns, "an exec that comes now is one");
        } else {
                cr_assert_gt(bench.process->n_mappings, 2);
        }
        known = process_free(known);
        end(&bench);
        return stat_get(COUNTER_MAPS_READS) > n_before;
}

Test(mapping_tracker, reads_no_maps_of_a_program_of_which_all_was_told) {
        cr_assert_not(reads_maps(HITCH_NONE));
}

Test(mapping_tracker, reads_maps_where_a_notice_may_be_missing) {
        cr_assert(reads_maps(HITCH_NOT_TOLD), "some may still be on their way");
        cr_assert(reads_maps(HITCH_LOST));
        cr_assert(reads_maps(HITCH_EXEC_LATER), "the sample is of the program before");
        cr_assert(reads_maps(HITCH_OTHER_FILE), "the path is another file's by now");
        cr_assert(reads_maps(HITCH_NO_EXEC), "it was there before us");
}
