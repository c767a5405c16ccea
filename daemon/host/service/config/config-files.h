/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Configuration Files
 *
 * Which there are, in their order, and whether root believes them.
 */

#include <stdbool.h>

/* A file that config_load() reads; borrowed for the visit. */
typedef struct ConfigFile {
        const char *path;               /* for messages */
        int fd;                         /* open for reading, at its start; -1 = see the next */
        const char *problem;            /* why it is not read; NULL = none */
} ConfigFile;

typedef int (*ConfigVisit)(const ConfigFile *file, void *userdata);

/*
 * Calls @visit for each file that config_load() would read, in its order; and for a directory of drop-ins
 * that is there and is not read, with the problem. @root and @as_root are as in ConfigSource. Return: 0, what
 * @visit returned, -ENOMEM.
 */
int config_visit_files(const char *root, bool as_root, ConfigVisit visit, void *userdata);
