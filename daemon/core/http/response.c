/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Finds a message in an answer without building a tree: the first key of that name in JSON, or one field in
 * protobuf. Any other body is the message itself, as one line.
 */

#include "core/http/response.h"

#include <string.h>
#include <strings.h>

#include "core/base/data/protobuf.h"
#include "core/base/file/gzip.h"
#include "core/base/util/macro.h"
#include "core/base/util/text.h"

enum {
        RESPONSE_PARTIAL_SUCCESS = 1,   /* ExportProfilesServiceResponse */
        PARTIAL_REJECTED = 1,           /* ExportProfilesPartialSuccess */
        PARTIAL_MESSAGE = 2,
        STATUS_MESSAGE = 2,             /* google.rpc.Status */
};

void response_clean(char *to, size_t room, const char *text, size_t size) {
        char repaired[3 * RESPONSE_MESSAGE_MAX + 1];
        size_t n;

        while (size && strchr(" \t\r\n", text[size - 1]))
                size--;
        n = text_repair_utf8(repaired, text, MIN(size, (size_t)RESPONSE_MESSAGE_MAX));
        for (size_t i = 0; i < n; i++)
                if (strchr("\t\r\n", repaired[i]))     /* several lines become one; NUL there is none */
                        repaired[i] = ' ';
        text_mask(repaired);
        n = text_cut_utf8(repaired, room - 1);
        memcpy(to, repaired, n);
        to[n] = 0;
}

static void take_message(Response *response, const uint8_t *data, size_t size) {
        response_clean(response->message, sizeof(response->message), (const char *)data, size);
}

static bool is_json(const char *content_type, const uint8_t *data, size_t size) {
        if (!strncasecmp(content_type, "application/json", 16))
                return true;
        /* 0x7B is no field that either message has: a JSON body under a wrong name */
        return strncasecmp(content_type, "application/x-protobuf", 22) && size && data[0] == '{';
}

/*
 * JSON without a tree: the value behind the first `"key":` that stands outside other strings. Enough for
 * two flat messages, and nothing in them can make it nest or allocate.
 */
static const char *skip_string(const char *p, const char *end) {
        for (p++; p < end && *p != '"'; p++)
                if (*p == '\\')
                        p++;
        return p < end ? p + 1 : end;
}

static const char *skip_blanks(const char *p, const char *end) {
        while (p < end && strchr(" \t\r\n", *p))
                p++;
        return p;
}

static const char *json_find(const char *p, const char *end, const char *key) {
        size_t length = strlen(key);

        while (p < end) {
                const char *start = p;

                if (*p != '"') {
                        p++;
                        continue;
                }
                p = skip_string(p, end);
                if ((size_t)(p - start) != length + 2 || memcmp(start + 1, key, length))
                        continue;
                p = skip_blanks(p, end);
                if (p < end && *p == ':')
                        return skip_blanks(p + 1, end);
        }
        return NULL;
}

/* \uXXXX is shown as it stands: this is for a log line. */
static char unescape(char c) {
        return strchr("nrtbf", c) ? ' ' : c;
}

static void json_message(Response *response, const char *text, const char *end, const char *key) {
        const char *p = json_find(text, end, key);
        char line[RESPONSE_MESSAGE_MAX];
        size_t n = 0;

        if (!p || p == end || *p != '"')
                return;
        for (p++; p < end && *p != '"' && n < sizeof(line); p++) {
                if (*p == '\\' && p + 1 < end && p[1] != 'u' && p[1]) {
                        p++;
                        line[n++] = unescape(*p);
                } else
                        line[n++] = *p;
        }
        take_message(response, (const uint8_t *)line, n);
}

static void json_success(Response *response, const char *text, const char *end) {
        const char *p = json_find(text, end, "rejectedProfiles");
        char digits[24];
        size_t n = 0;

        json_message(response, text, end, "errorMessage");
        p = p && p < end && *p == '"' ? p + 1 : p;      /* 64-bit numbers are strings in OTLP/JSON */
        for (; p && p < end && *p >= '0' && *p <= '9' && n < sizeof(digits) - 1; p++)
                digits[n++] = *p;
        digits[n] = 0;
        if (n && text_u64(digits, INT64_MAX, &response->n_rejected))
                response->malformed = true;
        text = skip_blanks(text, end);
        if (text == end || *text != '{')
                response->malformed = true;
}

static void partial_success(Response *response, const uint8_t *data, size_t size) {
        Cursor cursor = cursor_make(data, size);
        Field field;

        while (field_next(&cursor, &field))
                if (field.number == PARTIAL_REJECTED && field.wire == WIRE_VARINT)
                        response->n_rejected = (int64_t)field.value > 0 ? field.value : 0;
                else if (field.number == PARTIAL_MESSAGE && field.wire == WIRE_BYTES)
                        take_message(response, field.data, field.size);
        response->malformed |= cursor.failed;
}

void response_read_success(Response *response, const char *content_type, const uint8_t *data, size_t size) {
        Cursor cursor = cursor_make(data, size);
        Field field;

        *response = (Response){ 0 };
        /* A page that greets browsers is never a reply, whatever its bytes could be read as. */
        if (size && !strncasecmp(content_type, "text/html", 9)) {
                response->malformed = true;
                return;
        }
        if (is_json(content_type, data, size)) {
                if (size)
                        json_success(response, (const char *)data, (const char *)data + size);
                return;
        }
        while (field_next(&cursor, &field))
                if (field.number == RESPONSE_PARTIAL_SUCCESS && field.wire == WIRE_BYTES)
                        partial_success(response, field.data, field.size);
        response->malformed |= cursor.failed;
        /* A half-read reply must not turn delivered samples into rejected ones. */
        if (response->malformed)
                *response = (Response){ .malformed = true };
}

/* Whether the fields are those of a Status and all of the body is read. */
static bool status_message(Response *response, const uint8_t *data, size_t size) {
        Cursor cursor = cursor_make(data, size);
        Field field, message = { 0 };

        while (field_next(&cursor, &field))
                if (field.number == STATUS_MESSAGE && field.wire == WIRE_BYTES)
                        message = field;
        if (cursor.failed || !message.data || !text_is_utf8((const char *)message.data, message.size))
                return false;
        take_message(response, message.data, message.size);
        return true;
}

void response_read_error(Response *response, const char *content_type, const uint8_t *data, size_t size) {
        *response = (Response){ 0 };
        if (is_json(content_type, data, size)) {
                json_message(response, (const char *)data, (const char *)data + size, "message");
                if (!response->message[0])
                        json_message(response, (const char *)data, (const char *)data + size, "error");
                if (response->message[0])
                        return;
        } else if (strncasecmp(content_type, "text/", 5) && status_message(response, data, size))
                return;
        /* Pages made for browsers say nothing in a line. */
        if (!strncasecmp(content_type, "text/html", 9) || !text_is_utf8((const char *)data, size))
                return;
        take_message(response, data, size);
}

typedef struct Body {
        const uint8_t *data;
        size_t size;
        uint8_t *expanded;
        bool whole;
} Body;

static Body body_of(const HttpReply *reply) {
        Body body = { .data = reply->body, .size = reply->body_size, .whole = !reply->cut };

        if (!reply->gzip)
                return body;
        body.whole = body.whole && !gzip_expand(reply->body, reply->body_size, HTTP_BODY_MAX, &body.expanded,
                                                &body.size);
        body.data = body.expanded;
        body.size = body.expanded ? body.size : 0;
        return body;
}

void response_read_reply(Response *response, const HttpReply *reply) {
        Body body = body_of(reply);

        if (reply->status >= 300)
                response_read_error(response, reply->content_type, body.data, body.size);
        else if (body.whole)
                response_read_success(response, reply->content_type, body.data, body.size);
        else
                /* the rest cannot be read */
                *response = (Response){ .malformed = true };
        /* a page for browsers is none of ours even if it is cut */
        response->is_other = reply->status < 300 && response->malformed &&
                (body.whole || !strncasecmp(reply->content_type, "text/html", 9));
        free(body.expanded);
}

bool response_says(const HttpReply *reply, const char *words) {
        Body body = body_of(reply);
        bool says = body.size && memmem(body.data, body.size, words, strlen(words));

        free(body.expanded);
        return says;
}
