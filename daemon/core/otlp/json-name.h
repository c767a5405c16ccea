/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Names of fields, and which bytes are hex: the JSON printer and reader share them. */

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <string.h>

/* Whether @json is @name (time_unix_nano) in lowerCamelCase (timeUnixNano). */
static inline bool json_name_equals(const char *name, const char *json) {
        for (; *name; name++, json++) {
                char c = *name;

                if (c == '_' && name[1] >= 'a' && name[1] <= 'z')
                        c = (char)(*++name - 'a' + 'A');
                if (c != *json)
                        return false;
        }
        return !*json;
}

/* OTLP's exception to protobuf's JSON: ids are hex, other bytes base64. */
static inline bool json_is_hex(const ProtobufCFieldDescriptor *field) {
        return !strcmp(field->name, "trace_id") || !strcmp(field->name, "span_id") ||
               !strcmp(field->name, "parent_span_id") || !strcmp(field->name, "profile_id");
}
