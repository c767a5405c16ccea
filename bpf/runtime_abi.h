/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * Runtimes at the Border
 *
 * How the kernel half tells frames of a language's runtime, and what it needs to know of a process to do so.
 *
 * The user part of a sample is a list of 64-bit words. A native frame is one word, its address, whose top
 * byte is zero. A frame of a runtime begins with a tagged word: its top byte is the kind, and the kind says
 * how many words the frame has. The walk never writes a native address with another top byte, so that no
 * target can forge a tagged word.
 *
 *     kind                    low 56 bits    word 1                                word 2
 *     HOTSPOT_INTERPRETED     bcp            ConstMethod *                         Method *
 *     HOTSPOT_COMPILED        pc             compile_id << 32 | pc - nmethod       Method * of the nmethod
 *     HOTSPOT_BLOB            pc             pc - CodeBlob                         CodeBlob *
 *
 * pc is as in native frames: exact in the leaf, a return address otherwise. The words are what was in memory
 * at the tick; readers check all of them.
 */

#ifdef __bpf__
#include "kernel.bpf.h"
#else
#include <assert.h>
#include <stdint.h>
#endif

enum runtime_kind {
        RUNTIME_NATIVE = 0,
        RUNTIME_HOTSPOT_INTERPRETED = 1,
        RUNTIME_HOTSPOT_COMPILED = 2,
        RUNTIME_HOTSPOT_BLOB = 3,       /* stub, adapter, or other code of the runtime's own */
        RUNTIME_N_KINDS,
};

enum {
        RUNTIME_KIND_SHIFT = 56,
        RUNTIME_MAX_WORDS = 3,          /* words of one frame */
        RUNTIME_HOTSPOT_WORDS = 3,
        HOTSPOT_N_HEAPS = 4,          /* code heaps; every release so far has one or three */
        HOTSPOT_MAX_HEADER = 512,       /* bytes from a heap block's begin to the end of the fields read */
        RUNTIME_MAX_PROCESSES = 512,    /* processes with a runtime that is walked */
};

#define RUNTIME_ADDRESS_MASK ((1ull << RUNTIME_KIND_SHIFT) - 1)

/* Words of the frame that begins with @word; 0 = there is no such kind. */
static inline uint32_t runtime_frame_words(uint64_t word) {
        uint32_t kind = (uint32_t)(word >> RUNTIME_KIND_SHIFT);

        return kind == RUNTIME_NATIVE ? 1 : kind < RUNTIME_N_KINDS ? RUNTIME_HOTSPOT_WORDS : 0;
}

/* What the value of a field counts from. */
enum hotspot_base {
        HOTSPOT_BASE_NONE = 0,
        HOTSPOT_BASE_BLOB = 1,          /* the CodeBlob */
        HOTSPOT_BASE_CODE = 2,          /* the blob's first instruction */
};

/* A field of a CodeBlob or nmethod. */
struct hotspot_field {
        uint16_t offset;                /* in the blob */
        uint8_t size;                   /* bytes: 2, 4, 8; 0 = this release has no such field */
        uint8_t base;                   /* enum hotspot_base */
};

struct hotspot_heap {
        uint64_t low;                   /* first block */
        uint64_t size;                  /* reserved bytes */
        uint64_t segment_map;
};

/*
 * A process that runs HotSpot: value of the map `hotspot_processes`, by tgid. Written by the daemon only,
 * once a program; all of it comes from the target's own vmStructs, checked by the daemon for bounds alone.
 */
struct hotspot_process {
        uint64_t generation;            /* of the process' row; another one = void */
        uint64_t low, size;             /* code heaps, from the first one's begin to the last one's end */
        uint64_t interpreter, interpreter_size; /* templates and entries of the interpreter */
        uint64_t interpreter_blob;      /* CodeBlob that they lie in */
        uint64_t call_stub;             /* return address of Java code that native code has called */
        uint32_t n_heaps;
        uint32_t segment_shift;
        struct hotspot_heap heaps[HOTSPOT_N_HEAPS];

        uint16_t block_header;          /* bytes of a heap block in front of its blob */
        uint16_t block_used;            /* offset of its flag `used` */
        uint16_t header_size;           /* bytes of block and blob that hold all fields below */
        uint16_t const_method;          /* offset of Method's pointer to its ConstMethod */
        uint16_t code_size;             /* offset of ConstMethod's size of bytecodes, two bytes */
        uint16_t code;                  /* offset of the bytecodes in a ConstMethod */
        int16_t bcp;                    /* offset of the saved bcp from an interpreted frame's rbp */
        uint16_t reserved;
        struct hotspot_field name;      /* pointer to a text */
        struct hotspot_field code_begin;
        struct hotspot_field frame_complete;    /* first instruction behind the prologue; CODE */
        struct hotspot_field frame_size;        /* words */
        struct hotspot_field verified_entry;    /* from here on, of nmethods alone */
        struct hotspot_field deopt_handler;
        struct hotspot_field orig_pc;   /* offset from rsp of the pc that the deopt handler replaced */
        struct hotspot_field method;
        struct hotspot_field compile_id;
        uint32_t padding;
};

#ifdef __bpf__
#define RUNTIME_ASSERT(x) _Static_assert(x, #x)
#else
#define RUNTIME_ASSERT(x) static_assert(x, #x)
#endif

RUNTIME_ASSERT(sizeof(struct hotspot_heap) == 24);
RUNTIME_ASSERT(sizeof(struct hotspot_process) == 56 + 8 + 96 + 16 + 40);
