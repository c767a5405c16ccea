/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * File of a Recording, or of a Conversion
 *
 * It appears whole or not at all: it is written beside its place and renamed at the end. Of a recording, what
 * was there before is kept as FILE.old; it belongs to whoever has called sudo, and only its owner may read
 * it: it says what ran on the machine. Of a conversion (`ordinary`) it is as files are that programs make,
 * has no name before it is whole where the filesystem can do that, and takes the place of what was there. `-`
 * is standard output, and what is no regular file (a pipe, a device) is written as it is.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Outfile {
        char *path;                     /* where it will be; NULL = standard output */
        char *beside;                   /* where it is now, or will be before it is renamed; NULL = nowhere */
        int fd;
        uint64_t size;
        bool ordinary;
        bool nameless;                  /* not even beside its place */
} Outfile;

#define OUTFILE_NONE (Outfile){ .fd = -1 }

/* Whether it can be made there; better said before a recording than after it. Return: 0, -errno. */
int outfile_check(const char *path);

/* Pair with outfile_deinit(), which leaves nothing of one that was not finished. Return: 0, -errno. */
int outfile_open(Outfile *file, const char *path);
int outfile_open_ordinary(Outfile *file, const char *path);
void outfile_deinit(Outfile *file);

/* Return: 0, -errno. */
int outfile_write(Outfile *file, const void *data, size_t size);
int outfile_finish(Outfile *file);
