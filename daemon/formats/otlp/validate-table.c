/* SPDX-License-Identifier: Apache-2.0 */

/* The dictionary: what every row of a table must be. */

#include <string.h>

#include "formats/otlp/check.h"

#define BUILD_ID "process.executable.build_id."

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
void check_key_values(Check *check, const Place *place, OtlpKeyValue *const *pairs, size_t n) {
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

/* Of some indices, the key that is there twice. A handful is compared with each other, more are sorted. */
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

void check_attribute_indices(Check *check, const Place *place, const int32_t *indices, size_t n) {
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

void check_tables(Check *check) {
        for (CheckTable table = 0; table < CHECK_N_TABLES; table++)
                check_table(check, table);
}

/* A row counts as used also if what uses it is an orphan, which is a finding itself. */
void check_orphans(Check *check) {
        Place dictionary = { NULL, "dictionary", -1 };

        for (CheckTable table = 0; table < CHECK_N_TABLES; table++) {
                const CheckRows *rows = &check->tables[table];

                for (size_t i = 1; i < rows->n; i++)
                        if (!rows->used[i])
                                check_error(check, &(Place){ &dictionary, rows->name, (ssize_t)i }, NULL,
                                            VALIDATE_ORPHAN, "nothing refers to it");
        }
}
