/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Prints a message by the descriptors of protobuf-c: ids as hexadecimal, 64-bit numbers as strings, other
 * bytes as base64, in pieces that go to a sink.
 */

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "core/otlp/json-name.h"
#include "core/otlp/json.h"
#include "core/otlp/message-field.h"

enum { PIECE = 64 << 10 };

typedef struct Printer {
        Text *text;
        int pretty;
        int depth;
        OtlpJsonTake *on_piece;            /* NULL = all stays in @text */
        void *userdata;
        int r;                          /* result of @on_piece; not 0: nothing more is printed */
} Printer;

/* Hands on what is there, unless it is less than a piece and more may come. */
static void hand_on(Printer *printer, size_t least) {
        Text *text = printer->text;

        if (!printer->on_piece || printer->r || text->failed || text->size < least)
                return;
        printer->r = text->size ? printer->on_piece(text->data, text->size, printer->userdata) : 0;
        text->size = 0;
}

static void append(Printer *printer, const char *data, size_t size) {
        while (printer->on_piece && size > PIECE) {
                text_append(printer->text, data, PIECE);
                hand_on(printer, PIECE);
                data += PIECE;
                size -= PIECE;
                if (printer->r)
                        return;
        }
        text_append(printer->text, data, size);
        hand_on(printer, PIECE);
}

static bool is_over(const Printer *printer) {
        return printer->r || printer->text->failed;
}

static void put(Printer *printer, const char *text) {
        append(printer, text, strlen(text));
}

static void new_line(Printer *printer) {
        static const char blanks[] = "                                ";

        if (!printer->pretty)
                return;
        put(printer, "\n");
        for (size_t left = 2 * (size_t)printer->depth, n; left; left -= n) {
                n = MIN(left, sizeof(blanks) - 1);
                append(printer, blanks, n);
        }
}

static void print_name(Printer *printer, const char *name) {
        put(printer, "\"");
        for (; *name; name++) {
                char c = *name;

                if (c == '_' && name[1] >= 'a' && name[1] <= 'z')
                        c = (char)(*++name - 'a' + 'A');
                append(printer, &c, 1);
        }
        put(printer, printer->pretty ? "\": " : "\":");
}

/* Runs of plain bytes at once; RFC 8259 wants quotes, backslashes and controls escaped. */
static void print_plain(Printer *printer, const char *string, size_t size) {
        size_t from = 0;

        for (size_t i = 0; i < size && !is_over(printer); i++) {
                unsigned char c = (unsigned char)string[i];

                if (c >= 0x20 && c != '"' && c != '\\')
                        continue;
                append(printer, string + from, i - from);
                if (c < 0x20)
                        text_printf(printer->text, "\\u%04x", c);
                else
                        text_printf(printer->text, "\\%c", c);
                from = i + 1;
        }
        append(printer, string + from, size - from);
}

static void print_string(Printer *printer, const char *string) {
        size_t size = string ? strlen(string) : 0;

        put(printer, "\"");
        if (text_is_utf8(string, size)) {
                print_plain(printer, string, size);
        } else {        /* a foreign message may hold other bytes: JSON is UTF-8 */
                char *copy = malloc(3 * size + 1);

                if (copy)
                        print_plain(printer, copy, text_repair_utf8(copy, string, size));
                else
                        printer->text->failed = true;
                free(copy);
        }
        put(printer, "\"");
}

static void print_base64(Printer *printer, const ProtobufCBinaryData *data) {
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

        for (size_t i = 0; i < data->len && !is_over(printer); i += 3) {
                size_t n = data->len - i < 3 ? data->len - i : 3;
                uint32_t bits = (uint32_t)data->data[i] << 16;
                char group[4] = "====";

                bits |= n > 1 ? (uint32_t)data->data[i + 1] << 8 : 0;
                bits |= n > 2 ? data->data[i + 2] : 0;
                for (size_t j = 0; j <= n; j++)
                        group[j] = digits[bits >> (18 - 6 * j) & 63];
                append(printer, group, 4);
        }
}

static void print_bytes(Printer *printer, const ProtobufCFieldDescriptor *field,
                        const ProtobufCBinaryData *data) {
        put(printer, "\"");
        if (json_is_hex(field)) {
                for (size_t i = 0; i < data->len && !is_over(printer); i++) {
                        char hex[3];

                        text_to_hex(hex, data->data + i, 1);
                        put(printer, hex);
                }
        } else {
                print_base64(printer, data);
        }
        put(printer, "\"");
}

static void print_double(Printer *printer, double value) {
        if (isnan(value))
                put(printer, "\"NaN\"");
        else if (isinf(value))
                put(printer, value < 0 ? "\"-Infinity\"" : "\"Infinity\"");
        else
                text_printf(printer->text, "%.17g", value);
}

static void print_message(Printer *printer, const ProtobufCMessage *message);

static void print_value(Printer *printer, const ProtobufCFieldDescriptor *field, const void *at) {
        switch (field->type) {
        case PROTOBUF_C_TYPE_INT64:
        case PROTOBUF_C_TYPE_SINT64:
        case PROTOBUF_C_TYPE_SFIXED64:
                text_printf(printer->text, "\"%" PRId64 "\"", *(const int64_t *)at);
                break;
        case PROTOBUF_C_TYPE_UINT64:
        case PROTOBUF_C_TYPE_FIXED64:
                text_printf(printer->text, "\"%" PRIu64 "\"", *(const uint64_t *)at);
                break;
        case PROTOBUF_C_TYPE_UINT32:
        case PROTOBUF_C_TYPE_FIXED32:
                text_printf(printer->text, "%" PRIu32, *(const uint32_t *)at);
                break;
        case PROTOBUF_C_TYPE_DOUBLE:
                print_double(printer, *(const double *)at);
                break;
        case PROTOBUF_C_TYPE_BOOL:
                put(printer, *(const protobuf_c_boolean *)at ? "true" : "false");
                break;
        case PROTOBUF_C_TYPE_STRING:
                print_string(printer, *(char *const *)at);
                break;
        case PROTOBUF_C_TYPE_BYTES:
                print_bytes(printer, field, at);
                break;
        case PROTOBUF_C_TYPE_MESSAGE:
                print_message(printer, *(ProtobufCMessage *const *)at);
                break;
        default:
                text_printf(printer->text, "%" PRId32, *(const int32_t *)at);
        }
}

static void print_array(Printer *printer, const ProtobufCMessage *message,
                        const ProtobufCFieldDescriptor *field) {
        const uint8_t *values = *(uint8_t **)field_place(message, field);
        size_t n = *field_count(message, field), size = field_value_size(field);

        put(printer, "[");
        printer->depth++;
        for (size_t i = 0; i < n && !is_over(printer); i++) {
                if (i)
                        put(printer, ",");
                new_line(printer);
                print_value(printer, field, values + i * size);
        }
        printer->depth--;
        new_line(printer);
        put(printer, "]");
}

/* Zero values are left out; a member of a oneof that is set, and a message that is there, are not. */
static bool is_set(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field) {
        static const uint8_t zero[sizeof(ProtobufCBinaryData)];
        const void *at = field_place(message, field);

        if (field->label == PROTOBUF_C_LABEL_REPEATED)
                return *field_count(message, field) != 0;
        if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
                return *field_case(message, field) == field->id;
        if (field->type == PROTOBUF_C_TYPE_STRING)
                return *(char *const *)at && **(char *const *)at;
        if (field->type == PROTOBUF_C_TYPE_BYTES)
                return ((const ProtobufCBinaryData *)at)->len != 0;
        return memcmp(at, zero, field_value_size(field)) != 0;
}

static void print_message(Printer *printer, const ProtobufCMessage *message) {
        const char *comma = "";

        if (!message) {
                put(printer, "{}");
                return;
        }
        put(printer, "{");
        printer->depth++;
        for (unsigned i = 0; i < message->descriptor->n_fields && !is_over(printer); i++) {
                const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];

                if (!is_set(message, field))
                        continue;
                put(printer, comma);
                new_line(printer);
                print_name(printer, field->name);
                if (field->label == PROTOBUF_C_LABEL_REPEATED)
                        print_array(printer, message, field);
                else
                        print_value(printer, field, field_place(message, field));
                comma = ",";
        }
        printer->depth--;
        if (*comma)
                new_line(printer);
        put(printer, "}");
}

void otlp_json_print(Text *text, const ProtobufCMessage *message, int pretty) {
        Printer printer = { .text = text, .pretty = pretty };

        print_message(&printer, message);
}

int otlp_json_write(const ProtobufCMessage *message, int pretty, OtlpJsonTake *on_piece, void *userdata) {
        _cleanup_(text_deinit) Text text = { 0 };
        Printer printer = { .text = &text, .pretty = pretty, .on_piece = on_piece, .userdata = userdata };

        print_message(&printer, message);
        hand_on(&printer, 0);
        return text.failed ? error_origin(-ENOMEM) : printer.r;
}
