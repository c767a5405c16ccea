/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Go's Frames on a Processor
 *
 * What go-rows.c needs to know of a processor: the rule for a frame of a given size, and a few instructions.
 * One file per architecture, as arch.h.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "border/unwind_abi.h"

typedef enum GoArchFrame {
        GO_ARCH_ENTRY,                  /* the caller's frame pointer is in its register */
        GO_ARCH_SAVED,                  /* the frame pointer lies below the return address */
        GO_ARCH_LOST,                   /* the frame pointer cannot be found */
        GO_ARCH_SWITCH,                 /* as SAVED, but rsp is that of another stack: by the frame pointer */
} GoArchFrame;

enum {
        GO_ARCH_WORD = 8,
        GO_ARCH_MAX_SIZE = 1 << 30,     /* bytes of a frame; Go's own stacks end at 1 GB */
        GO_ARCH_PROLOGUE = 4,           /* bytes from `push` to the end of the move that follows it */
        GO_ARCH_CODE = 9,               /* bytes that go_arch_is_*() look at */
};

/* @size: of the frame by Go's table, on x86-64 without the return address; a GO_ARCH_MAX_SIZE at most. */
uint64_t go_arch_rule(GoArchFrame frame, int32_t size);

/*
 * The same where a signal handler has put the call in: the caller was interrupted, and has made no call.
 * @rule: of go_arch_rule().
 */
uint64_t go_arch_injected(uint64_t rule);

/* Rules that are the same on each processor. Here the stack ends: there is no caller. */
static inline uint64_t go_arch_end(void) {
        return unwind_rule(UNWIND_CFA_END, 0, 0, 0, 0);
}

/* The goroutine goes on where it has stopped itself. */
static inline uint64_t go_arch_goroutine(void) {
        return unwind_rule(UNWIND_CFA_GOROUTINE, 0, 0, 0, 0);
}

/* A rule for code without a known frame. */
static inline uint64_t go_arch_bad(void) {
        return unwind_rule(UNWIND_CFA_BAD, 0, 0, 0, 0);
}

/* The kernel's signal frame. */
static inline uint64_t go_arch_signal(void) {
        return unwind_rule(UNWIND_CFA_SIGNAL, 0, 0, 0, 0);
}

/* @code: GO_ARCH_CODE bytes. Whether it begins by saving the frame pointer and setting it. */
bool go_arch_is_prologue(const uint8_t *code);

/* @code: GO_ARCH_CODE bytes. Whether it saves the frame pointer in a frame of @size that was just made. */
bool go_arch_is_store(const uint8_t *code, int32_t size);

/* Bytes of that instruction. */
uint32_t go_arch_store_size(int32_t size);

/* @code: GO_ARCH_CODE bytes. Whether it is what a signal handler returns to. */
bool go_arch_is_signal_return(const uint8_t *code);

/* Whether a linker puts @byte between functions of Go. */
bool go_arch_is_padding(uint8_t byte);
