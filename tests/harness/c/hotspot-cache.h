/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A code cache of HotSpot made by hand, with compiled code, stubs, an interpreter and one method, and a
 * stack. The lines of bpf/runtimes/hotspot.bpf.h walk it, on the processor that the test is built for.
 */

#include <criterion/criterion.h>
#include <stdlib.h>

#include "shim/bpf-shim.h"
#include "shim/rows-shim.h"

#include "host/sampling/unwind/tables/rows.h"

enum {
        STACK = 0x7ffe0000,
        N_WORDS = 1024,
        TEXT = 0x55000000,              /* native code; its rows say that it is the root */
        HEAP = 0x66000000,
        SEGMENT = 128,
        N_SEGMENTS = 64,
        MAP = 0x67000000,               /* the segment map */
        DATA = 0x68000000,              /* names and methods */
        GENERATION = 7,
        HEADER = 16,                    /* bytes of a block's header: length, used */
        /* places in DATA */
        NMETHOD = 0x000,
        STUB = 0x010,
        METHOD = 0x100,
        CONST_METHOD = 0x200,
        COUNT = 0x400,                  /* of unloaded classes */
        CODE_SIZE = 100,                /* bytes of bytecode */
        /* segments of blobs */
        CALLEE = 2,
        CALLER = 10,
        STUBS = 20,
        FREED = 30,
        INTERPRETER = 40,
};

typedef struct Blob {
        uint64_t length, used;
        uint64_t name, code_begin;
        uint32_t frame_complete, frame_size;
        uint64_t verified_entry, deopt_handler;
        uint32_t orig_pc, compile_id;
        uint64_t method;
        uint64_t padding;
        uint8_t code[];
} Blob;

#define FIELD(_name) { offsetof(Blob, _name) - HEADER, sizeof(((Blob *)0)->_name), 0 }

static uint64_t words[N_WORDS];
static uint64_t frames[UNWIND_MAX_FRAMES];
static uint8_t heap[N_SEGMENTS * SEGMENT], map[N_SEGMENTS], data[0x1000];
static struct unwind unwind;
static struct rules rules;
static struct rows_cache cache;
static struct hotspot_process process;
static Rows rows;

static Blob *blob(unsigned segment) {
        return (Blob *)(void *)(heap + segment * SEGMENT);
}

static uint64_t blob_address(unsigned segment) {
        return HEAP + segment * SEGMENT + HEADER;
}

static uint64_t code(unsigned segment, unsigned offset) {
        return HEAP + segment * SEGMENT + offsetof(Blob, code) + offset;
}

static uint64_t at(unsigned word) {
        return STACK + 8 * (uint64_t)word;
}

/* nop, call of what follows, how the return barrier and a deopt handler begin */
#if UNWIND_ARM64
static const uint8_t nop[] = { 0x1f, 0x20, 0x03, 0xd5 }, call[] = { 0x01, 0x00, 0x00, 0x94 },
                     barrier[] = { 0x88, 0x93, 0x42, 0xf9, 0x1f, 0x01, 0x00, 0x91 },
                     deopt_handler[] = { 0x1e, 0x00, 0x00, 0x10 };
#else
static const uint8_t nop[] = { 0x90 }, call[] = { 0xe8, 0, 0, 0, 0 },
                     barrier[] = { 0x49, 0x8b, 0xa7, 0x28, 0x05, 0, 0 },
                     deopt_handler[] = { 0xe8, 0, 0, 0, 0, 0x48, 0x83, 0x2c, 0x24, 0x05 };
#endif

static void put_code(unsigned segment, unsigned offset, const void *bytes, size_t size) {
        memcpy(blob(segment)->code + offset, bytes, size);
}

static void fill(uint8_t *to, size_t size) {
        for (size_t i = 0; i < size; i++)
                to[i] = nop[i % sizeof(nop)];
}

static void put(unsigned segment, unsigned n, uint64_t name, uint32_t frame_size, uint32_t id) {
        Blob *made = blob(segment);

        for (unsigned i = 0; i < n; i++)
                map[segment + i] = (uint8_t)i;
        *made = (Blob){ .length = n, .used = 1, .name = DATA + name, .code_begin = code(segment, 0),
                        .frame_complete = 16, .frame_size = frame_size, .verified_entry = code(segment, 0),
                        .deopt_handler = code(segment, 200), .orig_pc = 8, .compile_id = id,
                        .method = DATA + METHOD };
        fill(made->code, n * SEGMENT - sizeof(Blob));
        /* every return address of these tests lies at 40, behind a call */
        put_code(segment, 40 - sizeof(call), call, sizeof(call));
}

static void setup(void) {
        static struct unwind_mapping mappings[] = { { .start = TEXT, .n_pages = 1, .table = 3 } };

        cr_assert_eq(rows_init(&rows, 0x1000, 0x2000, 1 << 20), 0);
        cr_assert_eq(rows_add(&rows, 0x1000, unwind_rule(UNWIND_CFA_END, 0, 0, 0, 0)), 0);
        cr_assert_eq(rows_finish(&rows, 0x2000), 0);
        shim_tables[3] = (ShimTable){ .data = rows.data, .size = (size_t)rows.n_blocks * UNWIND_BLOCK_SIZE };
        nodes_build(&shim_nodes, mappings, 1, GENERATION);
        shim_areas[0] = (ShimArea){ STACK, sizeof(words), words };
        shim_areas[1] = (ShimArea){ HEAP, sizeof(heap), heap };
        shim_areas[2] = (ShimArea){ MAP, sizeof(map), map };
        shim_areas[3] = (ShimArea){ DATA, sizeof(data), data };
        memset(map, HOTSPOT_SEGMENT_FREE, sizeof(map));
        memcpy(data + NMETHOD, "nmethod", 8);
        memcpy(data + STUB, "StubRoutines (1)", 17);
        *(uint64_t *)(void *)(data + METHOD + 8) = DATA + CONST_METHOD;
        *(uint16_t *)(void *)(data + CONST_METHOD + 32) = CODE_SIZE;
        put(CALLEE, 4, NMETHOD, 4, 412);
        put(CALLER, 4, NMETHOD, 6, 500);
        put(STUBS, 4, STUB, 0, 0);
        put(INTERPRETER, 8, STUB, 0, 0);
        process = (struct hotspot_process){
                .low = HEAP, .size = sizeof(heap), .interpreter = code(INTERPRETER, 0),
                .interpreter_size = 512,
                .interpreter_blob = blob_address(INTERPRETER), .call_stub = code(STUBS, 40), .n_heaps = 1,
                .segment_shift = 7, .heaps = { { HEAP, sizeof(heap), MAP } }, .block_header = HEADER,
                .block_used = 8, .header_size = sizeof(Blob), .const_method = 8, .code_size = 32, .code = 48,
                .bcp = -64, .name = FIELD(name), .code_begin = FIELD(code_begin),
                .frame_complete = FIELD(frame_complete), .frame_size = FIELD(frame_size),
                .verified_entry = FIELD(verified_entry), .deopt_handler = FIELD(deopt_handler),
                .orig_pc = FIELD(orig_pc), .method = FIELD(method), .compile_id = FIELD(compile_id),
        };
        process.frame_complete.base = HOTSPOT_BASE_CODE;
        shim_hotspot = &process;
}

static void teardown(void) {
        rows_deinit(&rows);
        shim_hotspot = NULL;
}

static uint64_t link;                   /* arm64: x30 of the leaf */

/* @kept: in the register that has the bcp while templates run, and the caller's sp before. */
static void walk_from(uint64_t pc, uint64_t sp, uint64_t bp, uint64_t kept, uint32_t depth) {
        memset(frames, 0xee, sizeof(frames));
        memset(&cache, 0, sizeof(cache));
        shim_begin(&unwind, &rules, depth);
        unwind.pc = pc;
        unwind.sp = sp;
        unwind.bp = bp;
        rules.registers[HOTSPOT_KEPT_BCP] = kept;
        rules.registers[HOTSPOT_KEPT_SENDER] = kept;
        rules.bx = link;
        shim_walk(&unwind, &rules, frames, &cache);
}

/* What call_stub's caller left on the stack, from word @i on: an entry frame whose rbp points there. */
static void put_entry(unsigned i) {
        words[i] = 0;
        words[i + 1] = TEXT + 0x20;
}

#define COMPILED ((uint64_t)RUNTIME_HOTSPOT_COMPILED << RUNTIME_KIND_SHIFT)
#define INTERPRETED ((uint64_t)RUNTIME_HOTSPOT_INTERPRETED << RUNTIME_KIND_SHIFT)
#define BLOB ((uint64_t)RUNTIME_HOTSPOT_BLOB << RUNTIME_KIND_SHIFT)

static void is_compiled(unsigned i, unsigned segment, uint64_t pc, uint64_t id) {
        cr_assert_eq(frames[i], COMPILED | pc, "%lx", frames[i]);
        cr_assert_eq(frames[i + 1], id << 32 | (pc - blob_address(segment)));
        cr_assert_eq(frames[i + 2], DATA + METHOD);
}

/* Callers of a leaf in CALLEE whose frame ends below word @cfa: CALLER, entry, root. */
static void put_callers(unsigned cfa, bool has_bp) {
        if (has_bp)
                words[cfa - 2] = at(900);
        words[cfa - 1] = code(CALLER, 40);
        words[cfa + 4] = at(100);       /* rbp of the entry frame */
        words[cfa + 5] = code(STUBS, 40);
        put_entry(100);
}

static void check_whole(uint64_t leaf) {
        cr_assert_eq(unwind.end, ABI_STACK_COMPLETE, "end %u", unwind.end);
        cr_assert_eq(unwind.n_frames, 10);
        is_compiled(0, CALLEE, leaf, 412);
        is_compiled(3, CALLER, code(CALLER, 40), 500);
        cr_assert_eq(frames[6], BLOB | code(STUBS, 40));
        cr_assert_eq(frames[8], blob_address(STUBS));
        cr_assert_eq(frames[9], TEXT + 0x20);
}

/* An interpreted frame whose rbp is word @i. */
static void put_interpreted(unsigned i, uint64_t bcp, unsigned sender, unsigned bp, uint64_t pc) {
        words[i] = at(bp);
        words[i + 1] = pc;
        words[i - 1] = at(sender);
        words[i - 3] = DATA + METHOD;
        words[i - 8] = bcp;
}
