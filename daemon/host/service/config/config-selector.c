/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Makes a Selector from the lists of the configuration: users become numbers, excludes are split into kind
 * and pattern.
 */

#include "host/service/config/config-selector.h"

#include <errno.h>
#include <pwd.h>
#include <string.h>

#include "core/base/util/error.h"

int config_find_user(const char *name, uint32_t *uidp) {
        const struct passwd *user;
        uint64_t number;

        if (!text_u64(name, UINT32_MAX, &number)) {
                *uidp = (uint32_t)number;
                return 0;
        }
        user = getpwnam(name);
        if (!user)
                return 1;
        *uidp = user->pw_uid;
        return 0;
}

/* Return: 0, 2 = no such number or user, or empty. */
static int make_rule(SelectorRule *rule, SelectorKind kind, const char *pattern) {
        uint64_t pid;

        *rule = (SelectorRule){ .kind = kind, .pattern = pattern };
        if (kind == SELECTOR_KIND_USER)
                return config_find_user(pattern, &rule->number) ? 2 : 0;
        if (kind != SELECTOR_KIND_PID)
                return *pattern ? 0 : 2;
        if (text_u64(pattern, UINT32_MAX, &pid))
                return 2;
        rule->number = (uint32_t)pid;
        return 0;
}

int config_parse_rule(const char *text, SelectorRule *rule) {
        size_t n = strcspn(text, "=");

        for (SelectorKind kind = 0; text[n] && kind < SELECTOR_N_KINDS; kind++)
                if (strlen(selector_kind_name(kind)) == n && !memcmp(selector_kind_name(kind), text, n))
                        return make_rule(rule, kind, text + n + 1);
        return 1;
}

/* A user that was there when the options were checked and is no more is one that matches nothing. */
static void add_rules(ConfigSelector *self, SelectorKind kind, const ConfigList *list) {
        for (size_t i = 0; i < list->n_items; i++) {
                SelectorRule *rule = &self->rules[self->selector.n_rules++];

                if (make_rule(rule, kind, list->items[i]))
                        rule->number = UINT32_MAX;
        }
}

static void add_excludes(ConfigSelector *self, const ConfigList *list) {
        for (size_t i = 0; i < list->n_items; i++)
                if (!config_parse_rule(list->items[i], &self->exclude_rules[self->selector.n_exclude_rules]))
                        self->selector.n_exclude_rules++;
}

int config_selector_init(ConfigSelector *self, const ConfigTargets *targets) {
        size_t n_rules = targets->exes.n_items + targets->cgroups.n_items + targets->containers.n_items +
                targets->users.n_items + targets->units.n_items;

        *self = (ConfigSelector){
                .self = (uint32_t)getpid(),
                .rules = calloc(n_rules + 1, sizeof(*self->rules)),
                .exclude_rules = calloc(targets->excludes.n_items + 1, sizeof(*self->exclude_rules)),
        };
        if (!self->rules || !self->exclude_rules)
                return error_origin(-ENOMEM);
        self->selector = (Selector){
                .pids = targets->pids.items,
                .n_pids = targets->pids.n_items,
                .comms = (const char *const *)targets->comms.items,
                .n_comms = targets->comms.n_items,
                .rules = self->rules,
                .trees = targets->trees,
                .n_trees = targets->n_trees,
                .all = targets->all,
                .publishers = targets->publishers,
                .excluded = &self->self,
                .n_excluded = 1,
                .exclude_rules = self->exclude_rules,
        };
        add_rules(self, SELECTOR_KIND_EXE, &targets->exes);
        add_rules(self, SELECTOR_KIND_CGROUP, &targets->cgroups);
        add_rules(self, SELECTOR_KIND_CONTAINER, &targets->containers);
        add_rules(self, SELECTOR_KIND_USER, &targets->users);
        add_rules(self, SELECTOR_KIND_UNIT, &targets->units);
        add_excludes(self, &targets->excludes);
        return 0;
}

void config_selector_deinit(ConfigSelector *self) {
        free(self->rules);
        free(self->exclude_rules);
        *self = (ConfigSelector){ 0 };
}

bool config_chooses(const ConfigTargets *targets) {
        return targets->all || targets->publishers || targets->pids.n_items || targets->comms.n_items ||
               targets->exes.n_items || targets->cgroups.n_items || targets->containers.n_items ||
               targets->users.n_items || targets->units.n_items;
}
