/* SPDX-License-Identifier: GPL-2.0-only */

/*
 * The sampler, with a clock at each mark (parts.h). A mark takes some 25 ns itself, and the words that it
 * writes are in two or three lines of memory of its own.
 */

#include "parts.h"

#define PART(name) part_end(PART_##name)
static void part_end(unsigned part);

#include "../../../bpf/sampler.bpf.c"

struct part_state parts_now[PARTS_MAX_CPUS] SEC(".data.parts");
struct part_log parts_logs[PARTS_MAX_SAMPLES] SEC(".data.parts");
uint64_t parts_n SEC(".data.parts") = 0;

static __always_inline void part_end(unsigned part) {
        struct part_state *state = &parts_now[bpf_get_smp_processor_id() & (PARTS_MAX_CPUS - 1)];
        uint64_t now = bpf_ktime_get_ns(), ns = now - state->last_ns;

        if (part == PART_BEGIN) {
                __builtin_memset(&state->log, 0, sizeof(state->log));
                ns = 0;
                now = bpf_ktime_get_ns();
        }
        if (!state->log.n[part]++)
                state->log.first_ns[part] = (uint32_t)ns;
        state->log.ns[part] += (uint32_t)ns;
        if (part == PART_RECORD)
                parts_logs[__sync_fetch_and_add(&parts_n, 1) & (PARTS_MAX_SAMPLES - 1)] = state->log;
        state->last_ns = now;
}
