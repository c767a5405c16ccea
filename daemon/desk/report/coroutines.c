/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Keeps a row for each coroutine with its last event, adds each stretch between two events, and keeps the
 * longest ones in a heap.
 */

#include "desk/report/coroutines.h"

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/array.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "desk/coro/trace/trace-read.h"
#include "desk/report/coroutines-private.h"

enum {
        MAX_COROUTINES = 4 << 20,
        MAX_ADDRESSES = 1 << 20,
        FIRST_BIN_NS = 1000,
};

int coroutine_report_new(CoroutineReport **reportp, char *const *wanted, size_t n_wanted) {
        CoroutineReport *report = calloc(1, sizeof(*report));

        if (!report)
                return error_origin(-ENOMEM);
        report->wanted = wanted;
        report->n_wanted = n_wanted;
        report->first_ns = UINT64_MAX;
        report->bin_ns = FIRST_BIN_NS;
        *reportp = report;
        return 0;
}

CoroutineReport *coroutine_report_free(CoroutineReport *report) {
        if (!report)
                return NULL;
        for (uint32_t i = 0; i < report->n_coroutines; i++)
                free(report->coroutines[i].timeline);
        free(report->coroutines);
        free(report->addresses);
        hashmap_deinit(&report->by_key);
        hashmap_deinit(&report->by_address);
        hashmap_deinit(&report->threads);
        free(report);
        return NULL;
}

uint64_t coroutine_report_n_events(const CoroutineReport *report) {
        return report->sums.n_events;
}

uint32_t coroutine_report_next_trace(CoroutineReport *report) {
        uint32_t n = report->n_shared;

        report->n_shared = 0;
        report->trace++;
        return n;
}

/* Tables */

static int add_coroutine(CoroutineReport *report, uint64_t key, const Coroutine *row) {
        int r = array_reserve(&report->coroutines, &report->coroutines_room, report->n_coroutines + 1u, 64);

        if (!r)
                r = hashmap_put(&report->by_key, key, (void *)(uintptr_t)(report->n_coroutines + 1u));
        if (r)
                return r;
        report->coroutines[report->n_coroutines] = *row;
        if (report->n_timelines < COROUTINES_MAX_TIMELINES) {
                TimelineBin *timeline = calloc(COROUTINES_BINS, sizeof(*timeline));

                report->coroutines[report->n_coroutines].timeline = timeline;
                report->n_timelines += timeline != NULL;
        }
        report->n_coroutines++;
        return 0;
}

/* *indexp: UINT32_MAX = there are too many, and it was counted. */
static int find_coroutine(CoroutineReport *report, const Coroutine *row, uint32_t *indexp) {
        uint64_t key = trace_key(row->pid, row->station, row->birth_ns, row->probe_id);
        uintptr_t known = (uintptr_t)hashmap_get(&report->by_key, key);
        int r;

        if (!known) {
                if (report->n_coroutines == MAX_COROUTINES) {
                        report->n_left_out++;
                        *indexp = UINT32_MAX;
                        return 0;
                }
                r = add_coroutine(report, key, row);
                if (r)
                        return r;
                known = report->n_coroutines;
        }
        *indexp = (uint32_t)known - 1;
        return 0;
}

static int add_address(CoroutineReport *report, uint64_t address, uint64_t ns) {
        uintptr_t known = (uintptr_t)hashmap_get(&report->by_address, address);
        int r;

        if (!known) {
                if (report->n_addresses == MAX_ADDRESSES) {
                        report->n_placeless++;
                        return 0;
                }
                r = array_reserve(&report->addresses, &report->addresses_room, report->n_addresses + 1u, 64);
                if (!r)
                        r = hashmap_put(&report->by_address, address,
                                        (void *)(uintptr_t)(report->n_addresses + 1u));
                if (r)
                        return r;
                report->addresses[report->n_addresses++] = (AddressSums){ .address = address };
                known = report->n_addresses;
        }
        report->addresses[known - 1].suspended_ns += ns;
        report->addresses[known - 1].n++;
        return 0;
}

/* The longest stretches: a heap with the shortest on top, which the next longer one replaces. */
static void sift_down(Stretch *rows, uint32_t n) {
        for (uint32_t at = 0, child; (child = 2 * at + 1) < n; at = child) {
                Stretch row = rows[at];

                child += child + 1 < n && rows[child + 1].ns < rows[child].ns;
                if (rows[child].ns >= row.ns)
                        return;
                rows[at] = rows[child];
                rows[child] = row;
        }
}

static void keep_stretch(Stretches *stretches, const Stretch *row) {
        Stretch *rows = stretches->rows;

        if (stretches->n == COROUTINES_TOP) {
                if (row->ns <= rows[0].ns)
                        return;
                rows[0] = *row;
                sift_down(rows, stretches->n);
                return;
        }
        rows[stretches->n++] = *row;
        for (uint32_t at = stretches->n - 1; at && rows[(at - 1) / 2].ns > rows[at].ns; at = (at - 1) / 2) {
                Stretch up = rows[(at - 1) / 2];

                rows[(at - 1) / 2] = rows[at];
                rows[at] = up;
        }
}

/* Timelines: the length of the trace is not known, so bins become wider as it goes on. */

static void widen(CoroutineReport *report) {
        report->bin_ns *= 2;
        for (uint32_t i = 0; i < report->n_coroutines; i++) {
                TimelineBin *bins = report->coroutines[i].timeline;

                for (int to = 0; bins && to < COROUTINES_BINS; to++) {
                        TimelineBin sum = { 0 };

                        for (int from = 2 * to; from < MIN(2 * to + 2, COROUTINES_BINS + 0); from++) {
                                sum.run_ns += bins[from].run_ns;
                                sum.suspended_ns += bins[from].suspended_ns;
                        }
                        bins[to] = sum;
                }
        }
}

/* Events come nearly in order; what lies before the first one has no place in a timeline. */
static void draw(CoroutineReport *report, const Coroutine *coroutine, uint64_t start_ns, uint64_t end_ns,
                 bool run) {
        if (!coroutine->timeline || end_ns <= start_ns || start_ns < report->origin_ns)
                return;
        while ((end_ns - report->origin_ns) / report->bin_ns >= COROUTINES_BINS)
                widen(report);
        start_ns -= report->origin_ns;
        end_ns -= report->origin_ns;
        while (start_ns < end_ns) {
                TimelineBin *to = &coroutine->timeline[start_ns / report->bin_ns];
                /* the end of the last bin may be beyond all numbers */
                uint64_t part_ns = MIN(end_ns - start_ns, report->bin_ns - start_ns % report->bin_ns);

                *(run ? &to->run_ns : &to->suspended_ns) += (float)part_ns;
                start_ns += part_ns;
        }
}

/* Events */

static int add_stretch(CoroutineReport *report, Coroutine *coroutine, uint32_t index, uint64_t end_ns,
                       bool run) {
        Stretch row = { end_ns - coroutine->last_ns, coroutine->last_ns, coroutine->last_address,
                        coroutine->last_tid, index };
        uint64_t *longest_ns = run ? &coroutine->longest_run_ns : &coroutine->longest_suspend_ns;

        *(run ? &coroutine->sums.run_ns : &coroutine->sums.suspended_ns) += row.ns;
        *(run ? &report->sums.run_ns : &report->sums.suspended_ns) += row.ns;
        *longest_ns = MAX(*longest_ns, row.ns);
        keep_stretch(run ? &report->runs : &report->suspensions, &row);
        draw(report, coroutine, row.start_ns, end_ns, run);
        return run ? 0 : add_address(report, row.address, row.ns);
}

/* The stretch between the last event and this one, if both are neighbours. */
static int end_stretch(CoroutineReport *report, Coroutine *coroutine, uint32_t index,
                       const CoroEvent *event) {
        if (!coroutine->sums.n_events)
                return 0;
        if (event->n_lost || event->active == coroutine->active || event->time_ns < coroutine->last_ns) {
                coroutine->sums.n_unknown++;
                report->sums.n_unknown++;
                return 0;
        }
        return add_stretch(report, coroutine, index, event->time_ns, !event->active);
}

static void count_event(CoroutineReport *report, Coroutine *coroutine, const CoroEvent *event) {
        bool moved = event->active && coroutine->sums.n_resumes && coroutine->last_tid != event->tid;

        if (!coroutine->sums.n_events)
                coroutine->first_ns = event->time_ns;
        coroutine->sums.n_events++;
        coroutine->sums.n_lost += event->n_lost;
        report->sums.n_lost += event->n_lost;
        *(event->active ? &coroutine->sums.n_resumes : &coroutine->sums.n_suspends) += 1;
        *(event->active ? &report->sums.n_resumes : &report->sums.n_suspends) += 1;
        coroutine->sums.n_migrations += moved;
        report->sums.n_migrations += moved;
        coroutine->last_ns = event->time_ns;
        coroutine->last_tid = event->tid;
        coroutine->last_address = event->address ? event->address : coroutine->last_address;
        coroutine->active = event->active;
        report->n_shared += coroutine->trace != report->trace && coroutine->sums.n_events > 1;
        coroutine->trace = report->trace;
}

static bool matches(const CoroutineReport *report, uint64_t probe_id, uint64_t station, uint64_t birth_ns) {
        char probe[24], number[24], id[48];

        snprintf(probe, sizeof(probe), "0x%016" PRIx64, probe_id);
        snprintf(number, sizeof(number), "%" PRIu64, station);
        snprintf(id, sizeof(id), "%" PRIu64 "-%" PRIu64, station, birth_ns);
        for (size_t i = 0; i < report->n_wanted; i++)
                if (!fnmatch(report->wanted[i], probe, 0) || !fnmatch(report->wanted[i], number, 0) ||
                    !fnmatch(report->wanted[i], id, 0))
                        return true;
        return !report->n_wanted;
}

int coroutine_report_event(CoroutineReport *report, const CoroEvent *event) {
        Coroutine row = { .probe_id = event->probe_id,
                          .birth_ns = event->birth_ns,
                          .pid = event->pid,
                          .station = event->station };
        uint32_t index;
        int r;

        if (report->n_wanted && !matches(report, event->probe_id, event->station, event->birth_ns)) {
                report->n_filtered++;
                return 0;
        }
        if (!report->sums.n_events++)
                report->origin_ns = event->time_ns;
        report->first_ns = MIN(report->first_ns, event->time_ns);
        report->last_ns = MAX(report->last_ns, event->time_ns);
        r = find_coroutine(report, &row, &index);
        if (r || index == UINT32_MAX)
                return r;
        r = end_stretch(report, &report->coroutines[index], index, event);
        if (!r && !hashmap_get(&report->threads, event->tid))
                r = hashmap_put(&report->threads, event->tid, report);
        if (!r)
                count_event(report, &report->coroutines[index], event);
        return r;
}

int coroutine_report_station(CoroutineReport *report, const TraceStationEnd *end) {
        Coroutine row = { .probe_id = end->probe_id, .birth_ns = end->birth_ns, .pid = (uint32_t)end->pid,
                          .station = (uint32_t)end->station };
        Coroutine *coroutine;
        uint32_t index;
        int r;

        report->stations_known = true;
        if (report->n_wanted && !matches(report, end->probe_id, end->station, end->birth_ns))
                return 0;
        r = find_coroutine(report, &row, &index);
        if (r || index == UINT32_MAX)
                return r;
        coroutine = &report->coroutines[index];
        coroutine->dead = end->dead;
        coroutine->until_ns = end->until_ns;
        coroutine->code = end->code;
        coroutine->torn = end->torn;
        coroutine->corrupt = end->corrupt;
        /* losses behind the last event read count, too */
        if (end->n_lost > coroutine->sums.n_lost) {
                report->sums.n_lost += end->n_lost - coroutine->sums.n_lost;
                coroutine->sums.n_lost = end->n_lost;
        }
        return 0;
}

/* For those who print */

uint64_t coroutine_since_ns(const CoroutineReport *report, const Coroutine *coroutine) {
        uint64_t until_ns = coroutine->until_ns ? coroutine->until_ns : report->last_ns;

        return coroutine->sums.n_events ? MAX(until_ns, coroutine->last_ns) - coroutine->last_ns : 0;
}

CoroutineEnd coroutine_end(const CoroutineReport *report, const Coroutine *coroutine) {
        uint64_t since_ns = coroutine_since_ns(report, coroutine);

        if (coroutine->dead)
                return COROUTINE_DEAD;
        if (!coroutine->sums.n_events)
                return COROUTINE_NEVER_RAN;
        if (coroutine->active)
                return COROUTINE_RUNNING;
        return since_ns >= COROUTINES_SUSPECT_NS &&
                        since_ns / COROUTINES_SUSPECT_TIMES >= coroutine->longest_suspend_ns
                ? COROUTINE_SUSPECT
                : COROUTINE_SUSPENDED;
}

const char *coroutine_end_text(CoroutineEnd end) {
        static const char *const texts[] = {
                [COROUTINE_RUNNING] = "running",       [COROUTINE_SUSPENDED] = "suspended",
                [COROUTINE_SUSPECT] = "lost wake-up?", [COROUTINE_DEAD] = "dead",
                [COROUTINE_NEVER_RAN] = "no event",
        };

        return texts[end];
}

double coroutine_resumes_per_second(const Coroutine *coroutine) {
        uint64_t ns = coroutine->last_ns - coroutine->first_ns;

        return coroutine->last_ns > coroutine->first_ns
                ? (double)coroutine->sums.n_resumes * NS_PER_SEC / (double)ns
                : 0;
}

const char *coroutine_name(const Coroutine *coroutine, char *to) {
        if (coroutine->birth_ns)
                snprintf(to, 64, "station %" PRIu32 " 0x%" PRIx64, coroutine->station, coroutine->probe_id);
        else
                snprintf(to, 64, "0x%" PRIx64, coroutine->probe_id);
        return to;
}

typedef struct Order {
        const CoroutineReport *report;
        int (*compare)(const Coroutine *a, const Coroutine *b);
} Order;

static int compare_indexes(const void *left, const void *right, void *data) {
        const Order *order = data;
        uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
        int r = order->compare(&order->report->coroutines[a], &order->report->coroutines[b]);

        return r ? r : a < b ? -1 : a > b;
}

uint32_t *coroutine_order(const CoroutineReport *report,
                          int (*compare)(const Coroutine *a, const Coroutine *b)) {
        uint32_t *order = calloc(report->n_coroutines + 1u, sizeof(*order));
        Order userdata = { report, compare };

        if (!order)
                return NULL;
        for (uint32_t i = 0; i < report->n_coroutines; i++)
                order[i] = i;
        qsort_r(order, report->n_coroutines, sizeof(*order), compare_indexes, &userdata);
        return order;
}

static int larger_first(uint64_t a, uint64_t b) {
        return a > b ? -1 : a < b;
}

int coroutine_by_wait(const Coroutine *a, const Coroutine *b) {
        return -larger_first(a->last_ns, b->last_ns);
}

int coroutine_by_run(const Coroutine *a, const Coroutine *b) {
        return larger_first(a->sums.run_ns, b->sums.run_ns);
}

static int compare_stretches(const void *left, const void *right) {
        const Stretch *a = left, *b = right;

        return a->ns != b->ns ? larger_first(a->ns, b->ns) : -larger_first(a->start_ns, b->start_ns);
}

static int compare_addresses(const void *left, const void *right) {
        const AddressSums *a = left, *b = right;

        return a->suspended_ns != b->suspended_ns ? larger_first(a->suspended_ns, b->suspended_ns)
                                                  : larger_first(a->address, b->address);
}

void coroutine_report_sort(CoroutineReport *report) {
        if (report->runs.n)
                qsort(report->runs.rows, report->runs.n, sizeof(Stretch), compare_stretches);
        if (report->suspensions.n)
                qsort(report->suspensions.rows, report->suspensions.n, sizeof(Stretch), compare_stretches);
        if (report->n_addresses) {
                qsort(report->addresses, report->n_addresses, sizeof(*report->addresses), compare_addresses);
                hashmap_deinit(&report->by_address);    /* the addresses have changed places */
        }
}
