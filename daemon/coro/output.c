/* SPDX-License-Identifier: Apache-2.0 */
#include "coro/output.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "util/log.h"

int output_open(Output *output, const CoroOptions *options) {
        TraceWriter *writer = NULL;
        int r = trace_writer_new(&writer, options->output, options->form, &options->trace);

        *output = (Output){ .options = options, .begin_ns = clock_monotonic_ns() };
        output->progress_ns = output->begin_ns;
        if (r == TRACE_E_FOREIGN)
                log_error("%s: there is a file that is no database; it is left alone", options->output);
        else if (r > 0)
                log_error("cannot write %s: %s", options->output, strerror(errno));
        if (r)
                return r > 0 ? CORO_E_FAILED : r;
        return relay_new(&output->relay, writer);
}

void output_deinit(Output *output) {
        output->relay = relay_free(output->relay);
}

static int on_event(void *userdata, const CoroEvent *event) {
        relay_put(userdata, event);
        return 0;
}

bool output_scan(Output *output, Harvest *harvests, size_t n_harvests) {
        uint64_t begin_ns = clock_monotonic_ns(), end_ns;
        HarvestFound all = { 0 };

        for (size_t i = 0; i < n_harvests; i++) {
                HarvestFound found;

                harvest_scan(&harvests[i], begin_ns, on_event, output->relay, &found);
                all.n_events += found.n_events;
                all.n_lost += found.n_lost;
                all.n_most = MAX(all.n_most, found.n_most);
        }
        end_ns = clock_monotonic_ns();
        if (all.n_events)
                relay_kick(output->relay);
        output->n_events += all.n_events;
        output->n_lost += all.n_lost;
        pace_update(&output->pace, &all, end_ns - begin_ns, end_ns);
        return all.n_events;
}

void output_progress(Output *output, const Harvest *harvests, size_t n_harvests, uint64_t now_ns) {
        uint64_t n_seen = 0;

        if (!output->options->progress || now_ns - output->progress_ns < NS_PER_SEC)
                return;
        for (size_t i = 0; i < n_harvests; i++)
                n_seen += harvests[i].n_seen;
        fprintf(stderr, "\r%" PRIu64 " s: %" PRIu64 " coroutines, %" PRIu64 " events (%.0f/s), %" PRIu64 " lost\033[K",
                (now_ns - output->begin_ns) / NS_PER_SEC, n_seen, output->n_events,
                (double)(output->n_events - output->progress_events) * 1e9 / (double)(now_ns - output->progress_ns), output->n_lost);
        output->progress_ns = now_ns;
        output->progress_events = output->n_events;
}

/* All its fields are sums. */
static int add_totals(HarvestTotals *sum, const Harvest *harvest) {
        HarvestTotals one;
        int r = harvest_totals(harvest, &one);

        for (size_t i = 0; !r && i < sizeof(one) / sizeof(uint64_t); i++)
                ((uint64_t *)sum)[i] += ((uint64_t *)&one)[i];
        return r;
}

static void write_stations(TraceWriter *writer, const Harvest *harvest) {
        for (uint32_t i = 0; i < harvest->n_seen; i++)
                trace_writer_station(writer, &(TraceStation){ .pid = harvest->pid, .index = i, .state = &harvest->states[i] });
}

int output_finish(Output *output, Harvest *harvests, size_t n_harvests, CoroSummary *summary) {
        _cleanup_(trace_writer_freep) TraceWriter *writer = NULL;
        HarvestFound found;
        int r = 0;

        if (output->options->progress && output->progress_events)
                fputc('\n', stderr);
        for (size_t i = 0; i < n_harvests; i++) {
                harvest_finish(&harvests[i], clock_monotonic_ns(), on_event, output->relay, &found);
                summary->dialect = harvests[i].dialect != STATION_DIALECT_UNKNOWN ? harvests[i].dialect : summary->dialect;
                summary->cut |= region_is_cut(harvests[i].region);
                summary->damaged |= region_is_damaged(harvests[i].region);
                r = r ? r : add_totals(&summary->totals, &harvests[i]);
        }
        summary->n_stalls = relay_n_stalls(output->relay);
        writer = relay_finish(output->relay);
        for (size_t i = 0; i < n_harvests; i++)
                write_stations(writer, &harvests[i]);
        summary->duration_ns = clock_monotonic_ns() - output->begin_ns;
        if (!trace_writer_close(writer, &summary->n_dropped))
                return r;
        log_error("cannot write %s: %s", output->options->output, strerror(errno));
        return CORO_E_FAILED;
}
