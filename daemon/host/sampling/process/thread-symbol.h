/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Thread Symbol
 *
 * Where an ELF file keeps the thread-local variable through which its threads
 * publish their context: the symbol in .dynsym, and the words (GOT) in which a
 * process that has loaded the file finds the variable. What these words hold is
 * decided at run time: thread-context.h reads them there.
 */

#include <stdbool.h>
#include <stdint.h>

enum {
        THREAD_SYMBOL_MAX_SLOTS = 4,    /* more relocations than these say the same once more */
};

typedef enum ThreadSlotKind {
        THREAD_SLOT_OFFSET,             /* R_X86_64_TPOFF64: one word, the offset from the thread pointer */
        /* R_X86_64_DTPMOD64: module id; with the symbol, the offset is in the next word */
        THREAD_SLOT_MODULE,
        THREAD_SLOT_DESCRIPTOR,         /* R_X86_64_TLSDESC: resolver, then its argument */
} ThreadSlotKind;

typedef struct ThreadSlot {
        uint64_t address;               /* ELF address of the word */
        ThreadSlotKind kind;
        /* the relocation names the symbol; else it stands for the file's TLS block */
        bool has_symbol;
} ThreadSlot;

typedef struct ThreadSymbol {
        uint8_t name;                   /* number of the known name that it has: 1 …; 0 = none */
        uint8_t form;                   /* enum abi_form; 0 = the file has none that we read */
        /* names a form that is recognised, and not read, and why. NULL = none */
        const char *unread;
        uint64_t value;                 /* st_value: offset in the TLS block */
        uint64_t block_size;            /* PT_TLS, memory */
        int64_t local_offset;           /* from the thread pointer, if the file is the executable */
        ThreadSlot slots[THREAD_SYMBOL_MAX_SLOTS];
        uint32_t n_slots;
} ThreadSymbol;

/*
 * Finds `form` and `unread` of a symbol with this name: as they ought to be, or when it is not read. Return:
 * whether there is such a name.
 */
bool thread_symbol_name(uint8_t name, uint8_t *formp, const char **unreadp);

/*
 * Pure but for reading @fd, a regular file of @size bytes; @fd < 0: the bytes at @data. A file that is
 * damaged has no symbol. Return: 0, -ENOMEM.
 */
int thread_symbol_read(int fd, const void *data, uint64_t size, ThreadSymbol *symbolp);
