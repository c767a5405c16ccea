/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Values by pc of a Go Program
 *
 * .gopclntab holds for each function a record, and streams of values that change with the pc: the size of the
 * frame, the line, the inlined call. These read both (pure: bytes in, values out). The target wrote all of
 * these bytes.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/elf/go-functions.h"

/* Bits of GoRecord.flags (internal/abi/symtab.go). */
enum {
        GO_FLAG_TOP = 1,                /* the function has no caller: a stack ends here */
        GO_FLAG_SP_WRITE = 2,           /* sets rsp to what no stream says */
        GO_FLAG_ASSEMBLY = 4,
};

/* Streams are offsets in the part GO_VALUES; 0 = none. */
typedef struct GoRecord {
        uint32_t sizes;                 /* bytes between rsp and the return address */
        uint32_t files, lines;
        uint32_t unit;                  /* where the numbers of its files count from, in GO_UNITS */
        uint32_t start_line;            /* 0 = not known (before Go 1.20) */
        uint32_t n_pcdata;
        /* place of the offsets of pcdata, then of funcdata; in GO_FUNCTIONS */
        uint32_t at;
        uint8_t n_funcdata;
        uint8_t flags;
} GoRecord;

/* Return: whether function number @index, of table->n, has a record inside the table. */
bool go_table_record(const GoTable *table, uint32_t index, GoRecord *record);

/* A stream. The range from `start` to `end` has `value`; both count from the function's start. */
typedef struct GoValues {
        const uint8_t *at, *limit;
        uint32_t start, end;
        uint32_t unit;                  /* bytes of the smallest instruction, in which the stream counts */
        int32_t value;
} GoValues;

/* @stream: of a GoRecord. Return: false = none, or outside of the table. */
bool go_values_init(GoValues *values, const GoTable *table, uint32_t stream);

/* Goes to the next range. Return: false = there is none, or the bytes are unsound. */
bool go_values_next(GoValues *values);

/* The value at @pc, from the function's start. Return: false = there is none. */
bool go_values_find(const GoTable *table, uint32_t stream, uint32_t pc, int32_t *valuep);
