/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <time.h>

#include "child.h"
#include "core/base/util/clock.h"
#include "oracle.h"
#include "process-bench.h"

Test(process_parse_stat, counts_fields_from_the_last_parenthesis) {
        /* Fields as in proc_pid_stat(5): flags 9, threads 20, start 22, stack 28. */
        static const char text[] =
                "812 (a) S 1 (b) c) S 1 812 812 0 -1 4194560 100 0 0 0 5 3 0 0 20 0 7 0 98765 1 1 18446744073709551615 4 5 140721 0 0";
        ProcessStat stat;

        cr_assert_eq(process_parse_stat(text, sizeof(text) - 1, &stat), 0);
        cr_assert_eq(stat.state, 'S');
        cr_assert_eq(stat.n_threads, 7);
        cr_assert_eq(stat.start_time_ns, UINT64_C(987650000000));
        cr_assert_eq(stat.stack_start, 140721);
        cr_assert(!stat.is_kernel);
}

Test(process_parse_stat, refuses_any_cut) {
        static const char text[] =
                "812 (x) S 1 812 812 0 -1 69238880 0 0 0 0 0 0 0 0 20 0 1 0 98765 1 1 2 3 4 5";
        ProcessStat stat;
        char copy[128];

        cr_assert_eq(process_parse_stat(text, sizeof(text) - 1, &stat), 0);
        cr_assert(stat.is_kernel);              /* 0x4208060 … with PF_KTHREAD 0x200000 */
        for (size_t n = 0;
             n < strlen("812 (x) S 1 812 812 0 -1 69238880 0 0 0 0 0 0 0 0 20 0 1 0 98765 1 1 2 3 4 "); n++) {
                memcpy(copy, text, n);
                copy[n] = 0;
                cr_expect_eq(process_parse_stat(copy, n, &stat), 1, "%s", copy);
        }
}

Test(process, knows_itself_as_proc_does) {
        unsigned long long start;
        Process *process;
        char exe[4096], line[64];
        ssize_t n;

        prctl(PR_SET_NAME, "a (b) c\n");
        cr_assert_eq(process_new(&process, getpid()), 0);
        n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
        exe[n] = 0;
        cr_assert_str_eq(process->exe, exe);
        cr_assert_str_eq(process->comm, "a (b) c\n");
        snprintf(line, sizeof(line), "tail -n1 /proc/%d/stat | sed 's/.*) //' | cut -d' ' -f20", getpid());
        cr_assert(oracle_line(line, line, sizeof(line)));
        start = strtoull(line, NULL, 10);
        cr_assert_eq(process->start_time_ns, start * ABI_START_TICK_NS);
        cr_assert_leq(process->start_time_ns, clock_read_ns(CLOCK_BOOTTIME));
        process_free(process);
}

Test(process, that_is_gone_is_a_condition) {
        OracleChild child = oracle_spawn("/bin/cat", "/proc/self/comm");
        ObjectCache *objects = cache();
        uint64_t cpu_ns = 77;
        Process *process;
        int fd;

        cr_assert_str_eq(child.line, "cat");
        oracle_end(&child);
        cr_assert_eq(process_new(&process, child.pid), PROCESS_E_GONE);

        child = oracle_spawn("/usr/bin/yes", NULL);
        cr_assert_eq(process_new(&process, child.pid), 0);
        cr_assert_eq(process_read_mappings(process, objects), 0);
        cr_assert_gt(process->n_mappings, 2);
        cr_assert_eq(process_cpu_time(process, &cpu_ns), 0);
        cr_assert_eq(process_open(child.pid, process->start_time_ns + ABI_START_TICK_NS, &fd),
                     PROCESS_E_GONE);
        kill(child.pid, SIGKILL);
        waitid(P_PID, (id_t)child.pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT);
        /* A zombie: it has an id still, but nothing to see. The old mappings stay. */
        cr_assert_eq(process_read_mappings(process, objects), PROCESS_E_GONE);
        cr_assert_gt(process->n_mappings, 2);
        oracle_end(&child);
        cpu_ns = 77;
        cr_assert_eq(process_cpu_time(process, &cpu_ns), PROCESS_E_GONE);
        cr_assert_eq(cpu_ns, 77);
        process_free(process);
        object_cache_free(objects);
}

Test(process, has_the_cpu_time_of_all_its_threads) {
        uint64_t before_ns, cpu_ns, after_ns;
        Process *process;

        cr_assert_eq(process_new(&process, getpid()), 0);
        for (volatile int i = 0; i < 30000000; i++)
                ;
        before_ns = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
        cr_assert_eq(process_cpu_time(process, &cpu_ns), 0);
        after_ns = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
        cr_assert_geq(cpu_ns, before_ns);
        cr_assert_leq(cpu_ns, after_ns);
        process_free(process);
}

/* ---- leaders that exit first, and forks ---- */

static void *sleep_on(void *unused) {
        while (pause())
                ;
        return unused;
}

static void leave_a_thread(int ready, int go) {
        pthread_t thread;

        pthread_create(&thread, NULL, sleep_on, NULL);
        say(ready);
        pthread_exit(NULL);
}

/* A process whose leader has exited; its thread goes on. */
static Child start_leaderless(void) {
        Child child = child_start(leave_a_thread);
        ProcessStat stat = { 0 };
        char comm[ABI_COMM_SIZE];

        for (int i = 0; i < 6000 && stat.state != 'Z'; i++) {
                usleep(10000);
                cr_assert_eq(process_identify(child.pid, &stat, comm), 0);
        }
        cr_assert_eq(stat.state, 'Z');
        return child;
}

Test(process, is_known_by_its_threads_when_its_leader_is_dead) {
        Child child = start_leaderless();
        pid_t pid = child.pid, tid;
        ObjectCache *objects = cache();
        Process *process, *self;
        int fd;

        cr_assert_eq(process_open_living(pid, 0, &fd, &tid), 0);
        cr_assert_neq(tid, pid);
        close(fd);
        cr_assert_eq(process_new(&process, pid), 0);
        cr_assert_eq(process_new(&self, getpid()), 0);
        cr_assert_str_eq(process->exe, self->exe);
        cr_assert_eq(process_read_mappings(process, objects), 0);
        cr_assert_eq(process_read_mappings(self, objects), 0);
        cr_assert_geq(process->n_mappings, self->n_mappings, "forked from us");
        cr_assert_eq(process->mappings[0].object, self->mappings[0].object);
        cr_assert_eq(process_open_living(pid, process->start_time_ns + 1, &fd, &tid), PROCESS_E_GONE);
        child_stop(&child);
        cr_assert_eq(process_open_living(pid, 0, &fd, &tid), PROCESS_E_GONE);
        process_free(process);
        process_free(self);
        object_cache_free(objects);
}

Test(process, inherits_what_its_parent_had_at_the_fork) {
        static const char comm[ABI_COMM_SIZE] = "child";
        ObjectCache *objects = cache();
        Process *parent, *child;
        Mapping mapping;
        uint64_t fork_ns;

        cr_assert_eq(process_new(&parent, getpid()), 0);
        cr_assert_eq(process_read_mappings(parent, objects), 0);
        fork_ns = parent->maps_read_ns + 100;
        mapping = (Mapping){ .start = parent->mappings[0].start,
                             .end = parent->mappings[0].end,
                             .kind = MAPPING_ANONYMOUS,
                             .path = strdup("") };
        cr_assert_eq(process_change(parent, &mapping, fork_ns + 100), 0);      /* after it */
        cr_assert_eq(process_new_gone(&child, 7, 1, comm), 0);
        cr_assert_eq(process_inherit(child, parent, fork_ns), 0);
        cr_assert_str_eq(child->exe, parent->exe);
        cr_assert_eq(child->n_mappings, parent->n_mappings);
        cr_assert_eq(parent->mappings[0].kind, MAPPING_ANONYMOUS);
        cr_assert_eq(process_find_mapping(child, parent->mappings[0].start)->kind, MAPPING_FILE);
        cr_assert_str_eq(child->mappings[1].path, parent->mappings[1].path);
        process_free(parent);
        cr_assert_not_null(child->mappings[1].path, "its own");
        process_free(child);
        object_cache_free(objects);
}
