/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Code Cache of a JVM
 *
 * Where the compiled code, the stubs and the interpreter of one process lie, and which block a pc belongs to.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/runtime/hotspot/hotspot-layout.h"

enum { HOTSPOT_WORDS = 3 };             /* words of a frame on the wire (docs/RUNTIMES.md) */
enum { HOTSPOT_STAMP_SHIFT = 48 };      /* RUNTIME_HOTSPOT_STAMP_SHIFT (bpf/border/runtime_abi.h) */
#define HOTSPOT_ENTRY (UINT64_C(1) << 63)       /* in word 1: RUNTIME_HOTSPOT_ENTRY (border/runtime_abi.h) */

/*
 * A code heap. The segment map has one byte for each segment of 1 << log2_segment bytes: 255 = free, 0 = a
 * block begins here, else: go back so many segments and look again.
 */
typedef struct HotspotHeap {
        uint64_t low, end;              /* reserved: it grows within these and does not move */
        uint64_t segment_map;           /* address of its first byte */
        uint32_t log2_segment;
} HotspotHeap;

typedef struct HotspotCode {
        HotspotHeap heaps[HOTSPOT_MAX_HEAPS];
        uint32_t n_heaps;
        uint64_t interpreter_low, interpreter_high;     /* the interpreter lies in a block of a heap */
        uint64_t call_stub_return;      /* the return address in a frame of the call stub */
        uint64_t cont_return_pc;        /* the same of Continuation.enterSpecial; 0 = not known */
        uint64_t unloads;               /* the JVM's count of unloaded classes; 0 = it has none */
} HotspotCode;

typedef enum HotspotKind {
        HOTSPOT_INTERPRETED = 1,        /* as in the top byte of a frame's first word */
        HOTSPOT_COMPILED = 2,
        HOTSPOT_BLOB = 3,
} HotspotKind;

/* A CodeBlob, as it was when it was read. */
typedef struct HotspotBlob {
        uint64_t address, end;
        uint64_t code, code_end;
        HotspotKind kind;
        uint32_t frame_size;            /* bytes, with the return address; 0 = unknown */
        int32_t frame_complete;         /* bytes from code; < 0 = never */
        uint64_t name;                  /* address of a C string */
        /* fields of an nmethod */
        uint64_t method;
        uint32_t compile_id;
        uint8_t level;
        int32_t entry_bci;
        int32_t orig_pc;                /* bytes from the frame's sp */
        uint64_t deopt, deopt_mh;       /* return addresses that stand for the one at orig_pc */
        uint64_t scopes_data, scopes_data_end, pcs, pcs_end, metadata, metadata_end;
        uint64_t null_checks;           /* a table (hotspot-exit.c); 0 = unknown */
} HotspotBlob;

/* An nmethod, and by what it and the code around it are read; borrowed. */
typedef struct HotspotCompiled {
        const HotspotCode *code;
        const HotspotLayout *layout;
        const HotspotReader *reader;
        const HotspotBlob *blob;
} HotspotCompiled;

enum {
        _HOTSPOT_CODE_E_SUCCESS,
        HOTSPOT_CODE_E_UNREADABLE,      /* memory is not there (yet), or the process has gone */
        HOTSPOT_CODE_E_MALFORMED,       /* no JVM has this */
        HOTSPOT_CODE_E_NONE,            /* no block is there */
};

/* @bias: where libjvm is loaded. Return: 0, HOTSPOT_CODE_E_UNREADABLE, HOTSPOT_CODE_E_MALFORMED. */
int hotspot_code_read(HotspotCode *codep, const HotspotLayout *layout, const HotspotReader *reader,
                      uint64_t bias);

/* The heap that @pc lies in, or NULL. */
const HotspotHeap *hotspot_code_heap(const HotspotCode *code, uint64_t pc);

/* The block that @pc lies in: *blobp is the address of its CodeBlob. Return: 0, HOTSPOT_CODE_E_*. */
int hotspot_code_find(const HotspotCode *code, const HotspotLayout *layout, const HotspotReader *reader,
                      uint64_t pc, uint64_t *blobp);

/* The CodeBlob at @address, which lies in @code. Return: 0, HOTSPOT_CODE_E_*. */
int hotspot_blob_read(HotspotBlob *blobp, const HotspotCode *code, const HotspotLayout *layout,
                      const HotspotReader *reader, uint64_t address);

/*
 * The name of @blob into @to of @size bytes, with a NUL. Beyond @size - 1 bytes it is cut. Return: whether it
 * is known: one whose end lies in memory that cannot be read is not.
 */
bool hotspot_blob_name(const HotspotBlob *blob, const HotspotReader *reader, char *to, size_t size);

typedef struct HotspotCodeCursor {
        uint32_t heap;
        uint64_t at;                    /* the next block; 0 = the heap's first */
} HotspotCodeCursor;

/*
 * Walks all blocks in use, from a cursor that is all 0. Return: 0 with the next CodeBlob's address,
 * HOTSPOT_CODE_E_NONE at the end.
 */
int hotspot_code_next(const HotspotCode *code, const HotspotLayout *layout, const HotspotReader *reader,
                      HotspotCodeCursor *cursor, uint64_t *blobp);
