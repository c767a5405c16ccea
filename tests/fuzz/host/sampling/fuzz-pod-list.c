/* SPDX-License-Identifier: Apache-2.0 */

/* A list of pods that somebody else wrote: each entry has three parts, and lines of KEY=VALUE behind. */

#include <stdlib.h>
#include <string.h>

#include "host/sampling/aggregate/pod-list.h"
#include "host/sampling/aggregate/pod-names.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *entry) {
        const char *line = strchrnul(entry, '\n'), *first = strchr(entry, '_');

        if (!first || first >= line || !memchr(first + 1, '_', (size_t)(line - first - 1)))
                abort();
        for (; *line; line = strchrnul(line + 1, '\n')) {
                const char *equals = strchr(line, '=');

                if (strncmp(line + 1, "k8s.", 4) || !equals || equals > strchrnul(line + 1, '\n'))
                        abort();
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        PodNames *pods;
        static char *const globs[] = { (char *)"[a-m]*" };
        const PodLabels labels = { globs, 1 };
        Text entries = { 0 };
        PodListCounts counts;

        if (pod_names_new(&pods, "", NULL))
                abort();
        if (!pod_list_parse((const char *)data, size, &labels, &entries, &counts)) {
                const char *at = entries.data, *end = at + entries.size;

                if (entries.size && end[-1])
                        abort();
                for (; at < end; at += strlen(at) + 1)
                        check(at);
                if (pod_names_take(pods, entries.data ? entries.data : "", entries.size))
                        abort();
        }
        text_deinit(&entries);
        pod_names_free(pods);
        return 0;
}
