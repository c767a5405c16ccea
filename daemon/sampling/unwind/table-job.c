/* SPDX-License-Identifier: Apache-2.0 */
#include "sampling/unwind/table-job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/sandbox/helper.h"
#include "base/util/error.h"
#include "base/util/log.h"
#include "base/util/stat.h"
#include "sampling/unwind/table-check.h"

enum {
        MAX_TRIES = 2,
        PIECE = 256 << 10,              /* of a table, read at once */
};

struct TableJob {
        Helper *helper;
        bool is_at_work;
        int fd;
        TableLimits limits;
        uint64_t timeout_ns;
        unsigned n_tries;
        TableJobAnswer answer;
        size_t n_answer;                /* bytes of it that have come */
        uint8_t *data;                  /* of the table */
        size_t n_data;
        TableCheck check;
};

static void forget_answer(TableJob *job) {
        free(job->data);
        job->data = NULL;
        job->n_answer = job->n_data = 0;
}

TableJob *table_job_free(TableJob *job) {
        if (!job)
                return NULL;
        forget_answer(job);
        helper_free(job->helper);
        free(job);
        return NULL;
}

int table_job_new(TableJob **makerp, Zygotes *zygotes) {
        _cleanup_(table_job_freep) TableJob *job = calloc(1, sizeof(*job));
        int r;

        if (!job)
                return error_origin(-ENOMEM);
        r = helper_new(&job->helper, zygotes);
        if (r)
                return error_fold(r);
        *makerp = take(job);
        return 0;
}

int table_job_fd(const TableJob *job) {
        return helper_fd(job->helper);
}

static void ask(TableJob *job) {
        TableJobRequest request = { .magic = TABLE_JOB_MAGIC, .max_functions = job->limits.max_functions,
                                 .max_bytes = job->limits.max_bytes };

        forget_answer(job);
        job->n_tries++;
        helper_ask(job->helper, &request, sizeof(request), job->fd, job->timeout_ns);
}

void table_job_begin(TableJob *job, int fd, const TableLimits *limits, uint64_t timeout_ns) {
        job->is_at_work = true;
        job->fd = fd;
        job->limits = *limits;
        job->timeout_ns = timeout_ns;
        job->n_tries = 0;
        ask(job);
}

bool table_job_check_answer(const TableJobAnswer *answer, const TableLimits *limits) {
        if (answer->magic != TABLE_JOB_MAGIC || answer->result < 0)
                return false;
        if (answer->result)
                return answer->size == 0 &&
                        (answer->result == TABLE_E_NOT_ELF || answer->result == TABLE_E_NO_TEXT ||
                         answer->result == TABLE_E_NO_CFI || answer->result == TABLE_E_TOO_LARGE);
        return answer->size > 0 && answer->size <= limits->max_bytes && answer->size % UNWIND_BLOCK_SIZE == 0;
}

/* Nothing more of this file. */
static int end(TableJob *job, int r) {
        forget_answer(job);
        job->is_at_work = false;
        return r;
}

static int try_again(TableJob *job) {
        if (job->n_tries >= MAX_TRIES) {
                log_debug("no worker could make the unwind rows of a file");
                return end(job, TABLE_JOB_E_FAILED);
        }
        ask(job);
        return TABLE_JOB_E_WAIT;
}

/* It says what is not so: as good as none. */
static int refuse(TableJob *job) {
        stat_add(COUNTER_WORKERS_MALFORMED, 1);
        helper_done(job->helper, true);
        return try_again(job);
}

static int finish(TableJob *job, Table *tablep) {
        const TableJobAnswer *answer = &job->answer;

        *tablep = (Table){ .data = take(job->data),
                           .size = answer->size,
                           .text_low = answer->text_low,
                           .text_high = answer->text_high,
                           .n_rows = answer->n_rows,
                           .counts = answer->counts };
        helper_done(job->helper, false);
        return end(job, 0);
}

/* All of it is there: checked in steps, as it was made in steps. */
static int check(TableJob *job, uint64_t budget, Table *tablep) {
        Table table = { .data = job->data, .size = job->answer.size, .text_low = job->answer.text_low,
                        .text_high = job->answer.text_high };
        int r = table_check(&job->check, &table, budget);

        if (r == TABLE_CHECK_E_AGAIN)
                return TABLE_E_AGAIN;
        return r ? refuse(job) : finish(job, tablep);
}

/* Return: 0 = go on, -ENOMEM, or what table_job_step() shall return. */
static int begin_data(TableJob *job) {
        if (!table_job_check_answer(&job->answer, &job->limits))
                return refuse(job);
        if (job->answer.result) {
                helper_done(job->helper, false);
                return end(job, job->answer.result);
        }
        job->data = malloc(job->answer.size);
        job->check = (TableCheck){ 0 };
        return job->data ? 0 : error_origin(-ENOMEM);
}

static int receive(TableJob *job, uint64_t budget, Table *tablep) {
        bool is_header = job->n_answer < sizeof(job->answer);
        uint8_t *to = is_header ? (uint8_t *)&job->answer + job->n_answer : job->data + job->n_data;
        size_t left = is_header ? sizeof(job->answer) - job->n_answer : job->answer.size - job->n_data, n;
        int r;

        if (!is_header && left == 0)
                return check(job, budget, tablep);
        r = helper_read(job->helper, to, MIN(left, (size_t)PIECE), &n);
        if (r == HELPER_E_WAIT)
                return TABLE_JOB_E_WAIT;
        if (r == HELPER_E_GONE || r == HELPER_E_LATE)
                return end(job, r == HELPER_E_LATE ? TABLE_JOB_E_LATE : TABLE_JOB_E_FAILED);
        if (r)
                return try_again(job);
        *(is_header ? &job->n_answer : &job->n_data) += n;
        r = is_header && n == left ? begin_data(job) : 0;
        return r ?: TABLE_E_AGAIN;
}

int table_job_step(TableJob *job, uint64_t budget, Table *tablep) {
        if (job->is_at_work)
                return receive(job, budget, tablep);
        helper_tend(job->helper);
        return TABLE_JOB_E_WAIT;
}
