/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * Parts of a Sample
 *
 * The sampler marks where a part of a sample ends (PART in bpf/). parts.bpf.c is that sampler with a clock
 * at each mark, and logs each sample; unwind-cost, built with PARTS, prints the log's medians.
 */

#ifdef __bpf__
#include "border/kernel.bpf.h"
#else
#include <stdint.h>
#endif

/* In the order in which a usual sample ends them. */
#define PARTS_EACH(_) \
        _(BEGIN, "counters of this CPU") \
        _(TASK, "is it a thread of a program") \
        _(IDENTITY, "ids and start") \
        _(PROCESS, "row of the process; has its memory changed") \
        _(HEAD, "scratch, head of the record") \
        _(CONTEXT, "span") \
        _(KERNEL, "frames in the kernel") \
        _(NODE, "node of the address space") \
        _(REGISTERS, "registers") \
        _(WALK_BEGIN, "cache of rules, begin of the walk") \
        _(FRAMES, "frames whose rule is in the cache") \
        _(PLACE, "misses of the cache: mapping") \
        _(RULE, "misses of the cache: directory, record, rule") \
        _(STACK, "copies of the stack") \
        _(AFTER_WALK, "after the walk") \
        _(RECORD, "record into the ring")

enum part {
#define PARTS_ENUM(_name, _text) PART_##_name,
        PARTS_EACH(PARTS_ENUM)
#undef PARTS_ENUM
                PART_N,
};

enum {
        PARTS_MAX_SAMPLES = 1 << 13,
        PARTS_MAX_CPUS = 256,
};

/* Of one sample. A part that ends several times is the sum of its times. */
struct part_log {
        uint32_t ns[PART_N];
        uint32_t first_ns[PART_N];      /* of the first time */
        uint32_t n[PART_N];
};

struct part_state {
        uint64_t last_ns;
        struct part_log log;
};
