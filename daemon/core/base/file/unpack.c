/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Chooses a method by the first bytes and turns its steps into pieces for a sink. A step at the border
 * between two members may begin another one.
 */

#include "core/base/file/unpack.h"

#include <errno.h>
#include <string.h>

#include "core/base/util/error.h"

struct Unpack {
        const UnpackMethod *method;     /* NULL = not packed */
        void *state;
        bool at_border;
        uint8_t out[UNPACK_PIECE];
};

static const UnpackMethod *find_method(const uint8_t *data, size_t size) {
        static const UnpackMethod *const methods[] = { &unpack_gzip, &unpack_zstd, &unpack_lz4, &unpack_xz };

        for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
                if (size >= methods[i]->n_magic && !memcmp(data, methods[i]->magic, methods[i]->n_magic))
                        return methods[i];
        return NULL;
}

bool unpack_is_packed(const uint8_t *data, size_t size) {
        return find_method(data, size);
}

int unpack_new(Unpack **unpackp, const uint8_t *data, size_t size) {
        _cleanup_(unpack_freep) Unpack *unpack = calloc(1, sizeof(*unpack));

        if (!unpack)
                return error_origin(-ENOMEM);
        unpack->method = find_method(data, size);
        unpack->at_border = true;
        if (unpack->method) {
                unpack->state = unpack->method->start();
                if (!unpack->state)
                        return error_origin(-ENOMEM);
        }
        *unpackp = take(unpack);
        return 0;
}

Unpack *unpack_free(Unpack *unpack) {
        if (!unpack)
                return NULL;
        if (unpack->state)
                unpack->method->stop(unpack->state);
        free(unpack);
        return NULL;
}

const char *unpack_name(const Unpack *unpack) {
        return unpack->method ? unpack->method->name : "plain bytes";
}

static int feed_plain(const uint8_t *data, size_t size, UnpackSink sink, void *userdata) {
        for (size_t n; size; data += n, size -= n) {
                int r;

                n = MIN(size, (size_t)UNPACK_PIECE);
                r = sink(data, n, userdata);
                if (r)
                        return r;
        }
        return 0;
}

int unpack_feed(Unpack *unpack, const uint8_t *data, size_t size, UnpackSink sink, void *userdata) {
        size_t n_out = sizeof(unpack->out);

        if (!unpack->method)
                return feed_plain(data, size, sink, userdata);
        /* A full piece of output means that there may be more without any input. */
        while (size || n_out == sizeof(unpack->out)) {
                size_t before = size;
                int r, q;

                n_out = sizeof(unpack->out);
                r = unpack->method->step(unpack->state, &data, &size, unpack->out, &n_out,
                                         &unpack->at_border);
                q = n_out ? sink(unpack->out, n_out, userdata) : 0;
                if (r || q)
                        return q ? q : r;
                if (size == before && !n_out)
                        return size ? UNPACK_E_MALFORMED : 0;
        }
        return 0;
}

int unpack_end(const Unpack *unpack) {
        return unpack->at_border ? 0 : UNPACK_E_MALFORMED;
}
