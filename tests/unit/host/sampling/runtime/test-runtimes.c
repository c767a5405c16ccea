/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The registry of runtimes, with one whose object is this process' libc and whose map is a real one.
 */

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/util/clock.h"
#include "core/base/util/macro.h"
#include "core/base/util/stat.h"
#include "host/sampling/frames/frames.h"
#include "host/sampling/process/identity.h"
#include "host/sampling/runtime/attach-budget.h"
#include "host/sampling/runtime/runtimes.h"
#include "user-child.h"

enum { GENERATION = 77, NOT_YET = 2, TOY_BIT = 1 << 7, MORE_BIT = 1 << 2, NATIVE_BIT = 1 << 6,
       YIELDING_BIT = 1 << 5, SECOND_US = 1100 * 1000 };

static int map_fd = -1;
static unsigned n_recognised, n_attached, n_detached, n_asked, n_switched, n_tended, n_extended;
static unsigned not_yet = NOT_YET;      /* attempts that find it not ready */
static uint64_t attach_cpu_ns;          /* CPU time of an attempt */
static bool ends_meanwhile;             /* the process, during an attempt */
static const char *later_text = "";
static int attach_result, extend_result = -1;   /* −1: no other file is wanted */
static unsigned n_extend_later, n_spans_asked;
static int spans_result;
static size_t n_functions;
static bool has_own_names;              /* each place is a function of Python */
static uint64_t spent_ns;

static bool recognises(int fd, uint64_t size, char says[OBJECT_MAX_SAYS]) {
        n_recognised++;
        return fd >= 0 && size > 1 << 20;
}

static int attach(RuntimeSubject *subject, void **statep, void *entry, char text[RUNTIMES_MAX_TEXT]) {
        uint64_t begin_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);

        while (clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns < attach_cpu_ns)
                ;
        cr_assert_eq(subject->userdata, &n_tended);
        if (ends_meanwhile)
                user_child_end(subject->pid);
        *statep = &n_attached;
        cr_assert_str_empty(text);
        if (n_attached++ < not_yet) {
                strcpy(text, later_text);
                return RUNTIME_E_LATER;
        }
        *(uint64_t *)entry = subject->generation;
        strcpy(text, attach_result ? "toy 9: layout unknown: thing" : "toy 9");
        return attach_result;
}

static void detach(void *state) {
        n_detached++;
}

static int name_frames(void *state, const uint64_t *words, RuntimeFrame *frames, size_t max, size_t *np) {
        static char own[32];

        n_asked++;
        if (has_own_names) {
                snprintf(own, sizeof(own), "code_%u", (uint32_t)words[1]);
                frames[0] = (RuntimeFrame){ .function = own, .file = "made.py", .line = 1 };
                *np = 1;
                return 0;
        }
        if (words[1] == 404)
                return RUNTIME_E_UNNAMED;
        if (words[1] == 503)
                return RUNTIME_E_LATER;
        spent_ns += words[1] == 202 ? NS_PER_SEC : words[1] == 509 ? 6 * NS_PER_SEC : 0;
        for (*np = 0; *np < n_functions && *np < max; ++*np)
                frames[*np] = (RuntimeFrame){ .function = *np ? "outer" : "inner", .file = "toy.t",
                                              .line = (uint32_t)words[1] };
        return words[1] == 206 ? RUNTIME_E_SHORT : 0;
}

static unsigned n_at_once;

static int name_many(void *state, const uint64_t *const *words, size_t n, RuntimeAnswer answer,
                     void *userdata) {
        RuntimeFrame frames[RUNTIMES_MAX_FRAMES];
        int r = 0;

        n_at_once++;
        for (size_t i = 0; i < n && !r; i++) {
                size_t n_frames = 0;
                int said = name_frames(state, words[i], frames, RUNTIMES_MAX_FRAMES, &n_frames);

                if (said == RUNTIME_E_LATER)
                        return 0;
                r = answer(userdata, i, said, frames, n_frames);
        }
        return r;
}

static unsigned n_tasks_asked;
static uint64_t task_spent_ns;

/* Tasks above 100 have to be asked for; 200 has no name. */
static int task_name(void *state, const uint8_t *task, size_t size, bool may_ask, const char **textp) {
        if (*task > 100 && !may_ask)
                return RUNTIME_E_LATER;
        if (*task > 100) {
                n_tasks_asked++;
                spent_ns += task_spent_ns;
        }
        *textp = *task > 100 ? "asked" : "here";
        return *task == 200 ? RUNTIME_E_UNNAMED : 0;
}

static uint32_t trust_ms(const uint64_t *words) {
        return words[1] == 77;
}

static uint64_t cpu_ns(const void *state) {
        return spent_ns;
}

static uint32_t wants(const char *name) {
        return extend_result >= 0 && !strncmp(name, "libc.so", 7) ? MORE_BIT : 0;
}

static int extend(void *state, uint32_t kind, int fd, uint64_t size, uint64_t bias, void *entry) {
        n_extended++;
        cr_assert_eq(kind, MORE_BIT);
        cr_assert(bias && !(bias & 0xfff));
        *(uint64_t *)entry = GENERATION + 1;
        cr_assert(fd >= 0 && size > 1 << 20);
        if (n_extend_later) {
                n_extend_later--;
                return RUNTIME_E_LATER;
        }
        return extend_result ? 0 : RUNTIME_E_UNKNOWN;
}

static int find_spans(void *state, void *entry) {
        n_spans_asked++;
        *(uint64_t *)entry = GENERATION + 2;
        return spans_result;
}

static int find_locks(void *state, RuntimeLocks *locks) {
        locks->n = 1;
        locks->locks[0] = (RuntimeLock){ .tid = 7, .owner = 8 };
        return 0;
}

static void tend(void *userdata, uint64_t now_ns) {
        ++*(unsigned *)userdata;
}

static const char *const programs[] = { "toy", "toy[0-9]*", NULL };

static const RuntimeOps toy = { .name = "toy", .frame_type = "toy", .entry_size = sizeof(uint64_t),
                                .bit = TOY_BIT, .programs = programs,
                                .recognises = recognises, .attach = attach, .detach = detach,
                                .frames = name_frames, .many = name_many, .task_name = task_name,
                                .trust_ms = trust_ms, .cpu_ns = cpu_ns, .tend = tend,
                                .wants = wants, .extend = extend, .spans = find_spans,
                                .locks = find_locks };

static int attach_native(RuntimeSubject *subject, void **statep, void *entry, char text[RUNTIMES_MAX_TEXT]) {
        strcpy(text, "a machine, walked natively");
        return RUNTIME_E_NATIVE;
}

/* The kernel half has nothing of it. */
static const RuntimeOps native = { .name = "native", .frame_type = "native", .bit = NATIVE_BIT,
                                   .recognises = recognises, .attach = attach_native };

static bool always(const char *says) {
        return true;
}

static const RuntimeOps yielding = { .name = "yielding", .frame_type = "yielding", .bit = YIELDING_BIT,
                                     .recognises = recognises, .yields = always, .attach = attach_native };

static enum runtimes_walk walk_state = RUNTIMES_WALK_ON;

static enum runtimes_walk on_switch(void *userdata, const RuntimeOps *ops) {
        n_switched++;
        return walk_state;
}

static void setup(void) {
        union bpf_attr attr = { .map_type = BPF_MAP_TYPE_HASH, .key_size = 4, .value_size = 8,
                                .max_entries = 4 };

        map_fd = (int)syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr));
        if (map_fd < 0)
                cr_skip_test("machine: no BPF map can be made here");
        n_functions = 2;
}

TestSuite(runtimes, .init = setup);

/* The entry of @pid in the map, or 0. */
static uint64_t entry_of(uint32_t pid) {
        uint64_t value = 0;
        union bpf_attr attr = { .map_fd = (uint32_t)map_fd, .key = (uint64_t)(uintptr_t)&pid,
                                .value = (uint64_t)(uintptr_t)&value };

        return syscall(SYS_bpf, BPF_MAP_LOOKUP_ELEM, &attr, sizeof(attr)) ? 0 : value;
}

typedef struct Bench {
        ObjectCache *objects;
        Process *process;
        Runtimes *runtimes;
} Bench;

static void set_looks(Bench *bench, enum object_look look, uint32_t bits) {
        for (size_t i = 0; i < bench->process->n_mappings; i++)
                if (bench->process->mappings[i].kind == MAPPING_FILE) {
                        bench->process->mappings[i].object->look = look;
                        bench->process->mappings[i].object->runtimes.bits = bits;
                }
}

/* @look: what workers have said of each file so far. */
static void begin_looked(Bench *bench, enum object_look look, uint32_t bits) {
        cr_assert_eq(object_cache_new(&bench->objects, 64), 0);
        cr_assert_eq(process_new(&bench->process, getpid()), 0);
        cr_assert_eq(process_read_mappings(bench->process, bench->objects), 0);
        bench->process->generation = GENERATION;
        cr_assert_eq(runtimes_new(&bench->runtimes, on_switch, NULL), 0);
        cr_assert_eq(runtimes_register(bench->runtimes, &toy, map_fd, &n_tended), 0);
        set_looks(bench, look, bits);
        cr_assert_eq(runtimes_process(bench->runtimes, bench->process), 0);
}

static void begin(Bench *bench) {
        begin_looked(bench, OBJECT_LOOK_NONE, 0);
}

static void end(Bench *bench) {
        runtimes_free(bench->runtimes);
        process_free(bench->process);
        object_cache_free(bench->objects);
}

/* Tries until it is attached, or is not tried again. */
static void work(Bench *bench) {
        uint64_t now_ns = clock_monotonic_ns();

        for (unsigned i = 0; i < 10; i++)
                cr_assert_eq(runtimes_work(bench->runtimes, now_ns += 10 * NS_PER_SEC), 0);
}

Test(runtimes, a_process_is_attached_once_it_is_ready) {
        Bench bench;

        begin(&bench);
        cr_assert_eq(n_attached, 1);
        cr_assert_eq(entry_of((uint32_t)getpid()), 0, "it is not ready");
        cr_assert_null(runtimes_text(bench.runtimes, GENERATION));
        cr_assert(runtimes_has(bench.runtimes, GENERATION));
        cr_assert_not(runtimes_has(bench.runtimes, GENERATION + 1));
        work(&bench);
        cr_assert_eq(n_attached, NOT_YET + 1);
        cr_assert_eq(entry_of((uint32_t)getpid()), GENERATION);
        cr_assert_str_eq(runtimes_text(bench.runtimes, GENERATION), "toy 9");
        cr_assert_eq(n_switched, 1);
        cr_assert_eq(runtimes_state(bench.runtimes).n_walked, 1);
        cr_assert_eq(runtimes_process(bench.runtimes, bench.process), 0);
        cr_assert_eq(n_recognised, 1, "an object is looked into once");
        runtimes_forget(bench.runtimes, (uint32_t)getpid());
        cr_assert_eq(entry_of((uint32_t)getpid()), 0);
        cr_assert_eq(runtimes_state(bench.runtimes).n_walked, 0);
        cr_assert_eq(n_detached, 0, "samples of it may still come");
        work(&bench);
        cr_assert_eq(n_detached, 1);
        end(&bench);
        cr_assert_eq(n_detached, 1);
}

enum { N_HOLDERS = 4 };                 /* as many as the map has entries */

/* A process of a user, with the runtime. */
static pid_t begin_holder(Bench *bench, uid_t user, uint64_t generation) {
        _cleanup_(process_freep) Process *process = NULL;
        pid_t pid = user_child_begin(user);

        cr_assert_eq(process_new(&process, pid), 0);
        cr_assert_eq(process_read_mappings(process, bench->objects), 0);
        process->generation = generation;
        cr_assert_eq(runtimes_process(bench->runtimes, process), 0);
        return pid;
}

static void end_holder(Bench *bench, pid_t pid) {
        runtimes_forget(bench->runtimes, (uint32_t)pid);
        user_child_end(pid);
}

static unsigned n_entries(const pid_t *pids, unsigned n) {
        unsigned n_found = 0;

        for (unsigned i = 0; i < n; i++)
                n_found += !!entry_of((uint32_t)pids[i]);
        return n_found;
}

Test(runtimes, a_user_with_most_processes_gives_way_to_another_and_comes_back) {
        pid_t holders[N_HOLDERS + 1], own;
        unsigned with_room;
        Bench bench;

        if (geteuid())
                cr_skip_test("machine: not root, who makes processes of other users");
        not_yet = 0;
        cr_assert_eq(object_cache_new(&bench.objects, 64), 0);
        bench.process = NULL;
        cr_assert_eq(runtimes_new(&bench.runtimes, on_switch, NULL), 0);
        cr_assert_eq(runtimes_register(bench.runtimes, &toy, map_fd, &n_tended), 0);
        for (unsigned i = 0; i <= N_HOLDERS; i++)
                holders[i] = begin_holder(&bench, USER_CHILD, GENERATION + i);
        cr_assert_eq(n_entries(holders, N_HOLDERS + 1), N_HOLDERS, "one has no room");
        cr_assert_eq(stat_get(COUNTER_RUNTIMES_OVER_CAP), 1);
        own = begin_holder(&bench, USER_CHILD - 1, 1);
        cr_assert_eq(entry_of((uint32_t)own), 1, "another user has its share");
        cr_assert_eq(n_entries(holders, N_HOLDERS + 1), N_HOLDERS - 1);
        cr_assert_eq(stat_get(COUNTER_RUNTIMES_OVER_CAP), 2);
        work(&bench);
        cr_assert_eq(n_entries(holders, N_HOLDERS + 1), N_HOLDERS - 1, "asks in vain");
        cr_assert_eq(entry_of((uint32_t)own), 1);
        cr_assert_eq(stat_get(COUNTER_RUNTIMES_OVER_CAP), 2, "one is counted once");
        end_holder(&bench, own);
        work(&bench);
        cr_assert_eq(n_entries(holders, N_HOLDERS + 1), N_HOLDERS, "asks again, and has room");
        for (with_room = 0; !entry_of((uint32_t)holders[with_room]); with_room++)
                ;
        end_holder(&bench, holders[with_room]);
        holders[with_room] = holders[N_HOLDERS];
        work(&bench);
        cr_assert_eq(n_entries(holders, N_HOLDERS), N_HOLDERS, "the last one, too");
        cr_assert_eq(stat_get(COUNTER_RUNTIMES_ATTACHED), N_HOLDERS + 2, "each is counted once");
        for (unsigned i = 0; i < N_HOLDERS; i++)
                end_holder(&bench, holders[i]);
        end(&bench);
}

/* A user whose time is not counted at the same place as that of the process, of this very group. */
static uid_t user_apart(pid_t pid) {
        ShareOwner owner = identity_owner_of(pid, 0);
        const AttachPayer payer = attach_budget_payer(&owner);
        AttachPayer other;

        do {
                owner.user--;
                other = attach_budget_payer(&owner);
        } while (other.places[ATTACH_BUDGET_USER] == payer.places[ATTACH_BUDGET_USER]);
        return owner.user;
}

Test(runtimes, programs_that_are_slow_to_read_make_their_own_user_wait) {
        pid_t holders[3], own;
        Bench bench;

        if (geteuid())
                cr_skip_test("machine: not root, who makes processes of other users");
        not_yet = 0;
        attach_cpu_ns = NS_PER_SEC;             /* 18 s of waiting then */
        cr_assert_eq(object_cache_new(&bench.objects, 64), 0);
        bench.process = NULL;
        cr_assert_eq(runtimes_new(&bench.runtimes, on_switch, NULL), 0);
        cr_assert_eq(runtimes_register(bench.runtimes, &toy, map_fd, &n_tended), 0);
        for (unsigned i = 0; i < ARRAY_SIZE(holders); i++) {
                holders[i] = begin_holder(&bench, USER_CHILD, GENERATION + i);
                attach_cpu_ns = 0;
        }
        cr_assert_eq(n_attached, 1);
        cr_assert_eq(stat_get(COUNTER_RUNTIMES_OVER_CAP), 2);
        cr_assert_not_null(strstr(runtimes_text(bench.runtimes, GENERATION + 2), "took long to read"));
        own = begin_holder(&bench, user_apart(holders[0]), 1);
        cr_assert_eq(entry_of((uint32_t)own), 1, "another user does not wait");
        work(&bench);
        cr_assert_eq(n_entries(holders, ARRAY_SIZE(holders)), ARRAY_SIZE(holders), "they were read later");
        cr_assert_eq(stat_get(COUNTER_RUNTIMES_OVER_CAP), 2, "each is counted once");
        for (unsigned i = 0; i < ARRAY_SIZE(holders); i++)
                end_holder(&bench, holders[i]);
        end_holder(&bench, own);
        runtimes_free(bench.runtimes);
        object_cache_free(bench.objects);
}

Test(runtimes, a_program_that_ends_while_it_is_read_leaves_the_debt_to_its_user) {
        pid_t first, second;
        Bench bench;

        if (geteuid())
                cr_skip_test("machine: not root, who makes processes of other users");
        not_yet = 0;
        attach_cpu_ns = NS_PER_SEC;
        ends_meanwhile = true;
        cr_assert_eq(object_cache_new(&bench.objects, 64), 0);
        cr_assert_eq(runtimes_new(&bench.runtimes, on_switch, NULL), 0);
        cr_assert_eq(runtimes_register(bench.runtimes, &toy, map_fd, &n_tended), 0);
        first = begin_holder(&bench, USER_CHILD, GENERATION);
        runtimes_forget(bench.runtimes, (uint32_t)first);
        ends_meanwhile = false;
        second = begin_holder(&bench, USER_CHILD, GENERATION + 1);
        cr_assert_eq(n_attached, 1);
        cr_assert_eq(stat_get(COUNTER_RUNTIMES_OVER_CAP), 1);
        end_holder(&bench, second);
        runtimes_free(bench.runtimes);
        object_cache_free(bench.objects);
}

Test(runtimes, locks_are_asked_for_once_it_is_attached_and_while_it_lives) {
        static RuntimeLocks locks;
        Bench bench;

        begin(&bench);
        locks.n = locks.n_over_cap = 5;
        cr_assert_eq(runtimes_locks(bench.runtimes, bench.process, &locks), RUNTIME_E_LATER);
        cr_assert_eq(locks.n + locks.n_over_cap, 0);
        work(&bench);
        cr_assert_eq(runtimes_locks(bench.runtimes, bench.process, &locks), 0);
        cr_assert_eq(locks.n, 1);
        cr_assert_eq(locks.locks[0].owner, 8);
        runtimes_forget(bench.runtimes, (uint32_t)getpid());
        cr_assert_eq(runtimes_locks(bench.runtimes, bench.process, &locks), RUNTIME_E_LATER);
        cr_assert_eq(locks.n, 0);
        end(&bench);
        attach_result = RUNTIME_E_UNKNOWN;
        begin(&bench);
        work(&bench);
        cr_assert_eq(runtimes_locks(bench.runtimes, bench.process, &locks), RUNTIME_E_UNKNOWN);
        end(&bench);
}

/* Each change of its mappings asks again, and what they are called is the process' own matter. */
Test(runtimes, a_file_that_tells_more_is_read_until_it_does_and_not_for_ever) {
        static const struct {
                int result;
                unsigned n;
                uint64_t entry;
        } rows[] = { { 1, 1, GENERATION + 1 }, { 0, 8, GENERATION } };
        Bench bench;

        for (size_t row = 0; row < ARRAY_SIZE(rows); row++) {
                extend_result = rows[row].result;
                n_attached = n_extended = 0;
                begin(&bench);
                cr_assert_eq(n_extended, 0, "it is not attached yet");
                work(&bench);
                cr_assert_eq(n_extended, 1, "it was mapped from the start, and no change of the mappings need come");
                for (int i = 0; i < 10; i++)
                        cr_assert_eq(runtimes_process(bench.runtimes, bench.process), 0);
                cr_assert_eq(n_extended, rows[row].n);
                cr_assert_eq(entry_of((uint32_t)getpid()), rows[row].entry);
                end(&bench);
        }
}

/* A worker may be late; no change of the mappings need come after that. */
Test(runtimes, a_file_that_cannot_be_read_yet_is_tried_again) {
        Bench bench;

        extend_result = 1;
        n_extend_later = 1000;
        begin(&bench);
        work(&bench);
        n_extend_later = 5;
        n_extended = 0;
        cr_assert_eq(entry_of((uint32_t)getpid()), GENERATION);
        for (int i = 0; i < 20; i++)
                cr_assert_eq(runtimes_process(bench.runtimes, bench.process), 0);
        cr_assert_eq(n_extended, 0, "it is on its way");
        for (uint64_t seconds = 200; seconds < 220; seconds += 2)
                cr_assert_eq(runtimes_work(bench.runtimes, clock_monotonic_ns() + seconds * NS_PER_SEC), 0);
        cr_assert_eq(n_extended, 6);
        cr_assert_eq(entry_of((uint32_t)getpid()), GENERATION + 1);
        end(&bench);
}

Test(runtimes, a_file_is_left_to_its_worker) {
        Bench bench;

        begin_looked(&bench, OBJECT_LOOK_ASKED, 0);
        cr_assert_eq(n_recognised, 0, "nothing is read here, however long the worker takes");
        cr_assert_not(runtimes_has(bench.runtimes, GENERATION));
        set_looks(&bench, OBJECT_LOOK_KNOWN, TOY_BIT);
        cr_assert_eq(runtimes_process(bench.runtimes, bench.process), 0);
        work(&bench);
        cr_assert_eq(entry_of((uint32_t)getpid()), GENERATION);
        cr_assert_eq(n_recognised, 0);
        end(&bench);
}

Test(runtimes, a_file_whose_worker_failed_has_no_runtime) {
        Bench bench;

        begin_looked(&bench, OBJECT_LOOK_FAILED, TOY_BIT);
        cr_assert_eq(n_recognised, 0);
        cr_assert_not(runtimes_has(bench.runtimes, GENERATION));
        end(&bench);
}

Test(runtimes, what_is_unknown_is_said_and_not_walked) {
        Bench bench;

        attach_result = RUNTIME_E_UNKNOWN;
        begin(&bench);
        work(&bench);
        cr_assert_eq(n_attached, NOT_YET + 1, "once is enough");
        cr_assert_eq(entry_of((uint32_t)getpid()), 0);
        cr_assert_str_eq(runtimes_text(bench.runtimes, GENERATION), "toy 9: layout unknown: thing");
        cr_assert_eq(stat_get(COUNTER_RUNTIMES_UNKNOWN), 1);
        cr_assert_eq(runtimes_state(bench.runtimes).n_processes, 1);
        cr_assert_eq(n_switched, 1);
        end(&bench);
        cr_assert_eq(n_detached, 1);
}

/* It is told of once it should have begun, with what the runtime says of it, until it is ready. */
Test(runtimes, what_stays_not_ready_is_said_and_asked_again) {
        static const struct {
                const char *later, *told;
        } rows[] = { { "", "toy: not ready, or not readable for us" }, { "toy 9: asleep", "toy 9: asleep" } };
        uint64_t now_ns = clock_monotonic_ns();
        char expected[RUNTIMES_MAX_TEXT];
        Bench bench;

        for (size_t row = 0; row < ARRAY_SIZE(rows); row++) {
                not_yet = 1000;
                later_text = rows[row].later;
                n_attached = 0;
                begin(&bench);
                cr_assert_eq(runtimes_work(bench.runtimes, now_ns + 2 * NS_PER_SEC), 0);
                cr_assert_eq(n_attached, 2);
                cr_assert_null(runtimes_text(bench.runtimes, GENERATION), "it has just begun");
                work(&bench);
                snprintf(expected, sizeof(expected),
                         "%s; asked again, `spanprof targets --verbose --pid %d` asks at once", rows[row].told,
                         getpid());
                cr_assert_str_eq(runtimes_text(bench.runtimes, GENERATION), expected);
                not_yet = n_attached;
                cr_assert_eq(runtimes_work(bench.runtimes, now_ns + 1000 * NS_PER_SEC), 0);
                cr_assert_str_eq(runtimes_text(bench.runtimes, GENERATION), "toy 9");
                cr_assert_eq(entry_of((uint32_t)getpid()), GENERATION);
                end(&bench);
        }
}

/* The first file of the process is of a runtime that yields, all others of @bits. */
static const char *text_with_first(Bench *bench, uint32_t bits) {
        bool is_first = true;

        begin_looked(bench, OBJECT_LOOK_KNOWN, 0);
        cr_assert_eq(runtimes_register(bench->runtimes, &yielding, -1, NULL), 0);
        set_looks(bench, OBJECT_LOOK_KNOWN, bits);
        for (size_t i = 0; i < bench->process->n_mappings; i++)
                if (bench->process->mappings[i].kind == MAPPING_FILE && is_first &&
                    object_may_be_runtime(bench->process->mappings[i].object)) {
                        bench->process->mappings[i].object->runtimes.bits = YIELDING_BIT;
                        is_first = false;
                }
        cr_assert_eq(runtimes_process(bench->runtimes, bench->process), 0);
        work(bench);
        return runtimes_text(bench->runtimes, GENERATION);
}

Test(runtimes, a_file_that_yields_is_taken_where_there_is_no_other) {
        Bench bench;

        cr_assert_str_eq(text_with_first(&bench, 0), "a machine, walked natively");
        end(&bench);
}

Test(runtimes, a_file_that_yields_leaves_the_process_to_another) {
        Bench bench;

        cr_assert_str_eq(text_with_first(&bench, TOY_BIT), "toy 9");
        end(&bench);
}

Test(runtimes, the_walk_is_asked_for_until_it_is_there) {
        Bench bench;

        walk_state = RUNTIMES_WALK_LOADING;
        begin(&bench);
        work(&bench);
        cr_assert_eq(n_switched, 11, "once as the process was met, and each time since");
        cr_assert_eq(entry_of((uint32_t)getpid()), GENERATION);
        walk_state = RUNTIMES_WALK_ON;
        work(&bench);
        cr_assert_eq(n_switched, 12);
        cr_assert_str_eq(runtimes_text(bench.runtimes, GENERATION), "toy 9");
        end(&bench);
}

Test(runtimes, the_walk_is_asked_for_though_one_without_came_last) {
        Bench bench;

        walk_state = RUNTIMES_WALK_LOADING;
        begin(&bench);
        cr_assert_eq(runtimes_register(bench.runtimes, &native, -1, NULL), 0);
        bench.process->generation = GENERATION + 1;
        set_looks(&bench, OBJECT_LOOK_KNOWN, NATIVE_BIT);
        cr_assert_eq(runtimes_process(bench.runtimes, bench.process), 0);
        cr_assert_str_eq(runtimes_text(bench.runtimes, GENERATION + 1), "a machine, walked natively");
        cr_assert_eq(stat_get(COUNTER_RUNTIMES_NATIVE), 1);
        cr_assert_eq(n_switched, 1, "it needs no walk");
        work(&bench);
        cr_assert_eq(n_switched, 11);
        end(&bench);
}

Test(runtimes, a_refused_walk_is_said) {
        static const char text[] = "toy 9: not walked, the walk could not be loaded here";
        Bench bench;

        walk_state = RUNTIMES_WALK_LOADING;
        begin(&bench);
        work(&bench);
        cr_assert_eq(runtimes_state(bench.runtimes).n_walked, 1);
        walk_state = RUNTIMES_WALK_REFUSED;
        work(&bench);
        cr_assert_eq(runtimes_state(bench.runtimes).n_walked, 0);
        cr_assert_eq(entry_of((uint32_t)getpid()), 0);
        cr_assert_str_eq(runtimes_text(bench.runtimes, GENERATION), text);
        runtimes_forget(bench.runtimes, (uint32_t)getpid());
        bench.process->generation = GENERATION + 1;
        cr_assert_eq(runtimes_process(bench.runtimes, bench.process), 0);
        cr_assert_eq(runtimes_state(bench.runtimes).n_walked, 0);
        cr_assert_eq(entry_of((uint32_t)getpid()), 0);
        cr_assert_str_eq(runtimes_text(bench.runtimes, GENERATION + 1), text, "the next one, too");
        walk_state = RUNTIMES_WALK_ON;
        runtimes_forget(bench.runtimes, (uint32_t)getpid());
        bench.process->generation = GENERATION + 2;
        cr_assert_eq(runtimes_process(bench.runtimes, bench.process), 0);
        cr_assert_eq(entry_of((uint32_t)getpid()), GENERATION + 2, "it is asked for again");
        cr_assert_str_eq(runtimes_text(bench.runtimes, GENERATION + 2), "toy 9");
        end(&bench);
}

/* Asks about a frame, which is its whole stack. */
static int ask_frame(const Bench *bench, const uint64_t *words, const RuntimeFrame **framesp, size_t *np,
                     const char **typep) {
        return runtimes_frames(bench->runtimes, bench->process, words, runtime_frame_words(*words), framesp,
                               np, typep);
}

Test(runtimes, names_are_asked_for_once) {
        const uint64_t words[] = { (uint64_t)RUNTIME_HOTSPOT_COMPILED << RUNTIME_KIND_SHIFT, 12, 5 };
        const uint64_t gone[] = { (uint64_t)RUNTIME_HOTSPOT_COMPILED << RUNTIME_KIND_SHIFT, 404, 5 };
        const RuntimeFrame *frames;
        const char *type;
        Bench bench;
        size_t n;

        begin(&bench);
        cr_assert_eq(ask_frame(&bench, words, &frames, &n, &type), RUNTIME_E_UNNAMED);
        work(&bench);
        for (unsigned i = 0; i < 2; i++) {
                cr_assert_eq(ask_frame(&bench, words, &frames, &n, &type), 0);
                cr_assert_eq(n, 2);
                cr_assert_str_eq(frames[0].function, "inner");
                cr_assert_str_eq(frames[1].function, "outer");
                cr_assert_eq(frames[1].line, 12);
                cr_assert_str_eq(type, "toy");
                cr_assert_eq(n_asked, 1);
        }
        cr_assert_eq(ask_frame(&bench, gone, &frames, &n, &type), RUNTIME_E_UNNAMED);
        cr_assert_eq(n, 0);
        cr_assert_eq(stat_get(COUNTER_RUNTIME_FRAMES_UNNAMED), 2);
        end(&bench);
}

/* What it says of word @word. */
static int name(Bench *bench, uint64_t word) {
        const uint64_t words[] = { (uint64_t)RUNTIME_HOTSPOT_COMPILED << RUNTIME_KIND_SHIFT, word, 5 };
        const RuntimeFrame *frames;
        const char *type;
        size_t n;

        return ask_frame(bench, words, &frames, &n, &type);
}

#define OF_TOY ((uint64_t)RUNTIME_HOTSPOT_COMPILED << RUNTIME_KIND_SHIFT)

Test(runtimes, frames_of_a_stack_are_asked_for_at_once) {
        /* three frames, native code, the first one again, one without a name */
        const uint64_t words[] = { OF_TOY, 21, 5, OF_TOY, 22, 5, OF_TOY, 23, 5, 0x1000, OF_TOY, 21, 5,
                                   OF_TOY, 404, 5 };
        static const struct {
                size_t at;
                int said;
                uint32_t line;
        } rows[] = { { 0, 0, 21 }, { 3, 0, 22 }, { 6, 0, 23 }, { 10, 0, 21 }, { 13, RUNTIME_E_UNNAMED, 0 } };
        const RuntimeFrame *frames;
        const char *type;
        Bench bench;
        size_t n;

        begin(&bench);
        work(&bench);
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                cr_assert_eq(runtimes_frames(bench.runtimes, bench.process, words + rows[i].at,
                                             ARRAY_SIZE(words) - rows[i].at, &frames, &n, &type),
                             rows[i].said);
                cr_assert(!rows[i].line || frames[1].line == rows[i].line);
                cr_assert_eq(n_at_once, 1);
        }
        cr_assert_eq(n_asked, 5, "four of them at once; what has no name is asked for again");
        end(&bench);
}

Test(runtimes, frames_behind_one_that_is_late_have_no_answer) {
        const uint64_t words[] = { OF_TOY, 31, 5, OF_TOY, 503, 5, OF_TOY, 32, 5 };
        const RuntimeFrame *frames;
        const char *type;
        Bench bench;
        size_t n;

        begin(&bench);
        work(&bench);
        cr_assert_eq(runtimes_frames(bench.runtimes, bench.process, words, 9, &frames, &n, &type), 0);
        cr_assert_eq(frames[1].line, 31);
        cr_assert_eq(n_asked, 2);
        cr_assert_eq(runtimes_frames(bench.runtimes, bench.process, words + 3, 3, &frames, &n, &type),
                     RUNTIME_E_LATER);
        cr_assert_eq(runtimes_frames(bench.runtimes, bench.process, words + 6, 3, &frames, &n, &type), 0);
        cr_assert_eq(n_asked, 4);
        end(&bench);
}

Test(runtimes, what_is_named_in_part_is_kept_and_counted) {
        Bench bench;

        begin(&bench);
        work(&bench);
        cr_assert_eq(name(&bench, 206), 0);
        cr_assert_eq(name(&bench, 206), 0);
        cr_assert_eq(n_asked, 1);
        cr_assert_eq(stat_get(COUNTER_RUNTIME_FRAMES_SHORT), 1);
        cr_assert_eq(stat_get(COUNTER_RUNTIME_FRAMES_NAMED), 0);
        end(&bench);
}

/* Places of one function, as 30 processes with the same program have them. */
Test(runtimes, equal_functions_are_kept_once) {
        enum { N = 20000 };
        const RuntimeFrame *first = NULL, *frames;
        const char *type;
        size_t before, n;
        Bench bench;

        begin(&bench);
        work(&bench);
        before = runtimes_state(bench.runtimes).memory;
        for (uint64_t i = 0; i < N; i++) {
                const uint64_t words[] = { (uint64_t)RUNTIME_HOTSPOT_COMPILED << RUNTIME_KIND_SHIFT,
                                           i << 32 | 12, 5 };

                if (ask_frame(&bench, words, &frames, &n, &type))
                        cr_skip_test("machine: it has no time");
                first = first ? first : frames;
                cr_assert_eq(frames, first);
        }
        cr_assert_lt(runtimes_state(bench.runtimes).memory - before, (size_t)N * 120);
        end(&bench);
}

/* As many as a large service of Python runs. */
Test(runtimes, twenty_thousand_functions_take_four_megabytes) {
        enum { N = 20000 };
        const RuntimeFrame *frames;
        const char *type;
        size_t n;
        Bench bench;

        has_own_names = true;
        begin(&bench);
        work(&bench);
        for (uint64_t i = 0; i < N; i++) {
                const uint64_t words[] = { (uint64_t)RUNTIME_PYTHON << RUNTIME_KIND_SHIFT | i << 4, i };

                if (ask_frame(&bench, words, &frames, &n, &type))
                        cr_skip_test("machine: it has no time");
                cr_assert_eq(n, 1);
        }
        cr_assert_lt(runtimes_state(bench.runtimes).memory, (size_t)4 << 20);
        for (uint64_t i = 0; i < N; i += 999) {
                const uint64_t words[] = { (uint64_t)RUNTIME_PYTHON << RUNTIME_KIND_SHIFT | i << 4, i };
                char name[32];

                snprintf(name, sizeof(name), "code_%u", (uint32_t)i);
                cr_assert_eq(ask_frame(&bench, words, &frames, &n, &type), 0);
                cr_assert_str_eq(frames[0].function, name);
        }
        cr_assert_eq(n_asked, N);
        end(&bench);
}

/* One that has no time left in this second is asked in the next. */
static const char *patient_name(Bench *bench, uint64_t code) {
        const uint64_t words[] = { (uint64_t)RUNTIME_PYTHON << RUNTIME_KIND_SHIFT | code << 4, code };
        const RuntimeFrame *frames;
        const char *type;
        size_t n;

        while (ask_frame(bench, words, &frames, &n, &type))
                usleep(SECOND_US);
        cr_assert_eq(n, 1);
        return frames[0].function;
}

Test(runtimes, more_functions_than_are_kept_are_forgotten_and_named_again) {
        enum { N_MOST = 128 << 10 };
        size_t most = 0;
        unsigned n;
        Bench bench;

        has_own_names = true;
        begin(&bench);
        work(&bench);
        cr_assert_str_eq(patient_name(&bench, N_MOST), "code_131072");
        n = n_asked;
        cr_assert_str_eq(patient_name(&bench, N_MOST), "code_131072");
        cr_assert_eq(n_asked, n, "it is kept");
        for (uint64_t i = 0; i < N_MOST; i++) {
                patient_name(&bench, i);
                most = MAX(most, runtimes_state(bench.runtimes).memory);
        }
        cr_assert_lt(most, (size_t)32 << 20);
        cr_assert_eq(stat_get(COUNTER_RUNTIME_NAMES_FORGOTTEN), 1);
        n = n_asked;
        cr_assert_str_eq(patient_name(&bench, N_MOST), "code_131072");
        cr_assert_eq(n_asked, n + 1);
        end(&bench);
}

Test(runtimes, what_is_believed_for_a_while_is_asked_for_again) {
        Bench bench;

        begin(&bench);
        work(&bench);
        cr_assert_eq(name(&bench, 77), 0);
        /* a busy machine may have had the time of this second: then the old answer holds */
        for (unsigned i = 0; i < 1000 && n_asked < 2; i++) {
                usleep(2000);
                cr_assert_eq(name(&bench, 77), 0);
        }
        cr_assert_eq(n_asked, 2);
        cr_assert_eq(name(&bench, 78), 0);
        usleep(2000);
        cr_assert_eq(name(&bench, 78), 0);
        cr_assert_eq(n_asked, 3);
        end(&bench);
}

Test(runtimes, who_has_had_the_time_of_this_second_is_late) {
        Bench bench;

        begin(&bench);
        work(&bench);
        cr_assert_eq(n_tended, 10);
        cr_assert_eq(name(&bench, 503), RUNTIME_E_LATER, "there is no worker now");
        cr_assert_eq(stat_get(COUNTER_RUNTIME_FRAMES_LATE), 1);
        cr_assert_eq(name(&bench, 202), 0, "a second of another process");
        cr_assert_eq(name(&bench, 1), RUNTIME_E_LATER);
        cr_assert_eq(name(&bench, 202), 0, "what is known costs no time");
        cr_assert_eq(stat_get(COUNTER_RUNTIME_FRAMES_LATE), 2);
        cr_assert_eq(stat_get(COUNTER_RUNTIME_FRAMES_UNNAMED), 0);
        end(&bench);
}

Test(runtimes, names_of_tasks_are_asked_for_within_the_time_of_names) {
        const uint8_t here = 1, far = 101, nameless = 200;
        Bench bench;

        begin(&bench);
        work(&bench);
        cr_assert_str_eq(runtimes_task_name(bench.runtimes, bench.process, &here, 1), "here");
        cr_assert_eq(n_tasks_asked, 0);
        cr_assert_str_eq(runtimes_task_name(bench.runtimes, bench.process, &far, 1), "asked");
        cr_assert_null(runtimes_task_name(bench.runtimes, bench.process, &nameless, 1));
        cr_assert_eq(n_tasks_asked, 2);
        task_spent_ns = 6 * NS_PER_SEC;
        cr_assert_str_eq(runtimes_task_name(bench.runtimes, bench.process, &far, 1), "asked");
        cr_assert_null(runtimes_task_name(bench.runtimes, bench.process, &far, 1), "that took six seconds");
        cr_assert_eq(n_tasks_asked, 3);
        cr_assert_str_eq(runtimes_task_name(bench.runtimes, bench.process, &here, 1), "here");
        cr_assert_eq(name(&bench, 1), RUNTIME_E_UNNAMED, "frames have the same time");
        end(&bench);
}

Test(runtimes, a_stack_may_wait_for_names_that_are_late) {
        const uint64_t late[] = { (uint64_t)RUNTIME_HOTSPOT_COMPILED << RUNTIME_KIND_SHIFT, 503, 5 };
        const uint64_t known[] = { (uint64_t)RUNTIME_HOTSPOT_COMPILED << RUNTIME_KIND_SHIFT, 7, 5 };
        StackInput input = { .time_ns = clock_monotonic_ns(), .user = late, .n_user = 3, .may_wait = true };
        enum abi_stack_end stack_end = ABI_STACK_COMPLETE;
        Window *window;
        Frames *frames;
        uint32_t stack;
        Bench bench;

        begin(&bench);
        work(&bench);
        input.process = bench.process;
        cr_assert_eq(frames_new(&frames), 0);
        frames_set_runtimes(frames, bench.runtimes);
        cr_assert_eq(window_new(&window, 1, 0, NULL), 0);
        for (int i = 0; i < 2; i++) {
                cr_assert_eq(frames_stack(frames, window, &input, &stack_end, &stack), 0);
                cr_assert(frames_are_late(frames));
                cr_assert_eq(stack, 0);
                cr_assert_eq(stat_get(COUNTER_FRAMES_RUNTIME), 0, "it is counted when it is made");
        }
        input.may_wait = false;         /* it has waited for long enough */
        cr_assert_eq(frames_stack(frames, window, &input, &stack_end, &stack), 0);
        cr_assert_not(frames_are_late(frames));
        cr_assert_gt(stack, 0);
        cr_assert_eq(stat_get(COUNTER_FRAMES_RUNTIME), 1);
        input.user = known;
        input.may_wait = true;
        cr_assert_eq(frames_stack(frames, window, &input, &stack_end, &stack), 0);
        cr_assert_not(frames_are_late(frames));
        cr_assert_gt(stack, 0);
        cr_assert_eq(stat_get(COUNTER_FRAMES_RUNTIME), 2);
        window_free(window);
        frames_free(frames);
        end(&bench);
}

Test(runtimes, who_has_used_more_than_a_share_of_many_seconds_is_late_in_the_next_too) {
        Bench bench;

        begin(&bench);
        work(&bench);
        cr_assert_eq(name(&bench, 202), 0, "a second");
        usleep(SECOND_US);
        cr_assert_eq(name(&bench, 509), 0, "it may have several, and this takes six");
        usleep(SECOND_US);
        cr_assert_eq(name(&bench, 1), RUNTIME_E_UNNAMED);
        cr_assert_eq(stat_get(COUNTER_RUNTIME_FRAMES_LATE), 1);
        cr_assert_eq(name(&bench, 202), 0, "what is known costs no time");
        end(&bench);
}

/* 10 ms, 10, 13 … a second in the first five; then each of the waits is a quarter of all the time before. */
Test(runtimes, what_is_never_ready_is_asked_less_and_less_often) {
        uint64_t now_ns = clock_monotonic_ns(), end_ns = now_ns + 600 * NS_PER_SEC;
        Bench bench;

        not_yet = 1000;
        n_attached = 0;
        begin(&bench);
        for (; now_ns < end_ns; now_ns += 10 * NS_PER_MS)
                cr_assert_eq(runtimes_work(bench.runtimes, now_ns), 0);
        cr_assert_geq(n_attached, 35, "twice a minute at least");
        cr_assert_leq(n_attached, 45);
        end(&bench);
}

Test(runtimes, the_walk_is_asked_for_by_names_of_programs) {
        static const char *const others[] = { "", "toy-shop", "a toy", "native" };
        Runtimes *runtimes;

        cr_assert_eq(runtimes_new(&runtimes, on_switch, NULL), 0);
        cr_assert_eq(runtimes_register(runtimes, &native, -1, NULL), 0);
        cr_assert_eq(runtimes_register(runtimes, &toy, map_fd, NULL), 0);
        n_switched = 0;
        for (size_t i = 0; i < ARRAY_SIZE(others); i++)
                runtimes_expect(runtimes, others[i]);
        cr_assert_eq(n_switched, 0);
        runtimes_expect(runtimes, "toy9.1");
        cr_assert_eq(n_switched, 1);
        runtimes_expect(runtimes, "toy");
        cr_assert_eq(n_switched, 1, "it is on");
        cr_assert_eq(runtimes_state(runtimes).n_processes, 0);
        runtimes_free(runtimes);
}

Test(runtimes, spans_are_looked_for_when_a_sample_wants_them) {
        const uint64_t far_ns = clock_monotonic_ns() + 3600 * NS_PER_SEC;
        Bench bench;

        begin(&bench);
        work(&bench);
        cr_assert_eq(n_spans_asked, 0);
        spans_result = RUNTIME_E_LATER;
        for (unsigned i = 1; i <= 5; i++) {
                runtimes_want_spans(bench.runtimes, GENERATION, clock_monotonic_ns());
                cr_assert_lt(runtimes_due_ns(bench.runtimes), far_ns);
                cr_assert_eq(runtimes_work(bench.runtimes, far_ns), 0);
                cr_assert_eq(runtimes_work(bench.runtimes, far_ns), 0);
                cr_assert_eq(n_spans_asked, i, "once for a sample");
                runtimes_want_spans(bench.runtimes, GENERATION, clock_monotonic_ns());
                cr_assert_eq(runtimes_work(bench.runtimes, 1), 0);
                cr_assert_eq(n_spans_asked, i, "not at once again");
        }
        cr_assert_eq(entry_of((uint32_t)getpid()), GENERATION);
        spans_result = 0;
        cr_assert_eq(runtimes_work(bench.runtimes, far_ns), 0);
        cr_assert_eq(n_spans_asked, 6);
        cr_assert_eq(entry_of((uint32_t)getpid()), GENERATION + 2);
        runtimes_want_spans(bench.runtimes, GENERATION, 1);
        runtimes_want_spans(bench.runtimes, GENERATION + 1, clock_monotonic_ns());
        cr_assert_eq(runtimes_work(bench.runtimes, far_ns), 0);
        cr_assert_eq(n_spans_asked, 6, "a sample of before they were known");
        end(&bench);
}

Test(runtimes, a_look_keeps_nothing) {
        RuntimeDescription description;
        Bench bench;

        begin(&bench);
        n_attached = NOT_YET;
        cr_assert_eq(runtimes_describe(bench.runtimes, bench.process, &description), 0);
        cr_assert_str_eq(description.text, "toy 9");
        cr_assert(description.has_spans);
        cr_assert_eq(n_detached, 1);
        cr_assert_eq(runtimes_state(bench.runtimes).n_walked, 0);
        end(&bench);
}
