/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Location
 *
 * A stack of a window has a word for each function. pprof and OTLP have a location for each address instead,
 * whose lines are the functions that were inlined there:
 *
 *     words        skip_blanks (inlined), parse (inlined), main │ start
 *     locations    { skip_blanks, parse, main }                 │ { start }
 *
 * Writers of the two formats take a stack apart by it. A location is a word, too: that of its one frame, or
 * one that only this table knows.
 */

#include <stddef.h>

#include "core/base/data/intern.h"
#include "core/profile/window.h"

typedef struct Locations {
        const Window *window;           /* borrowed */
        Intern chains;                  /* words of locations with several frames */
} Locations;

void locations_init(Locations *locations, const Window *window);
void locations_deinit(Locations *locations);

/*
 * Takes the first location off the stack @words, of @n words, at least one. *usedp: words that it has. A
 * frame that is inlined into another place than the next frame's ends its location. Return: 0, -ENOMEM.
 */
int locations_next(Locations *locations, const FrameWord *words, size_t n, FrameWord *locationp,
                   size_t *usedp);

/* The words of a location, innermost first, at least one. *locationp may be handed out. */
const FrameWord *locations_get(const Locations *locations, const FrameWord *locationp, size_t *np);

/* The frame of the function that the code lies in: it has the place, type and attribute of the location. */
WindowFrame locations_outer(const Locations *locations, FrameWord location);
