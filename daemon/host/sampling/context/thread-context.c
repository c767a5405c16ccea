/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The words by access model (ELF Handling for Thread-Local Storage; TLSDESC: Oliva, Araújo 2006), as ld.so
 * fills them:
 *
 *     initial exec        offset from the thread pointer
 *     general dynamic     module id | offset in the module's block
 *     TLSDESC, static     resolver | offset from the thread pointer, a small number, negative on x86-64
 *     TLSDESC, dynamic    resolver | pointer to {module id, offset, …}
 *     local exec          no word at all: the linker knew the offset. Only the executable may have this.
 */
#include "host/sampling/context/thread-context.h"

#include <elf.h>
#include <string.h>
#include <unistd.h>

#include "border/tls_abi.h"
#include "host/sampling/process/memory.h"

enum {
        MAX_MODULE = 1 << 16,           /* ids are small and used again */
};

#define MAX_STATIC (INT64_C(64) << 20)  /* static TLS of one process */
/* Above the thread pointer offsets look like addresses; linkers put no program lower than this. */
#define MAX_STATIC_ABOVE (INT64_C(2) << 20)

static bool is_static(int64_t offset) {
        return TLS_IS_ABOVE ? offset >= TLS_HEAD && offset < MAX_STATIC_ABOVE
                            : offset < 0 && offset > -MAX_STATIC;
}

/*
 * Where @object's ELF address 0 is in the process, by an executable mapping. Segments need not begin at a
 * page: the first page of one may be the last of another in the file, and is mapped for both, at different
 * addresses.
 */
static bool find_bias(const Mapping *mapping, uint64_t *biasp) {
        uint64_t page_size = (uint64_t)sysconf(_SC_PAGESIZE);

        for (uint32_t i = 0; i < mapping->object->n_segments; i++) {
                const Segment *segment = &mapping->object->segments[i];

                if (!(segment->flags & PF_X) ||
                    mapping->offset < (segment->offset & ~(page_size - 1)) ||
                    (mapping->offset > segment->offset &&
                     mapping->offset - segment->offset >= segment->file_size))
                        continue;
                *biasp = mapping->start - mapping->offset + segment->offset - segment->address;
                return true;
        }
        return false;
}

static bool is_musl(const Process *process) {
        for (size_t i = 0; i < process->n_mappings; i++) {
                const char *path = process->mappings[i].path;

                if (process->mappings[i].kind == MAPPING_FILE &&
                    (strstr(path, "/ld-musl-") || strstr(path, "linux-musl/")))
                        return true;
        }
        return false;
}

static bool set_static(ThreadContext *context, int64_t offset) {
        context->model = ABI_THREAD_STATIC;
        context->offset = offset;
        return is_static(offset);
}

static bool set_dynamic(ThreadContext *context, const Process *process, const ThreadSymbol *symbol,
                        uint64_t module, uint64_t offset) {
        context->model = is_musl(process) ? ABI_THREAD_MUSL : ABI_THREAD_GLIBC;
        context->module = (uint32_t)module;
        context->offset = (int64_t)offset;
        return module && module <= MAX_MODULE && offset == symbol->value;
}

static bool resolve_slot(const Process *process, const ThreadSymbol *symbol, const ThreadSlot *slot,
                         uint64_t bias, ThreadContext *context) {
        size_t size = slot->kind == THREAD_SLOT_OFFSET || !slot->has_symbol ? 8 : 16;
        uint64_t words[2] = { 0 }, dynamic[2];

        if (slot->kind == THREAD_SLOT_DESCRIPTOR)
                size = 16;
        if (memory_read((pid_t)process->pid, bias + slot->address, words, size))
                return false;
        switch (slot->kind) {
        case THREAD_SLOT_OFFSET:
                return set_static(context, (int64_t)words[0]);
        case THREAD_SLOT_MODULE:
                return set_dynamic(context, process, symbol, words[0],
                                   slot->has_symbol ? words[1] : symbol->value);
        case THREAD_SLOT_DESCRIPTOR:
                if (is_static((int64_t)words[1]))
                        return set_static(context, (int64_t)words[1]);
                return !memory_read((pid_t)process->pid, words[1], dynamic, sizeof(dynamic)) &&
                       set_dynamic(context, process, symbol, dynamic[0], dynamic[1]);
        }
        return false;
}

static bool resolve(const Process *process, const Mapping *mapping, ThreadContext *context) {
        const ThreadSymbol *symbol = &mapping->object->thread_symbol;
        bool is_executable = process->exe && !strcmp(process->exe, mapping->path);
        uint64_t bias;

        if (!find_bias(mapping, &bias))
                return false;
        /*
         * Modules with the symbol come first: glibc gives a library that lies in static memory a module id as
         * well, but an entry in a thread's DTV only when that thread asks for it.
         */
        for (int pass = 0; pass < 2; pass++)
                for (uint32_t i = 0; i < symbol->n_slots; i++) {
                        *context = (ThreadContext){ .form = symbol->form };
                        if (symbol->slots[i].has_symbol == !pass &&
                            resolve_slot(process, symbol, &symbol->slots[i], bias, context))
                                return true;
                }
        /* The executable's own block is the first one, wherever the code gets at it by. */
        *context = (ThreadContext){ .form = symbol->form };
        return is_executable && set_static(context, symbol->local_offset);
}

bool thread_context_waits(const Process *process) {
        for (size_t i = 0; i < process->n_mappings; i++)
                if (process->mappings[i].kind == MAPPING_FILE &&
                    object_is_awaited(process->mappings[i].object))
                        return true;
        return false;
}

ThreadContext thread_context_find(const Process *process, const char **unreadp) {
        ThreadContext context;

        *unreadp = NULL;
        for (size_t i = 0; i < process->n_mappings; i++) {
                const Mapping *mapping = &process->mappings[i];

                if (mapping->kind != MAPPING_FILE)
                        continue;
                if (mapping->object->thread_symbol.form && resolve(process, mapping, &context))
                        return context;
                if (mapping->object->thread_symbol.form)
                        *unreadp = "no word of its process leads to its variable (yet)";
                else if (mapping->object->thread_symbol.unread)
                        *unreadp = mapping->object->thread_symbol.unread;
        }
        return (ThreadContext){ 0 };
}
