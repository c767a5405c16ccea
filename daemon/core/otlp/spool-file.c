/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Packs and unpacks one request with its header. The head is checked by its own sum before the size of the
 * request in it is believed.
 */

#include "core/otlp/spool-file.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "core/base/data/intern.h"
#include "core/base/file/zstd.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"

#define MAGIC "SPANSPL1"

/* As on disk; little endian, which every machine is that we run on. */
typedef struct RawHeader {
        char magic[8];
        uint32_t header_size, form;
        char schema[SPOOL_SCHEMA_ROOM];
        uint64_t n_events, n_profiles, time_ns, request_size, stored_size, stored_hash, header_hash;
} RawHeader;

_Static_assert(sizeof(RawHeader) == SPOOL_HEADER_SIZE, "the layout in spool-file.h");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "written as it lies in memory");

int spool_file_pack(const SpoolHeader *header, const void *request, size_t request_size, uint8_t **bytesp,
                    size_t *sizep) {
        _cleanup_(freep) uint8_t *stored = NULL, *bytes = NULL;
        RawHeader raw = {
                .magic = MAGIC,
                .header_size = sizeof(raw),
                .form = (uint32_t)header->form,
                .schema = SPOOL_SCHEMA,
                .n_events = header->n_events,
                .n_profiles = header->n_profiles,
                .time_ns = header->time_ns,
                .request_size = request_size,
        };
        size_t stored_size;
        int r = zstd_compress(request, request_size, &stored, &stored_size);

        if (r)
                return error_fold(r);
        raw.stored_size = stored_size;
        raw.stored_hash = hash_stable(stored, stored_size);
        raw.header_hash = hash_stable(&raw, offsetof(RawHeader, header_hash));
        bytes = malloc(sizeof(raw) + stored_size);
        if (!bytes)
                return error_origin(-ENOMEM);
        memcpy(bytes, &raw, sizeof(raw));
        memcpy(bytes + sizeof(raw), stored, stored_size);
        *sizep = sizeof(raw) + stored_size;
        *bytesp = take(bytes);
        return 0;
}

/* The sum shows that a file is whole, and not that its writer told the truth. */
static bool is_possible(const RawHeader *raw) {
        return (raw->form == SPOOL_PROTOBUF || raw->form == SPOOL_JSON) &&
                raw->request_size <= SPOOL_MAX_REQUEST && raw->n_profiles <= SPOOL_MAX_REQUEST &&
                raw->n_events <= SPOOL_MAX_EVENTS && raw->time_ns <= INT64_MAX;
}

static int read_raw(const void *bytes, size_t size, RawHeader *raw) {
        if (size < sizeof(*raw))
                return SPOOL_FILE_E_CORRUPT;
        memcpy(raw, bytes, sizeof(*raw));
        if (memcmp(raw->magic, MAGIC, sizeof(raw->magic)) || raw->header_size != sizeof(*raw) ||
            raw->header_hash != hash_stable(raw, offsetof(RawHeader, header_hash)))
                return SPOOL_FILE_E_CORRUPT;
        return is_possible(raw) ? 0 : SPOOL_FILE_E_CORRUPT;
}

int spool_file_head(const void *bytes, size_t size, SpoolHeader *headerp) {
        RawHeader raw;
        int r = read_raw(bytes, size, &raw);

        if (r)
                return r;
        *headerp = (SpoolHeader){
                .form = (SpoolForm)raw.form, .n_events = raw.n_events, .n_profiles = raw.n_profiles,
                .time_ns = raw.time_ns, .request_size = raw.request_size, .stored_size = raw.stored_size,
        };
        memcpy(headerp->schema, raw.schema, sizeof(raw.schema));
        headerp->schema[sizeof(raw.schema) - 1] = 0;
        return strncmp(raw.schema, SPOOL_SCHEMA, sizeof(raw.schema)) ? SPOOL_FILE_E_SCHEMA : 0;
}

int spool_file_unpack(const void *bytes, size_t size, SpoolHeader *headerp, uint8_t **requestp) {
        const uint8_t *stored = (const uint8_t *)bytes + sizeof(RawHeader);
        RawHeader raw;
        int r = read_raw(bytes, size, &raw);

        if (r)
                return r;
        if (size - sizeof(raw) != raw.stored_size || hash_stable(stored, raw.stored_size) != raw.stored_hash)
                return SPOOL_FILE_E_CORRUPT;
        r = spool_file_head(bytes, size, headerp);
        if (r)
                return r;
        r = zstd_expand(stored, raw.stored_size, raw.request_size, requestp);
        return r > 0 ? SPOOL_FILE_E_CORRUPT : r;
}
