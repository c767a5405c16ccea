/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Pod API
 *
 * Asks a kubelet or the API server which pods there are, in a thread that may wait for the answer. The token
 * is read at each request, since Kubernetes replaces it while it is in force.
 */

#include "core/base/util/macro.h"
#include "host/sampling/aggregate/pod-list.h"
#include "host/sampling/aggregate/pod-names.h"

typedef struct PodApi PodApi;

typedef struct PodApiConfig {
        const char *url;                /* URL of the list */
        const char *token;              /* path of a file; "" = none is sent */
        const char *certificate;        /* authorities (PEM); "" = the system's */
        PodLabels labels;               /* labels that are kept of each pod */
} PodApiConfig;

enum {
        _POD_API_E_SUCCESS,
        POD_API_E_UNABLE,               /* no libcurl, or no thread; a message was logged */
};

/* Starts with a first request. Strings are copied. Return: 0, POD_API_E_UNABLE, -ENOMEM. */
int pod_api_new(PodApi **apip, const PodApiConfig *config);
PodApi *pod_api_free(PodApi *api);
DEFINE_CLEANUP(PodApi, pod_api_free)

/* Asks for a list, unless one is on its way. @userdata: the PodApi, as a PodLister has it. */
void pod_api_want(void *userdata);

/* Hands a list that has come to @pods, counts and logs what came of requests. Return: 0, -ENOMEM. */
int pod_api_collect(PodApi *api, PodNames *pods);
