/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A directory for one test, and programs of others to fill it: compilers, objcopy, xz.
 */

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char work_directory[] = "/tmp/spanprof-test-XXXXXX";

static inline void work_directory_make(void) {
        if (!mkdtemp(work_directory) || setenv("WORK", work_directory, 1) < 0)
                abort();
}

/* Runs a line of shell in the directory; its exit status. */
__attribute__((__format__(__printf__, 1, 2))) static inline int shell(const char *format, ...) {
        char line[8192], whole[8192 + PATH_MAX];
        va_list list;

        va_start(list, format);
        if ((size_t)vsnprintf(line, sizeof(line), format, list) >= sizeof(line))
                abort();
        va_end(list);
        snprintf(whole, sizeof(whole), "cd %s && { %s\n}", work_directory, line);
        return system(whole);
}

static inline void work_directory_remove(void) {
        if (shell("rm -rf '%s'", work_directory) != 0)
                abort();
}

/* Path of a file in it; the latest 256 calls are valid. */
static inline const char *work_path(const char *name) {
        static char paths[256][PATH_MAX];
        static unsigned n;
        char *path = paths[n++ % 256];

        snprintf(path, PATH_MAX, "%s/%s", work_directory, name);
        return path;
}

/* The first line that a command prints, without its end. Static, the latest eight calls are valid. */
__attribute__((__format__(__printf__, 1, 2))) static inline const char *first_line(const char *format, ...) {
        static char lines[8][4096];
        static unsigned n;
        char command[8192], *line = lines[n++ % 8];
        va_list list;
        FILE *pipe;

        va_start(list, format);
        vsnprintf(command, sizeof(command), format, list);
        va_end(list);
        pipe = popen(command, "r");
        if (!pipe || !fgets(line, sizeof(lines[0]), pipe))
                line[0] = 0;
        if (pipe)
                pclose(pipe);
        line[strcspn(line, "\n")] = 0;
        return line;
}
