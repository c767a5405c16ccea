/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Runs the steps in their order, for one window or for two.
 */

#include "desk/page/build.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/util/error.h"

enum { MAX_STRINGS = 16 << 20, MAX_FRAMES = 4 << 20, MAX_CONTEXTS = 1 << 30, MAX_LINES = 4 << 20 };

static const PageOptions no_options;

static void side_init(PageModel *model, const Window *window) {
        PageSide *side = &model->sides[model->n_sides++];

        *side = (PageSide){ .window = window, .start_ns = UINT64_MAX };
        if (window_end_ns(window) > window_start_ns(window))
                side->recorded_ns = window_end_ns(window) - window_start_ns(window);
}

static int fill(PageModel *model) {
        uint32_t empty;
        int r = page_string(model, "", 0, &empty);

        for (uint32_t i = 0; i < model->n_sides && !r; i++)
                r = page_paths_of(model, &model->sides[i]);
        if (!r)
                r = page_plain_match(model);
        if (!r)
                r = page_tree_make(model);
        for (uint32_t i = 0; i < model->n_sides && !r; i++)
                r = page_contexts_of(model, i);
        return r ? r : page_rows_make(model);
}

int page_model_new(PageModel **modelp, const Window *window, const Window *after,
                   const PageOptions *options) {
        _cleanup_(page_model_freep) PageModel *model = calloc(1, sizeof(*model));
        int r;

        if (!model)
                return error_origin(-ENOMEM);
        model->options = options ? options : &no_options;
        intern_init(&model->strings, MAX_STRINGS);
        intern_init(&model->frames, MAX_FRAMES);
        intern_init(&model->contexts, MAX_CONTEXTS);
        intern_init(&model->matches, MAX_FRAMES);
        intern_init(&model->lines, MAX_LINES);
        side_init(model, window);
        if (after)
                side_init(model, after);
        r = fill(model);
        if (r)
                return error_fold(r);
        *modelp = take(model);
        return 0;
}
