/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Growable Arrays
 *
 * An array that grows is a pointer and its room, a count of items; both begin as zeros. Its owner keeps the
 * number of used items, holds it below a cap of his own, and frees the array by free(). The room doubles, so
 * that adding an item is cheap on average, and never becomes more than its type can say.
 *
 *     r = array_reserve(&list->rows, &list->room, list->n + 1, 64);
 *
 * The allocation is made at the place of the call, which a trace of errors names, and where a test lets it
 * fail.
 */

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/error.h"

/*
 * The room of an array that must hold @n items and has @room: doubled until it does, at first @least; @most
 * where doubling would go beyond it. Return: 0 when even @most is less than @n.
 */
static inline size_t array_room(size_t room, size_t n, size_t least, size_t most) {
        if (n > most)
                return 0;
        if (!room)
                room = least ? least : 1;
        while (room < n)
                room = room > most / 2 ? most : room * 2;
        return room < most ? room : most;
}

/*
 * array_reserve(T **itemsp, unsigned *roomp, size_t n, size_t least): room for @n items, of which those that
 * are new have no value yet. Return: 0, -ENOMEM with nothing changed.
 */
#define array_reserve(_itemsp, _roomp, _n, _least) \
        ({ \
                __typeof__(**(_itemsp)) **_array_itemsp = (_itemsp), *_array_bigger; \
                __typeof__(*(_roomp)) *_array_roomp = (_roomp); \
                size_t _array_n = (_n), _array_room; \
                int _array_r = 0; \
                _Static_assert((__typeof__(*_array_roomp))-1 > 0, "a room is unsigned"); \
                if (_array_n > *_array_roomp) { \
                        _array_room = array_room(*_array_roomp, _array_n, (_least), \
                                                 (size_t)(__typeof__(*_array_roomp))-1); \
                        _array_bigger = _array_room \
                                ? reallocarray(*_array_itemsp, _array_room, sizeof(*_array_bigger)) \
                                : NULL; \
                        if (_array_bigger) { \
                                *_array_itemsp = _array_bigger; \
                                *_array_roomp = (__typeof__(*_array_roomp))_array_room; \
                        } else \
                                _array_r = error_origin(-ENOMEM); \
                } \
                _array_r; \
        })

/* The same, and new items are zeros. */
#define array_reserve_zero(_itemsp, _roomp, _n, _least) \
        ({ \
                __typeof__(**(_itemsp)) **_zero_itemsp = (_itemsp); \
                __typeof__(*(_roomp)) *_zero_roomp = (_roomp); \
                size_t _zero_from = *_zero_roomp; \
                int _zero_r = array_reserve(_zero_itemsp, _zero_roomp, (_n), (_least)); \
                if (*_zero_roomp > _zero_from) \
                        memset(*_zero_itemsp + _zero_from, 0, \
                               (*_zero_roomp - _zero_from) * sizeof(**_zero_itemsp)); \
                _zero_r; \
        })
