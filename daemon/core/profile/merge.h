/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Merge
 *
 * Adds all that a closed window holds to an open one: so the windows of a recording become one. Rows of the
 * closed window are copied when something first refers to them.
 *
 * Resources with equal attributes become one, and so do the profiles of one type in it. Times stay what they
 * are by the calendar.
 */

#include <stddef.h>
#include <stdint.h>

#include "core/profile/window.h"

/* *n_lostp grows by the events that found the window full; the others are in. Return: 0, -ENOMEM. */
int window_merge(Window *into, const Window *from, uint64_t *n_lostp);
