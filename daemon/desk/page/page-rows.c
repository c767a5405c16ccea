/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The events of the windows as rows: how much of a context was at a node in one bucket of time. Rows come in
 * the order {node, context, bucket, lines}, so that all that lies under a node is one range of them.
 *
 * Buckets have the same length on both sides and begin with each side's first sample. If there were too many
 * rows (each is a few bytes of the page), buckets are joined: the length of each step divides that of the
 * next. If that is not enough, the rows forget their lines.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/array.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "desk/page/build.h"

static const uint64_t bucket_lengths_ns[] = {
        NS_PER_MS,         2 * NS_PER_MS,      10 * NS_PER_MS,          20 * NS_PER_MS,    100 * NS_PER_MS,
        200 * NS_PER_MS,   NS_PER_SEC,         2 * NS_PER_SEC,          10 * NS_PER_SEC,   20 * NS_PER_SEC,
        60 * NS_PER_SEC,   120 * NS_PER_SEC,   600 * NS_PER_SEC,        1200 * NS_PER_SEC, 3600 * NS_PER_SEC,
        7200 * NS_PER_SEC, 86400 * NS_PER_SEC, 10 * 86400 * NS_PER_SEC,
};

typedef struct Rows {
        PageModel *model;
        PageRow *rows;
        size_t n, room;
        uint64_t *sums;                 /* sums of a sample, by bucket */
        uint32_t *touched;              /* buckets that have a sum */
        uint32_t n_touched;
} Rows;

/* Profiles without times say 0. */
static void find_times(PageSide *side) {
        uint64_t offset_ns = (uint64_t)window_realtime_offset_ns(side->window), first_ns = UINT64_MAX,
                 last_ns = 0;

        for (uint32_t i = 0; i < window_n_profiles(side->window); i++) {
                const WindowProfile *profile = window_get_profile(side->window, i);

                if (!profile->first_ns)
                        continue;
                first_ns = MIN(first_ns, profile->first_ns);
                last_ns = MAX(last_ns, profile->last_ns);
        }
        if (first_ns > last_ns)
                return;
        side->start_ns = first_ns + offset_ns;
        side->end_ns = last_ns + offset_ns;
}

static uint64_t longest(const PageModel *model) {
        uint64_t length_ns = 0;

        for (uint32_t i = 0; i < model->n_sides; i++)
                if (model->sides[i].end_ns)
                        length_ns = MAX(length_ns, model->sides[i].end_ns - model->sides[i].start_ns + 1);
        return length_ns;
}

static uint64_t choose_bucket(const PageModel *model) {
        uint64_t length_ns = longest(model), n_events = 0, n_buckets;
        size_t i;

        if (!length_ns)
                return 0;
        /* a bucket with a sample or two shows nothing but chance */
        for (i = 0; i < model->n_sides; i++)
                n_events = MAX(n_events, window_n_events(model->sides[i].window));
        n_buckets = MIN(MAX(n_events / PAGE_BUCKET_EVENTS, (uint64_t)PAGE_LEAST_BUCKETS),
                        (uint64_t)PAGE_BUCKETS);
        for (i = 0; i + 1 < ARRAY_SIZE(bucket_lengths_ns); i++)
                if (length_ns / n_buckets < bucket_lengths_ns[i])
                        break;
        return bucket_lengths_ns[i];
}

static int add_row(Rows *rows, PageRow row) {
        int r = array_reserve(&rows->rows, &rows->room, rows->n + 1, 4096);

        if (r)
                return r;
        rows->rows[rows->n++] = row;
        return 0;
}

static uint32_t bucket_of(const PageModel *model, const PageSide *side, uint64_t time_ns) {
        uint64_t at_ns = time_ns + (uint64_t)window_realtime_offset_ns(side->window) - side->start_ns;

        return (uint32_t)MIN(at_ns / model->bucket_ns, (uint64_t)PAGE_BUCKETS) + 1;
}

/* Return: the sum of what has a time. */
static uint64_t sum_times(Rows *rows, PageSide *side, const WindowSample *sample) {
        uint64_t sum = 0;

        for (uint32_t i = 0; i < sample->n_times && rows->model->bucket_ns; i++) {
                uint32_t bucket = bucket_of(rows->model, side, sample->times_ns[i]);
                int64_t value = sample->values ? sample->values[i] : 1;

                if (value <= 0)
                        continue;
                if (!rows->sums[bucket])
                        rows->touched[rows->n_touched++] = bucket;
                rows->sums[bucket] += (uint64_t)value;
                sum += (uint64_t)value;
                side->n_timed++;
        }
        return sum;
}

static int add_sample(Rows *rows, PageSide *side, uint32_t context, const WindowSample *sample) {
        const PagePath *path = &side->paths[sample->stack];
        PageRow row = { .node = path->node, .context = context, .lines = path->lines };
        uint64_t timed = sum_times(rows, side, sample),
                 value = sample->value > 0 ? (uint64_t)sample->value : 0;
        int r;

        row.value = value > timed ? value - timed : 0;
        r = row.value ? add_row(rows, row) : 0;

        for (uint32_t i = 0; i < rows->n_touched; i++) {
                row.bucket = rows->touched[i];
                row.value = rows->sums[row.bucket];
                r = r ? r : add_row(rows, row);
                rows->sums[row.bucket] = 0;
        }
        rows->n_touched = 0;
        return r;
}

static int add_side(Rows *rows, PageSide *side) {
        size_t at = 0;
        int r = 0;

        for (uint32_t i = 0; i < window_n_profiles(side->window); i++)
                for (uint32_t j = 0; j < window_get_profile(side->window, i)->n_samples && !r; j++) {
                        WindowSample sample;

                        window_get_sample(side->window, i, j, &sample);
                        r = add_sample(rows, side, side->contexts[at++], &sample);
                }
        return r;
}

static int compare_rows(const void *left, const void *right) {
        const PageRow *a = left, *b = right;

        if (a->context != b->context)
                return a->context < b->context ? -1 : 1;
        if (a->bucket != b->bucket)
                return a->bucket < b->bucket ? -1 : 1;
        return a->lines < b->lines ? -1 : a->lines > b->lines;
}

/*
 * By counting, since there are as many nodes as rows or fewer; what has one node is short, and sorted by
 * comparing.
 */
static int sort_rows(Rows *rows) {
        uint32_t n_nodes = rows->model->n_nodes;
        _cleanup_(freep) size_t *ends = calloc(n_nodes + 1u, sizeof(*ends));
        PageRow *sorted = calloc(rows->n + 1, sizeof(*sorted));

        if (!ends || !sorted) {
                free(sorted);
                return error_origin(-ENOMEM);
        }
        for (size_t i = 0; i < rows->n; i++)
                ends[rows->rows[i].node + 1]++;
        for (uint32_t i = 0; i < n_nodes; i++)
                ends[i + 1] += ends[i];
        for (size_t i = 0; i < rows->n; i++)
                sorted[ends[rows->rows[i].node]++] = rows->rows[i];
        for (uint32_t i = 0; i < n_nodes; i++) {
                size_t begin = i ? ends[i - 1] : 0;

                if (ends[i] - begin > 1)
                        qsort(sorted + begin, ends[i] - begin, sizeof(*sorted), compare_rows);
        }
        free(rows->rows);
        rows->rows = sorted;
        return 0;
}

/* Rows of equal {node, context, bucket, lines} become one. */
static void merge_rows(Rows *rows) {
        size_t n = 0;

        for (size_t i = 0; i < rows->n; i++) {
                PageRow *last = n ? &rows->rows[n - 1] : NULL, *row = &rows->rows[i];

                if (last && last->node == row->node && last->context == row->context &&
                    last->bucket == row->bucket && last->lines == row->lines)
                        last->value += row->value;
                else
                        rows->rows[n++] = *row;
        }
        rows->n = n;
}

static uint64_t next_length(uint64_t length_ns) {
        for (size_t i = 0; i < ARRAY_SIZE(bucket_lengths_ns); i++)
                if (bucket_lengths_ns[i] > length_ns)
                        return bucket_lengths_ns[i];
        return UINT64_MAX;
}

static void make_coarser(Rows *rows) {
        uint64_t from_ns = rows->model->bucket_ns, to_ns = next_length(from_ns);

        for (size_t i = 0; i < rows->n; i++)
                if (rows->rows[i].bucket)
                        rows->rows[i].bucket = (uint32_t)((rows->rows[i].bucket - 1) / (to_ns / from_ns)) + 1;
        rows->model->bucket_ns = to_ns;
        merge_rows(rows);
}

/* Whether more rows than there should be can become fewer by longer buckets. */
static bool can_be_coarser(const Rows *rows) {
        const PageModel *model = rows->model;

        return rows->n > PAGE_MAX_ROWS && model->bucket_ns &&
               longest(model) / next_length(model->bucket_ns) >= PAGE_LEAST_BUCKETS;
}

static void forget_lines(Rows *rows) {
        for (size_t i = 0; i < rows->n; i++) {
                rows->model->lines_left_out |= rows->rows[i].lines;
                rows->rows[i].lines = 0;
        }
        merge_rows(rows);
}

int page_rows_make(PageModel *model) {
        uint64_t sums[PAGE_BUCKETS + 2] = { 0 };
        uint32_t touched[PAGE_BUCKETS + 2];
        Rows rows = { .model = model, .sums = sums, .touched = touched };
        int r = 0;

        for (uint32_t i = 0; i < model->n_sides; i++)
                find_times(&model->sides[i]);
        model->bucket_ns = choose_bucket(model);
        for (uint32_t i = 0; i < model->n_sides && !r; i++)
                r = add_side(&rows, &model->sides[i]);
        if (!r)
                r = sort_rows(&rows);
        if (!r)
                merge_rows(&rows);
        while (!r && can_be_coarser(&rows))
                make_coarser(&rows);
        if (!r && rows.n > PAGE_MAX_ROWS)
                forget_lines(&rows);
        model->rows = rows.rows;
        model->n_rows = rows.n;
        return r;
}
