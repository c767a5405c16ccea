/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A child does it: whatever happens to it, even if it is killed in the middle, the kernel lets go of the
 * threads that it holds. It writes into memory that both share, and may be stopped at any time: what it has
 * not reached is THREAD_LOOK_NOT.
 *
 * PTRACE_SEIZE and PTRACE_INTERRUPT stop a thread without a signal that anybody could see, and a system call
 * that it sleeps in goes on afterwards, but for those that signal(7) names as never restarted. These are told
 * by /proc/PID/task/TID/syscall, and their threads left alone.
 *
 * The way to the record is the one of bpf/context.bpf.h. Only pages that are there are read (pagemap), so
 * that no read waits for a server that the target has chosen.
 */
#include "sampling/context/thread-look.h"

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

#include "base/util/clock.h"
#include "base/util/directory.h"
#include "base/util/error.h"
#include "base/util/macro.h"
#include "runtime_abi.h"
#include "sampling/context/goroutine-labels.h"
#include "spanprof/thread.h"
#include "tls_abi.h"

enum {
        MAX_THREADS = 1 << 14,
        MAX_MODULE = 1 << 16,
        ADDRESS_BITS = TLS_IS_ABOVE ? 48 : 47,          /* of a program's memory */
        /* for one thread: a full machine lets it run, and so stop, that much later */
        STOP_MS = 5000,
        ALL_MS = 20000,                 /* for all */
        KILL_MS = 500,
        ELASTIC_LAYOUT = 1,
        MAX_LABELS = 1 << 10,           /* of a set, for people to read */
};

typedef struct Target {
        const Process *process;
        const ThreadContext *thread;
        int memory, pages;              /* /proc/PID/mem and pagemap */
} Target;

static bool read_memory(const Target *target, uint64_t address, void *to, size_t size) {
        uint64_t entry, page_size = (uint64_t)sysconf(_SC_PAGESIZE);

        if (address >> ADDRESS_BITS || (address + size) >> ADDRESS_BITS)
                return false;
        for (uint64_t page = address / page_size; page <= (address + size - 1) / page_size; page++)
                if (pread(target->pages, &entry, sizeof(entry), (off_t)(page * sizeof(entry))) !=
                            sizeof(entry) ||
                    !(entry >> 62))
                        return false;
        return pread(target->memory, to, size, (off_t)address) == (ssize_t)size;
}

/*
 * The thread's block of the module that has the variable. Return: PRESENT, NONE = it has got none yet,
 * UNREADABLE.
 */
static ThreadLookOutcome find_block(const Target *target, uint64_t dtv, uint64_t *blockp) {
        const ThreadContext *thread = target->thread;
        uint64_t n, size = thread->model == ABI_THREAD_MUSL ? 8 : 16;

        if (!thread->module || thread->module > MAX_MODULE ||
            !read_memory(target, size == 16 ? dtv - 16 : dtv, &n, sizeof(n)))
                return THREAD_LOOK_UNREADABLE;
        if (thread->module > n)
                return THREAD_LOOK_NONE;
        if (!read_memory(target, dtv + thread->module * size, blockp, sizeof(*blockp)))
                return THREAD_LOOK_UNREADABLE;
        return *blockp && *blockp != UINT64_MAX ? THREAD_LOOK_PRESENT : THREAD_LOOK_NONE;
}

static ThreadLookOutcome find_record(const Target *target, uint64_t pointer, uint64_t *recordp) {
        const ThreadContext *thread = target->thread;
        ThreadLookOutcome outcome;
        uint64_t head[2], base = pointer;
        int below = TLS_IS_ABOVE && thread->model == ABI_THREAD_MUSL ? TLS_DTV_MUSL : 0;

        if (!read_memory(target, pointer + (uint64_t)below, head, sizeof(head)) ||
            (!TLS_IS_ABOVE && head[0] != pointer))
                return THREAD_LOOK_UNREADABLE;
        if (thread->model != ABI_THREAD_STATIC) {
                outcome = find_block(target, head[!TLS_IS_ABOVE], &base);
                if (outcome != THREAD_LOOK_PRESENT)
                        return outcome;
        }
        if (!read_memory(target, base + (uint64_t)thread->offset, recordp, sizeof(*recordp)))
                return THREAD_LOOK_UNREADABLE;
        return *recordp ? THREAD_LOOK_PRESENT : THREAD_LOOK_NONE;
}

static uint64_t get_be64(const uint8_t *from) {
        uint64_t value = 0;

        for (int i = 0; i < 8; i++)
                value = value << 8 | from[i];
        return value;
}

static void take_ids(const uint8_t *ids, ThreadLook *look) {
        look->span = (struct abi_span){ get_be64(ids), get_be64(ids + 8), get_be64(ids + 16) };
        look->outcome = look->span.trace_high | look->span.trace_low | look->span.span ? THREAD_LOOK_PRESENT
                                                                                       : THREAD_LOOK_NONE;
}

static void read_otel(const Target *target, uint64_t address, ThreadLook *look) {
        struct spanprof_thread_record record;

        look->outcome = THREAD_LOOK_UNREADABLE;
        if (!read_memory(target, address, &record, sizeof(record)))
                return;
        look->outcome = THREAD_LOOK_INVALID;
        if (record.valid != SPANPROF_THREAD_VALID)
                return;
        take_ids(record.trace_id, look);
        if (record.attributes_size && record.attributes_size <= sizeof(look->attributes) &&
            read_memory(target, address + sizeof(record), look->attributes, record.attributes_size))
                look->attributes_size = record.attributes_size;
}

static bool read_string(const Target *target, const uint64_t *words, uint8_t *to) {
        return !words[0] || read_memory(target, words[1], to, words[0]);
}

/*
 * A set of labels {address, number, room}; each is {size, address} of its key, then of its value. Those that
 * fit are kept as samples have them (goroutine-labels.h), and their ids become the span.
 */
static void read_labels(const Target *target, uint64_t address, ThreadLook *look) {
        uint64_t set[3], label[4];
        GoroutineContext context;
        size_t size = GO_HEADER_SIZE;

        look->outcome = THREAD_LOOK_UNREADABLE;
        if (!read_memory(target, address, set, sizeof(set)) || set[1] > set[2] || set[2] > MAX_LABELS)
                return;
        memset(look->attributes, 0, GO_HEADER_SIZE);
        for (uint64_t i = 0; i < set[1]; i++) {
                uint8_t *to = look->attributes + size;

                if (!read_memory(target, set[0] + i * sizeof(label), label, sizeof(label)))
                        return;
                if (!label[1] || !label[0] || label[0] > GO_MAX_STRING || label[2] > GO_MAX_STRING ||
                    size + 2 + label[0] + label[2] > sizeof(look->attributes) ||
                    !read_string(target, label, to + 2) || !read_string(target, label + 2, to + 2 + label[0]))
                        continue;
                to[0] = (uint8_t)label[0];
                to[1] = (uint8_t)label[2];
                size += 2 + label[0] + label[2];
        }
        goroutine_context_read(look->attributes, size, false, &context);
        look->span = context.span;
        look->outcome = context.span.span ? THREAD_LOOK_PRESENT : THREAD_LOOK_NONE;
        look->attributes_size = (uint16_t)context.attributes_size;
        memcpy(look->attributes, context.attributes, context.attributes_size);
}

/* u16 layout, u8 valid, u8 trace present, u8 flags, ids. */
static void read_elastic(const Target *target, uint64_t address, ThreadLook *look) {
        uint8_t record[29];

        look->outcome = THREAD_LOOK_UNREADABLE;
        if (!read_memory(target, address, record, sizeof(record)) ||
            (record[0] | record[1] << 8) != ELASTIC_LAYOUT)
                return;
        look->outcome = THREAD_LOOK_INVALID;
        if (!record[2])
                return;
        look->outcome = THREAD_LOOK_NONE;
        if (record[3])
                take_ids(record + 5, look);
}

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
                return false;           /* it runs */
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

/* One that does not stop (it sleeps uninterruptibly) stays attached until this process ends. */
static void look_at(const Target *target, ThreadLook *look) {
        uint64_t pointer, record;

        look->outcome = THREAD_LOOK_ASLEEP;
        if (is_in_such_a_call(target, look->tid))
                return;
        look->outcome = THREAD_LOOK_NOT;
        if (ptrace(PTRACE_SEIZE, look->tid, NULL, NULL) || ptrace(PTRACE_INTERRUPT, look->tid, NULL, NULL) ||
            !wait_stop(look->tid))
                return;
        if (read_pointer(look->tid, &pointer)) {
                look->outcome = find_record(target, pointer, &record);
                if (look->outcome == THREAD_LOOK_PRESENT && target->thread->form == ABI_FORM_ELASTIC)
                        read_elastic(target, record, look);
                else if (look->outcome == THREAD_LOOK_PRESENT && target->thread->form == ABI_FORM_LABELS)
                        read_labels(target, record, look);
                else if (look->outcome == THREAD_LOOK_PRESENT)
                        read_otel(target, record, look);
        }
        ptrace(PTRACE_DETACH, look->tid, NULL, NULL);
}

/* In the child. */
static void look_at_all(const Process *process, const ThreadContext *thread, ThreadLook *looks,
                        size_t n) {
        Target target = { .process = process, .thread = thread };
        char path[32];

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        snprintf(path, sizeof(path), "/proc/%u/mem", process->pid);
        target.memory = open(path, O_RDONLY | O_CLOEXEC);
        snprintf(path, sizeof(path), "/proc/%u/pagemap", process->pid);
        target.pages = open(path, O_RDONLY | O_CLOEXEC);
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
