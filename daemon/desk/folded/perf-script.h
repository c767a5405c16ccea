/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Text of perf
 *
 * What `perf script` prints → samples of one profile for each event. Text in, rows out. Known are the default
 * fields, with or without -g, and any of comm, pid, tid, cpu, time, period, event, ip, sym, symoff, dso and
 * srcline. perf's clock is not that of a calendar, so the samples have no time; and a mapping without a build
 * id would name another file of that path, so files are left out.
 *
 *     shop 812/815 [001] 54552.427157:   250000 cpu-clock:     comm, pid/tid or tid, CPU, time, period, event
 *             15c1a hash+0x58a (/usr/bin/shop)                 innermost first: address, name, file
 *             15b00 lookup (inlined)
 *       table.c:74                                             the line of the frame above
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/profile/window.h"

enum {
        _PERF_SCRIPT_E_SUCCESS,
        PERF_SCRIPT_E_MALFORMED,        /* neither a sample, a frame nor a line: nothing was added */
        PERF_SCRIPT_E_FULL,             /* a cap of the window is reached */
};

enum { PERF_SCRIPT_MAX_FRAMES = 4096 };         /* of a stack; the innermost are kept */

/* Zero but for the first two, at first. */
typedef struct PerfScript {
        Window *window;
        uint64_t key;                   /* tells the resources of this input from those of others */
        bool is_open;                   /* a sample has begun: its profile, attributes, value, frames */
        uint32_t profile, attributes;
        int64_t value;
        FrameWord frames[PERF_SCRIPT_MAX_FRAMES];
        size_t n_frames;
        bool is_cut;                    /* of this sample */
        bool is_held;                   /* the last frame, whose line may follow: not among them yet */
        WindowFrame held;
        WindowFunction held_function;
        uint64_t n_samples, n_cut, n_over;      /* stacks that are cut, periods above 63 bits */
} PerfScript;

/* Whether a file begins like that: comments and empty lines, then a sample and a frame. */
bool perf_script_recognize(const uint8_t *data, size_t size);

/* Adds a line without its newline. Return: 0, PERF_SCRIPT_E_*, -ENOMEM. */
int perf_script_add_line(PerfScript *script, const char *line, size_t size);

/* Adds the last sample. Return: the same. */
int perf_script_end(PerfScript *script);
