/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The Part of the JVM's Tool Interface That virtual.c Calls
 *
 * JVM(TM) Tool Interface 21, as each JDK has it in include/jvmti.h: numbers of functions, events and
 * capabilities have never changed, new ones come behind. tests/interop/jvmti-places.c compares.
 */

#include <stdint.h>
#include <string.h>

enum {
        JVMTI_VERSION = 0x30150000,             /* the version of Java 21 */
        JVMTI_ENABLE = 1,
        JVMTI_EVENT_VIRTUAL_THREAD_END = 88,
        JVMTI_FIRST_EVENT = 50,
        JNI_INVOKE_GET_ENV = 6,                 /* place in the table of the invocation interface */
};

/* The 45th of the capabilities' bits, in the order of the compiler. */
#define JVMTI_CAN_SUPPORT_VIRTUAL_THREADS { [5] = 1U << 4 }

typedef struct Jvmti {
        const struct JvmtiFunctions *functions;
} Jvmti;

typedef struct JvmtiCapabilities {
        uint8_t bits[16];
} JvmtiCapabilities;

typedef struct JvmtiCallbacks {
        void *skipped[JVMTI_EVENT_VIRTUAL_THREAD_END - JVMTI_FIRST_EVENT];
        void (*virtual_thread_end)(Jvmti *environment, void *jni, void *thread);
} JvmtiCallbacks;

typedef struct JvmtiParameter {
        char *name;
        int32_t kind, type;
        uint8_t null_ok;
} JvmtiParameter;

typedef struct JvmtiExtensionEvent {
        int32_t index;
        char *id, *description;
        int32_t n_parameters;
        JvmtiParameter *parameters;
} JvmtiExtensionEvent;

typedef void (*JvmtiExtensionCallback)(Jvmti *environment, ...);

struct JvmtiFunctions {
        void *skipped_1[1];
        int32_t (*set_event_notification_mode)(Jvmti *, int32_t mode, int32_t event, void *thread, ...);
        void *skipped_2[44];
        int32_t (*deallocate)(Jvmti *, void *memory);
        void *skipped_3[54];
        int32_t (*get_thread_local_storage)(Jvmti *, void *thread, void **datap);
        int32_t (*set_thread_local_storage)(Jvmti *, void *thread, const void *data);
        void *skipped_4[18];
        int32_t (*set_event_callbacks)(Jvmti *, const JvmtiCallbacks *callbacks, int32_t size);
        void *skipped_5[2];
        int32_t (*get_extension_events)(Jvmti *, int32_t *np, JvmtiExtensionEvent **eventsp);
        int32_t (*set_extension_event_callback)(Jvmti *, int32_t index, JvmtiExtensionCallback callback);
        int32_t (*dispose_environment)(Jvmti *);
        void *skipped_6[14];
        int32_t (*add_capabilities)(Jvmti *, const JvmtiCapabilities *capabilities);
};

/* @vm: begins with the table of the invocation interface. Return: 0, or an error of JNI. */
static inline int32_t jvmti_get(void *vm, Jvmti **environmentp) {
        int32_t (*get_env)(void *vm, void **environmentp, int32_t version);
        void *environment;
        int32_t r;

        memcpy(&get_env, *(char **)vm + JNI_INVOKE_GET_ENV * sizeof(get_env), sizeof(get_env));
        r = get_env(vm, &environment, JVMTI_VERSION);
        if (!r)
                *environmentp = environment;
        return r;
}
