/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report-trace.h"


#include "coro/trace/trace-side-files.h"
#include "formats/coro/trace-source.h"

bool report_is_trace(const Source *source) {
        return convert_recognize(source) == &convert_read_coro;
}

typedef struct Adding {
        ReportTraces *traces;
        TraceSample sample;
} Adding;

static int add_event(void *userdata, const CoroEvent *event) {
        Adding *adding = userdata;
        int r = trace_sample_event(&adding->sample, event);

        return r ? r : coroutine_report_event(adding->traces->report, event);
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

/*
 * A trace has no times of the calendar and no spans: of the filters, only that of coroutines fits. What is
 * malformed beside its events costs states and names, no event.
 */
static int add_events(Adding *adding, const Source *source, Text *problem) {
        ReportTraces *traces = adding->traces;
        const TraceRowFuncs beside = { add_station, add_mapping, traces };
        TraceReadCounts counts;
        int r = trace_source_read(source, add_event, adding, &counts, problem);

        traces->n_malformed += counts.n_malformed;
        if (r)
                return r;
        trace_read_tell(&counts, problem);
        trace_side_files_warn_shared(source->name, coroutine_report_next_trace(traces->report));
        r = trace_side_files_read(source->name, trace_source_form(source), &adding->sample, &beside, problem);
        return r ? r : counts.n_malformed != 0;
}

int report_add_trace(ReportTraces *traces, Inputs *inputs, const Source *source, Symbolizer *symbolizer) {
        uint64_t n_before = traces->report ? coroutine_report_n_events(traces->report) : 0;
        const FilterWords *wanted = &inputs->options.filter.coroutines;
        Adding adding = { .traces = traces };
        Text problem = { 0 };
        int r = traces->report ? 0 : coroutine_report_new(&traces->report, wanted->items, wanted->n_items);

        if (!r && !traces->names)
                r = trace_names_new(&traces->names, symbolizer);
        if (!r)
                r = add_events(&adding, source, &problem);
        if (r > 0)
                inputs_mistake(inputs, source, &problem);
        text_deinit(&problem);
        trace_sample_deinit(&adding.sample);
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
