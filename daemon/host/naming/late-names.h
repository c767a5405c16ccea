/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Names for code that was known only after its samples were taken. */

#include "core/profile/window.h"
#include "host/naming/code-names.h"

/*
 * Names frames of a closed window, which may be merged of many, that lie in no file. *n_namedp: how many got
 * a name. Return: 0, -ENOMEM.
 */
int late_names_apply(CodeNames *names, Window *window, uint32_t *n_namedp);
