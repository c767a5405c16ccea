/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Seen Pages
 *
 * What earlier searches have met in the memory of one process, so that the next one reads only what may have
 * become a context since. A context begins a mapping of its own: its page was empty until then. So a page
 * that begins with something else will not become one while it stays.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct SeenBlock SeenBlock;

/* Zeros: nothing was seen. Pages are numbers: their address divided by their size. */
typedef struct SeenPages {
        SeenBlock *blocks;              /* sorted, owned */
        size_t n, room;
        size_t at;                      /* where the last one was found */
} SeenPages;

void seen_pages_deinit(SeenPages *seen);

/* The first page of [@page, @end) that has to be read; @end = none. */
uint64_t seen_pages_next(SeenPages *seen, uint64_t page, uint64_t end);

/*
 * A page was read, and is no context. @is_empty: its first word is zero, so that it may become one: it is
 * read once more, by the next search. What finds no room is read each time. Return: 0, -ENOMEM.
 */
int seen_pages_add(SeenPages *seen, uint64_t page, bool is_empty);

/* Pages [@page, @end) are not there. Return: whether @page was, when it was seen. */
bool seen_pages_forget(SeenPages *seen, uint64_t page, uint64_t end);
