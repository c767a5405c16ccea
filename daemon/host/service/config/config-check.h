/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Checks of a Configuration
 *
 * What only the whole says, or this machine. `run` and `config check` share them: what one takes, the other
 * takes.
 */

#include "core/base/util/text.h"
#include "host/service/config/config.h"

/*
 * Mistakes that show in no single value: a path that is relative in a file, a limit of memory that no daemon
 * fits into. One line for each is added to @errors. Return: 0, CONFIG_E_INVALID, -ENOMEM.
 */
int config_check_values(const Config *config, Text *errors);

/*
 * Checks what `run` finds at its start on this machine: users and directories of files that are not there.
 * Nothing is opened or made. Return: as above.
 */
int config_check_machine(const Config *config, Text *errors);
