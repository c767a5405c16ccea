/* SPDX-License-Identifier: Apache-2.0 */

/*
 * For example:
 *
 *     call            state                      reason
 *     futex           interruptible              futex         a mutex, a condition, a join
 *     futex           WAIT_INTERPRETER_LOCK      gil           the lock of an interpreter of Python
 *     read            uninterruptible, iowait    io            the file was not in memory
 *     read            interruptible              read          a pipe, a socket, a terminal
 *     none            any                        page_fault    of a file on a server: interruptible, too
 *     any             never left the run queue   preempted
 *
 * A call says what was asked for, and not what the kernel then waited for inside: a `write` may wait for a
 * lock of the filesystem. What the descriptor of a call leads to is told beside it
 * (bpf/waits/wait-file.bpf.h).
 */

#include "host/sampling/aggregate/wait-reason.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>

#include "core/base/util/macro.h"

static const char reason_futex[] = "futex", reason_poll[] = "poll", reason_read[] = "read",
                  reason_write[] = "write", reason_sleep[] = "sleep", reason_child[] = "child",
                  reason_signal[] = "signal", reason_lock[] = "lock", reason_exit[] = "exit",
                  reason_io[] = "io", reason_other[] = "other", reason_stopped[] = "stopped",
                  reason_fault[] = "page_fault", reason_preempted[] = "preempted", reason_gil[] = "gil";

static const struct {
        int16_t call;
        const char *reason;
        bool has_file;          /* the first argument is a descriptor */
} calls[] = {
        { SYS_futex, reason_futex },
#ifdef SYS_futex_waitv
        { SYS_futex_waitv, reason_futex },
#endif
#ifdef SYS_poll         /* the last system calls have no old forms on newer processors */
        { SYS_poll, reason_poll },
        { SYS_select, reason_poll },
        { SYS_epoll_wait, reason_poll },
        { SYS_pause, reason_signal },
        { SYS_vfork, reason_child },
#endif
        { SYS_clone, reason_child },    /* with CLONE_VFORK: until the child executes a program, or ends */
#ifdef SYS_clone3
        { SYS_clone3, reason_child },
#endif
        { SYS_ppoll, reason_poll },
        { SYS_pselect6, reason_poll },
        { SYS_epoll_pwait, reason_poll },
#ifdef SYS_epoll_pwait2
        { SYS_epoll_pwait2, reason_poll },
#endif
        { SYS_read, reason_read, true },
        { SYS_readv, reason_read, true },
        { SYS_pread64, reason_read, true },
        { SYS_preadv, reason_read, true },
        { SYS_preadv2, reason_read, true },
        { SYS_recvfrom, reason_read, true },
        { SYS_recvmsg, reason_read, true },
        { SYS_recvmmsg, reason_read, true },
        { SYS_accept, reason_read, true },
        { SYS_accept4, reason_read, true },
        { SYS_msgrcv, reason_read },
        { SYS_mq_timedreceive, reason_read },
        { SYS_write, reason_write, true },
        { SYS_writev, reason_write, true },
        { SYS_pwrite64, reason_write, true },
        { SYS_pwritev, reason_write, true },
        { SYS_pwritev2, reason_write, true },
        { SYS_sendto, reason_write, true },
        { SYS_sendmsg, reason_write, true },
        { SYS_sendmmsg, reason_write, true },
        { SYS_connect, reason_write, true },
        { SYS_sendfile, reason_write, true },
        { SYS_splice, reason_write, true },
        { SYS_msgsnd, reason_write },
        { SYS_mq_timedsend, reason_write },
        { SYS_nanosleep, reason_sleep },
        { SYS_clock_nanosleep, reason_sleep },
        { SYS_wait4, reason_child },
        { SYS_waitid, reason_child },
        { SYS_rt_sigsuspend, reason_signal },
        { SYS_rt_sigtimedwait, reason_signal },
        { SYS_flock, reason_lock, true },
        { SYS_fcntl, reason_lock, true },
        { SYS_semop, reason_lock },
        { SYS_semtimedop, reason_lock },
        { SYS_fsync, reason_io, true },
        { SYS_fdatasync, reason_io, true },
        { SYS_sync_file_range, reason_io, true },
        { SYS_msync, reason_io },
        { SYS_io_getevents, reason_io },
        { SYS_io_uring_enter, reason_io },
        { SYS_exit, reason_exit },
        { SYS_exit_group, reason_exit },
};

const char *wait_reason(int16_t call, uint8_t flags) {
        if (flags & WAIT_PREEMPTED)
                return reason_preempted;
        if (flags & WAIT_STOPPED)
                return reason_stopped;
        if (call == WAIT_NO_CALL)
                return reason_fault;
        if (flags & WAIT_IO)
                return reason_io;
        if (flags & WAIT_INTERPRETER_LOCK)
                return reason_gil;
        for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
                if (calls[i].call == call)
                        return calls[i].reason;
        return reason_other;
}

bool wait_reason_is_futex(const char *reason) {
        return reason == reason_futex;
}

const char *wait_idle_reason(int16_t call) {
        static const char reason[] = "epoll_wait (idle)", of_futex[] = "futex (idle)";
        static const int16_t of_epoll[] = {
                SYS_epoll_pwait,
#ifdef SYS_epoll_wait
                SYS_epoll_wait,
#endif
#ifdef SYS_epoll_pwait2
                SYS_epoll_pwait2,
#endif
        };

        for (size_t i = 0; i < ARRAY_SIZE(of_epoll); i++)
                if (of_epoll[i] == call)
                        return reason;
        return call == SYS_futex ? of_futex : NULL;
}

void wait_file_calls(uint64_t bits[WAIT_FILE_CALLS_WORDS]) {
        memset(bits, 0, WAIT_FILE_CALLS_WORDS * sizeof(*bits));
        for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
                if (calls[i].has_file && calls[i].call < 64 * WAIT_FILE_CALLS_WORDS)
                        bits[calls[i].call / 64] |= UINT64_C(1) << (calls[i].call % 64);
}

const char *wait_file_kind(uint32_t file) {
        static const char *const kinds[WAIT_FILE_N] = {
                [WAIT_FILE_OTHER] = "other",         [WAIT_FILE_REGULAR] = "file",
                [WAIT_FILE_DIRECTORY] = "directory", [WAIT_FILE_DEVICE] = "device",
                [WAIT_FILE_TERMINAL] = "terminal",   [WAIT_FILE_PIPE] = "pipe",
                [WAIT_FILE_SOCKET] = "socket",       [WAIT_FILE_TCP] = "tcp",
                [WAIT_FILE_UDP] = "udp",             [WAIT_FILE_UNIX] = "unix",
                [WAIT_FILE_EVENTFD] = "eventfd",     [WAIT_FILE_TIMERFD] = "timerfd",
                [WAIT_FILE_SIGNALFD] = "signalfd",   [WAIT_FILE_INOTIFY] = "inotify",
        };

        return file < WAIT_FILE_N ? kinds[file] : NULL;
}
