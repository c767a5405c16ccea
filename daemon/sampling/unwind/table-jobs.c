/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A file is a stranger's, and may be made to take long. In its first try it gets FIRST_NS, of which the
 * largest libraries known need a thirtieth; then it may take LONG_NS more, but in the first place alone. So
 * whoever has many such files holds up others for FIRST_NS each at most, and for all the rest of it nobody
 * but files like them.
 */
#include "sampling/unwind/table-jobs.h"

#include <errno.h>
#include <stdlib.h>

#include "base/util/clock.h"
#include "base/util/error.h"

#define FIRST_NS (10 * NS_PER_SEC)       /* on a machine with forty that want a processor, too */
#define LONG_NS (10 * NS_PER_SEC)

enum { SLOW_PLACE = 0 };

typedef struct Place {
        TableJob *job;
        void *what;                     /* NULL = it is free */
} Place;

struct TableJobs {
        Place places[TABLE_JOBS_N];
        int next;                       /* whose turn it is: nobody gets all of the loop's time */
};

TableJobs *table_jobs_free(TableJobs *jobs) {
        if (!jobs)
                return NULL;
        for (int i = 0; i < TABLE_JOBS_N; i++)
                table_job_free(jobs->places[i].job);
        free(jobs);
        return NULL;
}

int table_jobs_new(TableJobs **makersp, Zygotes *zygotes) {
        _cleanup_(table_jobs_freep) TableJobs *jobs = calloc(1, sizeof(*jobs));
        int r = 0;

        if (!jobs)
                return error_origin(-ENOMEM);
        for (int i = 0; i < TABLE_JOBS_N && !r; i++)
                r = table_job_new(&jobs->places[i].job, zygotes);
        if (r)
                return error_fold(r);
        *makersp = take(jobs);
        return 0;
}

int table_jobs_fd(const TableJobs *jobs, int i) {
        return table_job_fd(jobs->places[i].job);
}

/* The others first: the place of slow ones stays free for one as long as may be. */
static Place *find_place(TableJobs *jobs, bool is_slow) {
        for (int i = is_slow ? SLOW_PLACE : TABLE_JOBS_N - 1; i >= 0; i--)
                if (!jobs->places[i].what)
                        return &jobs->places[i];
        return NULL;
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
