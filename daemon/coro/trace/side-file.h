/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Side File
 *
 * Files next to a trace for the rows that are no events: t.stations.csv and t.mappings.csv, of t.jsonl.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/util/outfile.h"

typedef enum SideFile {
        SIDE_FILE_STATIONS,
        SIDE_FILE_MAPPINGS,
        N_SIDE_FILES,
} SideFile;

enum {
        _SIDE_FILE_E_SUCCESS,
        SIDE_FILE_E_NONE,               /* there is no such file, or no regular one */
};

/* *namep: owned by the caller; NULL = a trace of that name has no side files. Return: 0, -ENOMEM. */
int side_file_name(const char *trace, SideFile which, char **namep);

/*
 * Whether a side file may be made at @name, where only an old side file is replaced. Return: 0, OUTFILE_E_*,
 * -errno.
 */
int side_file_check(const char *name, SideFile which, const OutfileOptions *options);

/* Removes an old side file, and no other file. Return: 0, also if there is none; as side_file_check(). */
int side_file_remove(const char *name, SideFile which, const OutfileOptions *options);

bool side_file_exists(const char *trace, SideFile which);

/* Takes the rights of the side files of @trace into account, for an output that is made of it. */
void side_file_note(const char *trace, OutfileReaders *readers);

/* A side file that is being written. Starts as SIDE_FILE_WRITER_NONE. */
typedef struct SideFileWriter {
        char *name;                     /* NULL = the trace has no side file of this kind */
        Outfile file;
        FILE *stream;                   /* NULL = there was nothing to write yet */
} SideFileWriter;

#define SIDE_FILE_WRITER_NONE (SideFileWriter){ .file = OUTFILE_NONE }

/*
 * Makes the file with its first line. With options that are not `live`, an old one stays until
 * side_file_publish(). Call it once; pair it, in any case, with side_file_deinit(). Return: as
 * side_file_check().
 */
int side_file_create(SideFileWriter *writer, SideFile which, const OutfileOptions *options);

/* Puts the file in the place of an old one, if any was created. Return: as outfile_finish(). */
int side_file_publish(SideFileWriter *writer);

/* Removes a file that was not published. */
void side_file_deinit(SideFileWriter *writer);

/*
 * Another trace that has the same side files as one at @path would have: t.jsonl, of t.csv. @i: from 0.
 * *namep: owned by the caller; NULL = there are no more. Return: 0, -ENOMEM.
 */
int side_file_sharer(const char *path, unsigned *i, char **namep);

/*
 * Hands on the lines behind the first one, without their newlines. A line that is longer than any of ours, or
 * was cut, is handed on as "".
 * Return: 0, SIDE_FILE_E_NONE, what @func returned, -ENOMEM.
 */
int side_file_read(const char *trace, SideFile which,
                   int (*func)(void *userdata, const char *line, size_t size), void *userdata);
