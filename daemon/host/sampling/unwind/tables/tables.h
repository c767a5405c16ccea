/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Unwind Tables of the Targets
 *
 * Keeps the kernel able to walk the targets' stacks: parses the files that they
 * map, loads the rows, and tells the kernel which file lies where in each process.
 * Walks end where tables are not ready yet. Nothing here waits: the work is done in
 * steps, as large as the caller has time for.
 *
 *     found, exec, mappings changed      tables_process()
 *     a sample                           tables_sampled(), at least once a window for each file
 *     gone                               tables_forget()
 *     tables_fd() readable, or time      tables_step() until it returns 0
 */

#include <stddef.h>
#include <stdint.h>

#include "core/base/sandbox/zygotes.h"
#include "core/base/util/macro.h"
#include "host/sampling/process/process.h"

typedef struct Tables Tables;
typedef struct RowCache RowCache;      /* row-cache.h */

enum { TABLES_MAX_BYTES = 128 << 20 };

typedef struct TablesConfig {
        int array_fd;                   /* maps of the kernel half, borrowed: row_tables */
        int nodes_fd;                   /* row_nodes */
        /* 1 is added after each change of a node; borrowed; NULL = no reader keeps what it has read */
        uint64_t *versionp;
        size_t max_bytes;               /* bytes of tables in the kernel; 0 = TABLES_MAX_BYTES */
        size_t max_idle_bytes;          /* bytes of unused tables, kept for the next target; 0 = 8 MiB */
        uint32_t max_idle_waiting;      /* files that wait for their turn though no target has them; 0 = 64 */
        /* start workers that read the files; borrowed; NULL = files are read here */
        Zygotes *zygotes;
        RowCache *cache;                /* what they made for earlier ones; borrowed; NULL = none */
} TablesConfig;

enum {
        _TABLES_E_SUCCESS,
        TABLES_E_AGAIN,                 /* there is more to do */
};

/* Return: 0, -errno. */
int tables_new(Tables **tablesp, const TablesConfig *config);
Tables *tables_free(Tables *tables);
DEFINE_CLEANUP(Tables, tables_free)

/*
 * While it @holds, tables that no process uses leave the kernel, and others get no more room than all have
 * as it begins.
 */
void tables_hold(Tables *tables, bool holds);

/*
 * A target's mappings, as they were last read. Costs nothing if they are the ones that it
 * was told before (maps_serial). Return: 0, -ENOMEM.
 */
int tables_process(Tables *tables, const Process *process);

/*
 * The file that stands for an area of code that a process has made (made-image.h), under the area's id. Each
 * look that finds the area tells it, and counts as a sample in it. tables_process() takes it into use. @fd:
 * taken over. Return: 0, -ENOMEM.
 */
int tables_add_made(Tables *tables, const Process *process, uint64_t id, int fd);

/*
 * Notes a sample in a mapping of the process: its table is the last to give way to others, and is asked for
 * again if it had no room. Return: 0, -ENOMEM.
 */
int tables_sampled(Tables *tables, const Process *process, const Mapping *mapping, uint64_t now_ns);

/* The target is gone, or is none any more. */
void tables_forget(Tables *tables, uint32_t pid);

/* Readable when the next step has something to finish. */
int tables_fd(const Tables *tables);

/*
 * Works for about @budget bytes of files (100,000 take some 0.5 ms). Return: 0 = nothing to do
 * for now (tables may still be on their way: see tables_fd()), TABLES_E_AGAIN, -ENOMEM.
 */
int tables_step(Tables *tables, uint64_t budget);

/* Whether a step has something to do now: nearly always the files of a new process are known. */
bool tables_have_work(const Tables *tables);

/*
 * ELF address of what an executable mapping at @offset of a file begins with. Unlike object_address(), for
 * whole pages: the first one may begin before its segment does. Return: whether it is in an executable
 * segment.
 */
bool tables_find_address(const Object *object, uint64_t offset, uint64_t *addressp);

/* Rows of a file that are in the kernel, or about to be. */
typedef struct TablesRows {
        int fd;                         /* map of `size` bytes, to be mapped at once; not the caller's */
        size_t size;
        uint64_t text_low, text_high;   /* ELF addresses that the first and the last page stand for */
} TablesRows;

/*
 * Return: 0 and *rowsp, UNWIND_PENDING_TABLE (also of a file that is not known yet), UNWIND_NO_TABLE,
 * UNWIND_LOST_TABLE.
 */
uint32_t tables_find_rows(const Tables *tables, uint64_t object_id, TablesRows *rowsp);

/* Counts tables that are done, with rows or without: another number = another answer may be had. */
uint64_t tables_changes(const Tables *tables);

/* As pool_want(). */
void tables_want(Tables *tables, uint64_t object_id);

/* As pool_progress(): *np is 0 if no file waits. */
void tables_progress(const Tables *tables, uint32_t *n_madep, uint32_t *np);

/* Whether every file of a process is loaded, or known to have no rows. */
bool tables_is_ready(const Tables *tables, uint32_t pid);

/* Whether tables_is_ready() holds for all processes. */
bool tables_are_ready(const Tables *tables);

/* Bytes of tables in the kernel. */
size_t tables_bytes(const Tables *tables);
