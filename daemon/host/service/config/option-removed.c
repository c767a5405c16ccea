/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Has a row for each option that is gone: where it was known, what does its job now, and the version that
 * removed it.
 */

#include "host/service/config/option-removed.h"

#include <string.h>

#include "core/base/util/log.h"
#include "core/base/util/macro.h"

enum { SENDERS = VERB_RUN | VERB_RECEIVE | VERB_CONVERT | VERB_SPOOL };

const RemovedOption removed_options[] = {
        { "max-samples", false, VERB_RUN, true, NULL, "`max-export-rate` and `max-cpu` lower the frequency",
          "0.2.0" },
        { "max-export-age", false, SENDERS, true, NULL,
          "requests are tried for an hour, and those of a spool as `spool-max-age` says", "0.2.0" },
        { "upload-samples", false, VERB_RUN, true, NULL, "symbols of a file go when 100 samples stood in it",
          "0.2.0" },
        { "upload-protocol", false, VERB_RUN, true, "backend", "symbols are uploaded in the form of `backend`", "0.2.0" },
        { "attributes-keep", false, VERB_RUN | VERB_CONVERT, true, "attributes", "`attributes` takes what stays: lean,GLOB",
          "0.2.0" },
        { "socket", false, VERB_CORO, false, NULL, "the socket stands beside the region, with .sock after its name", "0.2.0" },
        { "progress", true, VERB_CORO | VERB_RECORD, false, NULL, "`--log-level warning` shows none", "0.2.0" },
        { "dialect", false, VERB_CORO, false, NULL, "what the program speaks is found out", "0.2.0" },
        { "diagnostics", true, VERB_CONVERT, false, NULL, "`--log-level debug` says the same", "0.2.0" },
        { "for", false, VERB_VALIDATE, false, "backend", "`--backend` is the same", "0.2.0" },
};

const size_t n_removed_options = ARRAY_SIZE(removed_options);

const RemovedOption *removed_find(const char *name, size_t size, int verb) {
        for (size_t i = 0; i < ARRAY_SIZE(removed_options); i++) {
                const RemovedOption *removed = &removed_options[i];
                bool taken = removed->verbs & verb || (verb == VERB_CONFIG && removed->in_files);

                if (taken && strlen(removed->name) == size && !memcmp(removed->name, name, size))
                        return removed;
        }
        return NULL;
}

void removed_environment(const RemovedOption *removed, char *to) {
        option_environment(&(Option){ .name = removed->name }, to);
}

int removed_apply(const RemovedOption *removed, Config *config, const char *value, ConfigLevel level,
                  const char *where, const char *written) {
        _cleanup_(text_deinit) Text errors = { 0 };
        const Option *successor =
                removed->successor ? option_find(removed->successor, strlen(removed->successor)) : NULL;
        int r = successor && value ? config_set(config, successor, value, level, where, written, &errors) : 0;
        bool taken = successor && value && !r;

        log_warning("%s: there is no such option since version %s; %s%s: %s", written, removed->since,
                    taken ? "taken as " : "ignored", taken ? removed->successor : "", removed->advice);
        return r < 0 ? r : 0;
}
