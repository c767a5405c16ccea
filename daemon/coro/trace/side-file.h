/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Files beside a trace, which say what is no event: of t.jsonl, t.stations.csv and t.mappings.csv. */

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
        SIDE_FILE_E_NONE,               /* there is none, or what is there is no file */
};

/* *namep: owned by the caller; NULL = a trace of that name has none beside it. Return: 0, -ENOMEM. */
int side_file_name(const char *trace, SideFile which, char **namep);

/*
 * Whether one may be made there: nothing that no trace has left is replaced. Return: 0, OUTFILE_E_*, -errno.
 */
int side_file_check(const char *name, SideFile which, const OutfileOptions *options);

/* Removes an old one, and nothing else. Return: 0, also if there is none; as side_file_check(). */
int side_file_remove(const char *name, SideFile which, const OutfileOptions *options);

bool side_file_exists(const char *trace, SideFile which);

/*
 * One with its first line. @file: to be finished behind the stream's end; pair with outfile_deinit() in any
 * case.
 * Return: as side_file_check().
 */
int side_file_create(const char *name, SideFile which, const OutfileOptions *options, Outfile *file,
                     FILE **streamp);

/* Who may read what is there beside @trace, of which an output will be made, too. */
void side_file_note(const char *trace, OutfileReaders *readers);

/*
 * Hands on the lines behind the first one, without their newlines; of one that is longer than all that we
 * write, or was cut, "".
 * Return: 0, SIDE_FILE_E_NONE, what @func returned, -ENOMEM.
 */
int side_file_read(const char *trace, SideFile which,
                   int (*func)(void *userdata, const char *line, size_t size), void *userdata);
