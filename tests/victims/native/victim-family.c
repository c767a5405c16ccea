/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-family MODE N MS [PROGRAM…]: processes that begin and end in unusual ways
 * victim-family MS: one that burns in family_child()
 *
 *     fork        N children, one after the other, each burns MS ms of CPU in family_child() and ends; no
 *                 exec
 *     grandchild  the same, but each child forks one that burns in family_child(), and ends with it
 *     vfork       N children by vfork(): they burn in our memory, then end
 *     leaderless  the leader exits, then N threads, named of-its-own, burn MS ms each in family_thread()
 *     outlive     N threads burn MS ms each; the leader burns a third of that in family_leader(), then exits
 *     reuse       N processes, one after the other, all with one pid: they execute the PROGRAMs (one path
 *                 each) in turn, with MS as argument
 *
 * Prints first, then a line for each child that it started, and at the end:
 *     pid 4711
 *     child 4712
 *     cpu_ns 20013847             of children and threads together
 */
#include <errno.h>
#include <linux/sched.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "victim.h"

static uint64_t burn_ns;

STEP void family_child(void);
STEP void family_thread(void);
STEP void family_leader(uint64_t cpu_ns);

static inline __attribute__((__always_inline__)) void burn(uint64_t cpu_ns) {
        uint64_t end_ns = victim_cpu_ns() + cpu_ns;

        while (victim_cpu_ns() < end_ns)
                victim_sink = victim_spin(victim_sink, 5000);
}

STEP void family_child(void) {
        KEEP_FRAME();
        burn(burn_ns);
}

STEP void family_thread(void) {
        KEEP_FRAME();
        burn(burn_ns);
}

STEP void family_leader(uint64_t cpu_ns) {
        KEEP_FRAME();
        burn(cpu_ns);
}

static void fail(const char *what) {
        fprintf(stderr, "victim-family: %s: %s\n", what, strerror(errno));
        exit(1);
}

static void await(pid_t pid) {
        int status;

        if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
                fail("child");
        printf("child %d\n", pid);
        fflush(stdout);
}

static void by_fork(void) {
        pid_t pid = fork();

        if (!pid) {
                family_child();
                _exit(0);
        }
        await(pid);
}

static void by_grandchild(void) {
        pid_t pid = fork();

        if (!pid) {
                by_fork();
                _exit(0);
        }
        await(pid);
}

static void by_vfork(void) {
        pid_t pid = vfork();

        if (!pid) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);       /* a parent that waits like this can only be killed */
                family_child();
                _exit(0);
        }
        await(pid);
}

/* With the id of the one before it, if there was one. */
static pid_t reuse(pid_t pid, char *program, char *ms) {
        struct clone_args args = { .exit_signal = SIGCHLD };
        pid_t child;

        if (pid) {
                args.set_tid = (uintptr_t)&pid;
                args.set_tid_size = 1;
        }
        child = (pid_t)syscall(SYS_clone3, &args, sizeof(args));

        if (!child) {
                char *argv[] = { program, ms, NULL };

                execv(program, argv);
                _exit(127);
        }
        await(child);
        return child;
}

/* The last thread that ends prints the sum. */
static pthread_barrier_t barrier;

static void *run_last(void *unused) {
        struct rusage usage;

        pthread_setname_np(pthread_self(), "of-its-own");
        family_thread();
        if (pthread_barrier_wait(&barrier) != PTHREAD_BARRIER_SERIAL_THREAD)
                return NULL;
        getrusage(RUSAGE_SELF, &usage);
        printf("cpu_ns %lu\n", (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000 +
                                       (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000);
        fflush(stdout);
        return NULL;
}

static void leave_threads(unsigned n, uint64_t leader_ns) {
        pthread_t thread;

        pthread_barrier_init(&barrier, NULL, n);
        for (unsigned i = 0; i < n; i++)
                if (pthread_create(&thread, NULL, run_last, NULL))
                        fail("thread");
        if (leader_ns)
                family_leader(leader_ns);
        pthread_exit(NULL);
}

int main(int argc, char **argv) {
        static const char usage[] =
                "victim-family fork|grandchild|vfork|leaderless|outlive|reuse N MS [PROGRAM…]";
        unsigned n = (unsigned)victim_argument(argc, argv, 2, 1, 1, 1e6, usage);
        const char *mode = argc > 1 ? argv[1] : "";
        struct rusage children;
        pid_t pid = 0;

        if (argc == 2) {
                burn_ns = (uint64_t)(victim_argument(argc, argv, 1, 20, 0, 1e6, usage) * 1e6);
                family_child();
                return 0;
        }
        burn_ns = (uint64_t)(victim_argument(argc, argv, 3, 20, 0, 1e6, usage) * 1e6);
        printf("pid %d\n", getpid());
        fflush(stdout);
        if (!strcmp(mode, "leaderless"))
                leave_threads(n, 0);
        if (!strcmp(mode, "outlive"))
                leave_threads(n, burn_ns / 3);
        for (unsigned i = 0; i < n; i++)
                if (!strcmp(mode, "fork"))
                        by_fork();
                else if (!strcmp(mode, "grandchild"))
                        by_grandchild();
                else if (!strcmp(mode, "vfork"))
                        by_vfork();
                else if (!strcmp(mode, "reuse") && argc > 4)
                        pid = reuse(pid, argv[4 + i % (unsigned)(argc - 4)], argv[3]);
                else
                        fail(usage);
        getrusage(RUSAGE_CHILDREN, &children);
        printf("cpu_ns %lu\n",
               (uint64_t)(children.ru_utime.tv_sec + children.ru_stime.tv_sec) * 1000000000 +
                       (uint64_t)(children.ru_utime.tv_usec + children.ru_stime.tv_usec) * 1000);
        return 0;
}
