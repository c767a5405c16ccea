/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A function's own share of the CPU time of its service, before and after. Samples are no coins: a service
 * does other work in this minute than in the last, and a share that is told by 10,000 samples of one minute
 * moves more than chance lets it. So a sketch keeps samples by blocks of time, 48 of them, newest last:
 *
 *     block           1     2     3   …   47     open
 *     parse_order    31    44    28       37        5
 *     all           601   688   590      622       90
 *
 * The distances of blocks from the whole share say how far that share is from what it would be in the long
 * run: the variance of a ratio, by blocks. It is taken of single blocks and of pairs, as neighbours are
 * alike, and never below that of independent samples. A function is slower if its share has grown by more
 * than
 *
 *     t × √(variance before + variance after)
 *
 * where t is that of Student for the number of blocks, and a chance of one in 2,000 for all functions
 * together: so many functions are compared that one in 2,000 each would be a false alarm a day. The tail is
 * bounded by exp(-z² / 2), and t² = df × (exp(z² / df) - 1). The same range is the interval that is shown.
 *
 * Shares add up to one: where a large function has become fast, all others take more. So the growth of the
 * median function, by its share, is taken off first, where it is above 1. What is below a tenth of a point is
 * of no interest.
 *
 * Of thousands of functions the largest have rows. `missed` says for each block what any of the others may have
 * had there: the largest that found no room, and of rows that were dropped. A function that gets a row late
 * may have had as much before, which counts for the side `before`. So what was not counted makes no function
 * slower. Neither does what had no name before: as far as files have fewer samples without one now, these
 * count for each function's side `before`.
 */

#include "host/service/watch/sketch.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/data/intern.h"
#include "core/base/util/chance.h"
#include "core/base/util/macro.h"
#include "core/base/util/text.h"

#define LOG_CHANCE 7.6009025            /* one of 2,000 */
#define MILLION 1e6

enum {
        LEAST_BLOCKS = 16,              /* for a variance */
        LEAST_CHANGE = 1000,            /* millionths */
};

uint64_t sketch_hash(const char *name) {
        return hash_stable(name, strlen(name));
}

/* ---- counting ---- */

SketchRow *sketch_find(const Sketch *sketch, uint64_t hash) {
        for (uint32_t i = 0; i < sketch->n_rows; i++)
                if (sketch->rows[i].hash == hash)
                        return (SketchRow *)&sketch->rows[i];
        return NULL;
}

static void add(uint32_t *to, uint32_t n) {
        *to = MIN(*to + n, (uint32_t)SKETCH_MAX_BLOCK);
}

bool sketch_add(Sketch *sketch, uint64_t hash, const char *name, uint32_t n) {
        SketchRow *row = sketch_find(sketch, hash);

        n = MIN(n, (uint32_t)SKETCH_MAX_BLOCK);
        add(&sketch->total[sketch->n_blocks], n);
        if (!row && sketch->n_rows < SKETCH_ROWS) {
                size_t size = text_cut_utf8(name, SKETCH_NAME - 1);

                row = &sketch->rows[sketch->n_rows++];
                /* a function may have had none a moment ago */
                *row = (SketchRow){ .hash = hash,
                                    .since = sketch->n_blocks + (sketch->missed[sketch->n_blocks] > 0) };
                memcpy(row->name, name, size);
        }
        if (row)
                add(&row->n[sketch->n_blocks], n);
        else
                sketch->lost = MAX(sketch->lost, n);
        return row;
}

/* As much as the row has in the block, or may have. */
static uint32_t most(const Sketch *sketch, const SketchRow *row, uint32_t block) {
        return row->n[block] + (block < row->since ? sketch->missed[block] : 0);
}

static uint64_t row_sum(const SketchRow *row) {
        uint64_t sum = 0;

        for (uint32_t i = 0; i < SKETCH_BLOCKS; i++)
                sum += row->n[i];
        return sum;
}

static int by_sum(const void *a, const void *b) {
        uint64_t x = row_sum(a), y = row_sum(b);

        return (x < y) - (x > y);
}

/* Leaves room for functions that come up, which are tried for a block. */
static void drop_rows(Sketch *sketch) {
        uint32_t missed[SKETCH_BLOCKS];

        if (sketch->n_rows <= SKETCH_ROWS_LEFT)
                return;
        qsort(sketch->rows, sketch->n_rows, sizeof(*sketch->rows), by_sum);
        memcpy(missed, sketch->missed, sizeof(missed));
        for (uint32_t i = SKETCH_ROWS_LEFT; i < sketch->n_rows; i++)
                for (uint32_t block = 0; block <= sketch->n_blocks; block++)
                        missed[block] = MAX(missed[block], most(sketch, &sketch->rows[i], block));
        memcpy(sketch->missed, missed, sizeof(missed));
        sketch->n_rows = SKETCH_ROWS_LEFT;
}

static void shift(uint32_t n[static SKETCH_BLOCKS]) {
        memmove(n, n + 1, (SKETCH_BLOCKS - 1) * sizeof(*n));
        n[SKETCH_BLOCKS - 1] = 0;
}

static void close_block(Sketch *sketch) {
        drop_rows(sketch);
        sketch->open_ns = 0;
        if (++sketch->n_blocks < SKETCH_BLOCKS)
                return;
        sketch->n_blocks--;
        shift(sketch->total);
        shift(sketch->missed);
        for (uint32_t i = 0; i < sketch->n_rows; i++) {
                shift(sketch->rows[i].n);
                sketch->rows[i].since -= sketch->rows[i].since > 0;
        }
}

void sketch_pass(Sketch *sketch, uint64_t ns, uint64_t block_ns) {
        add(&sketch->missed[sketch->n_blocks], sketch->lost);
        sketch->lost = 0;
        sketch->open_ns += ns;
        if (sketch->open_ns >= block_ns)
                close_block(sketch);
}

/* ---- comparing ---- */

uint64_t sketch_samples(const Sketch *sketch) {
        uint64_t n = 0;

        for (uint32_t i = 0; i < sketch->n_blocks; i++)
                n += sketch->total[i];
        return n;
}

bool sketch_is_enough(const Sketch *sketch) {
        return sketch->n_blocks >= SKETCH_ENOUGH_BLOCKS && sketch_samples(sketch) >= SKETCH_ENOUGH_SAMPLES;
}

/* A function in one of the sketches. */
typedef struct Side {
        const Sketch *sketch;
        const SketchRow *row;           /* NULL = it has none */
        double total, hits, missed;     /* samples, in closed blocks */
} Side;

static Side look(const Sketch *sketch, const SketchRow *row) {
        Side side = { .sketch = sketch, .row = row, .total = (double)sketch_samples(sketch) };

        for (uint32_t i = 0; i < sketch->n_blocks; i++) {
                side.hits += row ? row->n[i] : 0;
                side.missed += !row || i < row->since ? sketch->missed[i] : 0;
        }
        return side;
}

/* The variance of the share, by blocks of @width neighbours. */
static double variance(const Side *side, uint32_t width) {
        const Sketch *sketch = side->sketch;
        uint32_t n = sketch->n_blocks / width, at = sketch->n_blocks - n * width;
        double share = side->hits / side->total, sum = 0;

        if (!side->row)
                return 0;
        for (uint32_t i = 0; i < n; i++) {
                double distance = 0;

                for (uint32_t j = 0; j < width; j++, at++)
                        distance += side->row->n[at] - share * sketch->total[at];
                sum += distance * distance;
        }
        return sum * n / (n - 1) / (side->total * side->total);
}

/* A bound that chance does not exceed. @growth: of all functions; @n: functions that are compared. */
static double margin(const Side *before, const Side *after, double growth, uint32_t n) {
        double p = (before->hits + before->missed + after->hits + 2) / (before->total + after->total + 4);
        double coins = p * (1 - MIN(p, 1)) * (growth * growth / before->total + 1 / after->total);
        double z2 = 2 * (LOG_CHANCE + log_bound(n)), largest = 0;
        uint32_t blocks = MIN(before->sketch->n_blocks, after->sketch->n_blocks);

        for (uint32_t width = 1; blocks / width >= LEAST_BLOCKS; width *= 2) {
                const uint32_t freedom = blocks / width - 1;
                double df = freedom, t2 = df * (exponential(z2 / df) - 1);
                double v = growth * growth * variance(before, width) + variance(after, width);

                largest = MAX(largest, t2 * MAX(v, coins));
        }
        return square_root(largest);
}

/* How much the share of a function has grown, and what it weighs. */
typedef struct Growth {
        double growth, weight;
} Growth;

static int by_growth(const void *a, const void *b) {
        double x = ((const Growth *)a)->growth, y = ((const Growth *)b)->growth;

        return (x > y) - (x < y);
}

/* Samples without a name are in rows like `[libc.so.6]`, which are no functions. */
static bool is_named(const SketchRow *row) {
        return *row->name != '[';
}

/* Share that had no name before and is not without one now: any function may have been a part of it. */
static double named_since(const Sketch *before, const Sketch *after) {
        double sum = 0;

        for (uint32_t i = 0; i < before->n_rows; i++) {
                const SketchRow *row = &before->rows[i];
                Side old = look(before, row), now = look(after, sketch_find(after, row->hash));

                if (!is_named(row))
                        sum += MAX(old.hits / old.total - now.hits / now.total, 0.0);
        }
        return sum;
}

static uint32_t count_named(const Sketch *sketch) {
        uint32_t n = 0;

        for (uint32_t i = 0; i < sketch->n_rows; i++)
                n += is_named(&sketch->rows[i]);
        return n;
}

/* The growth of the median function; 1 where it has shrunk. */
static double median_growth(const Sketch *before, const Sketch *after) {
        Growth rows[SKETCH_ROWS];
        double half = 0;
        uint32_t n = 0;

        for (uint32_t i = 0; i < after->n_rows; i++) {
                const SketchRow *row = &after->rows[i];
                Side now = look(after, row), old = look(before, sketch_find(before, row->hash));
                double a = old.hits / old.total, b = now.hits / now.total;

                if (a > 0 && b > 0 && is_named(row))
                        rows[n++] = (Growth){ b / a, (a + b) / 2 };
        }
        qsort(rows, n, sizeof(*rows), by_growth);
        for (uint32_t i = 0; i < n; i++)
                half += rows[i].weight / 2;
        for (uint32_t i = 0; i < n; i++)
                if ((half -= rows[i].weight) <= 0)
                        return MAX(rows[i].growth, 1);
        return 1;
}

static int32_t millionths(double share) {
        return (int32_t)(share * MILLION);
}

static void list(SketchVerdict *verdict, const SketchSlower *slower) {
        uint32_t i = MIN(verdict->n_slower, (uint32_t)SKETCH_SLOWER);

        verdict->n_slower++;
        for (; i > 0 && slower->after - slower->before >
                     verdict->slower[i - 1].after - verdict->slower[i - 1].before; i--)
                if (i < SKETCH_SLOWER)
                        verdict->slower[i] = verdict->slower[i - 1];
        if (i < SKETCH_SLOWER)
                verdict->slower[i] = *slower;
}

void sketch_compare(const Sketch *before, const Sketch *after, SketchVerdict *verdict) {
        double growth = median_growth(before, after), unnamed = named_since(before, after);

        *verdict = (SketchVerdict){ .n_compared = count_named(after) };
        strcpy(verdict->before, before->build);
        strcpy(verdict->after, after->build);
        for (uint32_t i = 0; i < after->n_rows; i++) {
                const SketchRow *row = &after->rows[i];
                Side now = look(after, row), old = look(before, sketch_find(before, row->hash));
                double share = now.hits / now.total, was = old.hits / old.total,
                       at_most = (old.hits + old.missed) / old.total + unnamed;
                double chance = margin(&old, &now, growth, verdict->n_compared);
                SketchSlower slower = { .before = millionths(was),
                                        .after = millionths(share),
                                        .low = millionths(share - at_most - chance),
                                        .high = millionths(share - was + chance) };

                if (!is_named(row) || share - growth * at_most <= chance ||
                    share - at_most < LEAST_CHANGE / MILLION)
                        continue;
                strcpy(slower.name, row->name);
                list(verdict, &slower);
        }
}
