/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Kernel Symbols
 *
 * Reads /proc/kallsyms, keeps the functions of it in a packed table and finds
 * the one that holds an address. Addresses in here are the running kernel's:
 * they never leave the daemon (see kernel.h).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        _KALLSYMS_E_SUCCESS,
        KALLSYMS_E_EOF,
        KALLSYMS_E_MALFORMED,           /* a line that no kernel prints; it was skipped */
};

typedef struct KallsymsCursor {
        const char *text;
        size_t size, at;
} KallsymsCursor;

typedef struct KallsymsLine {
        uint64_t address;
        char type;                      /* as nm(1) prints it */
        const char *name;               /* points into the text, not terminated */
        size_t name_size;
        const char *module;             /* without its brackets */
        size_t module_size;             /* 0 = the kernel itself */
} KallsymsLine;

/* Pure. The next symbol. Return: 0, KALLSYMS_E_EOF, KALLSYMS_E_MALFORMED. */
int kallsyms_next(KallsymsCursor *cursor, KallsymsLine *linep);

/* Functions that lie outside of the order of the file: those of modules and of BPF. */
typedef struct KallsymsExtra {
        uint32_t offset, name;
} KallsymsExtra;

typedef struct Kallsyms {
        uint64_t base;                  /* offsets below count from here */
        uint64_t text;                  /* _text or _stext; 0 = the file shows no addresses */
        uint64_t text_end;              /* behind the last function of the kernel itself */
        bool is_stext;                  /* `text` is _stext: _text is not listed */
        uint32_t *offsets;              /* sorted; name number n follows name number n - 1 in names */
        uint32_t *sixteenth;            /* where in names the name of every 16th is */
        uint32_t n_symbols, symbols_size;
        KallsymsExtra *extras;          /* sorted by offset */
        uint32_t n_extras, extras_size;
        char *names;                    /* each with a NUL */
        uint32_t names_used, names_size;
} Kallsyms;

/*
 * Fills a table from a descriptor of kallsyms, read from its start. Without addresses (kptr_restrict) the
 * table stays empty, with text = 0. Return: 0, -ENOMEM.
 */
int kallsyms_load(Kallsyms *kallsyms, int fd);
void kallsyms_deinit(Kallsyms *kallsyms);

/*
 * The name of the function that holds @address (in the table, NUL-terminated), or NULL. *startp: its address.
 */
const char *kallsyms_find(const Kallsyms *kallsyms, uint64_t address, uint64_t *startp);
