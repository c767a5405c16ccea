/* SPDX-License-Identifier: Apache-2.0 */

/*
 * For example, three walks of one kind (thread, span, reason, kind of file, state, waker, long or not), drawn
 * with p = 1/4, and 90 ms without a walk:
 *
 *     walked   duration   stands for beside itself   gets          sample says
 *     f        10 ms      30 ms                       90 × 30/60    10 + 45 ms
 *     g         4 ms      12 ms                       90 × 12/60     4 + 18 ms
 *     f         6 ms      18 ms                       90 × 18/60     6 + 27 ms
 *
 * Duration / p, 40 + 16 + 24 = 80 ms, would be right in the mean, and wrong in each window. The sum of the
 * kind is known exactly, 20 + 90 ms, so the estimates only say how to divide it. As p does not depend on a
 * wait's length, the shares are right in the mean of many walks. Of a kind without any walk the time goes
 * into a sample without a stack.
 */

#include "host/sampling/aggregate/wait-spread.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/util/array.h"
#include "core/base/util/error.h"

#define NO_WALK UINT32_MAX

struct WaitSpreadKind {
        uint64_t value_ns, end_ns;
        double estimate_ns;             /* sum over its walks */
        uint32_t attributes;
        uint32_t first_walk;
        uint32_t profile, link;
};

struct WaitSpreadWalk {
        double estimate_ns;
        uint32_t sample, next;
};

void wait_spread_init(WaitSpread *spread) {
        *spread = (WaitSpread){ 0 };
        intern_init(&spread->kinds, WAIT_SPREAD_MAX_KINDS);
}

void wait_spread_deinit(WaitSpread *spread) {
        intern_deinit(&spread->kinds);
        free(spread->sums);
        free(spread->walks);
        *spread = (WaitSpread){ 0 };
}

uint32_t wait_spread_fill(const WaitSpread *spread) {
        return spread->kinds.n_items * (WINDOW_FILL_MAX / WAIT_SPREAD_MAX_KINDS);
}

/* Return: 0, 1 = too many, -ENOMEM. */
static int find_kind(WaitSpread *spread, const WaitKind *kind, WaitSpreadKind **sump) {
        uint32_t n = spread->kinds.n_items, number;
        int r = array_reserve(&spread->sums, &spread->sums_size, n + 1u, 64);

        if (r)
                return r;
        r = spread->is_closed ? intern_find(&spread->kinds, kind, sizeof(*kind), &number)
                              : intern_add(&spread->kinds, kind, sizeof(*kind), &number);
        if (r < 0)
                return error_fold(r);
        if (spread->is_closed ? r : r == INTERN_E_FULL)
                return 1;
        if (number == n)
                spread->sums[n] = (WaitSpreadKind){ .first_walk = NO_WALK, .profile = kind->profile,
                                                    .link = kind->link };
        *sump = &spread->sums[number];
        return 0;
}

int wait_spread_walked(WaitSpread *spread, const WaitKind *kind, uint32_t sample, double estimate_ns) {
        WaitSpreadKind *sum = NULL;
        int r;

        if (spread->n_walks >= WAIT_SPREAD_MAX_WALKS)
                return 0;
        r = array_reserve(&spread->walks, &spread->walks_size, spread->n_walks + 1u, 64);
        if (!r)
                r = find_kind(spread, kind, &sum);
        if (r || !sum)
                return MIN(r, 0);
        spread->walks[spread->n_walks] = (WaitSpreadWalk){ estimate_ns, sample, sum->first_walk };
        sum->first_walk = spread->n_walks++;
        sum->estimate_ns += estimate_ns;
        return 0;
}

int wait_spread_add(WaitSpread *spread, const WaitKind *kind, uint32_t attributes, uint64_t value_ns,
                    uint64_t end_ns) {
        WaitSpreadKind *sum = NULL;
        int r = find_kind(spread, kind, &sum);

        if (r || !sum)
                return r;
        sum->attributes = attributes;
        sum->value_ns += value_ns;
        sum->end_ns = MAX(sum->end_ns, end_ns);
        return 0;
}

/* The last walk gets what rounding leaves: the sum stays exact. */
static int spread_kind(const WaitSpread *spread, const WaitSpreadKind *sum, Window *window) {
        double rate = (double)sum->value_ns / sum->estimate_ns;
        uint64_t left_ns = sum->value_ns, part_ns;
        int r = 0;

        for (uint32_t i = sum->first_walk; i != NO_WALK && !r; i = spread->walks[i].next) {
                const WaitSpreadWalk *walk = &spread->walks[i];

                part_ns = MIN((uint64_t)(walk->estimate_ns * rate), left_ns);
                if (walk->next == NO_WALK)
                        part_ns = left_ns;
                left_ns -= part_ns;
                if (part_ns)
                        r = window_sample_event(window, sum->profile, walk->sample, (int64_t)part_ns,
                                                sum->end_ns, true);
        }
        return r;
}

int wait_spread_finish(WaitSpread *spread, Window *window) {
        bool is_full = false;
        int r = 0;

        /* A full window leaves out new samples of this kind alone: other kinds may have theirs. */
        for (uint32_t i = 0; i < spread->kinds.n_items && r >= 0; i++) {
                const WaitSpreadKind *sum = &spread->sums[i];

                if (!sum->value_ns)
                        continue;
                r = sum->estimate_ns > 0 ? spread_kind(spread, sum, window)
                                         : window_sample(window, sum->profile, 0, sum->attributes, sum->link,
                                                         (int64_t)sum->value_ns, sum->end_ns);
                is_full = is_full || r > 0;
        }
        intern_reset(&spread->kinds);
        spread->n_walks = 0;
        return r < 0 ? error_fold(r) : is_full ? WINDOW_E_FULL : 0;
}
