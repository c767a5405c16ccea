/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Methods of spanprof.otel.Native
 *
 * This library implements them and links the SDK's writer (sdk/src/otel.c) in. Nothing of a JDK is needed to
 * compile this: numbers come and go as they are, and bytes by two functions of the table that an environment
 * begins with (JNI specification, chapter 4: their places have never changed).
 */
#include <pthread.h>
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
        MAX_TEXT = SPANPROF_OTEL_MAX_NAME + 4,  /* enough to see where the last character ends */
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

static struct named_ids named_ids(int64_t high, int64_t low, int64_t span, int64_t root, int64_t number) {
        return (struct named_ids){ { (uint64_t)high, (uint64_t)low, (uint64_t)span },
                                   (struct root *)(uintptr_t)root,
                                   (uint64_t)number };
}

JNI(void, set(void *environment, void *class, int64_t trace_high, int64_t trace_low, int64_t span,
              int64_t root, int64_t number)) {
        struct named_ids named = named_ids(trace_high, trace_low, span, root, number);

        (void)environment, (void)class;
        named_ids_set(&named);
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
                     int64_t span, int64_t root, int64_t number)) {
        struct named_ids named = named_ids(trace_high, trace_low, span, root, number);

        (void)environment, (void)class;
        virtual_set(thread, &named);
}

JNI(void, clearVirtual(void *environment, void *class)) {
        (void)environment, (void)class;
        virtual_clear();
}

/* ---- roots ---- */

/* Roots that have ended, the oldest first: an address is used again as late as can be. */
static pthread_mutex_t roots_lock = PTHREAD_MUTEX_INITIALIZER;
static struct root *free_first, **free_last = &free_first;
static size_t n_free;

enum { MIN_FREE = 256 };        /* before one of them is used again */

static struct root *take_root(void) {
        struct root *root = NULL;

        pthread_mutex_lock(&roots_lock);
        if (n_free > MIN_FREE) {
                root = free_first;
                free_first = root->next;
                n_free--;
        }
        pthread_mutex_unlock(&roots_lock);
        return root ? root : calloc(1, sizeof(*root));
}

/* @to: the first bytes of an array, of which no more than a name are needed. Return: how many. */
static size_t get_text(void *environment, void *array, char to[static MAX_TEXT]) {
        const char *table = *(char **)environment;
        GetLength get_length;
        GetBytes get_bytes;
        int32_t n;

        memcpy(&get_length, table + JNI_GET_ARRAY_LENGTH * sizeof(get_length), sizeof(get_length));
        memcpy(&get_bytes, table + JNI_GET_BYTE_ARRAY_REGION * sizeof(get_bytes), sizeof(get_bytes));
        n = get_length(environment, array);
        n = n > MAX_TEXT ? MAX_TEXT : n;
        if (n > 0)
                get_bytes(environment, array, 0, n, to);
        return n > 0 ? (size_t)n : 0;
}

static void name_root(void *environment, struct root *root, void *name, void *route) {
        char texts[2][MAX_TEXT];
        size_t name_size = get_text(environment, name, texts[0]);
        size_t route_size = get_text(environment, route, texts[1]);

        spanprof_otel_name(&root->root, texts[0], name_size, texts[1], route_size);
}

JNI(int64_t, beginRoot(void *environment, void *class, void *name, void *route)) {
        struct root *root = take_root();

        (void)class;
        if (root)
                name_root(environment, root, name, route);
        return (intptr_t)root;
}

JNI(int64_t, numberOf(void *environment, void *class, int64_t root)) {
        (void)environment, (void)class;
        return (int64_t)((struct root *)(uintptr_t)root)->root.number;
}

JNI(void, nameRoot(void *environment, void *class, int64_t root, void *name, void *route)) {
        (void)class;
        if (root)
                name_root(environment, (struct root *)(uintptr_t)root, name, route);
}

JNI(void, endRoot(void *environment, void *class, int64_t address)) {
        struct root *root = (struct root *)(uintptr_t)address;

        (void)environment, (void)class;
        if (!root)
                return;
        __atomic_store_n(&root->root.number, 0, __ATOMIC_RELEASE);
        root->root.name = NULL;
        root->root.thread = NULL;
        root->next = NULL;
        pthread_mutex_lock(&roots_lock);
        *(free_first ? free_last : &free_first) = root;
        free_last = &root->next;
        n_free++;
        pthread_mutex_unlock(&roots_lock);
}

JNI(int64_t, namesRefused(void *environment, void *class)) {
        (void)environment, (void)class;
        return (int64_t)spanprof_otel_names_refused();
}

/* ---- the process ---- */

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
