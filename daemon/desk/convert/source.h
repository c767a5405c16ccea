/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Source
 *
 * The bytes of one input, readable at any offset. A plain file stays where it is and is read in pieces;
 * a pipe, and whatever is packed (gzip, zstd, lz4, told by its first bytes), is unpacked first: into memory
 * while it is small, then into a file in TMPDIR that has no name. Nothing is mapped: a file that is cut
 * off meanwhile is a short read, not a signal.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "core/base/util/macro.h"
#include "core/base/util/text.h"

typedef struct Source {
        const char *name;               /* for messages; borrowed */
        int fd;                         /* -1 = all of it is in `data` */
        uint8_t *data;
        uint64_t size;
        uint64_t packed_size;           /* bytes as they came */
        struct stat status;             /* status of the file that was opened */
} Source;

enum {
        _SOURCE_E_SUCCESS,
        SOURCE_E_UNREADABLE,            /* nothing can be read */
        /* the packing is damaged or too large: what came before it is there */
        SOURCE_E_CUT,
};

/*
 * @path: `-` = standard input. @problem gets what is wrong, for people. Pair with source_deinit() in any
 * case.
 * Return: 0, SOURCE_E_*, -ENOMEM.
 */
int source_open(Source *source, const char *path, Text *problem);

/* The same with @size bytes of memory, which are copied. @name: for messages; borrowed. */
int source_open_memory(Source *source, const char *name, const void *data, size_t size, Text *problem);
void source_deinit(Source *source);

/* Up to @size bytes from @offset. Return: how many; fewer at the end or when reading fails. */
size_t source_read(const Source *source, void *to, size_t size, uint64_t offset);

/* When a file was changed last, or now for a pipe: for forms that say no time. In ns, REALTIME. */
uint64_t source_time_ns(const Source *source);

/*
 * Calls @each for each line, without its newline, until one returns other than 0. A line of more than 1 MiB,
 * which no format of ours has, is its first MiB alone. Return: 0, -ENOMEM, or what @each says.
 */
int source_lines(const Source *source, int (*each)(void *userdata, const char *line, size_t size),
                 void *userdata);
