/* SPDX-License-Identifier: Apache-2.0 */
#include "coro/engine/output.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util/error.h"
#include "base/util/log.h"

enum { N_QUEUED = 8192 };               /* events that wait for the end of a scan, or of a burst */

/* Lines from here, or a database from the other end of a relay. */
static int start_writing(Output *output, TraceWriter *writer) {
        if (output->options->form == TRACE_SQLITE)
                return writer_queue_new(&output->writer_queue, writer);
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
        else if (r > 0 && r != TRACE_E_REFUSED)
                log_error("cannot write %s: %s", options->output, strerror(errno));
        if (r)
                return r > 0 ? CORO_E_FAILED : r;
        return start_writing(output, writer);
}

void output_watch(Output *output, const RegionScan *scans, size_t n_scans) {
        if (!output->options->places || !output->options->trace.extra)
                return;
        if (address_names_new(&output->places, scans, n_scans))
                log_warning(
                        "there is no room to learn what addresses are: those of the trace will have no names");
}

bool output_deinit(Output *output) {
        bool ended = !output->places || address_names_finish(output->places);

        output->places = address_names_free(output->places);
        output->writer_queue = writer_queue_free(output->writer_queue);
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

        if (output->writer_queue) {
                writer_queue_put(output->writer_queue, event);
                return 0;
        }
        if (output->n_queued == N_QUEUED)
                write_queued(output);
        output->queue[output->n_queued++] = *event;
        return 0;
}

/* Makes what a scan has found readable. */
static void pass_on(Output *output, uint64_t now_ns) {
        if (output->writer_queue) {
                writer_queue_kick(output->writer_queue);
                return;
        }
        write_queued(output);
        trace_writer_flush(output->writer, now_ns);
}

bool output_scan(Output *output, RegionScan *scans, size_t n_scans) {
        uint64_t begin_ns = clock_monotonic_ns(), end_ns;
        RegionScanFound all = { 0 };

        for (size_t i = 0; i < n_scans; i++) {
                RegionScanFound found;

                scans[i].follow = output->pace.hungry;
                region_scan_run(&scans[i], begin_ns, on_event, output, &found);
                all.n_events += found.n_events;
                all.n_lost += found.n_lost;
                all.n_most = MAX(all.n_most, found.n_most);
        }
        end_ns = clock_monotonic_ns();
        if (all.n_events || output->writer)
                pass_on(output, end_ns);
        if (all.n_events && output->places)
                address_names_poke(output->places);
        output->n_events += all.n_events;
        output->n_lost += all.n_lost;
        pace_update(&output->pace, &all, end_ns - begin_ns, end_ns);
        return all.n_events;
}

void output_progress(Output *output, const RegionScan *scans, size_t n_scans, uint64_t now_ns) {
        uint64_t n_seen = 0;

        if (!output->options->progress || now_ns - output->progress_ns < NS_PER_SEC)
                return;
        for (size_t i = 0; i < n_scans; i++)
                n_seen += scans[i].n_seen;
        fprintf(stderr,
                "\r%" PRIu64 " s: %" PRIu64 " coroutines, %" PRIu64 " events (%.0f/s), %" PRIu64
                " lost\033[K",
                (now_ns - output->begin_ns) / NS_PER_SEC, n_seen, output->n_events,
                (double)(output->n_events - output->progress_events) * 1e9 /
                        (double)(now_ns - output->progress_ns),
                output->n_lost);
        output->progress_ns = now_ns;
        output->progress_events = output->n_events;
}

/* All its fields are sums. */
static int add_totals(RegionScanTotals *sum, const RegionScan *scan) {
        RegionScanTotals one;
        int r = region_scan_totals(scan, &one);

        for (size_t i = 0; !r && i < sizeof(one) / sizeof(uint64_t); i++)
                ((uint64_t *)sum)[i] += ((uint64_t *)&one)[i];
        return r;
}

/* The @k-th scan's. @places: NULL = nothing is known. */
static void write_stations(TraceWriter *writer, const RegionScan *scan, const AddressNames *places,
                           size_t k) {
        for (uint32_t i = 0; i < scan->n_seen; i++)
                trace_writer_station(writer,
                                     &(TraceStation){ .pid = scan->pid,
                                                      .index = i,
                                                      .state = &scan->states[i],
                                                      .code = places ? address_names_station(places, k, i)
                                                                     : (StationCode){ 0 } });
}

static void write_ends(TraceWriter *writer, const RegionScan *scans, size_t n_scans,
                       const AddressNames *places) {
        for (size_t i = 0; i < n_scans; i++)
                write_stations(writer, &scans[i], places, i);
        for (size_t i = 0; places && i < address_names_n_mappings(places); i++)
                trace_writer_mapping(writer, address_names_mapping(places, i));
}

int output_finish(Output *output, RegionScan *scans, size_t n_scans, CoroSummary *summary) {
        _cleanup_(trace_writer_freep) TraceWriter *writer = NULL;
        const AddressNames *places = output->places && address_names_finish(output->places) ? output->places
                                                                                            : NULL;
        RegionScanFound found;
        int r = 0;

        if (output->options->progress && output->progress_events)
                fputc('\n', stderr);
        for (size_t i = 0; i < n_scans; i++) {
                region_scan_finish(&scans[i], clock_monotonic_ns(), on_event, output, &found);
                summary->dialect = scans[i].dialect != STATION_DIALECT_UNKNOWN ? scans[i].dialect
                                                                               : summary->dialect;
                summary->cut |= region_is_cut(scans[i].region);
                summary->damaged |= region_is_damaged(scans[i].region);
                r = r ? r : add_totals(&summary->totals, &scans[i]);
        }
        if (output->writer_queue) {
                summary->n_stalls = writer_queue_n_stalls(output->writer_queue);
                writer = writer_queue_finish(output->writer_queue);
        } else {
                write_queued(output);
                summary->n_stalls = trace_writer_n_stalls(output->writer);
                writer = take(output->writer);
        }
        write_ends(writer, scans, n_scans, places);
        summary->duration_ns = clock_monotonic_ns() - output->begin_ns;
        if (!trace_writer_close(writer, &summary->n_dropped))
                return r;
        log_error("cannot write %s: %s; of %" PRIu64 " events at least %" PRIu64 " are not in it",
                  output->options->output, strerror(errno), summary->totals.n_read, summary->n_dropped);
        return CORO_E_FAILED;
}
