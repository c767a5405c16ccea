/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Chooses the shape of the window by the receiver, then encodes it.
 */

#include "core/otlp/payload.h"

#include "core/base/util/error.h"

int otlp_payload_encode(const OtlpPayload *payload, const Window *window, OtlpSink sink, void *userdata,
                        uint64_t *n_lostp) {
        _cleanup_(window_freep) Window *shaped = NULL;
        ReshapeLost lost = { 0 };
        uint64_t n_lost = 0;
        int r = 0;

        if (reshape_is_needed(&payload->reshape))
                r = window_reshape(&shaped, window, &payload->reshape, &lost);
        if (r)
                return error_fold(r);
        r = otlp_encode(shaped ? shaped : window, &payload->encoding, sink, userdata, &n_lost);
        if (r)
                return r;
        *n_lostp = n_lost + (payload->encoding.count_cpu ? lost.n_cpu : lost.n_events);
        return 0;
}
