/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Selector
 *
 * Which processes are profiled. Selectors are ORed; any of them replaces the
 * default, which is those that publish a context ring, or is added to it, if
 * `publishers` is set; excludes win over all.
 * A pure decision: the facts come in, the reason comes out.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "border/abi.h"
#include "host/sampling/process/identity.h"

/* Kinds of traits that tell a process, as the options and `--exclude KIND=PATTERN` name them. */
typedef enum SelectorKind {
        SELECTOR_KIND_PID,
        SELECTOR_KIND_COMM,             /* glob on the comm of the leader */
        /* glob on the executable's path; on its name if there is no slash in it */
        SELECTOR_KIND_EXE,
        SELECTOR_KIND_CGROUP,           /* cgroup_path_matches(), of any hierarchy */
        SELECTOR_KIND_CONTAINER,        /* cgroup_container_matches() */
        SELECTOR_KIND_USER,             /* the effective one */
        SELECTOR_KIND_UNIT,             /* cgroup_unit_matches() */
        SELECTOR_N_KINDS,
} SelectorKind;

typedef struct SelectorRule {
        SelectorKind kind;
        uint32_t number;                /* pid or user */
        const char *pattern;            /* glob of the other kinds; borrowed */
} SelectorRule;

/* All arrays are borrowed. */
typedef struct Selector {
        const uint32_t *pids;
        size_t n_pids;
        const char *const *comms;       /* globs (fnmatch) on the comm of the leader */
        size_t n_comms;
        const SelectorRule *rules;      /* more of them, of any kind */
        size_t n_rules;
        /* pids of programs that we have started: they and all that descends from them */
        const uint32_t *trees;
        size_t n_trees;
        bool all;
        bool publishers;                /* processes that publish, too: the default */
        const uint32_t *excluded;       /* pids that are never profiled, our own for one */
        size_t n_excluded;
        /* the same for helpers that come and go; may be NULL. @comm: NULL = not known */
        bool (*is_ours)(const void *userdata, uint32_t pid, const char *comm);
        const void *userdata;
        const SelectorRule *exclude_rules;
        size_t n_exclude_rules;
} Selector;

typedef enum SelectorReason {
        SELECTOR_UNCHOSEN,              /* selectors were given, none fits */
        SELECTOR_SILENT,                /* only publishing would choose it, and it publishes nothing */
        SELECTOR_EXCLUDED,
        SELECTOR_PID,                   /* from here on: chosen; in the order of SelectorKind */
        SELECTOR_COMM,
        SELECTOR_EXE,
        SELECTOR_CGROUP,
        SELECTOR_CONTAINER,
        SELECTOR_USER,
        SELECTOR_UNIT,
        SELECTOR_TREE,
        SELECTOR_ALL,
        SELECTOR_PUBLISHER,
} SelectorReason;

/* Facts about a process. */
typedef struct SelectorFacts {
        uint32_t pid;
        /* name of the leader, NUL-terminated; NULL = unknown: chosen by no name, excluded by any */
        const char *comm;
        /* a kernel thread: only pid and comm choose it, never user or group */
        bool is_kernel;
        bool publishes;                 /* a context ring */
        bool in_tree;                   /* the process is one of `trees`, or descends from one */
        /* with what selector_needs() says; NULL = unknown: chosen by no rule, excluded by any */
        const Identity *identity;
        /* identity is its parent's: good enough to choose it, not to say that no exclude fits */
        bool is_inherited;
} SelectorFacts;

static inline bool selector_is_chosen(SelectorReason reason) {
        return reason >= SELECTOR_PID;
}

/* Whether no selector is given. */
bool selector_is_default(const Selector *selector);

/* Whether publishing alone makes a process a target: none is given, or `publishers` is. */
bool selector_takes_publishers(const Selector *selector);

/* Whether `all` alone chooses: each process that is not excluded is chosen, and by nothing else. */
bool selector_is_all_alone(const Selector *selector);

/* Whether processes without a row must be sampled until it is known who they are: by all but --pid. */
bool selector_is_by_name(const Selector *selector);

/* Parts of a process' identity (IDENTITY_*) that decisions need; 0 = pid and comm are enough. */
unsigned selector_needs(const Selector *selector);

/*
 * Traits that decide alone on a process without a given pid: its name, or name and user. ABI_NAMES_NONE =
 * more than these decide, or a pid.
 */
enum abi_names selector_names(const Selector *selector);

/* Pure. Whether no process of this name is chosen. Only where selector_names() is not NONE. */
bool selector_rejects_name(const Selector *selector, const struct abi_name *name);

SelectorReason selector_decide(const Selector *selector, const SelectorFacts *facts);

/* Whether this pid is never profiled, whatever runs there. */
bool selector_excludes_pid(const Selector *selector, uint32_t pid);

/* `comm`, `exe` … Static. */
const char *selector_kind_name(SelectorKind kind);

/* For people: "chosen by --pid" … Static. */
const char *selector_reason_text(SelectorReason reason);
