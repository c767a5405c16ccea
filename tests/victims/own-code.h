/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Files in which a test's own process says where its code is, as a compiler at run time does. */

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/util/text.h"
#include "host/naming/code-source.h"

static char path[64], dump_path[64];    /* perf-map, jitdump */
static CodePlace place;

static inline void own_code_remove(void) {
        unlink(path);
        rmdir(path);
        unlink(dump_path);
}

static inline void own_code_begin(void) {
        snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
        snprintf(dump_path, sizeof(dump_path), "/tmp/jit-%d.dump", getpid());
        umask(022);
        place = (CodePlace){ .pid = getpid() };
        /* of a process that had this number before */
        own_code_remove();
}

static inline void own_code_end(void) {
        own_code_remove();
}

/* @mode: of fopen(). */
static inline void put(const char *file, const char *mode, const char *data, size_t size) {
        FILE *stream = fopen(file, mode);

        cr_assert_not_null(stream, "%s", file);
        cr_assert_eq(fwrite(data, 1, size, stream), size);
        cr_assert_eq(fclose(stream), 0);
}

/* Writes the jitdump and maps its first page, which is how its reader learns of it. */
static inline void map_dump(const Text *dump) {
        void *page;
        int fd;

        put(dump_path, "w", dump->data, dump->size);
        fd = open(dump_path, O_RDONLY | O_CLOEXEC);
        page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
        cr_assert_neq(page, MAP_FAILED);
        close(fd);
        place.dump_start = (uint64_t)(uintptr_t)page;
        place.dump_end = place.dump_start + 4096;
        place.dump_path = dump_path;
}
