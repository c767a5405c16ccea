/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Debug Files from Servers by Configuration: `debuginfod = on`, with `symbols = local`. */

#include "core/base/sandbox/zygotes.h"
#include "host/naming/debug-fetcher.h"
#include "host/service/config/config.h"

enum {
        _SYMBOL_FETCH_E_SUCCESS,
        SYMBOL_FETCH_E_UNUSABLE,        /* no servers, or no place for a cache; a message was logged */
};

/*
 * *fetcherp stays NULL if none is wanted, or if there are no workers without rights to read what servers send
 * (which is logged). Return: 0, SYMBOL_FETCH_E_UNUSABLE, -ENOMEM.
 */
int symbol_fetch_new(DebugFetcher **fetcherp, const Config *config, Zygotes *zygotes);
