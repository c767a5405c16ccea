/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The tree of all paths. Paths are sorted, and each adds the nodes behind what it has in common with the one
 * before; so the nodes come in the order of a walk, and a node's descendants are those up to the next node
 * that is not deeper. Frames are numbered by their names first, so that children come in the order of their
 * names.
 *
 *     main;read        node 1 main       2 read
 *     main;work;fib              3 work            4 fib
 *     main;work;hash                               5 hash
 *
 * Paths of the same functions on other lines end in the same node. Their lines are a tree of their own.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "desk/page/build.h"

static int compare_frames(const void *left, const void *right, void *userdata) {
        const uint32_t *i = left, *j = right;
        const PageModel *model = userdata;
        const PageFrame *a = intern_get(&model->frames, *i)->data, *b = intern_get(&model->frames, *j)->data;
        int r = a->name == b->name ? 0
                                   : strcmp(page_get_string(model, a->name), page_get_string(model, b->name));

        if (!r && a->object != b->object)
                r = strcmp(page_get_string(model, a->object), page_get_string(model, b->object));
        return r ? r : *i < *j ? -1 : *i > *j;
}

static int order_frames(PageModel *model, uint32_t **rankp) {
        uint32_t n = model->frames.n_items;
        uint32_t *order = calloc(n, sizeof(*order)), *rank = calloc(n, sizeof(*rank));

        if (!order || !rank) {
                free(order);
                free(rank);
                return error_origin(-ENOMEM);
        }
        for (uint32_t i = 0; i < n; i++)
                order[i] = i;
        qsort_r(order, n, sizeof(*order), compare_frames, model);
        for (uint32_t i = 0; i < n; i++)
                rank[order[i]] = i;
        model->frame_order = order;
        *rankp = rank;
        return 0;
}

static void renumber(PageSide *side, const uint32_t *rank) {
        for (uint32_t i = 0; i < window_n_stacks(side->window); i++) {
                PageStep *steps = (PageStep *)side->paths[i].steps;     /* in the model's arena */

                for (uint32_t j = 0; j < side->paths[i].n_steps; j++)
                        steps[j].frame = rank[steps[j].frame];
        }
}

static int compare_paths(const void *left, const void *right) {
        const PagePath *a = *(PagePath *const *)left, *b = *(PagePath *const *)right;
        uint32_t n = MIN(a->n_steps, b->n_steps);

        for (uint32_t i = 0; i < n; i++)
                if (a->steps[i].frame != b->steps[i].frame)
                        return a->steps[i].frame < b->steps[i].frame ? -1 : 1;
        return a->n_steps < b->n_steps ? -1 : a->n_steps > b->n_steps;
}

/* Number 0: it differs from the first step of a path whose line is not known. */
static const PageLines no_lines = { .outer = UINT32_MAX };

static int add_node(PageModel *model, uint32_t *roomp, uint32_t parent, uint32_t frame) {
        int r = array_reserve(&model->nodes, roomp, model->n_nodes + 1u, 1024);

        if (r)
                return r;
        model->nodes[model->n_nodes++] = (PageNode){ parent, frame };
        return 0;
}

static uint32_t in_common(const PagePath *a, const PagePath *b) {
        uint32_t n = MIN(a->n_steps, b->n_steps), i = 0;

        while (i < n && a->steps[i].frame == b->steps[i].frame)
                i++;
        return i;
}

/* Numbers the lines of a path, outermost first, up to the last that is known. */
static int add_lines(PageModel *model, PagePath *path) {
        uint32_t n = model->n_sides > 1 ? 0 : path->n_steps;
        int r = 0;

        while (n && !path->steps[n - 1].line)
                n--;
        path->lines = 0;
        for (uint32_t i = 0; i < n && !r; i++) {
                PageLines lines = { path->lines, path->steps[i].line };

                r = page_intern(&model->lines, &lines, sizeof(lines), &path->lines);
        }
        if (r != INTERN_E_FULL)
                return r;
        path->lines = 0;
        model->lines_left_out = true;
        return 0;
}

/* @at: the nodes of the path before, by depth; at[0] is the root. */
static int add_path(PageModel *model, PagePath *path, uint32_t from, uint32_t *at, uint32_t *roomp) {
        int r = 0;

        for (uint32_t i = from; i < path->n_steps && !r; i++) {
                at[i + 1] = model->n_nodes;
                r = add_node(model, roomp, at[i], path->steps[i].frame);
        }
        path->node = at[path->n_steps];
        return r ? r : add_lines(model, path);
}

static int add_paths(PageModel *model, PagePath **paths, size_t n) {
        _cleanup_(freep) uint32_t *at = NULL;
        uint32_t deepest = 0, room = 0;
        int r = add_node(model, &room, 0, 0);

        if (!r)
                r = page_intern(&model->lines, &no_lines, sizeof(no_lines), &(uint32_t){ 0 });
        for (size_t i = 0; i < n; i++)
                deepest = MAX(deepest, paths[i]->n_steps);
        at = calloc(deepest + 1u, sizeof(*at));
        if (!at)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < n && !r; i++)
                r = add_path(model, paths[i], i ? in_common(paths[i - 1], paths[i]) : 0, at, &room);
        return r;
}

/* Marks the stacks that samples of the window have. */
static int used_stacks(const Window *window, bool **usedp) {
        bool *used = calloc(window_n_stacks(window), sizeof(*used));

        if (!used)
                return error_origin(-ENOMEM);
        for (uint32_t i = 0; i < window_n_profiles(window); i++)
                for (uint32_t j = 0; j < window_get_profile(window, i)->n_samples; j++) {
                        WindowSample sample;

                        window_get_sample(window, i, j, &sample);
                        used[sample.stack] = true;
                }
        *usedp = used;
        return 0;
}

static int collect(PageSide *side, PagePath **paths, size_t *np) {
        _cleanup_(freep) bool *used = NULL;
        int r = used_stacks(side->window, &used);

        for (uint32_t i = 0; i < window_n_stacks(side->window) && !r; i++)
                if (used[i])
                        paths[(*np)++] = &side->paths[i];
        return r;
}

int page_tree_make(PageModel *model) {
        _cleanup_(freep) uint32_t *rank = NULL;
        _cleanup_(freep) PagePath **paths = NULL;
        size_t room = 1, n = 0;
        int r = order_frames(model, &rank);

        for (uint32_t i = 0; i < model->n_sides && !r; i++) {
                room += window_n_stacks(model->sides[i].window);
                renumber(&model->sides[i], rank);
        }
        if (r)
                return r;
        paths = calloc(room, sizeof(*paths));
        if (!paths)
                return error_origin(-ENOMEM);
        for (uint32_t i = 0; i < model->n_sides && !r; i++)
                r = collect(&model->sides[i], paths, &n);
        if (r)
                return r;
        qsort(paths, n, sizeof(*paths), compare_paths);
        return add_paths(model, paths, n);
}
