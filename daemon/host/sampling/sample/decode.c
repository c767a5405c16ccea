/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Compares each count in a record with the size of the record before anything points behind it.
 */

#include "host/sampling/sample/decode.h"

#include <stdbool.h>

#include "border/alloc_abi.h"
#include "core/base/util/macro.h"
#include <string.h>

/* The kernel terminates names; a record whose name has no end would run readers over it. */
static bool comm_is_terminated(const char *comm) {
        return memchr(comm, 0, ABI_COMM_SIZE);
}

/* Only a crash has a signal. */
static bool signal_is_sound(const struct abi_sample *header) {
        return header->kind == ABI_KIND_CRASH ? header->signal && header->signal <= ABI_CRASH_MAX_SIGNAL
                                              : !header->signal && !header->signal_code;
}

static bool header_is_sound(const struct abi_sample *header) {
        return header->n_kernel <= ABI_MAX_KERNEL_FRAMES && header->n_user <= ABI_MAX_USER_WORDS &&
               header->kind >= ABI_KIND_CPU && header->kind <= ABI_KIND_BOOST && signal_is_sound(header) &&
               header->stack_end < ABI_STACK_END_N && header->context < ABI_CONTEXT_N &&
               header->form < ABI_FORM_N && header->attributes_size <= ABI_MAX_ATTRIBUTES_SIZE &&
               header->is_copied <= 1 && header->has_start <= 1 &&
               (!header->task_size || header->task_size == BEAM_TASK_SIZE ||
                header->task_size == PYTHON_TASK_SIZE) &&
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

static bool fault_is_sound(const struct abi_fault *fault) {
        return fault->memory < ABI_MEMORY_N && fault->is_major <= 1 && fault->is_huge <= 1 &&
                memchr(fault->file, 0, sizeof(fault->file));
}

static bool allocation_is_sound(const struct abi_sample *header, const struct abi_allocation *allocation) {
        return allocation->size <= ALLOC_MAX_SIZE && header->value && header->value <= ALLOC_MAX_WEIGHT &&
                allocation->has_free <= 1;
}

int decode_sample(const void *data, size_t size, Sample *samplep) {
        const struct abi_sample *header = data;
        const struct abi_fault *fault = NULL;
        const struct abi_allocation *allocation = NULL;
        size_t n_words, n_between = 0;
        const uint64_t *kernel;

        if (size < sizeof(*header) || !header_is_sound(header))
                return DECODE_E_MALFORMED;
        n_words = (size_t)header->n_kernel + header->n_user + (header->attributes_size + 7U) / 8 +
                header->task_size / 8;
        if (header->kind == ABI_KIND_FAULT) {
                fault = (const struct abi_fault *)header->frames;
                n_between = ABI_FAULT_WORDS;
        } else if (header->kind == ABI_KIND_ALLOC) {
                allocation = (const struct abi_allocation *)header->frames;
                n_between = ABI_ALLOCATION_WORDS;
        }
        n_words += n_between;
        if (size != sizeof(*header) + n_words * sizeof(header->frames[0]))
                return DECODE_E_MALFORMED;
        if ((fault && !fault_is_sound(fault)) || (allocation && !allocation_is_sound(header, allocation)))
                return DECODE_E_MALFORMED;
        kernel = header->frames + n_between;
        if (!user_part_is_sound(kernel + header->n_kernel, header->n_user))
                return DECODE_E_MALFORMED;
        *samplep = (Sample){
                .header = header,
                .fault = fault,
                .allocation = allocation,
                .kernel = kernel,
                .user = kernel + header->n_kernel,
                .attributes = (const uint8_t *)(kernel + header->n_kernel + header->n_user),
        };
        if (header->task_size)
                samplep->task = (const uint8_t *)(header->frames + n_words) - header->task_size;
        return 0;
}

/* Lengths that a clock can have: ten years. What is longer would run over in sums. */
static bool lengths_are_sound(uint64_t blocked_ns, uint64_t runnable_ns) {
        const uint64_t most_ns = 10ull * 366 * 86400 * 1000000000;

        return blocked_ns <= most_ns && runnable_ns <= most_ns;
}

static bool run_is_sound(const struct abi_run *run) {
        return run->kind < RUN_KIND_N && lengths_are_sound(run->ns, 0);
}

/* Only threads of targets have a name. */
static bool waker_is_sound(const struct abi_waker *waker) {
        const struct abi_waker nobody = { .kind = waker->kind };

        if (waker->kind == WAKER_THREAD)
                return waker->tid && waker->tgid;
        return waker->kind < WAKER_N && !memcmp(waker, &nobody, sizeof(nobody));
}

const uint64_t *decode_wait_waker(const struct abi_wait *wait) {
        return (const uint64_t *)((const char *)wait + wait->size) - wait->n_waker;
}

/* Only a thread of a target was walked. */
static bool waker_stack_is_sound(const struct abi_wait *wait, size_t size) {
        size_t n = wait->n_waker;

        if (!n)
                return wait->waker_end < ABI_STACK_END_N;
        return n <= WAKER_MAX_WORDS && n * sizeof(uint64_t) <= size && wait->waker_end < ABI_STACK_END_N &&
                wait->waker.kind == WAKER_THREAD && user_part_is_sound(decode_wait_waker(wait), n);
}

int decode_wait(const void *data, size_t size, const struct abi_wait **waitp, Sample *samplep) {
        const struct abi_wait *wait = data;
        Sample sample;

        if (size < sizeof(*wait) || wait->size != size || wait->flags & ~WAIT_FLAGS || !wait->weight ||
            !lengths_are_sound(wait->blocked_ns, wait->runnable_ns) || wait->file >= WAIT_FILE_N ||
            !run_is_sound(&wait->run) || !waker_is_sound(&wait->waker) ||
            !waker_stack_is_sound(wait, size - sizeof(*wait)))
                return DECODE_E_MALFORMED;
        size -= wait->n_waker * sizeof(uint64_t);
        if (decode_sample(wait + 1, size - sizeof(*wait), &sample) ||
            sample.header->kind != ABI_KIND_OFF_CPU)
                return DECODE_E_MALFORMED;
        *waitp = wait;
        *samplep = sample;
        return 0;
}

int decode_wait_sum(const struct abi_wait_key *key, const struct abi_wait_sum *sum) {
        if (key->flags & ~WAIT_FLAGS || key->context >= ABI_CONTEXT_N || key->form >= ABI_FORM_N ||
            !comm_is_terminated(sum->comm) || !lengths_are_sound(sum->blocked_ns, sum->runnable_ns) ||
            !lengths_are_sound(sum->whole_ns, sum->split_ns) || !waker_is_sound(&key->waker) ||
            key->file >= WAIT_FILE_N)
                return DECODE_E_MALFORMED;
        return 0;
}

/* A piece of a copied stack, of @n bytes that lie at @begin. */
static bool piece_is_sound(uint64_t address, uint64_t begin, uint64_t n, uint64_t size) {
        return begin + n <= size && address % ABI_STACK_CHUNK == 0 && begin % ABI_STACK_CHUNK == 0 &&
                n % ABI_STACK_CHUNK == 0;
}

int decode_stack(const void *data, size_t size, const struct abi_stack **stackp) {
        const struct abi_stack *stack = data;
        uint64_t room = size - sizeof(*stack);

        if (size < sizeof(*stack))
                return DECODE_E_MALFORMED;
        room = MIN(room, (uint64_t)ABI_STACK_MAX_CHUNKS * ABI_STACK_CHUNK);
        if (!piece_is_sound(stack->address, 0, stack->n_bytes, room) ||
            !piece_is_sound(stack->far_address, stack->far_begin, stack->n_far, room) ||
            (stack->n_far && stack->far_begin < stack->n_bytes) || stack->is_cut > 1)
                return DECODE_E_MALFORMED;
        *stackp = stack;
        return 0;
}

int decode_start(const void *data, size_t size, const struct abi_start **startp) {
        const struct abi_start *start = data;

        if (size < sizeof(*start) ||
            (uint64_t)start->n_arguments + start->n_environment > size - sizeof(*start))
                return DECODE_E_MALFORMED;
        *startp = start;
        return 0;
}

int decode_free(const void *data, size_t size, const struct abi_free **freep) {
        const struct abi_free *record = data;

        if (size != sizeof(*record) || record->kind != ABI_KIND_FREE)
                return DECODE_E_MALFORMED;
        *freep = record;
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
