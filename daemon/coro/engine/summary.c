/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "base/util/clock.h"
#include "base/util/log.h"
#include "coro/engine/engine.h"

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
                log_notice("%" PRIu64 " coroutines were still suspended at the end, and not dead",
                           t->n_suspended);
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
