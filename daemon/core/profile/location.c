/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Interns the words of each location that has several, and makes a word of the number of that row, with a
 * mark that no frame has. A window without inlined frames is not looked into.
 */

#include "core/profile/location.h"

#include <errno.h>

#include "core/base/util/error.h"

enum { MARK_CHAIN = 6 };                /* no FrameMark: only locations have it */

#define MARK_SHIFT 61

void locations_init(Locations *locations, const Window *window) {
        *locations = (Locations){ .window = window };
        intern_init(&locations->chains, UINT32_MAX - 1);
}

void locations_deinit(Locations *locations) {
        intern_deinit(&locations->chains);
}

/* Whether the frame of @word is inlined into that of @caller. */
static bool is_inlined_into(const Window *window, FrameWord word, FrameWord caller) {
        const WindowFrame *frame = window_get_frame(window, window_frame_row(word));
        WindowFrame outer;

        if (!frame->is_inlined)
                return false;
        outer = window_expand_frame(window, caller);
        return outer.module == frame->module && outer.address == frame->address && outer.type == frame->type;
}

int locations_next(Locations *locations, const FrameWord *words, size_t n, FrameWord *locationp,
                   size_t *usedp) {
        size_t used = 1;
        uint32_t row;
        int r;

        if (window_has_inlined(locations->window))
                while (used < n && is_inlined_into(locations->window, words[used - 1], words[used]))
                        used++;
        *usedp = used;
        *locationp = words[0];
        if (used == 1)
                return 0;
        r = intern_add(&locations->chains, words, used * sizeof(*words), &row);
        if (r && r != INTERN_E_FOUND)
                return error_origin(-ENOMEM);
        *locationp = (FrameWord)MARK_CHAIN << MARK_SHIFT | row;
        return 0;
}

const FrameWord *locations_get(const Locations *locations, const FrameWord *locationp, size_t *np) {
        const InternItem *chain;

        *np = 1;
        if (*locationp >> MARK_SHIFT != MARK_CHAIN)
                return locationp;
        chain = intern_get(&locations->chains, (uint32_t)*locationp);
        *np = chain->size / sizeof(FrameWord);
        return chain->data;
}

WindowFrame locations_outer(const Locations *locations, FrameWord location) {
        size_t n;
        const FrameWord *words = locations_get(locations, &location, &n);

        return window_expand_frame(locations->window, words[n - 1]);
}
