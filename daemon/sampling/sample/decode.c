/* SPDX-License-Identifier: Apache-2.0 */
#include "sampling/sample/decode.h"

#include <stdbool.h>
#include <string.h>

/* The kernel terminates names; a record whose name has no end would run readers over it. */
static bool comm_is_terminated(const char *comm) {
        return memchr(comm, 0, ABI_COMM_SIZE);
}

static bool header_is_sound(const struct abi_sample *header) {
        return header->n_kernel <= ABI_MAX_KERNEL_FRAMES && header->n_user <= ABI_MAX_USER_WORDS &&
               header->kind >= ABI_KIND_CPU && header->kind <= ABI_KIND_ALLOC &&
               header->stack_end < ABI_STACK_END_N && header->context < ABI_CONTEXT_N &&
               header->form < ABI_FORM_N && header->attributes_size <= ABI_MAX_ATTRIBUTES_SIZE &&
               header->is_copied <= 1 &&
               comm_is_terminated(header->comm);
}

/* No frame is cut, none is of an unknown kind, and there are no more than the walk can have written. */
static bool user_part_is_sound(const uint64_t *words, size_t n) {
        size_t n_frames = 0, n_words;

        for (size_t i = 0; i < n; i += n_words, n_frames++) {
                n_words = runtime_frame_words(words[i]);
                if (!n_words || n_words > n - i)
                        return false;
        }
        return n_frames <= ABI_MAX_FRAMES;
}

int decode_sample(const void *data, size_t size, Sample *samplep) {
        const struct abi_sample *header = data;
        size_t n_words;

        if (size < sizeof(*header) || !header_is_sound(header))
                return DECODE_E_MALFORMED;
        n_words = (size_t)header->n_kernel + header->n_user + (header->attributes_size + 7U) / 8;
        if (size != sizeof(*header) + n_words * sizeof(header->frames[0]))
                return DECODE_E_MALFORMED;
        if (!user_part_is_sound(header->frames + header->n_kernel, header->n_user))
                return DECODE_E_MALFORMED;
        *samplep = (Sample){
                .header = header,
                .kernel = header->frames,
                .user = header->frames + header->n_kernel,
                .attributes = (const uint8_t *)(header->frames + header->n_kernel + header->n_user),
        };
        return 0;
}

int decode_stack(const void *data, size_t size, const struct abi_stack **stackp) {
        const struct abi_stack *stack = data;

        if (size < sizeof(*stack) || stack->n_bytes > size - sizeof(*stack) ||
            stack->n_bytes > ABI_STACK_MAX_CHUNKS * ABI_STACK_CHUNK || stack->n_bytes % ABI_STACK_CHUNK ||
            stack->address % ABI_STACK_CHUNK || stack->is_cut > 1)
                return DECODE_E_MALFORMED;
        *stackp = stack;
        return 0;
}

int decode_notice(const void *data, size_t size, const struct abi_notice **noticep) {
        const struct abi_notice *notice = data;

        if (size != sizeof(*notice) || notice->kind < ABI_NOTICE_EXEC || notice->kind > ABI_NOTICE_SETTLED ||
            !comm_is_terminated(notice->comm))
                return DECODE_E_MALFORMED;
        *noticep = notice;
        return 0;
}
