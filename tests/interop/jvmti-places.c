/* SPDX-License-Identifier: Apache-2.0 */
/* Whether sdk/java/otel/jvmti.h agrees with a JDK's own header: it compiles, and ends with 0. */
#define JVMTI_VERSION OUR_VERSION
#define JVMTI_ENABLE OUR_ENABLE
#define JVMTI_EVENT_VIRTUAL_THREAD_END OUR_END
#include "../../sdk/java/otel/jvmti.h"
#undef JVMTI_VERSION
#undef JVMTI_ENABLE
#undef JVMTI_EVENT_VIRTUAL_THREAD_END
#include <jvmti.h>
#include <stddef.h>

#define SAME(ours, our_field, theirs, their_field) \
        _Static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field), #their_field)
#define SAME_FUNCTION(our_field, their_field) \
        SAME(struct JvmtiFunctions, our_field, struct jvmtiInterface_1_, their_field)

_Static_assert((int)OUR_VERSION == (int)JVMTI_VERSION_21, "version");
_Static_assert((int)OUR_ENABLE == (int)JVMTI_ENABLE, "mode");
_Static_assert((int)OUR_END == (int)JVMTI_EVENT_VIRTUAL_THREAD_END, "event");
_Static_assert(JNI_INVOKE_GET_ENV * sizeof(void *) == offsetof(struct JNIInvokeInterface_, GetEnv), "GetEnv");
SAME_FUNCTION(set_event_notification_mode, SetEventNotificationMode);
SAME_FUNCTION(deallocate, Deallocate);
SAME_FUNCTION(get_thread_local_storage, GetThreadLocalStorage);
SAME_FUNCTION(set_thread_local_storage, SetThreadLocalStorage);
SAME_FUNCTION(set_event_callbacks, SetEventCallbacks);
SAME_FUNCTION(get_extension_events, GetExtensionEvents);
SAME_FUNCTION(set_extension_event_callback, SetExtensionEventCallback);
SAME_FUNCTION(dispose_environment, DisposeEnvironment);
SAME_FUNCTION(add_capabilities, AddCapabilities);
SAME(JvmtiCallbacks, virtual_thread_end, jvmtiEventCallbacks, VirtualThreadEnd);
SAME(JvmtiExtensionEvent, index, jvmtiExtensionEventInfo, extension_event_index);
SAME(JvmtiExtensionEvent, id, jvmtiExtensionEventInfo, id);
SAME(JvmtiExtensionEvent, description, jvmtiExtensionEventInfo, short_description);
SAME(JvmtiExtensionEvent, n_parameters, jvmtiExtensionEventInfo, param_count);
SAME(JvmtiExtensionEvent, parameters, jvmtiExtensionEventInfo, params);
SAME(JvmtiParameter, name, jvmtiParamInfo, name);
_Static_assert(sizeof(JvmtiExtensionEvent) == sizeof(jvmtiExtensionEventInfo), "size of an event");
_Static_assert(sizeof(JvmtiParameter) == sizeof(jvmtiParamInfo), "size of a parameter");
_Static_assert(sizeof(JvmtiCapabilities) == sizeof(jvmtiCapabilities), "size of capabilities");

int main(void) {
        JvmtiCapabilities ours = { JVMTI_CAN_SUPPORT_VIRTUAL_THREADS };
        jvmtiCapabilities theirs = { .can_support_virtual_threads = 1 };

        return memcmp(&ours, &theirs, sizeof(ours)) ? 1 : 0;
}
