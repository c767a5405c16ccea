/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Removed options
 *
 * A configuration that sets one still starts: the option is named in a warning, and then it is ignored, or
 * its successor takes the value. A row stays for two releases; a unit test says when it is to go, and the
 * option is unknown from then on.
 */

#include <stdbool.h>
#include <stddef.h>

#include "core/base/util/text.h"
#include "host/service/config/option.h"

typedef struct RemovedOption {
        const char *name;
        bool is_switch;                 /* on a command line it takes no word for its value */
        int verbs;                      /* verbs that took it */
        bool in_files;
        const char *successor;          /* option that takes the same values; NULL = it is ignored */
        const char *advice;             /* option that does its job, or why none need do it */
        const char *since;              /* first version without it */
} RemovedOption;

extern const RemovedOption removed_options[];
extern const size_t n_removed_options;

/* Return: the option that @verb (one bit) took, or NULL. */
const RemovedOption *removed_find(const char *name, size_t size, int verb);

/* Name in the environment; @to has OPTION_ENVIRONMENT_MAX bytes. */
void removed_environment(const RemovedOption *removed, char *to);

/*
 * Says in the log that @written (`FILE:LINE: name`, a variable, `--name`) is gone. Its successor takes @value, unless
 * that is NULL, or a higher level has set it; a value that does not fit is ignored. Return: 0, -ENOMEM.
 */
int removed_apply(const RemovedOption *removed, Config *config, const char *value, ConfigLevel level,
                  const char *where, const char *written);
