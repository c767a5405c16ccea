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
 *     HOTSPOT_INTERPRETED     bcp            low stamp << 48 | ConstMethod *       high stamp << 48 | Method*
 *     HOTSPOT_COMPILED        pc             compile_id << 32 | pc - nmethod       Method * of the nmethod
 *     HOTSPOT_BLOB            pc             pc - CodeBlob                         CodeBlob *
 *     PYTHON                  code object    python_cookie() << 32 | position      none: two words
 *     V8_INTERPRETED          pc             low cookie << 48 | SharedFunctionInfo high cookie << 32 | offset
 *     V8_COMPILED             pc             the same, 0 = none was read           the same | V8_PC_EXACT
 *     PHP                     kind << 48 |   php_cookie() << 32 | line             none: two words
 *                             zend_function*
 *     BEAM                    pc             beam_cookie() << 32 | BEAM_PC_EXACT   none: two words
 *     RUBY                    kind << 48 |   ruby_cookie() << 32 | position        cookie << 48 | class,
 *                             body or ID                                           0 = none was read
 *
 * The position in a code object is the instruction pointer - the code object; before 3.11 it is f_lasti. A
 * pointer into a thread's own copy of the instructions counts as the same place in the code object.
 * A SharedFunctionInfo is an address without its tag; the cookie is v8_cookie(), 48 bits. The offset is that
 * of the bytecode, from the tagged pointer to its array, V8_NO_OFFSET = not known. Compiled code has one, if
 * it goes on in the frame of an interpreter (on-stack replacement), or is a copy of the interpreter.
 * Code that is no function's (regular expressions, WebAssembly) has no SharedFunctionInfo, and as its low
 * cookie the mark of its frame: the kind of frame * 2.
 * The line of a PHP frame is read at the tick, 0 = not known; functions go with their request. Their kind is
 * PHP_FUNCTION_*. An address of 0 stands for generators that the frame before was delegated by (`yield from`).
 * A BEAM frame's pc of 0 stands for a scheduler that runs no process of Erlang.
 * The kind of a Ruby frame is RUBY_FRAME_*; one of C has its method's ID, and nothing in word 1. The position
 * counts the words of its instructions, up to the next one. The class is the one that has the method; its
 * cookie is ruby_class_cookie().
 * The stamp is 32 bits of the JVM's count of unloaded classes + 1, never 0; 0 = it has no count. pc is as in
 * native frames: exact in the leaf, a return address otherwise. The words are what was in memory at the tick;
 * readers check all of them.
 */

#ifdef __bpf__
#include "border/kernel.bpf.h"
#else
#include <assert.h>
#include <stdint.h>
#endif

enum runtime_kind {
        RUNTIME_NATIVE = 0,
        RUNTIME_HOTSPOT_INTERPRETED = 1,
        RUNTIME_HOTSPOT_COMPILED = 2,
        RUNTIME_HOTSPOT_BLOB = 3,       /* stub, adapter, or other code of the runtime's own */
        RUNTIME_PYTHON = 4,             /* an interpreted function */
        RUNTIME_V8_INTERPRETED = 5,     /* a function of JavaScript: its bytecode array is in the frame */
        RUNTIME_V8_COMPILED = 6,        /* code of functions of JavaScript, made at run time */
        RUNTIME_PHP = 7,                /* a function, a method, or the code of a file */
        RUNTIME_BEAM = 8,               /* code that Erlang's JIT has made */
        RUNTIME_RUBY = 9,               /* a method, a block, or the code of a file */
        RUNTIME_N_KINDS,
};

/* Runtimes as bits: those whose processes the kernel half looks up, and others. */
enum {
        RUNTIME_HAS_HOTSPOT = 1 << 0,
        RUNTIME_HAS_GO = 1 << 1,
        RUNTIME_HAS_PYTHON = 1 << 2,
        RUNTIME_HAS_OTHER_JVM = 1 << 3, /* recognised alone; the kernel half does not look it up */
        RUNTIME_HAS_V8 = 1 << 4,
        RUNTIME_HAS_PHP = 1 << 5,
        RUNTIME_HAS_BEAM = 1 << 6,
        RUNTIME_HAS_RUBY = 1 << 7,
};

enum {
        RUNTIME_KIND_SHIFT = 56,
        RUNTIME_MAX_WORDS = 3,          /* words of one frame */
        RUNTIME_HOTSPOT_WORDS = 3,
        RUNTIME_PYTHON_WORDS = 2,
        RUNTIME_V8_WORDS = 3,
        RUNTIME_RUBY_WORDS = 3,
        HOTSPOT_N_HEAPS = 4,          /* code heaps; every release so far has one or three */
        HOTSPOT_MAX_HEADER = 512,       /* bytes from a heap block's begin to the end of the fields read */
        RUNTIME_MAX_PROCESSES = 512,    /* processes with a runtime that is walked */
};

/*
 * Bit in word 1 of a HOTSPOT_BLOB at the return barrier of virtual threads. Without it the frame stands for
 * frames in the heap that were not read; with it for Continuation.enterSpecial.
 */
#define RUNTIME_HOTSPOT_ENTRY (1ull << 63)

enum { RUNTIME_HOTSPOT_STAMP_SHIFT = 48 };      /* in words 1 and 2 of a HOTSPOT_INTERPRETED */

#define RUNTIME_ADDRESS_MASK ((1ull << RUNTIME_KIND_SHIFT) - 1)

/* Words of the frame that begins with @word; 0 = there is no such kind. */
static inline uint32_t runtime_frame_words(uint64_t word) {
        uint32_t kind = (uint32_t)(word >> RUNTIME_KIND_SHIFT);

        if (kind >= RUNTIME_N_KINDS)
                return 0;
        if (kind == RUNTIME_NATIVE)
                return 1;
        /* V8 and Ruby have as many as HotSpot, PHP and Erlang as Python */
        return kind == RUNTIME_PYTHON || kind == RUNTIME_PHP || kind == RUNTIME_BEAM ? RUNTIME_PYTHON_WORDS
                                                                                     : RUNTIME_HOTSPOT_WORDS;
}

/* Place from which the value of a field counts. */
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
        uint64_t generation;            /* generation of the process' row; another = void */
        uint64_t low, size;             /* code heaps, from the first one's begin to the last one's end */
        uint64_t interpreter, interpreter_size; /* templates and entries of the interpreter */
        uint64_t interpreter_blob;      /* CodeBlob that they lie in */
        uint64_t unloads;               /* the JVM's count of unloaded classes; 0 = it has none */
        uint64_t call_stub;             /* return address of Java code that native code has called */
        uint16_t n_heaps;
        uint16_t segment_shift;
        /* offsets in a JavaThread: bytes allocated before its TLAB, 0 = not known; the TLAB's begin */
        uint16_t allocated, tlab_start;
        struct hotspot_heap heaps[HOTSPOT_N_HEAPS];

        uint16_t block_header;          /* bytes of a heap block in front of its blob */
        uint16_t block_used;            /* offset of its flag `used` */
        uint16_t header_size;           /* bytes of block and blob that hold all fields below */
        uint16_t const_method;          /* offset of Method's pointer to its ConstMethod */
        uint16_t code_size;             /* offset of ConstMethod's size of bytecodes, two bytes */
        uint16_t code;                  /* offset of the bytecodes in a ConstMethod */
        int16_t bcp;                    /* offset of the saved bcp from an interpreted frame's rbp */
        uint16_t keeps_sender;          /* arm64: an entry of the interpreter has the caller's sp in x19 */
        struct hotspot_field name;      /* pointer to a text */
        struct hotspot_field code_begin;
        struct hotspot_field frame_complete;    /* first instruction behind the prologue; CODE */
        struct hotspot_field frame_size;        /* words */
        struct hotspot_field verified_entry;    /* from here on, of nmethods alone */
        struct hotspot_field deopt_handler;
        struct hotspot_field orig_pc;   /* offset from rsp of the pc that the deopt handler replaced */
        struct hotspot_field method;
        struct hotspot_field compile_id;
        uint16_t oop_shift;
        uint16_t tlab_top;
        /* frames of virtual threads in the heap: a reference is an address, base + (reference << shift) */
        uint64_t oop_base;
        uint16_t chunk_tail;            /* offset of Continuation's newest StackChunk; 0 = not known */
        uint16_t chunk_parent;          /* offsets in a StackChunk: of the next older one, */
        uint16_t chunk_sp, chunk_bottom;        /* words from its stack's begin, four bytes */
        uint16_t chunk_stack;           /* bytes of a StackChunk in front of its stack */
        uint16_t stack_base;            /* JavaThread: end of its stack, and its size in the word behind */
        /*
         * JavaThread: a word that is not zero while it carries a virtual thread; where `own` is not 0, the
         * handle of the thread that runs, and `own` that of itself. 0 = there are no virtual threads
         */
        uint16_t carried, own;
};

/* How a goroutine keeps its labels. */
enum go_labels {
        GO_LABELS_MAP = 1,              /* map[string]string, up to Go 1.23 */
        GO_LABELS_SLICE = 2,            /* slice of {key, value}, from Go 1.24 on */
};

enum {
        GO_MAX_STRING = 255,            /* bytes of a key, and of a value; longer ones are left out */
        GO_HEADER_SIZE = 8,             /* bytes in front of a sample's labels: the goroutine's id, u64 */
        GO_MAX_OFFSET = 504,            /* offset of a field of g, from its m on; multiples of 8 */
};

/*
 * A process that runs Go: value of the map `go_processes`, by tgid. Written by the daemon only, once a
 * program. What a sample then has as its attributes, by the form ABI_FORM_GO: the goroutine's id (u64), then
 * for each label u8 size of the key, u8 size of the value, key, value.
 */
struct go_process {
        uint64_t generation;            /* generation of the process' row; another = void */
        int64_t tls_offset;             /* offset of the pointer to g, from the thread pointer */
        uint16_t m, goid, labels;       /* offsets in g, in this order */
        uint16_t curg;                  /* offset in m */
        uint32_t form;                  /* enum go_labels */
        uint32_t in_register;           /* g is in the register that Go has for it: arm64 */
};

/* How Python's frames are chained, and how it is known which native frame of the evaluator runs them. */
enum python_chain {
        PYTHON_CHAIN_OBJECTS = 0,       /* 3.10: one evaluator each, whose CFrame is on the native stack */
        PYTHON_CHAIN_CFRAMES = 1,       /* 3.11: a frame says that an evaluator began with it */
        PYTHON_CHAIN_CFRAME = 2,        /* 3.12: shims on the native stack; a CFrame has the first frame */
        PYTHON_CHAIN_SHIMS = 3,         /* 3.13 and newer: shims on the native stack */
        PYTHON_CHAIN_EVALUATOR = 4,     /* 3.8, 3.9: one evaluator each, known by its code alone */
};

enum {
        PYTHON_MAX_THREAD = 256,        /* bytes of a thread state that are read */
        PYTHON_MAX_FRAME = 128,         /* bytes of a frame that are read */
        PYTHON_MAX_CODE = 256,          /* bytes of a code object that are read */
        PYTHON_OWNER_SHIM = 3,          /* least owner of a frame that is no function's: an evaluator's own */
        PYTHON_NO_POSITION = 0xffffffff,
        PYTHON_TASK_SIZE = 104,         /* bytes of the object that a task has as its name; a multiple of 8 */
        PYTHON_MAX_GENERATOR = 256,     /* bytes of a coroutine that are read */
        PYTHON_N_SPAN_TYPES = 2,        /* `_Span` of the SDK, `NonRecordingSpan` of the API */
        PYTHON_MAX_SPAN_WORDS = 16,     /* attributes of a span among which its context is */
        PYTHON_NO_ATTRIBUTE = 0xff,     /* in place of an index */
        PYTHON_NAME_SIZE = 184,         /* bytes of the str that a span has as its name; a multiple of 8 */
        PYTHON_NAME_FEW = 64,           /* bytes that are read at the end of a mapping */
};

/*
 * Tasks of asyncio, from 3.14 on: offsets of fields. Those of a coroutine count from its begin, its frame's
 * included, and lie in PYTHON_MAX_GENERATOR.
 */
struct python_tasks {
        uint64_t coroutine_type, generator_type;        /* PyCoro_Type, PyGen_Type */
        uint16_t running;               /* in a thread state: the task that it runs; 0 = not known */
        uint16_t name;                  /* in a task */
        uint16_t awaited_by;
        uint16_t is_set;                /* a byte: awaited_by is a set of several */
        uint16_t coroutine;
        uint16_t frame;                 /* in a coroutine; with code, position and stack it is the frame's */
        uint16_t state;                 /* a byte */
        uint16_t code, position;
        uint16_t stack;                 /* address behind the last word of its stack */
        uint8_t suspended;              /* values of state: it waits; it waits for what is on its stack */
        uint8_t suspended_for;
        uint8_t awaited;                /* bytes from what is on its stack to the stack's end */
        uint8_t reserved;
};

/* Where an object has its attributes. */
enum python_values {
        PYTHON_VALUES_DICT = 0,         /* up to 3.10: in a dict that the object points to */
        PYTHON_VALUES_POINTER = 1,      /* 3.11: two pointers in front of the object: values, dict */
        PYTHON_VALUES_TAGGED = 2,       /* 3.12: one pointer in front of it; + 1: values, else a dict */
        PYTHON_VALUES_INLINE = 3,       /* 3.13 and newer: in the object, unless a dict is in front of it */
};

struct python_span_type {
        uint64_t type;                  /* 0 = not met yet */
        uint64_t keys;                  /* the keys that its instances share; 0 = they share none */
        uint16_t values;                /* in an object: the pointer to its dict, or INLINE: its values */
        uint8_t context;                /* index of `_context` */
        uint8_t name, parent;           /* of `_name`, `_parent`; or PYTHON_NO_ATTRIBUTE */
        uint8_t reserved[3];
};

/* Outcomes of a look for a span in an SDK's memory: in the order of the counters SDK_SPANS_…. */
enum sdk_result {
        SDK_RESULT_READ = 0,
        SDK_RESULT_NONE = 1,
        SDK_RESULT_REMOTE = 2,          /* the span is another process's, so it counts as none */
        SDK_RESULT_UNLEARNED = 3,       /* Python: it is not known where spans are */
        SDK_RESULT_TYPE = 4,            /* unreadable: what was read is not what it should be */
        SDK_RESULT_FAULT = 5,           /* unreadable: memory that is not there */
        SDK_RESULT_FAR = 6,             /* unreadable: the way is too long */
        SDK_RESULT_INTERPRETERS = 7,    /* unreadable: the thread is in several of Python's */
        SDK_RESULT_N,
};

/* Place of a span among those of its process. */
enum python_span_place {
        PYTHON_PLACE_UNKNOWN = 0,
        PYTHON_PLACE_ENTRY = 1,         /* a span without a parent, or with one of another process */
        PYTHON_PLACE_CHILD = 2,
};

/* What a sample has as its attributes, by the form ABI_FORM_PYTHON. */
struct python_span_facts {
        uint64_t parent;                /* span id, of a CHILD; in the same trace */
        uint32_t place;                 /* enum python_span_place */
        uint32_t name_size;             /* bytes of `name` that were read; 0 = none */
        uint8_t name[PYTHON_NAME_SIZE]; /* begin of a str, as it lies in memory */
};

/*
 * Spans of OpenTelemetry's SDK (bpf/runtimes/python_spans.bpf.h). All addresses are of objects that stay for
 * as long as the program does.
 */
struct python_spans {
        uint64_t context_type;          /* PyContext_Type; 0 = nothing is read */
        uint64_t variable;              /* the ContextVar of the current Context; 0 = not known (yet) */
        uint64_t hamt_type;
        uint64_t bitmap_type, array_type, collision_type;       /* nodes of a HAMT */
        uint64_t mapping_type;          /* OpenTelemetry's Context, a dict */
        uint64_t dict_type;             /* PyDict_Type */
        uint64_t key;                   /* the str under which a Context has its span */
        uint64_t name_context;          /* the str `_context` */
        uint64_t span_context_type;     /* a tuple */
        uint64_t number_type;           /* PyLong_Type */
        uint64_t local;                 /* False: what is_remote is for a span of this process */
        uint64_t none;                  /* the object None */
        struct python_span_type types[PYTHON_N_SPAN_TYPES];
        uint32_t hash;                  /* hash of the variable, both halves as one */
        uint16_t thread_context;        /* in a thread state: the PyContext */
        uint8_t head;                   /* bytes of an object in front of its fields; the last 8: its type */
        uint8_t items;                  /* in a tuple */
        uint8_t values;                 /* enum python_values */
        uint8_t values_head;            /* bytes of values in front of the first one */
        uint8_t before;                 /* bytes in front of an object that lead to its attributes */
        uint8_t old_keys;               /* 1 = keys of a dict are as up to 3.10 */
        uint8_t old_numbers;            /* 1 = numbers are as up to 3.11 */
        uint8_t reserved[3];
};

/*
 * A process that runs CPython: value of the map `python_processes`, by tgid. Written by the daemon only.
 * Offsets of fields; the daemon has checked that they lie in the bytes that are read.
 */
struct python_process {
        uint64_t generation;            /* generation of the process' row; another = void */
        uint64_t interpreters;          /* address of the pointer to the first interpreter */
        uint64_t code_type;             /* PyCode_Type; 0 = not known */
        uint64_t evaluator, evaluator_size;     /* PYTHON_CHAIN_EVALUATOR alone */
        uint64_t root, root_size;       /* code of greenlet's library; 0 = it has none */
        /*
         * The lock of an interpreter (the GIL). Threads that wait for it wait for futexes in its bytes
         * lock_begin … lock_end; 0 … 0 = not known.
         */
        uint64_t lock;                  /* 3.8 to 3.11: its address; 0 = each interpreter points to its own */
        uint16_t lock_pointer;          /* in an interpreter */
        uint16_t lock_begin, lock_end;
        uint16_t reserved;
        /*
         * Bytes from pthread_self() to the thread pointer: 0 on x86-64; on arm64 the size of a struct of the
         * C library's, 0 until that has been read: then no thread is met.
         */
        uint64_t thread_below;
        uint32_t chain;                 /* enum python_chain */
        uint16_t next_interpreter;      /* in an interpreter */
        uint16_t threads;
        uint16_t thread_size;           /* bytes of a thread state that hold what is read */
        uint16_t next_thread, previous_thread;  /* in a thread state */
        uint16_t thread_id;             /* pthread_self() */
        uint16_t thread_frame;          /* the first frame, or the CFrame */
        /* in a CFrame: the first frame. OBJECTS: in a thread state, the pointer to the CFrame */
        uint16_t native_frame;
        uint16_t native_previous;
        uint16_t frame_size;            /* bytes of a frame that hold what is read */
        uint16_t code;                  /* in a frame */
        uint16_t previous;
        uint16_t position;
        uint16_t owner;                 /* SHIMS, CFRAME: one byte; CFRAMES: of is_entry */
        uint16_t code_size;             /* bytes of a code object that hold what is read */
        uint16_t type;                  /* in a code object */
        uint16_t name;
        uint16_t line_table;
        uint16_t first_line;            /* four bytes */
        /*
         * Free-threaded builds: each thread runs its own copy of the instructions, by its index; 0 = those of
         * the code object. They are in an array that the code object points to.
         */
        uint16_t copies;                /* in a code object: address of the array; 0 = there are none */
        uint16_t copy_index;            /* in a frame: four bytes */
        uint16_t instructions;          /* in a code object */
        struct python_tasks tasks;
        struct python_spans spans;
};

/* In a V8_COMPILED, beside the offset: the pc was interrupted, and is no return address. */
#define V8_PC_EXACT 0x80000000u

enum {
        V8_COOKIE_WORDS = 3,            /* words of a SharedFunctionInfo that are read, for v8_cookie() */
        V8_NO_OFFSET = 0x7fffffff,
        V8_COOKIE_SHIFT = 48,           /* in word 1 */
};

/*
 * Spans of OpenTelemetry's SDK (bpf/runtimes/v8_spans.bpf.h), where the file says how to find them. Types are
 * instance types.
 */
struct v8_spans {
        int64_t isolate;                /* offset of its pointer from the thread pointer; 0 = not known */
        uint16_t current;               /* in an isolate: the Map of what is current */
        uint16_t map_type;              /* a Map of JavaScript */
        uint16_t object_type;
        uint16_t symbol_type;
        uint16_t descriptors;           /* bytes of a DescriptorArray in front of the first one */
        uint16_t reserved[3];
};

/*
 * A process that runs V8: value of the map `v8_processes`, by tgid. Written by the daemon only, once a
 * program. Offsets come from the file's own v8dbg_* constants; the daemon has checked that slots of frames
 * are those that the walk knows (V8_SLOT_*).
 */
struct v8_process {
        uint64_t generation;            /* generation of the process' row; another = void */
        uint64_t text, text_size;       /* V8's own file: where it has no row, rbp is a frame pointer */
        uint64_t marks;                 /* bit: a kind of frame whose code is no function's, and has a name */
        uint16_t instance_type;         /* in a Map, two bytes */
        uint16_t shared;                /* in a JSFunction */
        uint16_t cookie;                /* in a SharedFunctionInfo: words for v8_cookie() */
        uint16_t has_unique_id;
        uint16_t info_type;             /* instance types: SharedFunctionInfo */
        uint16_t bytecode_type;
        uint16_t code_type;
        uint16_t code_header;           /* bytes in front of code made at run time */
        uint16_t code_start;            /* in a Code: address of its instructions; 0 = they are in the Code */
        uint16_t padding[3];
        struct v8_spans spans;
};

/*
 * Tells a function from another one that has its place after it, 48 bits. @words, of a SharedFunctionInfo:
 * length, parameters, token (16 bits each) and bytes that change; flags and literal id (32 bits each); unique
 * id. Numbers that a collector changes are left out, so that a function keeps its cookie.
 */
static inline uint64_t v8_cookie(const uint64_t *words, int has_unique_id) {
        uint64_t mixed = (words[0] << 16) * 0x9e3779b97f4a7c15ull;

        mixed ^= (words[1] >> 32) * 0xc2b2ae3d27d4eb4full;
        if (has_unique_id)
                mixed ^= (words[2] << 32) * 0x165667b19e3779f9ull >> 7;
        return (mixed ^ mixed >> 29) >> 16;
}

/* Places that are the same in PHP 7.3 to 8.5; what differs is in struct php_process. */
enum {
        PHP_FRAME_WORDS = 7,            /* words of a zend_execute_data that are read: */
        PHP_FRAME_OPLINE = 0,
        PHP_FRAME_FUNCTION = 3,
        PHP_FRAME_THIS = 4,
        PHP_FRAME_INFO = 5,             /* four bytes */
        PHP_FRAME_PREVIOUS = 6,
        PHP_INFO_TYPE = 0xff,           /* type of `This` */
        PHP_INFO_TOP = 1 << 17,         /* a run of the interpreter begins with this frame (ZEND_CALL_TOP) */
        PHP_TYPE_OBJECT = 8,
        PHP_FUNCTION_INTERNAL = 1,      /* first byte of a zend_function */
        PHP_FUNCTION_USER = 2,
        PHP_FUNCTION_EVAL = 4,
        PHP_FUNCTION_NAMED = 8,         /* with one of these, in a frame's word */
        PHP_FUNCTION_SHIFT = 48,
        PHP_FUNCTION_NAME = 8,
        PHP_FUNCTION_SCOPE = 16,        /* class of a method */
        PHP_CLASS_NAME = 8,
        PHP_OBJECT_CLASS = 16,
        PHP_STRING_HASH = 8,
        PHP_STRING_LENGTH = 16,
        PHP_STRING_TEXT = 24,
        PHP_FUNCTION_FRAMELESS = 16,    /* also: it was called without a frame */
        PHP_OP_SIZE = 32,
        PHP_OP_EXTRA = 20,              /* four bytes: number in the table of such functions; line; code */
        PHP_OP_FRAMELESS = 204,         /* ZEND_FRAMELESS_ICALL_0; those with 1 to 3 arguments follow */
        PHP_MAX_OFFSET = 504,           /* offset of a field in a function */
        PHP_MAX_FRAMELESS = 4096,       /* functions in that table */
        PHP_MAX_CALLS = 16,             /* places that call them */
};

/*
 * A process that runs PHP: value of the map `php_processes`, by tgid. Written by the daemon only, once a
 * program. Addresses of the process; offsets come from the file's own code.
 */
struct php_process {
        uint64_t generation;            /* generation of the process' row; another = void */
        uint64_t current;               /* the pointer to the innermost frame */
        uint64_t generators;            /* the pointer to the class of generators; 0 = none */
        uint64_t evaluator, evaluator_size;     /* execute_ex() */
        uint64_t cold, cold_size;       /* its rare parts, which the compiler has put elsewhere; 0 = none */
        uint16_t file;                  /* in a function of PHP: its file, and behind that its first line */
        uint16_t ops;                   /* its ops, and in front of that their number; 0 = not known */
        uint16_t reserved[2];
        uint64_t frameless;             /* the pointer to the table of functions without frames; 0 = none */
        int32_t calls[PHP_MAX_CALLS];   /* where they return to, from the evaluator on; 0 = no more */
};

/*
 * Tells a function from another one that has its place after it: @name, @class, @file are hashes of these
 * texts. Addresses would not: those of a request lie as in the one before it. So the same function of another
 * request has the same cookie.
 */
static inline uint32_t php_cookie(uint64_t name, uint64_t class, uint64_t file, uint32_t first_line) {
        uint64_t mixed = name * 0x9e3779b97f4a7c15ull ^ file * 0xc2b2ae3d27d4eb4full ^
                class * 0x165667b19e3779f9ull;

        mixed ^= mixed >> 29;
        return (uint32_t)(mixed >> 32) ^ (uint32_t)mixed ^ first_line * 0x85ebca6bu;
}

enum {
        BEAM_PC_EXACT = 1,              /* in word 1: the pc was interrupted, and is no return address */
        BEAM_COOKIE_BYTES = 16,         /* bytes of code in front of the pc, for beam_cookie() */
        BEAM_MAX_SCHEDULERS = 64,
        BEAM_TASK_SIZE = 16,            /* bytes of what tells a process of Erlang: its pid, behind a word: */
        BEAM_TASK_FUNCTION_SHIFT = 8,   /* indices of atoms: arity, function, module that it began with; */
        BEAM_TASK_MODULE_SHIFT = 32,
        BEAM_ATOM_BITS = 24,
        BEAM_DIRTY_BITS = 23,           /* low bits of an entry for a dirty scheduler; its address is above */
        BEAM_SCHEDULER_ALIGN = 64,
};

/* Bit of an atom: the process is registered as it. */
#define BEAM_TASK_REGISTERED (1ull << 63)

/*
 * A process that runs Erlang: value of the map `beam_processes`, by tgid. Written by the daemon only, once a
 * program. Addresses of the process; offsets are those of its release.
 */
struct beam_process {
        uint64_t generation;            /* generation of the process' row; another = void */
        uint64_t bottom;                /* the word that ends each process' stack: code of no module */
        uint64_t modules;               /* code of modules begins there; below it is the JIT's own */
        uint64_t active;                /* the index of the table of ranges in force, four bytes */
        uint64_t ranges;                /* three tables of 32 bytes: address, number of ranges */
        uint64_t schedulers;            /* the first one's struct */
        uint32_t scheduler_size;        /* bytes from one to the next */
        uint8_t current;                /* in it: the process that it runs */
        uint8_t stop;                   /* in a process of Erlang: its stack, while it does not run */
        uint16_t pc;                    /* place where that goes on */
        uint16_t end;                   /* the end of its stack */
        uint16_t n_schedulers;
        uint16_t registered;            /* in a process: what it is registered as; 0 = nothing */
        uint16_t initial;               /* module, function and arity that it began with */
        /*
         * Where each one's C code is called from. Behind these are dirty schedulers, by beam_dirty(), as many
         * as there is room for.
         */
        uint64_t registers[BEAM_MAX_SCHEDULERS];
};

/* Bits of a thread pointer that a dirty scheduler is looked for by. Its struct says whose it is. */
static inline uint64_t beam_dirty_bits(uint64_t pointer) {
        return (pointer >> 6 ^ pointer >> BEAM_DIRTY_BITS) & ((1u << BEAM_DIRTY_BITS) - 1);
}

/* The entry of a dirty scheduler whose struct is at @address and whose thread has @pointer. */
static inline uint64_t beam_dirty(uint64_t address, uint64_t pointer) {
        return address / BEAM_SCHEDULER_ALIGN << BEAM_DIRTY_BITS | beam_dirty_bits(pointer);
}

/* Tells code from other code that has its place after it: @low, @high are the bytes in front of its pc. */
static inline uint32_t beam_cookie(uint64_t low, uint64_t high) {
        uint64_t mixed = low * 0x9e3779b97f4a7c15ull ^ high * 0xc2b2ae3d27d4eb4full;

        mixed ^= mixed >> 29;
        return (uint32_t)(mixed >> 32) ^ (uint32_t)mixed;
}

/* Places that are the same in Ruby 2.7 to 4.0; what differs is in struct ruby_process. */
enum {
        RUBY_CONTEXT_SIZE = 176,        /* bytes of an execution context that are read: */
        RUBY_CONTEXT_STACK = 0,         /* begin of the stack of Ruby's values, then its size in words */
        RUBY_CONTEXT_SIZE_AT = 8,
        RUBY_CONTEXT_FRAME = 16,        /* the innermost frame */
        RUBY_FRAME_WORDS = 5,           /* words of a control frame that are read: */
        RUBY_FRAME_PC = 0,
        RUBY_FRAME_CODE = 2,            /* an iseq, or something else where Ruby's code has none */
        RUBY_FRAME_ENVIRONMENT = 4,     /* its flags; two words in front: method, outer one */
        RUBY_KIND_MASK = 0x7fff0001,    /* bits of the flags */
        RUBY_KIND_METHOD = 0x11110001,
        RUBY_KIND_BLOCK = 0x22220001,
        RUBY_KIND_CLASS = 0x33330001,
        RUBY_KIND_TOP = 0x44440001,
        RUBY_KIND_C = 0x55550001,
        RUBY_KIND_C_BLOCK = 0x66660001, /* has no name */
        RUBY_KIND_EVAL = 0x77770001,
        RUBY_KIND_RESCUE = 0x78880001,
        RUBY_KIND_DUMMY = 0x79990001,   /* outermost frame of each stack, if it has both flags below */
        RUBY_FLAG_LOCAL = 0x2,          /* the environment is a method's own, and no block's */
        RUBY_FLAG_RUN = 0x20,           /* a run of the interpreter begins with this frame (FINISH) */
        RUBY_FLAG_C = 0x80,             /* a frame of C (CFRAME) */
        RUBY_CODE_BODY = 16,            /* in an iseq: its body, which stays where it is */
        RUBY_BODY_WORDS = 15,           /* words of a body that are read: */
        RUBY_BODY_SIZE = 0,             /* type, then size in words, four bytes each */
        RUBY_BODY_CODE = 1,             /* address of the instructions */
        RUBY_BODY_PATH = 8,
        RUBY_BODY_BASE = 9,             /* the method's name; then what it says of itself, `block in total`: */
        RUBY_BODY_LABEL = 10,
        RUBY_BODY_FIRST_LINE = 11,      /* a number of Ruby's */
        RUBY_BODY_PLACE = 12,           /* node, lines and columns: 20 bytes */
        RUBY_ENTRY_WORDS = 5,           /* words of a method entry: */
        RUBY_ENTRY_FLAGS = 0,
        RUBY_ENTRY_OTHER = 1,           /* the entry, of one of type VARIABLES */
        RUBY_ENTRY_DEFINITION = 2,
        RUBY_ENTRY_OWNER = 4,           /* the class that has the method */
        RUBY_ENTRY_VARIABLES = 2,       /* types, in flags >> 12 & 15: an entry with variables of its own, */
        RUBY_ENTRY_TYPE = 6,            /* a method's */
        RUBY_CLASS_WORDS = 4,           /* words in a class: */
        RUBY_CLASS_OBJECT = 0,          /* the object that a singleton is of */
        RUBY_CLASS_PATH = 3,            /* the name with those of the modules around it */
        RUBY_CLASS_SHIFT = 48,
        RUBY_MAX_BLOCKS = 8,            /* blocks in one another, whose method is looked for */
        RUBY_DEFINITION_ID = 32,        /* in a definition: the ID of its first name */
        RUBY_MAX_MODULES = 4096,
        RUBY_MAX_STACK = 1 << 24,       /* words of a stack of values */
        RUBY_FRAME_METHOD = 1,          /* in a frame's word: code of Ruby */
        RUBY_FRAME_C = 2,
        RUBY_FRAME_COLLECTOR = 3,       /* the collector of garbage runs */
        RUBY_KIND_SHIFT = 48,
};

/*
 * A process that runs Ruby: value of the map `ruby_processes`, by tgid. Written by the daemon only, once a
 * program. Addresses of the process; offsets come from the file's own code, or are those of its release.
 */
struct ruby_process {
        uint64_t generation;            /* generation of the process' row; another = void */
        /* module and offset of each thread's pointer to its context; with `owner` the pointer of all */
        uint64_t variable;
        uint64_t machine;               /* the pointer to Ruby's virtual machine */
        uint64_t evaluator, evaluator_size;     /* vm_exec() */
        uint64_t core, core_size;       /* vm_exec_core(), which it calls; 0 = not known */
        uint16_t frame_size;            /* bytes of a control frame */
        uint16_t thread;                /* in a context: its thread */
        uint16_t stack_start, stack_size;       /* in a context: begin and size of the native stack */
        uint16_t space;                 /* in the machine: its heap */
        uint16_t space_flags;           /* in a heap: a byte, */
        uint16_t collects;              /* with this bit while the collector runs */
        uint16_t ractor;                /* in a thread */
        uint16_t running;               /* in a ractor: context of the thread that took the lock last */
        uint16_t compiled;              /* in a body: code that a JIT has made, or a small number */
        uint16_t owner;                 /* in a thread: pthread_self(); 0 = each thread has a variable */
        uint16_t class;                 /* in a class: RUBY_CLASS_WORDS; 0 = classes are not read */
};

/*
 * Tells code from other code that has its place after it. @body: its first words. Texts are among them by
 * their addresses: a collector that moves them makes another cookie.
 */
static inline uint32_t ruby_cookie(const uint64_t *body) {
        uint64_t mixed = body[RUBY_BODY_SIZE] * 0x9e3779b97f4a7c15ull ^
                body[RUBY_BODY_CODE] * 0xc2b2ae3d27d4eb4full ^
                body[RUBY_BODY_PATH] * 0x165667b19e3779f9ull ^
                body[RUBY_BODY_FIRST_LINE] * 0x27d4eb2f165667c5ull;

        mixed ^= mixed >> 29;
        mixed = (mixed ^ body[RUBY_BODY_LABEL]) * 0x9e3779b97f4a7c15ull ^
                body[RUBY_BODY_PLACE] * 0xc2b2ae3d27d4eb4full ^
                body[RUBY_BODY_PLACE + 1] * 0x165667b19e3779f9ull;
        mixed ^= mixed >> 29;
        return (uint32_t)(mixed >> 32) ^ (uint32_t)mixed;
}

/* Tells a class from another one that has its place after it, 16 bits. @words: in the class. */
static inline uint64_t ruby_class_cookie(const uint64_t *words) {
        uint64_t mixed = words[RUBY_CLASS_OBJECT] * 0x9e3779b97f4a7c15ull ^
                words[RUBY_CLASS_PATH] * 0xc2b2ae3d27d4eb4full;

        return (mixed ^ mixed << 16) >> RUBY_CLASS_SHIFT;
}

/*
 * Layout of V8's objects in a process of Node, as its process context tells it: offsets and sizes in bytes,
 * multiples of 8. All zeros = it tells none.
 */
struct node_layout {
        uint8_t table_at;               /* in a Map of JavaScript: its hash table */
        uint8_t header_size;            /* of the hash table, before its counts */
        uint8_t object_at;              /* in an object of the writer: its record, or the wrapper of it */
        uint8_t wrap_at;                /* in the wrapper: the record */
        uint8_t is_told;
        uint8_t is_wrapped;
        uint8_t reserved[2];
};

/* Tells a code object from another one that has its place after it: @name, @table are addresses in it. */
static inline uint32_t python_cookie(uint64_t name, uint64_t table, uint32_t first_line) {
        uint64_t mixed = (name >> 3) * 0x9e3779b97f4a7c15ull ^ (table >> 3) * 0xc2b2ae3d27d4eb4full;

        return (uint32_t)(mixed >> 32) ^ (uint32_t)mixed ^ first_line * 0x85ebca6bu;
}

#ifdef __bpf__
#define RUNTIME_ASSERT(x) _Static_assert(x, #x)
#else
#define RUNTIME_ASSERT(x) static_assert(x, #x)
#endif

RUNTIME_ASSERT(sizeof(struct node_layout) == 8);
RUNTIME_ASSERT(sizeof(struct hotspot_heap) == 24);
RUNTIME_ASSERT(sizeof(struct hotspot_process) == 64 + 8 + 96 + 16 + 40 + 24);
RUNTIME_ASSERT(sizeof(struct go_process) == 32);
RUNTIME_ASSERT(sizeof(struct python_tasks) == 16 + 24);
RUNTIME_ASSERT(sizeof(struct python_span_type) == 24);
RUNTIME_ASSERT(sizeof(struct v8_spans) == 24);
RUNTIME_ASSERT(sizeof(struct v8_process) == 32 + 24 + 24);
RUNTIME_ASSERT(sizeof(struct php_process) == 56 + 8 + 8 + 4 * PHP_MAX_CALLS);
RUNTIME_ASSERT(sizeof(struct ruby_process) == 56 + 24);
RUNTIME_ASSERT(sizeof(struct beam_process) == 48 + 16 + 8 * BEAM_MAX_SCHEDULERS);
RUNTIME_ASSERT(sizeof(struct python_spans) == 14 * 8 + PYTHON_N_SPAN_TYPES * 24 + 16);
RUNTIME_ASSERT(sizeof(struct python_span_facts) == 16 + PYTHON_NAME_SIZE);
RUNTIME_ASSERT(sizeof(struct python_process) == 64 + 16 + 40 + 8 + 40 + 176);
