/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Jail
 *
 * What a process gives up, for good, before it reads what others wrote. It keeps its memory, one socket, and the
 * descriptors that come through it; docs/SECURITY.md says against whom.
 *
 *     nursery     no capabilities, no new privileges, limits, and the system calls of a worker and of fork()
 *     worker      a child of it: calls that compute and read, anything else is its end
 */

enum {
        JAIL_CPU_SECONDS = 20,          /* of one worker */
};

/* For a process with one thread. Return: 0, -errno: then it is not to be trusted with anything. */
int jail_enter_nursery(void);
int jail_enter_worker(void);
