/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Process Context
 *
 * What a process says of itself as a whole (spanprof/process.h): resource
 * attributes, and the names of its threads' attributes. The decoder takes bytes
 * and touches nothing; it never descends deeper than the message that is known,
 * so nesting costs nothing.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "border/abi.h"
#include "core/base/util/macro.h"
#include "spanprof/process.h"

enum {
        PROCESS_CONTEXT_MAX_ATTRIBUTES = 128,
        PROCESS_CONTEXT_MAX_KEYS = 256, /* an index of a key is one byte */
};

/* A piece of the payload; any bytes, not terminated. */
typedef struct ContextText {
        const char *data;
        size_t size;
} ContextText;

typedef enum ContextKind { CONTEXT_STRING, CONTEXT_BOOL, CONTEXT_INT, CONTEXT_DOUBLE } ContextKind;

typedef struct ContextAttribute {
        ContextText key;                /* not empty */
        ContextKind kind;
        ContextText string;
        int64_t integer;                /* CONTEXT_BOOL, CONTEXT_INT, the bits of CONTEXT_DOUBLE */
} ContextAttribute;

typedef struct ProcessContext {
        uint64_t address;
        uint64_t published_ns;          /* BOOTTIME */
        uint64_t serial;                /* never reused in this daemon */
        uint8_t *payload;               /* owned; all texts point into it */
        size_t payload_size;
        ContextAttribute attributes[PROCESS_CONTEXT_MAX_ATTRIBUTES];
        size_t n_attributes;
        ContextText keys[PROCESS_CONTEXT_MAX_KEYS];     /* by index; an empty one is no name */
        size_t n_keys;
        ContextText schema;             /* threadlocal.schema_version */
        struct node_layout node;        /* from other keys of threadlocal.*; zeros = none */
        size_t n_left_out;              /* attributes of other kinds, without a key, or over a cap */
} ProcessContext;

/* Fields of a header that no writer leaves so. */
enum {
        PROCESS_FAULT_SIGNATURE = 1 << 0,
        PROCESS_FAULT_VERSION = 1 << 1,
        PROCESS_FAULT_TIME = 1 << 2,    /* 0: an update goes on */
        PROCESS_FAULT_SIZE = 1 << 3,
};

/* Pure. Return: PROCESS_FAULT_* of all fields; 0 = the header is right. */
unsigned process_header_faults(const struct spanprof_process_header *header);

enum {
        _PROCESS_CONTEXT_E_SUCCESS,
        PROCESS_CONTEXT_E_NONE,         /* no signature, or the memory is not there (any more) */
        PROCESS_CONTEXT_E_VERSION,      /* a version that we do not know; *versionp is set */
        PROCESS_CONTEXT_E_BUSY,         /* being updated: try again */
        PROCESS_CONTEXT_E_MALFORMED,    /* a size or a payload that no writer makes */
        PROCESS_CONTEXT_E_GONE,         /* the process has exited */
};

/*
 * Pure. @payload: @size bytes. *contextp owns a copy of them. Return: 0, PROCESS_CONTEXT_E_MALFORMED,
 * -ENOMEM.
 */
int process_context_decode(const void *payload, size_t size, ProcessContext **contextp);
ProcessContext *process_context_free(ProcessContext *context);
DEFINE_CLEANUP(ProcessContext, process_context_free)

/*
 * Copies the header and payload at @address, of one state between two updates. @payload has
 * SPANPROF_PROCESS_MAX_PAYLOAD bytes. *header: as found, also on failure; zeros where there is none. Return:
 * 0, PROCESS_CONTEXT_E_*; _MALFORMED is a size, or an address of memory that is not there.
 */
int process_context_copy(pid_t pid, uint64_t address, struct spanprof_process_header *header,
                         uint8_t *payload);

/*
 * Reads the one at @address in a process. *versionp: as found, also on failure. Return: 0,
 * PROCESS_CONTEXT_E_*, -ENOMEM.
 */
int process_context_read(pid_t pid, uint64_t address, uint32_t *versionp, ProcessContext **contextp);

/*
 * Looks at the time only. Return: 0 = it is as @context was read; PROCESS_CONTEXT_E_BUSY (also: it was
 * updated), _NONE, _GONE.
 */
int process_context_check(pid_t pid, const ProcessContext *context);
