/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "base/util/gzip.h"
#include "delivery/spool/batch.h"

/*
 * Two resources; the first has two scopes with two profiles and one, the second one scope with one
 * profile; then a dictionary. Written by hand: field number << 3 | 2, length.
 */
static const uint8_t request[] = {
        0x0A, 12,               /* resource_profiles */
        0x12, 6,                /*   scope_profiles */
        0x12, 0, 0x12, 2, 0x30, 5,      /* profiles: empty; period = 5 */
        0x12, 2, 0x12, 0,       /*   scope_profiles with an empty profile */
        0x0A, 6,
        0x0A, 0,                /*   resource */
        0x12, 2, 0x12, 0,
        0x12, 2, 0x2A, 0,       /* dictionary: string_table[0] */
};

Test(batch_count_profiles, counts_profiles_of_every_scope_of_every_resource) {
        cr_assert_eq(batch_count_profiles(request, sizeof(request)), 4);
        cr_assert_eq(batch_count_profiles(request, 0), 0);
        cr_assert_eq(batch_count_profiles((const uint8_t *)"no protobuf", 11), 0);
        cr_assert_eq(batch_count_profiles(request, sizeof(request) - 1), 0, "cut off");
}

Test(batch_rejected_events, takes_samples_in_proportion_and_never_more_than_all) {
        Batch batch = { .n_events = 10, .n_profiles = 4 };

        cr_assert_eq(batch_rejected_events(&batch, 0), 0);
        cr_assert_eq(batch_rejected_events(&batch, 1), 3, "2.5 rounded up");
        cr_assert_eq(batch_rejected_events(&batch, 4), 10);
        cr_assert_eq(batch_rejected_events(&batch, UINT64_MAX), 10);
        batch.n_profiles = 0;
        cr_assert_eq(batch_rejected_events(&batch, 0), 0);
        cr_assert_eq(batch_rejected_events(&batch, 1), 10);
        batch = (Batch){ .n_events = UINT64_MAX, .n_profiles = 2 };
        cr_assert_eq(batch_rejected_events(&batch, 1), UINT64_MAX / 2 + 1);
}

Test(batch_new, holds_what_is_sent) {
        Batch *batch = NULL;
        uint8_t *data = NULL;
        size_t size = 0;

        cr_assert_eq(batch_new(&batch, request, sizeof(request), 9, false, false), 0);
        cr_assert_eq(batch->size, sizeof(request));
        cr_assert_arr_eq(batch->data, request, sizeof(request));
        cr_assert_eq(batch->n_events, 9);
        cr_assert_eq(batch->n_profiles, 4);
        batch_free(batch);
        cr_assert_eq(batch_new(&batch, request, sizeof(request), 9, true, false), 0);
        cr_assert_eq(gzip_expand(batch->data, batch->size, 1000, &data, &size), 0);
        cr_assert_eq(size, sizeof(request));
        cr_assert_arr_eq(data, request, size);
        cr_assert_eq(batch->n_profiles, 4);
        free(data);
        batch_free(batch);
        cr_assert_null(batch_free(NULL));
}
