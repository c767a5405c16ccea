/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Walks over the tables of the dictionary, then over resources, scopes, profiles and samples, and holds
 * each element against its rules; at last it looks for rows that nothing uses.
 */

#include "core/otlp/validate.h"

#include <errno.h>
#include <string.h>

#include "core/base/util/error.h"
#include "core/base/util/text.h"
#include "core/otlp/check.h"
#include "core/otlp/decode.h"
#include "core/otlp/message-field.h"
#include "core/otlp/validate-for.h"

enum { MAX_REQUEST_BYTES = 4 << 20 };

const char *validate_rule_name(ValidateRule rule) {
        static const char *const names[] = {
#define X(name, text, what) text,
                VALIDATE_RULES(X)
#undef X
        };

        return names[rule];
}

/* The dictionary: what every row of a table must be. */

#define BUILD_ID "process.executable.build_id."

static void check_key_values(Check *check, const Place *place, OtlpKeyValue *const *pairs, size_t n);

static void check_value(Check *check, const Place *place, const OtlpAnyValue *value) {
        if (!value || !value->value_case) {
                check_error(check, place, NULL, VALIDATE_KEYS, "has no value");
                return;
        }
        switch (value->value_case) {
        case OTLP_ANY_STRING:
                check_utf8(check, place, NULL, value->string_value);
                break;
        case OTLP_ANY_STRINDEX:
                check_error(check, place, NULL, VALIDATE_STRINDEX, "value is a string index");
                check_string(check, place, "string_value_strindex", value->string_value_strindex);
                break;
        case OTLP_ANY_ARRAY:
                for (size_t i = 0; i < value->array_value->n_values; i++)
                        check_value(check, &(Place){ place, "array_value.values", (ssize_t)i },
                                    value->array_value->values[i]);
                break;
        case OTLP_ANY_KVLIST:
                check_key_values(check, &(Place){ place, "kvlist_value.values", -1 },
                                 value->kvlist_value->values, value->kvlist_value->n_values);
                break;
        default:
                break;
        }
}

/* The keys of one list are compared among themselves: they are few, and with more the first 200 must do. */
static bool key_is_there(OtlpKeyValue *const *pairs, size_t n, const char *key) {
        for (size_t i = 0; i < n; i++)
                if (!pairs[i]->key_strindex && !strcmp(pairs[i]->key, key))
                        return true;
        return false;
}

/* @place: the list; its index is set here. */
static void check_key_values(Check *check, const Place *place, OtlpKeyValue *const *pairs, size_t n) {
        Place here = *place;

        for (size_t i = 0; i < n; i++) {
                here.index = (ssize_t)i;
                check_utf8(check, &here, "key", pairs[i]->key);
                if (pairs[i]->key_strindex) {
                        check_error(check, &here, NULL, VALIDATE_STRINDEX, "key is a string index");
                        check_string(check, &here, "key_strindex", pairs[i]->key_strindex);
                } else if (!*pairs[i]->key) {
                        check_error(check, &here, NULL, VALIDATE_KEYS, "has no key");
                } else if (key_is_there(pairs, MIN(i, (size_t)200), pairs[i]->key)) {
                        check_error(check, &here, NULL, VALIDATE_KEYS, "%.100s twice", pairs[i]->key);
                }
                check_value(check, &(Place){ &here, "value", -1 }, pairs[i]->value);
        }
}

/* Finds a key that some of @indices have twice. A handful is compared with each other, more are sorted. */
static int32_t find_twin(Check *check, const int32_t *indices, size_t n) {
        const CheckRows *rows = &check->tables[CHECK_ATTRIBUTES];
        int32_t *keys = (int32_t *)(void *)check_reserve(check, n * sizeof(*keys));
        size_t n_keys = 0;

        for (size_t i = 0; keys && i < n; i++)
                if (indices[i] > 0 && (size_t)indices[i] < rows->n)
                        keys[n_keys++] = ((const OtlpAttribute *)rows->rows[indices[i]])->key_strindex;
        if (n_keys > 16)
                qsort(keys, n_keys, sizeof(*keys), check_by_index);
        for (size_t i = 1; i < n_keys; i++)
                for (size_t j = n_keys > 16 ? i - 1 : 0; j < i; j++)
                        if (keys[i] == keys[j])
                                return keys[i];
        return -1;
}

static void check_attribute_indices(Check *check, const Place *place, const int32_t *indices, size_t n) {
        Place here = { place, "attribute_indices", -1 };
        int32_t twin;

        for (size_t i = 0; i < n; i++) {
                here.index = (ssize_t)i;
                if (!indices[i])
                        check_error(check, &here, NULL, VALIDATE_INDEX, "attribute 0 is no attribute");
                else
                        check_use(check, &here, NULL, CHECK_ATTRIBUTES, indices[i]);
        }
        twin = n > 1 ? find_twin(check, indices, n) : -1;
        if (twin >= 0)
                check_error(check, place, "attribute_indices", VALIDATE_KEYS, "%.100s twice",
                            check_string(check, place, NULL, twin));
}

static void check_attribute(Check *check, const Place *here, const OtlpAttribute *row) {
        const char *key = check_string(check, here, "key_strindex", row->key_strindex);

        if (!*key)
                check_error(check, here, NULL, VALIDATE_KEYS, "has no key");
        check_string(check, here, "unit_strindex", row->unit_strindex);
        check_value(check, &(Place){ here, "value", -1 }, row->value);
}

static void check_function(Check *check, const Place *here, const OtlpFunction *row) {
        check_string(check, here, "name_strindex", row->name_strindex);
        check_string(check, here, "system_name_strindex", row->system_name_strindex);
        check_string(check, here, "filename_strindex", row->filename_strindex);
        if (row->start_line < 0)
                check_error(check, here, "start_line", VALIDATE_MAPPING, "%lld", (long long)row->start_line);
}

static bool is_zero(const ProtobufCBinaryData *id) {
        for (size_t i = 0; i < id->len; i++)
                if (id->data[i])
                        return false;
        return true;
}

static void check_id(Check *check, const Place *here, const char *field, const ProtobufCBinaryData *id,
                     size_t size) {
        if (id->len != size)
                check_error(check, here, field, VALIDATE_ID, "%zu bytes, not %zu", id->len, size);
        else if (is_zero(id))
                check_error(check, here, field, VALIDATE_ID, "is zero; index 0 means no link");
}

static void check_link(Check *check, const Place *here, const OtlpLink *row) {
        check_id(check, here, "trace_id", &row->trace_id, 16);
        check_id(check, here, "span_id", &row->span_id, 8);
}

static void check_stack(Check *check, const Place *here, const OtlpStack *row) {
        for (size_t i = 0; i < row->n_location_indices; i++) {
                Place item = { here, "location_indices", (ssize_t)i };

                if (!row->location_indices[i])
                        check_error(check, &item, NULL, VALIDATE_INDEX, "location 0 is no location");
                else
                        check_use(check, &item, NULL, CHECK_LOCATIONS, row->location_indices[i]);
        }
}

static bool is_build_id(Check *check, int32_t index) {
        const CheckRows *rows = &check->tables[CHECK_ATTRIBUTES], *strings = &check->tables[CHECK_STRINGS];
        const OtlpAttribute *row;

        if (index <= 0 || (size_t)index >= rows->n)
                return false;
        row = rows->rows[index];
        if (row->key_strindex < 0 || (size_t)row->key_strindex >= strings->n)
                return false;
        return !strncmp(strings->rows[row->key_strindex], BUILD_ID, strlen(BUILD_ID)) && row->value &&
               row->value->value_case == OTLP_ANY_STRING && *row->value->string_value;
}

static void check_mapping(Check *check, const Place *here, const OtlpMapping *row) {
        bool identified = false;

        if (row->memory_start >= row->memory_limit && (row->memory_start || row->memory_limit))
                check_error(check, here, "memory_limit", VALIDATE_MAPPING, "0x%lx, and memory_start is 0x%lx",
                            (unsigned long)row->memory_limit, (unsigned long)row->memory_start);
        check_string(check, here, "filename_strindex", row->filename_strindex);
        check_attribute_indices(check, here, row->attribute_indices, row->n_attribute_indices);
        for (size_t i = 0; i < row->n_attribute_indices; i++)
                identified |= is_build_id(check, row->attribute_indices[i]);
        if (!identified)
                check_error(check, here, NULL, VALIDATE_MAPPING, "no build id (" BUILD_ID "*, as a string)");
}

static void check_location(Check *check, const Place *here, const OtlpLocation *row) {
        const OtlpMapping *mapping = check_use(check, here, "mapping_index", CHECK_MAPPINGS,
                                               row->mapping_index);

        check_attribute_indices(check, here, row->attribute_indices, row->n_attribute_indices);
        if (mapping && row->mapping_index && mapping->memory_limit &&
            (row->address < mapping->memory_start || row->address >= mapping->memory_limit))
                check_error(check, here, "address", VALIDATE_MAPPING,
                            "0x%lx is outside its mapping, 0x%lx to 0x%lx", (unsigned long)row->address,
                            (unsigned long)mapping->memory_start, (unsigned long)mapping->memory_limit);
        for (size_t i = 0; i < row->n_lines; i++) {
                Place item = { here, "lines", (ssize_t)i };

                check_use(check, &item, "function_index", CHECK_FUNCTIONS, row->lines[i]->function_index);
                if (row->lines[i]->line < 0 || row->lines[i]->column < 0)
                        check_error(check, &item, NULL, VALIDATE_MAPPING, "negative line or column");
        }
}

static void check_row(Check *check, CheckTable table, const Place *here, const void *row) {
        switch (table) {
        case CHECK_MAPPINGS:
                check_mapping(check, here, row);
                break;
        case CHECK_LOCATIONS:
                check_location(check, here, row);
                break;
        case CHECK_FUNCTIONS:
                check_function(check, here, row);
                break;
        case CHECK_LINKS:
                check_link(check, here, row);
                break;
        case CHECK_ATTRIBUTES:
                check_attribute(check, here, row);
                break;
        case CHECK_STACKS:
                check_stack(check, here, row);
                break;
        default:
                check_utf8(check, here, NULL, row);
        }
}

static size_t row_bytes(Check *check, CheckTable table, const void *row, const void **bytesp) {
        size_t size = table == CHECK_STRINGS ? strlen(row) : check_pack(check, row);

        *bytesp = table == CHECK_STRINGS ? row : check->bytes;
        return size;
}

static void check_table(Check *check, CheckTable table) {
        const CheckRows *rows = &check->tables[table];
        Place dictionary = { NULL, "dictionary", -1 };

        check_forget(&check->rows);
        if (!rows->n)
                check_error(check, &dictionary, rows->name, VALIDATE_TABLES, "is missing");
        for (size_t i = 0; i < rows->n && !check->failed; i++) {
                Place here = { &dictionary, rows->name, (ssize_t)i };
                const void *bytes;
                size_t size = row_bytes(check, table, rows->rows[i], &bytes);
                ssize_t twin = check_seen(check, &check->rows, bytes ? bytes : "", size);

                if (!i && size)
                        check_error(check, &here, NULL, VALIDATE_TABLES, "is not empty");
                if (twin >= 0)
                        check_error(check, &here, NULL, VALIDATE_DOUBLE, "is equal to an earlier row");
                if (i)
                        check_row(check, table, &here, rows->rows[i]);
        }
}

static void check_tables(Check *check) {
        for (CheckTable table = 0; table < CHECK_N_TABLES; table++)
                check_table(check, table);
}

/* A row counts as used also if what uses it is an orphan, which is a finding itself. */
static void check_orphans(Check *check) {
        Place dictionary = { NULL, "dictionary", -1 };

        for (CheckTable table = 0; table < CHECK_N_TABLES; table++) {
                const CheckRows *rows = &check->tables[table];

                for (size_t i = 1; i < rows->n; i++)
                        if (!rows->used[i])
                                check_error(check, &(Place){ &dictionary, rows->name, (ssize_t)i }, NULL,
                                            VALIDATE_ORPHAN, "nothing refers to it");
        }
}

/* Resources, scopes, profiles and samples. */

/* Form in which a sample tells its events; all samples of a profile have the same. */
typedef enum SampleShape {
        SAMPLE_TIMES = 1 << 0,
        SAMPLE_VALUE = 1 << 1,
        SAMPLE_BOTH = 1 << 2,
        SAMPLE_BAD = 1 << 3,
} SampleShape;

/* How the known types must come, so that every reader of today takes them. */
typedef struct KnownType {
        const char *type, *unit, *period_type, *period_unit;
        /*
         * the period is not 0; else it is 0, or 1 for readers that need one: each event has its own duration
         */
        bool has_period;
        int shapes;
} KnownType;

static const KnownType known_types[] = {
        { "samples", "count", "cpu", "nanoseconds", true, SAMPLE_TIMES | SAMPLE_VALUE },
        { "off_cpu", "nanoseconds", "off_cpu", "nanoseconds", false, SAMPLE_BOTH | SAMPLE_VALUE },
        { "off_cpu_waker", "nanoseconds", "off_cpu_waker", "nanoseconds", false, SAMPLE_BOTH | SAMPLE_VALUE },
        { "wall", "nanoseconds", "wall", "nanoseconds", true, SAMPLE_VALUE },
        { "wall", "count", "wall", "nanoseconds", true, SAMPLE_TIMES | SAMPLE_VALUE | SAMPLE_BOTH },
        { "lock_contention", "nanoseconds", "lock_contention", "nanoseconds", false, SAMPLE_VALUE },
        { "alloc_space", "bytes", "space", "bytes", true, SAMPLE_VALUE },
        { "alloc_objects", "count", "space", "bytes", true, SAMPLE_VALUE },
        { "inuse_space", "bytes", "space", "bytes", true, SAMPLE_VALUE },
        { "goroutines", "count", "wall", "nanoseconds", true, SAMPLE_VALUE },
        { "page_faults", "count", "page_faults", "count", true, SAMPLE_VALUE },
        { "crashes", "count", "crashes", "count", true, SAMPLE_TIMES | SAMPLE_VALUE },
        { "suspended", "nanoseconds", "suspended", "nanoseconds", false, SAMPLE_BOTH | SAMPLE_VALUE },
};

typedef struct TypeNames {
        const char *type, *unit;
} TypeNames;

/* A type without name and unit is as good as none, which the protocol allows of a period alone. */
static TypeNames check_type(Check *check, const Place *place, const char *field, const OtlpValueType *type,
                            bool may_lack) {
        Place here = { place, field, -1 };
        TypeNames names = { "", "" };

        if (!type || (may_lack && !type->type_strindex && !type->unit_strindex)) {
                if (may_lack)
                        check_warning(check, &here, NULL, VALIDATE_PRESENT, "is missing");
                else
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
                if (profile->period < 0 || (known->has_period ? !profile->period : profile->period > 1))
                        check_warning(check, here, "period", VALIDATE_TYPE, "%lld of %s/%s; %s",
                                      (long long)profile->period, type.type, type.unit,
                                      known->has_period ? "it must be set" : "it must be 0 or 1");
                if (shapes & ~known->shapes & ~SAMPLE_BAD)
                        check_warning(check, here, "samples", VALIDATE_TYPE,
                                      "%s/%s in a shape that some readers refuse", type.type, type.unit);
        }
}

/* A hyphen in the name of a type is an operator in one reader's query language: it refuses the profile. */
static void check_type_name(Check *check, const Place *here, TypeNames type) {
        if (strchr(type.type, '-'))
                check_warning(check, here, "sample_type", VALIDATE_TYPE,
                              "a hyphen in %.60s, which some readers refuse", type.type);
}

static void check_profile_id(Check *check, const Place *here, const ProtobufCBinaryData *id) {
        static const uint8_t zero[16];

        if (!id->len)
                check_warning(check, here, "profile_id", VALIDATE_ID, "is missing: doubles cannot be told");
        else if (id->len != 16)
                check_error(check, here, "profile_id", VALIDATE_ID, "%zu bytes, not 16", id->len);
        else if (!memcmp(id->data, zero, 16))
                check_error(check, here, "profile_id", VALIDATE_ID, "is zero");
        else if (check_seen(check, &check->profile_ids, id->data, 16) >= 0)
                check_error(check, here, "profile_id", VALIDATE_ID, "is that of an earlier profile");
}

/* Two rates at which a resource was sampled have a profile each. */
static void check_one_of_a_type(Check *check, const Place *here, TypeNames names, int64_t period) {
        size_t n = strlen(names.type) + 1, m = strlen(names.unit) + 1;
        size_t size = n + m + sizeof(period);
        uint8_t *key = check_reserve(check, size);

        if (!key || (n == 1 && m == 1))
                return;
        memcpy(key, names.type, n);
        memcpy(key + n, names.unit, m);
        memcpy(key + n + m, &period, sizeof(period));
        if (check_seen(check, &check->types, key, size) >= 0)
                check_error(check, here, NULL, VALIDATE_TYPES,
                            "the resource has a profile of type %.60s/%.60s and this period already", names.type,
                            names.unit);
}

static void check_profile(Check *check, const Place *here, const OtlpProfile *profile) {
        TypeNames type = check_type(check, here, "sample_type", profile->sample_type, false);
        TypeNames period = check_type(check, here, "period_type", profile->period_type, true);
        int shapes;

        check_attribute_indices(check, here, profile->attribute_indices, profile->n_attribute_indices);
        check_utf8(check, here, "original_payload_format", profile->original_payload_format);
        if (!profile->time_unix_nano)
                check_error(check, here, "time_unix_nano", VALIDATE_RANGE, "is not set");
        if (!profile->duration_nano)
                check_error(check, here, "duration_nano", VALIDATE_RANGE, "is not set");
        check_profile_id(check, here, &profile->profile_id);
        check_one_of_a_type(check, here, type, profile->period);
        if (!profile->n_samples)
                check_error(check, here, NULL, VALIDATE_PRESENT, "no samples");
        shapes = check_samples(check, here, profile);
        check_known(check, here, profile, type, period, shapes);
        check_type_name(check, here, type);
        check_profile_for(check, here, profile);
}

static void check_scope(Check *check, const Place *here, const OtlpScopeProfiles *scope) {
        if (!scope->scope) {
                check_warning(check, here, "scope", VALIDATE_PRESENT, "is missing");
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
                check_warning(check, here, "resource", VALIDATE_PRESENT, "is missing");
        } else {
                check_key_values(check, &(Place){ here, "resource.attributes", -1 },
                                 node->resource->attributes, node->resource->n_attributes);
                check_service(check, here, node->resource);
                check_resource_for(check, here, node->resource);
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

static void check_profiles(Check *check, const OtlpRequest *request) {
        if (!request->n_resource_profiles)
                check_error(check, NULL, NULL, VALIDATE_PRESENT, "no resource_profiles");
        for (size_t i = 0; i < request->n_resource_profiles && !check->failed; i++)
                check_resource(check, &(Place){ NULL, "resource_profiles", (ssize_t)i },
                               request->resource_profiles[i]);
}

/* The whole request. */

static void check_unknown(Check *check, const Place *place, const ProtobufCMessage *message);

static void check_unknown_below(Check *check, const Place *up, const ProtobufCMessage *message,
                                const ProtobufCFieldDescriptor *field) {
        void *at = field_place(message, field);
        ProtobufCMessage **list;

        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
                list = *(ProtobufCMessage ***)at;
                for (size_t i = 0; i < *field_count(message, field); i++)
                        check_unknown(check, &(Place){ up, field->name, (ssize_t)i }, list[i]);
                return;
        }
        if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF && *field_case(message, field) != field->id)
                return;
        if (*(ProtobufCMessage **)at)
                check_unknown(check, &(Place){ up, field->name, -1 }, *(ProtobufCMessage **)at);
}

/* Fields that this version of the protocol does not have, in any message. */
static void check_unknown(Check *check, const Place *place, const ProtobufCMessage *message) {
        if (message->n_unknown_fields)
                check_warning(check, place, NULL, VALIDATE_WIRE, "unknown field %u",
                              message->unknown_fields[0].tag);
        for (unsigned i = 0; i < message->descriptor->n_fields; i++)
                if (message->descriptor->fields[i].type == PROTOBUF_C_TYPE_MESSAGE)
                        check_unknown_below(check, place, message, &message->descriptor->fields[i]);
}

/*
 * Finds departures from the canonical form of all encoders: strings cut at a NUL, fields out of order or
 * twice.
 */
static void check_bytes(Check *check, const OtlpRequest *request, const uint8_t *data, size_t size) {
        size_t again = protobuf_c_message_get_packed_size(&request->base);
        _cleanup_(freep) uint8_t *bytes = malloc(again ? again : 1);

        if (!bytes) {
                check->failed = true;
                return;
        }
        protobuf_c_message_pack(&request->base, bytes);
        if (again != size || memcmp(bytes, data, size))
                check_warning(check, NULL, NULL, VALIDATE_WIRE, "packs again to other bytes");
        if (size > MAX_REQUEST_BYTES)
                check_warning(check, NULL, NULL, VALIDATE_SIZE, "%zu bytes; senders split at 4 MiB", size);
}

static int check_init(Check *check, const OtlpRequest *request) {
        static const OtlpDictionary none = OTLP_DICTIONARY_INIT;
        const OtlpDictionary *d = request->dictionary ? request->dictionary : &none;

        check->dictionary = d;
        check->tables[CHECK_MAPPINGS] = (CheckRows){ "mapping_table", (void **)d->mapping_table,
                                                     d->n_mapping_table, NULL };
        check->tables[CHECK_LOCATIONS] = (CheckRows){ "location_table", (void **)d->location_table,
                                                      d->n_location_table, NULL };
        check->tables[CHECK_FUNCTIONS] = (CheckRows){ "function_table", (void **)d->function_table,
                                                      d->n_function_table, NULL };
        check->tables[CHECK_LINKS] = (CheckRows){ "link_table", (void **)d->link_table, d->n_link_table,
                                                  NULL };
        check->tables[CHECK_STRINGS] = (CheckRows){ "string_table", (void **)d->string_table,
                                                    d->n_string_table, NULL };
        check->tables[CHECK_ATTRIBUTES] = (CheckRows){ "attribute_table", (void **)d->attribute_table,
                                                       d->n_attribute_table, NULL };
        check->tables[CHECK_STACKS] = (CheckRows){ "stack_table", (void **)d->stack_table, d->n_stack_table,
                                                   NULL };
        for (size_t i = 0; i < CHECK_N_TABLES; i++) {
                check->tables[i].used = calloc(check->tables[i].n + 1, sizeof(bool));
                if (!check->tables[i].used)
                        return error_origin(-ENOMEM);
                check->tables[i].used[0] = true;
        }
        intern_init(&check->profile_ids, UINT32_MAX);
        intern_init(&check->resources, UINT32_MAX);
        intern_init(&check->types, UINT32_MAX);
        intern_init(&check->identities, UINT32_MAX);
        intern_init(&check->rows, UINT32_MAX);
        return 0;
}

static void check_deinit(Check *check) {
        for (size_t i = 0; i < CHECK_N_TABLES; i++)
                free(check->tables[i].used);
        intern_deinit(&check->profile_ids);
        intern_deinit(&check->resources);
        intern_deinit(&check->types);
        intern_deinit(&check->identities);
        intern_deinit(&check->rows);
        free(check->bytes);
}

static int check_request(Check *check, const OtlpRequest *request, const uint8_t *data, size_t size,
                         bool json) {
        int r = check_init(check, request);

        if (r)
                return r;
        check_unknown(check, NULL, &request->base);
        if (!json)
                check_bytes(check, request, data, size);
        check_tables(check);
        check_profiles(check, request);
        check_orphans(check);
        check_request_for(check);
        return check->failed ? error_origin(-ENOMEM) : 0;
}

int otlp_validate(const uint8_t *data, size_t size, ValidateSink sink, void *userdata,
                  ValidateCounts *countsp) {
        return otlp_validate_for(VALIDATE_FOR_OTLP, data, size, sink, userdata, countsp);
}

int otlp_validate_for(ValidateFor backend, const uint8_t *data, size_t size, ValidateSink sink,
                      void *userdata, ValidateCounts *countsp) {
        _cleanup_(otlp_request_freep) OtlpRequest *request = NULL;
        _cleanup_(check_deinit) Check check = { .backend = backend, .sink = sink, .userdata = userdata };
        char where[256] = "";
        bool json;
        int r;

        if (!size) {
                check_error(&check, NULL, NULL, VALIDATE_PRESENT, "no resource_profiles");
                *countsp = check.counts;
                return 0;
        }
        r = otlp_decode_request_as(data, size, &request, &json, where, sizeof(where));
        if (r > 0)
                check_error(&check, NULL, NULL, VALIDATE_WIRE, "%s", where);
        else if (!r)
                r = check_request(&check, request, data, size, json);
        if (r < 0)
                return r;
        *countsp = check.counts;
        return 0;
}
