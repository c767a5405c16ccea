/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Record of a Thread, in the Hands of JavaScript
 *
 * Each thread of JavaScript (the main one, workers) gets two views of memory, once, and writes by itself:
 *
 *     pointer     otel_thread_ctx_v1 of this thread, as one number of 8 bytes: the record's address, or 0
 *     record      what it leads to: ids, valid, flags, size (spanprof/thread.h), with room for a name
 *
 * A change of the span is then a few stores of compiled JavaScript. A call into C would cost more than all of
 * them. The pointer is a double there, because a double is the one kind of array element that is stored
 * whole, in one instruction, without an object of its own: its bits are the address.
 *
 * The record belongs to the isolate of V8. It goes away with it, so the pointer is cleared before.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NAPI_VERSION 8
#include <node_api.h>

#include "backend.h"
#include "spanprof/otel.h"
#include "spanprof/thread.h"

enum { MAX_RESOURCE = 128 };            /* attributes that readers take */

extern SPANPROF_PUBLIC _Thread_local struct spanprof_thread_record *otel_thread_ctx_v1 BACKEND_TLS;

static bool was_published;              /* the process context: the first thread that has one says it */

static void detach(void *unused) {
        (void)unused;
        otel_thread_ctx_v1 = NULL;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static napi_value fail(napi_env env, const char *why) {
        bool pending = false;

        napi_is_exception_pending(env, &pending);
        if (!pending)
                napi_throw_error(env, NULL, why);
        return NULL;
}

/* attach() → { pointer: ArrayBuffer, record: ArrayBuffer, address: the double that pointer is to have } */
static napi_value attach(napi_env env, napi_callback_info info) {
        napi_value result, pointer, record, address;
        size_t size = sizeof(struct spanprof_thread_record) + OTEL_NAME_ROOM;
        void *memory;
        uint64_t bits;
        double number;
        napi_ref kept;

        (void)info;
        if (otel_thread_ctx_v1)
                return fail(env, "another publisher is at work in this thread");
        if (napi_create_arraybuffer(env, size, &memory, &record) ||
            napi_create_reference(env, record, 1, &kept))
                return fail(env, "no memory for the record");
        if (napi_create_external_arraybuffer(env, &otel_thread_ctx_v1, sizeof(otel_thread_ctx_v1), NULL, NULL,
                                             &pointer))
                return fail(env, "this runtime lets JavaScript write no memory of others (Electron?)");
        memset(memory, 0, size);
        bits = (uintptr_t)memory;
        memcpy(&number, &bits, sizeof(number));
        if (napi_add_env_cleanup_hook(env, detach, NULL) || napi_create_object(env, &result) ||
            napi_create_double(env, number, &address) ||
            napi_set_named_property(env, result, "pointer", pointer) ||
            napi_set_named_property(env, result, "record", record) ||
            napi_set_named_property(env, result, "address", address))
                return fail(env, "no memory");
        return result;
}

/* Return: a copy of a string of @array, or NULL: there is none, or no memory. */
static char *copy_text(napi_env env, napi_value array, uint32_t at) {
        napi_value value;
        size_t size;
        char *text;

        if (napi_get_element(env, array, at, &value) ||
            napi_get_value_string_utf8(env, value, NULL, 0, &size))
                return NULL;
        text = malloc(size + 1);
        if (text && napi_get_value_string_utf8(env, value, text, size + 1, &size)) {
                free(text);
                return NULL;
        }
        return text;
}

/* publishProcess([key, value, key, value …]): all strings; the first call of the process counts. */
static napi_value publish_process(napi_env env, napi_callback_info info) {
        struct spanprof_otel_attribute resource[MAX_RESOURCE];
        struct spanprof_otel_process process = { .size = sizeof(process), .attributes = resource };
        char *texts[2 * MAX_RESOURCE];
        uint32_t n = 0, n_texts = 0;
        size_t n_arguments = 1;
        napi_value array;
        int r = 0;

        if (napi_get_cb_info(env, info, &n_arguments, &array, NULL, NULL) ||
            napi_get_array_length(env, array, &n))
                return fail(env, "not an array");
        if (__atomic_exchange_n(&was_published, true, __ATOMIC_ACQ_REL))
                return NULL;
        while (n_texts + 2 <= n && process.n_attributes < MAX_RESOURCE) {
                char *key = copy_text(env, array, n_texts);
                char *value = copy_text(env, array, n_texts + 1);

                texts[n_texts] = key;
                texts[n_texts + 1] = value;
                n_texts += 2;
                if (key && value)
                        resource[process.n_attributes++] = (struct spanprof_otel_attribute){ key, value };
        }
        r = spanprof_otel_publish(&process);
        while (n_texts)
                free(texts[--n_texts]);
        return r < 0 ? fail(env, strerror(-r)) : NULL;
}

/* Enough of a text for name.c to see where the last character ends that fits. */
enum { MAX_TEXT = SPANPROF_OTEL_MAX_NAME + 4 };

static bool get_text(napi_env env, napi_value value, char to[static MAX_TEXT + 1], size_t *size) {
        return napi_get_value_string_utf8(env, value, to, MAX_TEXT + 1, size) == napi_ok;
}

/* name(name, route) → ArrayBuffer of the attributes, as they lie in a record; null = there are too many */
static napi_value name(napi_env env, napi_callback_info info) {
        const struct spanprof_otel_name *found;
        char texts[2][MAX_TEXT + 1];
        napi_value arguments[2], result;
        size_t n = 2, sizes[2];
        void *bytes;

        if (napi_get_cb_info(env, info, &n, arguments, NULL, NULL) || n != 2 ||
            !get_text(env, arguments[0], texts[0], &sizes[0]) ||
            !get_text(env, arguments[1], texts[1], &sizes[1]))
                return fail(env, "not two strings");
        found = otel_name(texts[0], sizes[0], texts[1], sizes[1]);
        if (!found)
                return napi_get_null(env, &result) ? NULL : result;
        if (napi_create_arraybuffer(env, found->size, &bytes, &result))
                return fail(env, "no memory");
        memcpy(bytes, found->bytes, found->size);
        return result;
}

static napi_value names_refused(napi_env env, napi_callback_info info) {
        napi_value result;

        (void)info;
        return napi_create_double(env, (double)spanprof_otel_names_refused(), &result) ? NULL : result;
}

NAPI_MODULE_INIT() {
        static const napi_property_descriptor functions[] = {
                { .utf8name = "attach", .method = attach },
                { .utf8name = "publishProcess", .method = publish_process },
                { .utf8name = "name", .method = name },
                { .utf8name = "namesRefused", .method = names_refused },
        };

        return napi_define_properties(env, exports, sizeof(functions) / sizeof(*functions), functions) ?
                       fail(env, "no memory") :
                       exports;
}
