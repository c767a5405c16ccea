/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Service Name
 *
 * What a program is called as a service: by its process context, else by its environment, else by its file
 * (`unknown_service:FILE`). A context that says `unknown_service…` goes behind the environment.
 */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "host/sampling/context/publication.h"

#define SERVICE_NAME_UNKNOWN "unknown_service"

enum { SERVICE_NAME_MAX = NAME_MAX + sizeof(SERVICE_NAME_UNKNOWN ":") };

/*
 * @context: NULL = none is published. @unknown: room for a name that is made. *sizep: bytes, any of them; a
 * published one is not terminated. Return: @unknown, or text of @context or of the environment.
 */
const char *service_name_of(const ProcessContext *context, const Process *process,
                            char unknown[SERVICE_NAME_MAX], size_t *sizep);

/* The last part of the executable's path, or the name of the process where it has none. */
const char *service_name_executable(const Process *process);
