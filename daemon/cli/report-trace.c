/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report-trace.h"

#include <inttypes.h>

#include "convert/trace-source.h"

bool report_is_trace(const Source *source) {
        return convert_recognize(source) == &convert_read_coro;
}

static int add_event(void *userdata, const CoroEvent *event) {
        return coroutine_report_event(userdata, event);
}

static int add_station(void *userdata, const TraceStationEnd *end) {
        return coroutine_report_station(userdata, end);
}

/* A trace has no times of the calendar and no spans: of the filters, only that of coroutines fits. */
static int add_events(ReportTraces *traces, const Source *source, Text *problem) {
        TraceReadCounts counts;
        uint64_t n_malformed = 0;
        int r = trace_source_read(source, add_event, traces->report, &counts, problem);

        traces->n_malformed += counts.n_malformed;
        if (!r && counts.n_malformed)
                text_printf(problem, "%" PRIu64 " lines are no events and were left out", counts.n_malformed);
        if (r)
                return r;
        r = trace_stations_read(source->name, trace_source_form(source), add_station, traces->report, &n_malformed);
        if (r == TRACE_STATIONS_E_NONE)
                r = 0;
        if (!r && n_malformed)
                text_printf(problem, "%" PRIu64 " of its stations are malformed and were left out", n_malformed);
        return r ? r : counts.n_malformed || n_malformed ? 1 : 0;
}

int report_add_trace(ReportTraces *traces, Inputs *inputs, const Source *source) {
        uint64_t n_before = traces->report ? coroutine_report_n_events(traces->report) : 0;
        const FilterWords *wanted = &inputs->options.filter.coroutines;
        Text problem = { 0 };
        int r = traces->report ? 0 : coroutine_report_new(&traces->report, wanted->items, wanted->n_items);

        if (!r)
                r = add_events(traces, source, &problem);
        if (r > 0)
                inputs_mistake(inputs, source, &problem);
        text_deinit(&problem);
        if (r < 0)
                return r;
        inputs->n_read += !r;
        inputs->n_partly += r && coroutine_report_n_events(traces->report) > n_before;
        traces->n_files++;
        return 0;
}

void report_traces_deinit(ReportTraces *traces) {
        coroutine_report_free(traces->report);
        *traces = (ReportTraces){ 0 };
}
