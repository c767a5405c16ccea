/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Directories
 *
 * Those of procfs whose entries are numbers: processes, or the threads of one.
 */

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>

/* For _cleanup_(). */
static inline void closedirp(DIR **dirp) {
        if (*dirp)
                closedir(*dirp);
}

/*
 * The next entry whose name is a number that an int32_t holds; others are passed over. Return: false = there
 * is none any more.
 */
bool directory_next_number(DIR *dir, uint32_t *numberp);
