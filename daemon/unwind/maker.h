/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Maker
 *
 * Tables made by workers without rights (jail/): a file's descriptor goes there, the table comes back in pieces and is
 * checked like anything that a stranger sent (table-check.h). A file whose worker dies is tried once more; then it has no table.
 */

#include <stdint.h>

#include "jail/nursery.h"
#include "unwind/table.h"
#include "util/macro.h"

typedef struct Maker Maker;

enum { MAKER_MAGIC = 0x4d4b5231 };

/* What is asked of a worker, beside the descriptor. */
typedef struct MakerRequest {
        uint32_t magic;
        uint32_t max_functions;
        uint64_t max_bytes;
} MakerRequest;

/* What it answers; `size` bytes of table follow. */
typedef struct MakerAnswer {
        uint32_t magic;
        int32_t result;                 /* 0, TABLE_E_NOT_ELF … TABLE_E_TOO_LARGE: no table follows */
        uint64_t size;
        uint64_t text_low, text_high;
        uint64_t n_rows;
        CfiCounts counts;
} MakerAnswer;

/* @nursery: borrowed. Return: 0, -errno. */
int maker_new(Maker **makerp, Nursery *nursery);
Maker *maker_free(Maker *maker);
DEFINE_CLEANUP(Maker, maker_free)

/* Readable when maker_step() has something to do. */
int maker_fd(const Maker *maker);

enum {
        MAKER_E_WAIT = 100,             /* nothing to do for now; apart from TABLE_E_* */
        MAKER_E_FAILED,                 /* no worker could make it */
        MAKER_E_LATE,                   /* none has made it in time */
};

/*
 * Begins a table: one at a time, until maker_step() returns anything but TABLE_E_AGAIN and MAKER_E_WAIT. @fd: borrowed until then.
 * @timeout_ns: of each try.
 */
void maker_begin(Maker *maker, int fd, const TableLimits *limits, uint64_t timeout_ns);

/*
 * Without a table in work it looks after the workers. Return: 0 = *tablep is filled, TABLE_E_NOT_ELF, _NO_TEXT, _NO_CFI,
 * _TOO_LARGE, TABLE_E_AGAIN = there is more to do now, MAKER_E_WAIT, MAKER_E_FAILED, MAKER_E_LATE, -ENOMEM.
 */
int maker_step(Maker *maker, uint64_t budget, Table *tablep);

/* Pure. Whether an answer may be what a worker says of a file with these limits. */
bool maker_check_answer(const MakerAnswer *answer, const TableLimits *limits);

/* In the worker: makes the table of @fd and sends it. */
void maker_serve(int socket, int fd, const MakerRequest *request);
