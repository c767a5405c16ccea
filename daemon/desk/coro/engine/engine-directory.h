/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Directory of an Engine
 *
 * An engine without given paths makes a directory BASE/spanprof-XXXXXX for its region and socket, locked for
 * as long as the engine or its socket holder lives. A later engine removes directories that were left behind.
 */

/*
 * *directoryp: owned by the caller. *lockp: the descriptor of the lock, to be kept until the end. Return: 0,
 * 1 (errno), -ENOMEM.
 */
int engine_directory_make(const char *base, char **directoryp, int *lockp);

/* Removes directories that killed engines left in @base, and logs each. */
void engine_directory_remove_old(const char *base);
