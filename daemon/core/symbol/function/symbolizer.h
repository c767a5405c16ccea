/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Symbolizer
 *
 * Names functions of objects that a profile knows by path and build id, from files of this machine. Symbols
 * come from the first of: .symtab of the object; its debug file; .gnu_debugdata with .dynsym; .dynsym alone,
 * and in Go programs Go's own table with it. object-path.h says how files are found and checked. Tables stay
 * in a cache with a cap in bytes and objects; the least recently used one is dropped first.
 */

#include <stddef.h>
#include <stdint.h>

#include "core/base/sandbox/zygotes.h"
#include "core/base/util/macro.h"
#include "core/symbol/function/debug-file.h"
#include "core/symbol/function/demangle.h"
#include "core/symbol/function/object-path.h"
#include "core/symbol/function/symbols.h"
#include "core/symbol/line/lines.h"

typedef struct Symbolizer Symbolizer;

typedef struct SymbolizerOptions {
        const char *debug_directory;    /* NULL = /usr/lib/debug */
        uint32_t max_objects;           /* 0 = 1024 */
        size_t max_bytes;               /* bytes of all tables; 0 = 256 MiB; one table may exceed it alone */
        DemangleStyle style;            /* style of C++ and Rust names; 0 = short */
        bool want_lines;                /* the namer of frames reads DWARF too (window-names.h) */
        LinesOptions lines;             /* options for one object */
        uint32_t lines_ms;              /* time for the lines of all objects; 0 = 120,000 */
        /*
         * Asked for what this machine has no debug file of; NULL = no server is. Then all files are read by
         * workers without rights, which `zygotes` starts. Both are borrowed.
         */
        const SymbolRemote *remote;
        Zygotes *zygotes;
} SymbolizerOptions;

/* @options may be NULL. Return: 0, -ENOMEM. */
int symbolizer_new(Symbolizer **symbolizerp, const SymbolizerOptions *options);
Symbolizer *symbolizer_free(Symbolizer *symbolizer);
DEFINE_CLEANUP(Symbolizer, symbolizer_free)

typedef struct SymbolName {
        /* readable, in the symbolizer's style; NULL = no function is known there */
        const char *name;
        const char *linkage_name;       /* as in the file */
        uint64_t offset;                /* from the function's start */
        SymbolState state;              /* how the object was read */
} SymbolName;

/*
 * The function of @object that holds @address (an ELF address; of a caller: its return address - 1). Both
 * names live until the next call. Return: 0, -ENOMEM.
 */
int symbolizer_name(Symbolizer *symbolizer, const SymbolObject *object, uint64_t address, SymbolName *name);

/*
 * For symbol-session.h: a table that a worker has read. From then on the object is not read here, and none of
 * its names is made readable here. @table: taken over in any case; NULL = none. Return: 0, -ENOMEM.
 */
bool symbolizer_knows(Symbolizer *symbolizer, const SymbolObject *object);
int symbolizer_put(Symbolizer *symbolizer, const SymbolObject *object, SymbolTable *table, SymbolState state,
                   SymbolGo go);

/*
 * Name at @address that may have a readable form, which is not known yet. It lives as long as its table. NULL
 * = none.
 */
const char *symbolizer_unread(Symbolizer *symbolizer, const SymbolObject *object, uint64_t address);

/*
 * @name: from symbolizer_unread(). @size: length of its readable form; 0 = it has none. Return: 0, -ENOMEM.
 */
int symbolizer_put_readable(Symbolizer *symbolizer, const SymbolObject *object, const char *name,
                            const char *text, size_t size);

/* Reads @object again when it is needed. */
void symbolizer_forget(Symbolizer *symbolizer, const SymbolObject *object);

/* From now on, as SymbolizerOptions; both are borrowed. @remote: NULL = none. */
void symbolizer_set_remote(Symbolizer *symbolizer, const SymbolRemote *remote, Zygotes *zygotes);
const SymbolRemote *symbolizer_remote(const Symbolizer *symbolizer);    /* NULL = none */
const char *symbolizer_debug_directory(const Symbolizer *symbolizer);
DemangleStyle symbolizer_style(const Symbolizer *symbolizer);
bool symbolizer_wants_lines(const Symbolizer *symbolizer);

/* Result of reading the lines of an object. */
typedef enum LinesState {
        LINES_STATE_UNKNOWN,            /* not asked for */
        LINES_STATE_READ,
        LINES_STATE_ABSENT,             /* no .debug_info in the object, and no debug file that has it */
        LINES_STATE_TIMEOUT,            /* lines are missing: reading was cut off, and is not tried again */
        LINES_STATE_FAILED,             /* DWARF is damaged, or its reader could not run */
        /* as READ, but files with some of the functions could not be opened */
        LINES_STATE_PARTS,
        LINES_STATE_ZSTD,               /* DWARF is compressed by zstd, which libdw cannot read */
        LINES_N_STATES,
} LinesState;

/*
 * Hands the source line at each address of @object, and the functions inlined there, to @sink (see lines.h),
 * in the order of @addresses; those of which nothing is known are left out. What was asked before comes from
 * memory. Each new batch starts a process: ask for many at once. Texts live for the call. Return: 0, the
 * sink's negative code, -ENOMEM.
 */
int symbolizer_lines(Symbolizer *symbolizer, const SymbolObject *object, const uint64_t *addresses,
                     uint32_t n, LinesSink sink, void *userdata, LinesState *statep);

/*
 * Path of object number @index in memory ("" = not known), and the result of reading its lines. NULL = there
 * are fewer objects.
 */
const char *symbolizer_lines_object(const Symbolizer *symbolizer, uint32_t index, LinesState *statep);

/*
 * Forgets each object that was not asked for since the call before. So with one call a minute, an object
 * stays for one to two minutes after its last use. It is read again when it is needed.
 */
void symbolizer_age(Symbolizer *symbolizer);

/* Work since the symbolizer was made. */
typedef struct SymbolizerStats {
        uint64_t n_misses;              /* look-ups whose object was not in memory, and was read first */
        uint64_t n_evicted;             /* objects that left for others */
        uint64_t n_aged;                /* objects that left since they were not asked for */
        uint64_t n_objects[SYMBOL_N_STATES];    /* objects that were read, by result */
        uint64_t n_go[SYMBOL_N_GO];     /* the same, by result of Go's table */
        uint64_t n_cut;                 /* objects with more functions than a table takes */
        uint64_t n_line_runs;           /* processes started */
        uint64_t n_lines[LINES_N_STATES];       /* batches of addresses, by result */
} SymbolizerStats;

const SymbolizerStats *symbolizer_stats(const Symbolizer *symbolizer);

/* Readable text of a state: `stripped`, … Static string. */
const char *symbol_state_text(SymbolState state);

/* Bytes of all tables, and the number of objects known. */
size_t symbolizer_memory(const Symbolizer *symbolizer);
uint32_t symbolizer_n_objects(const Symbolizer *symbolizer);
