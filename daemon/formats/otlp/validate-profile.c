/* SPDX-License-Identifier: Apache-2.0 */

/* Resources, scopes, profiles and samples. */

#include <string.h>

#include "formats/otlp/check.h"

/* What of each event a sample tells; all samples of a profile tell the same. */
typedef enum SampleShape {
        SAMPLE_TIMES = 1 << 0,
        SAMPLE_VALUE = 1 << 1,
        SAMPLE_BOTH = 1 << 2,
        SAMPLE_BAD = 1 << 3,
} SampleShape;

/* How the known types must come, so that every reader of today takes them. */
typedef struct KnownType {
        const char *type, *unit, *period_type, *period_unit;
        bool has_period;                /* else the period is 0: each event has its own duration */
        int shapes;
} KnownType;

static const KnownType known_types[] = {
        { "samples", "count", "cpu", "nanoseconds", true, SAMPLE_TIMES | SAMPLE_VALUE },
        { "off_cpu", "nanoseconds", "off_cpu", "nanoseconds", false, SAMPLE_BOTH | SAMPLE_VALUE },
        { "wall", "nanoseconds", "wall", "nanoseconds", true, SAMPLE_VALUE },
        { "wall", "count", "wall", "nanoseconds", true, SAMPLE_TIMES | SAMPLE_VALUE | SAMPLE_BOTH },
        { "lock_contention", "nanoseconds", "lock_contention", "nanoseconds", false, SAMPLE_VALUE },
        { "alloc_space", "bytes", "space", "bytes", true, SAMPLE_VALUE },
        { "alloc_objects", "count", "space", "bytes", true, SAMPLE_VALUE },
        { "suspended", "nanoseconds", "suspended", "nanoseconds", false, SAMPLE_BOTH | SAMPLE_VALUE },
};

typedef struct TypeNames {
        const char *type, *unit;
} TypeNames;

static TypeNames check_type(Check *check, const Place *place, const char *field, const OtlpValueType *type) {
        Place here = { place, field, -1 };
        TypeNames names = { "", "" };

        if (!type) {
                check_error(check, &here, NULL, VALIDATE_PRESENT, "is missing");
                return names;
        }
        names.type = check_string(check, &here, "type_strindex", type->type_strindex);
        names.unit = check_string(check, &here, "unit_strindex", type->unit_strindex);
        if (!*names.type || !*names.unit)
                check_error(check, &here, NULL, VALIDATE_PRESENT, "has no %s", *names.type ? "unit" : "name");
        return names;
}

/* Stack, link, and the set of attributes: in order, each once. */
static void check_identity(Check *check, const Place *here, const OtlpSample *sample) {
        size_t n = sample->n_attribute_indices, n_key = 2;
        int32_t *key = (int32_t *)(void *)check_reserve(check, (n + 2) * sizeof(*key));
        ssize_t twin;

        if (!key)
                return;
        key[0] = sample->stack_index;
        key[1] = sample->link_index;
        if (n)
                memcpy(key + 2, sample->attribute_indices, n * sizeof(*key));
        qsort(key + 2, n, sizeof(*key), check_by_index);
        for (size_t i = 0; i < n; i++)
                if (!i || key[2 + i] != key[n_key - 1])
                        key[n_key++] = key[2 + i];
        twin = check_seen(check, &check->identities, key, n_key * sizeof(*key));
        if (twin >= 0)
                check_error(check, here, NULL, VALIDATE_TYPES,
                            "has the stack, link and attributes of an earlier sample");
}

static void check_times(Check *check, const Place *here, const OtlpSample *sample,
                        const OtlpProfile *profile) {
        for (size_t i = 0; i < sample->n_timestamps_unix_nano; i++) {
                uint64_t time = sample->timestamps_unix_nano[i];

                if (time < profile->time_unix_nano ||
                    time - profile->time_unix_nano >= profile->duration_nano)
                        check_error(check, &(Place){ here, "timestamps_unix_nano", (ssize_t)i }, NULL,
                                    VALIDATE_RANGE, "%llu is outside [%llu, + %llu)",
                                    (unsigned long long)time, (unsigned long long)profile->time_unix_nano,
                                    (unsigned long long)profile->duration_nano);
        }
}

static SampleShape shape_of(const OtlpSample *sample) {
        if (sample->n_timestamps_unix_nano && !sample->n_values)
                return SAMPLE_TIMES;
        if (sample->n_values == 1 && !sample->n_timestamps_unix_nano)
                return SAMPLE_VALUE;
        return sample->n_values && sample->n_values == sample->n_timestamps_unix_nano ? SAMPLE_BOTH
                                                                                      : SAMPLE_BAD;
}

static SampleShape check_sample(Check *check, const Place *here, const OtlpSample *sample,
                                const OtlpProfile *profile) {
        SampleShape shape = shape_of(sample);

        check_use(check, here, "stack_index", CHECK_STACKS, sample->stack_index);
        check_use(check, here, "link_index", CHECK_LINKS, sample->link_index);
        check_attribute_indices(check, here, sample->attribute_indices, sample->n_attribute_indices);
        if (shape == SAMPLE_BAD)
                check_error(check, here, NULL, VALIDATE_SHAPE, "%zu values and %zu timestamps",
                            sample->n_values, sample->n_timestamps_unix_nano);
        check_times(check, here, sample, profile);
        check_identity(check, here, sample);
        return shape;
}

static int check_samples(Check *check, const Place *here, const OtlpProfile *profile) {
        int shapes = 0;

        check_forget(&check->identities);
        for (size_t i = 0; i < profile->n_samples && !check->failed; i++) {
                Place item = { here, "samples", (ssize_t)i };
                int shape = (int)check_sample(check, &item, profile->samples[i], profile);

                if (shapes && !(shapes & shape) && shape != SAMPLE_BAD && shapes != SAMPLE_BAD)
                        check_error(check, &item, NULL, VALIDATE_SHAPE,
                                    "another shape than the samples before it");
                shapes |= shape;
        }
        return shapes;
}

static void check_known(Check *check, const Place *here, const OtlpProfile *profile, TypeNames type,
                        TypeNames period, int shapes) {
        for (size_t i = 0; i < ARRAY_SIZE(known_types); i++) {
                const KnownType *known = &known_types[i];

                if (strcmp(known->type, type.type) || strcmp(known->unit, type.unit))
                        continue;
                if (strcmp(known->period_type, period.type) || strcmp(known->period_unit, period.unit))
                        check_warning(check, here, "period_type", VALIDATE_TYPE, "%.60s/%.60s, not %s/%s",
                                      period.type, period.unit, known->period_type, known->period_unit);
                if (profile->period < 0 || (profile->period > 0) != known->has_period)
                        check_warning(check, here, "period", VALIDATE_TYPE, "%lld of %s/%s; %s",
                                      (long long)profile->period, type.type, type.unit,
                                      known->has_period ? "it must be set" : "it must be 0");
                if (shapes & ~known->shapes & ~SAMPLE_BAD)
                        check_warning(check, here, "samples", VALIDATE_TYPE,
                                      "%s/%s in a shape that some readers refuse", type.type, type.unit);
        }
}

/*
 * One reader takes a hyphen in the name of a type for an operator of its query language, and refuses the
 * profile.
 */
static void check_type_name(Check *check, const Place *here, TypeNames type) {
        if (strchr(type.type, '-'))
                check_warning(check, here, "sample_type", VALIDATE_TYPE,
                              "a hyphen in %.60s, which some readers refuse", type.type);
}

static void check_profile_id(Check *check, const Place *here, const ProtobufCBinaryData *id) {
        static const uint8_t zero[16];

        if (id->len != 16)
                check_error(check, here, "profile_id", VALIDATE_ID, "%zu bytes, not 16", id->len);
        else if (!memcmp(id->data, zero, 16))
                check_error(check, here, "profile_id", VALIDATE_ID, "is zero");
        else if (check_seen(check, &check->profile_ids, id->data, 16) >= 0)
                check_error(check, here, "profile_id", VALIDATE_ID, "is that of an earlier profile");
}

static void check_one_of_a_type(Check *check, const Place *here, TypeNames names) {
        size_t n = strlen(names.type) + 1, m = strlen(names.unit) + 1;
        uint8_t *key = check_reserve(check, n + m);

        if (!key || (n == 1 && m == 1))
                return;
        memcpy(key, names.type, n);
        memcpy(key + n, names.unit, m);
        if (check_seen(check, &check->types, key, n + m) >= 0)
                check_error(check, here, NULL, VALIDATE_TYPES,
                            "the resource has a profile of type %.60s/%.60s already", names.type, names.unit);
}

static void check_profile(Check *check, const Place *here, const OtlpProfile *profile) {
        TypeNames type = check_type(check, here, "sample_type", profile->sample_type);
        TypeNames period = check_type(check, here, "period_type", profile->period_type);
        int shapes;

        check_attribute_indices(check, here, profile->attribute_indices, profile->n_attribute_indices);
        check_utf8(check, here, "original_payload_format", profile->original_payload_format);
        if (!profile->time_unix_nano)
                check_error(check, here, "time_unix_nano", VALIDATE_RANGE, "is not set");
        if (!profile->duration_nano)
                check_error(check, here, "duration_nano", VALIDATE_RANGE, "is not set");
        check_profile_id(check, here, &profile->profile_id);
        check_one_of_a_type(check, here, type);
        if (!profile->n_samples)
                check_error(check, here, NULL, VALIDATE_PRESENT, "no samples");
        shapes = check_samples(check, here, profile);
        check_known(check, here, profile, type, period, shapes);
        check_type_name(check, here, type);
}

static void check_scope(Check *check, const Place *here, const OtlpScopeProfiles *scope) {
        if (!scope->scope) {
                check_error(check, here, "scope", VALIDATE_PRESENT, "is missing");
        } else {
                check_utf8(check, here, "scope.name", scope->scope->name);
                check_utf8(check, here, "scope.version", scope->scope->version);
                check_key_values(check, &(Place){ here, "scope.attributes", -1 }, scope->scope->attributes,
                                 scope->scope->n_attributes);
        }
        check_utf8(check, here, "schema_url", scope->schema_url);
        if (!scope->n_profiles)
                check_error(check, here, NULL, VALIDATE_PRESENT, "no profiles");
        for (size_t i = 0; i < scope->n_profiles && !check->failed; i++)
                check_profile(check, &(Place){ here, "profiles", (ssize_t)i }, scope->profiles[i]);
}

static void check_service(Check *check, const Place *here, const OtlpResource *resource) {
        for (size_t i = 0; i < resource->n_attributes; i++)
                if (!strcmp(resource->attributes[i]->key, "service.name"))
                        return;
        check_warning(check, here, "resource", VALIDATE_PRESENT, "no service.name");
}

static void check_resource(Check *check, const Place *here, const OtlpResourceProfiles *node) {
        size_t size;

        if (!node->resource) {
                check_error(check, here, "resource", VALIDATE_PRESENT, "is missing");
        } else {
                check_key_values(check, &(Place){ here, "resource.attributes", -1 },
                                 node->resource->attributes, node->resource->n_attributes);
                check_service(check, here, node->resource);
                size = check_pack(check, node->resource);
                if (check_seen(check, &check->resources, check->bytes, size) >= 0)
                        check_error(check, here, "resource", VALIDATE_TYPES,
                                    "is equal to an earlier resource");
        }
        check_utf8(check, here, "schema_url", node->schema_url);
        if (!node->n_scope_profiles)
                check_error(check, here, NULL, VALIDATE_PRESENT, "no scope_profiles");
        check_forget(&check->types);
        for (size_t i = 0; i < node->n_scope_profiles && !check->failed; i++)
                check_scope(check, &(Place){ here, "scope_profiles", (ssize_t)i }, node->scope_profiles[i]);
}

void check_profiles(Check *check, const OtlpRequest *request) {
        if (!request->n_resource_profiles)
                check_error(check, NULL, NULL, VALIDATE_PRESENT, "no resource_profiles");
        for (size_t i = 0; i < request->n_resource_profiles && !check->failed; i++)
                check_resource(check, &(Place){ NULL, "resource_profiles", (ssize_t)i },
                               request->resource_profiles[i]);
}
