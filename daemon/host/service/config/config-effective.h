/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Effective Values
 *
 * What is in force of each setting, and where it comes from. Some defaults are no words of the table: they
 * follow from where spanprof runs, or from other settings. Values in, text out.
 */

#include <stdbool.h>

#include "core/base/util/text.h"
#include "host/service/config/config.h"
#include "host/service/config/option.h"

/* The process that asks for values. */
typedef enum ConfigAsker {
        CONFIG_ASKED_FROM_OUTSIDE,      /* a command: what `run` would do, if it was started so */
        CONFIG_ASKED_BY_DAEMON,         /* the daemon itself */
} ConfigAsker;

/*
 * Appends the value, and one line for its origin: FILE:LINE, a variable, `command line`, `backend`, `default`,
 * or `default: why`. Of lists and secrets it is as option_print() has it.
 */
void config_effective(const Config *config, const Option *option, ConfigAsker asker, Text *value,
                      Text *origin);
