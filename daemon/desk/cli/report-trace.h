/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Traces of coroutines among the inputs of `report`. */

#include "desk/cli/inputs.h"
#include "desk/cli/trace-names.h"
#include "desk/report/coroutines.h"

typedef struct ReportTraces {
        CoroutineReport *report;        /* NULL = there was none yet */
        TraceNames *names;              /* NULL = no trace says what its addresses are */
        size_t n_files;
        uint64_t n_malformed;
} ReportTraces;

bool report_is_trace(const Source *source);

/* Return: 0, also after a message about the input, -ENOMEM. */
int report_add_trace(ReportTraces *traces, Inputs *inputs, const Source *source, Symbolizer *symbolizer);
void report_traces_deinit(ReportTraces *traces);
