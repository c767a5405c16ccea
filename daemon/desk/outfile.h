/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * File of a Recording
 *
 * The file that a recording goes to. It appears whole or not at all: it is written beside its place and renamed at the end; what
 * was there before is kept as FILE.old. It belongs to whoever has called sudo, and only its owner may read it: it says
 * what ran on the machine. `-` is standard output, and what is no regular file (a pipe, a device) is written as it is.
 */

#include <stddef.h>
#include <stdint.h>

typedef struct Outfile {
        char *path;                     /* where it will be; NULL = standard output */
        char *beside;                   /* where it is now; NULL = nowhere */
        int fd;
        uint64_t size;
} Outfile;

#define OUTFILE_NONE (Outfile){ .fd = -1 }

/* Whether it can be made there; better said before a recording than after it. Return: 0, -errno. */
int outfile_check(const char *path);

/* Pair with outfile_deinit(), which leaves nothing of one that was not finished. Return: 0, -errno. */
int outfile_open(Outfile *file, const char *path);
void outfile_deinit(Outfile *file);

/* Return: 0, -errno. */
int outfile_write(Outfile *file, const void *data, size_t size);
int outfile_finish(Outfile *file);
