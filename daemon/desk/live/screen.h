/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Screen
 *
 * A terminal of our own for a while: other page, no echo, keys at once. However we end, short of SIGKILL, it
 * gets back what it had: at an exit, by a signal that kills, before a stop (Ctrl-Z). Written by hand and not
 * over a library, because all that is needed are nine sequences that every terminal of this century knows,
 * and one page that is drawn again each time.
 */

#include <stdbool.h>
#include <stddef.h>

#include "core/base/util/text.h"

/* Whether there is a terminal in front of us that can do this (a TERM that is not `dumb`). */
bool screen_is_possible(void);

/* One at a time. Return: 0, -errno. */
int screen_open(void);
void screen_close(void);

/* Gives it back, stops this process as Ctrl-Z does, and takes it again when it goes on. */
void screen_stop(void);

/* *rowsp and *columnsp: at least 1; 24 and 80 if the terminal does not say. */
void screen_size(unsigned *rowsp, unsigned *columnsp);

/*
 * Replaces all that is on it: lines that end with \n, no more than there are rows. One that takes nothing now
 * is left as it is.
 */
void screen_draw(const Text *page);

/*
 * Appends at most @columns characters of @text from another program, filled up with blanks to so many if
 * @fill. It is masked (core/base/util/text.h).
 */
void screen_text(Text *to, const char *text, unsigned columns, bool fill);
