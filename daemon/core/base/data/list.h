/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Lists
 *
 * Of things that carry their own links, so that nothing is allocated for a place in one. A list is any struct
 * with `first` and `last`; its items have `next`, and `previous` where one may leave from the middle. Macros,
 * so that the types stay those of the list. All zeros is an empty list.
 */

#include <stddef.h>

/* ---- in and out in turn ---- */

#define fifo_push(_fifo, _item) \
        ({ \
                __typeof__(_fifo) _to = (_fifo); \
                __typeof__(_to->first) _new = (_item); \
                _new->next = NULL; \
                *(_to->last ? &_to->last->next : &_to->first) = _new; \
                _to->last = _new; \
        })

/* Yields the oldest; NULL = empty. */
#define fifo_pop(_fifo) \
        ({ \
                __typeof__(_fifo) _from = (_fifo); \
                __typeof__(_from->first) _oldest = _from->first; \
                if (_oldest) { \
                        _from->first = _oldest->next; \
                        if (!_from->first) \
                                _from->last = NULL; \
                        _oldest->next = NULL; \
                } \
                _oldest; \
        })

/* ---- out from anywhere ---- */

#define list_append(_list, _item) \
        ({ \
                __typeof__(_list) _to = (_list); \
                __typeof__(_to->first) _new = (_item); \
                _new->previous = _to->last; \
                _new->next = NULL; \
                *(_to->last ? &_to->last->next : &_to->first) = _new; \
                _to->last = _new; \
        })

#define list_remove(_list, _item) \
        ({ \
                __typeof__(_list) _from = (_list); \
                __typeof__(_from->first) _gone = (_item); \
                *(_gone->previous ? &_gone->previous->next : &_from->first) = _gone->next; \
                *(_gone->next ? &_gone->next->previous : &_from->last) = _gone->previous; \
                _gone->previous = _gone->next = NULL; \
        })
