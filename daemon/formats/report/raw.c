/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/report/raw.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "base/util/clock.h"
#include "base/util/macro.h"
#include "base/util/text.h"
#include "formats/otlp/message-field.h"

enum {
        MAX_NESTING = 64,               /* AnyValue may hold itself; deeper is cut */
        MAX_NAMED = 8,                  /* indexes of one list that are explained */
};

typedef struct Raw {
        const OtlpDictionary *dictionary;       /* may be NULL */
        FILE *out;
} Raw;

/* What is masked elsewhere is seen here byte by byte. */
static void print_quoted(const char *text, size_t size, FILE *out) {
        bool shown;

        fputc('"', out);
        for (size_t i = 0, n; i < size; i += n) {
                n = text_character(text + i, size - i, &shown);
                if (text[i] == '"' || text[i] == '\\')
                        fprintf(out, "\\%c", text[i]);
                else if (shown)
                        fwrite(text + i, 1, n, out);
                else
                        for (size_t j = 0; j < n; j++)
                                fprintf(out, "\\x%02x", (unsigned char)text[i + j]);
        }
        fputc('"', out);
}

static void print_hex(const uint8_t *data, size_t size, FILE *out) {
        for (size_t i = 0; i < size; i++)
                fprintf(out, "%02x", data[i]);
}

static void print_bytes(const ProtobufCBinaryData *bytes, FILE *out) {
        print_hex(bytes->data, bytes->len, out);
        fprintf(out, "%s(%zu bytes)", bytes->len ? " " : "", bytes->len);
}

/* Comments: what an index points to */

static bool in_range(const Raw *raw, int64_t index, size_t n) {
        if (index >= 0 && (uint64_t)index < n)
                return true;
        fprintf(raw->out, "out of range, the table has %zu rows", n);
        return false;
}

static void explain_string(const Raw *raw, int64_t index) {
        const OtlpDictionary *d = raw->dictionary;

        if (in_range(raw, index, d->n_string_table))
                print_quoted(d->string_table[index], strlen(d->string_table[index]), raw->out);
}

static void explain_function(const Raw *raw, int64_t index) {
        const OtlpDictionary *d = raw->dictionary;

        if (in_range(raw, index, d->n_function_table))
                explain_string(raw, d->function_table[index]->name_strindex);
}

static void explain_mapping(const Raw *raw, int64_t index) {
        const OtlpDictionary *d = raw->dictionary;

        if (in_range(raw, index, d->n_mapping_table))
                explain_string(raw, d->mapping_table[index]->filename_strindex);
}

static void explain_location(const Raw *raw, int64_t index) {
        const OtlpDictionary *d = raw->dictionary;
        const OtlpLocation *location;

        if (!in_range(raw, index, d->n_location_table))
                return;
        location = d->location_table[index];
        if (location->n_lines) {
                explain_function(raw, location->lines[0]->function_index);
        } else {
                fprintf(raw->out, "%#" PRIx64 " in ", location->address);
                explain_mapping(raw, location->mapping_index);
        }
}

static void explain_stack(const Raw *raw, int64_t index) {
        const OtlpDictionary *d = raw->dictionary;

        if (!in_range(raw, index, d->n_stack_table))
                return;
        fprintf(raw->out, "%zu frames", d->stack_table[index]->n_location_indices);
        if (d->stack_table[index]->n_location_indices) {
                fputs(", leaf ", raw->out);
                explain_location(raw, d->stack_table[index]->location_indices[0]);
        }
}

static void explain_link(const Raw *raw, int64_t index) {
        const OtlpDictionary *d = raw->dictionary;
        const OtlpLink *link;

        if (!in_range(raw, index, d->n_link_table))
                return;
        link = d->link_table[index];
        fputs(index ? "trace " : "no link ", raw->out);
        print_hex(link->trace_id.data, link->trace_id.len, raw->out);
        if (link->span_id.len) {
                fputs(" span ", raw->out);
                print_hex(link->span_id.data, link->span_id.len, raw->out);
        }
}

static void explain_value(const Raw *raw, const OtlpAnyValue *value) {
        if (!value)
                fputs("none", raw->out);
        else if (value->value_case == OTLP_ANY_STRING)
                print_quoted(value->string_value, strlen(value->string_value), raw->out);
        else if (value->value_case == OTLP_ANY_INT)
                fprintf(raw->out, "%" PRId64, value->int_value);
        else if (value->value_case == OTLP_ANY_BOOL)
                fputs(value->bool_value ? "true" : "false", raw->out);
        else if (value->value_case == OTLP_ANY_DOUBLE)
                fprintf(raw->out, "%.17g", value->double_value);
        else if (value->value_case == OTLP_ANY_STRINDEX)
                explain_string(raw, value->string_value_strindex);
        else
                fputs("…", raw->out);
}

static void explain_attribute(const Raw *raw, int64_t index) {
        const OtlpDictionary *d = raw->dictionary;

        if (!in_range(raw, index, d->n_attribute_table))
                return;
        explain_string(raw, d->attribute_table[index]->key_strindex);
        fputs("=", raw->out);
        explain_value(raw, d->attribute_table[index]->value);
}

static bool ends_with(const char *text, const char *end) {
        size_t n = strlen(text), n_end = strlen(end);

        return n >= n_end && !strcmp(text + n - n_end, end);
}

typedef void (*Explain)(const Raw *raw, int64_t index);

static Explain explanation_of(const Raw *raw, const char *field) {
        static const struct {
                const char *end;
                Explain explain;
        } explanations[] = {
                { "_strindex", explain_string },          { "stack_index", explain_stack },
                { "link_index", explain_link },           { "mapping_index", explain_mapping },
                { "function_index", explain_function },   { "location_indices", explain_location },
                { "attribute_indices", explain_attribute },
        };

        for (size_t i = 0; i < ARRAY_SIZE(explanations) && raw->dictionary; i++)
                if (ends_with(field, explanations[i].end))
                        return explanations[i].explain;
        return NULL;
}

/* Fields */

static bool is_address(const char *field) {
        return !strcmp(field, "address") || !strcmp(field, "memory_start") ||
                !strcmp(field, "memory_limit") || !strcmp(field, "file_offset");
}

/* Whole numbers of any width as one; false for what is no whole number. */
static bool read_integer(ProtobufCType type, const void *data, int64_t *valuep) {
        switch (type) {
        case PROTOBUF_C_TYPE_INT32:
        case PROTOBUF_C_TYPE_SINT32:
        case PROTOBUF_C_TYPE_SFIXED32:
        case PROTOBUF_C_TYPE_ENUM:
                *valuep = *(const int32_t *)data;
                return true;
        case PROTOBUF_C_TYPE_UINT32:
        case PROTOBUF_C_TYPE_FIXED32:
                *valuep = *(const uint32_t *)data;
                return true;
        case PROTOBUF_C_TYPE_INT64:
        case PROTOBUF_C_TYPE_SINT64:
        case PROTOBUF_C_TYPE_SFIXED64:
        case PROTOBUF_C_TYPE_UINT64:
        case PROTOBUF_C_TYPE_FIXED64:
                *valuep = *(const int64_t *)data;
                return true;
        default:
                return false;
        }
}

static void print_scalar(const Raw *raw, const ProtobufCFieldDescriptor *field, const void *data) {
        const char *text;
        int64_t value;

        if (read_integer(field->type, data, &value)) {
                if (field->type == PROTOBUF_C_TYPE_UINT64 || field->type == PROTOBUF_C_TYPE_FIXED64)
                        fprintf(raw->out, is_address(field->name) ? "%#" PRIx64 : "%" PRIu64,
                                (uint64_t)value);
                else
                        fprintf(raw->out, "%" PRId64, value);
        } else if (field->type == PROTOBUF_C_TYPE_STRING) {
                text = *(char *const *)data;
                print_quoted(text ? text : "", text ? strlen(text) : 0, raw->out);
        } else if (field->type == PROTOBUF_C_TYPE_BYTES)
                print_bytes(data, raw->out);
        else if (field->type == PROTOBUF_C_TYPE_BOOL)
                fputs(*(const protobuf_c_boolean *)data ? "true" : "false", raw->out);
        else if (field->type == PROTOBUF_C_TYPE_DOUBLE)
                fprintf(raw->out, "%.17g", *(const double *)data);
        else if (field->type == PROTOBUF_C_TYPE_FLOAT)
                fprintf(raw->out, "%.9g", (double)*(const float *)data);
}

static void explain_time(const Raw *raw, uint64_t unix_nano) {
        time_t seconds = (time_t)(unix_nano / NS_PER_SEC);
        struct tm tm;
        char text[64];

        if (unix_nano && gmtime_r(&seconds, &tm) && strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm))
                fprintf(raw->out, "  # %s.%09u UTC", text, (unsigned)(unix_nano % NS_PER_SEC));
}

static void print_comment(const Raw *raw, const ProtobufCFieldDescriptor *field, const void *data, size_t n) {
        Explain explain = explanation_of(raw, field->name);
        int64_t value;

        if (!n || !read_integer(field->type, data, &value))
                return;
        if (ends_with(field->name, "_unix_nano"))
                explain_time(raw, (uint64_t)value);
        if (!explain)
                return;
        fputs("  # ", raw->out);
        for (size_t i = 0; i < MIN(n, (size_t)MAX_NAMED); i++) {
                read_integer(field->type, (const char *)data + i * field_value_size(field), &value);
                fputs(i ? ", " : "", raw->out);
                explain(raw, value);
        }
        if (n > MAX_NAMED)
                fputs(", …", raw->out);
}

static void print_message(const Raw *raw, const ProtobufCMessage *message, unsigned indent, unsigned nesting);

static void print_child(const Raw *raw, const ProtobufCMessage *message, unsigned indent, unsigned nesting) {
        fputs(":\n", raw->out);
        if (nesting == MAX_NESTING)
                fprintf(raw->out, "%*s(nested too deeply to be shown)\n", (int)indent + 2, "");
        else
                print_message(raw, message, indent + 2, nesting + 1);
}

static void print_list(const Raw *raw, const ProtobufCFieldDescriptor *field, const void *data, size_t n) {
        size_t size = field_value_size(field);

        fputs(": [", raw->out);
        for (size_t i = 0; i < n; i++) {
                fputs(i ? ", " : "", raw->out);
                print_scalar(raw, field, (const char *)data + i * size);
        }
        fputc(']', raw->out);
        print_comment(raw, field, data, n);
        fputc('\n', raw->out);
}

static void print_repeated(const Raw *raw, const ProtobufCMessage *message,
                           const ProtobufCFieldDescriptor *field, unsigned indent, unsigned nesting) {
        size_t n = *field_count(message, field);
        const void *data = *(void *const *)field_place(message, field);

        if (field->type != PROTOBUF_C_TYPE_MESSAGE && field->type != PROTOBUF_C_TYPE_STRING) {
                fprintf(raw->out, "%*s%s", (int)indent, "", field->name);
                print_list(raw, field, data, n);
                return;
        }
        if (!n)
                fprintf(raw->out, "%*s%s: []\n", (int)indent, "", field->name);
        for (size_t i = 0; i < n; i++) {
                fprintf(raw->out, "%*s%s[%zu]", (int)indent, "", field->name, i);
                if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
                        print_child(raw, ((ProtobufCMessage *const *)data)[i], indent, nesting);
                } else {
                        fputs(": ", raw->out);
                        print_scalar(raw, field, (char *const *)data + i);
                        fputc('\n', raw->out);
                }
        }
}

/*
 * A field of a oneof is there if the oneof says so; a message if it is not NULL; all else is always there
 * (proto3).
 */
static bool is_there(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field) {
        if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
                return *field_case(message, field) == field->id;
        if (field->type == PROTOBUF_C_TYPE_MESSAGE)
                return *(ProtobufCMessage *const *)field_place(message, field) != NULL;
        return true;
}

static void print_field(const Raw *raw, const ProtobufCMessage *message,
                        const ProtobufCFieldDescriptor *field, unsigned indent, unsigned nesting) {
        const void *data = field_place(message, field);

        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
                print_repeated(raw, message, field, indent, nesting);
                return;
        }
        if (!is_there(message, field))
                return;
        fprintf(raw->out, "%*s%s", (int)indent, "", field->name);
        if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
                print_child(raw, *(ProtobufCMessage *const *)data, indent, nesting);
                return;
        }
        fputs(": ", raw->out);
        print_scalar(raw, field, data);
        print_comment(raw, field, data, 1);
        fputc('\n', raw->out);
}

static void print_message(const Raw *raw, const ProtobufCMessage *message, unsigned indent,
                          unsigned nesting) {
        const ProtobufCMessageDescriptor *descriptor = message->descriptor;

        for (unsigned i = 0; i < descriptor->n_fields; i++)
                print_field(raw, message, &descriptor->fields[i], indent, nesting);
        for (unsigned i = 0; i < message->n_unknown_fields; i++) {
                const ProtobufCMessageUnknownField *field = &message->unknown_fields[i];

                fprintf(raw->out, "%*sunknown field %u, wire type %d: ", (int)indent, "",
                        (unsigned)field->tag, (int)field->wire_type);
                print_hex(field->data, field->len, raw->out);
                fputc('\n', raw->out);
        }
}

void raw_print(const OtlpRequest *request, unsigned indent, FILE *out) {
        Raw raw = { .dictionary = request->dictionary, .out = out };

        print_message(&raw, &request->base, indent, 0);
}
