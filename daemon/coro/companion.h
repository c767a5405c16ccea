/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Files beside a trace, which say what is no event: of t.jsonl, t.stations.csv and t.mappings.csv. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

typedef enum Companion {
        COMPANION_STATIONS,
        COMPANION_MAPPINGS,
        N_COMPANIONS,
} Companion;

enum {
        _COMPANION_E_SUCCESS,
        COMPANION_E_NONE,               /* there is none, or what is there is no file */
        COMPANION_E_FAILED,             /* errno */
        COMPANION_E_FOREIGN,            /* there is something that no trace has left */
};

/* *namep: owned by the caller; NULL = a trace of that name has none beside it. Return: 0, -ENOMEM. */
int companion_name(const char *trace, Companion which, char **namep);

/* Whether one may be made there. Return: 0, COMPANION_E_FOREIGN. */
int companion_check(const char *name, Companion which);

/* Removes an old one, and nothing else. Return: 0, also if there is none; COMPANION_E_FAILED, COMPANION_E_FOREIGN. */
int companion_remove(const char *name, Companion which);

bool companion_exists(const char *trace, Companion which);

/* A new one with its first line, in the place of an old one. Return: 0, COMPANION_E_FAILED, COMPANION_E_FOREIGN. */
int companion_create(const char *name, Companion which, mode_t mode, FILE **filep);

/*
 * Hands on the lines behind the first one, without their newlines; of one that is longer than all that we write, or was cut, "".
 * Return: 0, COMPANION_E_NONE, what @func returned, -ENOMEM.
 */
int companion_read(const char *trace, Companion which, int (*func)(void *userdata, const char *line, size_t size), void *userdata);

/* A number that fills a cell of such a line: decimal, or with 0x. Pure. Return: whether it is one. */
bool companion_number(const char *cell, size_t size, bool hex, uint64_t *valuep);
