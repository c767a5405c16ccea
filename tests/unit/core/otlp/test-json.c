/* SPDX-License-Identifier: Apache-2.0 */
#include <cJSON.h>
#include <criterion/criterion.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/otlp/json.h"
#include "core/otlp/messages.h"
#include "golden-request.h"

static ProtobufCMessage *unpack_golden(void) {
        ProtobufCMessage *message;

        message = protobuf_c_message_unpack(OTLP_REQUEST_DESCRIPTOR, NULL, sizeof(golden_request),
                                            golden_request);
        cr_assert_not_null(message);
        return message;
}

static int parse(const char *text, OtlpRequest **requestp, char *where) {
        ProtobufCMessage *message = NULL;
        int r;

        r = otlp_json_parse(OTLP_REQUEST_DESCRIPTOR, text, strlen(text), &message, where, 128);
        *requestp = (OtlpRequest *)message;
        return r;
}

static void expect_bad(const char *text, int code, const char *path) {
        OtlpRequest *request;
        char where[128];

        cr_assert_eq(parse(text, &request, where), code, "%s", text);
        cr_assert_null(request, "an output is written on success only");
        cr_assert_str_eq(where, path, "%s: %s", text, where);
}

/* The value of the first resource attribute. */
static OtlpAnyValue *parse_value(const char *value, OtlpRequest **requestp) {
        char text[1024], where[128];

        snprintf(text, sizeof(text),
                 "{\"resourceProfiles\":[{\"resource\":{\"attributes\":[{\"key\":\"k\",\"value\":%s}]}}]}",
                 value);
        cr_assert_eq(parse(text, requestp, where), 0, "%s: %s", text, where);
        return (*requestp)->resource_profiles[0]->resource->attributes[0]->value;
}

Test(json, prints_what_protobuf_prints_with_hex_ids) {
        ProtobufCMessage *message = unpack_golden();
        Text text = { 0 };

        otlp_json_print(&text, message, 0);
        cr_assert_not(text.failed);
        cr_assert_str_eq(text.data, golden_json);
        text_deinit(&text);
        protobuf_c_message_free_unpacked(message, NULL);
}

Test(json, reads_back_to_the_same_bytes) {
        uint8_t data[sizeof(golden_request)];
        OtlpRequest *request;
        char where[128];

        cr_assert_eq(parse(golden_json, &request, where), 0, "%s", where);
        cr_assert_eq(protobuf_c_message_get_packed_size(&request->base), sizeof(data));
        protobuf_c_message_pack(&request->base, data);
        cr_assert_arr_eq(data, golden_request, sizeof(data));
        protobuf_c_message_free_unpacked(&request->base, NULL);
}

Test(json, reads_its_own_indented_form) {
        ProtobufCMessage *message = unpack_golden();
        uint8_t data[sizeof(golden_request)];
        OtlpRequest *request;
        Text text = { 0 };
        char where[128];

        otlp_json_print(&text, message, 1);
        cr_assert_not_null(strstr(text.data, "\n  \"resourceProfiles\": [\n    {\n"));
        cr_assert_eq(parse(text.data, &request, where), 0, "%s", where);
        cr_assert_eq(protobuf_c_message_pack(&request->base, data), sizeof(data));
        cr_assert_arr_eq(data, golden_request, sizeof(data));
        text_deinit(&text);
        protobuf_c_message_free_unpacked(&request->base, NULL);
        protobuf_c_message_free_unpacked(message, NULL);
}

Test(json, ignores_unknown_names_and_nulls) {
        OtlpRequest *request;
        char where[128];

        cr_assert_eq(
                parse("{\"resourceprofiles\":7,\"later\":{\"x\":[1]},\"dictionary\":null}", &request, where),
                0);
        cr_assert_eq(request->n_resource_profiles, 0);
        cr_assert_null(request->dictionary);
        protobuf_c_message_free_unpacked(&request->base, NULL);
}

/* The golden text, with each lowerCamelCase name as the .proto has it. */
Test(json, reads_the_names_of_the_proto_as_well) {
        uint8_t data[sizeof(golden_request)];
        char text[2 * sizeof(golden_json)], *to = text, where[128];
        bool in_string = false, is_key = false;
        OtlpRequest *request;

        for (const char *at = golden_json; *at; at++) {
                if (*at == '"') {
                        in_string = !in_string;
                        is_key = in_string && strchr(at + 1, '"')[1] == ':';
                }
                if (in_string && is_key && *at >= 'A' && *at <= 'Z')
                        *to++ = '_';
                *to++ = in_string && is_key && *at >= 'A' && *at <= 'Z' ? (char)(*at + 32) : *at;
        }
        *to = 0;
        cr_assert_not_null(strstr(text, "\"resource_profiles\":"));
        cr_assert_null(strstr(text, "\"resourceProfiles\":"));
        cr_assert_eq(parse(text, &request, where), 0, "%s", where);
        cr_assert_eq(protobuf_c_message_get_packed_size(&request->base), sizeof(data));
        protobuf_c_message_pack(&request->base, data);
        cr_assert_arr_eq(data, golden_request, sizeof(data));
        protobuf_c_message_free_unpacked(&request->base, NULL);
        expect_bad("{\"resource_profiles\":[],\"resourceProfiles\":[]}", OTLP_JSON_E_SHAPE,
                   "resourceProfiles");
        expect_bad("{\"resource_profiles\":[{\"scope_profiles\":[{\"profiles\":[{\"sample_type\":[]}]}]}]}",
                   OTLP_JSON_E_SHAPE, "resource_profiles[0].scope_profiles[0].profiles[0].sample_type");
}

/* The golden text, with `…Strindex` as the first drafts had it: `nameIndex`, `key_index`, of types `type`. */
Test(json, reads_the_names_of_the_first_drafts) {
        static const struct {
                const char *now, *draft;
        } names[] = {
                { "\"typeStrindex\"", "\"type\"" },
                { "\"nameStrindex\"", "\"name_index\"" },
                { "\"systemNameStrindex\"", "\"systemNameIndex\"" },
                { "\"filenameStrindex\"", "\"filename_index\"" },
                { "\"keyStrindex\"", "\"key_index\"" },
        };
        uint8_t data[sizeof(golden_request)];
        char text[2 * sizeof(golden_json)], where[128];
        OtlpRequest *request;
        unsigned n = 0;

        strcpy(text, golden_json);
        for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
                for (char *at = text; (at = strstr(at, names[i].now)); n++) {
                        size_t now = strlen(names[i].now), draft = strlen(names[i].draft);

                        memmove(at + draft, at + now, strlen(at + now) + 1);
                        memcpy(at, names[i].draft, draft);
                }
        cr_assert_gt(n, 5);
        cr_assert_eq(parse(text, &request, where), 0, "%s", where);
        cr_assert_eq(protobuf_c_message_get_packed_size(&request->base), sizeof(data));
        protobuf_c_message_pack(&request->base, data);
        cr_assert_arr_eq(data, golden_request, sizeof(data));
        protobuf_c_message_free_unpacked(&request->base, NULL);
        /* a name of a field that no draft had is unknown still */
        cr_assert_eq(parse("{\"dictionary\":{\"functionTable\":[{\"name\":\"text\"}]}}", &request, where), 0);
        protobuf_c_message_free_unpacked(&request->base, NULL);
}

Test(json, names_the_path_of_what_is_wrong) {
        expect_bad("", OTLP_JSON_E_SYNTAX, "line 1, column 1");
        expect_bad("{\"a\": oops}", OTLP_JSON_E_SYNTAX, "line 1, column 7");
        expect_bad("{\n\"a\": 1,\n \"b\": ?}", OTLP_JSON_E_SYNTAX, "line 3, column 7");
        expect_bad("{}\n {", OTLP_JSON_E_SYNTAX, "line 2, column 2");
        expect_bad("[]", OTLP_JSON_E_SHAPE, "");
        expect_bad("{\"dictionary\":[]}", OTLP_JSON_E_SHAPE, "dictionary");
        expect_bad(
                "{\"resourceProfiles\":[{},{\"scopeProfiles\":[{\"profiles\":[{\"timeUnixNano\":\"x\"}]}]}]}",
                OTLP_JSON_E_SHAPE, "resourceProfiles[1].scopeProfiles[0].profiles[0].timeUnixNano");
        expect_bad("{\"dictionary\":{\"stringTable\":[\"\",3]}}", OTLP_JSON_E_SHAPE,
                   "dictionary.stringTable[1]");
        expect_bad("{\"dictionary\":{\"stackTable\":[{\"locationIndices\":[1,2147483648]}]}}",
                   OTLP_JSON_E_SHAPE, "dictionary.stackTable[0].locationIndices[1]");
        expect_bad("{\"dictionary\":{\"stackTable\":[{\"locationIndices\":[0.5]}]}}", OTLP_JSON_E_SHAPE,
                   "dictionary.stackTable[0].locationIndices[0]");
        expect_bad("{\"dictionary\":{\"linkTable\":[{\"traceId\":\"0x\"}]}}", OTLP_JSON_E_SHAPE,
                   "dictionary.linkTable[0].traceId");
        expect_bad("{\"dictionary\":{\"linkTable\":[{\"spanId\":\"abc\"}]}}", OTLP_JSON_E_SHAPE,
                   "dictionary.linkTable[0].spanId");
        expect_bad("{\"dictionary\":{},\"dictionary\":{}}", OTLP_JSON_E_SHAPE, "dictionary");
        expect_bad("{\"resourceProfiles\":[],\"resourceProfiles\":[]}", OTLP_JSON_E_SHAPE,
                   "resourceProfiles");
        expect_bad("{\"resourceProfiles\":[null]}", OTLP_JSON_E_SHAPE, "resourceProfiles[0]");
}

Test(json, refuses_two_members_of_one_value) {
        expect_bad("{\"resourceProfiles\":[{\"resource\":{\"attributes\":[{\"value\":{\"stringValue\":\"a\","
                   "\"intValue\":\"1\"}}]}}]}",
                   OTLP_JSON_E_SHAPE, "resourceProfiles[0].resource.attributes[0].value.intValue");
}

Test(json, reads_each_kind_of_value) {
        OtlpRequest *request;
        OtlpAnyValue *value;

        value = parse_value("{\"intValue\":\"-9223372036854775808\"}", &request);
        cr_assert_eq(value->int_value, INT64_MIN);
        protobuf_c_message_free_unpacked(&request->base, NULL);
        value = parse_value("{\"intValue\":7}", &request);
        cr_assert_eq(value->int_value, 7);
        protobuf_c_message_free_unpacked(&request->base, NULL);
        value = parse_value("{\"doubleValue\":\"-Infinity\"}", &request);
        cr_assert(isinf(value->double_value) && value->double_value < 0);
        protobuf_c_message_free_unpacked(&request->base, NULL);
        value = parse_value("{\"boolValue\":false}", &request);
        cr_assert_eq(value->value_case, OTLP_ANY_BOOL);
        protobuf_c_message_free_unpacked(&request->base, NULL);
        value = parse_value("{\"stringValue\":\"\"}", &request);
        cr_assert_eq(value->value_case, OTLP_ANY_STRING);
        cr_assert_str_eq(value->string_value, "");
        protobuf_c_message_free_unpacked(&request->base, NULL);
        value = parse_value("{\"bytesValue\":\"AP/+\"}", &request);
        cr_assert_eq(value->bytes_value.len, 3);
        cr_assert_arr_eq(value->bytes_value.data, ((uint8_t[]){ 0x00, 0xFF, 0xFE }), 3);
        protobuf_c_message_free_unpacked(&request->base, NULL);
        value = parse_value("{\"bytesValue\":\"_w==\"}", &request);
        cr_assert_eq(value->bytes_value.len, 1);
        cr_assert_eq(value->bytes_value.data[0], 0xFF, "URL-safe digits pass too");
        protobuf_c_message_free_unpacked(&request->base, NULL);
        value = parse_value("{\"arrayValue\":{\"values\":[{\"intValue\":\"1\"},{}]}}", &request);
        cr_assert_eq(value->array_value->n_values, 2);
        protobuf_c_message_free_unpacked(&request->base, NULL);
}

/* RFC 4648, section 10 */
Test(json, prints_base64_and_controls) {
        OtlpAnyValue value = OTLP_ANY_VALUE_INIT;
        const char *const vectors[] = { "", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy" };
        Text text = { 0 };
        char expected[64];

        value.value_case = OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_BYTES_VALUE;
        for (size_t n = 0; n <= 6; n++) {
                value.bytes_value = (ProtobufCBinaryData){ n, (uint8_t *)"foobar" };
                text.size = 0;
                otlp_json_print(&text, &value.base, 0);
                snprintf(expected, sizeof(expected), "{\"bytesValue\":\"%s\"}", vectors[n]);
                cr_assert_str_eq(text.data, expected);
        }
        value.value_case = OTLP_ANY_STRING;
        value.string_value = (char *)"a\"\\\n\x01\xC3\xA9\xFFz";
        text.size = 0;
        otlp_json_print(&text, &value.base, 0);
        cr_assert_str_eq(text.data, "{\"stringValue\":\"a\\\"\\\\\\u000a\\u0001\xC3\xA9\xEF\xBF\xBDz\"}");
        text_deinit(&text);
}

Test(json, prints_the_zero_that_a_value_was_set_to) {
        OtlpAnyValue value = OTLP_ANY_VALUE_INIT;
        Text text = { 0 };

        value.value_case = OTLP_ANY_INT;
        otlp_json_print(&text, &value.base, 0);
        cr_assert_str_eq(text.data, "{\"intValue\":\"0\"}");
        text.size = 0;
        value.value_case = OTLP_ANY_DOUBLE;
        value.double_value = NAN;
        otlp_json_print(&text, &value.base, 0);
        cr_assert_str_eq(text.data, "{\"doubleValue\":\"NaN\"}");
        text_deinit(&text);
}

Test(json, refuses_values_nested_without_end) {
        Text text = { 0 };
        OtlpRequest *request;
        char where[128];

        text_printf(&text, "{\"resourceProfiles\":[{\"resource\":{\"attributes\":[{\"value\":");
        for (int i = 0; i < 100; i++)
                text_printf(&text, "{\"arrayValue\":{\"values\":[");
        text_printf(&text, "{}");
        for (int i = 0; i < 100; i++)
                text_printf(&text, "]}}");
        text_printf(&text, "}]}}]}");
        cr_assert_eq(parse(text.data, &request, where), OTLP_JSON_E_SHAPE);
        text_deinit(&text);
}

typedef struct Pieces {
        Text text;
        size_t largest;
        int end_after;                  /* pieces; -1 = never */
} Pieces;

static int on_piece(const char *data, size_t size, void *userdata) {
        Pieces *pieces = userdata;

        text_append(&pieces->text, data, size);
        pieces->largest = size > pieces->largest ? size : pieces->largest;
        return pieces->end_after-- ? 0 : 7;
}

Test(json, hands_on_the_same_in_pieces) {
        enum { SIZE = 1 << 20 };
        OtlpAnyValue value = OTLP_ANY_VALUE_INIT;
        Pieces pieces = { .end_after = -1 };
        Text whole = { 0 };
        char *string = malloc(SIZE + 1);

        memset(string, 'x', SIZE);
        memset(string + SIZE / 2, '\n', SIZE / 4);
        string[SIZE] = 0;
        value.value_case = OTLP_ANY_STRING;
        value.string_value = string;
        otlp_json_print(&whole, &value.base, 1);
        cr_assert_eq(otlp_json_write(&value.base, 1, on_piece, &pieces), 0);
        cr_assert_str_eq(pieces.text.data, whole.data);
        cr_assert_leq(pieces.largest, 2 * 65536);
        text_deinit(&pieces.text);
        pieces.end_after = 2;
        cr_assert_eq(otlp_json_write(&value.base, 1, on_piece, &pieces), 7, "what it returned");
        cr_assert_eq(pieces.end_after, -1, "and it was not called again");
        text_deinit(&pieces.text);
        text_deinit(&whole);
        free(string);
}

static size_t in_use(void) {
        return mallinfo2().uordblks + mallinfo2().hblkhd;
}

/* By what malloc() really gave for both trees, which are there at the same time. */
Test(json, says_beforehand_what_reading_takes) {
        static const char *const pieces[] = { "0,", "\"\",", "\"1\",", "{},", "[],", "{\"a\":1}," };

        for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
                OtlpRequest *request = NULL;
                Text text = { 0 };
                char where[128];
                size_t before, least;
                cJSON *tree;

                text_printf(&text, "{\"resourceProfiles\":[");
                for (unsigned j = 0; j < 10000; j++)
                        text_printf(&text, "%s", "{},");
                text_printf(&text, "{}],\"unknown\":[");
                for (unsigned j = 0; j < 100000; j++)
                        text_printf(&text, "%s", pieces[i]);
                text_printf(&text, "0]}");
                before = in_use();
                tree = cJSON_ParseWithLength(text.data, text.size);
                cr_assert_not_null(tree);
                cr_assert_eq(parse(text.data, &request, where), 0, "%s: %s", pieces[i], where);
                least = in_use() - before;
                cJSON_Delete(tree);
                cr_expect_geq(otlp_json_memory(text.data, text.size), least, "%s", pieces[i]);
                cr_expect_leq(otlp_json_memory("[0]", 3), 1000, "no more than some for each");
                protobuf_c_message_free_unpacked(&request->base, NULL);
                text_deinit(&text);
        }
}
