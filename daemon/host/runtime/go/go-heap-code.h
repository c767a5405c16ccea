/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Variables of Go's Heap Profile
 *
 * Where a program has them, from the code of the functions that use them: stripped programs have no symbols.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/elf/go-functions.h"

/* Functions of the runtime that are read. */
typedef enum GoHeapFunction {
        GO_HEAP_FLUSH,                  /* runtime.mProf_Flush */
        GO_HEAP_FLUSH_LOCKED,           /* runtime.mProf_FlushLocked */
        GO_HEAP_BUCKET,                 /* runtime.stkbucket */
        GO_HEAP_INIT,                   /* runtime.schedinit; up to Go 1.19 runtime.init */
        GO_HEAP_N_FUNCTIONS,
} GoHeapFunction;

typedef struct GoHeapCode {
        const uint8_t *bytes;           /* borrowed; NULL = the program has no such function */
        size_t size;
        uint64_t address;
} GoHeapCode;

/* Addresses of variables. */
typedef struct GoHeapPlaces {
        uint64_t cycle;                 /* mProfCycle: four bytes; if is_split, the flag is the next byte */
        uint64_t lock;                  /* profMemActiveLock, or proflock */
        uint64_t buckets;               /* mbuckets: the newest bucket */
        uint64_t rate;                  /* MemProfileRate */
        bool is_split;
} GoHeapPlaces;

/* Pure. @minor: version of Go. Return: whether the code is as it must be. */
bool go_heap_decode(const GoHeapCode code[static GO_HEAP_N_FUNCTIONS], uint32_t minor, GoHeapPlaces *places);

/*
 * ELF addresses of the variables of a program. Return: whether they were found, and lie in memory that it may
 * write.
 */
bool go_heap_find(const ElfImage *image, const GoFunctions *functions, uint32_t minor, GoHeapPlaces *places);
