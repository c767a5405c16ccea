/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Frames of Code That Is Made at Run Time
 *
 * Whether such code keeps a frame pointer, told by the code that it begins with. The kernel half asks for the
 * frames in which the stack alone does not prove it (bpf/walk/rules.bpf.h).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/sampling/process/process.h"

enum {
        MADE_CODE_SIZE = 32,            /* bytes of a function that are looked at */
        MADE_END_BEFORE = 8,            /* bytes in front of a pc that are looked at */
        MADE_END_SIZE = 10,             /* the same with two of the instruction there */
        MADE_MAX_READS = 16,            /* reads of code for one stack */
        MADE_N_KNOWN = 256,             /* functions that are known; a power of two */
};

/*
 * Pure. How many of the first @size bytes of a function make its frame, so that rbp leads to it behind them;
 * 0 = they make none.
 */
size_t made_frame_prologue(const uint8_t *code, size_t size);

/* Pure. Whether the function goes on for another form of it, whose frame stays: its caller is not known. */
bool made_frame_goes_on(const uint8_t *code, size_t size);

/* Pure. Whether the frame is one of those that other code may go on for. */
bool made_frame_may_be_left(const uint8_t *code, size_t size);

/*
 * Pure. Whether the frame may be gone where the function returns: @code are the bytes in front of the
 * interrupted instruction, and its first ones.
 */
bool made_frame_may_be_gone(const uint8_t code[MADE_END_SIZE]);

/* A function that was looked at. */
typedef struct MadeFunction {
        uint64_t generation, serial, start;
        uint32_t prologue;
        uint16_t goes_on;               /* made_frame_goes_on() */
        uint16_t may_be_left;           /* made_frame_may_be_left() */
} MadeFunction;

typedef struct MadeFrames {
        MadeFunction known[MADE_N_KNOWN];
} MadeFrames;

/* Reads of the code of one stack; `{ .memory = -1 }` at its begin. */
typedef struct MadeReads {
        int memory;                     /* memory_open(), at the first one; -1 = not yet, or refused */
        unsigned n;
} MadeReads;

void made_reads_end(MadeReads *reads);

typedef struct MadeCode {
        const Process *process;
        MadeReads *reads;
        uint64_t serial;                /* another one whenever code may be another */
        uint64_t start, pc;
        bool is_leaf;                   /* the code was interrupted at the pc */
} MadeCode;

/*
 * Whether the frame pointer at the pc leads to the function's own frame. *is_unreadp: the code could not be
 * read at this moment, or other code of the stack has taken all of its reads.
 */
bool made_frames_are_own(MadeFrames *frames, const MadeCode *code, bool *is_unreadp);

/* Whether the function goes on for another form of it; *is_unreadp as above, and then it may. */
bool made_frames_go_on(MadeFrames *frames, const MadeCode *code, bool *is_unreadp);

/* Whether another form may go on for the function, which is .NET's; no, if it cannot be read. */
bool made_frames_may_be_left(MadeFrames *frames, const MadeCode *code);
