/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Merge
 *
 * Adds all that a closed window holds to an open one: so the windows of a recording become one, and so frames get names
 * on the way. Rows of the closed window are carried over when something first refers to them.
 *
 * Resources with equal attributes become one, and so do the profiles of one type in it. Times stay what they are by the
 * calendar.
 */

#include <stddef.h>
#include <stdint.h>

#include "profile/window.h"

enum { MERGE_MAX_INLINED = 64 };        /* frames that one may become */

typedef struct MergeOptions {
        /*
         * What the frame @word of @from is in @into: one frame or more (the innermost first), *np of them. NULL = the same.
         * Return: 0, WINDOW_E_FULL, -errno.
         */
        int (*frame)(void *userdata, const Window *from, FrameWord word, Window *into, FrameWord words[static MERGE_MAX_INLINED],
                     size_t *np);
        void *userdata;
} MergeOptions;

/* The same frame in another window. Return: 0, WINDOW_E_FULL, -ENOMEM. */
int merge_copy_frame(const Window *from, FrameWord word, Window *into, FrameWord *wordp);

/*
 * @options: NULL = none. *n_lostp grows by the events that found the window full; the others are in. Return: 0, -ENOMEM, or what
 * the options' functions return.
 */
int window_merge(Window *into, const Window *from, const MergeOptions *options, uint64_t *n_lostp);
