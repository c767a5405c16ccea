/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The reader of OTLP/JSON: cJSON makes a tree of the text, and the descriptors say what each element must be.
 * json-print.c is its twin.
 *
 * The path of the element at hand grows in `where` on the way down, so that an error leaves it there:
 *
 *     resourceProfiles[0].scopeProfiles[0].profiles[2].timeUnixNano
 */
#include "core/otlp/json.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "core/otlp/json-name.h"
#include "core/otlp/message-field.h"

enum {
        MAX_DEPTH = 32,
        /*
         * Memory that malloc() gives for an element of cJSON's tree and its place in our message; for a text
         * in quotes; for a message.
         */
        PER_VALUE = 96,
        PER_STRING = 64,
        PER_OBJECT = 256,
};

typedef struct Reader {
        char *where;
        size_t where_size, length;
        int depth;
} Reader;

_printf_(2, 3) static void path_add(Reader *reader, const char *format, ...) {
        va_list args;
        int n;

        if (reader->length >= reader->where_size)
                return;
        va_start(args, format);
        n = vsnprintf(reader->where + reader->length, reader->where_size - reader->length, format, args);
        va_end(args);
        reader->length += n > 0 ? (size_t)n : 0;
}

static void path_cut(Reader *reader, size_t length) {
        reader->length = length;
        if (length < reader->where_size)
                reader->where[length] = 0;
}

/* 64-bit integers are strings, others numbers; each kind is taken for the other, as protobuf's JSON does. */
static int read_signed(const cJSON *item, int64_t min, int64_t max, int64_t *valuep) {
        int64_t value;

        if (cJSON_IsString(item)) {
                char *end;

                errno = 0;
                value = strtoll(item->valuestring, &end, 10);
                if (errno || end == item->valuestring || *end ||
                    !strchr("-0123456789", item->valuestring[0]))
                        return OTLP_JSON_E_SHAPE;
        } else if (cJSON_IsNumber(item)) {
                if (!(item->valuedouble >= -0x1p63 && item->valuedouble < 0x1p63) ||
                    item->valuedouble != trunc(item->valuedouble))
                        return OTLP_JSON_E_SHAPE;
                value = (int64_t)item->valuedouble;
        } else {
                return OTLP_JSON_E_SHAPE;
        }
        if (value < min || value > max)
                return OTLP_JSON_E_SHAPE;
        *valuep = value;
        return 0;
}

static int read_unsigned(const cJSON *item, uint64_t max, uint64_t *valuep) {
        if (cJSON_IsString(item))
                return text_u64(item->valuestring, max, valuep) ? OTLP_JSON_E_SHAPE : 0;
        if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble < 0x1p64) ||
            item->valuedouble != trunc(item->valuedouble) || (uint64_t)item->valuedouble > max)
                return OTLP_JSON_E_SHAPE;
        *valuep = (uint64_t)item->valuedouble;
        return 0;
}

static int read_double(const cJSON *item, double *valuep) {
        char *end;

        if (cJSON_IsNumber(item)) {
                *valuep = item->valuedouble;
                return 0;
        }
        if (!cJSON_IsString(item) || !item->valuestring[0])
                return OTLP_JSON_E_SHAPE;
        *valuep = strtod(item->valuestring, &end);      /* "NaN", "Infinity", "-Infinity" and numbers */
        return *end ? OTLP_JSON_E_SHAPE : 0;
}

static int hex_value(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        c |= 0x20;
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int base64_value(char c) {
        if (c >= 'A' && c <= 'Z')
                return c - 'A';
        if (c >= 'a' && c <= 'z')
                return c - 'a' + 26;
        if (c >= '0' && c <= '9')
                return c - '0' + 52;
        if (c == '+' || c == '-')
                return 62;
        return c == '/' || c == '_' ? 63 : -1;
}

/* Digits of @bits bits each into bytes. Return: how many bytes, or -1. */
static ssize_t unpack_digits(uint8_t *to, const char *text, size_t size, unsigned bits,
                             int (*value)(char c)) {
        uint32_t buffer = 0;
        unsigned n_bits = 0;
        size_t n = 0;

        for (size_t i = 0; i < size; i++) {
                int digit = value(text[i]);

                if (digit < 0)
                        return -1;
                buffer = buffer << bits | (uint32_t)digit;
                n_bits += bits;
                if (n_bits >= 8) {
                        n_bits -= 8;
                        to[n++] = (uint8_t)(buffer >> n_bits);
                }
        }
        return n_bits >= bits ? -1 : (ssize_t)n;        /* a whole digit is left over */
}

static int read_bytes(const cJSON *item, const ProtobufCFieldDescriptor *field, ProtobufCBinaryData *data) {
        bool hex = json_is_hex(field);
        ssize_t n;
        size_t size;

        if (!cJSON_IsString(item) || data->data)
                return OTLP_JSON_E_SHAPE;
        size = strlen(item->valuestring);
        for (int i = 0; !hex && i < 2 && size && item->valuestring[size - 1] == '='; i++)
                size--;
        data->data = malloc(size + 1);
        if (!data->data)
                return error_origin(-ENOMEM);
        n = unpack_digits(data->data, item->valuestring, size, hex ? 4 : 6, hex ? hex_value : base64_value);
        if (n < 0)
                return OTLP_JSON_E_SHAPE;
        data->len = (size_t)n;
        return 0;
}

static int read_string(const cJSON *item, const ProtobufCFieldDescriptor *field, char **stringp) {
        char *copy;

        if (!cJSON_IsString(item) || (*stringp && *stringp != field->default_value))
                return OTLP_JSON_E_SHAPE;
        copy = strdup(item->valuestring);
        if (!copy)
                return error_origin(-ENOMEM);
        *stringp = copy;
        return 0;
}

static int read_message(Reader *reader, const cJSON *item, const ProtobufCMessageDescriptor *descriptor,
                        ProtobufCMessage **messagep);

/* @to: the field's place, or an element of a repeated field. */
static int read_value(Reader *reader, const cJSON *item, const ProtobufCFieldDescriptor *field, void *to) {
        uint64_t u = 0;
        int64_t i = 0;
        int r;

        switch (field->type) {
        case PROTOBUF_C_TYPE_INT32:
        case PROTOBUF_C_TYPE_SINT32:
        case PROTOBUF_C_TYPE_SFIXED32:
        case PROTOBUF_C_TYPE_ENUM:
                r = read_signed(item, INT32_MIN, INT32_MAX, &i);
                *(int32_t *)to = (int32_t)i;
                return r;
        case PROTOBUF_C_TYPE_UINT32:
        case PROTOBUF_C_TYPE_FIXED32:
                r = read_unsigned(item, UINT32_MAX, &u);
                *(uint32_t *)to = (uint32_t)u;
                return r;
        case PROTOBUF_C_TYPE_INT64:
        case PROTOBUF_C_TYPE_SINT64:
        case PROTOBUF_C_TYPE_SFIXED64:
                return read_signed(item, INT64_MIN, INT64_MAX, to);
        case PROTOBUF_C_TYPE_UINT64:
        case PROTOBUF_C_TYPE_FIXED64:
                return read_unsigned(item, UINT64_MAX, to);
        case PROTOBUF_C_TYPE_DOUBLE:
                return read_double(item, to);
        case PROTOBUF_C_TYPE_BOOL:
                *(protobuf_c_boolean *)to = cJSON_IsTrue(item);
                return cJSON_IsBool(item) ? 0 : OTLP_JSON_E_SHAPE;
        case PROTOBUF_C_TYPE_STRING:
                return read_string(item, field, to);
        case PROTOBUF_C_TYPE_BYTES:
                return read_bytes(item, field, to);
        case PROTOBUF_C_TYPE_MESSAGE:
                return *(ProtobufCMessage **)to ? OTLP_JSON_E_SHAPE
                                                : read_message(reader, item, field->descriptor, to);
        default:
                return OTLP_JSON_E_SHAPE;       /* float: OTLP has none */
        }
}

static int read_array(Reader *reader, const cJSON *item, const ProtobufCFieldDescriptor *field,
                      ProtobufCMessage *message) {
        size_t *np = field_count(message, field), length = reader->length, size = field_value_size(field);
        void **arrayp = field_place(message, field);

        if (!cJSON_IsArray(item) || *arrayp)
                return OTLP_JSON_E_SHAPE;
        *arrayp = calloc((size_t)cJSON_GetArraySize(item) + 1, size);
        if (!*arrayp)
                return error_origin(-ENOMEM);
        for (const cJSON *child = item->child; child; child = child->next) {
                int r;

                path_add(reader, "[%zu]", *np);
                /* Counted first: what a failure leaves in it is freed with the message. */
                r = read_value(reader, child, field, (uint8_t *)*arrayp + (*np)++ * size);
                if (r)
                        return r;
                path_cut(reader, length);
        }
        return 0;
}

static int read_field(Reader *reader, const cJSON *item, const ProtobufCFieldDescriptor *field,
                      ProtobufCMessage *message) {
        if (cJSON_IsNull(item))
                return 0;
        if (field->label == PROTOBUF_C_LABEL_REPEATED)
                return read_array(reader, item, field, message);
        if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
                uint32_t *casep = field_case(message, field);

                if (*casep)
                        return OTLP_JSON_E_SHAPE;       /* two of one */
                /* The members share one place, which holds nothing of another type yet. */
                memset(field_place(message, field), 0, field_value_size(field));
                *casep = field->id;
        }
        return read_value(reader, item, field, field_place(message, field));
}

static bool is_named(const char *field_name, const char *name) {
        return json_name_equals(field_name, name) || !strcmp(field_name, name);
}

/* What the first drafts of profiles called a `name_strindex`: `name_index`; of a type the bare `type`. */
static bool is_draft_name(const ProtobufCMessageDescriptor *descriptor,
                          const ProtobufCFieldDescriptor *field, const char *name) {
        static const char suffix[] = "_strindex";
        size_t size = strlen(field->name);
        char draft[64];

        if (size < sizeof(suffix) || size >= sizeof(draft) ||
            strcmp(field->name + size - strlen(suffix), suffix))
                return false;
        size -= strlen(suffix);
        snprintf(draft, sizeof(draft), "%.*s_index", (int)size, field->name);
        if (is_named(draft, name))
                return true;
        draft[size] = 0;
        return !strcmp(descriptor->short_name, "ValueType") && is_named(draft, name);
}

/* Finds a field also by its name in the .proto, as protobuf's own parsers do, and by that of a draft. */
static const ProtobufCFieldDescriptor *find_field(const ProtobufCMessageDescriptor *descriptor,
                                                  const char *name) {
        for (unsigned i = 0; i < descriptor->n_fields; i++)
                if (is_named(descriptor->fields[i].name, name))
                        return &descriptor->fields[i];
        for (unsigned i = 0; i < descriptor->n_fields; i++)
                if (is_draft_name(descriptor, &descriptor->fields[i], name))
                        return &descriptor->fields[i];
        return NULL;
}

static int read_members(Reader *reader, const cJSON *object, ProtobufCMessage *message) {
        for (const cJSON *item = object->child; item; item = item->next) {
                const ProtobufCFieldDescriptor *field = find_field(message->descriptor, item->string);
                size_t length = reader->length;
                int r;

                if (!field)
                        continue;
                path_add(reader, "%s%s", length ? "." : "", item->string);
                r = read_field(reader, item, field, message);
                if (r)
                        return r;
                path_cut(reader, length);
        }
        return 0;
}

/* *messagep is set even on failure, with what was read so far. */
static int read_message(Reader *reader, const cJSON *item, const ProtobufCMessageDescriptor *descriptor,
                        ProtobufCMessage **messagep) {
        ProtobufCMessage *message;
        int r;

        if (!cJSON_IsObject(item) || reader->depth == MAX_DEPTH)
                return OTLP_JSON_E_SHAPE;
        message = malloc(descriptor->sizeof_message);
        if (!message)
                return error_origin(-ENOMEM);
        protobuf_c_message_init(descriptor, message);
        *messagep = message;
        reader->depth++;
        r = read_members(reader, item, message);
        reader->depth--;
        return r;
}

/* Where in the text it stops to be JSON, as editors count. */
static int syntax_error(Reader *reader, const char *data, size_t size, const char *at) {
        const char *end = at >= data && at <= data + size ? at : data, *line_start = data;
        size_t line = 1;

        for (const char *c = data; c < end; c++)
                if (*c == '\n') {
                        line++;
                        line_start = c + 1;
                }
        snprintf(reader->where, reader->where_size, "line %zu, column %zu", line,
                 (size_t)(end - line_start) + 1);
        return OTLP_JSON_E_SYNTAX;
}

/* Skips a string that opens at @at. Return: its closing quote, or the last byte. */
static size_t skip_string(const char *data, size_t size, size_t at) {
        for (at++; at < size && data[at] != '"'; at++)
                at += data[at] == '\\';
        return at;
}

size_t otlp_json_memory(const char *data, size_t size) {
        size_t memory = 3 * size;       /* the text, and each string in both trees */

        for (size_t i = 0; i < size; i++)
                switch (data[i]) {
                case '"':
                        i = skip_string(data, size, i);
                        memory += PER_STRING;
                        break;
                case '{':
                        memory += PER_OBJECT;
                        break;
                case '[':
                case ',':
                        memory += PER_VALUE;
                        break;
                }
        return memory;
}

int otlp_json_parse(const ProtobufCMessageDescriptor *descriptor, const char *data, size_t size,
                    ProtobufCMessage **messagep, char *where, size_t where_size) {
        Reader reader = { .where = where, .where_size = where_size };
        ProtobufCMessage *message = NULL;
        const char *end = NULL;
        cJSON *root;
        int r;

        path_cut(&reader, 0);
        root = cJSON_ParseWithLengthOpts(data, size, &end, 0);
        while (root && end < data + size && strchr(" \t\r\n", *end) && *end)
                end++;
        if (root && end < data + size) {        /* the document must be the whole text */
                cJSON_Delete(root);
                root = NULL;
        }
        if (!root)
                return syntax_error(&reader, data, size, end);
        r = read_message(&reader, root, descriptor, &message);
        cJSON_Delete(root);
        if (r) {
                if (message)
                        protobuf_c_message_free_unpacked(message, NULL);
                return r;
        }
        *messagep = message;
        return 0;
}
