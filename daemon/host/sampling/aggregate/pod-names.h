/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Names of Pods
 *
 * A control group tells the uid of a process' pod. Its namespace and name come from two sources, of which
 * each may be missing:
 *
 *     directory   of the kubelet, /var/log/pods. It has an entry for each pod of the node:
 *                 NAMESPACE_NAME_UID. Neither name has an underscore in it, by the rules of Kubernetes. So
 *                 no API server is asked, and no right in the cluster is needed.
 *     lister      a function that asks a kubelet or the API server, and hands over entries of the same form;
 *                 the owner and labels are known to it alone
 */

#include <stddef.h>
#include <stdint.h>

#include "core/base/util/macro.h"

/* Asked for a list when a uid is not known; it comes, later, by pod_names_take(). */
typedef struct PodLister {
        void (*want)(void *userdata);
        void *userdata;
} PodLister;

typedef struct PodNames PodNames;

typedef struct PodName {
        const char *namespace, *name;   /* valid until the next call of a function here */
        const char *more;               /* the lister's: KEY NUL VALUE NUL … NUL, of attributes; NULL = the
                                         * directory's */
} PodName;

enum {
        _POD_NAMES_E_SUCCESS,
        POD_NAMES_E_UNKNOWN,            /* the directory has no such pod, or cannot be read */
};

/* @directory: copied, "" = none; @lister: copied, NULL = none. Return: 0, -ENOMEM. */
int pod_names_new(PodNames **podsp, const char *directory, const PodLister *lister);
PodNames *pod_names_free(PodNames *pods);
DEFINE_CLEANUP(PodNames, pod_names_free)

/*
 * The pod of @uid. A uid that is not known has the directory read again, and one that the lister's list has
 * not has the lister asked, each not more often than every ten seconds; the lister after 20, 40 and then
 * 80 s, as long as its lists have no pod that the one before did not have. @now_ns: MONOTONIC. Return: 0,
 * POD_NAMES_E_UNKNOWN, -ENOMEM.
 */
int pod_names_find(PodNames *pods, const char *uid, uint64_t now_ns, PodName *name);

/*
 * The lister's list, in the place of its last one: @size bytes of entries as pod_list_parse() writes them.
 * What is no name by the rules of Kubernetes is left out, and of one uid the first counts. Return: 0,
 * -ENOMEM.
 */
int pod_names_take(PodNames *pods, const char *entries, size_t size);

/*
 * Pure. Cuts @entry, a name of the directory, into its parts, in place; whatever is no name by the rules of
 * Kubernetes is none. Return: 0, POD_NAMES_E_UNKNOWN = it is no pod's; @entry may be changed.
 */
int pod_names_parse(char *entry, PodName *name, const char **uidp);
