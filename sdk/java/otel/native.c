/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What spanprof.otel.Native calls
 *
 * The SDK's writer (sdk/src/otel.c) is linked in. Nothing of a JDK is needed to compile this: numbers come
 * and go as they are, and bytes by two functions of the table that an environment begins with (JNI
 * specification, chapter 4: their places have never changed).
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "spanprof/otel.h"
#include "virtual.h"

enum {
        JNI_VERSION = 0x00010006,
        JNI_GET_ARRAY_LENGTH = 171,
        JNI_GET_BYTE_ARRAY_REGION = 200,
        MAX_ATTRIBUTES = 128,
        MAX_BYTES = 64 << 10,
};

#define JNI(type, name) \
        SPANPROF_PUBLIC type Java_spanprof_otel_Native_##name; \
        type Java_spanprof_otel_Native_##name

static void *vm;

/* Called by the JVM when Java has loaded this, and when the class that did is garbage. */
SPANPROF_PUBLIC int32_t JNI_OnLoad(void *loaded_by, void *reserved);
SPANPROF_PUBLIC int32_t JNI_OnLoad(void *loaded_by, void *reserved) {
        (void)reserved;
        vm = loaded_by;
        return JNI_VERSION;
}

SPANPROF_PUBLIC void JNI_OnUnload(void *unloaded_by, void *reserved);
SPANPROF_PUBLIC void JNI_OnUnload(void *unloaded_by, void *reserved) {
        (void)unloaded_by, (void)reserved;
        virtual_unwatch();
}

typedef int32_t (*GetLength)(void *environment, void *array);
typedef void (*GetBytes)(void *environment, void *array, int32_t from, int32_t n, void *to);

JNI(void, set(void *environment, void *class, int64_t trace_high, int64_t trace_low, int64_t span)) {
        (void)environment, (void)class;
        spanprof_otel_set((uint64_t)trace_high, (uint64_t)trace_low, (uint64_t)span);
}

JNI(void, clear(void *environment, void *class)) {
        (void)environment, (void)class;
        spanprof_otel_clear();
}

JNI(int32_t, watchVirtual(void *environment, void *class)) {
        (void)environment, (void)class;
        return virtual_watch(vm);
}

JNI(int32_t, confirmVirtual(void *environment, void *class)) {
        (void)environment, (void)class;
        return virtual_confirm();
}

JNI(void, setVirtual(void *environment, void *class, void *thread, int64_t trace_high, int64_t trace_low,
                     int64_t span)) {
        (void)environment, (void)class;
        virtual_set(thread, (uint64_t)trace_high, (uint64_t)trace_low, (uint64_t)span);
}

JNI(void, clearVirtual(void *environment, void *class)) {
        (void)environment, (void)class;
        virtual_clear();
}

/* @texts: key, value, key, value …, each with a zero behind it. Return: 0, or a negative errno. */
static int publish(char *texts, size_t size) {
        struct spanprof_otel_attribute resource[MAX_ATTRIBUTES];
        struct spanprof_otel_process process = { .size = sizeof(process), .attributes = resource };
        const char *parts[2];
        char *end = texts + size;

        while (texts < end && process.n_attributes < MAX_ATTRIBUTES) {
                for (int i = 0; i < 2; i++) {
                        size_t length = strnlen(texts, (size_t)(end - texts));

                        if (length == (size_t)(end - texts))
                                return spanprof_otel_publish(&process);
                        parts[i] = texts;
                        texts += length + 1;
                }
                resource[process.n_attributes++] = (struct spanprof_otel_attribute){ parts[0], parts[1] };
        }
        return spanprof_otel_publish(&process);
}

JNI(int32_t, publish(void *environment, void *class, void *bytes)) {
        const char *table = *(char **)environment;
        GetLength get_length;
        GetBytes get_bytes;
        int32_t n, r;
        char *texts;

        (void)class;
        memcpy(&get_length, table + JNI_GET_ARRAY_LENGTH * sizeof(get_length), sizeof(get_length));
        memcpy(&get_bytes, table + JNI_GET_BYTE_ARRAY_REGION * sizeof(get_bytes), sizeof(get_bytes));
        n = get_length(environment, bytes);
        if (n < 0 || n > MAX_BYTES)
                return -1;
        texts = malloc((size_t)n + 1);
        if (!texts)
                return -1;
        get_bytes(environment, bytes, 0, n, texts);
        r = publish(texts, (size_t)n);
        free(texts);
        return r;
}
