/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Native methods of ThreadContext.java
 *
 * Names and types follow the Java Native Interface, but nothing of a JDK is needed to compile it: numbers
 * come and go as they are, and the one text by two functions of the table that an environment begins with
 * (JNI specification, chapter 4: their places have never changed).
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "spanprof/context-api.h"

enum {
        JNI_GET_STRING_UTF_CHARS = 169,
        JNI_RELEASE_STRING_UTF_CHARS = 170,
};

#define JNI(type, name) \
        SPANPROF_PUBLIC type Java_spanprof_ThreadContext_##name; \
        type Java_spanprof_ThreadContext_##name

typedef const char *(*GetText)(void *environment, void *string, uint8_t *is_copy);
typedef void (*ReleaseText)(void *environment, void *string, const char *text);

JNI(uint8_t, initialize0(void *environment, void *class, void *arguments)) {
        const char *text = NULL;
        ReleaseText release;
        GetText get;
        bool ready;

        memcpy(&get, *(char **)environment + JNI_GET_STRING_UTF_CHARS * sizeof(get), sizeof(get));
        memcpy(&release, *(char **)environment + JNI_RELEASE_STRING_UTF_CHARS * sizeof(release),
               sizeof(release));
        if (arguments)
                text = get(environment, arguments, NULL);
        ready = spanprof_api_initialize(text);
        if (text)
                release(environment, arguments, text);
        return ready;
}

JNI(void, shutdown0(void *environment, void *class)) {
        spanprof_api_shutdown();
}

JNI(uint8_t, isInitialized0(void *environment, void *class)) {
        return spanprof_api_is_initialized();
}

JNI(int32_t, mode0(void *environment, void *class)) {
        return (int32_t)spanprof_api_get_mode();
}

JNI(int64_t, put0(void *environment, void *class, int64_t span, int64_t root_span)) {
        spanprof_api_set((uint64_t)span, (uint64_t)root_span);
        return (int64_t)spanprof_api_checksum((uint64_t)span, (uint64_t)root_span);
}

JNI(void, setOtel0(void *environment, void *class, int64_t trace_high, int64_t trace_low, int64_t span)) {
        spanprof_context_set((uint64_t)trace_high, (uint64_t)trace_low, (uint64_t)span);
}

JNI(int64_t, getSpanId0(void *environment, void *class)) {
        uint64_t span = 0, root_span;

        return spanprof_api_get(&span, &root_span) ? (int64_t)span : 0;
}

JNI(int64_t, getRootSpanId0(void *environment, void *class)) {
        uint64_t span, root_span = 0;

        return spanprof_api_get(&span, &root_span) ? (int64_t)root_span : 0;
}

JNI(uint8_t, setTag0(void *environment, void *class, int32_t index, int32_t value)) {
        return spanprof_api_set_tag((unsigned int)index, (uint32_t)value) == 0;
}

JNI(int32_t, getTag0(void *environment, void *class, int32_t index)) {
        return (int32_t)spanprof_api_get_tag((unsigned int)index);
}

JNI(void, clear0(void *environment, void *class)) {
        spanprof_context_clear();
}
