/* SPDX-License-Identifier: GPL-2.0-only */

/*
 * What the sampler is compared with: a program that does nothing, and the kernel's
 * own walk of the user stack. Neither selects, reads a context or tells anybody.
 */

#include "border/abi.h"

char LICENSE[] SEC("license") = "GPL";

struct stack {
        uint64_t frames[ABI_MAX_FRAMES];
};

struct {
        __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
        __uint(max_entries, 1);
        __type(key, uint32_t);
        __type(value, struct stack);
} stacks SEC(".maps");

SEC("perf_event")
int empty(void *context) {
        return 0;
}

SEC("perf_event")
int get_stack(void *context) {
        uint32_t zero = 0;
        struct stack *stack = bpf_map_lookup_elem(&stacks, &zero);

        if (stack)
                bpf_get_stack(context, stack, sizeof(*stack), BPF_F_USER_STACK);
        return 0;
}
