/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Symbol Wire
 *
 * How a worker without rights (core/base/sandbox/worker-session.h) is asked for the symbols of a file, and
 * for readable forms of names. It can open nothing, so it says which debug file it wants, and is offered one
 * file after the other until one is right:
 *
 *     ask     SymbolRequest, with the file              or READABLE: { size, name }…
 *     answer  SymbolAnswer WANT  ◀── no file yet, or a wrong one
 *     ask     SymbolOffer, with a file; without one: there are no more
 *     answer  SymbolAnswer TABLE, { start, size }…, names, each with a NUL
 *                                                       or READABLE: { size, text }…
 *
 * Lines at addresses are asked for in the same way: LINES, with the addresses, is answered by LINES and what
 * core/symbol/line/lines.h has, to its end; STRIPPED = there are none.
 *
 * Functions come in order, and there are as many names as functions: so nothing in a table is an index.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/sandbox/worker-session.h"
#include "core/symbol/function/debug-file.h"
#include "core/symbol/function/symbols.h"

enum {
        SYMBOL_WIRE_MAGIC = 0x53594d31,
        SYMBOL_WIRE_MAX_BYTES = 128 << 20,      /* bytes of a table in memory */
        SYMBOL_WIRE_PIECE = 4096,       /* functions that are sent at a time */
        SYMBOL_WIRE_MAX_NAMES = 1024,   /* names of one request */
        SYMBOL_WIRE_ID = 136,           /* bytes of a build id's text */
};

typedef enum SymbolAsk { SYMBOL_ASK_TABLE, SYMBOL_ASK_READABLE, SYMBOL_ASK_LINES } SymbolAsk;

typedef struct SymbolRequest {
        uint32_t magic, kind;
        uint64_t size;                  /* TABLE, LINES: size of the file, if @has_file */
        uint32_t has_file;
        uint32_t state;                 /* why there is no file */
        uint32_t n, bytes;              /* READABLE: names, and all that follows; LINES: addresses */
        uint32_t style;
        uint32_t is_itself;             /* the file is the object itself, also without a build id */
        uint32_t one_by_one;            /* READABLE: each answer is sent before the next name is looked at */
        char gnu[SYMBOL_WIRE_ID], go[SYMBOL_WIRE_ID];   /* the object's build ids */
} SymbolRequest;

typedef struct SymbolOffer {
        uint32_t magic, has_file;
        uint64_t size;
        uint32_t by_link, zero;         /* the file was found by link: its sum counts */
} SymbolOffer;

typedef enum SymbolSaid { SYMBOL_SAID_WANT, SYMBOL_SAID_TABLE, SYMBOL_SAID_LINES } SymbolSaid;

typedef struct SymbolAnswer {
        uint32_t magic, kind;
        uint64_t base;
        uint32_t state, is_full;
        uint32_t n, names_size, n_left_out;
        uint32_t go;                    /* SymbolGo */
        char link[sizeof(((DebugLink *)NULL)->name)];   /* WANT: "" = by build id alone */
} SymbolAnswer;

typedef struct SymbolWireFunction {
        uint32_t start, size;           /* start from the base */
} SymbolWireFunction;

extern const WorkerQuestion symbol_question;

/* Pure. Whether @answer is sound, for a request for a table. */
bool symbol_wire_check(const SymbolAnswer *answer);

/* Makes room for the table that @answer, which was found sound, announces. Return: 0, -ENOMEM. */
int symbol_wire_table_new(SymbolTable **tablep, const SymbolAnswer *answer);

/* Adds the next @n functions, from index @at on; they fit. Return: whether they are in order. */
bool symbol_wire_put_functions(SymbolTable *table, uint32_t at, const SymbolWireFunction *functions,
                               uint32_t n);

/*
 * The worker's side: answers @first and all further requests, until the daemon closes the socket. @fd: came
 * with @first, or -1; owned.
 */
void symbol_serve(int socket, int fd, const SymbolRequest *first);
