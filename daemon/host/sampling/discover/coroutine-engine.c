/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Compares the name of a process' executable with those of engines, and its path with our own. The file
 * itself is not asked: its server may be silent, and whoever asks then waits as long (FUSE, NFS).
 */

#include "host/sampling/discover/coroutine-engine.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { PATH_SIZE = 4096 };

/* Path of an executable as the kernel has it; one that was replaced meanwhile as it was called. */
static bool read_path(const char *link, char *path, size_t size) {
        ssize_t n = readlink(link, path, size - 1);
        char *mark;

        if (n < 0)
                return false;
        path[n] = 0;
        mark = strrchr(path, ' ');
        if (mark && !strcmp(mark, " (deleted)"))
                *mark = 0;
        return true;
}

/* Ours may be called as the user likes. */
static bool is_ours(const char *path) {
        char ours[PATH_SIZE];

        return read_path("/proc/self/exe", ours, sizeof(ours)) && !strcmp(path, ours);
}

bool engine_is(pid_t pid) {
        char link[32], path[PATH_SIZE];
        const char *name;

        snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
        if (!read_path(link, path, sizeof(path)))
                return false;
        name = strrchr(path, '/');
        name = name ? name + 1 : path;
        return !strcmp(name, "spanprof") || !strcasecmp(name, "corotracer") || is_ours(path);
}
