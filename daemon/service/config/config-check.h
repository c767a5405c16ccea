/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Checks of Values
 *
 * What the table of options says of its values beyond their kind, and what only the machine can say of a
 * configuration as a whole. `run` and `config check` share them: what one takes, the other takes.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/util/text.h"
#include "service/config/config.h"

/*
 * `ADDRESS:PORT`, with brackets around an address that has colons itself. @host of @size bytes gets the
 * address without brackets. Return: 0, 1 = it is none; outputs are written on success only.
 */
int config_split_address(const char *text, char *host, size_t size, uint16_t *portp);

/* Option.check of patterns, and of where metrics are served. Return: 0, OPTION_E_INVALID, -ENOMEM. */
int option_check_glob(const char *item, Text *problem);
int option_check_metrics(const char *value, Text *problem);

/*
 * Mistakes that show in no single value: a path that is relative in a file, a limit of memory that no daemon
 * fits into. One line for each is added to @errors. Return: 0, CONFIG_E_INVALID, -ENOMEM.
 */
int config_check_values(const Config *config, Text *errors);

/*
 * What `run` finds at its start on this machine: users that are not there, files in directories that are not
 * there. Nothing is opened or made. Return: as above.
 */
int config_check_machine(const Config *config, Text *errors);
