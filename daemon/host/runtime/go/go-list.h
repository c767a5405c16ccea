/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Go's List of Goroutines
 *
 * Where a program without symbols has it.
 */

#include <stdbool.h>
#include <stdint.h>

#include "host/runtime/go/go-program.h"

/*
 * ELF addresses of runtime.allgptr and runtime.allglen, from the code of the function that writes them.
 * Return: whether it was found and is as it must be. Reads .gopclntab, up to 64 MiB.
 */
bool go_list_find(const GoInput *input, uint64_t *listp, uint64_t *lengthp);
