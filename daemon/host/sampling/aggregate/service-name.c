/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Looks for service.name in the process context, then in the environment, and then makes a name of the
 * executable's. A name that says that the SDK had none goes behind the environment's.
 */

#include "host/sampling/aggregate/service-name.h"

#include <stdio.h>
#include <string.h>

/* Return: NULL = it has none. */
static const char *find_published(const ProcessContext *context, size_t *sizep) {
        static const char name[] = "service.name";

        for (size_t i = 0; context && i < context->n_attributes; i++) {
                const ContextAttribute *attribute = &context->attributes[i];

                if (attribute->key.size == sizeof(name) - 1 &&
                    !memcmp(attribute->key.data, name, sizeof(name) - 1) &&
                    attribute->kind == CONTEXT_STRING && attribute->string.size) {
                        *sizep = attribute->string.size;
                        return attribute->string.data;
                }
        }
        return NULL;
}

const char *service_name_executable(const Process *process) {
        const char *slash = process->exe ? strrchr(process->exe, '/') : NULL;

        return slash ? slash + 1 : process->exe ? process->exe : process->comm;
}

static const char *configured(const Process *process) {
        const Environment *environment = process->identity ? &process->identity->environment : NULL;

        if (environment && environment->service_name)
                return environment->service_name;
        for (size_t i = 0; environment && i < environment->n_attributes; i++)
                if (!strcmp(environment->attributes[i].key, "service.name"))
                        return environment->attributes[i].value;
        return NULL;
}

/* An SDK that was given no name publishes `unknown_service:java`; the environment may have one. */
static bool is_placeholder(const char *name, size_t size) {
        return size >= strlen(SERVICE_NAME_UNKNOWN) &&
                !memcmp(name, SERVICE_NAME_UNKNOWN, strlen(SERVICE_NAME_UNKNOWN));
}

/* Never from a thread's name: it changes with what the thread does. */
const char *service_name_of(const ProcessContext *context, const Process *process,
                            char unknown[SERVICE_NAME_MAX], size_t *sizep) {
        const char *executable = process->exe ? service_name_executable(process) : "";
        const char *published = find_published(context, sizep), *name = configured(process);

        if (published && !(name && is_placeholder(published, *sizep)))
                return published;
        if (!name)
                snprintf(unknown, SERVICE_NAME_MAX, SERVICE_NAME_UNKNOWN "%s%s", *executable ? ":" : "",
                         executable);
        name = name ?: unknown;
        *sizep = strlen(name);
        return name;
}
