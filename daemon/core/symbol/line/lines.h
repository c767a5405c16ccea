/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Source Lines
 *
 * Asks a process of its own for the lines and inlined functions at addresses of an object. DWARF is a program
 * in an untrusted file: it may be damaged, need any amount of memory, or never end. The process reads it with
 * libdw under limits of memory and CPU time, without privileges, and is killed at a deadline. Its answers
 * until then count.
 *
 *     this process                                      the other: our own program, as `spanprof-lines`
 *     descriptor 0: number of addresses, addresses  →   sorts them, unit by unit
 *     descriptor 3: the file with .debug_info       →   ranges of units, functions, line tables
 *                                                   ←   descriptor 1: LinesAnswer, frames, texts; per address
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/util/macro.h"

enum {
        LINES_MAX_ADDRESSES = 4 << 20,  /* addresses of one request */
        /* functions inlined into each other; of more, those in the middle are left out */
        LINES_MAX_FRAMES = 64,
        LINES_MAX_TEXT = 4096,          /* bytes of one name or path; longer ones are cut */
        LINES_DEFAULT_TIMEOUT_MS = 30000,
        LINES_MAX_DEPTH = 256,          /* depth of the tree of functions and blocks */
};

#define LINES_WORKER_NAME "spanprof-lines"      /* argv[0] that makes our program the other process */

typedef struct LinesRequest {
        uint32_t magic, n_addresses;    /* uint64_t each follows */
} LinesRequest;

#define LINES_MAGIC 0x4e494c53u

/* How the other process ends, beside 0 and what means LINES_E_FAILED. */
enum {
        LINES_EXIT_PARTS = 4,
        LINES_EXIT_ZSTD = 5,
};

/* Answer for one address. @index: of the address in the request. */
typedef struct LinesAnswer {
        uint32_t index, n_frames;
} LinesAnswer;

/* Innermost first; n_name and n_file bytes follow, without NUL. */
typedef struct LinesAnswerFrame {
        uint32_t line, start_line;
        uint16_t n_name, n_file;
} LinesAnswerFrame;

_Static_assert(sizeof(LinesAnswer) == 8 && sizeof(LinesAnswerFrame) == 12, "no padding");

typedef struct LineFrame {
        const char *name;               /* linkage name, else the one in the source; not terminated */
        const char *file;
        size_t n_name, n_file;          /* 0 = not known */
        uint32_t line;                  /* 0 = not known */
        uint32_t start_line;            /* first line of the function; 0 = not known */
} LineFrame;

/*
 * Takes the frames at one address, the innermost first. Texts live for the call. Non-zero ends the reading.
 */
typedef int (*LinesSink)(void *userdata, uint32_t index, const LineFrame *frames, size_t n);

enum {
        _LINES_E_SUCCESS,
        /* the worker was killed at the deadline, or at its limit of CPU time */
        LINES_E_TIMEOUT,
        /* the worker could not be started, died, or its answer makes no sense */
        LINES_E_FAILED,
        /* all answers came, but functions are in other files (split units, dwz) that it could not open */
        LINES_E_PARTS,
        LINES_E_ZSTD,                   /* DWARF is compressed in a way that libdw does not know */
};

typedef struct LinesOptions {
        const char *program;            /* program that is started; NULL = /proc/self/exe */
        uint32_t timeout_ms;            /* 0 = 30,000 */
        /* seconds of CPU time; 0 = as many as the timeout has, and one more */
        uint32_t cpu_s;
        uint64_t max_memory;            /* bytes of data; 0 = 1 GiB */
} LinesOptions;

/*
 * @fd: the file with .debug_info, which stays the caller's. Each address is answered at most once, those of
 * which nothing is known not at all. Return: 0, LINES_E_* (@sink was called for what came before), the sink's
 * code, -ENOMEM.
 */
int lines_read(int fd, const uint64_t *addresses, uint32_t n, const LinesOptions *options, LinesSink sink,
               void *userdata);

/*
 * Pure: takes whole answers from the front of @data, and *usedp tells how far. @seen: one byte for each of @n
 * addresses, zero at first. Return: 0, LINES_E_FAILED, the sink's code.
 */
int lines_parse(const uint8_t *data, size_t size, uint32_t n, uint8_t *seen, LinesSink sink, void *userdata,
                size_t *usedp);

/* How lines_answer() speaks. */
typedef struct LinesAnswering {
        /* Return: negative = nobody listens any more, which ends the process */
        int (*send)(void *userdata, const void *data, size_t size);
        void *userdata;
        /* the readable form of a name, without a NUL; may be NULL. Return: its bytes; 0 = none */
        size_t (*demangle)(void *userdata, const char *name, char *to, size_t room);
} LinesAnswering;

/*
 * The same answers, from a worker without rights (core/base/sandbox/). The last is LinesAnswer with the index
 * @n and no frames. A name may be two: a NUL and its readable form stand behind it.
 */
void lines_answer(int fd, uint64_t size, const uint64_t *addresses, uint32_t n, const LinesAnswering *to);

/* The main function of the other process. Return: its exit status. */
int lines_worker(void);
