/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Most files have no PT_TLS, and are done with their program headers. In the
 * others names are looked up (dynamic-symbol.h). Only a file that has the symbol
 * has its relocations read.
 */
#include "host/sampling/process/thread-symbol.h"

#include <elf.h>
#include <string.h>

#include "border/abi.h"
#include "border/tls_abi.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "host/sampling/process/dynamic-symbol.h"

enum {
        NODE_SIZE = 32,                 /* bytes of its variable (node_walk.h); all others are pointers */
};

#define ELASTIC_SYMBOL "elastic_apm_profiling_correlation_tls_v1"
#define NODE_SYMBOL "otel_thread_ctx_nodejs_v1"
#define LABELS_SYMBOL "custom_labels_current_set"
#define LABELS_VERSION_SYMBOL "custom_labels_abi_version"

/* psABI of x86-64, table 4.10; ELF for the Arm 64-bit Architecture, "Dynamic relocations" */
enum {
        TLS_RELOCATION_OFFSET = TLS_IS_ABOVE ? R_AARCH64_TLS_TPREL : R_X86_64_TPOFF64,
        TLS_RELOCATION_MODULE = TLS_IS_ABOVE ? R_AARCH64_TLS_DTPMOD : R_X86_64_DTPMOD64,
        TLS_RELOCATION_DESCRIPTOR = TLS_IS_ABOVE ? R_AARCH64_TLSDESC : 36,      /* R_X86_64_TLSDESC */
};

static void take_relocation(const Elf64_Rela *entry, uint32_t index, ThreadSymbol *symbol) {
        uint32_t of = (uint32_t)ELF64_R_SYM(entry->r_info);
        bool has_symbol = of == index;
        ThreadSlotKind kind;

        switch (ELF64_R_TYPE(entry->r_info)) {
        case TLS_RELOCATION_OFFSET:
                kind = THREAD_SLOT_OFFSET;
                break;
        case TLS_RELOCATION_MODULE:
                kind = THREAD_SLOT_MODULE;
                break;
        case TLS_RELOCATION_DESCRIPTOR:
                kind = THREAD_SLOT_DESCRIPTOR;
                break;
        default:
                return;
        }
        /*
         * Without a symbol, the addend says which variable of the file it is; a module has no addend, and any
         * will do.
         */
        if (!has_symbol && (of || (kind != THREAD_SLOT_MODULE && (uint64_t)entry->r_addend != symbol->value)))
                return;
        if (symbol->n_slots < THREAD_SYMBOL_MAX_SLOTS)
                symbol->n_slots++;
        else if (!has_symbol)
                return;
        symbol->slots[symbol->n_slots - 1] = (ThreadSlot){ entry->r_offset, kind, has_symbol };
}

typedef struct Taking {
        uint32_t index;
        ThreadSymbol *symbol;
} Taking;

static void on_relocation(void *userdata, const Elf64_Rela *entry) {
        const Taking *taking = userdata;

        take_relocation(entry, taking->index, taking->symbol);
}

/*
 * The executable's block ends at the thread pointer, and begins at a multiple of its alignment away from it.
 * On arm64 it begins behind the head, where its address has the remainder that the file asks for.
 */
static int64_t local_offset(const Elf64_Phdr *tls, uint64_t value) {
        uint64_t align = tls->p_align ? tls->p_align : 1;
        uint64_t pad = (align - (tls->p_vaddr + tls->p_memsz) % align) % align;

        if (TLS_IS_ABOVE)
                return (int64_t)(value + TLS_HEAD + ((tls->p_vaddr - TLS_HEAD) & (align - 1)));
        return (int64_t)(value - tls->p_memsz - pad);
}

static const struct {
        const char *name;
        uint8_t form;
        const char *unread;
} names[] = {
        { SPANPROF_THREAD_SYMBOL, ABI_FORM_THREAD,
          "its " SPANPROF_THREAD_SYMBOL " is no pointer in thread-local memory" },
        { ELASTIC_SYMBOL, ABI_FORM_ELASTIC, "its " ELASTIC_SYMBOL " is no pointer in thread-local memory" },
        { NODE_SYMBOL, ABI_FORM_NODE, "its " NODE_SYMBOL " has not 32 bytes of thread-local memory" },
        { "custom_labels_current_set_v2", ABI_FORM_NONE,
          "custom_labels_current_set_v2 is another layout than version 1" },
        { LABELS_SYMBOL, ABI_FORM_LABELS,
          "its " LABELS_SYMBOL " is no pointer in thread-local memory, or its " LABELS_VERSION_SYMBOL
          " is not 1" },
        { "context_tls_v1", ABI_FORM_NONE, "context_tls_v1 is an older form, without a trace id" },
};

/* Labels have a version beside them, a constant of the file. */
static bool is_known_version(const DynamicImage *image) {
        uint32_t version = 0, index;
        Elf64_Sym symbol;

        return dynamic_image_find(image, LABELS_VERSION_SYMBOL, &index, &symbol) &&
                symbol.st_size == sizeof(version) &&
                dynamic_image_read(image, symbol.st_value, &version, sizeof(version)) && version == 1;
}

bool thread_symbol_name(uint8_t name, uint8_t *formp, const char **unreadp) {
        if (!name || name > ARRAY_SIZE(names))
                return false;
        *formp = names[name - 1].form;
        *unreadp = names[name - 1].unread;
        return true;
}

int thread_symbol_read(int fd, const void *data, uint64_t size, ThreadSymbol *symbolp) {
        DynamicImage image;
        Elf64_Sym symbol;
        uint64_t size_in_block;
        uint32_t index = 0;
        size_t i = 0;

        *symbolp = (ThreadSymbol){ 0 };
        if (!dynamic_image_init(&image, fd, data, size) || !image.tls || !dynamic_image_find_tables(&image))
                return 0;
        while (i < ARRAY_SIZE(names) && !dynamic_image_find(&image, names[i].name, &index, &symbol))
                i++;
        if (i == ARRAY_SIZE(names))
                return 0;
        symbolp->name = (uint8_t)(i + 1);
        symbolp->form = names[i].form;
        symbolp->unread = names[i].form ? NULL : names[i].unread;
        size_in_block = symbolp->form == ABI_FORM_NODE ? (uint64_t)NODE_SIZE : sizeof(uint64_t);
        if (symbol.st_value > image.tls->p_memsz || image.tls->p_memsz - symbol.st_value < size_in_block ||
            symbol.st_size != size_in_block || ELF64_ST_TYPE(symbol.st_info) != STT_TLS ||
            (symbolp->form == ABI_FORM_LABELS && !is_known_version(&image))) {
                symbolp->form = ABI_FORM_NONE;
                symbolp->unread = names[i].unread;
        }
        if (!symbolp->form)
                return 0;
        symbolp->value = symbol.st_value;
        symbolp->block_size = image.tls->p_memsz;
        symbolp->local_offset = local_offset(image.tls, symbol.st_value);
        return error_fold(dynamic_image_relocations(&image, on_relocation, &(Taking){ index, symbolp }));
}
