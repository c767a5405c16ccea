/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A filter is a list of allowed calls, some with one allowed argument:
 *
 *     architecture not ours → killed
 *     number = read → allowed …
 *     number = mmap → argument 2 & PROT_EXEC = 0 → allowed
 *     number = readlink → refused with an error
 *     killed
 *
 * Numbers of the processor's other ABI are none of the list. A call that an attacker makes from inside is the
 * worker's end, and so is one of a library that we did not think of: either way it costs one file's table.
 */
#include "core/base/sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/file/file.h"
#include "core/base/sandbox/rights.h"
#include "core/base/util/macro.h"

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#endif

enum {
        ANY = -1,
        MAX_DESCRIPTORS = 16,
        MAX_COPY_DESCRIPTORS = 256,     /* of the reader of remote files: a few for each copier */
        MAX_FILTER = 160,
};

/* a table has 32 MiB at most, the list of its functions as much */
#define MAX_DATA_BYTES (UINT64_C(256) << 20)

typedef struct Allowed {
        uint32_t number;
        int argument;                   /* ANY, or the one that is looked at: its lower half, */
        uint32_t mask, value;           /* bits of it that count, and how they must be */
} Allowed;

/* Both kinds may. mprotect() is the allocator's; futex() a lock's, which no other thread holds. */
static const Allowed compute[] = {
        { __NR_read, ANY },
        { __NR_pread64, ANY },
        { __NR_preadv2, ANY },
        { __NR_fadvise64, 3, ~0u, POSIX_FADV_RANDOM },
        { __NR_fadvise64, 3, ~0u, POSIX_FADV_DONTNEED },
        { __NR_close, ANY },
        { __NR_fstat, ANY },
        { __NR_recvmsg, ANY },
        { __NR_sendmsg, ANY },
        { __NR_ppoll, ANY },
        { __NR_mmap, 2, PROT_EXEC, 0 },
        { __NR_mprotect, 2, PROT_EXEC, 0 },
        { __NR_munmap, ANY },
        { __NR_mremap, ANY },
        { __NR_madvise, ANY },
        { __NR_brk, ANY },
        { __NR_futex, ANY },
        { __NR_clock_gettime, ANY },
        { __NR_getrandom, ANY },
        { __NR_rt_sigreturn, ANY },
        { __NR_restart_syscall, ANY },
        { __NR_exit_group, ANY },
        { __NR_exit, ANY },
#ifdef __NR_poll
        { __NR_poll, ANY },
#endif
};

/* libdw asks where its file lies, of one in memory, too, and takes an error for "nowhere". */
static const uint32_t refused[] = {
#ifdef __NR_readlink
        __NR_readlink,
#endif
        __NR_readlinkat,
};

/*
 * The zygotes, beside that: one kind of fork, its own id, and what a worker does until it is confined itself.
 */
static const Allowed raise_workers[] = {
        { __NR_clone, 0, ~0u, CLONE_PARENT | SIGCHLD },
        { __NR_prctl, 0, ~0u, PR_SET_SECCOMP }, { __NR_prctl, 0, ~0u, PR_SET_PDEATHSIG },
        { __NR_setrlimit, 0, ~0u, RLIMIT_CPU }, { __NR_getpid, ANY },
};

/* A sweeper, beside that: it opens nothing, what it may remove it has open directories of. */
static const Allowed sweep[] = {
        { __NR_flock, ANY }, { __NR_newfstatat, ANY }, { __NR_unlinkat, ANY },
        /* outfile_finish() */
        { __NR_linkat, ANY }, { __NR_renameat, ANY }, { __NR_renameat2, ANY },
        { __NR_fchown, ANY }, { __NR_fchmod, ANY }, { __NR_umask, ANY }, { __NR_getxattr, ANY },
        { __NR_geteuid, ANY },
        { __NR_write, ANY },
};

/* An opener of events, beside that: of no process, so of a whole CPU. */
static const Allowed open_events[] = {
        { __NR_perf_event_open, 1, ~0u, ~0u },
};

/*
 * A reader of files whose server may hang, and its copiers, beside that: it opens for reading alone, and
 * writes into memory.
 */
static const Allowed copy_files[] = {
        { __NR_openat, 2, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY },
        { __NR_memfd_create, ANY }, { __NR_write, ANY }, { __NR_fcntl, 1, ~0u, F_ADD_SEALS },
        { __NR_ftruncate, ANY },
        { __NR_clone, 0, ~0u, SIGCHLD }, { __NR_kill, ANY }, { __NR_wait4, ANY },
        { __NR_prctl, 0, ~0u, PR_SET_PDEATHSIG }, { __NR_setresuid, ANY }, { __NR_setresgid, ANY },
        { __NR_newfstatat, 3, AT_EMPTY_PATH, AT_EMPTY_PATH },   /* the library's fstat() */
};

#ifdef NATIVE_ARCH

static void put(struct sock_fprog *program, struct sock_filter instruction) {
        program->filter[program->len++] = instruction;
}

static void put_return(struct sock_fprog *program, uint32_t what) {
        put(program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, what));
}

/* Reloads the number behind a test of an argument, since the next rule compares that. */
static void put_allowed(struct sock_fprog *program, const Allowed *allowed) {
        if (allowed->argument == ANY) {
                put(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed->number, 0, 1));
                put_return(program, SECCOMP_RET_ALLOW);
                return;
        }
        put(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed->number, 0, 5));
        put(program,
            (struct sock_filter)BPF_STMT(
                    BPF_LD | BPF_W | BPF_ABS,
                    (uint32_t)(offsetof(struct seccomp_data, args) + 8 * (size_t)allowed->argument)));
        put(program, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, allowed->mask));
        put(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed->value, 0, 1));
        put_return(program, SECCOMP_RET_ALLOW);
        put(program,
            (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
}

static int install(const Allowed *more, size_t n_more) {
        struct sock_filter filter[MAX_FILTER];
        struct sock_fprog program = { .filter = filter };

        put(&program,
            (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)));
        put(&program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0));
        put_return(&program, SECCOMP_RET_KILL_PROCESS);
        put(&program,
            (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
        for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
                put(&program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refused[i], 0, 1));
                put_return(&program, SECCOMP_RET_ERRNO | EACCES);
        }
        for (size_t i = 0; i < ARRAY_SIZE(compute); i++)
                put_allowed(&program, &compute[i]);
        for (size_t i = 0; i < n_more; i++)
                put_allowed(&program, &more[i]);
        put_return(&program, SECCOMP_RET_KILL_PROCESS);
        return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0 ? -errno : 0;
}

#else

static int install(const Allowed *more, size_t n_more) {
        return -ENOSYS;
}

#endif

static void limit(int resource, uint64_t value) {
        const struct rlimit both = { value, value };

        setrlimit(resource, &both);
}

/*
 * To narrow the bounding set takes a capability of its own, which few have; without exec it means nothing
 * anyway.
 */
static int drop_capabilities(void) {
        struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
        const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };

        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
        for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++)
                prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
        return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

/* Where memory ends, a worker shall end before the daemon does: it is replaced. Workers inherit it. */
static void offer_to_be_killed(void) {
        _cleanup_(closep) int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

        if (fd >= 0)
                file_write(fd, "1000", 4);
}

/* A user's own limit of data (`ulimit -d`), and run.c's, may be lower. */
static void limit_data(void) {
#ifndef IS_SANITIZED                    /* the shadow is terabytes of data, never touched */
        struct rlimit now = { RLIM_INFINITY, RLIM_INFINITY };

        getrlimit(RLIMIT_DATA, &now);
        limit(RLIMIT_DATA, MIN(now.rlim_cur, (rlim_t)MAX_DATA_BYTES));
#endif
}

int sandbox_enter_zygote(void) {
        int r;

        offer_to_be_killed();
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        r = drop_capabilities();
        if (r)
                return r;
        limit_data();
        limit(RLIMIT_FSIZE, 0);
        limit(RLIMIT_CORE, 0);
        limit(RLIMIT_NOFILE, MAX_DESCRIPTORS);
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -errno;
        return install(raise_workers, ARRAY_SIZE(raise_workers));
}

int sandbox_enter_worker(void) {
        const struct rlimit seconds = { SANDBOX_CPU_SECONDS, SANDBOX_CPU_SECONDS };

        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        /* the library's own takes the call that reaches others, too */
        syscall(SYS_setrlimit, RLIMIT_CPU, &seconds);
        return install(NULL, 0);
}

/*
 * Root without CAP_DAC_OVERRIDE removes nothing from the directory of another user. The other two give a file
 * that is replaced the owner that it had.
 */
int sandbox_enter_sweeper(bool has_file) {
        uint64_t capabilities = RIGHTS_OF(CAP_DAC_OVERRIDE);
        int r;

        if (has_file)
                capabilities |= RIGHTS_OF(CAP_CHOWN) | RIGHTS_OF(CAP_FOWNER);

        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        r = rights_drop(NULL, capabilities);
        return r ? r : install(sweep, ARRAY_SIZE(sweep));
}

int sandbox_enter_opener(void) {
        int r;

        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        r = rights_drop(NULL, RIGHTS_OF(CAP_SYS_ADMIN));
        return r ? r : install(open_events, ARRAY_SIZE(open_events));
}

/* CAP_KILL: a copier that has become another user is killed when it hangs. */
int sandbox_enter_remote_reader(void) {
        int r;

        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        r = rights_drop(NULL, RIGHTS_OF(CAP_DAC_READ_SEARCH) | RIGHTS_OF(CAP_SETUID) | RIGHTS_OF(CAP_SETGID) |
                                      RIGHTS_OF(CAP_KILL));
        limit_data();
        limit(RLIMIT_CORE, 0);
        limit(RLIMIT_NOFILE, MAX_COPY_DESCRIPTORS);
        return r ? r : install(copy_files, ARRAY_SIZE(copy_files));
}
