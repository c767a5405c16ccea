/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Native methods of VictimAllocates.java: spans with an operation. The arguments are JNI's, which needs no
 * header of a JDK: what stands in front of ours is not looked at.
 */
#include <stdint.h>
#include <string.h>

#include "spanprof/context.h"
#include "spanprof/otel.h"

#define NATIVE __attribute__((visibility("default")))

static const char *const operations[] = { "/large", "/small", "", "/still" };

NATIVE int Java_VictimAllocates_publish(void *environment, void *class);
NATIVE void Java_VictimAllocates_enter(void *environment, void *class, int64_t span, int32_t operation);
NATIVE void Java_VictimAllocates_leave(void *environment, void *class);

int Java_VictimAllocates_publish(void *environment, void *class) {
        static const struct spanprof_otel_attribute resource[] = { { "service.name", "shop" } };
        static const char *const keys[] = { "http.route" };
        struct spanprof_otel_process process = { sizeof(process), 1, resource, 1, keys };
        struct spanprof_context_options options = { .size = sizeof(options),
                                                    .storage = SPANPROF_CONTEXT_THREAD };

        return spanprof_otel_publish(&process) || spanprof_context_start(&options);
}

void Java_VictimAllocates_enter(void *environment, void *class, int64_t span, int32_t operation) {
        const char *name = operations[operation & 3];

        spanprof_context_set(7, 8, (uint64_t)span);
        spanprof_context_attribute(0, name, strlen(name));
}

void Java_VictimAllocates_leave(void *environment, void *class) {
        spanprof_context_clear();
}
