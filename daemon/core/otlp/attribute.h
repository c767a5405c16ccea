/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Attribute values of a window as AnyValue. Plain values always, no string indexes:
 * older readers lose those.
 */

#include <string.h>

#include "core/otlp/messages.h"
#include "core/profile/window.h"

/* @value points into the window. */
static inline void otlp_fill_value(const Window *window, const WindowAttribute *attribute,
                                   OtlpAnyValue *value) {
        *value = (OtlpAnyValue)OTLP_ANY_VALUE_INIT;
        switch (attribute->kind) {
        case ATTRIBUTE_INT:
                value->value_case = OTLP_ANY_INT;
                value->int_value = attribute->integer;
                break;
        case ATTRIBUTE_BOOL:
                value->value_case = OTLP_ANY_BOOL;
                value->bool_value = attribute->integer != 0;
                break;
        case ATTRIBUTE_DOUBLE:
                value->value_case = OTLP_ANY_DOUBLE;
                memcpy(&value->double_value, &attribute->integer, sizeof(value->double_value));
                break;
        default:
                value->value_case = OTLP_ANY_STRING;
                value->string_value = (char *)window_get_string(window, attribute->string, NULL);
        }
}
