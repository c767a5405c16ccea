/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Names of Spans That Come Late
 *
 * A span has its final name (core/profile/operation.h) often after it began: a web framework knows the route
 * once it has found the handler. The last name that a window has of a span names all samples of the span in
 * that window.
 */

#include "core/profile/window.h"

/*
 * Before the window is closed. A process names its own spans alone, also where another one publishes the same
 * ids. Return: 0; WINDOW_E_FULL = some samples keep their names; -ENOMEM.
 */
int span_names_settle(Window *window);
