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
 * moment ago. A file counts only if a worker without rights finds that build id in it. Sizes, times and the
 * number of files are bounded. A server in trouble is told once, and not asked again, or later and later.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/sandbox/zygotes.h"
#include "core/base/util/macro.h"
#include "core/symbol/function/debug-file.h"

typedef struct Debuginfod Debuginfod;

typedef struct DebuginfodConfig {
        const char *urls;               /* with blanks between them, as in DEBUGINFOD_URLS */
        /* directory of the cache; it is made. NULL = cache_path() of debuginfod.c */
        const char *directory;
        uint64_t max_file_bytes;        /* 0 = 1 GiB */
        uint64_t max_cache_bytes;       /* 0 = 2 GiB; the files that were used longest ago go first */
        uint64_t none_s;                /* for which HEX.none counts; 0 = 600 */
        uint64_t timeout_ns;            /* time of one file; 0 = 300 s */
        uint64_t idle_ns;               /* without a byte; 0 = 30 s */
        /* a server in trouble is left alone for so long, doubled up to 10 min; 0 = for good */
        uint64_t retry_ns;
        Zygotes *zygotes;               /* borrowed; not NULL */
        bool is_quiet;                  /* trouble is not logged: debuginfod_problem() has the last */
        bool (*is_over)(void *userdata);        /* as in HttpCall; NULL = never */
        void *userdata;                 /* for it */
} DebuginfodConfig;

enum {
        _DEBUGINFOD_E_SUCCESS,
        DEBUGINFOD_E_UNUSABLE,          /* no URL, no libcurl, or no directory; logged */
        DEBUGINFOD_E_NONE,              /* no server has it */
        DEBUGINFOD_E_REFUSED,           /* the file was of another build, no ELF, or too large */
        DEBUGINFOD_E_FAILED,            /* a server did not answer, or the cache cannot be written */
};

enum { DEBUGINFOD_MAX_PROBLEM = 256 };  /* bytes, with the NUL */

/*
 * For root, before it becomes another user: makes the cache of a service manager, or the shared one, and
 * gives it away (directory_give()). *pathp: it, owned by the caller. Return: 0, DIRECTORY_E_FOREIGN, -errno.
 */
int debuginfod_give(uint32_t uid, uint32_t gid, char **pathp);

/* Return: 0, DEBUGINFOD_E_UNUSABLE, -ENOMEM. */
int debuginfod_new(Debuginfod **clientp, const DebuginfodConfig *config);
Debuginfod *debuginfod_free(Debuginfod *client);
DEFINE_CLEANUP(Debuginfod, debuginfod_free)

/*
 * The debug file of a build id; may take as long as the time limits say. Return: 0 with *fdp (owned by the
 * caller) and *sizep, DEBUGINFOD_E_NONE, _REFUSED, _FAILED.
 */
int debuginfod_get(Debuginfod *client, const char *build_id_gnu, int *fdp, uint64_t *sizep);

/* Any thread: the same, of the cache alone. Return: 0, DEBUGINFOD_E_NONE. */
int debuginfod_get_cached(const Debuginfod *client, const char *build_id_gnu, int *fdp, uint64_t *sizep);

/* Words on the last failure; "" = none. */
const char *debuginfod_problem(const Debuginfod *client);

/* The client as what a symbolizer asks; lives as long as it. */
const SymbolRemote *debuginfod_remote(const Debuginfod *client);
