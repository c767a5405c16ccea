/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Go Layout
 *
 * Where runtime.g and runtime.m keep what we read, by the version of Go; linux/amd64.
 */

#include <stdbool.h>
#include <stdint.h>

#include "border/runtime_abi.h"

enum {
        GO_FIRST_MINOR = 18,
        GO_LAST_MINOR = 27,
};

enum {
        GO_STACK_LOW = 0,               /* in g, of each release: bounds of its stack, … */
        GO_STACK_HIGH = 8,
        GO_SP = 56,                     /* … and where it goes on: g.sched */
        GO_PC = 64,
};

/* Offsets in g that differ. */
typedef struct GoGoroutineLayout {
        uint16_t bp;                    /* g.sched.bp */
        uint16_t syscall_sp;            /* the pc of the call is in the next word */
        uint16_t syscall_bp;            /* 0 = there is none */
        uint16_t status;                /* four bytes */
        uint16_t reason;                /* a byte */
        uint16_t start_pc;
} GoGoroutineLayout;

/* Pure. Fills offsets and form of @entry. Return: whether the version is known. */
bool go_layout(uint32_t minor, struct go_process *entry);

/* Pure. Return: whether the version is known. */
bool go_goroutine_layout(uint32_t minor, GoGoroutineLayout *layout);
