/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Interns texts without anything that a page could take for markup, and makes the page's title from its
 * largest processes.
 */

#include "desk/page/model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/error.h"
#include "core/profile/shown.h"

enum { TITLE_PROCESSES = 3 };

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

static ShownType type_of(const PageModel *model, uint32_t i) {
        const PageKind *kind = &model->kinds[i];

        return (ShownType){ kind->is_cpu, page_get_string(model, kind->type), kind->n_events };
}

uint32_t page_main_kind(const PageModel *model) {
        uint32_t best = 0;

        for (uint32_t i = 1; i < model->n_kinds; i++) {
                ShownType a = type_of(model, i), b = type_of(model, best);

                if (shown_compare(&a, &b) > 0)
                        best = i;
        }
        return best;
}

/*
 * The value of the dimension of processes that has the most samples of those not in @said yet; 0 = no more.
 */
static uint32_t largest_process(const PageModel *model, const uint64_t *sums, const uint32_t *said,
                                uint32_t n_said) {
        uint32_t best = 0;

        for (uint32_t i = 2; i < model->dimensions[DIMENSION_PROCESS].values.n_items; i++) {
                bool is_said = false;

                for (uint32_t j = 0; j < n_said; j++)
                        is_said |= said[j] == i;
                if (!is_said && (!best || sums[i] > sums[best]))
                        best = i;
        }
        return best;
}

/* The processes with the most samples, as many as fit a line. */
static int put_processes(const PageModel *model, Text *title) {
        const PageDimension *processes = &model->dimensions[DIMENSION_PROCESS];
        _cleanup_(freep) uint64_t *sums = calloc(processes->values.n_items, sizeof(*sums));
        uint32_t said[TITLE_PROCESSES], n = processes->values.n_items - 2;

        if (!sums)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < model->n_rows; i++) {
                const PageContext *context = page_get_context(model, model->rows[i].context);

                if (context->kind == page_main_kind(model))
                        sums[context->values[DIMENSION_PROCESS]] += model->rows[i].value;
        }
        for (uint32_t i = 0; i < MIN(n, (uint32_t)TITLE_PROCESSES); i++) {
                said[i] = largest_process(model, sums, said, i);
                text_printf(title, "%s%s", i ? ", " : "", page_get_string(model, processes->labels[said[i]]));
        }
        if (n > TITLE_PROCESSES)
                text_printf(title, " and %u more", n - TITLE_PROCESSES);
        return 0;
}

/* Folded stacks and some pprof files say of no process what it is called. */
static bool has_names(const PageModel *model) {
        const PageDimension *processes = &model->dimensions[DIMENSION_PROCESS];

        for (uint32_t i = 2; i < processes->values.n_items; i++)
                if (strcmp(page_get_string(model, processes->labels[i]), "process"))
                        return true;
        return false;
}

int page_title(const PageModel *model, Text *title) {
        int r = 0;

        if (model->options->title)
                text_append_masked(title, model->options->title);
        else if (model->options->unnamed_title && !has_names(model))
                text_append_masked(title, model->options->unnamed_title);
        else
                r = put_processes(model, title);
        return !r && title->failed ? error_origin(-ENOMEM) : r;
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
        intern_deinit(&model->lines);
        intern_deinit(&model->matches);
        free(model->matched);
        free(model->frame_order);
        free(model->nodes);
        free(model->rows);
        free(model);
        return NULL;
}
