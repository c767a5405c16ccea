/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Files in which a test's own process says where its code is, as a compiler at run time does. */

#include <criterion/criterion.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[64], dump_path[64];    /* perf-map, jitdump */

static inline void own_code_begin(void) {
        snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
        snprintf(dump_path, sizeof(dump_path), "/tmp/jit-%d.dump", getpid());
        umask(022);
}

static inline void own_code_end(void) {
        unlink(path);
        rmdir(path);
        unlink(dump_path);
}

/* @mode: of fopen(). */
static inline void put(const char *file, const char *mode, const char *data, size_t size) {
        FILE *stream = fopen(file, mode);

        cr_assert_not_null(stream, "%s", file);
        cr_assert_eq(fwrite(data, 1, size, stream), size);
        cr_assert_eq(fclose(stream), 0);
}
