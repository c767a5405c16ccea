/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Goroutines That Do Not Run
 *
 * Reads runtime.allgs of a program of Go from outside: where each goroutine waits, on what, the top of its
 * stack, and its labels. Nothing is stopped. Memory is read by a callback, so tests and the fuzzer give any.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "border/abi.h"
#include "border/runtime_abi.h"
#include "border/unwind_abi.h"
#include "host/runtime/go/go-idle.h"
#include "host/runtime/go/go-layout.h"

enum {
        GOROUTINES_MAX = 1 << 24,       /* in a list; a longer one is none */
        GOROUTINE_MAX_STACK = 64 << 10, /* bytes that are copied; one that is longer is cut */
        GOROUTINE_MAX_TRIES = 3,        /* for one that moves meanwhile */
        /* bytes below sp that belong to the frame: arm64 saves the caller's x29 there (go-arch-arm64.c) */
        GOROUTINE_BELOW_SP = UNWIND_ARM64 ? 8 : 0,
};

/* Memory of the program. */
typedef struct GoMemory {
        int (*read)(void *userdata, uint64_t address, void *to, uint32_t size); /* 0 = all of it was read */
        void *userdata;
} GoMemory;

/* Layout and places of a program; the same for all looks. */
typedef struct GoGoroutines {
        struct go_process process;      /* the offsets that labels need, too */
        GoGoroutineLayout layout;
        uint32_t minor;
        uint64_t list, length;          /* addresses of runtime.allgptr and runtime.allglen; 0 = unknown */
        GoIdle idle;                    /* ELF addresses … */
        uint64_t bias;                  /* … and what to add to them */
} GoGoroutines;

typedef enum GoroutineState {
        GOROUTINE_WAITING,
        GOROUTINE_RUNNABLE,             /* waits for a CPU alone */
        GOROUTINE_SYSCALL,              /* in a system call, or in C */
} GoroutineState;

typedef struct Goroutine {
        uint64_t id;
        uint64_t pc, sp, bp;            /* pc: as in the leaf of a sample */
        GoroutineState state;
        uint8_t reason;                 /* go_wait_reason(), if it waits */
        bool is_cut;                    /* the stack is longer than what was copied */
        uint32_t stack_size;            /* bytes copied, from sp - GOROUTINE_BELOW_SP on */
        uint16_t labels_size;           /* as samples have them, with the id: at least GO_HEADER_SIZE */
        uint8_t labels[ABI_MAX_ATTRIBUTES_SIZE];
} Goroutine;

enum {
        _GOROUTINE_E_SUCCESS,
        GOROUTINE_E_FREE,               /* the place is of none now */
        GOROUTINE_E_RUNNING,            /* the goroutine has a CPU: its stack cannot be read */
        GOROUTINE_E_MOVED,              /* the goroutine ran, or its stack was moved, during the read */
        GOROUTINE_E_UNREADABLE,         /* the place holds no goroutine, or its memory is not there */
        GOROUTINE_E_ROOM,               /* the stack does not fit into the rest of the room */
};

/* How many places the list has, and where it lies. Return: 0, GOROUTINE_E_UNREADABLE. */
int goroutines_list(const GoGoroutines *where, const GoMemory *memory, uint64_t *listp, uint64_t *np);

/*
 * Reads the goroutine at @index of the list at @list. Its stack from sp - GOROUTINE_BELOW_SP on goes to
 * @stack, which has @room bytes. What was read is of one moment: the goroutine has not run meanwhile.
 * Return: 0, GOROUTINE_E_*.
 */
int goroutine_read(const GoGoroutines *where, const GoMemory *memory, uint64_t list, uint64_t index,
                   uint8_t *stack, uint32_t room, Goroutine *goroutine);

/*
 * Words of Go's own stack traces for a reason to wait. Pure. @number: g.waitreason of Go 1.@minor. Return: a
 * constant; "" = none, or a number that is not known.
 */
const char *go_wait_reason(uint32_t minor, uint8_t number);
