/* SPDX-License-Identifier: Apache-2.0 */
#include "delivery/spool/batch.h"

#include <errno.h>
#include <string.h>

#include "base/util/error.h"
#include "base/util/gzip.h"
#include "base/util/protobuf.h"

enum {
        REQUEST_RESOURCE_PROFILES = 1,  /* opentelemetry-proto 1.11 */
        RESOURCE_SCOPE_PROFILES = 2,
        SCOPE_PROFILES = 2,
};

/* Fields numbered @path[0] of @data, in each of them those numbered @path[1], and so on. */
static uint64_t count_path(const uint8_t *data, size_t size, const uint64_t *path, size_t n_path) {
        Cursor cursor = cursor_make(data, size);
        uint64_t n = 0;
        Field field;

        while (field_next(&cursor, &field))
                if (field.number == path[0] && field.wire == WIRE_BYTES)
                        n += n_path == 1 ? 1 : count_path(field.data, field.size, path + 1, n_path - 1);
        return cursor.failed ? 0 : n;
}

uint64_t batch_count_profiles(const uint8_t *data, size_t size) {
        static const uint64_t path[] = { REQUEST_RESOURCE_PROFILES, RESOURCE_SCOPE_PROFILES, SCOPE_PROFILES };

        return count_path(data, size, path, ARRAY_SIZE(path));
}

int batch_new(Batch **batchp, const uint8_t *data, size_t size, uint64_t n_events, bool gzip, bool json) {
        _cleanup_(batch_freep) Batch *batch = calloc(1, sizeof(*batch));
        int r;

        if (!batch)
                return error_origin(-ENOMEM);
        if (gzip) {
                r = gzip_compress(data, size, &batch->data, &batch->size);
                if (r)
                        return error_fold(r);
        } else {
                batch->data = malloc(size ? size : 1);
                if (!batch->data)
                        return error_origin(-ENOMEM);
                memcpy(batch->data, data, size);
                batch->size = size;
        }
        batch->n_refs = 1;
        batch->gzip = gzip;
        batch->json = json;
        batch->n_events = n_events;
        batch->n_profiles = json ? 0 : batch_count_profiles(data, size);
        *batchp = take(batch);
        return 0;
}

Batch *batch_ref(Batch *batch) {
        batch->n_refs++;
        return batch;
}

Batch *batch_free(Batch *batch) {
        if (!batch || (batch->n_refs && --batch->n_refs))
                return NULL;
        free(batch->data);
        free(batch);
        return NULL;
}

uint64_t batch_rejected_events(const Batch *batch, uint64_t n_rejected) {
        unsigned __int128 share;

        if (n_rejected >= batch->n_profiles)
                return n_rejected ? batch->n_events : 0;
        share = (unsigned __int128)batch->n_events * n_rejected + batch->n_profiles - 1;
        return (uint64_t)(share / batch->n_profiles);
}
