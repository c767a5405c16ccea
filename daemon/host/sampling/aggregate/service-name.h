/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Service Name
 *
 * What a program is called as a service: by its process context, else by its environment, else by its file
 * (`unknown_service:FILE`).
 */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "host/sampling/context/publication.h"

#define SERVICE_NAME_UNKNOWN "unknown_service"

enum { SERVICE_NAME_MAX = NAME_MAX + sizeof(SERVICE_NAME_UNKNOWN ":") };

/*
 * Finds the name in the process context. *sizep: bytes, any of them, not terminated. Return: NULL = it has
 * none.
 */
const char *service_name_published(const ProcessContext *context, size_t *sizep);

/* If nothing is published. @unknown: room for it. Return: @unknown, or text of the environment. */
const char *service_name_found(const Process *process, char unknown[SERVICE_NAME_MAX]);

/* The last part of the executable's path, or the name of the process where it has none. */
const char *service_name_executable(const Process *process);
