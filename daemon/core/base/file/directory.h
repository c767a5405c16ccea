/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Directories
 *
 * Those of procfs whose entries are numbers: processes, or the threads of one. And one of files of ours,
 * given to another user.
 */

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

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

enum {
        _DIRECTORY_E_SUCCESS,
        /* the directory holds what @is_ours() does not know, or a link: all stays as it was */
        DIRECTORY_E_FOREIGN,
};

/*
 * Makes the last part of @path (mode 0700) if it is missing, and gives it with all that is in it to a user:
 * if root owns it, no other user may write there, and it holds nothing but regular files and directories
 * that @is_ours() knows by their names. Of a directory in it nothing is given but itself. What another user
 * owns already stays theirs, and what cannot be opened is left for who needs it to say. Return: 0,
 * DIRECTORY_E_FOREIGN, -errno.
 */
int directory_give(const char *path, uid_t uid, gid_t gid,
                   bool (*is_ours)(const char *name, bool is_directory));

/* Return: what directory_give() would say of what is there now; gives and makes nothing. */
int directory_may_give(const char *path, bool (*is_ours)(const char *name, bool is_directory));
