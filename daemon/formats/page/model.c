/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util/error.h"
#include "formats/page/page-private.h"

enum { MAX_STRINGS = 16 << 20, MAX_FRAMES = 4 << 20, MAX_CONTEXTS = 1 << 30 };

static const PageOptions no_options;

int page_intern(Intern *intern, const void *data, size_t size, uint32_t *indexp) {
        int r = intern_add(intern, data, size, indexp);

        return r == INTERN_E_FOUND ? 0 : r;
}

/* Masked by U+FFFD, which a browser shows as what it is. */
static size_t clean(char *to, const char *text) {
        size_t size = 0;
        bool shown;

        for (size_t n, length; *text; text += n) {
                n = text_character(text, SIZE_MAX, &shown);
                length = shown ? n : 3;
                memcpy(to + size, shown ? text : "\xEF\xBF\xBD", length);
                size += length;
        }
        return size;
}

/* The length of the part that is shown: whole characters. */
static size_t cut(const char *text, size_t size) {
        if (size <= PAGE_MAX_NAME)
                return size;
        size = PAGE_MAX_NAME;
        while (size && (text[size] & 0xC0) == 0x80)
                size--;
        return size;
}

int page_string(PageModel *model, const char *text, size_t size, uint32_t *stringp) {
        char repaired[3 * PAGE_MAX_NAME + 1], shown[3 * sizeof(repaired) + 32];
        size_t n = cut(text, size), length;
        int r;

        text_repair_utf8(repaired, text, n);
        length = clean(shown, repaired);
        if (n < size)
                length += (size_t)sprintf(shown + length, "… (%zu bytes)", size);
        shown[length] = 0;
        r = page_intern(&model->strings, shown, length + 1, stringp);
        if (r == INTERN_E_FULL) {
                *stringp = 0;
                r = 0;
        }
        return r;
}

const char *page_get_string(const PageModel *model, uint32_t string) {
        return intern_get(&model->strings, string)->data;
}

uint32_t page_main_kind(const PageModel *model) {
        uint32_t best = 0;

        for (uint32_t i = 1; i < model->n_kinds; i++) {
                const PageKind *a = &model->kinds[i], *b = &model->kinds[best];

                if (a->is_cpu != b->is_cpu ? a->is_cpu : a->n_events > b->n_events)
                        best = i;
        }
        return best;
}

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
        side_init(model, window);
        if (after)
                side_init(model, after);
        r = fill(model);
        if (r)
                return error_fold(r);
        *modelp = take(model);
        return 0;
}

PageModel *page_model_free(PageModel *model) {
        if (!model)
                return NULL;
        for (uint32_t i = 0; i < model->n_sides; i++) {
                free(model->sides[i].paths);
                free(model->sides[i].contexts);
        }
        for (uint32_t i = 0; i < model->n_dimensions; i++) {
                intern_deinit(&model->dimensions[i].values);
                free(model->dimensions[i].labels);
        }
        arena_deinit(&model->arena);
        intern_deinit(&model->strings);
        intern_deinit(&model->frames);
        intern_deinit(&model->contexts);
        free(model->frame_order);
        free(model->nodes);
        free(model->rows);
        free(model);
        return NULL;
}
