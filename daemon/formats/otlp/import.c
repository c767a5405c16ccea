/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Each row of a dictionary is converted when something first refers to it, and its index in the
 * window kept: rows may be referred to in any order, and what nobody uses may hold anything.
 */
#include "formats/otlp/import.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util/error.h"
#include "base/util/intern.h"
#include "base/util/macro.h"
#include "formats/convert/format.h"
#include "formats/otlp/import-table.h"

static int import_link(Import *import, int32_t index, uint32_t *linkp) {
        const OtlpDictionary *dictionary = import->dictionary;
        const OtlpLink *link;
        WindowLink row;
        int r;

        if (!index) {
                *linkp = 0;
                return 0;
        }
        r = import_check_index(import, "link_index", index, dictionary->n_link_table);
        if (r)
                return r;
        link = dictionary->link_table[index];
        if (link->trace_id.len != sizeof(row.trace_id) || link->span_id.len != sizeof(row.span_id))
                return import_fail(import, OTLP_IMPORT_E_SHAPE,
                                   "dictionary.link_table[%" PRId32 "]: ids of %zu and %zu bytes", index,
                                   link->trace_id.len, link->span_id.len);
        memcpy(row.trace_id, link->trace_id.data, sizeof(row.trace_id));
        memcpy(row.span_id, link->span_id.data, sizeof(row.span_id));
        return import_full(import, window_link(import->window, &row, linkp));
}

static int import_attributes(Import *import, const OtlpSample *sample, uint32_t *setp) {
        uint32_t set[WINDOW_MAX_SET];

        if (sample->n_attribute_indices > ARRAY_SIZE(set))
                return import_full(import, WINDOW_E_FULL);
        for (size_t i = 0; i < sample->n_attribute_indices; i++) {
                int r = import_attribute(import, sample->attribute_indices[i], &set[i]);

                if (r)
                        return r;
        }
        return import_full(import,
                           window_attribute_set(import->window, set, sample->n_attribute_indices, setp));
}

/* One value; times, each counting 1; or a value for each time. */
static int import_events(Import *import, const OtlpSample *sample, uint32_t profile, uint32_t stack,
                         uint32_t set, uint32_t link) {
        size_t n_values = sample->n_values, n_times = sample->n_timestamps_unix_nano;

        if (n_values == 1 && !n_times)
                return import_full(import, window_sample_untimed(import->window, profile, stack, set, link,
                                                                 sample->values[0]));
        if (!n_times || (n_values && n_values != n_times))
                return import_fail(import, OTLP_IMPORT_E_SHAPE, "%s: %zu values and %zu timestamps",
                                   import_path(import), n_values, n_times);
        for (size_t i = 0; i < n_times; i++) {
                int r = window_sample(import->window, profile, stack, set, link,
                                      n_values ? sample->values[i] : 1, sample->timestamps_unix_nano[i]);

                if (r)
                        return import_full(import, r);
        }
        return 0;
}

static int import_sample(Import *import, const OtlpSample *sample, uint32_t profile) {
        uint32_t stack, set, link;
        int r;

        r = import_stack(import, sample->stack_index, &stack);
        if (!r)
                r = import_attributes(import, sample, &set);
        if (!r)
                r = import_link(import, sample->link_index, &link);
        return r ? r : import_events(import, sample, profile, stack, set, link);
}

static int import_type(Import *import, const OtlpValueType *type, uint32_t *namep, uint32_t *unitp) {
        int r;

        *namep = *unitp = 0;
        if (!type)
                return 0;
        r = import_string(import, "type_strindex", type->type_strindex, namep);
        return r ? r : import_string(import, "unit_strindex", type->unit_strindex, unitp);
}

static int import_profile(Import *import, const OtlpProfile *profile, uint32_t resource) {
        uint32_t n = window_n_profiles(import->window), index;
        WindowProfileNames names;
        int r;

        r = import_type(import, profile->sample_type, &names.type, &names.unit);
        if (!r)
                r = import_type(import, profile->period_type, &names.period_type, &names.period_unit);
        if (!r)
                r = import_full(
                        import,
                        window_profile_named(import->window, resource, &names, profile->period, &index));
        if (r)
                return r;
        if (index == n && profile->profile_id.len == 16)
                window_set_profile_id(import->window, index, profile->profile_id.data);
        for (size_t i = 0; i < profile->n_samples; i++) {
                import->at.sample = (ssize_t)i;
                r = import_sample(import, profile->samples[i], index);
                if (r)
                        return r;
        }
        import->at.sample = -1;
        return 0;
}

/* Equal attributes make one resource. */
static uint64_t resource_key(const OtlpResource *resource, bool *failedp) {
        _cleanup_(freep) uint8_t *data = NULL;
        size_t size;

        if (!resource)
                return 0;
        size = protobuf_c_message_get_packed_size(&resource->base);
        data = malloc(size + 1);
        *failedp = !data;
        return data ? hash_bytes(data, protobuf_c_message_pack(&resource->base, data)) : 0;
}

static int import_resource(Import *import, const OtlpResource *resource, uint32_t *indexp) {
        uint32_t set[WINDOW_MAX_SET], n_before = window_n_resources(import->window);
        bool failed = false;
        int r;

        r = import_full(import, window_resource(import->window, resource_key(resource, &failed), indexp));
        if (failed)
                return error_origin(-ENOMEM);
        if (r || !resource || window_n_resources(import->window) == n_before)
                return r;
        if (resource->n_attributes > ARRAY_SIZE(set))
                return import_full(import, WINDOW_E_FULL);
        for (size_t i = 0; i < resource->n_attributes; i++) {
                r = import_key_value(import, resource->attributes[i], &set[i]);
                if (r)
                        return r;
        }
        return import_full(import,
                           window_resource_attributes(import->window, *indexp, set, resource->n_attributes));
}

static int import_resource_profiles(Import *import, const OtlpResourceProfiles *resource_profiles) {
        uint32_t resource;
        int r;

        r = import_resource(import, resource_profiles->resource, &resource);
        for (size_t i = 0; !r && i < resource_profiles->n_scope_profiles; i++) {
                const OtlpScopeProfiles *scope = resource_profiles->scope_profiles[i];

                for (size_t j = 0; !r && j < scope->n_profiles; j++) {
                        import->at.scope = (ssize_t)i;
                        import->at.profile = (ssize_t)j;
                        r = import_profile(import, scope->profiles[j], resource);
                }
                import->at.scope = import->at.profile = -1;
        }
        return r;
}

static int import_request(Window *window, const OtlpRequest *request, char *where, size_t where_size) {
        _cleanup_(import_deinit) Import import;
        int r;

        r = import_init(&import, window, request->dictionary, where, where_size);
        for (size_t i = 0; !r && i < request->n_resource_profiles; i++) {
                import.at.resource = (ssize_t)i;
                r = import_resource_profiles(&import, request->resource_profiles[i]);
        }
        return r;
}

static void widen(const OtlpResourceProfiles *resource, uint64_t *startp, uint64_t *endp) {
        for (size_t i = 0; i < resource->n_scope_profiles; i++) {
                for (size_t j = 0; j < resource->scope_profiles[i]->n_profiles; j++) {
                        const OtlpProfile *profile = resource->scope_profiles[i]->profiles[j];
                        uint64_t end_ns;

                        if (__builtin_add_overflow(profile->time_unix_nano, profile->duration_nano, &end_ns))
                                end_ns = UINT64_MAX;
                        *startp = MIN(*startp, profile->time_unix_nano);
                        *endp = MAX(*endp, end_ns);
                }
        }
}

int otlp_import_add(Window *window, const OtlpRequest *request, uint64_t *startp, uint64_t *endp, char *where,
                    size_t where_size) {
        if (where_size)
                where[0] = 0;
        *startp = UINT64_MAX;
        *endp = 0;
        for (size_t i = 0; i < request->n_resource_profiles; i++)
                widen(request->resource_profiles[i], startp, endp);
        return import_request(window, request, where, where_size);
}

int otlp_import(Window **windowp, const OtlpRequest *const *requests, size_t n_requests,
                const WindowLimits *limits, char *where, size_t where_size) {
        _cleanup_(window_freep) Window *window = NULL;
        uint64_t start_ns = UINT64_MAX, end_ns = 0;
        int r;

        if (where_size)
                where[0] = 0;
        for (size_t i = 0; i < n_requests; i++)
                for (size_t j = 0; j < requests[i]->n_resource_profiles; j++)
                        widen(requests[i]->resource_profiles[j], &start_ns, &end_ns);
        r = window_new(&window, MIN(start_ns, end_ns), 0, limits ? limits : &format_limits);
        for (size_t i = 0; !r && i < n_requests; i++)
                r = import_request(window, requests[i], where, where_size);
        if (!r)
                r = window_close(window, end_ns);
        if (r)
                return r;
        *windowp = take(window);
        return 0;
}
