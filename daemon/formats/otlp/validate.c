/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/otlp/validate.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/util/error.h"
#include "base/util/text.h"
#include "formats/otlp/check.h"
#include "formats/otlp/decode.h"
#include "formats/otlp/message-field.h"

enum { MAX_REQUEST_BYTES = 4 << 20 };

const char *validate_rule_name(ValidateRule rule) {
        static const char *const names[] = {
#define X(name, text, what) text,
                VALIDATE_RULES(X)
#undef X
        };

        return names[rule];
}

static size_t print_place(const Place *place, char *to, size_t room) {
        size_t n = place->up ? print_place(place->up, to, room) : 0;
        int more;

        if (n >= room)
                return n;
        more = snprintf(to + n, room - n, "%s%s", n ? "." : "", place->name);
        n += more > 0 ? (size_t)more : 0;
        if (place->index >= 0 && n < room) {
                more = snprintf(to + n, room - n, "[%zd]", place->index);
                n += more > 0 ? (size_t)more : 0;
        }
        return n;
}

/* Text of a stranger: one line, and nothing that a terminal would obey. */
static void tame(char *text) {
        for (unsigned char *c = (unsigned char *)text; *c; c++)
                if (*c < ' ' || *c == 0x7F)
                        *c = '?';
}

static void find(Check *check, bool warning, const Place *place, const char *field, ValidateRule rule,
                 const char *format, va_list args) {
        Place last = { place, field, -1 };
        char path[VALIDATE_PATH_MAX] = "", text[VALIDATE_TEXT_MAX], whole[3 * VALIDATE_TEXT_MAX + 1];

        *(warning ? &check->counts.n_warnings : &check->counts.n_errors) += 1;
        if (!check->sink)
                return;
        if (field || place)
                print_place(field ? &last : place, path, sizeof(path));
        vsnprintf(text, sizeof(text), format, args);
        tame(text);
        text_repair_utf8(whole, text, strlen(text));
        check->sink(&(ValidateFinding){ warning, rule, path, whole }, check->userdata);
}

void check_error(Check *check, const Place *place, const char *field, ValidateRule rule, const char *format,
                 ...) {
        va_list args;

        va_start(args, format);
        find(check, false, place, field, rule, format, args);
        va_end(args);
}

void check_warning(Check *check, const Place *place, const char *field, ValidateRule rule, const char *format,
                   ...) {
        va_list args;

        va_start(args, format);
        find(check, true, place, field, rule, format, args);
        va_end(args);
}

void *check_use(Check *check, const Place *place, const char *field, CheckTable table, int32_t index) {
        CheckRows *rows = &check->tables[table];

        if (index < 0 || (size_t)index >= rows->n) {
                check_error(check, place, field, VALIDATE_INDEX, "%d of %zu", index, rows->n);
                return NULL;
        }
        rows->used[index] = true;
        return rows->rows[index];
}

const char *check_string(Check *check, const Place *place, const char *field, int32_t index) {
        const char *text = check_use(check, place, field, CHECK_STRINGS, index);

        return text ? text : "";
}

void check_utf8(Check *check, const Place *place, const char *field, const char *text) {
        if (text && !text_is_utf8(text, strlen(text)))
                check_error(check, place, field, VALIDATE_UTF8, "is no UTF-8: \"%.60s\"", text);
}

ssize_t check_seen(Check *check, Intern *set, const void *data, size_t size) {
        uint32_t index;
        int r = intern_add(set, data, size, &index);

        if (r < 0)
                check->failed = true;
        return r == INTERN_E_FOUND ? (ssize_t)index : -1;
}

void check_forget(Intern *set) {
        intern_deinit(set);
        intern_init(set, UINT32_MAX);
}

int check_by_index(const void *a, const void *b) {
        int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

        return x < y ? -1 : x > y;
}

uint8_t *check_reserve(Check *check, size_t size) {
        uint8_t *bytes;

        if (size <= check->bytes_size && check->bytes)
                return check->bytes;
        bytes = realloc(check->bytes, MAX(size, (size_t)256) * 2);
        if (!bytes) {
                check->failed = true;
                return NULL;
        }
        check->bytes = bytes;
        check->bytes_size = MAX(size, (size_t)256) * 2;
        return bytes;
}

size_t check_pack(Check *check, const void *message) {
        size_t size = protobuf_c_message_get_packed_size(message);

        return check_reserve(check, size) ? protobuf_c_message_pack(message, check->bytes) : 0;
}

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

/* What is not in the canonical form of all encoders: strings cut at a NUL, fields out of order or twice. */
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
        return check->failed ? error_origin(-ENOMEM) : 0;
}

int otlp_validate(const uint8_t *data, size_t size, ValidateSink sink, void *userdata,
                  ValidateCounts *countsp) {
        _cleanup_(otlp_request_freep) OtlpRequest *request = NULL;
        _cleanup_(check_deinit) Check check = { .sink = sink, .userdata = userdata };
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
