/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Input
 *
 * Files of profiles that were named on the command line; `-` is standard input, once. A file that cannot be
 * read is a mistake of its own: the others still count.
 */

#include <stdbool.h>
#include <stddef.h>

typedef struct Input {
        bool stdin_used;
} Input;

/* The name of an input in messages. */
const char *input_name(const char *argument);

/* Logs `NAME: what: where`. Return: STATUS_FAILURE. */
int input_mistake(const char *name, const char *what, const char *where);

/*
 * *datap is owned by the caller. Return: 0, STATUS_FAILURE after a message (an empty file is one too),
 * -ENOMEM.
 */
int input_read(Input *input, const char *argument, char **datap, size_t *sizep);
