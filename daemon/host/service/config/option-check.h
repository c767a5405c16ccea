/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Checks of One Value
 *
 * Option.check of the table of options: what it says of a value, or of each item of a list, beyond its kind.
 * `run` and `config check` share them: what one takes, the other takes.
 */

#include <stddef.h>
#include <stdint.h>

#include "core/base/util/text.h"

/*
 * `ADDRESS:PORT`, with brackets around an address that has colons itself. @host of @size bytes gets the
 * address without brackets. Return: 0, 1 = it is none; outputs are written on success only.
 */
int option_split_address(const char *text, char *host, size_t size, uint16_t *portp);

/*
 * The same, where the port may be left out: an address of several colons without brackets has none. Return:
 * 0, 1 = it is no address. Outputs are written on success only.
 */
int option_split_listen(const char *text, char *host, size_t size, bool *has_portp, uint16_t *portp);

/* Each: 0, OPTION_E_INVALID and @problem says why, without the option's name, -ENOMEM. */
int option_check_glob(const char *item, Text *problem);
int option_check_metrics(const char *value, Text *problem);
int option_check_address(const char *value, Text *problem);
int option_check_listen(const char *value, Text *problem);
int option_check_comm(const char *item, Text *problem);
int option_check_user(const char *item, Text *problem);
int option_check_exclude(const char *item, Text *problem);
int option_check_span(const char *item, Text *problem);
int option_check_trace(const char *item, Text *problem);
int option_check_resource(const char *item, Text *problem);
int option_check_headers(const char *value, Text *problem);
int option_check_pods_url(const char *value, Text *problem);
int option_check_runtimes(const char *value, Text *problem);
int option_check_resource_attributes(const char *value, Text *problem);
int option_check_sample_hosts(const char *value, Text *problem);
int option_check_tenant(const char *value, Text *problem);
int option_check_upload_path(const char *item, Text *problem);
