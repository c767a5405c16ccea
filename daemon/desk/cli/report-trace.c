/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Adds events, stations and mappings of a trace to a report of coroutines.
 */

#include "desk/cli/report-trace.h"

#include <inttypes.h>

#include "core/base/util/log.h"
#include "desk/coro/read/trace-source.h"

bool report_is_trace(const Source *source) {
        return convert_recognize(source) == &convert_read_coro;
}

static int add_event(void *userdata, const CoroEvent *event) {
        ReportTraces *traces = userdata;

        return coroutine_report_event(traces->report, event);
}

static int add_station(void *userdata, const TraceStationEnd *end) {
        ReportTraces *traces = userdata;
        int r = coroutine_report_station(traces->report, end);

        return r ? r : trace_code_station(trace_names_code(traces->names), end);
}

static int add_mapping(void *userdata, const TraceMapping *mapping) {
        ReportTraces *traces = userdata;

        return trace_code_mapping(trace_names_code(traces->names), mapping);
}

static void warn_shared(const Source *source, uint32_t n) {
        if (n)
                log_warning(
                        "%s: %" PRIu32
                        " of its coroutines %s in an earlier trace, too: if they are others, nothing tells them apart",
                        source->name, n, n == 1 ? "was" : "were");
}

/*
 * A trace has no times of the calendar and no spans: of the filters, only that of coroutines fits. What is
 * malformed of its rows costs states and names, no event.
 */
static int add_all(ReportTraces *traces, const Source *source, Text *problem) {
        const TraceTakers to = { add_event, add_station, add_mapping, traces };
        TraceReadCounts counts;
        int r = trace_source_read(source, &to, &counts, problem);

        traces->n_malformed += counts.n_malformed;
        if (r)
                return r;
        warn_shared(source, coroutine_report_next_trace(traces->report));
        return trace_read_tell(&counts, problem);
}

int report_add_trace(ReportTraces *traces, Inputs *inputs, const Source *source, Symbolizer *symbolizer) {
        uint64_t n_before = traces->report ? coroutine_report_n_events(traces->report) : 0;
        const FilterWords *wanted = &inputs->options.filter.coroutines;
        Text problem = { 0 };
        int r = traces->report ? 0 : coroutine_report_new(&traces->report, wanted->items, wanted->n_items);

        if (!r && !traces->names)
                r = trace_names_new(&traces->names, symbolizer);
        if (!r)
                r = add_all(traces, source, &problem);
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
        if (traces->names)
                trace_names_say(traces->names);
        trace_names_free(traces->names);
        coroutine_report_free(traces->report);
        *traces = (ReportTraces){ 0 };
}
