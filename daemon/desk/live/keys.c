/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Recognises one sequence of bytes at a time: a control sequence, a function key, or a character of UTF-8.
 */

#include "desk/live/keys.h"


enum { ESC = 0x1b, SEQUENCE_MAX = 16 };

/*
 * ECMA-48, 5.4: CSI, parameters from 0x30 to 0x3f, intermediates from 0x20 to 0x2f, one final byte from 0x40
 * to 0x7e.
 */
static size_t csi_size(const char *data, size_t size) {
        for (size_t i = 2; i < size && i < SEQUENCE_MAX; i++)
                if (data[i] >= 0x40 && data[i] <= 0x7e)
                        return i + 1;
                else if (data[i] < 0x20 || data[i] > 0x3f)
                        return i;
        return size < SEQUENCE_MAX ? 0 : SEQUENCE_MAX;
}

/* As VT220 and xterm send them. */
static int final_key(char final) {
        switch (final) {
        case 'A': return KEY_UP;
        case 'B': return KEY_DOWN;
        case 'C': return KEY_RIGHT;
        case 'D': return KEY_LEFT;
        case 'H': return KEY_HOME;
        case 'F': return KEY_END;
        case 'Z': return KEY_BACK_TAB;
        default: return KEY_OTHER;
        }
}

static int tilde_key(char number) {
        switch (number) {
        case '1': case '7': return KEY_HOME;
        case '4': case '8': return KEY_END;
        case '5': return KEY_PAGE_UP;
        case '6': return KEY_PAGE_DOWN;
        default: return KEY_OTHER;
        }
}

/* With modifiers (`1;5A`) the key is the same. */
static int csi_key(const char *data, size_t size) {
        if (data[size - 1] != '~')
                return final_key(data[size - 1]);
        return size == 4 || (size > 4 && data[3] == ';') ? tilde_key(data[2]) : KEY_OTHER;
}

/* Ctrl-Space sends a NUL, which is a key as well. */
static int character_key(unsigned char c) {
        return c == ESC ? KEY_ESCAPE : c == '\b' ? KEY_BACKSPACE : c ? c : KEY_OTHER;
}

int keys_next(const char *data, size_t size, size_t *usedp) {
        size_t used = 1;

        *usedp = 0;
        if (!size)
                return KEY_NONE;
        if (data[0] != ESC || size == 1 || (data[1] != '[' && data[1] != 'O')) {
                *usedp = 1;
                return character_key((unsigned char)data[0]);
        }
        if (data[1] == 'O') {           /* SS3, of the application's cursor keys */
                *usedp = size < 3 ? 0 : 3;
                return size < 3 ? KEY_NONE : final_key(data[2]);
        }
        used = csi_size(data, size);
        *usedp = used;
        return used ? csi_key(data, used) : KEY_NONE;
}
