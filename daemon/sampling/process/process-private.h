/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of Process
 *
 *     process.c           who it is
 *     process-read.c      its mappings, read from /proc
 *     process-change.c    its mappings, as notices tell of them
 */

#include "sampling/process/process.h"

/* What an error of a file below /proc/PID means: PROCESS_E_*. */
int process_condition(int error);

/* The array with all that it holds. */
void process_free_mappings(Mapping *mappings, size_t n);

/* For `maps_serial`. */
uint64_t process_new_serial(void);
