/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Keys are spanprof's own, those of Datadog's and Pyroscope's profilers, and OpenTelemetry's: the name of the
 * entry span says more than its route alone, since it has the method (semantic conventions for HTTP spans).
 */

#include "core/profile/operation.h"

#include <string.h>

const char *const operation_keys[OPERATION_N_KEYS] = {
        "operation", "endpoint",   "trace.endpoint", "trace endpoint", "_dd.trace.operation", "span.name",
        "span_name", "http.route", "url.template",   "rpc.method",     "url.path",
};

size_t operation_key_place(const char *key, size_t size) {
        size_t i;

        for (i = 0; i < OPERATION_N_KEYS; i++)
                if (strlen(operation_keys[i]) == size && !memcmp(operation_keys[i], key, size))
                        break;
        return i;
}

bool operation_of_set(const Window *window, uint32_t set, uint32_t *attributep) {
        size_t n, best = OPERATION_N_KEYS;
        const uint32_t *attributes = window_get_attribute_set(window, set, &n);

        for (size_t i = 0; i < n; i++) {
                const WindowAttribute *attribute = window_get_attribute(window, attributes[i]);
                size_t size, place;
                const char *key = window_get_string(window, attribute->key, &size), *value;

                place = operation_key_place(key, size);
                value = attribute->kind == ATTRIBUTE_STRING
                        ? window_get_string(window, attribute->string, NULL)
                        : "";
                if (place < best && *value) {
                        best = place;
                        *attributep = attributes[i];
                }
        }
        return best < OPERATION_N_KEYS;
}
