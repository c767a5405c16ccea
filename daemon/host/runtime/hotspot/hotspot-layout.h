/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Layout of a JVM
 *
 * Where HotSpot's structures keep what frames and names need, as this build of libjvm publishes it for
 * debuggers (gHotSpotVMStructs and its companions). One layout serves all processes with the same libjvm.
 * docs/RUNTIMES.md shows the structures.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/runtime/hotspot/hotspot-reader.h"

enum {
        HOTSPOT_MAX_HEAPS = 8,          /* code heaps of a process; HotSpot makes three at most */
        HOTSPOT_MAX_REASON = 128,
        HOTSPOT_N_SYMBOLS = 18,
};

/* A field of a structure. */
typedef struct HotspotField {
        uint16_t offset;                /* bytes from the structure's start */
        uint8_t size;                   /* bytes: 1, 2, 4, 8; 0 = this build has no such field */
        bool is_signed;
} HotspotField;

/* CodeCache, CodeHeap, HeapBlock: where compiled code lies, and how a block is found for a pc. */
typedef struct HotspotHeapLayout {
        uint64_t heaps;                 /* address of CodeCache::_heaps, relative to libjvm; or 0, and */
        uint64_t heap;                  /* … of CodeCache::_heap (JDK 8) */
        HotspotField array_length, array_data;  /* GrowableArray */
        HotspotField memory, segment_map;       /* CodeHeap: two VirtualSpaces */
        HotspotField log2_segment;      /* CodeHeap: of the bytes of a segment */
        HotspotField low, high, end;    /* VirtualSpace: reserved [low, end), in use [low, high) */
        HotspotField block_length;      /* HeapBlock: in segments */
        HotspotField block_used;        /* HeapBlock: 0 = free */
        uint32_t block_size;            /* bytes of a HeapBlock; its CodeBlob follows */
} HotspotHeapLayout;

/* CodeBlob: the head of each piece of code. */
typedef struct HotspotBlobLayout {
        HotspotField name;              /* char * */
        HotspotField size;              /* bytes, with head and data */
        HotspotField header_size;       /* HotspotNmethodLayout.struct_size of an nmethod, of no other kind */
        HotspotField frame_size;        /* in words of 8 bytes, with the return address */
        HotspotField frame_complete;    /* from the code's start: here the frame is set up; may be -1 */
        HotspotField data;              /* from the blob */
        HotspotField code;              /* int: from the blob; or, with size 8, an address */
        HotspotField code_end;          /* size 8: an address; 0 = the code ends where data begins */
        HotspotField mutable_data, mutable_size, relocation_size;       /* JDK 25 and later */
} HotspotBlobLayout;

/* nmethod, with CompiledMethod where there is one (9 … 22): a compiled method. */
typedef struct HotspotNmethodLayout {
        HotspotField method;            /* Method * */
        HotspotField compile_id;
        HotspotField comp_level;        /* 1 … 3: C1, 4: C2 */
        HotspotField entry_bci;         /* -1 unless it is entered within a loop (OSR) */
        HotspotField state;
        HotspotField orig_pc;           /* int: from the frame's sp, where a deoptimised frame has its pc */
        /* int: from the nmethod, or an address (size 8): a return address that says "deoptimise" */
        HotspotField deopt, deopt_mh;
        HotspotField verified_entry;    /* the prologue: from the code's start, or an address (size 8) */
        HotspotField metadata;          /* int: from the nmethod; with immutable_data from the blob's data */
        HotspotField scopes_data;       /* int: from the nmethod or immutable_data; with size 8 an address */
        HotspotField scopes_pcs;        /* int: from the nmethod or immutable_data */
        HotspotField dependencies;      /* int: where scopes_pcs end; not with immutable_data */
        HotspotField null_checks;       /* int: from the nmethod or immutable_data */
        HotspotField immutable_data, immutable_size;            /* JDK 23 and later */
        uint32_t struct_size;           /* bytes */
} HotspotNmethodLayout;

/* Method, ConstMethod, ConstantPool, Klass, Symbol: what a method is called. */
typedef struct HotspotMethodLayout {
        HotspotField const_method;      /* Method */
        HotspotField constants, flags, code_size, name, signature;      /* ConstMethod */
        HotspotField const_size;        /* ConstMethod: words of 8 bytes with all that follows */
        HotspotField tags, holder, pool_length, pool_source_file;       /* ConstantPool */
        HotspotField klass_name;        /* Klass */
        HotspotField klass_constants;   /* InstanceKlass */
        HotspotField klass_source_file; /* InstanceKlass, before JDK 15 */
        HotspotField symbol_length;     /* Symbol: bytes; with symbol_shift in the upper half */
        HotspotField symbol_body;
        HotspotField array_length, array_u1;    /* Array<u1> */
        uint32_t method_size, const_method_size, pool_size;     /* bytes of each structure */
        uint32_t line_table_flag;       /* bit in ConstMethod::_flags */
        uint8_t symbol_shift;           /* 0, or 16 */
} HotspotMethodLayout;

/* ConstantPoolCache: what calls of byte code lead to; hotspot-loop.c. */
typedef struct HotspotCallLayout {
        HotspotField cache;             /* ConstantPool: ConstantPoolCache * */
        HotspotField entries;           /* ConstantPoolCache: an Array of entries; else they follow it */
        HotspotField index;             /* entry: of the constant pool, in the lower 16 bits */
        HotspotField first, second;     /* entry: Method *, in one of two; with @entries at its begin */
        HotspotField intrinsic;         /* Method: a number; 0 = the compiler has no code of its own for it */
        uint32_t cache_size, entry_size;        /* bytes */
} HotspotCallLayout;

/* JavaThread: where its Java frames begin while it is in native code or in the VM. */
typedef struct HotspotThreadLayout {
        HotspotField anchor;            /* JavaFrameAnchor, within the JavaThread */
        HotspotField last_sp, last_fp, last_pc;         /* JavaFrameAnchor */
        HotspotField wrapper_anchor;    /* JavaFrameAnchor, within the JavaCallWrapper of an entry frame */
        HotspotField osthread;          /* OSThread *; JDK 25 publishes none */
        HotspotField thread_id;         /* OSThread */
        HotspotField cont_entry;        /* ContinuationEntry *, which lies in its stack; 25.0.3 */
} HotspotThreadLayout;

/* How much a thread has allocated; absent_of_bytes() in hotspot-runtime.c says what is missing. */
typedef struct HotspotBytesLayout {
        HotspotField allocated;         /* Thread: bytes before its TLAB */
        HotspotField tlab;              /* Thread: ThreadLocalAllocBuffer, within it */
        HotspotField start, top;        /* ThreadLocalAllocBuffer: what is used of it */
} HotspotBytesLayout;

/* Bytes from rbp to words of an interpreted frame. No build publishes these; they are the processor's. */
typedef struct HotspotInterpreterLayout {
        int16_t sender_sp;              /* sp of the caller before the callee made room for locals */
        int16_t method;
        int16_t bcp;
        int16_t entry_wrapper;          /* in a frame of the call stub: JavaCallWrapper * */
} HotspotInterpreterLayout;

/* Static variables and published addresses, each relative to where libjvm is loaded; 0 = none. */
typedef struct HotspotStaticLayout {
        uint64_t interpreter;           /* AbstractInterpreter::_code, a StubQueue * */
        HotspotField queue_start, queue_size;   /* StubQueue */
        uint64_t call_stub_return;      /* StubRoutines::_call_stub_return_address */
        uint64_t cont_return_pc;        /* ContinuationEntry::_return_pc */
} HotspotStaticLayout;

/* Classes of the JDK that the VM itself knows, and references to objects; hotspot-chunk.c. 0 = none. */
typedef struct HotspotClassLayout {
        uint64_t list;                  /* vmClasses::_klasses, of InstanceKlass *; relative to libjvm */
        /* CompressedOops: base and shift of compressed references; relative to libjvm */
        uint64_t oop_base, oop_shift;
        HotspotField fields;            /* InstanceKlass: Array<u1> * that describes its fields; or, and … */
        HotspotField old_fields, n_old_fields;  /* … Array<u2> *, and how many are Java's (before JDK 21) */
        HotspotField array_u2;          /* Array<u2> */
        HotspotField super;             /* Klass: what it extends */
        HotspotField size;              /* Klass: bytes of an object; the lowest bit is none of it */
} HotspotClassLayout;

/*
 * Threads of a JVM, and what each waits for; hotspot-locks.c. Releases differ in how they say who has a
 * monitor, and so in which of these they have.
 */
typedef struct HotspotLockLayout {
        uint64_t threads;               /* ThreadsSMRSupport::_java_thread_list, relative to libjvm; or */
        uint64_t first_thread;          /* … Threads::_thread_list (before JDK 12); 0 = not the one */
        HotspotField n_threads, thread_array;   /* ThreadsList: how many, JavaThread ** */
        HotspotField next_thread;       /* JavaThread: the next one of the older list */
        HotspotField pending;           /* JavaThread: ObjectMonitor * that it wants to enter */
        HotspotField waiting;           /* JavaThread: ObjectMonitor * of which it awaits notify() */
        HotspotField stack_base, stack_size;    /* JavaThread: its stack, which grows down from the base */
        HotspotField object;            /* JavaThread: its java.lang.Thread, or the address of a handle */
        HotspotField virtual_object;    /* JavaThread: the same of the virtual thread that it carries */
        HotspotField owner_id;          /* JavaThread: number by which monitors know it (JDK 24 and later) */
        HotspotField lock_stack;        /* JavaThread: LockStack, within it (JDK 21 and later) */
        HotspotField lock_top;          /* LockStack: bytes from the JavaThread to the first free place */
        HotspotField lock_base;         /* LockStack: its first place */
        HotspotField monitor_owner;     /* ObjectMonitor: who has it */
        HotspotField monitor_object;    /* ObjectMonitor: its object, or the address of a handle */
        HotspotField object_klass;      /* oopDesc: Klass *, or a compressed one of 4 bytes */
        uint64_t klass_base, klass_shift;       /* compressed Klass pointers, as CompressedOops */
} HotspotLockLayout;

/* Counts that the JVM keeps for its tools; hotspot-published.c. The variable is relative to libjvm. */
typedef struct HotspotCountsLayout {
        uint64_t start;                 /* PerfMemory::_start, a PerfDataPrologue *; 0 = none */
        HotspotField first, n;          /* PerfDataPrologue: where the first entry is, how many there are */
        HotspotField length, name, data;        /* PerfDataEntry: bytes, and where these are in it */
} HotspotCountsLayout;

/* Flags of the command line; hotspot-published.c. Both variables are relative to libjvm; 0 = not known. */
typedef struct HotspotFlagsLayout {
        uint64_t list, count;           /* JVMFlag *, and how many there are */
        HotspotField name, value;       /* JVMFlag: char *, and the address of its value */
        uint32_t struct_size;           /* bytes of a JVMFlag */
        uint8_t has_no_loop_polls;      /* in this process: hotspot_published_no_loop_polls() */
} HotspotFlagsLayout;

/* Frames of virtual threads in the heap. */
typedef struct HotspotChunkLayout {
        uint64_t oop_base;              /* a reference is an address: base + (reference << shift) */
        uint32_t oop_shift;
        uint16_t tail;                  /* Continuation: reference to its newest StackChunk; 0 = not known */
        uint16_t parent;                /* StackChunk: reference to the next older one */
        uint16_t sp, bottom;            /* StackChunk: words from its stack's begin */
        uint16_t stack;                 /* StackChunk: bytes to its stack's begin */
        uint16_t zero;
} HotspotChunkLayout;

typedef struct HotspotLayout {
        uint32_t version;               /* release of the JDK: 8, 11, 17 */
        bool has_zero_free_numbers;     /* compressed numbers leave the byte 0 out (JDK 20 and later) */
        HotspotHeapLayout heap;
        HotspotBlobLayout blob;
        HotspotNmethodLayout nmethod;
        HotspotMethodLayout method;
        HotspotCallLayout calls;
        HotspotThreadLayout thread;
        HotspotBytesLayout bytes;
        HotspotInterpreterLayout interpreter;
        HotspotStaticLayout variables;
        HotspotClassLayout classes;
        HotspotLockLayout locks;
        HotspotCountsLayout counts;
        HotspotFlagsLayout flags;
        HotspotChunkLayout chunk;       /* classes of this process; hotspot_chunk_read() */
} HotspotLayout;

enum {
        _HOTSPOT_LAYOUT_E_SUCCESS,
        HOTSPOT_LAYOUT_E_UNREADABLE,    /* memory is not there (yet), or the process has gone */
        HOTSPOT_LAYOUT_E_UNKNOWN,       /* something is missing, or makes no sense: @reason says what */
};

/* The names of the variables through which libjvm describes itself, in the order of @symbols below. */
extern const char *const hotspot_symbol_names[HOTSPOT_N_SYMBOLS];

/*
 * Pure but for @reader. @symbols: addresses in the process of hotspot_symbol_names; @bias: where libjvm is
 * loaded (address in the process − ELF address). @reason: text such as
 * `java 27: layout unknown: nmethod::_scopes_data_offset`. Return: 0 with *layoutp, HOTSPOT_LAYOUT_E_*.
 */
int hotspot_layout_read(HotspotLayout *layoutp, const HotspotReader *reader,
                        const uint64_t symbols[HOTSPOT_N_SYMBOLS], uint64_t bias,
                        char reason[HOTSPOT_MAX_REASON]);

/*
 * The value of a field of the structure that begins at @data, @size bytes long; 0 if it is not in it, or
 * absent. Signed ones are extended.
 */
uint64_t hotspot_field(HotspotField field, const void *data, size_t size);

/* The same at @address of the process. Return: whether it could be read. */
bool hotspot_read_field(const HotspotReader *reader, HotspotField field, uint64_t address, uint64_t *valuep);
