/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Landlock
 *
 * Gives up, for good, changes to the file system outside of one directory, for processes that only write and
 * talk; or all of it but some files to read. It is not for one that looks into others: Landlock forbids
 * /proc/PID/root and the memory of processes that are not confined alike.
 */

#include <stdbool.h>

typedef struct Landlock {
        const char *writable;           /* the one directory below which files change; NULL = none */
        bool connects;                  /* opens TCP connections */
} Landlock;

enum {
        _LANDLOCK_E_SUCCESS,
        LANDLOCK_E_ABSENT,              /* a kernel without it, or where it is switched off */
};

/*
 * For the calling thread and all that it starts, which then get no new privileges by exec. No TCP port can be
 * opened any more, and no process outside gets a signal (from Linux 6.7 and 6.12 on).
 * Return: 0, LANDLOCK_E_ABSENT, -errno.
 */
int landlock_enter(const Landlock *landlock);

/*
 * Takes all use of files away for good, but that of those which are open, and reading of root's regular files
 * in @directory that @is_wanted names. Also TCP, and signals. Return: as landlock_enter().
 */
int landlock_read_alone(int directory, bool (*is_wanted)(const char *name));
