/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/util/clock.h"
#include "desk/coro/engine/contention.h"

enum { OTHERS = 3 };

static bool over;
static pid_t others[OTHERS];

static void *compute(void *userdata) {
        pid_t *tid = userdata;

        __atomic_store_n(tid, (pid_t)syscall(SYS_gettid), __ATOMIC_SEQ_CST);
        while (!__atomic_load_n(&over, __ATOMIC_RELAXED))
                ;
        return NULL;
}

/* All threads that are started from here on share one CPU. */
static void share_a_cpu(void) {
        cpu_set_t set;

        CPU_ZERO(&set);
        CPU_SET(sched_getcpu(), &set);
        cr_assert_eq(sched_setaffinity(0, sizeof(set), &set), 0);
}

static bool is_other(pid_t tid) {
        for (int i = 0; i < OTHERS; i++)
                if (tid == others[i])
                        return true;
        return tid == getpid();
}

/* Times that threads which are not this test's own gave up a CPU by themselves. */
static unsigned long n_looks(void) {
        DIR *tasks = opendir("/proc/self/task");
        unsigned long sum = 0, n;
        struct dirent *entry;

        cr_assert(tasks);
        while ((entry = readdir(tasks))) {
                char path[300], line[128];
                FILE *file;

                snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
                if (*entry->d_name == '.' || is_other(atoi(entry->d_name)) || !(file = fopen(path, "r")))
                        continue;
                while (fgets(line, sizeof(line), file))
                        if (sscanf(line, "voluntary_ctxt_switches: %lu", &n) == 1)
                                sum += n;
                fclose(file);
        }
        closedir(tasks);
        return sum;
}

/* Updates for @ns of time. Return: whether there was contention at the end. */
static bool update_for(Contention *contention, uint64_t ns) {
        uint64_t end_ns = clock_monotonic_ns() + ns, now_ns;
        bool is_there = false;

        while ((now_ns = clock_monotonic_ns()) < end_ns)
                is_there = contention_update(contention, now_ns, true);
        return is_there;
}

Test(contention, is_seen_where_others_share_the_cpu_and_is_looked_at) {
        pthread_t threads[OTHERS];
        Contention *contention;
        unsigned long before;

        if (access("/proc/thread-self/schedstat", R_OK))
                cr_skip_test("this kernel does not count waits for a CPU");
        cr_assert_eq(contention_new(&contention), 0);
        share_a_cpu();
        for (int i = 0; i < OTHERS; i++)
                cr_assert_eq(pthread_create(&threads[i], NULL, compute, &others[i]), 0);
        for (int i = 0; i < OTHERS; i++)
                while (!__atomic_load_n(&others[i], __ATOMIC_SEQ_CST))
                        sched_yield();
        /* until long after the first 100 ms, in which it is assumed */
        cr_expect(update_for(contention, NS_PER_SEC));
        before = n_looks();
        cr_expect(update_for(contention, NS_PER_SEC / 2));
        cr_expect_gt(n_looks(), before);
        over = true;
        for (int i = 0; i < OTHERS; i++)
                pthread_join(threads[i], NULL);
        cr_expect_null(contention_free(contention));
}

/* It sleeps between its updates, so it waits for no CPU; a busy machine may make it. */
Test(contention, ends_a_second_after_it_was_seen_last) {
        Contention *contention;
        uint64_t now_ns = NS_PER_SEC;

        cr_assert_eq(contention_new(&contention), 0);
        contention_update(contention, now_ns, true);
        /* time that passes here alone: the kernel's count of waits is far less than a 25th of it */
        for (int i = 0; i < 3; i++)
                contention_update(contention, now_ns += 100 * NS_PER_SEC, true);
        cr_expect_not(contention_update(contention, now_ns, true));
        cr_expect_null(contention_free(contention));
        cr_expect_null(contention_free(NULL));
}
