/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli/cli.h"

/* `report --raw`. Return: enum status, -ENOMEM. */
int report_raw(const Cli *cli);
