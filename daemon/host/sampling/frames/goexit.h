/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Goexit
 *
 * Where the stack of a goroutine begins: in runtime.goexit, which has no caller. Told by the code there,
 * so that it works for stripped programs, too.
 */

#include <stdbool.h>
#include <stdint.h>

#include "host/sampling/process/mapping.h"
#include "host/sampling/process/process.h"

enum { GOEXIT_MAX_LOOKS = 16 };      /* into one file, for as long as none was there */

/*
 * Whether @address, an ELF address in the file of @mapping, is the first instruction of goexit. A file that
 * has none is looked into GOEXIT_MAX_LOOKS times and then no more: its stacks stay FP_END.
 */
bool goexit_begins(const Mapping *mapping, const Process *process, uint64_t address);
