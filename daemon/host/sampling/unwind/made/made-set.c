/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Puts the areas of all libraries in order. Areas of two libraries that lie across each other cannot both be
 * one table: the later one is left out and counted.
 */

#include "host/sampling/unwind/made/made-set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/data/intern.h"
#include "core/base/util/error.h"
#include "host/sampling/unwind/made/made-image.h"

MadeSet *made_set_new(uint64_t read_ns) {
        MadeSet *set = calloc(1, sizeof(*set));

        if (set)
                set->read_ns = read_ns;
        return set;
}

MadeSet *made_set_free(MadeSet *set) {
        if (!set)
                return NULL;
        for (uint32_t i = 0; i < set->n; i++) {
                free(set->pieces[i].runs);
                if (set->fds[i] >= 0)
                        close(set->fds[i]);
        }
        free(set);
        return NULL;
}

/* Return: the place of the area among the others; -1 = there is none. */
static int find_place(const MadeSet *set, const FrameCluster *cluster) {
        uint32_t i = 0;

        while (i < set->n && set->pieces[i].end <= cluster->low)
                i++;
        return set->n < MADE_MAX_PIECES && (i == set->n || set->pieces[i].start >= cluster->high) ? (int)i
                                                                                                  : -1;
}

static int add(MadeSet *set, const FrameView *view, int place) {
        MadePiece piece = { .start = view->cluster.low,
                            .end = view->cluster.high,
                            .n_runs = view->cluster.n_runs,
                            .hash = hash_bytes(view->runs, view->size - sizeof(view->cluster)) };
        size_t n_behind = set->n - (uint32_t)place;
        int fd = -1, r;

        piece.runs = malloc(piece.n_runs * sizeof(*piece.runs));
        if (!piece.runs)
                return error_origin(-ENOMEM);
        memcpy(piece.runs, view->runs, piece.n_runs * sizeof(*piece.runs));
        r = made_image_write(view, &fd);
        if (r) {
                free(piece.runs);
                return r;
        }
        memmove(&set->pieces[place + 1], &set->pieces[place], n_behind * sizeof(piece));
        memmove(&set->fds[place + 1], &set->fds[place], n_behind * sizeof(fd));
        set->pieces[place] = piece;
        set->fds[place] = fd;
        set->n++;
        return 0;
}

int made_set_add(MadeSet *set, const FrameSet *frames) {
        const uint8_t *data = frames->data;
        int r = 0;

        set->n_functions += frames->n_functions;
        set->n_malformed += frames->n_malformed;
        set->n_over_cap += frames->n_over_cap;
        for (uint32_t i = 0; i < frames->n_clusters && !r; i++) {
                FrameView view = frame_view(data);
                int place = find_place(set, &view.cluster);

                set->n_over_cap += place < 0;
                if (place >= 0)
                        r = add(set, &view, place);
                data += view.size;
        }
        return r;
}
