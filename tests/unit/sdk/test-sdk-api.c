/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The storages of a context behind one interface: which one is chosen, what each keeps, and what is left
 * after a thread, a fork, a stop. Slots are taken apart by offset, in a mapping that is found by its name or
 * its first bytes.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spanprof/context-api.h"
#include "spanprof/otel.h"

static bool get_is(uint64_t span, uint64_t root) {
        uint64_t a = 0x77, b = 0x88;

        return spanprof_api_get(&a, &b) && a == span && b == root;
}

static bool get_is_nothing(void) {
        uint64_t a = 0x77, b = 0x88;

        return !spanprof_api_get(&a, &b) && a == 0x77 && b == 0x88;
}

/*
 * The record that readers of OpenTelemetry's form would find: the variable by its name, as the loader sees
 * it.
 */
static const uint8_t *record(void) {
        extern _Thread_local struct spanprof_thread_record *otel_thread_ctx_v1;

        return (const uint8_t *)otel_thread_ctx_v1;
}

static int status_of(pid_t pid) {
        int status = -1;

        waitpid(pid, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- which storage ---- */

Test(sdk_api, is_in_profiler_mode_if_nothing_is_said) {
        cr_assert_not(spanprof_api_is_initialized());
        cr_assert(spanprof_api_initialize(NULL));
        cr_assert(spanprof_api_is_initialized());
        cr_assert_eq(spanprof_api_get_mode(), SPANPROF_API_PROFILER);
        cr_assert_eq(spanprof_context_storage_in_use(), SPANPROF_CONTEXT_PROFILER);
        spanprof_api_shutdown();
        cr_assert_not(spanprof_api_is_initialized());
}

Test(sdk_api, takes_its_words_out_of_a_profilers_arguments) {
        cr_assert(spanprof_api_initialize("start,cpu=1ms,ctxstorage=otel,capacity=64,jfr,file=profile.jfr"));
        cr_assert_eq(spanprof_api_get_mode(), SPANPROF_API_OTEL);
        cr_assert_eq(spanprof_context_storage_in_use(), SPANPROF_CONTEXT_RING);
        cr_assert(spanprof_api_initialize("ctxstorage=otel"), "it is ready in that storage");
        cr_assert_not(spanprof_api_initialize("ctxstorage=profiler"), "the mode is fixed until shutdown");
        spanprof_api_shutdown();
        cr_assert(spanprof_api_initialize("ctxstorage=profiler"));
        cr_assert_eq(spanprof_api_get_mode(), SPANPROF_API_PROFILER);
}

Test(sdk_api, refuses_words_that_it_does_not_understand) {
        static const char *const wrong[] = { "ctxstorage=",       "ctxstorage=otle",
                                             "ctxstorage=otel2",  "capacity=",
                                             "capacity=0",        "capacity=-1",
                                             "capacity=16777217", "capacity=4294967297",
                                             "capacity=1x",       "capacity=99999999999999999999" };
        static const char *const good[] = {
                "", ",", ",,x", "ctxstorage", "xctxstorage=no", "capacity=16777216", "capacity=1,"
        };
        struct spanprof_context_options options = { .size = sizeof(options) };

        for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
                cr_expect_eq(spanprof_context_parse(wrong[i], &options), -EINVAL, "%s", wrong[i]);
                cr_expect_not(spanprof_api_initialize(wrong[i]), "%s", wrong[i]);
        }
        cr_assert_not(spanprof_api_is_initialized());
        for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
                cr_expect_eq(spanprof_context_parse(good[i], &options), 0, "%s", good[i]);
        cr_assert_eq(options.capacity, 1);
        cr_assert_eq(options.storage, SPANPROF_CONTEXT_UNSAID);
}

Test(sdk_api, does_what_the_environment_says_where_the_program_says_nothing) {
        struct spanprof_context_options ring = { .size = sizeof(ring), .storage = SPANPROF_CONTEXT_RING };

        setenv("SPANPROF_CONTEXT", "ctxstorage=thread", 1);
        cr_assert_eq(spanprof_context_start(NULL), 0);
        cr_assert_eq(spanprof_context_storage_in_use(), SPANPROF_CONTEXT_THREAD);
        cr_assert_eq(spanprof_api_get_mode(), SPANPROF_API_OTEL);
        spanprof_context_stop();
        cr_assert_eq(spanprof_context_start(&ring), 0);
        cr_assert_eq(spanprof_context_storage_in_use(), SPANPROF_CONTEXT_RING,
                     "what the program says counts more");
        spanprof_context_stop();
        setenv("SPANPROF_CONTEXT", "ctxstorage=ring", 1);
        cr_assert(spanprof_api_initialize("jfr"));
        cr_assert_eq(spanprof_context_storage_in_use(), SPANPROF_CONTEXT_RING);
        spanprof_api_shutdown();
        setenv("SPANPROF_CONTEXT", "ctxstorage=tpyo", 1);
        cr_assert(spanprof_api_initialize(NULL),
                  "a mistake in the environment keeps no service from working");
        cr_assert_eq(spanprof_context_storage_in_use(), SPANPROF_CONTEXT_PROFILER);
}

Test(sdk_api, takes_options_of_programs_that_were_built_before_there_were_storages) {
        struct {
                uint32_t size, capacity, not_ours;
        } options = { 8, 64, 0xffffffff };

        cr_assert_eq(spanprof_context_start((const struct spanprof_context_options *)&options), 0);
        cr_assert_eq(spanprof_context_storage_in_use(), SPANPROF_CONTEXT_RING);
}

#if defined(__has_feature)
#define HAS_ASAN __has_feature(address_sanitizer)
#elif defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#else
#define HAS_ASAN 0
#endif

#if !HAS_ASAN
Test(sdk_api, falls_back_to_profiler_mode_when_there_is_no_memory_for_a_ring) {
        struct rlimit limit = { 256 << 20, 256 << 20 };
        struct spanprof_context_options options = { .size = sizeof(options), .capacity = 1 << 24 };

        cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
        cr_assert_eq(spanprof_context_start(&options), -ENOMEM, "who asks for a ring is told");
        cr_assert(spanprof_api_initialize("ctxstorage=otel,capacity=16777216"));
        cr_assert_eq(spanprof_api_get_mode(), SPANPROF_API_PROFILER);
        spanprof_api_set(3, 4);
        cr_assert(get_is(3, 4));
}
#endif

/* ---- what each storage keeps ---- */

static void check_set_get_clear(const char *arguments) {
        cr_assert(spanprof_api_initialize(arguments));
        cr_assert(get_is_nothing());
        spanprof_api_set(0x1234, 0xabcd);
        cr_assert(get_is(0x1234, 0xabcd));
        spanprof_context_set(0x11, 0x22, 0x33);
        cr_assert(get_is(0x33, 0x22), "the root span is the low half of the trace id");
        spanprof_context_clear();
        cr_assert(get_is_nothing());
        spanprof_api_set(UINT64_MAX, UINT64_MAX);
        cr_assert(get_is(UINT64_MAX, UINT64_MAX));
        spanprof_api_set(5, 0);
        cr_assert(get_is(5, 0));
        spanprof_api_shutdown();
        cr_assert(get_is_nothing());
        spanprof_api_set(1, 2);
        cr_assert(spanprof_api_initialize(arguments));
        cr_assert(get_is_nothing(), "what was set while it was stopped is nowhere");
}

Test(sdk_api, keeps_a_context_in_profiler_mode) {
        check_set_get_clear("ctxstorage=profiler");
}

Test(sdk_api, keeps_a_context_in_the_ring) {
        check_set_get_clear("ctxstorage=otel,capacity=64");
}

Test(sdk_api, keeps_a_context_in_the_threads_record) {
        check_set_get_clear("ctxstorage=thread");
}

Test(sdk_api, keeps_the_whole_trace_id_only_where_readers_outside_find_it) {
        uint64_t high = 0, low = 0, span = 0;

        cr_assert(spanprof_api_initialize("ctxstorage=otel,capacity=64"));
        spanprof_context_set(7, 8, 9);
        cr_assert(spanprof_api_get_otel(&high, &low, &span));
        cr_assert(high == 7 && low == 8 && span == 9);
        spanprof_api_shutdown();
        cr_assert(spanprof_api_initialize("ctxstorage=profiler"));
        spanprof_context_set(7, 8, 9);
        cr_assert(spanprof_api_get_otel(&high, &low, &span));
        cr_assert(high == 0 && low == 8 && span == 9);
}

struct other {
        pthread_barrier_t set, looked;
        int tid;
};

static void *other_main(void *data) {
        struct other *other = data;

        other->tid = (int)syscall(SYS_gettid);
        spanprof_context_set(0x70, 0x80, 0x90);
        pthread_barrier_wait(&other->set);
        pthread_barrier_wait(&other->looked);
        return NULL;
}

/* What get_by_tid() finds of another thread while it lives, and after its end. */
static void look_at_another(const char *arguments, bool *alivep, bool *deadp, uint64_t ids[3]) {
        struct other other;
        uint64_t span, root;
        pthread_t thread;

        cr_assert(spanprof_api_initialize(arguments));
        spanprof_api_set(1, 2);
        pthread_barrier_init(&other.set, NULL, 2);
        pthread_barrier_init(&other.looked, NULL, 2);
        cr_assert_eq(pthread_create(&thread, NULL, other_main, &other), 0);
        pthread_barrier_wait(&other.set);
        *alivep = spanprof_api_get_otel_by_tid(other.tid, &ids[0], &ids[1], &ids[2]);
        if (*alivep)
                cr_assert(spanprof_api_get_by_tid(other.tid, &span, &root) && span == 0x90 && root == 0x80);
        pthread_barrier_wait(&other.looked);
        cr_assert_eq(pthread_join(thread, NULL), 0);
        *deadp = spanprof_api_get_by_tid(other.tid, &span, &root);
        cr_assert(get_is(1, 2), "ours is as it was");
}

Test(sdk_api, reads_another_thread_by_its_id_from_the_ring) {
        uint64_t ids[3] = { 0 };
        bool alive, dead;

        look_at_another("ctxstorage=otel", &alive, &dead, ids);
        cr_assert(alive);
        cr_assert(ids[0] == 0x70 && ids[1] == 0x80 && ids[2] == 0x90);
        cr_assert_not(dead, "its end has cleared it");
}

static atomic_bool is_over;

/* Two contexts in turn, so that each id comes back after two writes. */
static void *change_main(void *tidp) {
        atomic_store((atomic_int *)tidp, (int)syscall(SYS_gettid));
        while (!atomic_load_explicit(&is_over, memory_order_relaxed))
                for (uint64_t id = 1; id <= 2; id++)
                        spanprof_context_set(id, id, id);
        return NULL;
}

Test(sdk_api, never_mixes_two_contexts_of_another_thread_whose_ids_come_back) {
        enum { N_READS = 10000000 };
        unsigned long n_found = 0, n_mixed = 0;
        uint64_t high, low, span;
        atomic_int tid = 0;
        pthread_t thread;

        cr_assert(spanprof_api_initialize("ctxstorage=otel"));
        cr_assert_eq(pthread_create(&thread, NULL, change_main, &tid), 0);
        while (!atomic_load(&tid))
                sched_yield();
        /* a reader that shares its CPU with the writer finds the flag set for a whole turn */
        for (long i = 0; i < N_READS || !n_found; i++) {
                if (!spanprof_api_get_otel_by_tid(tid, &high, &low, &span))
                        continue;
                n_found++;
                n_mixed += high != low || low != span;
        }
        atomic_store(&is_over, true);
        pthread_join(thread, NULL);
        cr_assert_eq(n_mixed, 0, "%lu of %lu", n_mixed, n_found);
}

Test(sdk_api, cannot_read_another_thread_in_the_other_storages) {
        static const char *const arguments[] = { "ctxstorage=profiler", "ctxstorage=thread" };
        uint64_t ids[3] = { 0 };
        bool alive, dead;

        for (int i = 0; i < 2; i++) {
                look_at_another(arguments[i], &alive, &dead, ids);
                cr_assert_not(alive);
                cr_assert_not(dead);
                spanprof_api_shutdown();
        }
}

Test(sdk_api, has_ten_tags_in_profiler_mode) {
        cr_assert_eq(spanprof_api_set_tag(0, 1), -ENOTSUP, "before initialize");
        cr_assert(spanprof_api_initialize("ctxstorage=profiler"));
        for (unsigned int i = 0; i < 10; i++)
                cr_assert_eq(spanprof_api_set_tag(i, 100 + i), 0);
        cr_assert_eq(spanprof_api_set_tag(10, 1), -EINVAL);
        cr_assert_eq(spanprof_api_set_tag(UINT32_MAX, 1), -EINVAL);
        spanprof_api_set(1, 2);
        for (unsigned int i = 0; i < 10; i++)
                cr_assert_eq(spanprof_api_get_tag(i), 100 + i, "a new span keeps the tags");
        cr_assert_eq(spanprof_api_get_tag(10), 0);
        spanprof_context_clear();
        cr_assert_eq(spanprof_api_get_tag(3), 0);
        spanprof_api_shutdown();
        cr_assert(spanprof_api_initialize("ctxstorage=otel,capacity=64"));
        cr_assert_eq(spanprof_api_set_tag(0, 1), -ENOTSUP);
}

Test(sdk_api, has_attributes_with_thread_contexts_only) {
        cr_assert_eq(spanprof_context_attribute(0, "x", 1), -ENOTSUP);
        cr_assert(spanprof_api_initialize("ctxstorage=otel,capacity=64"));
        spanprof_context_set(1, 2, 3);
        cr_assert_eq(spanprof_context_attribute(0, "x", 1), -ENOTSUP);
        spanprof_api_shutdown();
        cr_assert(spanprof_api_initialize("ctxstorage=thread"));
        cr_assert_eq(spanprof_context_attribute(0, "x", 1), -EINVAL, "no span is set");
        spanprof_context_set(1, 2, 3);
        cr_assert_eq(spanprof_context_attribute(4, "xy", 2), 0);
        /* by the proposal: ids big endian, valid, flags, size; key index, length, bytes */
        static const uint8_t expected[32] = {
                [7] = 1, [15] = 2, [23] = 3, [24] = 1, [26] = 4, [28] = 4, 2, 'x', 'y'
        };
        cr_assert_not_null(record());
        cr_assert_arr_eq(record(), expected, sizeof(expected));
        spanprof_context_set(1, 2, 4);
        cr_assert_eq(record()[26], 0, "attributes are of one span");
}

Test(sdk_api, withdraws_a_thread_record_with_the_stop_or_the_next_call) {
        cr_assert(spanprof_api_initialize("ctxstorage=thread"));
        spanprof_context_set(1, 2, 3);
        spanprof_context_stop();
        cr_assert_null(record());
        spanprof_otel_set(4, 5, 6);
        spanprof_context_set(1, 2, 3);
        spanprof_context_clear();
        cr_assert_not_null(record(), "of a program that writes its own");
        cr_assert_eq(record()[23], 6);
}

/* ---- checksums ---- */

Test(sdk_api, tells_pairs_that_differ_in_one_half_by_their_checksum) {
        cr_assert_neq(spanprof_api_checksum(0, 0), 0);
        for (unsigned int a = 0; a < 64; a++)
                for (unsigned int b = 0; b < 64; b++) {
                        if (a == b)
                                continue;
                        cr_assert_neq(spanprof_api_checksum(UINT64_C(1) << a, 5),
                                      spanprof_api_checksum(UINT64_C(1) << b, 5));
                        cr_assert_neq(spanprof_api_checksum(5, UINT64_C(1) << a),
                                      spanprof_api_checksum(5, UINT64_C(1) << b));
                        cr_assert_neq(spanprof_api_checksum(UINT64_C(1) << a, UINT64_C(1) << b),
                                      spanprof_api_checksum(UINT64_C(1) << b, UINT64_C(1) << a),
                                      "halves are not exchanged");
                }
}

/* ---- a handler between any two instructions of a write ---- */

static volatile bool handler_sets;
static volatile int handler_verdict;

/* What a profiler in the process sees at this very instruction. */
static void handler(int signal) {
        uint64_t span = 0, root = 0;

        if (spanprof_api_get(&span, &root) && !(span == 3 && root == 4) &&
            !(span == 0x3333 && root == 0x4444))
                handler_verdict = 1;
        if (handler_sets)
                spanprof_api_set(0x5555, 0x6666);
}

static void traced_main(const char *arguments, bool sets) {
        bool good;

        handler_sets = sets;
        signal(SIGUSR1, handler);
        if (!spanprof_api_initialize(arguments))
                _exit(2);
        spanprof_api_set(3, 4);
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        spanprof_api_set(0x3333, 0x4444);
        raise(SIGSTOP);
        good = get_is(0x3333, 0x4444) || (sets && get_is(0x5555, 0x6666));
        _exit(handler_verdict ? 3 : good ? 0 : 4);
}

/* Return: steps to the second stop. */
static unsigned int step(const char *arguments, bool sets, unsigned int signal_at, int *exitp) {
        unsigned int n = 0;
        int status = 0;
        pid_t pid;

        fflush(NULL);
        pid = fork();
        if (pid == 0)
                traced_main(arguments, sets);
        waitpid(pid, &status, 0);
        for (;;) {
                cr_assert(WIFSTOPPED(status));
                if (n + 1 == signal_at)
                        break;
                cr_assert_eq(ptrace(PTRACE_SINGLESTEP, pid, 0, 0), 0);
                waitpid(pid, &status, 0);
                if (!WIFSTOPPED(status) || WSTOPSIG(status) == SIGSTOP)
                        break;
                n++;
        }
        cr_assert(WIFSTOPPED(status));
        cr_assert_eq(ptrace(PTRACE_DETACH, pid, 0, n + 1 == signal_at ? SIGUSR1 : 0), 0);
        /* raise(SIGSTOP) of a process that nobody traces any more */
        while (waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status))
                kill(pid, SIGCONT);
        *exitp = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        return n;
}

static void check_each_instruction(const char *arguments, bool sets) {
        int status;
        unsigned int n_steps = step(arguments, sets, 0, &status);

        cr_assert_eq(status, 0);
        cr_assert_gt(n_steps, 20);
        for (unsigned int at = 1; at <= n_steps; at++) {
                step(arguments, sets, at, &status);
                cr_assert_eq(status, 0, "%s, interrupted before step %u of %u: %d", arguments, at, n_steps,
                             status);
        }
}

Test(sdk_api, is_whole_for_a_handler_at_each_instruction_in_profiler_mode, .timeout = 100) {
        check_each_instruction("ctxstorage=profiler", false);
}

Test(sdk_api, is_whole_after_a_handler_that_sets_at_each_instruction_in_profiler_mode, .timeout = 100) {
        check_each_instruction("ctxstorage=profiler", true);
}

Test(sdk_api, is_whole_after_a_handler_that_sets_at_each_instruction_in_the_threads_record, .timeout = 100) {
        check_each_instruction("ctxstorage=thread", true);
}

/* ---- fork ---- */

static int child_looks(uint64_t expected_high) {
        uint64_t high = 0, low = 0, span = 0;

        if (!get_is_nothing() || spanprof_api_get_tag(2))
                return 1;
        spanprof_context_set(7, 8, 9);
        if (!spanprof_api_get_otel(&high, &low, &span) || high != expected_high || low != 8 || span != 9)
                return 2;
        return 0;
}

static void check_fork(const char *arguments, uint64_t expected_high) {
        pid_t pid;

        cr_assert(spanprof_api_initialize(arguments));
        spanprof_api_set(1, 2);
        spanprof_api_set_tag(2, 7);
        pid = fork();
        if (pid == 0)
                _exit(child_looks(expected_high));
        cr_assert_eq(status_of(pid), 0);
        cr_assert(get_is(1, 2), "the parent keeps its own");
}

Test(sdk_api, begins_without_a_context_in_a_forked_child_in_profiler_mode) {
        check_fork("ctxstorage=profiler", 0);
}

Test(sdk_api, begins_without_a_context_in_a_forked_child_with_a_ring) {
        check_fork("ctxstorage=otel", 7);
}

Test(sdk_api, begins_without_a_context_in_a_forked_child_with_thread_records) {
        check_fork("ctxstorage=thread", 7);
}
