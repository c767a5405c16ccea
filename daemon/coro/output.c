/* SPDX-License-Identifier: Apache-2.0 */
#include "coro/output.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/error.h"
#include "util/log.h"

enum { N_QUEUED = 8192 };               /* events that wait for the end of a scan, or of a burst */

/* Lines from here, or a database from the other end of a relay. */
static int start_writing(Output *output, TraceWriter *writer) {
        if (output->options->form == TRACE_SQLITE)
                return relay_new(&output->relay, writer);
        output->writer = writer;
        output->queue = malloc(N_QUEUED * sizeof(*output->queue));
        if (!output->queue)
                return error_origin(-ENOMEM);
        /* its pages, too: a fault takes as long as a burst */
        memset(output->queue, 0, N_QUEUED * sizeof(*output->queue));
        return 0;
}

int output_open(Output *output, const CoroOptions *options) {
        TraceOptions trace = options->trace;
        TraceWriter *writer = NULL;
        int r;

        trace.behind = true;
        r = trace_writer_new(&writer, options->output, options->form, &trace);

        *output = (Output){ .options = options, .begin_ns = clock_monotonic_ns() };
        output->progress_ns = output->begin_ns;
        if (r == TRACE_E_FOREIGN)
                log_error("%s: there is a file that is no database; it is left alone", options->output);
        else if (r > 0)
                log_error("cannot write %s: %s", options->output, strerror(errno));
        if (r)
                return r > 0 ? CORO_E_FAILED : r;
        return start_writing(output, writer);
}

void output_watch(Output *output, const Harvest *harvests, size_t n_harvests) {
        if (!output->options->places || !output->options->trace.extra)
                return;
        if (places_new(&output->places, harvests, n_harvests))
                log_warning("there is no room to learn what addresses are: those of the trace will have no names");
}

bool output_deinit(Output *output) {
        bool ended = !output->places || places_finish(output->places);

        output->places = places_free(output->places);
        output->relay = relay_free(output->relay);
        output->writer = trace_writer_free(output->writer);
        free(take(output->queue));
        return ended;
}

static void write_queued(Output *output) {
        for (size_t i = 0; i < output->n_queued; i++)
                trace_writer_event(output->writer, &output->queue[i]);
        output->n_queued = 0;
}

static int on_event(void *userdata, const CoroEvent *event) {
        Output *output = userdata;

        if (output->relay) {
                relay_put(output->relay, event);
                return 0;
        }
        if (output->n_queued == N_QUEUED)
                write_queued(output);
        output->queue[output->n_queued++] = *event;
        return 0;
}

/* Makes what a scan has found readable. */
static void pass_on(Output *output, uint64_t now_ns) {
        if (output->relay) {
                relay_kick(output->relay);
                return;
        }
        write_queued(output);
        trace_writer_flush(output->writer, now_ns);
}

bool output_scan(Output *output, Harvest *harvests, size_t n_harvests) {
        uint64_t begin_ns = clock_monotonic_ns(), end_ns;
        HarvestFound all = { 0 };

        for (size_t i = 0; i < n_harvests; i++) {
                HarvestFound found;

                harvests[i].follow = output->pace.hungry;
                harvest_scan(&harvests[i], begin_ns, on_event, output, &found);
                all.n_events += found.n_events;
                all.n_lost += found.n_lost;
                all.n_most = MAX(all.n_most, found.n_most);
        }
        end_ns = clock_monotonic_ns();
        if (all.n_events || output->writer)
                pass_on(output, end_ns);
        if (all.n_events && output->places)
                places_poke(output->places);
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

/* The @k-th harvest's. @places: NULL = nothing is known. */
static void write_stations(TraceWriter *writer, const Harvest *harvest, const Places *places, size_t k) {
        for (uint32_t i = 0; i < harvest->n_seen; i++)
                trace_writer_station(writer, &(TraceStation){ .pid = harvest->pid, .index = i, .state = &harvest->states[i],
                                                              .code = places ? places_station(places, k, i) : (StationCode){ 0 } });
}

static void write_ends(TraceWriter *writer, const Harvest *harvests, size_t n_harvests, const Places *places) {
        for (size_t i = 0; i < n_harvests; i++)
                write_stations(writer, &harvests[i], places, i);
        for (size_t i = 0; places && i < places_n_mappings(places); i++)
                trace_writer_mapping(writer, places_mapping(places, i));
}

int output_finish(Output *output, Harvest *harvests, size_t n_harvests, CoroSummary *summary) {
        _cleanup_(trace_writer_freep) TraceWriter *writer = NULL;
        const Places *places = output->places && places_finish(output->places) ? output->places : NULL;
        HarvestFound found;
        int r = 0;

        if (output->options->progress && output->progress_events)
                fputc('\n', stderr);
        for (size_t i = 0; i < n_harvests; i++) {
                harvest_finish(&harvests[i], clock_monotonic_ns(), on_event, output, &found);
                summary->dialect = harvests[i].dialect != STATION_DIALECT_UNKNOWN ? harvests[i].dialect : summary->dialect;
                summary->cut |= region_is_cut(harvests[i].region);
                summary->damaged |= region_is_damaged(harvests[i].region);
                r = r ? r : add_totals(&summary->totals, &harvests[i]);
        }
        if (output->relay) {
                summary->n_stalls = relay_n_stalls(output->relay);
                writer = relay_finish(output->relay);
        } else {
                write_queued(output);
                summary->n_stalls = trace_writer_n_stalls(output->writer);
                writer = take(output->writer);
        }
        write_ends(writer, harvests, n_harvests, places);
        summary->duration_ns = clock_monotonic_ns() - output->begin_ns;
        if (!trace_writer_close(writer, &summary->n_dropped))
                return r;
        log_error("cannot write %s: %s; of %" PRIu64 " events at least %" PRIu64 " are not in it", output->options->output, strerror(errno),
                  summary->totals.n_read, summary->n_dropped);
        return CORO_E_FAILED;
}
