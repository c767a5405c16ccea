/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tries the selectors in a fixed order and returns the first reason that holds; excludes are tried before
 * all.
 */

#include "host/sampling/discover/selector.h"

#include <fnmatch.h>
#include <string.h>

/* Parts of the identity that a rule of each kind looks at. */
static const unsigned needs[SELECTOR_N_KINDS] = {
        [SELECTOR_KIND_EXE] = IDENTITY_EXE,          [SELECTOR_KIND_CGROUP] = IDENTITY_CGROUP,
        [SELECTOR_KIND_CONTAINER] = IDENTITY_CGROUP, [SELECTOR_KIND_USER] = IDENTITY_USER,
        [SELECTOR_KIND_UNIT] = IDENTITY_CGROUP,
};

bool selector_is_default(const Selector *selector) {
        return !selector->n_pids && !selector->n_comms && !selector->n_rules && !selector->n_trees &&
                !selector->all;
}

bool selector_takes_publishers(const Selector *selector) {
        return selector->publishers || selector_is_default(selector);
}

bool selector_is_all_alone(const Selector *selector) {
        return selector->all && !selector->n_pids && !selector->n_comms && !selector->n_rules &&
                !selector->n_trees;
}

static bool is_by_pid(const SelectorRule *rule) {
        return rule->kind == SELECTOR_KIND_PID;
}

bool selector_is_by_name(const Selector *selector) {
        for (size_t i = 0; i < selector->n_rules; i++)
                if (!is_by_pid(&selector->rules[i]))
                        return true;
        return selector->n_comms || selector->n_trees || selector->all;
}

unsigned selector_needs(const Selector *selector) {
        unsigned what = 0;

        for (size_t i = 0; i < selector->n_rules; i++)
                what |= needs[selector->rules[i].kind];
        for (size_t i = 0; i < selector->n_exclude_rules; i++)
                what |= needs[selector->exclude_rules[i].kind];
        return what;
}

static bool contains(const uint32_t *pids, size_t n, uint32_t pid) {
        for (size_t i = 0; i < n; i++)
                if (pids[i] == pid)
                        return true;
        return false;
}

static bool exe_matches(const char *exe, const char *glob) {
        const char *slash = strrchr(exe, '/');

        if (!strchr(glob, '/') && slash)
                exe = slash + 1;
        return fnmatch(glob, exe, 0) == 0;
}

/* A process is in one group for each hierarchy; a match of any of them will do. */
static bool groups_match(const Identity *identity, const SelectorRule *rule) {
        const char *at = identity->groups, *end = at + identity->groups_size;
        CgroupEntry entry;

        while (cgroup_next(&at, end, &entry)) {
                if (rule->kind == SELECTOR_KIND_CGROUP && cgroup_path_matches(entry.path, rule->pattern))
                        return true;
                if (rule->kind == SELECTOR_KIND_UNIT && cgroup_unit_matches(entry.path, rule->pattern))
                        return true;
                if (rule->kind == SELECTOR_KIND_CONTAINER &&
                    cgroup_container_matches(cgroup_container(entry.path), rule->pattern))
                        return true;
        }
        return false;
}

static bool rule_matches(const SelectorRule *rule, const SelectorFacts *facts) {
        const Identity *identity = facts->is_kernel ? NULL : facts->identity;

        switch (rule->kind) {
        case SELECTOR_KIND_PID:
                return facts->pid == rule->number;
        case SELECTOR_KIND_COMM:
                return facts->comm && fnmatch(rule->pattern, facts->comm, 0) == 0;
        case SELECTOR_KIND_EXE:
                return identity && identity->exe && exe_matches(identity->exe, rule->pattern);
        case SELECTOR_KIND_USER:
                return identity && identity->has_uid && identity->uid == rule->number;
        default:
                return identity && identity->groups && groups_match(identity, rule);
        }
}

static bool comm_matches(const Selector *selector, const char *comm) {
        for (size_t i = 0; i < selector->n_comms && comm; i++)
                if (fnmatch(selector->comms[i], comm, 0) == 0)
                        return true;
        return false;
}

/* @comm: NULL = not known. */
static bool is_ours(const Selector *selector, uint32_t pid, const char *comm) {
        return contains(selector->excluded, selector->n_excluded, pid) ||
                (selector->is_ours && selector->is_ours(selector->userdata, pid, comm));
}

bool selector_excludes_pid(const Selector *selector, uint32_t pid) {
        for (size_t i = 0; i < selector->n_exclude_rules; i++)
                if (is_by_pid(&selector->exclude_rules[i]) && selector->exclude_rules[i].number == pid)
                        return true;
        return is_ours(selector, pid, NULL);
}

/* A process that was gone before it could be looked at may be one that must not be profiled. */
static bool may_be_excluded(const SelectorRule *rule, const SelectorFacts *facts) {
        if (needs[rule->kind] && (!facts->identity || facts->is_inherited))
                return !facts->is_kernel;
        if (rule->kind == SELECTOR_KIND_COMM && !facts->comm)
                return true;
        return rule_matches(rule, facts);
}

static bool is_excluded(const Selector *selector, const SelectorFacts *facts) {
        for (size_t i = 0; i < selector->n_exclude_rules; i++)
                if (may_be_excluded(&selector->exclude_rules[i], facts))
                        return true;
        return is_ours(selector, facts->pid, facts->comm);
}

SelectorReason selector_decide(const Selector *selector, const SelectorFacts *facts) {
        if (is_excluded(selector, facts))
                return SELECTOR_EXCLUDED;
        if (contains(selector->pids, selector->n_pids, facts->pid))
                return SELECTOR_PID;
        if (comm_matches(selector, facts->comm))
                return SELECTOR_COMM;
        for (size_t i = 0; i < selector->n_rules; i++)
                if (rule_matches(&selector->rules[i], facts))
                        return SELECTOR_PID + (SelectorReason)selector->rules[i].kind;
        if (facts->in_tree)
                return SELECTOR_TREE;
        if (selector->all)
                return SELECTOR_ALL;
        if (!selector_takes_publishers(selector))
                return SELECTOR_UNCHOSEN;
        return facts->publishes ? SELECTOR_PUBLISHER : SELECTOR_SILENT;
}

/* A pid may be given to any program, whatever it is called. */
static bool has_pids(const Selector *selector) {
        for (size_t i = 0; i < selector->n_rules; i++)
                if (is_by_pid(&selector->rules[i]))
                        return true;
        return selector->n_pids || selector->n_trees;
}

enum abi_names selector_names(const Selector *selector) {
        unsigned what = selector_needs(selector);

        if (!selector_is_by_name(selector) || selector->publishers || has_pids(selector) ||
            what & ~(unsigned)IDENTITY_USER)
                return ABI_NAMES_NONE;
        return what ? ABI_NAMES_COMM_USER : ABI_NAMES_COMM;
}

bool selector_rejects_name(const Selector *selector, const struct abi_name *name) {
        const Identity identity = { .uid = name->uid, .has_uid = true };
        const SelectorFacts facts = { .comm = name->comm, .identity = &identity };

        for (size_t i = 0; i < selector->n_exclude_rules; i++)
                if (rule_matches(&selector->exclude_rules[i], &facts))
                        return true;
        for (size_t i = 0; i < selector->n_rules; i++)
                if (rule_matches(&selector->rules[i], &facts))
                        return false;
        return !comm_matches(selector, name->comm) && !selector->all;
}

const char *selector_kind_name(SelectorKind kind) {
        static const char *const names[SELECTOR_N_KINDS] = { "pid",       "comm", "exe", "cgroup",
                                                             "container", "user", "unit" };

        return names[kind];
}

const char *selector_reason_text(SelectorReason reason) {
        static const char *const texts[] = {
                [SELECTOR_UNCHOSEN] = "not chosen",
                [SELECTOR_SILENT] = "publishes no context",
                [SELECTOR_EXCLUDED] = "excluded",
                [SELECTOR_PID] = "chosen by --pid",
                [SELECTOR_COMM] = "chosen by --comm",
                [SELECTOR_EXE] = "chosen by --exe",
                [SELECTOR_CGROUP] = "chosen by --cgroup",
                [SELECTOR_CONTAINER] = "chosen by --container",
                [SELECTOR_USER] = "chosen by --user",
                [SELECTOR_UNIT] = "chosen by --unit",
                [SELECTOR_TREE] = "descends from the command",
                [SELECTOR_ALL] = "chosen by --all",
                [SELECTOR_PUBLISHER] = "publishes context",
        };

        return texts[reason];
}
