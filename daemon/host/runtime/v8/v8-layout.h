/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Layout of V8
 *
 * Where V8 keeps what a stack walk and names need. A file with V8 in it (node, libnode.so) exports that as
 * v8dbg_* constants, for debuggers. What it does not export is derived from what it does, and every object
 * that is read by it says whether it is one of the expected type.
 */

#include <stdbool.h>
#include <stdint.h>

#include "border/runtime_abi.h"

enum {
        V8_MAX_REASON = 96,
        V8_MAX_SHARED = 56,             /* a JSFunction has eight words at most, */
        V8_MAX_COOKIE = 56,             /* and a SharedFunctionInfo has its numbers this early */
};

/* Offsets count from an object's begin, without the tag of a pointer; types are instance types. */
typedef enum V8Field {
        V8_TAGGED_SIZE,                 /* bytes of a pointer in the heap; 4 = compressed */
        V8_SLOT_OF_CONTEXT,
        V8_SLOT_OF_FUNCTION,
        V8_SLOT_OF_BYTECODE,
        V8_SLOT_OF_OFFSET,              /* from rbp */
        V8_INSTANCE_TYPE,               /* in a Map */
        V8_SHARED,                      /* in a JSFunction */
        V8_INFO_NAME,
        V8_INFO_SCRIPT,
        V8_INFO_LENGTH,
        V8_INFO_TOKEN,                  /* in a SharedFunctionInfo */
        V8_SCRIPT_SOURCE,
        V8_SCRIPT_NAME,
        V8_SCRIPT_LINE_ENDS,
        V8_BYTECODE_DATA,               /* in a BytecodeArray: behind its header */
        V8_ARRAY_LENGTH,
        V8_ARRAY_DATA,
        V8_STRING_LENGTH,
        V8_STRING_ONE_BYTE,
        V8_STRING_TWO_BYTE,
        V8_CONS_FIRST,
        V8_CONS_SECOND,
        V8_THIN_ACTUAL,
        V8_SLICED_PARENT,
        V8_SLICED_OFFSET,
        V8_EXTERNAL_RESOURCE,
        V8_FIRST_NO_STRING,             /* the first type that is no String's */
        V8_SCOPE_FIRST,                 /* in a ScopeInfo: index of the first variable part */
        V8_SCOPE_N_LOCALS,
        V8_TYPE_INFO,
        V8_TYPE_SCRIPT,
        V8_TYPE_SCOPE,
        V8_TYPE_BYTECODE,
        V8_TYPE_CODE,
        V8_TYPE_BYTES,
        V8_TYPE_ARRAY,
        V8_KIND_MASK,
        V8_KIND_INTERPRETED,
        V8_KIND_BASELINE,               /* in a Code's flags */
        V8_LAST_NEEDED = V8_KIND_BASELINE,
        /* 0 = the release has no such thing */
        V8_TYPE_TRUSTED_BYTES,
        V8_TYPE_TRUSTED_ARRAY,
        V8_TYPE_PROTECTED_ARRAY,
        V8_TYPE_WEAK_ARRAY,
        V8_TYPE_TRUSTED_WEAK_ARRAY,
        V8_TYPE_PROTECTED_WEAK_ARRAY,
        V8_TYPE_STREAM,                 /* an InstructionStream */
        V8_TYPE_WRAPPER,
        V8_WRAPPER_INFO,                /* a SharedFunctionInfoWrapper */
        V8_CODE_STREAM,
        V8_CODE_START,
        V8_CODE_BEGIN,
        V8_CODE_N_BYTES,
        V8_CODE_FLAGS,                  /* in a Code */
        V8_DEOPT_LITERALS,
        V8_DEOPT_POSITIONS,
        V8_DEOPT_INFO,
        V8_DEOPT_WRAPPED,
        V8_DEOPT_ID,
        V8_FRAME_REGEXP,
        V8_FRAME_WASM,
        V8_FRAME_TO_WASM,
        V8_FRAME_FROM_WASM,             /* kinds of frames */
        V8_N_CONSTANTS,
        /* derived */
        V8_CODE_HEADER = V8_N_CONSTANTS, /* bytes in front of code made at run time */
        V8_CODE_DEOPT,
        V8_CODE_POSITIONS,              /* in a Code: DeoptimizationData, source positions */
        V8_HAS_UNIQUE_ID,
        V8_N_FIELDS,
} V8Field;

typedef struct V8Layout {
        uint32_t version[3];            /* 12, 4, 254 */
        int32_t values[V8_N_FIELDS];
} V8Layout;

/* Layout and place of V8 in a file. */
typedef struct V8Opened {
        V8Layout layout;
        uint64_t text, text_size;       /* ELF address of its code */
        struct v8_spans spans;          /* isolate 0 = spans cannot be found */
        char reason[V8_MAX_REASON];     /* `V8 12.4.254`; if the result is not 0, what is not known */
} V8Opened;

enum {
        _V8_OPEN_E_SUCCESS,
        V8_OPEN_E_UNKNOWN,
};

/* Whether the ELF file exports V8's constants. @fd: borrowed, or -1: bytes are at @data. */
bool v8_recognises(int fd, const void *data, uint64_t size);

/*
 * @fd: as in v8_recognises(). Return: 0 with *opened, V8_OPEN_E_UNKNOWN with opened->reason. No byte of
 * *opened is left as it was.
 */
int v8_open(int fd, const void *data, uint64_t size, V8Opened *opened);

/* Pure. Whether the kernel half may go by what another process says of spans. */
bool v8_spans_are_sound(const struct v8_spans *spans);

/*
 * Pure. Checks @layout, whose constants were read, and derives the rest. @missing: name of the first constant
 * that is needed and not there; NULL = none. Return: 0, V8_OPEN_E_UNKNOWN; in any case with @reason.
 */
int v8_layout_finish(V8Layout *layout, const char *missing, char reason[V8_MAX_REASON]);

/* Pure. Whether a layout that another process has made may be so: no sum of its offsets overflows. */
bool v8_layout_is_sound(const V8Layout *layout);

/* Fills what the kernel half needs of it. Return: whether fields lie where such objects can have them. */
bool v8_layout_entry(const V8Layout *layout, struct v8_process *entry);
