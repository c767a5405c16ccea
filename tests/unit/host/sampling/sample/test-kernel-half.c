/* SPDX-License-Identifier: Apache-2.0 */
#include <bpf/libbpf.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "host/sampling/sample/kernel-half.h"

/* strerror() has nothing but a number for the loader's own codes. */
Test(kernel_half_error_text, knows_the_loaders_codes_and_the_systems) {
        char text[128];

        for (int code = LIBBPF_ERRNO__LIBELF; code < __LIBBPF_ERRNO__END; code++) {
                kernel_half_error_text(-code, text, sizeof(text));
                cr_assert(*text && !strstr(text, "nknown"), "%d: %s", code, text);
        }
        cr_assert_str_eq(kernel_half_error_text(-EPERM, text, sizeof(text)), "Operation not permitted");
}
