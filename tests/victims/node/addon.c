/* SPDX-License-Identifier: Apache-2.0 */

/*
 * An addon for node, for victim-joins.js: `spins(n)` computes, `calls(function, n)` calls a function of
 * JavaScript. Node's own functions are declared here, so that no header of it is needed.
 */

#include <stddef.h>
#include <stdint.h>

typedef void *Value;
typedef Value (*Callback)(void *env, void *info);

int napi_create_function(void *env, const char *name, size_t length, Callback callback, void *data,
                         Value *value);
int napi_set_named_property(void *env, Value object, const char *name, Value value);
int napi_get_cb_info(void *env, void *info, size_t *np, Value *arguments, Value *this, void **data);
int napi_get_undefined(void *env, Value *value);
int napi_call_function(void *env, Value this, Value function, size_t n, const Value *arguments, Value *value);
int napi_get_value_uint32(void *env, Value value, uint32_t *to);

volatile uint32_t addon_total;

__attribute__((__noinline__)) void addon_computes(uint32_t n) {
        for (uint32_t i = 0; i < n; i++)
                addon_total = addon_total * 31 + i;
}

__attribute__((__noinline__)) Value addon_spins(void *env, void *info) {
        Value arguments[1], nothing = NULL;
        uint32_t number = 0;
        size_t n = 1;

        napi_get_cb_info(env, info, &n, arguments, NULL, NULL);
        napi_get_value_uint32(env, arguments[0], &number);
        addon_computes(number);
        napi_get_undefined(env, &nothing);
        return nothing;
}

__attribute__((__noinline__)) Value addon_calls(void *env, void *info) {
        Value arguments[2], nothing = NULL, said = NULL;
        size_t n = 2;

        napi_get_cb_info(env, info, &n, arguments, NULL, NULL);
        napi_get_undefined(env, &nothing);
        napi_call_function(env, nothing, arguments[0], 1, &arguments[1], &said);
        return said ? said : nothing;
}

Value napi_register_module_v1(void *env, Value exports) {
        Value spins = NULL, calls = NULL;

        napi_create_function(env, "spins", (size_t)-1, addon_spins, NULL, &spins);
        napi_create_function(env, "calls", (size_t)-1, addon_calls, NULL, &calls);
        napi_set_named_property(env, exports, "spins", spins);
        napi_set_named_property(env, exports, "calls", calls);
        return exports;
}
