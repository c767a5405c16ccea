/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Memory of a Target
 *
 * Reads what is there, without ever making the kernel fetch a page: the target would choose from whom.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
        MEMORY_MAX_READ = 64 << 10,
};

enum {
        _MEMORY_E_SUCCESS,
        MEMORY_E_ABSENT,                /* not all of it is mapped and present, or it may not be read */
        MEMORY_E_GONE,                  /* the process has exited */
};

/*
 * @size: 1 … MEMORY_MAX_READ bytes at @address. On anything but 0, @to holds anything. Return: 0, MEMORY_E_*.
 */
int memory_read(pid_t pid, uint64_t address, void *to, size_t size);
