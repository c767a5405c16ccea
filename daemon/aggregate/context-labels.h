/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Context Labels
 *
 * What a thread published beside its span, as attributes of a sample: indexes become the names that the process
 * context has for them. And which attributes may leave the host at all.
 *
 * Of one key of one process, MAX_VALUES distinct values are sent in a window; what comes then is `__overflow__`.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/window.h"
#include "sample/decode.h"
#include "target/process.h"
#include "util/intern.h"

enum {
        CONTEXT_LABELS_MAX_VALUES = 1000,
        CONTEXT_LABELS_MAX_KEYS = 256,          /* an index is one byte */
};

/* Which attributes are wanted: globs on their keys (resource, sample and context alike). Borrowed. */
typedef struct LabelFilter {
        char *const *allow, *const *deny;
        size_t n_allow, n_deny;                 /* n_allow = 0: all */
        bool coroutine_ids;                     /* add coroutine.id, which says nothing new */
} LabelFilter;

bool label_filter_allows(const LabelFilter *filter, const char *key);

typedef struct ContextLabels {
        Intern values;                          /* {process, key, value} → number */
        Intern keys;                            /* {process, key} → number */
        uint32_t *counts;                       /* values of a key, by its number */
        uint32_t size;
} ContextLabels;

void context_labels_init(ContextLabels *labels);
void context_labels_deinit(ContextLabels *labels);

/* A new window begins. */
void context_labels_reset(ContextLabels *labels);

/*
 * Adds the attributes of @sample to @to (room for CONTEXT_LABELS_MAX_KEYS). A key that has no name sets
 * process->wants_context. Return: 0, WINDOW_E_FULL, -ENOMEM.
 */
int context_labels_add(ContextLabels *labels, const LabelFilter *filter, Window *window, Process *process,
                       const Sample *sample, uint32_t *to, size_t *np);
