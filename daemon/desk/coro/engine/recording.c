/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The way of an event:
 *
 *      region ─ scan ─▶ event-queue.c ─ between scans ─▶ line ─▶ sink.c, a thread that writes
 *      region ─ scan ─▶ writer-queue.c ─▶ a thread that inserts into the database
 *
 * A scan must not wait, and should not even make lines: while it does, stations elsewhere overwrite events.
 * So lines are made between two scans, on the CPU that the scan has anyway, and not more than the stations
 * have time for:
 *
 *      most events of one station in a scan      lines before the next scan
 *      1 or 2 of the 8 that it keeps             twice as many, up to 1,024
 *      3 or 4                                    as many
 *      more, or a loss                           half, down to 16
 *
 * And none while sink.c has no free block: the scan would wait for one. While others want the CPU
 * (contention.c), lines take a tenth of the time at most: who uses more than its share waits for the CPU when
 * the next events come. While events come faster than that, they wait in the queue. A database takes longer
 * for an event than a scan may wait, so there a thread does all of it.
 *
 * At the end the threads stop in the order of the way, and the rows of stations and mappings are written.
 */

#include "desk/coro/engine/recording.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/symbol/object/htlhash.h"

enum {
        MIN_LINES = 16, MAX_LINES = 1024,       /* between two scans */
        FEW = SPANPROF_STATION_EPOCHS / 4,      /* events of one station in a scan: there is time */
        MANY = SPANPROF_STATION_EPOCHS / 2,     /* with more the next scan must come sooner */
        RECENT = 1024,                  /* events, of which the share of lost ones counts */
        LINE_NS = 35,                   /* to make one, about */
        CONTENDED_SHARE = 10,           /* a tenth of the time is for lines, while others want the CPU */
};

/* how long lines may wait for a reader that sleeps; a timer of less than a tick costs a guest microseconds */
#define READABLE_NS (10 * NS_PER_MS)

/* Lines are written by this thread, a database by the thread of the queue. */
static int start_writing(Recording *recording, TraceWriter *writer, const RegionScan *scans,
                         size_t n_scans) {
        if (recording->options->form == TRACE_SQLITE)
                return writer_queue_new(&recording->writer_queue, writer);
        recording->writer = writer;
        recording->n_lines = MAX_LINES;
        return event_queue_new(&recording->queue,
                               MIN(recording->options->buffer_bytes, event_queue_room()), scans,
                               n_scans);
}

static bool learns_names(const CoroOptions *options) {
        return options->address_names && options->trace.extra;
}

int recording_open(Recording *recording, const CoroOptions *options, const RegionScan *scans,
                   size_t n_scans) {
        TraceOptions trace = options->trace;
        TraceWriter *writer = NULL;
        int r;

        trace.behind = true;
        r = trace_writer_new(&writer, options->output, options->form, &trace);

        *recording = (Recording){ .options = options, .begin_ns = clock_monotonic_ns() };
        recording->progress_ns = recording->begin_ns;
        if (r == TRACE_E_FOREIGN)
                log_error("%s: there is a file that is no database; it is left alone", options->output);
        else if (r > 0 && r != TRACE_E_REFUSED)
                log_error("cannot write %s: %s", options->output, strerror(errno));
        if (r)
                return r > 0 ? CORO_E_FAILED : r;
        /*
         * prepares here: the thread for names would prepare in the first burst, on a CPU that the scan needs
         */
        if (learns_names(options))
                htlhash_prepare();
        return start_writing(recording, writer, scans, n_scans);
}

void recording_watch(Recording *recording, const RegionScan *scans, size_t n_scans) {
        if (contention_new(&recording->contention))
                log_warning("no thread can be started: beside busy processes more events will be lost");
        if (!learns_names(recording->options))
                return;
        if (address_names_new(&recording->names, scans, n_scans))
                log_warning(
                        "there is no room to learn what addresses are: those of the trace will have no names");
}

bool recording_deinit(Recording *recording) {
        bool ended = !recording->names || address_names_finish(recording->names);

        recording->contention = contention_free(recording->contention);
        recording->names = address_names_free(recording->names);
        recording->writer_queue = writer_queue_free(recording->writer_queue);
        recording->writer = trace_writer_free(recording->writer);
        recording->queue = event_queue_free(recording->queue);
        return ended;
}

/* Makes lines of the oldest events. */
static void write_lines(Recording *recording, const RegionScan *scans, uint64_t max) {
        CoroEvent event;

        for (; max && event_queue_take(recording->queue, scans, &event); max--)
                trace_writer_event(recording->writer, &event);
}

typedef struct Scanning {
        Recording *recording;
        const RegionScan *scans;
        uint32_t k;                     /* index of the one that runs */
} Scanning;

static int on_event(void *userdata, const CoroEvent *event) {
        Scanning *scanning = userdata;
        Recording *recording = scanning->recording;

        if (recording->writer_queue) {
                writer_queue_put(recording->writer_queue, event);
                return 0;
        }
        while (!event_queue_put(recording->queue, scanning->k, event)) {
                recording->n_full++;
                write_lines(recording, scanning->scans, MAX_LINES);
        }
        return 0;
}

static void adapt_lines(Recording *recording, const RegionScanFound *found) {
        if (found->n_lost || found->n_most > MANY)
                recording->n_lines = MAX(recording->n_lines / 2, (uint32_t)MIN_LINES);
        else if (found->n_most <= FEW)
                recording->n_lines = MIN(recording->n_lines * 2, (uint32_t)MAX_LINES);
}

/* Lines for which there is time while others want the CPU. */
static uint64_t affordable_lines(Recording *recording, uint64_t now_ns) {
        uint64_t passed_ns = now_ns - recording->lines_ns;

        recording->lines_ns = now_ns;
        if (!recording->is_contended || recording->interval.idle)
                return MAX_LINES;
        return passed_ns / (LINE_NS * CONTENDED_SHARE) + 1;
}

/* Makes the events of a scan readable, or as many as there is time for. */
static void pass_on(Recording *recording, const RegionScan *scans, const RegionScanFound *found,
                    uint64_t now_ns) {
        if (recording->writer_queue) {
                if (found->n_events)
                        writer_queue_kick(recording->writer_queue);
                return;
        }
        adapt_lines(recording, found);
        if (!trace_writer_has_room(recording->writer))
                return;
        write_lines(recording, scans, MIN(recording->n_lines, affordable_lines(recording, now_ns)));
        trace_writer_flush(recording->writer, now_ns, found->n_events || recording_is_behind(recording));
}

bool recording_is_behind(const Recording *recording) {
        if (recording->is_contended && !recording->interval.idle)
                return false;
        return recording->queue && !event_queue_is_empty(recording->queue) &&
                trace_writer_has_room(recording->writer);
}

uint64_t recording_deadline_ns(const Recording *recording) {
        const ScanInterval *interval = &recording->interval;
        uint64_t deadline_ns = interval->hungry ? SCAN_INTERVAL_MIN_DEADLINE_NS : interval->deadline_ns;
        bool is_pending = recording->writer &&
                (trace_writer_is_pending(recording->writer) || !event_queue_is_empty(recording->queue));

        return is_pending ? MIN(deadline_ns, READABLE_NS) : deadline_ns;
}

/* 38 %: bursts of which a station keeps all lose less beside two busy processes, longer ones more. */
static void note_losses(Recording *recording, const RegionScanFound *found) {
        recording->recent_events += found->n_events + found->n_lost;
        recording->recent_lost += found->n_lost;
        if (recording->recent_events < RECENT)
                return;
        recording->is_outrun = recording->recent_lost * 8 > recording->recent_events * 3;
        recording->recent_events = recording->recent_lost = 0;
}

bool recording_scan(Recording *recording, RegionScan *scans, size_t n_scans) {
        uint64_t begin_ns = clock_monotonic_ns(), end_ns;
        bool follow = recording->interval.hungry &&
                (recording->interval.way == SCAN_FOLLOW || !recording->is_woken);
        Scanning scanning = { .recording = recording, .scans = scans };
        RegionScanFound all = { 0 };

        if (recording->contention)
                recording->is_contended = contention_update(recording->contention, begin_ns,
                                                            !recording->is_outrun);
        for (size_t i = 0; i < n_scans; i++) {
                RegionScanFound found;

                scanning.k = (uint32_t)i;
                scans[i].follow = follow;
                region_scan_run(&scans[i], begin_ns, on_event, &scanning, &found);
                all.n_events += found.n_events;
                all.n_lost += found.n_lost;
                all.n_most = MAX(all.n_most, found.n_most);
        }
        end_ns = clock_monotonic_ns();
        pass_on(recording, scans, &all, end_ns);
        if (all.n_events && recording->names)
                address_names_poke(recording->names);
        recording->n_events += all.n_events;
        recording->n_lost += all.n_lost;
        note_losses(recording, &all);
        scan_interval_update(&recording->interval, &all, end_ns - begin_ns, end_ns);
        return all.n_events;
}

void recording_progress(Recording *recording, const RegionScan *scans, size_t n_scans, uint64_t now_ns) {
        uint64_t n_seen = 0;

        if (!recording->options->progress || now_ns - recording->progress_ns < NS_PER_SEC)
                return;
        for (size_t i = 0; i < n_scans; i++)
                n_seen += scans[i].n_seen;
        fprintf(stderr,
                "\r%" PRIu64 " s: %" PRIu64 " coroutines, %" PRIu64 " events (%.0f/s), %" PRIu64
                " lost\033[K",
                (now_ns - recording->begin_ns) / NS_PER_SEC, n_seen, recording->n_events,
                (double)(recording->n_events - recording->progress_events) * 1e9 /
                        (double)(now_ns - recording->progress_ns),
                recording->n_lost);
        recording->progress_ns = now_ns;
        recording->progress_events = recording->n_events;
}

/* All fields of the totals are sums. */
static int add_totals(RegionScanTotals *sum, const RegionScan *scan) {
        RegionScanTotals one;
        int r = region_scan_totals(scan, &one);

        for (size_t i = 0; !r && i < sizeof(one) / sizeof(uint64_t); i++)
                ((uint64_t *)sum)[i] += ((uint64_t *)&one)[i];
        return r;
}

/* Writes the stations of the @k-th scan. @names: NULL = no names were learned. */
static void write_stations(TraceWriter *writer, const RegionScan *scan, const AddressNames *names,
                           size_t k) {
        for (uint32_t i = 0; i < scan->n_seen; i++)
                trace_writer_station(writer,
                                     &(TraceStation){ .pid = scan->pid,
                                                      .index = i,
                                                      .state = &scan->states[i],
                                                      .code = names ? address_names_station(names, k, i)
                                                                     : (StationCode){ 0 } });
}

static void write_ends(TraceWriter *writer, const RegionScan *scans, size_t n_scans,
                       const AddressNames *names) {
        for (size_t i = 0; i < n_scans; i++)
                write_stations(writer, &scans[i], names, i);
        for (size_t i = 0; names && i < address_names_n_mappings(names); i++)
                trace_writer_mapping(writer, address_names_mapping(names, i));
}

int recording_finish(Recording *recording, RegionScan *scans, size_t n_scans, CoroSummary *summary) {
        _cleanup_(trace_writer_freep) TraceWriter *writer = NULL;
        bool has_names = recording->names && address_names_finish(recording->names);
        const AddressNames *names = has_names ? recording->names : NULL;
        Scanning scanning = { .recording = recording, .scans = scans };
        RegionScanFound found;
        const char *problem;
        int r = 0;

        if (recording->options->progress && recording->progress_events)
                fputc('\n', stderr);
        for (size_t i = 0; i < n_scans; i++) {
                scanning.k = (uint32_t)i;
                region_scan_finish(&scans[i], clock_monotonic_ns(), on_event, &scanning, &found);
                summary->dialect = scans[i].dialect != STATION_DIALECT_UNKNOWN ? scans[i].dialect
                                                                               : summary->dialect;
                summary->cut |= region_is_cut(scans[i].region);
                summary->damaged |= region_is_damaged(scans[i].region);
                r = r ? r : add_totals(&summary->totals, &scans[i]);
        }
        if (recording->writer_queue) {
                summary->n_stalls = writer_queue_n_stalls(recording->writer_queue);
                writer = writer_queue_finish(recording->writer_queue);
        } else {
                write_lines(recording, scans, UINT64_MAX);
                summary->n_stalls = recording->n_full + trace_writer_n_stalls(recording->writer);
                writer = take(recording->writer);
        }
        write_ends(writer, scans, n_scans, names);
        summary->duration_ns = clock_monotonic_ns() - recording->begin_ns;
        if (!trace_writer_close(writer, &summary->n_dropped, &problem))
                return r;
        log_error("cannot write %s: %s; of %" PRIu64 " events at least %" PRIu64 " are not in it",
                  recording->options->output, problem, summary->totals.n_read, summary->n_dropped);
        return CORO_E_FAILED;
}

/* The end, in words */

static void log_odd_stations(const RegionScanTotals *t) {
        if (t->n_without)
                log_warning("%" PRIu64
                            " coroutines found no station and are not in the trace: give it more (-n)",
                            t->n_without);
        if (t->n_torn)
                log_notice("%" PRIu64 " stations with a write that never ended", t->n_torn);
        if (t->n_corrupt)
                log_warning("%" PRIu64
                            " stations with numbers that no writer makes; what came after those was not read",
                            t->n_corrupt);
        if (t->n_rejected)
                log_warning("%" PRIu64 " events were nonsense and were left out", t->n_rejected);
        if (t->n_nameless)
                log_notice("%" PRIu64 " stations never said when their coroutine was born", t->n_nameless);
        if (t->n_reused)
                log_info("%" PRIu64 " probe ids were used again: station and birth tell coroutines apart",
                         t->n_reused);
}

void coro_summary_log(const CoroSummary *summary) {
        const RegionScanTotals *t = &summary->totals;
        uint64_t n_written = t->n_read + t->n_lost + t->n_rejected;

        log_info("%" PRIu64 " coroutines, %" PRIu64 " events in %.1f s%s", t->n_stations, t->n_read,
                 (double)summary->duration_ns / NS_PER_SEC, station_dialect_text(summary->dialect));
        if (t->n_lost)
                log_warning("%" PRIu64 " of %" PRIu64
                            " events (%.1f %%) were overwritten before they could be read, at %" PRIu64
                            " stations",
                            t->n_lost, n_written, 100.0 * (double)t->n_lost / (double)n_written, t->n_lossy);
        log_odd_stations(t);
        if (t->n_suspended)
                log_notice("%" PRIu64 " coroutine%s still suspended at the end, and not dead",
                           t->n_suspended, t->n_suspended == 1 ? " was" : "s were");
        if (t->n_never_ran)
                log_notice("%" PRIu64 " coroutines have a station and wrote no event", t->n_never_ran);
        if (summary->cut)
                log_warning("somebody has cut the region; the trace ends there");
        if (summary->damaged)
                log_warning("somebody has written over the header of the region");
        if (summary->n_dropped)
                log_warning(
                        "%" PRIu64
                        " events are not in the file: it is as large as it may be, or could not be written",
                        summary->n_dropped);
        if (summary->n_stalls)
                log_notice("writing was slower than the events %" PRIu64 " times", summary->n_stalls);
}
