/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The selector that a configuration asks for: users become numbers, excludes are taken apart. */

#include "host/sampling/discover/selector.h"
#include "host/service/config/config.h"

typedef struct ConfigSelector {
        Selector selector;
        SelectorRule *rules, *exclude_rules;
        uint32_t self;                  /* our own pid, which is never profiled */
} ConfigSelector;

/* Borrows @targets; must stay where it is. Pair with config_selector_deinit(). Return: 0, -ENOMEM. */
int config_selector_init(ConfigSelector *self, const ConfigTargets *targets);
void config_selector_deinit(ConfigSelector *self);

/* Whether @targets choose any process. */
bool config_chooses(const ConfigTargets *targets);

/* A user by name or number. Return: 0, 1 = there is none. */
int config_find_user(const char *name, uint32_t *uidp);

/*
 * `KIND=PATTERN`; the rule borrows the pattern. Return: 0, 1 = no such kind, 2 = no such pid or user, or an
 * empty pattern.
 */
int config_parse_rule(const char *text, SelectorRule *rule);
