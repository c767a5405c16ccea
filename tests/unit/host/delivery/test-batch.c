/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "core/base/file/gzip.h"
#include "host/delivery/export/batch.h"

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
        static const uint8_t bytes[] = "a request, a request, a request, a request";
        const ExportRequest request = { bytes, sizeof(bytes), .n_events = 9, .n_profiles = 4 };
        Batch *batch = NULL;
        uint8_t *data = NULL;
        size_t size = 0;

        cr_assert_eq(batch_new(&batch, &request, false, false), 0);
        cr_assert_eq(batch->size, sizeof(bytes));
        cr_assert_arr_eq(batch->data, bytes, sizeof(bytes));
        cr_assert_eq(batch->n_events, 9);
        cr_assert_eq(batch->n_profiles, 4);
        batch_free(batch);
        cr_assert_eq(batch_new(&batch, &request, true, true), 0);
        cr_assert_eq(gzip_expand(batch->data, batch->size, 1000, &data, &size), 0);
        cr_assert_eq(size, sizeof(bytes));
        cr_assert_arr_eq(data, bytes, size);
        cr_assert(batch->gzip && batch->json);
        cr_assert_eq(batch->n_events, 9);
        cr_assert_eq(batch->n_profiles, 4);
        free(data);
        batch_free(batch);
        cr_assert_null(batch_free(NULL));
}
