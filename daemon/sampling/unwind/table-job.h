/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * TableJob
 *
 * Tables made by workers without rights (sandbox/): a file's descriptor goes there, the table comes back in
 * pieces and is checked like anything that a stranger sent (table-check.h). A file whose worker dies is tried
 * once more; then it has no table.
 */

#include <stdint.h>

#include "base/sandbox/zygotes.h"
#include "base/util/macro.h"
#include "sampling/unwind/table.h"

typedef struct TableJob TableJob;

enum { TABLE_JOB_MAGIC = 0x4d4b5231 };

/* What is asked of a worker, beside the descriptor. */
typedef struct TableJobRequest {
        uint32_t magic;
        uint32_t max_functions;
        uint64_t max_bytes;
} TableJobRequest;

/* What it answers; `size` bytes of table follow. */
typedef struct TableJobAnswer {
        uint32_t magic;
        int32_t result;                 /* 0, TABLE_E_NOT_ELF … TABLE_E_TOO_LARGE: no table follows */
        uint64_t size;
        uint64_t text_low, text_high;
        uint64_t n_rows;
        CfiCounts counts;
} TableJobAnswer;

/* @zygotes: borrowed. Return: 0, -errno. */
int table_job_new(TableJob **makerp, Zygotes *zygotes);
TableJob *table_job_free(TableJob *job);
DEFINE_CLEANUP(TableJob, table_job_free)

/* Readable when table_job_step() has something to do. */
int table_job_fd(const TableJob *job);

enum {
        TABLE_JOB_E_WAIT = 100,             /* nothing to do for now; apart from TABLE_E_* */
        TABLE_JOB_E_FAILED,                 /* no worker could make it */
        TABLE_JOB_E_LATE,                   /* none has made it in time */
};

/*
 * Begins a table: one at a time, until table_job_step() returns anything but TABLE_E_AGAIN and
 * TABLE_JOB_E_WAIT. @fd: borrowed until then.
 * @timeout_ns: of each try.
 */
void table_job_begin(TableJob *job, int fd, const TableLimits *limits, uint64_t timeout_ns);

/*
 * Without a table in work it looks after the workers. Return: 0 = *tablep is filled, TABLE_E_NOT_ELF,
 * _NO_TEXT, _NO_CFI, _TOO_LARGE, TABLE_E_AGAIN = there is more to do now, TABLE_JOB_E_WAIT,
 * TABLE_JOB_E_FAILED, TABLE_JOB_E_LATE, -ENOMEM.
 */
int table_job_step(TableJob *job, uint64_t budget, Table *tablep);

/* Pure. Whether an answer may be what a worker says of a file with these limits. */
bool table_job_check_answer(const TableJobAnswer *answer, const TableLimits *limits);

/* In the worker: makes the table of @fd and sends it. */
void table_job_serve(int socket, int fd, const TableJobRequest *request);
