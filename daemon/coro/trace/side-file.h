/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Files beside a trace, which say what is no event: of t.jsonl, t.stations.csv and t.mappings.csv. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

typedef enum SideFile {
        SIDE_FILE_STATIONS,
        SIDE_FILE_MAPPINGS,
        N_SIDE_FILES,
} SideFile;

enum {
        _SIDE_FILE_E_SUCCESS,
        SIDE_FILE_E_NONE,               /* there is none, or what is there is no file */
        SIDE_FILE_E_FAILED,             /* errno */
        SIDE_FILE_E_FOREIGN,            /* there is something that no trace has left */
};

/* *namep: owned by the caller; NULL = a trace of that name has none beside it. Return: 0, -ENOMEM. */
int side_file_name(const char *trace, SideFile which, char **namep);

/* Whether one may be made there. Return: 0, SIDE_FILE_E_FOREIGN. */
int side_file_check(const char *name, SideFile which);

/*
 * Removes an old one, and nothing else. Return: 0, also if there is none; SIDE_FILE_E_FAILED,
 * SIDE_FILE_E_FOREIGN.
 */
int side_file_remove(const char *name, SideFile which);

bool side_file_exists(const char *trace, SideFile which);

/*
 * A new one with its first line, in the place of an old one. Return: 0, SIDE_FILE_E_FAILED,
 * SIDE_FILE_E_FOREIGN.
 */
int side_file_create(const char *name, SideFile which, mode_t mode, FILE **filep);

/*
 * Hands on the lines behind the first one, without their newlines; of one that is longer than all that we
 * write, or was cut, "".
 * Return: 0, SIDE_FILE_E_NONE, what @func returned, -ENOMEM.
 */
int side_file_read(const char *trace, SideFile which,
                   int (*func)(void *userdata, const char *line, size_t size), void *userdata);

/* A number that fills a cell of such a line: decimal, or with 0x. Pure. Return: whether it is one. */
bool side_file_number(const char *cell, size_t size, bool hex, uint64_t *valuep);
