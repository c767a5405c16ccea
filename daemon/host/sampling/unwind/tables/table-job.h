/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Table Jobs
 *
 * Tables made by workers without rights (core/base/sandbox/). The descriptor of a file goes to a worker, the
 * table comes back in pieces, and is checked like all bytes of an untrusted process (table-check.h).
 *
 * TableJob makes one table at a time; a file whose worker dies is tried once more, then it has no table.
 * TableJobs makes several at the same time.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/sandbox/worker-session.h"
#include "core/base/util/macro.h"
#include "host/sampling/unwind/tables/table.h"

typedef struct TableJob TableJob;

enum { TABLE_JOB_MAGIC = 0x4d4b5231 };

/* Request to a worker; the file's descriptor comes with it. */
typedef struct TableJobRequest {
        uint32_t magic;
        uint32_t max_functions;
        uint64_t max_bytes;
} TableJobRequest;

/* Answer of a worker; `size` bytes of table follow. */
typedef struct TableJobAnswer {
        uint32_t magic;
        int32_t result;                 /* 0, TABLE_E_NOT_ELF … TABLE_E_TOO_LARGE: no table follows */
        uint64_t size;
        uint64_t text_low, text_high;
        uint64_t n_rows;
        CfiCounts counts;
} TableJobAnswer;

extern const WorkerQuestion table_job_question;

/* @zygotes: borrowed. Return: 0, -errno. */
int table_job_new(TableJob **jobp, Zygotes *zygotes);
TableJob *table_job_free(TableJob *job);
DEFINE_CLEANUP(TableJob, table_job_free)

/* Readable when table_job_step() has something to do. */
int table_job_fd(const TableJob *job);

enum {
        TABLE_JOB_E_WAIT = 100,         /* nothing to do for now; differs from all TABLE_E_* */
        TABLE_JOB_E_FAILED,             /* no worker could make the table */
        TABLE_JOB_E_LATE,               /* no worker has made it in time */
};

/*
 * Begins a table. The job is busy until table_job_step() returns anything but TABLE_E_AGAIN and
 * TABLE_JOB_E_WAIT. @fd: borrowed until then. @timeout_ns: time limit of each try.
 */
void table_job_begin(TableJob *job, int fd, const TableLimits *limits, uint64_t timeout_ns);

/*
 * Goes on with the table; without one it looks after the worker. Return: 0 = *tablep is filled,
 * TABLE_E_NOT_ELF, _NO_TEXT, _NO_CFI, _TOO_LARGE, TABLE_E_AGAIN = there is more to do now, TABLE_JOB_E_WAIT,
 * TABLE_JOB_E_FAILED, TABLE_JOB_E_LATE, -ENOMEM.
 */
int table_job_step(TableJob *job, uint64_t budget, Table *tablep);

/* Pure. Whether an answer is sound, for a request with these limits. */
bool table_job_check_answer(const TableJobAnswer *answer, const TableLimits *limits);

/* Pure. The head of an answer, and back: @data is that of the table. @table: counts with @result 0 alone. */
TableJobAnswer table_job_answer(int result, const Table *table);
Table table_job_table(const TableJobAnswer *answer, uint8_t *data);

/* ---- several tables at the same time ---- */

/* Files that are read at the same time: more than most machines have processors to spare. */
enum { TABLE_JOBS_N = 3 };

typedef struct TableJobs TableJobs;

/* @zygotes: borrowed. Return: 0, -errno. */
int table_jobs_new(TableJobs **jobsp, Zygotes *zygotes);
TableJobs *table_jobs_free(TableJobs *jobs);
DEFINE_CLEANUP(TableJobs, table_jobs_free)

/* Descriptor of job @i of TABLE_JOBS_N: readable when table_jobs_step() has something to do. */
int table_jobs_fd(const TableJobs *jobs, int i);

/* Whether table_jobs_begin() would find a job. */
bool table_jobs_is_free(TableJobs *jobs, bool is_slow);

/*
 * Begins a table if a job is free. @what: stands for the file in table_jobs_step(), not NULL.
 * @is_slow: the file was late before. @fd: borrowed until table_jobs_step() returns @what.
 * Return: whether a job was free.
 */
bool table_jobs_begin(TableJobs *jobs, void *what, int fd, const TableLimits *limits, bool is_slow);

/*
 * Goes on with one of the tables. Return, when *whatp has ended: 0 with *tablep, TABLE_E_NOT_ELF, _NO_TEXT,
 * _NO_CFI, _TOO_LARGE, TABLE_JOB_E_LATE, _FAILED. Without *whatp: TABLE_E_AGAIN = there is more to do now,
 * TABLE_JOB_E_WAIT, -ENOMEM.
 */
int table_jobs_step(TableJobs *jobs, uint64_t budget, void **whatp, Table *tablep);

/* ---- the worker's side ---- */

/* Makes the table of @fd and sends it. */
void table_job_serve(int socket, int fd, const TableJobRequest *request);
