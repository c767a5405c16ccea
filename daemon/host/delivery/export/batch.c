/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Copies or compresses a request into a counted reference with its numbers.
 */

#include "host/delivery/export/batch.h"

#include <errno.h>
#include <string.h>

#include "core/base/file/gzip.h"
#include "core/base/util/error.h"

static int copy(Batch *batch, const ExportRequest *request) {
        batch->data = malloc(request->size ? request->size : 1);
        if (!batch->data)
                return error_origin(-ENOMEM);
        memcpy(batch->data, request->data, request->size);
        batch->size = request->size;
        return 0;
}

int batch_new(Batch **batchp, const ExportRequest *request, bool gzip, bool json) {
        _cleanup_(batch_freep) Batch *batch = calloc(1, sizeof(*batch));
        int r;

        if (!batch)
                return error_origin(-ENOMEM);
        r = gzip ? gzip_compress(request->data, request->size, &batch->data, &batch->size)
                 : copy(batch, request);
        if (r)
                return error_fold(r);
        batch->n_refs = 1;
        batch->gzip = gzip;
        batch->json = json;
        batch->n_events = request->n_events;
        batch->n_profiles = request->n_profiles;
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
