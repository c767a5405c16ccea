/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Virtual Threads
 *
 * Keeps the span of each virtual thread, and publishes it on the thread of the operating system that carries
 * it, from mount to unmount. virtual.c says how.
 */

#include <stdint.h>

#include "backend.h"

/*
 * A root with an address that Java keeps. Its memory stays, and is another root's later: so who kept it for
 * long compares the number.
 */
struct root {
        struct spanprof_otel_root root;
        struct root *next;
};

/* A span, and what it is named by: NULL, or a root that has this number. */
struct named_ids {
        struct backend_ids ids;
        struct root *root;
        uint64_t number;
};

static inline void named_ids_set(const struct named_ids *named) {
        struct root *root = named->root;

        if (root && __atomic_load_n(&root->root.number, __ATOMIC_ACQUIRE) == named->number)
                spanprof_otel_set_root(named->ids.high, named->ids.low, named->ids.span, &root->root);
        else
                spanprof_otel_set(named->ids.high, named->ids.low, named->ids.span);
}

enum {
        VIRTUAL_E_NO_JVMTI = -1,        /* the JVM has no tool interface of Java 21 */
        VIRTUAL_E_NO_EVENTS = -2,       /* the JVM does not tell of mounts */
};

/*
 * Asks the JVM to tell of mounts and unmounts. @vm: what JNI_OnLoad() was given.
 * Return: 0; a VIRTUAL_E_; or the number of a JVMTI error, such as 98 = the capability cannot be had.
 */
int virtual_watch(void *vm);

/*
 * To be called in a virtual thread that has yielded since virtual_watch().
 * Return: 0; or VIRTUAL_E_NO_EVENTS, and that is the end of it.
 */
int virtual_confirm(void);

/* The end of the events. */
void virtual_unwatch(void);

/*
 * To be called in the virtual thread @thread, after virtual_confirm(): it works for this span from now on, or
 * for none. Without memory it works for none.
 */
void virtual_set(void *thread, const struct named_ids *named);
void virtual_clear(void);
