/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "desk/live/keys.h"

static int key_of(const char *data, size_t *usedp) {
        return keys_next(data, strlen(data), usedp);
}

Test(keys, takes_characters_as_they_are) {
        size_t used;

        cr_assert_eq(key_of("q/", &used), 'q');
        cr_assert_eq(used, 1);
        cr_assert_eq(key_of("\xc3\xa9", &used), 0xc3, "bytes of UTF-8 come one by one");
        cr_assert_eq(key_of("\b", &used), KEY_BACKSPACE);
        cr_assert_eq(key_of("\x7f", &used), KEY_BACKSPACE);
        cr_assert_eq(keys_next("\0q", 2, &used), KEY_OTHER, "Ctrl-Space");
        cr_assert_eq(used, 1);
        cr_assert_eq(key_of("", &used), KEY_NONE);
        cr_assert_eq(used, 0);
}

/* Sequences of xterm, VT220 and rxvt (terminfo: kcuu1, khome, kpp …). */
Test(keys, knows_the_keys_of_terminals) {
        static const struct {
                const char *text;
                int key;
        } all[] = {
                { "\033[A", KEY_UP },          { "\033OA", KEY_UP },         { "\033[B", KEY_DOWN },
                { "\033[C", KEY_RIGHT },       { "\033[D", KEY_LEFT },       { "\033[H", KEY_HOME },
                { "\033OH", KEY_HOME },        { "\033[1~", KEY_HOME },      { "\033[7~", KEY_HOME },
                { "\033[F", KEY_END },         { "\033[4~", KEY_END },       { "\033[8~", KEY_END },
                { "\033[5~", KEY_PAGE_UP },    { "\033[6~", KEY_PAGE_DOWN }, { "\033[Z", KEY_BACK_TAB },
                { "\033[1;5A", KEY_UP },       { "\033[5;2~", KEY_PAGE_UP }, { "\033[15~", KEY_OTHER },
                { "\033[<0;5;5M", KEY_OTHER }, { "\033OP", KEY_OTHER },
        };

        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
                size_t used;

                cr_assert_eq(key_of(all[i].text, &used), all[i].key, "%s", all[i].text + 1);
                cr_assert_eq(used, strlen(all[i].text), "%s as a whole", all[i].text + 1);
        }
}

Test(keys, waits_for_the_rest_of_a_sequence) {
        size_t used;

        cr_assert_eq(key_of("\033", &used), KEY_ESCAPE, "nothing follows: it is the key");
        cr_assert_eq(used, 1);
        cr_assert_eq(key_of("\033[", &used), KEY_NONE);
        cr_assert_eq(used, 0);
        cr_assert_eq(key_of("\033[1;", &used), KEY_NONE);
        cr_assert_eq(key_of("\033O", &used), KEY_NONE);
        cr_assert_eq(key_of("\033q", &used), KEY_ESCAPE, "and then a q");
        cr_assert_eq(used, 1);
}

Test(keys, comes_to_an_end_with_any_bytes) {
        char data[64];

        memset(data, '1', sizeof(data));
        memcpy(data, "\033[", 2);
        for (size_t size = 0; size <= sizeof(data); size++) {
                size_t used;
                int key = keys_next(data, size, &used);

                cr_assert_leq(used, size);
                cr_assert((key == KEY_NONE) == !used, "no end of one key is longer than a buffer");
        }
        data[3] = '\n';         /* no part of any sequence */
        for (size_t at = 0, used; at < 8; at += used) {
                cr_assert_neq(keys_next(data + at, 8 - at, &used), KEY_NONE);
                cr_assert_gt(used, 0);
        }
}
