/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans of Virtual Threads
 *
 * A record belongs to a thread of the operating system. A virtual thread runs on one such thread, its
 * carrier, until it blocks; then it leaves (unmount), others come, and it goes on later (mount), maybe
 * elsewhere:
 *
 *     carrier 1   |-- A: span 7 --|-- B: none --|            |-- A: span 7 --|
 *     carrier 2                     |-- C: span 9 ---------------|
 *     record 1       7               -                         7
 *     record 2                         9                          -
 *
 * No Java code is called then, but HotSpot tells native code: by two events that its tool interface (JVMTI)
 * has as extensions since JDK 21, named below. So the span of a virtual thread that has had one lies here, in
 * 40 bytes that the interface's storage of that virtual thread leads to. The callback of a mount copies them
 * to the record; that of an unmount puts back what the carrier itself worked for, mostly nothing. Neither
 * allocates, takes a lock or calls Java. Between the two the virtual thread alone writes its span, and to the
 * record at once.
 *
 * The events cost every virtual thread of the process something, so they are asked for when the first of them
 * has a context. HotSpot promises them and sends none where -XX:-DoJVMTIVirtualThreadTransitions is set, and
 * where virtual threads are bound to threads of their own (-XX:-VMContinuations): so that first one yields,
 * and must have been told of. Memory is freed at a virtual thread's end. One that is garbage before its end
 * (the JVM must have been told not to track threads) leaves its 40 bytes behind.
 *
 * Nothing of a JDK is needed to compile this: the numbers and places below are those of the JVMTI
 * specification, which have never changed (tests/interop/jvmti-places.c compares them with a JDK's header).
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "jvmti.h"
#include "spanprof/otel.h"
#include "virtual.h"

/*
 * State of each carrier: whether a mount was told of, without which nothing is shown: it may be one from
 * before the events, or the JVM never tells. And what the carrier itself works for: 0 = no span.
 */
static _Thread_local struct {
        bool mounted;
        struct named_ids *ids;          /* the mounted thread's span; NULL = it never had one */
        struct backend_ids own;
} carrier BACKEND_TLS;

static Jvmti *jvmti;    /* NULL = not watched */

static void show(const struct named_ids *named) {
        if (named && named->ids.span)
                named_ids_set(named);
        else
                spanprof_otel_clear();
}

/* The span of the virtual thread that is mounted here. NULL = it never had one. */
static struct named_ids *of_current(Jvmti *environment) {
        void *data = NULL;

        /* NULL as the thread: the current one, without a change of the thread's state */
        if (environment->functions->get_thread_local_storage(environment, NULL, &data))
                return NULL;
        return data;
}

static void on_mount(Jvmti *environment, ...) {
        if (!carrier.mounted && !otel_read(&carrier.own))
                carrier.own.span = 0;
        carrier.mounted = true;
        carrier.ids = of_current(environment);
        show(carrier.ids);
}

static void on_unmount(Jvmti *environment, ...) {
        (void)environment;
        if (!carrier.mounted)
                return;
        carrier.mounted = false;
        show(&(struct named_ids){ .ids = carrier.own });
}

/* After its last unmount; the storage goes away with the thread. */
static void on_end(Jvmti *environment, void *jni, void *thread) {
        (void)jni, (void)thread;
        on_unmount(environment);
        free(of_current(environment));
}

void virtual_set(void *thread, const struct named_ids *named) {
        struct named_ids *ids = carrier.mounted ? carrier.ids : of_current(jvmti);

        if (!ids) {
                ids = malloc(sizeof(*ids));
                if (!ids || jvmti->functions->set_thread_local_storage(jvmti, thread, ids)) {
                        free(ids);
                        virtual_clear();
                        return;
                }
        }
        *ids = *named;
        if (carrier.mounted) {
                carrier.ids = ids;
                show(ids);
        }
}

void virtual_clear(void) {
        struct named_ids *ids = carrier.mounted ? carrier.ids : of_current(jvmti);

        if (ids)
                ids->ids.span = 0;
        if (carrier.mounted)
                show(NULL);
}

/* ---- asking for the events ---- */

static int enable(Jvmti *environment, int32_t event) {
        return environment->functions->set_event_notification_mode(environment, JVMTI_ENABLE, event, NULL);
}

static int enable_extension(Jvmti *environment, const JvmtiExtensionEvent *event,
                            JvmtiExtensionCallback callback) {
        int r = environment->functions->set_extension_event_callback(environment, event->index, callback);

        return r ? r : enable(environment, event->index);
}

static void free_events(Jvmti *environment, JvmtiExtensionEvent *events, int32_t n) {
        int32_t (*deallocate)(Jvmti *, void *) = environment->functions->deallocate;

        for (int32_t i = 0; i < n; i++) {
                for (int32_t j = 0; j < events[i].n_parameters; j++)
                        deallocate(environment, events[i].parameters[j].name);
                deallocate(environment, events[i].parameters);
                deallocate(environment, events[i].id);
                deallocate(environment, events[i].description);
        }
        deallocate(environment, events);
}

/* Both or none: with one of them alone a carrier would show a span that is not its. */
static int enable_mounts(Jvmti *environment) {
        const JvmtiExtensionEvent *mount = NULL, *unmount = NULL;
        JvmtiExtensionEvent *events;
        int32_t n;
        int r;

        r = environment->functions->get_extension_events(environment, &n, &events);
        if (r)
                return r;
        for (int32_t i = 0; i < n; i++) {
                if (!strcmp(events[i].id, "com.sun.hotspot.events.VirtualThreadMount"))
                        mount = &events[i];
                if (!strcmp(events[i].id, "com.sun.hotspot.events.VirtualThreadUnmount"))
                        unmount = &events[i];
        }
        r = mount && unmount ? 0 : VIRTUAL_E_NO_EVENTS;
        if (!r)
                r = enable_extension(environment, unmount, on_unmount);
        if (!r)
                r = enable_extension(environment, mount, on_mount);
        free_events(environment, events, n);
        return r;
}

static int watch(Jvmti *environment) {
        static const JvmtiCallbacks callbacks = { .virtual_thread_end = on_end };
        static const JvmtiCapabilities capabilities = { JVMTI_CAN_SUPPORT_VIRTUAL_THREADS };
        int r;

        r = environment->functions->add_capabilities(environment, &capabilities);
        if (!r)
                r = environment->functions->set_event_callbacks(environment, &callbacks, sizeof(callbacks));
        if (!r)
                r = enable(environment, JVMTI_EVENT_VIRTUAL_THREAD_END);
        return r ? r : enable_mounts(environment);
}

int virtual_watch(void *vm) {
        Jvmti *environment;
        int r;

        if (jvmti)
                return 0;
        if (jvmti_get(vm, &environment))
                return VIRTUAL_E_NO_JVMTI;
        r = watch(environment);
        if (r)
                environment->functions->dispose_environment(environment);
        else
                jvmti = environment;
        return r;
}

int virtual_confirm(void) {
        if (carrier.mounted)
                return 0;
        virtual_unwatch();
        return VIRTUAL_E_NO_EVENTS;
}

void virtual_unwatch(void) {
        if (jvmti)
                jvmti->functions->dispose_environment(jvmti);
        jvmti = NULL;
}
