/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * TableJobs
 *
 * Several tables made at the same time, each by a worker of its own (job.h): a file that takes long, or for
 * ever, holds up nobody else. One place is for those that took too long before, and none of the others is.
 */

#include <stdbool.h>
#include <stdint.h>

#include "sampling/unwind/table-job.h"

/* files at the same time: more than most machines have processors to spare */
enum { TABLE_JOBS_N = 3 };

typedef struct TableJobs TableJobs;

/* @zygotes: borrowed. Return: 0, -errno. */
int table_jobs_new(TableJobs **makersp, Zygotes *zygotes);
TableJobs *table_jobs_free(TableJobs *jobs);
DEFINE_CLEANUP(TableJobs, table_jobs_free)

/* Readable, each of TABLE_JOBS_N, when table_jobs_step() has something to do. */
int table_jobs_fd(const TableJobs *jobs, int i);

/*
 * Begins a table if there is a place for it. @what: names it, not NULL. @is_slow: it was late before. @fd:
 * borrowed until table_jobs_step() has told of it. Return: whether there was a place.
 */
bool table_jobs_begin(TableJobs *jobs, void *what, int fd, const TableLimits *limits, bool is_slow);

/*
 * Works at one of them. Return: 0 with *tablep, TABLE_E_NOT_ELF, _NO_TEXT, _NO_CFI, _TOO_LARGE,
 * TABLE_JOB_E_LATE, _FAILED: that was all of *whatp, whose place is free. Without *whatp: TABLE_E_AGAIN =
 * there is more to do now, TABLE_JOB_E_WAIT, -ENOMEM.
 */
int table_jobs_step(TableJobs *jobs, uint64_t budget, void **whatp, Table *tablep);
