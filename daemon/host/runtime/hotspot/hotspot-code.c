/* SPDX-License-Identifier: Apache-2.0 */

/*
 * All code lies in one to three heaps. A heap is a row of blocks, each {HeapBlock, CodeBlob, …}, and beside
 * it is a map with a byte for each segment (128 bytes, say):
 *
 *     heap   low ┌ block ────────────────┬ block ──┬ free ─────┐
 *     map         0   1   2   3   4   5   0   1   2  255 255 …
 *                             ▲ pc lies in this segment: 3 back, there is 0, the block's first
 *
 * A block of more than 254 segments counts in several hops. A CodeBlob that is as large as an nmethod is a
 * compiled method. The interpreter is one CodeBlob, and knows its own bounds (a StubQueue).
 */
#include "host/runtime/hotspot/hotspot-code.h"

#include <string.h>

#include "core/base/util/macro.h"
#include "host/runtime/hotspot/hotspot-published.h"

enum {
        MAX_HOPS = 1 << 10,             /* hops over 254 segments each: a block of 32 MiB */
        FREE_SEGMENT = 255,
        MAX_BLOB_HEAD = 1024,           /* bytes of an nmethod's head: JDK 11 has 376 */
        MAX_LOG2_SEGMENT = 16,
        MAX_FRAME = 1 << 20,            /* bytes */
        NAME_PIECE = 16,                /* bytes of a name that are read at a time */
};

#define MAX_HEAP_BYTES (UINT64_C(4) << 30)      /* HotSpot's own limit is 2 GiB */

static bool read_field(const HotspotReader *reader, HotspotField field, uint64_t address, uint64_t *to) {
        return hotspot_read_field(reader, field, address, to);
}

static int read_heap(HotspotHeap *heap, const HotspotLayout *layout, const HotspotReader *reader,
                     uint64_t address) {
        const HotspotHeapLayout *at = &layout->heap;
        uint64_t low, end, map, log2;

        if (!read_field(reader, at->low, address + at->memory.offset, &low) ||
            !read_field(reader, at->end, address + at->memory.offset, &end) ||
            !read_field(reader, at->low, address + at->segment_map.offset, &map) ||
            !read_field(reader, at->log2_segment, address, &log2))
                return HOTSPOT_CODE_E_UNREADABLE;
        if (!low || !map)
                return HOTSPOT_CODE_E_UNREADABLE;       /* the JVM is still making it */
        if (end <= low || end - low > MAX_HEAP_BYTES || end >> 56 || log2 < 4 || log2 > MAX_LOG2_SEGMENT)
                return HOTSPOT_CODE_E_MALFORMED;
        *heap = (HotspotHeap){ low, end, map, (uint32_t)log2 };
        return 0;
}

static int read_heaps(HotspotCode *code, const HotspotLayout *layout, const HotspotReader *reader,
                      uint64_t bias) {
        uint64_t list, n, data, heap;

        if (!layout->heap.heaps) {
                if (!hotspot_read_u64(reader, bias + layout->heap.heap, &heap))
                        return HOTSPOT_CODE_E_UNREADABLE;
                code->n_heaps = 1;
                return read_heap(&code->heaps[0], layout, reader, heap);
        }
        if (!hotspot_read_u64(reader, bias + layout->heap.heaps, &list) ||
            !read_field(reader, layout->heap.array_length, list, &n) ||
            !read_field(reader, layout->heap.array_data, list, &data) || !n)
                return HOTSPOT_CODE_E_UNREADABLE;
        if (n > HOTSPOT_MAX_HEAPS)
                return HOTSPOT_CODE_E_MALFORMED;
        for (uint32_t i = 0; i < n; i++) {
                int r = hotspot_read_u64(reader, data + i * 8, &heap)
                                ? read_heap(&code->heaps[i], layout, reader, heap)
                                : HOTSPOT_CODE_E_UNREADABLE;

                if (r)
                        return r;
        }
        for (uint32_t i = 0; i < n; i++)
                for (uint32_t k = 0; k < i; k++)
                        if (code->heaps[i].low < code->heaps[k].end &&
                            code->heaps[k].low < code->heaps[i].end)
                                return HOTSPOT_CODE_E_MALFORMED;
        code->n_heaps = (uint32_t)n;
        return 0;
}

static int read_interpreter(HotspotCode *code, const HotspotLayout *layout, const HotspotReader *reader,
                            uint64_t bias) {
        uint64_t queue, start, size;

        if (!hotspot_read_u64(reader, bias + layout->variables.interpreter, &queue) ||
            !read_field(reader, layout->variables.queue_start, queue, &start) ||
            !read_field(reader, layout->variables.queue_size, queue, &size))
                return HOTSPOT_CODE_E_UNREADABLE;
        if (!hotspot_code_heap(code, start) || size > MAX_HEAP_BYTES)
                return HOTSPOT_CODE_E_MALFORMED;
        code->interpreter_low = start;
        code->interpreter_high = start + size;
        return 0;
}

int hotspot_code_read(HotspotCode *codep, const HotspotLayout *layout, const HotspotReader *reader,
                      uint64_t bias) {
        HotspotCode code = { 0 };
        int r = hotspot_published_has_begun(layout, reader, bias) ? read_heaps(&code, layout, reader, bias)
                                                                  : HOTSPOT_CODE_E_UNREADABLE;

        r = r ? r : read_interpreter(&code, layout, reader, bias);
        if (r)
                return r;
        if (layout->variables.call_stub_return)
                hotspot_read_u64(reader, bias + layout->variables.call_stub_return, &code.call_stub_return);
        if (layout->variables.cont_return_pc)
                hotspot_read_u64(reader, bias + layout->variables.cont_return_pc, &code.cont_return_pc);
        code.unloads = hotspot_published_unloads(layout, reader, bias);
        *codep = code;
        return 0;
}

const HotspotHeap *hotspot_code_heap(const HotspotCode *code, uint64_t pc) {
        for (uint32_t i = 0; i < code->n_heaps; i++)
                if (pc >= code->heaps[i].low && pc < code->heaps[i].end)
                        return &code->heaps[i];
        return NULL;
}

int hotspot_code_find(const HotspotCode *code, const HotspotLayout *layout, const HotspotReader *reader,
                      uint64_t pc, uint64_t *blobp) {
        const HotspotHeap *heap = hotspot_code_heap(code, pc);
        uint64_t index, block, used;
        uint8_t back;

        if (!heap)
                return HOTSPOT_CODE_E_NONE;
        index = (pc - heap->low) >> heap->log2_segment;
        for (unsigned i = 0;; i++) {
                if (!hotspot_read(reader, heap->segment_map + index, &back, 1))
                        return HOTSPOT_CODE_E_UNREADABLE;
                if (!back)
                        break;
                if (back == FREE_SEGMENT)
                        return HOTSPOT_CODE_E_NONE;
                if (back > index || i == MAX_HOPS)
                        return HOTSPOT_CODE_E_MALFORMED;
                index -= back;
        }
        block = heap->low + (index << heap->log2_segment);
        if (!read_field(reader, layout->heap.block_used, block, &used))
                return HOTSPOT_CODE_E_UNREADABLE;
        if (!used || pc < block + layout->heap.block_size)
                return HOTSPOT_CODE_E_NONE;
        *blobp = block + layout->heap.block_size;
        return 0;
}

typedef struct Head {
        uint64_t address;
        size_t size;
        uint8_t data[MAX_BLOB_HEAD];
} Head;

static uint64_t get(const Head *head, HotspotField field) {
        return hotspot_field(field, head->data, head->size);
}

/* A field that is an address in some releases and an offset from @base in others. */
static uint64_t get_place(const Head *head, HotspotField field, uint64_t base) {
        return !field.size ? 0 : field.size == 8 ? get(head, field) : base + get(head, field);
}

/*
 * Until JDK 22 an nmethod is followed by all it needs, in the order … metadata, scopes data, PcDescs,
 * dependencies (9 and later), or metadata, scopes data, PcDescs, dependencies by other names (8). Since 23
 * what never changes lies apart, in the order … PcDescs, scopes data; since 25 the metadata, too, behind the
 * relocations.
 */
static void take_tables(HotspotBlob *blob, const HotspotLayout *layout, const Head *head) {
        const HotspotNmethodLayout *at = &layout->nmethod;
        uint64_t immutable = at->immutable_data.size ? get(head, at->immutable_data) : 0;
        uint64_t base = immutable ? immutable : head->address;

        blob->scopes_data = get_place(head, at->scopes_data, base);
        blob->pcs = get_place(head, at->scopes_pcs, base);
        blob->null_checks = get_place(head, at->null_checks, base);
        if (at->immutable_data.size) {
                blob->pcs_end = blob->scopes_data;
                blob->scopes_data_end = base + get(head, at->immutable_size);
        } else {
                blob->pcs_end = get_place(head, at->dependencies, head->address);
                blob->scopes_data_end = blob->pcs;
        }
        if (layout->blob.mutable_data.size) {
                uint64_t mutable = get(head, layout->blob.mutable_data);

                blob->metadata = mutable + get(head, layout->blob.relocation_size);
                blob->metadata_end = mutable + get(head, layout->blob.mutable_size);
        } else {
                uint64_t data = at->immutable_data.size ? get(head, layout->blob.data) : 0;

                blob->metadata = get_place(head, at->metadata, head->address + data);
                blob->metadata_end = at->immutable_data.size ? blob->end : blob->scopes_data;
        }
}

static void take_nmethod(HotspotBlob *blob, const HotspotLayout *layout, const Head *head) {
        const HotspotNmethodLayout *at = &layout->nmethod;

        blob->method = get(head, at->method);
        blob->compile_id = (uint32_t)get(head, at->compile_id);
        blob->level = (uint8_t)get(head, at->comp_level);
        blob->entry_bci = (int32_t)get(head, at->entry_bci);
        blob->orig_pc = (int32_t)get(head, at->orig_pc);
        blob->deopt = get_place(head, at->deopt, head->address);
        blob->deopt_mh = get_place(head, at->deopt_mh, head->address);
        take_tables(blob, layout, head);
}

int hotspot_blob_read(HotspotBlob *blobp, const HotspotCode *code, const HotspotLayout *layout,
                      const HotspotReader *reader, uint64_t address) {
        const HotspotHeap *heap = hotspot_code_heap(code, address);
        HotspotBlob blob = { .address = address };
        Head head = { .address = address };

        if (!heap)
                return HOTSPOT_CODE_E_NONE;
        head.size = MIN(layout->nmethod.struct_size, (uint64_t)MAX_BLOB_HEAD);
        head.size = MIN(head.size, heap->end - address);
        if (!hotspot_read(reader, address, head.data, head.size))
                return HOTSPOT_CODE_E_UNREADABLE;
        blob.end = address + (uint32_t)get(&head, layout->blob.size);
        blob.code = get_place(&head, layout->blob.code, address);
        blob.code_end = layout->blob.code_end.size ? get(&head, layout->blob.code_end)
                                                   : address + get(&head, layout->blob.data);
        blob.frame_size = (uint32_t)get(&head, layout->blob.frame_size) * 8;
        blob.frame_complete = (int32_t)get(&head, layout->blob.frame_complete);
        blob.name = get(&head, layout->blob.name);
        if (blob.end > heap->end || blob.code < address || blob.code > blob.code_end ||
            blob.code_end > blob.end)
                return HOTSPOT_CODE_E_MALFORMED;
        if (blob.frame_size > MAX_FRAME)
                blob.frame_size = 0;
        blob.kind = HOTSPOT_BLOB;
        if (address < code->interpreter_high && blob.end > code->interpreter_low)
                blob.kind = HOTSPOT_INTERPRETED;
        else if (get(&head, layout->blob.header_size) == layout->nmethod.struct_size) {
                blob.kind = HOTSPOT_COMPILED;
                take_nmethod(&blob, layout, &head);
        }
        *blobp = blob;
        return 0;
}

bool hotspot_blob_name(const HotspotBlob *blob, const HotspotReader *reader, char *to, size_t size) {
        size_t n = 0, most = NAME_PIECE;

        while (n < size - 1) {
                size_t piece = MIN(most, size - 1 - n);

                if (!hotspot_read(reader, blob->name + n, to + n, piece)) {
                        if (most == 1)
                                return false;
                        most = 1;       /* bytes that cannot be read may lie behind the end of the name */
                        continue;
                }
                if (memchr(to + n, 0, piece))
                        return *to;
                n += piece;
        }
        to[n] = '\0';
        return true;
}

static bool next_in_heap(const HotspotHeap *heap, const HotspotLayout *layout, const HotspotReader *reader,
                         uint64_t block, uint64_t *nextp, uint64_t *usedp) {
        uint64_t length;

        if (block < heap->low || block >= heap->end ||
            !read_field(reader, layout->heap.block_length, block, &length) ||
            !read_field(reader, layout->heap.block_used, block, usedp) || !length ||
            length > (heap->end - block) >> heap->log2_segment)
                return false;
        *nextp = block + (length << heap->log2_segment);
        return true;
}

int hotspot_code_next(const HotspotCode *code, const HotspotLayout *layout, const HotspotReader *reader,
                      HotspotCodeCursor *cursor, uint64_t *blobp) {
        for (; cursor->heap < code->n_heaps; cursor->heap++, cursor->at = 0) {
                const HotspotHeap *heap = &code->heaps[cursor->heap];
                uint64_t block = cursor->at ? cursor->at : heap->low, used = 0;

                for (; next_in_heap(heap, layout, reader, block, &cursor->at, &used); block = cursor->at)
                        if (used) {
                                *blobp = block + layout->heap.block_size;
                                return 0;
                        }
        }
        return HOTSPOT_CODE_E_NONE;
}
