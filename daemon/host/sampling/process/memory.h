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

/*
 * The memory that @pid has now. It stays with this one program: a process that gets the id later, and a
 * program that the process executes, are not read through it. @start_time_ns: as for process_open(). Return:
 * a descriptor, owned by the caller; -1 = the process is another one, or not readable for us.
 */
int memory_open(pid_t pid, uint64_t start_time_ns);

/* As memory_read(), through @fd of memory_open(). MEMORY_E_GONE: the program has ended. */
int memory_read_opened(pid_t pid, int fd, uint64_t address, void *to, size_t size);

/*
 * For work that makes many reads, and is a bounded call of its own (core/base/thread/bounded-call.h): reads
 * at once, through @fd of memory_open() and @pagemap_fd, an open /proc/PID/pagemap of that program. May hang.
 * Return: as above.
 */
int memory_read_now(int fd, int pagemap_fd, uint64_t address, void *to, size_t size);
