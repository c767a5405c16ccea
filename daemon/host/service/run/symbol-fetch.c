/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Makes a fetcher of debug files from the configuration, or says why there is none.
 */

#include "host/service/run/symbol-fetch.h"

#include <stdlib.h>

#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "host/service/config/backend.h"

int symbol_fetch_new(DebugFetcher **fetcherp, const Config *config, Zygotes *zygotes) {
        const DebugFetcherConfig fetcher = { .client = { .urls = getenv("DEBUGINFOD_URLS"), .zygotes = zygotes } };
        int r;

        if (!config->names.debuginfod)
                return 0;
        if (!backend_wants_names(config)) {
                log_warning("debuginfod = on does nothing here: it is for symbols = local");
                return 0;
        }
        if (!zygotes) {
                log_warning("debuginfod: no server is asked, since there is no process without rights to read what it sends");
                return 0;
        }
        r = debug_fetcher_new(fetcherp, &fetcher);
        if (r)
                return r < 0 ? error_fold(r) : SYMBOL_FETCH_E_UNUSABLE;
        log_info("debug files that this machine lacks are asked of the servers of DEBUGINFOD_URLS, by build id");
        return 0;
}
