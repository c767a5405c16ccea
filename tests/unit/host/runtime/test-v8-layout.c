/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Layouts by the constants that releases of Node export, and what is refused in words. Real files are in the
 * integration tests.
 */

#include <criterion/criterion.h>
#include <string.h>

#include "host/runtime/v8/v8-layout.h"
#include "v8-constants.h"

static V8Layout layout;
static char reason[V8_MAX_REASON];

static void setup(void) {
        layout = v8_constants_of_12();
}

TestSuite(v8_layout, .init = setup);

Test(v8_layout, code_of_12_has_four_words_in_front) {
        struct v8_process entry;

        cr_assert_eq(v8_layout_finish(&layout, NULL, reason), 0, "%s", reason);
        cr_assert_str_eq(reason, "V8 12.4.254");
        cr_assert(v8_layout_entry(&layout, &entry));
        cr_assert_eq(entry.code_header, 32);
        cr_assert_eq(entry.code_start, 40);
        cr_assert_eq(entry.shared, 32);
        cr_assert_eq(entry.cookie, 40);
        cr_assert_eq(entry.has_unique_id, 1);
        cr_assert_eq(entry.info_type, 274);
        cr_assert_eq(entry.bytecode_type, 205);
}

Test(v8_layout, code_of_11_exports_nothing_of_itself) {
        struct v8_process entry;

        layout.values[V8_CODE_STREAM] = layout.values[V8_CODE_START] = 0;
        layout.values[V8_CODE_N_BYTES] = layout.values[V8_CODE_FLAGS] = 0;
        cr_assert_eq(v8_layout_finish(&layout, NULL, reason), 0, "%s", reason);
        cr_assert(v8_layout_entry(&layout, &entry));
        cr_assert_eq(entry.code_header, 16);
        cr_assert_eq(entry.code_start, 40);
        cr_assert_eq(layout.values[V8_CODE_N_BYTES], 56);
        cr_assert_eq(layout.values[V8_CODE_DEOPT], 16);
        cr_assert_eq(entry.has_unique_id, 0);
}

Test(v8_layout, code_of_10_lies_in_front_of_its_instructions) {
        struct v8_process entry;

        layout.values[V8_CODE_STREAM] = layout.values[V8_CODE_START] = layout.values[V8_TYPE_STREAM] = 0;
        layout.values[V8_CODE_BEGIN] = 128;
        cr_assert_eq(v8_layout_finish(&layout, NULL, reason), 0, "%s", reason);
        cr_assert(v8_layout_entry(&layout, &entry));
        cr_assert_eq(entry.code_header, 128);
        cr_assert_eq(entry.code_start, 0);
        cr_assert_eq(layout.values[V8_CODE_POSITIONS], 24);
}

Test(v8_layout, what_is_not_known_is_said) {
        cr_assert_eq(v8_layout_finish(&layout, "off_fp_function", reason), V8_OPEN_E_UNKNOWN);
        cr_assert_str_eq(reason, "V8 12.4.254: layout unknown: no constant off_fp_function");
        layout.values[V8_TAGGED_SIZE] = 4;
        cr_assert_eq(v8_layout_finish(&layout, NULL, reason), V8_OPEN_E_UNKNOWN);
        cr_assert_str_eq(reason, "V8 12.4.254: layout unknown: compressed pointers");
}

Test(v8_layout, frames_and_functions_of_another_shape_are_refused) {
        layout.values[V8_SLOT_OF_BYTECODE] = -24;
        cr_assert_eq(v8_layout_finish(&layout, NULL, reason), V8_OPEN_E_UNKNOWN);
        cr_assert_str_eq(reason, "V8 12.4.254: layout unknown: another frame");
        setup();
        layout.values[V8_INFO_TOKEN] += 2;
        cr_assert_eq(v8_layout_finish(&layout, NULL, reason), V8_OPEN_E_UNKNOWN);
        cr_assert_str_eq(reason, "V8 12.4.254: layout unknown: another SharedFunctionInfo");
        setup();
        layout.values[V8_CODE_STREAM] = layout.values[V8_TYPE_STREAM] = 0;
        cr_assert_eq(v8_layout_finish(&layout, NULL, reason), V8_OPEN_E_UNKNOWN);
        cr_assert_str_eq(reason, "V8 12.4.254: layout unknown: another Code");
}

Test(v8_layout, numbers_out_of_bounds_are_refused) {
        struct v8_process entry;

        layout.values[V8_SCRIPT_NAME] = 1 << 20;
        cr_assert_eq(v8_layout_finish(&layout, NULL, reason), V8_OPEN_E_UNKNOWN);
        setup();
        layout.values[V8_SCRIPT_NAME] = -8;
        cr_assert_eq(v8_layout_finish(&layout, NULL, reason), V8_OPEN_E_UNKNOWN);
        setup();
        layout.values[V8_SHARED] = 64;
        cr_assert_eq(v8_layout_finish(&layout, NULL, reason), 0);
        cr_assert_not(v8_layout_entry(&layout, &entry), "beyond the words that are read");
        layout.values[V8_SHARED] = 32;
        layout.values[V8_INFO_LENGTH] = 64;
        cr_assert_not(v8_layout_entry(&layout, &entry));
}

Test(v8_layout, a_file_without_constants_is_not_v8) {
        static const char text[] = "#!/bin/sh\n";
        V8Opened opened;

        cr_assert_not(v8_recognises(-1, text, sizeof(text)));
        cr_assert_eq(v8_open(-1, text, sizeof(text), &opened), V8_OPEN_E_UNKNOWN);
        cr_assert_str_eq(opened.reason, "V8: layout unknown: the file has changed");
}

Test(v8_layout, a_cookie_follows_the_numbers_that_stay) {
        uint64_t words[3] = { 0x00000007000200010ull, 0x0000002a00000000ull, 99 },
                 cookie = v8_cookie(words, 1);

        words[0] ^= 0xff00000000000000ull;
        words[1] ^= 0xffff;
        cr_assert_eq(v8_cookie(words, 1), cookie, "flags and a guess of properties");
        cr_assert_eq(cookie >> V8_COOKIE_SHIFT, 0);
        words[2] = 100;
        cr_assert_neq(v8_cookie(words, 1), cookie);
        cr_assert_eq(v8_cookie(words, 0), v8_cookie((uint64_t[3]){ words[0], words[1], 7 }, 0));
        words[2] = 99;
        words[1] += 1ull << 32;
        cr_assert_neq(v8_cookie(words, 1), cookie);
}
