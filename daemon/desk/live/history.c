/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Keeps moments in a ring, and drops the oldest ones until their rows are within the cap.
 */

#include "desk/live/history.h"

static Moment *place_of(const History *history, uint64_t number) {
        return (Moment *)&history->moments[number % HISTORY_MAX];
}

static void drop_oldest(History *history) {
        counts_deinit(&place_of(history, history->n_taken - history->n_kept)->counts);
        history->n_kept--;
}

void history_deinit(History *history) {
        while (history->n_kept)
                drop_oldest(history);
}

static size_t n_rows(const History *history) {
        size_t n = 0;

        for (size_t i = 1; i <= history->n_kept; i++)
                n += counts_n_rows(&place_of(history, history->n_taken - i)->counts);
        return n;
}

void history_add(History *history, Counts *counts, uint64_t length_ns, uint64_t end_ns) {
        if (history->n_kept == HISTORY_MAX)
                drop_oldest(history);
        *place_of(history, history->n_taken) = (Moment){ *counts, length_ns, end_ns };
        counts_init(counts);
        history->n_taken++;
        history->n_kept++;
        while (history->n_kept > 1 && n_rows(history) > HISTORY_MAX_ROWS)
                drop_oldest(history);
}

const Moment *history_get(const History *history, uint64_t number) {
        bool is_kept = number < history->n_taken && number + history->n_kept >= history->n_taken;

        return is_kept ? place_of(history, number) : NULL;
}
