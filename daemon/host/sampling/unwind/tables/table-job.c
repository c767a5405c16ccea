/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Talks with a worker about its file; the conversation ends with it:
 *
 *     daemon  TableJobRequest { max_functions, max_bytes } + descriptor of the file  ──▶  worker
 *     daemon  ◀──  TableJobAnswer { result, size, text, n_rows, counts }, table (size bytes)
 *
 * The daemon reads PIECE bytes a step, so the event loop never waits for a large table, then checks the table
 * in steps too. A worker that dies or lies costs one of two tries.
 *
 * A target made the file, and may have made it slow to read. Several jobs keep such a file from holding up
 * all others. In its first try a file has FIRST_NS, of which the largest libraries known need a thirtieth. A
 * file that was late gets LONG_NS more, but only from the job SLOW_JOB, which late files share:
 *
 *     job 0   slow file A ······································ (then slow file B)
 *     job 1   libc | libssl | a new file ··· late, goes to job 0's queue | libz | …
 *     job 2   java | …
 *
 * So many slow files hold up the others for FIRST_NS each at most, and after that only one another.
 */
#include "host/sampling/unwind/tables/table-job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/sandbox/channel.h"
#include "core/base/sandbox/helper.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "host/sampling/unwind/tables/table-check.h"

enum {
        MAX_SCAN = 16 << 20,            /* bytes of code; seconds at the worst */
        PIECE = 256 << 10,              /* bytes of a table that one step reads */
};

#define SAY_AGAIN_NS (60 * NS_PER_SEC)

struct TableJob {
        Helper *helper;
        bool is_at_work;
        int fd;
        TableLimits limits;
        uint64_t timeout_ns;
        unsigned n_tries;
        TableJobAnswer answer;
        bool has_answer;                /* the head of the answer; the table follows */
        uint8_t *data;                  /* bytes of the table */
        size_t n_data;
        TableCheck check;
};

static void forget_answer(TableJob *job) {
        free(job->data);
        job->data = NULL;
        job->n_data = 0;
        job->has_answer = false;
}

TableJob *table_job_free(TableJob *job) {
        if (!job)
                return NULL;
        forget_answer(job);
        helper_free(job->helper);
        free(job);
        return NULL;
}

int table_job_new(TableJob **jobp, Zygotes *zygotes) {
        _cleanup_(table_job_freep) TableJob *job = calloc(1, sizeof(*job));
        int r;

        if (!job)
                return error_origin(-ENOMEM);
        r = helper_new(&job->helper, zygotes);
        if (r)
                return error_fold(r);
        *jobp = take(job);
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

TableJobAnswer table_job_answer(int result, const Table *table) {
        if (result)
                return (TableJobAnswer){ .magic = TABLE_JOB_MAGIC, .result = result };
        return (TableJobAnswer){ .magic = TABLE_JOB_MAGIC,
                                 .size = table->size,
                                 .text_low = table->text_low,
                                 .text_high = table->text_high,
                                 .n_rows = table->n_rows,
                                 .counts = table->counts };
}

Table table_job_table(const TableJobAnswer *answer, uint8_t *data) {
        return (Table){ .data = data,
                        .size = answer->size,
                        .text_low = answer->text_low,
                        .text_high = answer->text_high,
                        .n_rows = answer->n_rows,
                        .counts = answer->counts };
}

static bool is_sound(const void *answer, const void *request) {
        const TableJobRequest *asked = request;

        return table_job_check_answer(answer, &(TableLimits){ .max_bytes = asked->max_bytes });
}

const WorkerQuestion table_job_question = {
        .magic = TABLE_JOB_MAGIC,
        .request_size = sizeof(TableJobRequest),
        .answer_size = sizeof(TableJobAnswer),
        .needs_file = true,
        .n_tries = 2,
        .is_sound = is_sound,
};

/* Ends the work on this file. */
static int end(TableJob *job, int r) {
        forget_answer(job);
        job->is_at_work = false;
        return r;
}

static void say_failed(void) {
        static LogLimit limit;
        uint64_t n_skipped;

        if (log_limit(&limit, SAY_AGAIN_NS, &n_skipped))
                log_warning("no worker could make the unwind rows of %s: stacks end early there; `spanprof doctor` "
                            "says what workers lack",
                            n_skipped ? "several files" : "a file");
}

static int try_again(TableJob *job) {
        if (job->n_tries >= table_job_question.n_tries) {
                say_failed();
                return end(job, TABLE_JOB_E_FAILED);
        }
        ask(job);
        return TABLE_JOB_E_WAIT;
}

/* A wrong answer counts as no answer. */
static int refuse(TableJob *job) {
        helper_refuse(job->helper);
        return try_again(job);
}

static int finish(TableJob *job, Table *tablep) {
        *tablep = table_job_table(&job->answer, take(job->data));
        helper_done(job->helper, false);
        return end(job, 0);
}

/* Checks a table that has arrived as a whole, in steps, as it was made in steps. */
static int check(TableJob *job, uint64_t budget, Table *tablep) {
        const Table table = table_job_table(&job->answer, job->data);
        int r = table_check(&job->check, &table, budget);

        if (r == TABLE_CHECK_E_AGAIN)
                return TABLE_E_AGAIN;
        return r ? refuse(job) : finish(job, tablep);
}

/* Return: 0 = go on, -ENOMEM, or what table_job_step() shall return. */
static int begin_data(TableJob *job) {
        job->has_answer = true;
        if (job->answer.result) {
                helper_done(job->helper, false);
                return end(job, job->answer.result);
        }
        job->data = malloc(job->answer.size);
        job->check = (TableCheck){ 0 };
        return job->data ? 0 : error_origin(-ENOMEM);
}

static int receive(TableJob *job, uint64_t budget, Table *tablep) {
        size_t left = job->has_answer ? job->answer.size - job->n_data : 0, n = 0;
        int r;

        if (job->has_answer && !left)
                return check(job, budget, tablep);
        r = job->has_answer ? helper_read(job->helper, job->data + job->n_data, MIN(left, (size_t)PIECE), &n)
                            : helper_hear(job->helper, &table_job_question, &job->answer);
        if (r == HELPER_E_WAIT)
                return TABLE_JOB_E_WAIT;
        if (r == HELPER_E_GONE || r == HELPER_E_LATE)
                return end(job, r == HELPER_E_LATE ? TABLE_JOB_E_LATE : TABLE_JOB_E_FAILED);
        if (r)
                return try_again(job);
        job->n_data += n;
        r = job->has_answer ? 0 : begin_data(job);
        return r ?: TABLE_E_AGAIN;
}

int table_job_step(TableJob *job, uint64_t budget, Table *tablep) {
        if (job->is_at_work)
                return receive(job, budget, tablep);
        helper_tend(job->helper);
        return TABLE_JOB_E_WAIT;
}

/* ---- several tables at the same time ---- */

#define FIRST_NS (10 * NS_PER_SEC)      /* enough with forty processes on each processor, too */
#define LONG_NS (10 * NS_PER_SEC)

enum { SLOW_JOB = 0 };

typedef struct Place {
        TableJob *job;
        void *what;                     /* NULL = the job is free */
} Place;

struct TableJobs {
        Place places[TABLE_JOBS_N];
        int next;                       /* the job whose turn it is: none gets all of the loop's time */
};

TableJobs *table_jobs_free(TableJobs *jobs) {
        if (!jobs)
                return NULL;
        for (int i = 0; i < TABLE_JOBS_N; i++)
                table_job_free(jobs->places[i].job);
        free(jobs);
        return NULL;
}

int table_jobs_new(TableJobs **jobsp, Zygotes *zygotes) {
        _cleanup_(table_jobs_freep) TableJobs *jobs = calloc(1, sizeof(*jobs));
        int r = 0;

        if (!jobs)
                return error_origin(-ENOMEM);
        for (int i = 0; i < TABLE_JOBS_N && !r; i++)
                r = table_job_new(&jobs->places[i].job, zygotes);
        if (r)
                return error_fold(r);
        *jobsp = take(jobs);
        return 0;
}

int table_jobs_fd(const TableJobs *jobs, int i) {
        return table_job_fd(jobs->places[i].job);
}

/* A file in its first try takes the job of slow files last, so that this one is free when one comes. */
static Place *find_place(TableJobs *jobs, bool is_slow) {
        for (int i = is_slow ? SLOW_JOB : TABLE_JOBS_N - 1; i >= 0; i--)
                if (!jobs->places[i].what)
                        return &jobs->places[i];
        return NULL;
}

bool table_jobs_is_free(TableJobs *jobs, bool is_slow) {
        return find_place(jobs, is_slow);
}

bool table_jobs_begin(TableJobs *jobs, void *what, int fd, const TableLimits *limits, bool is_slow) {
        Place *place = find_place(jobs, is_slow);

        if (!place)
                return false;
        place->what = what;
        table_job_begin(place->job, fd, limits, is_slow ? LONG_NS : FIRST_NS);
        return true;
}

int table_jobs_step(TableJobs *jobs, uint64_t budget, void **whatp, Table *tablep) {
        for (int i = 0; i < TABLE_JOBS_N; i++) {
                Place *place = &jobs->places[(jobs->next + i) % TABLE_JOBS_N];
                int r = table_job_step(place->job, budget, tablep);

                if (r == TABLE_JOB_E_WAIT)
                        continue;
                jobs->next = (jobs->next + i + 1) % TABLE_JOBS_N;
                if (r < 0)
                        return error_fold(r);
                if (r == TABLE_E_AGAIN)
                        return r;
                *whatp = place->what;
                place->what = NULL;
                return r;
        }
        return TABLE_JOB_E_WAIT;
}

/* ---- the worker's side ---- */

static int make(int fd, const TableLimits *limits, Table *tablep) {
        TableBuilder *builder;
        int r = table_builder_new(&builder, fd, limits);

        if (!r)
                r = table_builder_step(builder, UINT64_MAX, tablep);
        return r;
}

/* The end of the process gives its memory back. */
void table_job_serve(int socket, int fd, const TableJobRequest *request) {
        const TableLimits limits = { .max_functions = request->max_functions,
                                     .max_bytes = request->max_bytes,
                                     .max_scan = MAX_SCAN };
        Table table = { 0 };
        const TableJobAnswer answer = table_job_answer(make(fd, &limits, &table), &table);

        if (answer.result < 0)
                return;
        if (channel_send(socket, &answer, sizeof(answer), -1) == 0)
                channel_send(socket, table.data, table.size, -1);
}
