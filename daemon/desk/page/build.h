/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Building a Page Model
 *
 * The model of one window, or of two that are compared. Each step fills its part of the model from what the
 * steps before it have made:
 *
 *     page-paths.c        stacks       → frames, paths
 *     page-plain.c        paths of two → the same frames for names that differ by build
 *     page-tree.c         paths        → nodes, the order of frames, lines
 *     page-contexts.c     samples      → contexts, dimensions, kinds
 *     page-rows.c         all of these → rows, buckets of time
 */

#include "desk/page/model.h"

/* @after: NULL = only one. Return: 0 with *modelp owned by the caller, -ENOMEM. */
int page_model_new(PageModel **modelp, const Window *window, const Window *after, const PageOptions *options);

/* The steps. Return: 0, -ENOMEM. */
int page_paths_of(PageModel *model, PageSide *side);
int page_plain_match(PageModel *model);
int page_tree_make(PageModel *model);
int page_contexts_of(PageModel *model, uint32_t side);
int page_rows_make(PageModel *model);
