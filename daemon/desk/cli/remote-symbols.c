/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Starts processes without rights and a client of debuginfod for the time of a command.
 */

#include "desk/cli/remote-symbols.h"

#include <string.h>

#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "host/cli/cli.h"

enum { ZYGOTE_WAIT_MS = 5000 };

int remote_symbols_init(RemoteSymbols *remote, const Config *config) {
        DebuginfodConfig debuginfod = { .urls = getenv("DEBUGINFOD_URLS") };
        int r;

        *remote = (RemoteSymbols){ 0 };
        if (!config->names.debuginfod)
                return 0;
        r = zygotes_new(&remote->zygotes);
        if (!r)
                r = zygotes_wait(remote->zygotes, ZYGOTE_WAIT_MS);
        if (r) {
                log_error("--debuginfod: there is no process without rights to read what servers send (%s)",
                          strerror(-r));
                return STATUS_FAILURE;
        }
        debuginfod.zygotes = remote->zygotes;
        r = debuginfod_new(&remote->client, &debuginfod);
        return r > 0 ? STATUS_FAILURE : error_fold(r);
}

void remote_symbols_deinit(RemoteSymbols *remote) {
        debuginfod_free(remote->client);
        zygotes_free(remote->zygotes);
        *remote = (RemoteSymbols){ 0 };
}

void remote_symbols_put(const RemoteSymbols *remote, SymbolizerOptions *options) {
        options->remote = remote->client ? debuginfod_remote(remote->client) : NULL;
        options->zygotes = remote->zygotes;
}
