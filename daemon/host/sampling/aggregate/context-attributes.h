/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Context Attributes
 *
 * What a thread published beside its span, as attributes of a sample: indexes become the names that the
 * process context has for them; labels of goroutines have names of their own. And which attributes may leave
 * the host at all.
 *
 * Of one key of one process, MAX_VALUES distinct values are sent in a window; what comes then is
 * `__overflow__`.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/data/intern.h"
#include "core/profile/window.h"
#include "host/sampling/aggregate/pod-names.h"
#include "host/sampling/context/goroutine-labels.h"
#include "host/sampling/context/publication.h"
#include "host/sampling/sample/decode.h"

enum {
        CONTEXT_ATTRIBUTES_MAX_VALUES = 1000,
        CONTEXT_ATTRIBUTES_MAX_KEYS = 256,          /* an index is one byte; of labels, in a window */
};

typedef struct Environment Environment;

/* Forms of a resource's host.id. */
typedef enum LabelHostId {
        /* hash over the machine and spanprof: it leads to no other telemetry */
        LABEL_HOST_HASHED,
        LABEL_HOST_MACHINE,                     /* machine-id(5) */
        LABEL_HOST_NONE,
} LabelHostId;

/* Globs that choose attributes by their keys (resource, sample and context alike). Borrowed. */
typedef struct AttributeFilter {
        char *const *allow, *const *deny;
        size_t n_allow, n_deny;                 /* n_allow = 0: all */
        bool coroutine_ids;                     /* add coroutine.id and go.goroutine.id: a value for each */
        LabelHostId host_id;
        const Environment *own;                 /* the operator's words on each resource; NULL = nothing */
        PodNames *pods;                         /* NULL = pods have no names */
} AttributeFilter;

bool attribute_filter_allows(const AttributeFilter *filter, const char *key);

typedef struct ContextAttributes {
        Intern values;                          /* {process, key, value} → number */
        Intern keys;                            /* {process, key} → number */
        Intern labels;                          /* {process, name} → number */
        uint32_t *counts;                       /* values of a key, by its number */
        uint32_t size;
} ContextAttributes;

void context_attributes_init(ContextAttributes *attributes);
void context_attributes_deinit(ContextAttributes *attributes);

/* A new window begins. */
void context_attributes_reset(ContextAttributes *attributes);

/*
 * Adds the attributes of @sample to @to (room for CONTEXT_ATTRIBUTES_MAX_KEYS). A key that has no name sets
 * publication->wants_context. Return: 0, WINDOW_E_FULL, -ENOMEM.
 */
int context_attributes_add(ContextAttributes *attributes, const AttributeFilter *filter, Window *window,
                           const Program *program, const Sample *sample, uint32_t *to, size_t *np);

/*
 * Adds the labels of the goroutine of @sample (ABI_FORM_GO) to @to, up to @max. Labels over
 * CONTEXT_ATTRIBUTES_MAX_KEYS of a process are left out and counted. Return: as above.
 */
int context_attributes_add_labels(ContextAttributes *attributes, const AttributeFilter *filter,
                                  Window *window, const Process *process, const Sample *sample,
                                  uint32_t *to, size_t max, size_t *np);
