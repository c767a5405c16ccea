/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A child does it: whatever happens to it, even if it is killed in the middle, the kernel lets go of the
 * threads that it holds. It writes into memory that both share, and may be stopped at any time: what it has
 * not reached is THREAD_LOOK_NOT.
 *
 * PTRACE_SEIZE and PTRACE_INTERRUPT stop a thread without a signal that shows, and a system call that it
 * sleeps in goes on afterwards, but for those that signal(7) names as never restarted. These are told by
 * /proc/PID/task/TID/syscall, and their threads left alone.
 */
#include "host/sampling/context/thread-look.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "border/runtime_abi.h"
#include "core/base/file/directory.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"

enum {
        MAX_THREADS = 1 << 14,
        /* for one thread: a full machine lets it run, and so stop, that much later */
        STOP_MS = 5000,
        ALL_MS = 20000,                 /* for all */
        KILL_MS = 500,
};

typedef struct Target {
        const Process *process;
        ThreadMemory memory;
} Target;

/*
 * Whether it sleeps in a call that signal(7) lists among those that fail with EINTR after a stop, whatever
 * handler there is.
 */
static bool is_in_such_a_call(const Target *target, uint32_t tid) {
        static const long calls[] = { SYS_epoll_pwait,     441 /* epoll_pwait2 */,
                                      SYS_semop,           SYS_semtimedop,
                                      SYS_msgrcv,          SYS_msgsnd,
                                      SYS_rt_sigtimedwait, SYS_io_getevents,
#ifdef SYS_epoll_wait
                                      SYS_epoll_wait,      /* newer processors have only its successor */
#endif
        };
        char path[64], text[64] = "";
        long call;
        int fd;

        snprintf(path, sizeof(path), "/proc/%u/task/%u/syscall", target->process->pid, tid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return false;
        if (read(fd, text, sizeof(text) - 1) <= 0)
                text[0] = 0;
        close(fd);
        if (text[0] < '0' || text[0] > '9')
                return false;           /* the thread runs */
        call = strtol(text, NULL, 10);
        for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
                if (call == calls[i])
                        return true;
        return false;
}

/* Return: whether it has stopped. */
static bool wait_stop(uint32_t tid) {
        const struct timespec pause = { .tv_nsec = 50000 };
        uint64_t end_ns = clock_read_ns(CLOCK_MONOTONIC) + STOP_MS * NS_PER_MS;
        int status, r;

        do {
                r = waitpid((pid_t)tid, &status, __WALL | WNOHANG);
                if (r)
                        return r > 0 && WIFSTOPPED(status);
                nanosleep(&pause, NULL);
        } while (clock_read_ns(CLOCK_MONOTONIC) < end_ns);
        return false;
}

/* Return: false = the thread's pointer cannot be had. */
static bool read_pointer(uint32_t tid, uint64_t *pointerp) {
#ifdef __aarch64__
        struct iovec vector = { pointerp, sizeof(*pointerp) };

        return !ptrace(PTRACE_GETREGSET, tid, (void *)NT_ARM_TLS, &vector);
#else
        struct user_regs_struct registers = { 0 };
        struct iovec vector = { &registers, sizeof(registers) };

        if (ptrace(PTRACE_GETREGSET, tid, (void *)NT_PRSTATUS, &vector))
                return false;
        *pointerp = registers.fs_base;
        return true;
#endif
}

/*
 * Reads the record once more while its thread stands still: then another thread alone can have changed it.
 * V8's collector moves the objects on the way to a record of Node, so the same record is compared there.
 */
static bool has_changed(const Target *target, uint64_t pointer, const ThreadLook *look) {
        ThreadLook again;

        thread_record_read(&target->memory, pointer, &again);
        if (again.record != look->record)
                return target->memory.thread->form != ABI_FORM_NODE;
        if (again.outcome != look->outcome || again.attributes_size != look->attributes_size)
                return true;
        return memcmp(again.attributes, look->attributes, look->attributes_size) ||
               (again.outcome == THREAD_LOOK_PRESENT && memcmp(&again.span, &look->span, sizeof(look->span)));
}

/* A thread that does not stop (it sleeps uninterruptibly) stays attached until this process ends. */
static void look_at(const Target *target, ThreadLook *look) {
        uint64_t pointer;

        look->outcome = THREAD_LOOK_ASLEEP;
        if (is_in_such_a_call(target, look->tid))
                return;
        look->outcome = THREAD_LOOK_NOT;
        if (ptrace(PTRACE_SEIZE, look->tid, NULL, NULL) || ptrace(PTRACE_INTERRUPT, look->tid, NULL, NULL) ||
            !wait_stop(look->tid))
                return;
        if (read_pointer(look->tid, &pointer)) {
                thread_record_read(&target->memory, pointer, look);
                look->is_changed = has_changed(target, pointer, look);
        }
        ptrace(PTRACE_DETACH, look->tid, NULL, NULL);
}

/* In the child. */
static void look_at_all(const Process *process, const ThreadContext *thread, ThreadLook *looks,
                        size_t n) {
        Target target = { .process = process };

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        thread_memory_open(&target.memory, (pid_t)process->pid, process->start_time_ns, thread);
        for (size_t i = 0; i < n; i++)
                look_at(&target, &looks[i]);
}

static int compare_tids(const void *a, const void *b) {
        const ThreadLook *x = a, *y = b;

        return (x->tid > y->tid) - (x->tid < y->tid);
}

static size_t list_threads(const Process *process, ThreadLook *looks) {
        _cleanup_(closedirp) DIR *dir = NULL;
        char path[32];
        size_t n = 0;

        snprintf(path, sizeof(path), "/proc/%u/task", process->pid);
        dir = opendir(path);
        while (dir && n < MAX_THREADS && directory_next_number(dir, &looks[n].tid))
                n++;
        qsort(looks, n, sizeof(*looks), compare_tids);
        return n;
}

/* The end of the child lets all threads go; one that cannot end yet (its read hangs) is left behind. */
static void wait_child(pid_t pid) {
        const struct timespec pause = { .tv_nsec = 1000000 };
        uint64_t end_ns = clock_read_ns(CLOCK_MONOTONIC) + ALL_MS * NS_PER_MS;
        bool killed = false;

        while (!waitpid(pid, NULL, WNOHANG)) {
                if (clock_read_ns(CLOCK_MONOTONIC) > end_ns + (killed ? KILL_MS * NS_PER_MS : 0)) {
                        if (killed)
                                return;
                        kill(pid, SIGKILL);
                        killed = true;
                }
                nanosleep(&pause, NULL);
        }
}

int thread_look_all(const Process *process, const ThreadContext *thread, ThreadLook **looksp, size_t *np) {
        ThreadLook *looks = mmap(NULL, MAX_THREADS * sizeof(*looks), PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        size_t n;
        pid_t pid;

        if (looks == MAP_FAILED)
                return error_origin(-errno);
        n = list_threads(process, looks);
        pid = n ? fork() : 0;
        if (pid < 0) {
                thread_look_free(looks, n);
                return error_origin(-errno);
        }
        if (n && pid == 0) {
                look_at_all(process, thread, looks, n);
                _exit(0);
        }
        if (n)
                wait_child(pid);
        *looksp = looks;
        *np = n;
        return 0;
}

void thread_look_free(ThreadLook *looks, size_t n) {
        if (looks)
                munmap(looks, MAX_THREADS * sizeof(*looks));
}
