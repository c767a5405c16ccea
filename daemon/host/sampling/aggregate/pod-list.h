/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Pod List
 *
 * A PodList as a kubelet (`GET /pods`) and the API server (`GET /api/v1/pods`) answer it, in JSON: of each pod
 * items[].metadata.uid, .namespace and .name are kept, and nothing else.
 */

#include <stddef.h>

#include "core/base/util/text.h"

enum {
        _POD_LIST_E_SUCCESS,
        POD_LIST_E_MALFORMED,           /* no JSON, nested deeper than 64, or no list of pods */
};

enum { POD_LIST_MAX = 4096 };           /* pods of one list; a node has some hundred */

/*
 * Pure, in any thread. Appends `NAMESPACE_NAME_UID` and a NUL to @entries for each pod that has all three, up
 * to POD_LIST_MAX; the parts are as they came. *n_overp: pods beyond that. Return: 0, POD_LIST_E_MALFORMED;
 * @entries->failed = out of memory.
 */
int pod_list_parse(const char *json, size_t size, Text *entries, size_t *n_overp);
