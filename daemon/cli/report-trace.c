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
        ReportTraces *traces = userdata;
        int r = coroutine_report_station(traces->report, end);

        return r ? r : trace_names_station(traces->names, end);
}

static int add_mapping(void *userdata, const TraceMapping *mapping) {
        return trace_names_mapping(userdata, mapping);
}

/*
 * What stands beside the events, or in other tables. What is malformed there costs states and names, no event.
 * Return: 0, 1 with @problem, -errno.
 */
static int add_companions(ReportTraces *traces, const Source *source, Text *problem) {
        TraceForm form = trace_source_form(source);
        uint64_t n_stations = 0, n_mappings = 0;
        int stations = trace_stations_read(source->name, form, add_station, traces, &n_stations);
        int mappings = stations < 0 ? 0 : trace_mappings_read(source->name, form, add_mapping, traces->names, &n_mappings);

        if (stations < 0 || mappings < 0)
                return MIN(stations, mappings);
        if (n_stations)
                text_printf(problem, "%s%" PRIu64 " of its stations are malformed and were left out", problem->size ? "; " : "", n_stations);
        if (n_mappings)
                text_printf(problem, "%s%" PRIu64 " of its mappings are malformed and were left out", problem->size ? "; " : "", n_mappings);
        if (stations > TRACE_STATIONS_E_NONE || mappings > TRACE_MAPPINGS_E_NONE)
                text_printf(problem, "%swhat it says beside its events cannot be read to the end", problem->size ? "; " : "");
        return n_stations || n_mappings || stations > TRACE_STATIONS_E_NONE || mappings > TRACE_MAPPINGS_E_NONE;
}

/* A trace has no times of the calendar and no spans: of the filters, only that of coroutines fits. */
static int add_events(ReportTraces *traces, const Source *source, Text *problem) {
        TraceReadCounts counts;
        int r = trace_source_read(source, add_event, traces->report, &counts, problem);

        traces->n_malformed += counts.n_malformed;
        if (!r && counts.n_malformed)
                text_printf(problem, "%" PRIu64 " lines are no events and were left out", counts.n_malformed);
        if (r)
                return r;
        return add_companions(traces, source, problem) ?: counts.n_malformed != 0;
}

int report_add_trace(ReportTraces *traces, Inputs *inputs, const Source *source, Symbolizer *symbolizer) {
        uint64_t n_before = traces->report ? coroutine_report_n_events(traces->report) : 0;
        const FilterWords *wanted = &inputs->options.filter.coroutines;
        Text problem = { 0 };
        int r = traces->report ? 0 : coroutine_report_new(&traces->report, wanted->items, wanted->n_items);

        if (!r && !traces->names)
                r = trace_names_new(&traces->names, symbolizer);
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
        if (traces->names)
                trace_names_say(traces->names);
        trace_names_free(traces->names);
        coroutine_report_free(traces->report);
        *traces = (ReportTraces){ 0 };
}
