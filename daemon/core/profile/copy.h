/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Window Copy
 *
 * A closed window → another one, with the samples that a filter lets pass and with names for frames that
 * had none. What no sample refers to any more is not copied. Rows are copied when something first refers to
 * them.
 */

#include "core/profile/filter.h"

enum { COPY_MAX_INLINED = 32 };

/* A function at an address. Strings are borrowed until the next call. */
typedef struct CopyName {
        const char *name, *system_name, *file;  /* NULL = not known */
        int64_t line, start_line;       /* 0 = not known */
} CopyName;

/*
 * Names the frame @word of the old window, which has a module and no function: innermost first, if functions
 * were inlined.
 * Return: how many; 0 = not known.
 */
typedef size_t (*CopyNamer)(void *userdata, FrameWord word, CopyName names[static COPY_MAX_INLINED]);

typedef struct CopyOptions {
        const FilterOptions *filter;    /* NULL = every sample */
        CopyNamer namer;                /* NULL = no names */
        void *userdata;
        const WindowLimits *limits;
} CopyOptions;

/* Events that a filter left out, and the samples without times that a filter by time could not judge. */
typedef struct CopyCounts {
        uint64_t n_kept, n_filtered, n_untimed;
        uint32_t n_resources_filtered;
} CopyCounts;

/*
 * *windowp: closed, with the times, resources, ids and payloads (borrowed ones stay so) of the old one.
 * Return: 0, WINDOW_E_FULL, -ENOMEM.
 */
int window_copy(Window **windowp, const Window *from, const CopyOptions *options, CopyCounts *counts);
