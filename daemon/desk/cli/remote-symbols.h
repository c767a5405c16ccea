/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Remote Symbols
 *
 * `--debuginfod` of `report`, `convert` and `record`: servers that are asked for debug information, and the
 * processes without rights that read what they send.
 */

#include "core/symbol/debug/debuginfod.h"
#include "core/symbol/function/symbolizer.h"
#include "host/service/config/config.h"

typedef struct RemoteSymbols {
        Zygotes *zygotes;
        Debuginfod *client;             /* NULL = not asked for */
} RemoteSymbols;

/*
 * While this process may still start programs (confine.h). Without the option nothing is done. Return: 0,
 * STATUS_FAILURE (a message was logged), -ENOMEM.
 */
int remote_symbols_init(RemoteSymbols *remote, const Config *config);
void remote_symbols_deinit(RemoteSymbols *remote);

/* Sets what a symbolizer is to ask. */
void remote_symbols_put(const RemoteSymbols *remote, SymbolizerOptions *options);
