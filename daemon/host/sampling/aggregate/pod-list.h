/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Pod List
 *
 * A PodList as a kubelet (`GET /pods`) and the API server (`GET /api/v1/pods`) answer it, in JSON. Of each
 * items[].metadata are kept: uid, namespace and name; the name of the controller among ownerReferences; and
 * labels that somebody has chosen. Nothing else.
 */

#include <stddef.h>

#include "core/base/util/text.h"

enum {
        _POD_LIST_E_SUCCESS,
        POD_LIST_E_MALFORMED,           /* no JSON, nested deeper than 64, or no list of pods */
};

enum {
        POD_LIST_MAX = 4096,            /* pods of one list; a node has some hundred */
        POD_LIST_MAX_LABELS = 32,       /* chosen labels of a pod */
};

/* Globs on keys of labels. Borrowed. */
typedef struct PodLabels {
        char *const *globs;
        size_t n_globs;
} PodLabels;

typedef struct PodListCounts {
        size_t n_over;                  /* pods beyond POD_LIST_MAX */
        size_t n_labels_over;           /* chosen labels beyond POD_LIST_MAX_LABELS */
        size_t n_labels_malformed;      /* chosen labels that are none by the rules of Kubernetes */
} PodListCounts;

/*
 * Pure, in any thread. Appends `NAMESPACE_NAME_UID` to @entries for each pod that has all three, up to
 * POD_LIST_MAX; the parts are as they came. Behind it, for owner and labels, a line each of `\nKEY=VALUE`,
 * with keys of attributes; and then a NUL. Return: 0, POD_LIST_E_MALFORMED; @entries->failed = out of memory.
 */
int pod_list_parse(const char *json, size_t size, const PodLabels *labels, Text *entries,
                   PodListCounts *counts);
