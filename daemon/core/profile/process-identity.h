/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Identity of a Process
 *
 * Tells by a resource's attributes which process it is, also where the resource of an earlier window says
 * less: an SDK publishes the name of its service when it is ready, and until then it is `unknown_service:FILE`.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/util/text.h"
#include "core/profile/window.h"

/*
 * Appends to @identity what stays the same for the life of a process: its number, program, host, and the
 * container in place of the host's name, which an SDK in there calls otherwise. Return: false = the resource
 * is not of this profiler or has no process, so that it is told apart by all of its attributes.
 */
bool process_identity(const Window *window, uint32_t resource, Text *identity);

/* Whether a service's name is one that it was given: neither empty nor `unknown_service…`. */
bool process_service_has_name(const char *service);
