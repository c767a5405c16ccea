/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * Unwind Tables at the Border
 *
 * How the daemon hands rows of .eh_frame to the kernel half. Two things cross:
 *
 * 1. One *table* per distinct ELF file: an array of 4 KiB blocks, each the value
 *    of one map element, so that a search never leaves the value it began in.
 *
 *      block 0 … d-1    directory: one 8-byte word per 4 KiB page of text
 *                         bits  0-31  block that holds the page's record
 *                         bits 32-47  byte offset of the record in that block, even
 *                         bits 48-63  rows in the record; 0 = the page has none
 *      other blocks     records of several pages, packed from the front:
 *                         u16 key[n]   offset in the page from which the row holds; key[0] is 0
 *                         u8  rule[n]  which rule of this block
 *                       rules, from the back: rule i lies at 4096 - 8 (i + 1), at most 255
 *
 *    "Page" counts from `text_low`, the page of the file's first executable
 *    byte, in ELF addresses. A row holds until the next one, and the last row
 *    of a page until its end. Rules are a block's own, so that a row is three
 *    bytes, and no table of all rules can ever be full.
 *
 * 2. One *node* per process (a root and leaves if it has many mappings): sorted
 *    executable mappings, each with the id of its file's table.
 *
 * A *rule* is one 64-bit word: how to get from the registers of a frame to those
 * of its caller. It is built and taken apart by the functions below alone.
 *
 *      bits  0-31  signed: offset, or what the kind needs (see enum unwind_cfa)
 *      bits 32-47  signed: offset of the saved rbp
 *      bits 48-55  enum unwind_cfa
 *      bits 56-57  enum unwind_rbp
 *      bits 58-63  rbx: 0 = unchanged, k = saved at CFA - 8 k, 63 = lost
 *
 * arm64 has sp and x29 in place of rsp and rbp, and the place of the return address in that of rbx.
 */

#ifdef __bpf__
#include "border/kernel.bpf.h"
#else
#include <assert.h>
#include <stdint.h>
#ifdef __aarch64__                      /* the daemon reads programs of its own machine */
#define UNWIND_ARM64 1
#else
#define UNWIND_ARM64 0
#endif
#endif

/*
 * Code that is rare or long, and stands in many places, is a global function of the kernel half. The verifier
 * follows it once, not once for every path that leads to it, and the walk's loop stays short: in most samples
 * the processor's caches are cold, and each line of code costs as much as one of data. A pointer that is
 * given to it may be NULL for all that the verifier knows there.
 */
#ifdef __bpf__
#define APART __attribute__((noinline))
#else
#define APART static inline
#endif

/* Ends a part of a sample, whose time tests/bench/programs/parts.bpf.c takes; it means nothing elsewhere. */
#ifndef PART
#define PART(name) ((void)0)
#endif

enum {
        UNWIND_BLOCK_SIZE = 4096,
        UNWIND_PAGE_SHIFT = 12,         /* bits of text; a directory word speaks for one page */
        UNWIND_PAGE_SIZE = 1 << UNWIND_PAGE_SHIFT,
        UNWIND_DIRECTORY_SHIFT = 9,     /* 512 directory words in a block */
        UNWIND_MAX_RULES = 255,         /* rules in a block */
        UNWIND_MAX_ROWS = 1362,         /* rows in a page: as many as fit a block with one rule */
        UNWIND_SEARCH_STEPS = 11,       /* halvings until one of UNWIND_MAX_ROWS is left */
        UNWIND_MAX_MAPPINGS = 32,       /* mappings in a node */
        UNWIND_MAX_TABLES = 4096,       /* slots of the array of tables */
        UNWIND_MAX_NODES = 2048,        /* nodes of all processes; a process beyond is PENDING for ever */
        /* in place of a slot: */
        /* no rows exist: JIT code, or a file without call frame information */
        UNWIND_NO_TABLE = 0xffffffff,
        UNWIND_PENDING_TABLE = 0xfffffffe,      /* the file's rows are being made */
        UNWIND_LOST_TABLE = 0xfffffffd, /* the file may have rows, but they could not be had */
        /* in the offset of a mapping, else whole pages: no file of a known form is there, rows or not */
        UNWIND_MADE = 1,
};

/* Where the canonical frame address (CFA) is: rsp before the call that made this frame. */
enum unwind_cfa {
        UNWIND_CFA_NONE = 0,            /* no row here */
        UNWIND_CFA_RSP = 1,             /* register + offset */
        UNWIND_CFA_RBP = 2,
        UNWIND_CFA_RBX = 3,
        /* *(register + (offset >> 8)) + (int8)offset; by rsp it may lead to another stack (OCaml) */
        UNWIND_CFA_DEREF_RSP = 4,
        UNWIND_CFA_DEREF_RBP = 5,
        UNWIND_CFA_PLT = 6,             /* rsp + 8, and 8 more once pc & 15 >= offset: the stub has pushed */
        UNWIND_CFA_SIGNAL = 7,          /* the kernel's signal frame lies at rsp */
        UNWIND_CFA_END = 8,             /* return address undefined: the outermost frame */
        UNWIND_CFA_BAD = 9,             /* a row that this format cannot express */
        /* never in a table: where no rows exist, rbp is all there is; offset: 0 or UNWIND_MADE */
        UNWIND_CFA_FP = 10,
        /* never in a table: code without a row among code with rows; nothing says that rbp is set */
        UNWIND_CFA_GAP = 11,
        /* 12 and 13 are kinds of the cache's own: hotspot.bpf.h */
        /* rbp + offset, on another stack, which may lie lower: Go's systemstack and its like */
        UNWIND_CFA_SWITCH = 14,
        /* the goroutine that this thread runs, which has stopped itself to get a larger stack: by g in r14 */
        UNWIND_CFA_GOROUTINE = 15,
        /* + DWARF number 0 … 15: register + offset; in a caller if its callees have kept it */
        UNWIND_CFA_REGISTER = 16,
        UNWIND_CFA_REGISTER_LAST = 31,
        /* + DWARF number: rsp + offset, and the return address is in that register; leaf only */
        UNWIND_CFA_RETURN = 32,
        UNWIND_CFA_RETURN_LAST = 47,
        /* + DWARF number: as DEREF_RSP, 8 × that register further up; as REGISTER in a caller */
        UNWIND_CFA_INDEXED = 48,
        UNWIND_CFA_INDEXED_LAST = 63,
        UNWIND_CFA_SUM = 64,            /* + DWARF number: rbp + register + offset; leaf only */
        UNWIND_CFA_SUM_LAST = 79,
        /* *(*(rsp + (offset >> 16)) + (int8)(offset >> 8)) + (int8)offset: OCaml's handlers of effects */
        UNWIND_CFA_DEREF_TWICE = 80,
        /*
         * Added to RSP, REGISTER, RETURN, SUM: the caller has made no call, so its pc is exact. An exception
         * goes there, or a signal handler has put the call in (Go's asyncPreempt, sigpanic).
         */
        UNWIND_CFA_LANDING = 128,
};

/* Place of the caller's rbp. */
enum unwind_rbp {
        UNWIND_RBP_SAME = 0,
        UNWIND_RBP_AT_CFA = 1,          /* saved at CFA + offset */
        UNWIND_RBP_AT_RBP = 2,          /* saved at rbp + offset: frames that realign the stack */
        UNWIND_RBP_LOST = 3,
};

enum {
        UNWIND_RBX_SAME = 0,
        UNWIND_RBX_MAX = 62,            /* highest k of CFA - 8 k */
        UNWIND_RBX_LOST = 63,
};

/* Place of the return address, on arm64; others: at CFA - 8 times the value. */
enum {
        UNWIND_RETURN_LINK = 0,         /* in x30: no call was made yet */
        UNWIND_RETURN_MAX = 62,
        UNWIND_RETURN_BESIDE = 63,      /* a word above the place of x29, saved or not */
};

static inline uint64_t unwind_rule(uint32_t cfa, int32_t offset, uint32_t rbp, int16_t rbp_offset,
                                   uint32_t rbx) {
        return (uint64_t)(uint32_t)offset | (uint64_t)(uint16_t)rbp_offset << 32 |
               (uint64_t)(cfa & 0xff) << 48 | (uint64_t)(rbp & 3) << 56 | (uint64_t)(rbx & 63) << 58;
}

static inline uint32_t unwind_rule_cfa(uint64_t rule) {
        return (uint32_t)(rule >> 48) & 0xff;
}

static inline int32_t unwind_rule_offset(uint64_t rule) {
        return (int32_t)(uint32_t)rule;
}

static inline uint32_t unwind_rule_rbp(uint64_t rule) {
        return (uint32_t)(rule >> 56) & 3;
}

static inline int16_t unwind_rule_rbp_offset(uint64_t rule) {
        return (int16_t)(uint16_t)(rule >> 32);
}

static inline uint32_t unwind_rule_rbx(uint64_t rule) {
        return (uint32_t)(rule >> 58);
}

/* Rule that rows.bpf.h gives for a page without any row. */
#define UNWIND_RULE_FP ((uint64_t)UNWIND_CFA_FP << 48)

/* Directory words. */
static inline uint64_t unwind_word(uint32_t block, uint32_t offset, uint32_t n_rows) {
        return block | (uint64_t)(offset & 0xffff) << 32 | (uint64_t)(n_rows & 0xffff) << 48;
}

static inline uint32_t unwind_word_block(uint64_t word) {
        return (uint32_t)word;
}

static inline uint32_t unwind_word_offset(uint64_t word) {
        return (uint32_t)(word >> 32) & 0xffff;
}

static inline uint32_t unwind_word_rows(uint64_t word) {
        return (uint32_t)(word >> 48);
}

/* An executable mapping of a process. */
struct unwind_mapping {
        uint64_t start;                 /* address in the target */
        uint32_t n_pages;
        uint32_t table;                 /* slot, or UNWIND_*_TABLE; in a root: number of the leaf */
        /* bytes from the file's text_low to `start`, in its ELF addresses, and UNWIND_MADE */
        uint64_t offset;
};

/*
 * An address space: a leaf holds its mappings sorted by start; a root holds the first
 * start of each of up to 32 leaves. Root and leaves carry the generation of the
 * set that they belong to; a walk that meets two of them is void.
 */
struct unwind_node_key {
        uint64_t number;                /* space << UNWIND_LEAF_BITS | leaf */
};

enum { UNWIND_LEAF_BITS = 6 };

/*
 * @space: the generation of its process' row. @leaf: 0 = the root, or the only leaf; 1 … 32 = leaves of a
 * root.
 */
static inline struct unwind_node_key unwind_node_key(uint64_t space, uint32_t leaf) {
        struct unwind_node_key key = { space << UNWIND_LEAF_BITS | leaf };

        return key;
}

struct unwind_node {
        uint64_t generation;            /* global, never reused, never 0 */
        uint16_t n;                     /* 1 … UNWIND_MAX_MAPPINGS */
        uint16_t is_leaf;
        /* second of the last call to the daemon, in a root; the sampler writes it (wake.bpf.h); 0 = never */
        uint32_t called;
        struct unwind_mapping mappings[UNWIND_MAX_MAPPINGS];    /* sorted by start, all below 2^63 */
};

#ifdef __bpf__
#define UNWIND_ASSERT(x) _Static_assert(x, #x)
#else
#define UNWIND_ASSERT(x) static_assert(x, #x)
#endif

UNWIND_ASSERT(sizeof(struct unwind_mapping) == 24);
UNWIND_ASSERT(sizeof(struct unwind_node_key) == 8);
UNWIND_ASSERT(sizeof(struct unwind_node) == 784);
UNWIND_ASSERT(UNWIND_BLOCK_SIZE == 8 << UNWIND_DIRECTORY_SHIFT);
UNWIND_ASSERT(3 * UNWIND_MAX_ROWS + 8 <= UNWIND_BLOCK_SIZE);
UNWIND_ASSERT(UNWIND_MAX_ROWS < 1 << UNWIND_SEARCH_STEPS);
