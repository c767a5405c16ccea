/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Byte 0: 0 = a sample, 2 = a copy of a stack, 3 = a wait, else a notice; the record follows. Recipe of the
 * corpus: make-sample-corpus.py.
 */

#include <stdlib.h>
#include <string.h>

#include "host/sampling/sample/decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t sum(const uint64_t *addresses, size_t n) {
        uint64_t total = 0;

        for (size_t i = 0; i < n; i++)
                total += addresses[i];
        return total;
}

static uint64_t read_sample(Sample sample) {
        if (sample.header->n_user > ABI_MAX_USER_WORDS || sample.header->n_kernel > ABI_MAX_KERNEL_FRAMES)
                abort();
        for (size_t i = 0; i < sample.header->n_user; i += runtime_frame_words(sample.user[i]))
                if (i + runtime_frame_words(sample.user[i]) > sample.header->n_user)
                        abort();
        return sum(sample.kernel, sample.header->n_kernel) + sum(sample.user, sample.header->n_user) +
               strlen(sample.header->comm) +
               (sample.fault ? sample.fault->address + strlen(sample.fault->file) : 0) +
               (sample.allocation ? sample.allocation->address + sample.allocation->size +
                        sample.allocation->has_free : 0);
}

static uint64_t read_all(const void *record, size_t size) {
        const struct abi_free *freed;
        Sample sample;

        if (!decode_free(record, size, &freed))
                return freed->generation + freed->address;
        return decode_sample(record, size, &sample) ? 0 : read_sample(sample);
}

static uint64_t read_wait(const void *record, size_t size) {
        const struct abi_wait *wait;
        Sample sample;

        if (decode_wait(record, size, &wait, &sample))
                return 0;
        if (sample.header->kind != ABI_KIND_OFF_CPU || (int64_t)(wait->blocked_ns + wait->runnable_ns) < 0)
                abort();
        return read_sample(sample) + wait->end_ns;
}

/* A copy of exactly its size, so that a sanitizer sees each byte read beyond it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const struct abi_notice *notice;
        volatile uint64_t used = 0;
        void *record;

        if (!size || !(record = malloc(size - 1 ? size - 1 : 1)))
                return 0;
        memcpy(record, data + 1, size - 1);
        if (data[0] == 4) {
                const struct abi_start *start;

                if (!decode_start(record, size - 1, &start))
                        for (uint32_t i = 0; i < start->n_arguments + start->n_environment; i++)
                                used += start->bytes[i];
        } else if (data[0] == 2) {
                const struct abi_stack *stack;

                if (!decode_stack(record, size - 1, &stack))
                        used += stack->n_bytes ? stack->bytes[stack->n_bytes - 1] : stack->sp;
        } else if (data[0] == 3)
                used = read_wait(record, size - 1);
        else if (!data[0])
                used = read_all(record, size - 1);
        else if (!decode_notice(record, size - 1, &notice))
                used = strlen(notice->comm) + notice->tgid;
        (void)used;
        free(record);
        return 0;
}
