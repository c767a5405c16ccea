/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Selector
 *
 * Which processes are profiled. Selectors are ORed; any of them replaces the
 * default, which is those that publish a context ring; excludes win over all.
 * A pure decision: the facts come in, the reason comes out.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All arrays are borrowed. */
typedef struct Selector {
        const uint32_t *pids;
        size_t n_pids;
        const char *const *comms;       /* globs (fnmatch) on the comm of the leader */
        size_t n_comms;
        bool all;
        const uint32_t *excluded;       /* pids that are never profiled, our own for one */
        size_t n_excluded;
} Selector;

typedef enum SelectorReason {
        SELECTOR_UNCHOSEN,              /* selectors were given, none fits */
        SELECTOR_SILENT,                /* none was given, and the process publishes nothing */
        SELECTOR_EXCLUDED,
        SELECTOR_PID,                   /* from here on: chosen */
        SELECTOR_COMM,
        SELECTOR_ALL,
        SELECTOR_PUBLISHER,
} SelectorReason;

static inline bool selector_is_chosen(SelectorReason reason) {
        return reason >= SELECTOR_PID;
}

/* Whether no selector is given: publishers are profiled. */
bool selector_is_default(const Selector *selector);

/* Whether processes without a row must be sampled until their name is known (--all, --comm). */
bool selector_is_by_name(const Selector *selector);

/* @comm: NUL-terminated. */
SelectorReason selector_decide(const Selector *selector, uint32_t pid, const char *comm, bool publishes);

/* For people: "chosen by --pid" … Static. */
const char *selector_reason_text(SelectorReason reason);
