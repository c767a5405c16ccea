/* SPDX-License-Identifier: Apache-2.0 */
#include <bpf/libbpf.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "border/offcpu_abi.h"
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

/* ---- threads that wait ---- */

enum { MAX = 4096 };            /* elements below Linux 6.1 */

/* Threads that are followed of one who never has enough, beside @user other ones of that user. */
static uint32_t followed(uint32_t user, int is_root) {
        uint32_t group = 0;

        while (group <= MAX && wait_may_hold(MAX, group, user + group, is_root))
                group++;
        return group;
}

Test(wait_may_hold, leaves_half_to_other_control_groups) {
        cr_assert_eq(followed(0, 0), MAX / 2);
        cr_assert_eq(followed(0, 1), MAX / 2);
        cr_assert_geq(followed(MAX / 2, 0), 1024, "another group of the same user");
}

Test(wait_may_hold, leaves_an_eighth_to_other_users_however_many_groups_one_makes) {
        uint32_t user = 0, n;

        while ((n = followed(user, 0)))
                user += n;
        cr_assert_eq(user, MAX - MAX / 8);
}

Test(wait_may_hold, shuts_nobody_out_whose_count_was_lowered_once_too_often) {
        cr_assert(wait_may_hold(MAX, UINT32_MAX, UINT32_MAX, 0));
        cr_assert(wait_may_hold(MAX, UINT32_MAX, 7, 0));
        cr_assert(wait_may_hold(MAX, 7, UINT32_MAX, 0));
}
