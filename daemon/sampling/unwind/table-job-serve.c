/* SPDX-License-Identifier: Apache-2.0 */

/* The worker's half of job.h: the only one that reads the file. */

#include <stdlib.h>

#include "base/sandbox/channel.h"
#include "sampling/unwind/table-job.h"

static int make(int fd, const TableLimits *limits, Table *tablep) {
        TableBuilder *builder;
        int r = table_builder_new(&builder, fd, limits);

        if (!r)
                r = table_builder_step(builder, UINT64_MAX, tablep);
        return r;
}

/* Memory is given back by the end of the process. */
void table_job_serve(int socket, int fd, const TableJobRequest *request) {
        const TableLimits limits = { .max_functions = request->max_functions,
                                     .max_bytes = request->max_bytes };
        TableJobAnswer answer = { .magic = TABLE_JOB_MAGIC };
        Table table = { 0 };

        answer.result = make(fd, &limits, &table);
        if (answer.result < 0)
                return;
        answer.size = table.size;
        answer.text_low = table.text_low;
        answer.text_high = table.text_high;
        answer.n_rows = table.n_rows;
        answer.counts = table.counts;
        if (channel_send(socket, &answer, sizeof(answer), -1) == 0)
                channel_send(socket, table.data, table.size, -1);
}
