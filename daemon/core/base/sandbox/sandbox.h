/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sandbox
 *
 * What a process gives up, for good, before it reads what others wrote. It keeps its memory, one socket, and
 * the descriptors that come through it; docs/SECURITY.md says against whom.
 *
 *     zygote      no capabilities, no new privileges, limits, and the system calls of a worker and of fork()
 *     worker      forked by a zygote: calls that compute and read; any other one kills it
 *     sweeper     root's capability to remove files, and no other; it reads one pipe, and unlinks
 *     opener      CAP_SYS_ADMIN, and no other; it reads one socket, and opens events of a whole CPU
 *     remote      root's rights to read files, and to become another user; it copies files into memory
 */

#include <stdbool.h>

enum {
        SANDBOX_CPU_SECONDS = 20,          /* CPU time of a worker */
};

/* For a process with one thread. Return: 0, -errno: then it is not to be trusted with anything. */
int sandbox_enter_zygote(void);
int sandbox_enter_worker(void);
int sandbox_enter_sweeper(bool has_file);
int sandbox_enter_opener(void);
int sandbox_enter_remote_reader(void);
