/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * OBI's Map
 *
 * Finds the map in which OBI (OpenTelemetry's eBPF instrumentation) keeps the span of each thread that it
 * follows, and hands it to the kernel half, which reads it (bpf/walk/obi.bpf.h says what is believed of it).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/util/macro.h"
#include "host/sampling/sample/kernel-half.h"

typedef struct ObiMap ObiMap;

typedef enum ObiMapState {
        OBI_MAP_ABSENT,                 /* nothing is at the path, as far as we may see */
        OBI_MAP_CLOSED,                 /* it may not be opened, or is no map */
        OBI_MAP_FOREIGN,                /* it is no map of OBI's, or larger than we take */
        OBI_MAP_EMPTY,                  /* OBI has written nothing so far */
        OBI_MAP_FILLED,
} ObiMapState;

/* Looks at @path, for doctor. @reason: room for words why, with CLOSED and FOREIGN. */
ObiMapState obi_map_look(const char *path, char *reason, size_t size);

/* @path, @half: borrowed. Nothing is looked at yet. Return: 0, -ENOMEM. */
int obi_map_new(ObiMap **mapp, const char *path, KernelHalf *half);
ObiMap *obi_map_free(ObiMap *map);
DEFINE_CLEANUP(ObiMap, obi_map_free)

/*
 * Looks whether OBI has come, gone, or made another map, and follows. Called at the start and each second. It
 * costs a system call while nothing is at the path. What does not work is logged once, and is no error.
 */
void obi_map_follow(ObiMap *map);
