/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Compares the name of a process' executable with those of engines, and its file with our own.
 */

#include "host/sampling/discover/coroutine-engine.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file itself, not its name: ours may be called as the real one is. */
static bool is_ours(const char *link) {
        struct stat ours, theirs;

        return !stat("/proc/self/exe", &ours) && !stat(link, &theirs) && ours.st_dev == theirs.st_dev &&
                ours.st_ino == theirs.st_ino;
}

bool engine_is(pid_t pid) {
        char link[32], path[4096], *name;
        ssize_t size;

        snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
        size = readlink(link, path, sizeof(path) - 1);
        if (size < 0)
                return false;
        path[size] = 0;
        name = strrchr(path, '/');
        name = name ? name + 1 : path;
        name[strcspn(name, " ")] = 0;           /* ` (deleted)` */
        return !strcmp(name, "spanprof") || !strcasecmp(name, "corotracer") || is_ours(link);
}
