/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Keeps pages of a JVM for the time of one question, each at the place that its address gives, and reads
 * those of the file from the file.
 */

#include "host/runtime/hotspot/hotspot-memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/error.h"
#include "host/sampling/process/dynamic-symbol.h"
#include "host/sampling/process/memory.h"

enum {
        PAGE_BYTES = HOTSPOT_PAGE,
        N_PAGES = 64,                   /* kept, each at its place: 256 KiB */
};

typedef struct Page {
        uint64_t address;
        uint32_t serial;                /* number of the question; 0 = never */
        bool is_there;
        uint8_t data[PAGE_BYTES];
} Page;

struct HotspotMemory {
        HotspotReader source;
        uint64_t bias;
        DynamicImage image;
        uint64_t symbols[HOTSPOT_N_SYMBOLS];
        HotspotReader reader;
        uint32_t serial;
        uint32_t n_allowed;
        uint64_t n_calls;
        Page pages[N_PAGES];
};

/* Whether the file has what is at @address: no process may have written there. */
static bool is_read_only(const HotspotMemory *memory, uint64_t address) {
        uint64_t at = address - memory->bias;

        for (unsigned i = 0; i < memory->image.n_headers; i++) {
                const Elf64_Phdr *header = &memory->image.headers[i];

                if (header->p_type == PT_LOAD && !(header->p_flags & PF_W) && at >= header->p_vaddr &&
                    at - header->p_vaddr < header->p_filesz)
                        return true;
        }
        return false;
}

static bool read_now(HotspotMemory *memory, uint64_t address, void *to, size_t size) {
        if (!memory->n_allowed)
                return false;
        memory->n_allowed--;
        memory->n_calls++;
        return hotspot_read(&memory->source, address, to, size);
}

static bool read_page(HotspotMemory *memory, uint64_t address, uint8_t *to) {
        if (is_read_only(memory, address))
                return dynamic_image_read(&memory->image, address - memory->bias, to, PAGE_BYTES);
        return read_now(memory, address, to, PAGE_BYTES);
}

static const Page *get_page(HotspotMemory *memory, uint64_t address) {
        Page *page = &memory->pages[address / PAGE_BYTES % N_PAGES];

        if (page->serial == memory->serial && page->address == address)
                return page;
        page->address = address;
        page->is_there = read_page(memory, address, page->data);
        page->serial = page->is_there || memory->n_allowed ? memory->serial : 0;
        return page;
}

static bool read_live(void *userdata, uint64_t address, void *to, size_t size) {
        HotspotMemory *memory = userdata;
        uint8_t *at = to;

        if (address + size < address || address >> 56)
                return false;
        while (size) {
                const Page *page = get_page(memory, address & ~(uint64_t)(PAGE_BYTES - 1));
                size_t offset = address % PAGE_BYTES, n = MIN(size, PAGE_BYTES - offset);

                if (page->is_there)
                        memcpy(at, page->data + offset, n);
                else if (!is_read_only(memory, address) ||      /* a page that the file has a part of */
                         !dynamic_image_read(&memory->image, address - memory->bias, at, n))
                        return false;
                at += n;
                address += n;
                size -= n;
        }
        return true;
}

static bool find_symbols(HotspotMemory *memory) {
        Elf64_Sym symbol;
        uint32_t index;

        for (unsigned i = 0; i < HOTSPOT_N_SYMBOLS; i++) {
                if (!dynamic_image_find(&memory->image, hotspot_symbol_names[i], &index, &symbol))
                        return false;
                memory->symbols[i] = symbol.st_value + memory->bias;
        }
        return true;
}

bool hotspot_process_read(void *pid, uint64_t address, void *to, size_t size) {
        return !memory_read(*(const pid_t *)pid, address, to, size);
}

int hotspot_memory_new(HotspotMemory **memoryp, const HotspotReader *source, int fd, uint64_t size,
                       uint64_t bias) {
        _cleanup_(hotspot_memory_freep) HotspotMemory *memory = calloc(1, sizeof(*memory));

        if (!memory)
                return error_origin(-ENOMEM);
        memory->source = *source;
        memory->bias = bias;
        memory->serial = 1;
        memory->n_allowed = HOTSPOT_OPEN_CALLS;
        memory->reader = (HotspotReader){ .read = read_live, .userdata = memory };
        if (!dynamic_image_open(&memory->image, fd, NULL, size) || !find_symbols(memory))
                return HOTSPOT_MEMORY_E_NO_JVM;
        *memoryp = take(memory);
        return 0;
}

HotspotMemory *hotspot_memory_free(HotspotMemory *memory) {
        free(memory);
        return NULL;
}

const uint64_t *hotspot_memory_symbols(const HotspotMemory *memory) {
        return memory->symbols;
}

const HotspotReader *hotspot_memory_reader(const HotspotMemory *memory) {
        return &memory->reader;
}

bool hotspot_memory_read_again(HotspotMemory *memory, uint64_t address, void *to, size_t size) {
        return read_now(memory, address, to, size);
}

void hotspot_memory_allow(HotspotMemory *memory, uint32_t n_calls) {
        memory->n_allowed = n_calls;
}

void hotspot_memory_forget(HotspotMemory *memory) {
        memory->serial++;
}

uint64_t hotspot_memory_n_calls(const HotspotMemory *memory) {
        return memory->n_calls;
}
