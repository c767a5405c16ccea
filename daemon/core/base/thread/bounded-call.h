/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Bounded Call
 *
 * System calls that a target can hold up, made by a thread that is left behind after a while. The owner of
 * a page that is not there chooses who fetches it: a userfaultfd or a file in FUSE may never answer. Then
 * every reader waits until it is killed, process_vm_readv() and /proc/PID/environ included. A target may
 * also keep the lock that every reader of /proc/PID/maps needs. To look before reading leaves a moment in
 * between.
 *
 * A thread that was left behind ends when its call does, with the target at the latest. While it hangs,
 * nothing with the same key is tried again. Only one thread may call.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
        BOUNDED_MAX_READ = 16 << 10,   /* bytes of one bounded_read() */
        BOUNDED_MAX_ADDRESSES = 512,
        BOUNDED_MAX_EACH = 32,
};

enum {
        _BOUNDED_E_SUCCESS,
        /* no answer in time, now or for an earlier call, or no thread to ask; counted */
        BOUNDED_E_STUCK,
};

/*
 * Has @work done on a copy of the @size bytes at @data, which are written back when it is through. What @work
 * refers to beyond them must not go away: descriptors may, once its system call has begun.
 * @key: pid of the target; 0 = unknown. *resultp: what @work returned. Return: 0, BOUNDED_E_STUCK, -ENOMEM.
 */
int bounded_run(pid_t key, ssize_t (*work)(void *data), void *data, size_t size, ssize_t *resultp);

/*
 * The same for a job of many calls, without a copy: *@datap and what it refers to are the job's alone until
 * it is through. Other calls of this file that it makes are made on the spot, by the thread that it runs in;
 * once the job was given up, they say that they are stuck. It should end soon then, and may touch nothing of
 * others.
 * @drop: frees what was given up, in the job's thread, when it is through.
 * Return: as bounded_run(). *datap is NULL if it was given up; else it is still the caller's.
 */
int bounded_hand_over(pid_t key, ssize_t (*work)(void *data), void (*drop)(void *data), void **datap,
                      ssize_t *resultp);

/* Whether this is the thread of such a job, where no call has to be handed over. */
bool bounded_is_here(void);

/* As pread(), @offset -1 as read(). Return: bytes, or -errno; -ETIMEDOUT = stuck. */
ssize_t bounded_read(pid_t key, int fd, void *data, size_t size, int64_t offset);

/*
 * As many read() as it takes until there are @size bytes (BOUNDED_MAX_READ at most), the file ends or an
 * error comes: files of procfs give a page at a time, and it is the hand-over that costs. Return: as
 * bounded_read().
 */
ssize_t bounded_fill(pid_t key, int fd, void *data, size_t size);

/* The same. *endedp: the file has no more; else it may have, or not. */
ssize_t bounded_fill_some(pid_t key, int fd, void *data, size_t size, bool *endedp);

/*
 * The first @each bytes at each of @n addresses of a process into @data, one after the other.
 * Return: bytes until one could not be read, or -errno; -ETIMEDOUT = stuck.
 */
ssize_t bounded_read_memory(pid_t pid, const uint64_t *addresses, size_t n, size_t each, void *data);

/* How many calls hang now. */
unsigned bounded_n_stuck(void);
