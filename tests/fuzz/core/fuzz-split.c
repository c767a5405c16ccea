/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A request that somebody else chose, split: it is as before afterwards, each part can be decoded, and all
 * parts together have its resources and samples. Names become names of directories, which come back.
 */

#include <stdlib.h>
#include <string.h>

#include "core/otlp/decode.h"
#include "core/otlp/split.h"
#include "desk/receive/partition.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Counts {
        size_t n_resources, n_samples;
} Counts;

static void count(const OtlpRequest *request, Counts *counts) {
        counts->n_resources += request->n_resource_profiles;
        for (size_t i = 0; i < request->n_resource_profiles; i++)
                for (size_t j = 0; j < request->resource_profiles[i]->n_scope_profiles; j++) {
                        const OtlpScopeProfiles *scope = request->resource_profiles[i]->scope_profiles[j];

                        for (size_t k = 0; k < scope->n_profiles; k++)
                                counts->n_samples += scope->profiles[k]->n_samples;
                }
}

static uint8_t *pack(const OtlpRequest *request, size_t *sizep) {
        uint8_t *data = malloc(protobuf_c_message_get_packed_size(&request->base) + 1);

        *sizep = protobuf_c_message_pack(&request->base, data);
        return data;
}

static void check_name(const char *text) {
        char name[PARTITION_NAME_ROOM], back[PARTITION_NAME_ROOM];

        partition_name(name, text);
        if (!partition_is_name(name, 1) || strchr(name, '/') || strlen(name) >= PARTITION_NAME_ROOM)
                abort();
        if (!partition_parse_name(name, back) && (!text || strcmp(back, text)))
                abort();
}

static void check_part(const OtlpPart *part, Counts *counts) {
        char where[128], name[PARTITION_NAME_ROOM];
        OtlpRequest *request = NULL;
        uint32_t day;

        check_name(part->service);
        check_name(part->host);
        partition_day_name(name, part->day);
        if (!partition_is_name(name, 0) || (!partition_parse_day(name, &day) && day != part->day))
                abort();
        if (otlp_decode_request(part->data, part->size, &request, where, sizeof(where)))
                abort();
        count(request, counts);
        otlp_request_freep(&request);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        size_t before_size, after_size;
        Counts whole = { 0 }, split = { 0 };
        OtlpRequest *request = NULL;
        OtlpParts parts = { 0 };
        uint8_t *before, *after;
        char where[128];

        if (otlp_decode_request(data, size, &request, where, sizeof(where)))
                return 0;
        count(request, &whole);
        before = pack(request, &before_size);
        if (!otlp_split(request, size, &parts)) {
                for (size_t i = 0; i < parts.n; i++)
                        check_part(&parts.parts[i], &split);
                if (memcmp(&whole, &split, sizeof(whole)))
                        abort();
        }
        after = pack(request, &after_size);
        if (after_size != before_size || memcmp(before, after, after_size))
                abort();
        free(before);
        free(after);
        otlp_split_deinit(&parts);
        otlp_request_freep(&request);
        return 0;
}
