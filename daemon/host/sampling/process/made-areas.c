/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Rows are read by looks, which come some time after the code. When do they hold?
 *
 *     time ───┬──────────────┬────────────────┬──────────────→
 *             notice of A    look: A's rows   notice: B in A's place
 *             └──────── they hold ────────────┘
 *
 * The notice of A comes once A is in place, and nobody runs A before: its maker's call has not returned. If
 * no notice is known of it, the rows hold from the look on. What the kernel half has walked behind the second
 * notice, until it is told, is stale as with files (mapping-history.h).
 *
 * Notices come late. So a look's rows are taken once all notices are known from before its end
 * (code_names_work()), and those that are too many to be kept count as one of everything.
 *
 * A compiler may also register B before it is executable (LLVM's MCJIT), and stop there for long. The last
 * notice is A's then. So rows that did not hold at the last look hold from their own look on, unless a notice
 * has come in between.
 */
#include "host/sampling/process/made-areas.h"

#include <stdlib.h>

#include "core/base/util/macro.h"

MadeAreas *made_areas_free(MadeAreas *made) {
        if (!made)
                return NULL;
        for (uint32_t i = 0; i < made->n_pieces; i++)
                free(made->pieces[i].runs);
        free(made);
        return NULL;
}

bool made_piece_has_code(const MadePiece *piece, uint64_t start, uint64_t end) {
        uint32_t low = 0, high = piece->n_runs;

        while (low < high) {
                uint32_t middle = low + (high - low) / 2;

                if (piece->runs[middle].end <= start)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low < piece->n_runs && piece->runs[low].start < end;
}

bool made_areas_change(MadeAreas *made, uint64_t start, uint64_t end, uint64_t time_ns) {
        MadeChange *change = &made->changes[made->n_changes % MADE_MAX_CHANGES];
        bool has_voided = false;

        if (made->n_changes >= MADE_MAX_CHANGES)
                made->forgotten_ns = MAX(made->forgotten_ns, change->time_ns);
        *change = (MadeChange){ start, end, time_ns };
        made->n_changes++;
        for (uint32_t i = 0; i < made->n_pieces; i++) {
                MadePiece *piece = &made->pieces[i];

                if (piece->is_void || piece->since_ns >= time_ns || !made_piece_has_code(piece, start, end))
                        continue;
                piece->is_void = has_voided = true;
        }
        return has_voided;
}

bool made_areas_change_all(MadeAreas *made, uint64_t time_ns) {
        bool has_voided = false;

        made->n_changes++;
        made->forgotten_ns = MAX(made->forgotten_ns, time_ns);
        for (uint32_t i = 0; i < made->n_pieces; i++) {
                has_voided = has_voided || !made->pieces[i].is_void;
                made->pieces[i].is_void = true;
        }
        return has_voided;
}

bool made_areas_hold(const MadeAreas *made, const MadePiece *piece, uint64_t read_ns, uint64_t *since_nsp) {
        uint64_t n = MIN(made->n_changes, (uint64_t)MADE_MAX_CHANGES), since_ns = 0;

        if (made->forgotten_ns >= read_ns)
                return false;
        for (uint64_t i = 0; i < n; i++) {
                const MadeChange *change = &made->changes[i];

                if (!made_piece_has_code(piece, change->start, change->end))
                        continue;
                if (change->time_ns >= read_ns)
                        return false;
                since_ns = MAX(since_ns, change->time_ns);
        }
        *since_nsp = since_ns > made->forgotten_ns ? since_ns : read_ns;
        return true;
}

static MadePiece *find_same(MadeAreas *made, const MadePiece *piece) {
        for (uint32_t i = 0; i < made->n_pieces; i++) {
                MadePiece *known = &made->pieces[i];

                if (known->start == piece->start && known->end == piece->end && known->hash == piece->hash)
                        return known;
        }
        return NULL;
}

bool made_areas_take(MadeAreas *made, MadePiece *pieces, uint32_t n, uint64_t read_ns) {
        static uint64_t last_id;
        bool is_other = n != made->n_pieces;

        for (uint32_t i = 0; i < n; i++) {
                const MadePiece *known = find_same(made, &pieces[i]);

                pieces[i].id = known ? known->id : MADE_FIRST_ID | ++last_id;
                is_other = is_other || !known || known->is_void != pieces[i].is_void;
                /* the area has held since then */
                if (known && !known->is_void && !pieces[i].is_void)
                        pieces[i].since_ns = known->since_ns;
                else if (pieces[i].since_ns <= made->read_ns)
                        pieces[i].since_ns = read_ns;
        }
        for (uint32_t i = 0; i < made->n_pieces; i++)
                free(made->pieces[i].runs);
        for (uint32_t i = 0; i < n; i++) {
                made->pieces[i] = pieces[i];
                pieces[i].runs = NULL;
        }
        made->n_pieces = n;
        made->read_ns = read_ns;
        return is_other;
}

const MadePiece *made_areas_next(const MadeAreas *made, uint64_t address, uint64_t time_ns) {
        for (uint32_t i = 0; made && i < made->n_pieces; i++) {
                const MadePiece *piece = &made->pieces[i];

                if (piece->end > address && !piece->is_void && piece->since_ns <= time_ns)
                        return piece;
        }
        return NULL;
}
