/* SPDX-License-Identifier: Apache-2.0 */

/* A list of pods that somebody else wrote: each entry has its three parts. */

#include <stdlib.h>
#include <string.h>

#include "host/sampling/aggregate/pod-list.h"
#include "host/sampling/aggregate/pod-names.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        PodNames *pods;
        Text entries = { 0 };
        size_t n_over;

        if (pod_names_new(&pods, "", NULL))
                abort();
        if (!pod_list_parse((const char *)data, size, &entries, &n_over)) {
                const char *at = entries.data, *end = at + entries.size;

                if (entries.size && end[-1])
                        abort();
                for (; at < end; at += strlen(at) + 1)
                        if (strchr(at, '_') == strrchr(at, '_'))
                                abort();
                if (pod_names_take(pods, entries.data ? entries.data : "", entries.size))
                        abort();
        }
        text_deinit(&entries);
        pod_names_free(pods);
        return 0;
}
