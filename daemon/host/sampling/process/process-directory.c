/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Opens /proc/PID, parses its stat from the last parenthesis on, since a name may have any byte in it, and
 * compares the time of the start.
 */

#include "host/sampling/process/process-directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file/directory.h"
#include "core/base/file/file.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"

enum {
        STAT_MAX = 4096,                /* bytes; the line has about 350 */
        PF_KTHREAD_BIT = 0x00200000,    /* include/linux/sched.h; field 9 of stat */
};

/* ESRCH and ENOENT: gone; anything else that can happen here is a matter of rights. */
int process_condition(int error) {
        return error == EACCES || error == EPERM ? PROCESS_E_DENIED : PROCESS_E_GONE;
}

/* Decimal field at *pp, with the blank behind it. */
static int stat_number(const char **pp, uint64_t *valuep) {
        const char *p = *pp;
        uint64_t value = 0;
        bool negative = *p == '-';

        p += negative;
        if (*p < '0' || *p > '9')
                return 1;
        for (; *p >= '0' && *p <= '9'; p++)
                if (__builtin_mul_overflow(value, 10, &value) ||
                    __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
                        return 1;
        if (*p == ' ')
                p++;
        *pp = p;
        *valuep = negative ? 0 : value;
        return 0;
}

/*
 * `PID (comm) S 1 …`: comm may hold blanks and parentheses, so the fields are counted from the
 * last parenthesis: state is field 3, flags 9, threads 20, start time 22, start of the stack 28
 * (proc_pid_stat(5)).
 */
int process_parse_stat(const char *text, size_t size, ProcessStat *statp) {
        const char *p = memrchr(text, ')', size);
        uint64_t fields[29] = { 0 };
        uint64_t start_ns;

        if (!p || strnlen(p, 4) < 4 || p[1] != ' ' || p[3] != ' ')
                return 1;
        statp->state = p[2];
        p += 4;
        for (int i = 4; i <= 28; i++)
                if (stat_number(&p, &fields[i]))
                        return 1;
        if (__builtin_mul_overflow(fields[22], ABI_START_TICK_NS, &start_ns))
                return 1;
        statp->is_kernel = fields[9] & PF_KTHREAD_BIT;
        statp->n_threads = fields[20];
        statp->stack_start = fields[28];
        statp->start_time_ns = start_ns;
        return 0;
}

/* Between the first and the last parenthesis, as in the file comm; longer names (kernel workers) are cut. */
static void stat_comm(const char *text, size_t size, char comm[ABI_COMM_SIZE]) {
        const char *begin = memchr(text, '(', size), *end = memrchr(text, ')', size);

        memset(comm, 0, ABI_COMM_SIZE);
        if (begin && end > begin)
                memcpy(comm, begin + 1, MIN((size_t)(end - begin - 1), (size_t)ABI_COMM_SIZE - 1));
}

int process_read_stat(int proc_fd, ProcessStat *statp, char comm[ABI_COMM_SIZE]) {
        _cleanup_(closep) int fd = openat(proc_fd, "stat", O_RDONLY | O_CLOEXEC);
        char text[STAT_MAX];
        ssize_t n;

        if (fd < 0)
                return process_condition(errno);
        /* the kernel makes the line as a whole: one read has all of it */
        do
                n = read(fd, text, sizeof(text) - 1);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return process_condition(errno);
        text[n] = 0;
        if (comm)
                stat_comm(text, (size_t)n, comm);
        if (process_parse_stat(text, (size_t)n, statp) || statp->state == 'X' ||
            (statp->state == 'Z' && statp->n_threads <= 1))
                return PROCESS_E_GONE;
        return 0;
}

/* `0 0 0 0 0 0 0`: it has none. */
bool process_has_memory(int proc_fd) {
        _cleanup_(closep) int fd = openat(proc_fd, "statm", O_RDONLY | O_CLOEXEC);
        char first = '0';
        ssize_t n = -1;

        while (fd >= 0 && (n = read(fd, &first, 1)) < 0 && errno == EINTR)
                ;
        return n == 1 && first != '0';
}

int process_open(pid_t pid, uint64_t start_time_ns, int *fdp) {
        _cleanup_(closep) int fd = -1;
        ProcessStat stat;
        char path[32];
        int r;

        snprintf(path, sizeof(path), "/proc/%d", (int)pid);
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return process_condition(errno);
        if (start_time_ns) {
                r = process_read_stat(fd, &stat, NULL);
                if (r)
                        return r;
                if (stat.start_time_ns != start_time_ns)
                        return PROCESS_E_GONE;
        }
        *fdp = take_fd(fd);
        return 0;
}

/* The directory of a thread that has not exited. Return: 0, PROCESS_E_GONE. */
static int open_thread(int proc_fd, uint32_t tid, int *fdp) {
        _cleanup_(closep) int task_fd = -1, fd = -1;
        char path[64];
        ProcessStat stat;

        snprintf(path, sizeof(path), "task/%u", tid);
        task_fd = openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (task_fd < 0 || process_read_stat(task_fd, &stat, NULL) || stat.state == 'Z')
                return PROCESS_E_GONE;
        /* Every thread has a directory in /proc too, unlisted: only that one has map_files. */
        snprintf(path, sizeof(path), "/proc/%u", tid);
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        /* the number could be another process' by now */
        if (fd < 0 || faccessat(task_fd, "stat", R_OK, 0))
                return PROCESS_E_GONE;
        *fdp = take_fd(fd);
        return 0;
}

static int find_thread(int proc_fd, int *fdp, pid_t *tidp) {
        int task_fd = openat(proc_fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_(closedirp) DIR *dir = task_fd < 0 ? NULL : fdopendir(task_fd);
        uint32_t tid;

        if (!dir && task_fd >= 0)
                close(task_fd);
        while (dir && directory_next_number(dir, &tid))
                if (!open_thread(proc_fd, tid, fdp)) {
                        *tidp = (pid_t)tid;
                        return 0;
                }
        return PROCESS_E_GONE;
}

int process_open_living(pid_t pid, uint64_t start_time_ns, int *fdp, pid_t *tidp) {
        _cleanup_(closep) int fd = -1, thread_fd = -1;
        pid_t tid = pid;
        ProcessStat stat;
        int r;

        r = process_open(pid, 0, &fd);
        if (!r)
                r = process_read_stat(fd, &stat, NULL);
        if (!r && start_time_ns && stat.start_time_ns != start_time_ns)
                r = PROCESS_E_GONE;
        if (!r && stat.state == 'Z')
                r = find_thread(fd, &thread_fd, &tid);
        if (r)
                return r;
        *fdp = thread_fd >= 0 ? take_fd(thread_fd) : take_fd(fd);
        if (tidp)
                *tidp = tid;
        return 0;
}

uint64_t process_begin_ns(uint64_t start_time_ns) {
        uint64_t now_ns = clock_monotonic_ns(), boot_ns = clock_read_ns(CLOCK_BOOTTIME);

        return start_time_ns - MIN(start_time_ns, boot_ns - MIN(boot_ns, now_ns));
}

int process_identify(pid_t pid, ProcessStat *statp, char comm[ABI_COMM_SIZE]) {
        _cleanup_(closep) int fd = -1;
        int r;

        r = process_open(pid, 0, &fd);
        return r ? r : process_read_stat(fd, statp, comm);
}
