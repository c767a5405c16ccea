/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Check of a Region
 *
 * Holds the stations of coroutines that a process has mapped against the rules of writers
 * (host/sampling/context/writer-rules.h), as `spanprof coro` reads them.
 */

#include <sys/types.h>

#include "core/base/util/macro.h"
#include "host/sampling/context/writer-rules.h"

typedef struct RegionCheck RegionCheck;

/* Finds the regions of @pid. Return: 0, -errno. */
int region_check_new(RegionCheck **checkp, pid_t pid, WriterRules *rules);
RegionCheck *region_check_free(RegionCheck *check);
DEFINE_CLEANUP(RegionCheck, region_check_free)

/* Reads the events that came since the last look. Return: 0, -errno. */
int region_check_look(RegionCheck *check);

/* Return: 0, -errno. */
int region_check_finish(RegionCheck *check);
