/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * Probes of Allocations
 *
 * Where arguments of a probe lie, as its note says and the daemon has parsed it
 * (host/sampling/process/probe-notes.h): what the program at the probe needs to read them. The key of a probe
 * is what it was attached with.
 */

#include "border/abi.h"

enum {
        ALLOC_MAX_PROBES = 128,         /* attached at once, of all files */
        ALLOC_MAX_FILE_PROBES = 16,     /* probes of one file */
        ALLOC_N_ARGUMENTS = 3,          /* pointer, size, weight */
        ALLOC_N_REGISTERS = 64,         /* words of the kernel's pt_regs, and room for a mask */
};

/* Frees of a process that were lost. Key of its map: the process. */
struct alloc_losses {
        uint64_t start_time_ns;         /* start of the thread group leader, exact */
        uint64_t n;
};

/* Bytes that one allocation can have or stand for: 1 PiB, 1 TiB. Sums of fewer cannot run over. */
#define ALLOC_MAX_SIZE (1ull << 50)
#define ALLOC_MAX_WEIGHT (1ull << 40)

enum alloc_place {
        ALLOC_CONSTANT = 0,             /* value */
        ALLOC_REGISTER = 1,             /* register */
        ALLOC_MEMORY = 2,               /* at register + value */
};

struct alloc_argument {
        int64_t value;
        uint8_t place;                  /* enum alloc_place */
        uint8_t index;                  /* word of pt_regs */
        uint8_t size;                   /* 1, 2, 4, 8 */
        uint8_t is_signed;
        uint8_t reserved[4];
};

struct alloc_probe {
        struct alloc_argument arguments[ALLOC_N_ARGUMENTS];     /* a free has the pointer alone */
        uint64_t has_frees;             /* 1 = of an allocation: all that its file frees is told */
};

ABI_ASSERT(sizeof(struct alloc_argument) == 16);
ABI_ASSERT(sizeof(struct alloc_probe) == 56);
ABI_ASSERT(sizeof(struct alloc_losses) == 16);
