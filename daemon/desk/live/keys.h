/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Keys
 *
 * Bytes of a terminal → keys. A key that is not known is passed over as a whole, so that its bytes are not
 * taken for others; an ESC that nothing follows is the key.
 */

#include <stddef.h>

typedef enum Key {
        KEY_NONE = 0,                   /* what is left is the begin of a key, or nothing */
        KEY_BACKSPACE = 0x7f,           /* below: characters as they are */
        KEY_UP = 256,
        KEY_DOWN,
        KEY_LEFT,
        KEY_RIGHT,
        KEY_HOME,
        KEY_END,
        KEY_PAGE_UP,
        KEY_PAGE_DOWN,
        KEY_BACK_TAB,
        KEY_ESCAPE,
        KEY_OTHER,                      /* one that means nothing here */
} Key;

/*
 * The first key of @data; *usedp: its bytes. Bytes of UTF-8 come one by one, from 0x80 on. Return: KEY_NONE
 * if there is none.
 */
int keys_next(const char *data, size_t size, size_t *usedp);
