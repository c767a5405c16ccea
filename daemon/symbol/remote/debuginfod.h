/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Debuginfod
 *
 * Debug files by build id from servers, which learn the build ids that are asked for:
 *
 *     GET URL/buildid/HEX/debuginfo                   (debuginfod(8))
 *
 * What came is kept in a directory of its own: HEX holds the file, and HEX.none says that no server had it a
 * moment ago. A file counts only if a worker without rights finds that build id in it. Sizes and times are
 * bounded; a server in trouble is told once, and not asked again by this process.
 */

#include <stdint.h>

#include "base/sandbox/zygotes.h"
#include "base/util/macro.h"
#include "symbol/function/debug-file.h"

typedef struct Debuginfod Debuginfod;

typedef struct DebuginfodConfig {
        const char *urls;               /* with blanks between them, as in DEBUGINFOD_URLS */
        const char *directory;          /* of the cache; its last part is made. NULL = cache_directory() */
        uint64_t max_file_bytes;        /* 0 = 1 GiB */
        uint64_t max_cache_bytes;       /* 0 = 2 GiB; the files that were used longest ago go first */
        uint64_t none_s;                /* for which HEX.none counts; 0 = 600 */
        uint64_t timeout_ns;            /* of one file; 0 = 300 s */
        uint64_t idle_ns;               /* without a byte; 0 = 30 s */
        Zygotes *zygotes;               /* borrowed; not NULL */
} DebuginfodConfig;

enum {
        _DEBUGINFOD_E_SUCCESS,
        DEBUGINFOD_E_UNUSABLE,          /* no URL, no libcurl, or no directory; logged */
};

/* Return: 0, DEBUGINFOD_E_UNUSABLE, -ENOMEM. */
int debuginfod_new(Debuginfod **clientp, const DebuginfodConfig *config);
Debuginfod *debuginfod_free(Debuginfod *client);
DEFINE_CLEANUP(Debuginfod, debuginfod_free)

/*
 * The debug file of a build id; may take as long as the time limits say. Return: 0 with *fdp (owned by the
 * caller) and *sizep; 1 = none.
 */
int debuginfod_get(Debuginfod *client, const char *build_id_gnu, int *fdp, uint64_t *sizep);

/* The client as what a symbolizer asks; lives as long as it. */
const SymbolRemote *debuginfod_remote(const Debuginfod *client);
