/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads the attributes that the daemon writes itself, which no process context can replace. Where two
 * processes had one number, program and host one after the other, they are one here, too, unless their
 * services have different names: no attribute says when a process began.
 */

#include "core/profile/process-identity.h"

#include <inttypes.h>
#include <string.h>

bool process_identity(const Window *window, uint32_t resource, Text *identity) {
        const char *container = window_get_resource_text(window, resource, "container.id");
        int64_t pid;

        if (strcmp(window_get_resource_text(window, resource, "telemetry.profiler.name"), "spanprof") ||
            !window_get_resource_integer(window, resource, "process.pid", &pid))
                return false;
        text_printf(identity, "%" PRId64 "\n%s\n%s\n%s\n%s\n", pid,
                    window_get_resource_text(window, resource, "process.executable.name"),
                    window_get_resource_text(window, resource, "process.executable.path"),
                    window_get_resource_text(window, resource, "host.id"),
                    *container ? container : window_get_resource_text(window, resource, "host.name"));
        return true;
}

/* OpenTelemetry's conventions give `unknown_service:java` where no name was given. */
bool process_service_has_name(const char *service) {
        return *service && strncmp(service, "unknown_service", strlen("unknown_service"));
}
