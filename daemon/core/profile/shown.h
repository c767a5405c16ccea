/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Type That Is Shown
 *
 * Which of several types of a window people see, where one is seen alone or first: CPU time if there is any,
 * else memory in use, as Go shows its own heap profiles, else the type with the most events.
 */

#include "core/profile/window.h"

typedef struct ShownType {
        bool is_cpu;
        const char *type;
        uint64_t n_events;
} ShownType;

/* Pure. Return: above 0 if @a is shown before @b, below 0 if @b is, 0 if nothing decides. */
int shown_compare(const ShownType *a, const ShownType *b);

/* Whether CPU samples of periods that differ much would be counted alike. 0: not known. */
bool shown_is_uneven(int64_t shortest, int64_t longest);

/* The same of all in a window, whose periods are told, too. */
bool shown_find_uneven(const Window *window, int64_t *shortestp, int64_t *longestp);

/* The first profile of the type that is shown; NULL = the window has none. */
const WindowProfile *shown_find(const Window *window);
