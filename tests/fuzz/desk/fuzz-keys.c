/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What somebody types, and what strangers call themselves: the bytes are keys for `spanprof top`, then a name
 * on its screen. Keys come to an end and leave the view in order; of a name no control character is left, and
 * no column too many.
 */

#include <stdlib.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "desk/live/keys.h"
#include "desk/live/screen.h"
#include "desk/live/view.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void type(const uint8_t *data, size_t size) {
        View view = { .rows = 24, .columns = 80, .interval_ns = NS_PER_SEC };
        size_t at = 0, used;
        int key;

        while ((key = keys_next((const char *)data + at, size - at, &used)) != KEY_NONE) {
                if (!used || used > size - at)
                        abort();
                at += used;
                if (view_key(&view, key) > VIEW_QUIT || view.tab >= VIEW_N_TABS ||
                    view.order > COUNTS_BY_NAME)
                        abort();
                if (!memchr(view.filter, 0, sizeof(view.filter)) ||
                    view.interval_ns < VIEW_INTERVAL_MIN_MS * NS_PER_MS ||
                    view.interval_ns > VIEW_INTERVAL_MAX_MS * NS_PER_MS)
                        abort();
        }
        if (used || size - at >= 16)            /* the begin of a key is shorter */
                abort();
}

static void show(const uint8_t *data, size_t size, unsigned columns) {
        char *name = malloc(3 * size + 1);
        unsigned n = 0;
        Text text = { 0 };

        if (!name)
                return;
        text_repair_utf8(name, (const char *)data, size);       /* as windows do */
        screen_text(&text, name, columns, columns & 1);
        for (size_t i = 0; i < text.size; i++) {
                unsigned char c = (unsigned char)text.data[i];

                n += (c & 0xc0) != 0x80;
                if (c < ' ' || c == 0x7f || (c == 0xc2 && (unsigned char)text.data[i + 1] < 0xa0))
                        abort();
                if (c == 0xe2 && (unsigned char)text.data[i + 1] == 0x80 &&
                    (unsigned char)text.data[i + 2] - 0xaau < 5)
                        abort();        /* U+202A to 202E */
        }
        if (n > columns || (text.size && !text_is_utf8(text.data, text.size)))
                abort();
        text_deinit(&text);
        free(name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        if (!size)
                return 0;
        type(data + 1, size - 1);
        show(data + 1, size - 1, data[0]);
        return 0;
}
