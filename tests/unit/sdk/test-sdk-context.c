/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SDK's writer, seen by a reader that shares no code with it: it finds the
 * region by the bytes at page starts, and takes fields apart by offset. That no
 * reader ever meets a mixed slot is tried at each single instruction of set(),
 * under ptrace, and by a reader on the other CPU.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spanprof/context-api.h"
#include "spanprof/context.h"

enum {
        HEADER = 32,
        SLOT = 32,
        COUNT = 28,                     /* in a slot: the writer's count of its writes, 4 bytes */
        IN_USE = 24,
};

/* `L E T O`, version 1, 4096 slots, 32 bytes a slot, 16 bytes of zero; written down by hand. */
static const uint8_t header_4096[HEADER] = { 0x4c, 0x45, 0x54, 0x4f, 1, 0, 0, 0, 0x00, 0x10, 0, 0, 32 };

static bool region_at(uint64_t address, const uint8_t *header) {
        uint8_t bytes[HEADER] = { 0 };
        struct iovec local = { bytes, HEADER }, remote = { (void *)(uintptr_t)address, HEADER };

        return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == HEADER &&
                memcmp(bytes, header, HEADER) == 0;
}

/* Every page start of private anonymous memory that is readable and writable, as a stranger would look. */
static uint8_t *find_region(const uint8_t *header) {
        FILE *maps = fopen("/proc/self/maps", "re");
        unsigned long start, end, inode;
        uint8_t *found = NULL;
        char line[512], mode[5];

        while (!found && fgets(line, sizeof(line), maps)) {
                if (sscanf(line, "%lx-%lx %4s %*x %*s %lu", &start, &end, mode, &inode) != 4)
                        continue;
                if (inode || strcmp(mode, "rw-p") != 0)
                        continue;
                if (end - start > UINT64_C(1) << 30)    /* the terabytes that a sanitizer reserves */
                        continue;
                for (uint64_t page = start; !found && page < end; page += 4096)
                        if (region_at(page, header))
                                found = (uint8_t *)(uintptr_t)page;
        }
        fclose(maps);
        return found;
}

static uint8_t *start_4096(void) {
        struct spanprof_context_options options = { .size = sizeof(options), .capacity = 4096 };
        uint8_t *region;

        cr_assert_eq(spanprof_context_start(&options), 0);
        region = find_region(header_4096);
        cr_assert_not_null(region, "the region is found by its bytes");
        return region;
}

static uint8_t *slot_of(uint8_t *region, pid_t tid) {
        return region + HEADER + (size_t)SLOT * (uint32_t)(tid % 4096);
}

/* Ends this process at the next gettid(), and at no other system call. */
static bool forbid_gettid(void) {
        struct sock_filter code[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_gettid, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog filter = { sizeof(code) / sizeof(code[0]), code };

        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

static bool all_zero(const uint8_t *bytes, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (bytes[i])
                        return false;
        return true;
}

Test(sdk_context, publishes_a_header_at_a_page_start_and_withdraws_it) {
        uint8_t *region = start_4096();

        cr_assert_eq((uintptr_t)region % 4096, 0);
        cr_assert(all_zero(region + HEADER, (size_t)SLOT * 4096));
        spanprof_context_stop();
        cr_assert_null(find_region(header_4096));
        cr_assert(all_zero(region, HEADER), "the memory stays readable for a thread inside of set()");
}

Test(sdk_context, puts_the_ids_into_the_slot_of_the_calling_thread) {
        /*
         * 0x4bf92f3577b34da6, 0xa3ce929d0e0e4736, 0x00f067aa0ba902b7, little endian, then in_use and padding,
         * and the count of writes in its end
         */
        static const uint8_t expected[SLOT] = { 0xa6, 0x4d, 0xb3, 0x77, 0x35, 0x2f, 0xf9, 0x4b,
                                                0x36, 0x47, 0x0e, 0x0e, 0x9d, 0x92, 0xce, 0xa3,
                                                0xb7, 0x02, 0xa9, 0x0b, 0xaa, 0x67, 0xf0, 0x00,
                                                [COUNT] = 1 };
        uint8_t *region = start_4096(), *slot = slot_of(region, gettid());

        spanprof_context_set(0x4bf92f3577b34da6, 0xa3ce929d0e0e4736, 0x00f067aa0ba902b7);
        cr_assert_arr_eq(slot, expected, SLOT);
        cr_assert(all_zero(region + HEADER, (size_t)(slot - region) - HEADER), "no other slot is touched");
        cr_assert(all_zero(slot + SLOT, (size_t)(region + HEADER + SLOT * 4096 - slot) - SLOT));
        spanprof_context_clear();
        cr_assert(all_zero(slot, COUNT));
        cr_assert_eq(slot[COUNT], 2);
}

Test(sdk_context, refuses_what_no_reader_would_accept) {
        struct spanprof_context_options options = { .size = sizeof(options), .capacity = (1 << 24) + 1 };

        cr_assert_eq(spanprof_context_start(&options), -EINVAL);
        options = (struct spanprof_context_options){ .size = 4, .capacity = 4096 };
        cr_assert_eq(spanprof_context_start(&options), -EINVAL);
        cr_assert_null(find_region(header_4096));
        start_4096();
        cr_assert_eq(spanprof_context_start(NULL), -EALREADY);
}

Test(sdk_context, has_65536_slots_if_nothing_is_said) {
        /* as header_4096, with 0x10000 in the third word */
        static const uint8_t header[HEADER] = { 0x4c, 0x45, 0x54, 0x4f, 1, 0, 0, 0, 0, 0, 1, 0, 32 };

        cr_assert_eq(spanprof_context_start(NULL), 0);
        cr_assert_not_null(find_region(header));
}

Test(sdk_context, does_nothing_before_start_and_after_stop) {
        uint8_t *region;

        spanprof_context_set(1, 2, 3);
        spanprof_context_clear();
        spanprof_context_stop();
        region = start_4096();
        cr_assert(all_zero(slot_of(region, gettid()), SLOT));
        spanprof_context_set(1, 2, 3);
        spanprof_context_stop();
        spanprof_context_set(4, 5, 6);
        cr_assert(all_zero(region, HEADER + (size_t)SLOT * 4096));
}

Test(sdk_context, moves_threads_over_when_it_is_started_with_another_capacity) {
        /* 2 slots */
        static const uint8_t header[HEADER] = { 0x4c, 0x45, 0x54, 0x4f, 1, 0, 0, 0, 2, 0, 0, 0, 32 };
        struct spanprof_context_options options = { .size = sizeof(options), .capacity = 2 };
        uint8_t *old = start_4096(), *region;

        spanprof_context_set(1, 2, 3);
        spanprof_context_stop();
        cr_assert_eq(spanprof_context_start(&options), 0);
        region = find_region(header);
        cr_assert_not_null(region);
        spanprof_context_set(7, 8, 9);
        cr_assert_eq(region[HEADER + SLOT * (gettid() % 2) + 16], 9);
        cr_assert(all_zero(slot_of(old, gettid()), SLOT));
        spanprof_context_stop();
        region = start_4096();
        cr_assert_neq(region, old,
                      "a thread that was inside of set() all the time may still write to the old one");
        spanprof_context_set(1, 2, 4);
        cr_assert_eq(slot_of(region, gettid())[16], 4);
        cr_assert(all_zero(slot_of(old, gettid()), SLOT));
}

/* threads */

struct worker {
        uint8_t *region;
        pthread_key_t late_key;
        pid_t tid;
        uint8_t before_exit[SLOT];
};

static void *worker_main(void *data) {
        struct worker *worker = data;

        worker->tid = gettid();
        spanprof_context_set(10, 20, 30);
        memcpy(worker->before_exit, slot_of(worker->region, worker->tid), SLOT);
        return NULL;
}

Test(sdk_context, is_cleared_when_a_thread_ends) {
        struct worker worker = { .region = start_4096() };
        pthread_t thread;

        spanprof_context_set(1, 2, 3);
        cr_assert_eq(pthread_create(&thread, NULL, worker_main, &worker), 0);
        cr_assert_eq(pthread_join(thread, NULL), 0);
        cr_assert_eq(worker.before_exit[0], 10);
        cr_assert_eq(worker.before_exit[8], 20);
        cr_assert_eq(worker.before_exit[16], 30);
        cr_assert(all_zero(slot_of(worker.region, worker.tid), COUNT));
        cr_assert_eq(slot_of(worker.region, gettid())[16], 3, "the other thread keeps its own");
}

static void set_in_destructor(void *data) {
        spanprof_context_set(40, 50, 60);
}

static void *late_worker_main(void *data) {
        struct worker *worker = data;

        worker->tid = gettid();
        spanprof_context_set(10, 20, 30);
        pthread_setspecific(worker->late_key, data);
        return NULL;
}

Test(sdk_context, is_cleared_even_after_a_later_destructor_has_set_it_again) {
        struct worker worker = { .region = start_4096() };
        pthread_t thread;

        /* made after the library's own key, so its destructor runs after the library's */
        cr_assert_eq(pthread_key_create(&worker.late_key, set_in_destructor), 0);
        cr_assert_eq(pthread_create(&thread, NULL, late_worker_main, &worker), 0);
        cr_assert_eq(pthread_join(thread, NULL), 0);
        cr_assert(all_zero(slot_of(worker.region, worker.tid), COUNT));
}

/* fork */

static int wait_status(pid_t pid) {
        int status = -1;

        waitpid(pid, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Exit status of the child: which look went wrong, 0 = none. */
static int child_looks(uint8_t *region, pid_t parent_tid) {
        if (memcmp(region, header_4096, HEADER) != 0)
                return 1;
        if (!all_zero(region + HEADER, (size_t)SLOT * 4096))
                return 2;
        spanprof_context_set(70, 80, 90);
        if (slot_of(region, gettid())[16] != 90 || !all_zero(slot_of(region, parent_tid), SLOT))
                return 3;
        return 0;
}

Test(sdk_context, gives_a_forked_child_a_region_without_its_parents_context) {
        uint8_t *region = start_4096();
        pid_t pid, parent_tid = gettid();

        spanprof_context_set(1, 2, 3);
        pid = fork();
        if (pid == 0)
                _exit(child_looks(region, parent_tid));
        cr_assert_eq(wait_status(pid), 0);
        cr_assert_eq(slot_of(region, parent_tid)[16], 3, "the parent keeps its own");
}

Test(sdk_context, shows_nothing_in_a_child_of_a_bare_fork_system_call) {
        uint8_t *region = start_4096();
        pid_t pid;

        spanprof_context_set(1, 2, 3);
        pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (pid == 0)
                _exit(all_zero(region, HEADER + (size_t)SLOT * 4096) ? 0 : 1);
        cr_assert_eq(wait_status(pid), 0);
}

/* A reader that looks after each instruction of the writer */

static void handler_sets(int signal) {
        spanprof_context_set(0x4444, 0x5555, 0x6666);
}

/* Between its two stops it writes one context over another. */
static void traced_main(void) {
        signal(SIGUSR1, handler_sets);
        spanprof_context_set(1, 2, 3);
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        spanprof_context_set(0x1111, 0x2222, 0x3333);
        raise(SIGSTOP);
        _exit(0);
}

struct snapshot {
        uint64_t high, low, span;
        uint8_t in_use;
};

static struct snapshot read_slot(pid_t pid, uint8_t *slot) {
        struct snapshot snapshot = { 0 };
        struct iovec local = { &snapshot, 25 }, remote = { slot, 25 };

        cr_assert_eq(process_vm_readv(pid, &local, 1, &remote, 1, 0), 25);
        return snapshot;
}

static bool snapshot_is(struct snapshot s, uint64_t high, uint64_t low, uint64_t span) {
        return s.high == high && s.low == low && s.span == span;
}

static bool is_whole(struct snapshot s) {
        return snapshot_is(s, 1, 2, 3) || snapshot_is(s, 0x1111, 0x2222, 0x3333) ||
               snapshot_is(s, 0x4444, 0x5555, 0x6666);
}

struct stepping {
        unsigned int n_steps;           /* until the second stop */
        unsigned int first_write, last_write;   /* steps at which in_use was 1 */
        unsigned int n_busy;
};

/*
 * Runs the writer instruction by instruction and looks at its slot after each.
 * With @signal_at a handler that sets as well is started before that step.
 */
static struct stepping step_writer(uint8_t *region, unsigned int signal_at) {
        struct stepping result = { 0 };
        struct snapshot s;
        int status, signal;
        pid_t pid;

        fflush(NULL);
        pid = fork();
        if (pid == 0)
                traced_main();
        waitpid(pid, &status, 0);
        for (;;) {
                signal = result.n_steps + 1 == signal_at ? SIGUSR1 : 0;
                cr_assert_eq(ptrace(PTRACE_SINGLESTEP, pid, 0, signal), 0);
                waitpid(pid, &status, 0);
                if (!WIFSTOPPED(status) || WSTOPSIG(status) == SIGSTOP)
                        break;
                cr_assert_eq(WSTOPSIG(status), SIGTRAP);
                result.n_steps++;
                s = read_slot(pid, slot_of(region, pid));
                cr_assert(s.in_use || is_whole(s), "mixed slot after step %u: %lx %lx %lx", result.n_steps,
                          s.high, s.low, s.span);
                if (!s.in_use)
                        continue;
                result.n_busy++;
                result.first_write = result.first_write ? result.first_write : result.n_steps;
                result.last_write = result.n_steps;
        }
        cr_assert(WIFSTOPPED(status));
        s = read_slot(pid, slot_of(region, pid));
        cr_assert_eq(s.in_use, 0, "the slot is left readable (signal at step %u)", signal_at);
        cr_assert(snapshot_is(s, 0x1111, 0x2222, 0x3333) ||
                  (signal_at && snapshot_is(s, 0x4444, 0x5555, 0x6666)));
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        return result;
}

Test(sdk_context, is_whole_or_marked_busy_at_each_instruction_of_a_write) {
        struct stepping result = step_writer(start_4096(), 0);

        cr_assert_geq(result.n_busy, 3, "three ids are stored while it is marked");
        cr_assert_gt(result.first_write, 1);
        cr_assert_lt(result.last_write, result.n_steps);
}

Test(sdk_context, is_whole_when_a_handler_that_sets_interrupts_any_instruction_of_a_write, .timeout = 100) {
        uint8_t *region = start_4096();
        struct stepping plain = step_writer(region, 0);

        for (unsigned int at = plain.first_write - 8; at <= plain.last_write + 4; at++)
                step_writer(region, at);
}

/* A reader on the other CPU: ids, flag, ids (the writer's file says why that is enough) */

static _Atomic(uint8_t *) shared_slot;
static atomic_bool writer_stops;

static void *writer_main(void *data) {
        uint64_t n = 0;

        spanprof_context_set(0, 0, 0);
        atomic_store(&shared_slot, slot_of(data, gettid()));
        while (!atomic_load_explicit(&writer_stops, memory_order_relaxed)) {
                n++;
                spanprof_context_set(n, ~n, n * 3);
        }
        return NULL;
}

static void read_ids(const uint64_t *slot, uint64_t ids[3]) {
        for (int i = 0; i < 3; i++)
                ids[i] = __atomic_load_n(&slot[i], __ATOMIC_ACQUIRE);
}

static bool read_whole(const uint8_t *slot, uint64_t ids[3]) {
        uint64_t again[3];
        uint8_t in_use;

        read_ids((const uint64_t *)slot, ids);
        in_use = __atomic_load_n(slot + IN_USE, __ATOMIC_ACQUIRE);
        read_ids((const uint64_t *)slot, again);
        return !in_use && memcmp(ids, again, sizeof(again)) == 0;
}

Test(sdk_context, never_shows_a_mixed_slot_to_a_reader_on_another_cpu) {
        uint8_t *region = start_4096(), *slot;
        unsigned int n_distinct = 0;
        uint64_t ids[3], last = 0;
        pthread_t thread;

        cr_assert_eq(pthread_create(&thread, NULL, writer_main, region), 0);
        while (!(slot = atomic_load(&shared_slot)))
                sched_yield();
        /*
         * the writer may be off its CPU for as long as the machine is full: wait until it has been seen at
         * work
         */
        for (unsigned int i = 0; i < 3000000 || n_distinct < 1000; i++) {
                if (!read_whole(slot, ids) || ids[2] == 0)
                        continue;
                cr_assert(ids[1] == ~ids[0] && ids[2] == ids[0] * 3, "mixed: %lx %lx %lx", ids[0], ids[1],
                          ids[2]);
                n_distinct += ids[0] != last;
                last = ids[0];
        }
        atomic_store(&writer_stops, true);
        pthread_join(thread, NULL);
}

static void *get_without_set(void *data) {
        uint64_t span = 0, root = 0;

        *(bool *)data = spanprof_api_get(&span, &root);
        return NULL;
}

/* All threads share the one slot of this ring: what another has set is no context of mine. */
Test(sdk_context, a_thread_that_never_set_has_no_context) {
        struct spanprof_context_options options = { .size = sizeof(options), .capacity = 1 };
        uint64_t span, root;
        pthread_t thread;
        bool got = true;

        cr_assert_eq(spanprof_context_start(&options), 0);
        spanprof_context_set(1, 2, 3);
        cr_assert_eq(pthread_create(&thread, NULL, get_without_set, &got), 0);
        pthread_join(thread, NULL);
        cr_assert_not(got, "of the other thread, which has the same slot");
        cr_assert(spanprof_api_get(&span, &root) && span == 3 && root == 2, "the own context is there");
        spanprof_context_stop();
        cr_assert_not(spanprof_api_get(&span, &root), "nothing after the end");
        options.capacity = 2;
        cr_assert_eq(spanprof_context_start(&options), 0);
        cr_assert_not(spanprof_api_get(&span, &root), "nothing in a new ring before its first set()");
        spanprof_context_stop();
}

Test(sdk_context, get_makes_no_system_call) {
        uint64_t span, root;
        int status;
        pid_t pid;

        start_4096();
        pid = fork();
        if (!pid) {
                bool right;

                spanprof_context_set(1, 2, 3);
                if (!forbid_gettid())
                        _exit(2);
                right = spanprof_api_get(&span, &root) && span == 3 && root == 2;
                _exit(right ? 0 : 1);
        }
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", (unsigned int)status);
        spanprof_context_stop();
}
