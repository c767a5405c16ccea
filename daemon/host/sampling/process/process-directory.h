/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Process Directory
 *
 * The directory of a process in /proc, held by a descriptor, and the line `stat` in it. An id may become
 * another process' at any time; an open directory never does.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "border/abi.h"

enum {
        _PROCESS_E_SUCCESS,
        PROCESS_E_GONE,                 /* exited, or is about to; or its id is another process' now */
        PROCESS_E_DENIED,               /* we may not look into it */
        PROCESS_E_MORE,                 /* there is more to do */
};

/*
 * The directory /proc/PID, which stays with this one process even if its id is used again.
 * @start_time_ns: 0 = any process that has the id now. Return: 0 and *fdp (owned by the caller), PROCESS_E_*.
 */
int process_open(pid_t pid, uint64_t start_time_ns, int *fdp);

/*
 * The same, but if the leader has exited before its threads, the directory of one of these: a dead leader has
 * neither memory nor executable to show. *tidp: whose it is; may be NULL.
 */
int process_open_living(pid_t pid, uint64_t start_time_ns, int *fdp, pid_t *tidp);

/*
 * Tells what errno after a failed open in such a directory means. Return: PROCESS_E_GONE, PROCESS_E_DENIED.
 */
int process_condition(int error);

/* Fields of /proc/PID/stat. */
typedef struct ProcessStat {
        char state;                     /* Z = zombie, X = dead */
        bool is_kernel;
        uint64_t start_time_ns;
        uint64_t n_threads;
        uint64_t stack_start;           /* 0 = we may not know */
} ProcessStat;

/*
 * Reads it of a directory of a process or thread. @comm: NULL = not wanted. Return: 0, PROCESS_E_GONE also of
 * a process that is dead, PROCESS_E_DENIED.
 */
int process_read_stat(int proc_fd, ProcessStat *statp, char comm[ABI_COMM_SIZE]);

/*
 * Whether the process or thread of a directory has its memory still, which an exit takes first: then nothing
 * that was looked for in it in vain was lost by that.
 */
bool process_has_memory(int proc_fd);

/* Pure. @text: the line, NUL behind @size bytes. Return: 0, 1 = no such line. */
int process_parse_stat(const char *text, size_t size, ProcessStat *statp);

/*
 * A start time, which is of BOOTTIME, as one of MONOTONIC, rounded down: as if the machine had not been
 * suspended since.
 */
uint64_t process_begin_ns(uint64_t start_time_ns);

/* Reads start time and leader's comm only. Return: 0, PROCESS_E_*. */
int process_identify(pid_t pid, ProcessStat *statp, char comm[ABI_COMM_SIZE]);
