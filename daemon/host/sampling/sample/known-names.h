/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Known Names
 *
 * Names of programs that were targets lately, as the kernel half's map holds them (bpf/walk/wake.bpf.h). Over
 * ABI_MAX_KNOWN_NAMES the oldest one goes. Pure: the caller changes the map.
 */

#include <stdbool.h>
#include <stdint.h>

#include "border/abi.h"

typedef struct KnownNames {
        char names[ABI_MAX_KNOWN_NAMES][ABI_COMM_SIZE];         /* in the order of arrival, as a ring */
        uint32_t n;                     /* that have arrived so far */
} KnownNames;

typedef struct KnownNamesChange {
        char added[ABI_COMM_SIZE];      /* filled up with zeros, as the kernel has it */
        char removed[ABI_COMM_SIZE];    /* "" = none */
} KnownNamesChange;

/* Return: whether @name was not known, with the change. An empty name is never known. */
bool known_names_add(KnownNames *known, const char *name, KnownNamesChange *changep);
