/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Directories of Engines
 *
 * An engine that has not been told where makes a directory BASE/spanprof-XXXXXX for its region and socket. As
 * long as it or its keeper lives, the directory is locked; who was killed leaves it behind, with memory if
 * BASE is /dev/shm. The next engine of the same user removes it, unless a program still has the region
 * mapped.
 */

/*
 * @directoryp: owned by the caller. *lockp: a descriptor to keep until the end. Return: 0, 1 (errno),
 * -ENOMEM.
 */
int engine_directory_make(const char *base, char **directoryp, int *lockp);

/* Removes what is left in @base, and says so. */
void engine_directory_remove_old(const char *base);
