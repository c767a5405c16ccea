/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Settled Names
 *
 * Names of programs that had nothing new the last times: each file that they had mapped was known by its
 * path, and has neither a runtime nor contexts of threads. The first samples of the next such program may
 * wait for the ordinary drain (bpf/walk/start.bpf.h), where its files are found without it. One that has
 * something new unsettles its name; one that publishes does so for good, since what it publishes is to be
 * found soon.
 *
 * A name counts within a mount namespace: the same path may be another file in another one. Capped: at
 * ABI_MAX_SETTLED_NAMES the oldest one goes. Pure: the caller changes the map.
 */

#include <stdbool.h>
#include <stdint.h>

#include "border/abi.h"

typedef struct SettledName {
        struct abi_settled_name name;
        uint32_t n_plain;               /* programs with nothing new, one after the other */
        bool publishes;                 /* one of them did */
} SettledName;

typedef struct SettledNames {
        SettledName names[ABI_MAX_SETTLED_NAMES];       /* in the order of arrival, as a ring */
        uint32_t n;                     /* that have arrived so far */
} SettledNames;

/* Empty names: no change. */
typedef struct SettledNamesChange {
        struct abi_settled_name added, removed;
} SettledNamesChange;

/* Another program of @name was met; @is_plain: it had nothing new. Return: whether the map changes. */
bool settled_names_judge(SettledNames *settled, const struct abi_settled_name *name, bool is_plain,
                         SettledNamesChange *changep);

/* A program of @name publishes something. Return: whether the map changes. */
bool settled_names_note_publication(SettledNames *settled, const struct abi_settled_name *name,
                                    SettledNamesChange *changep);
