/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stddef.h>
#include <string.h>

#include "host/sampling/sample/decode.h"

enum {
        N_KERNEL = 2,
        N_USER = 3,
        HEADER_WORDS = sizeof(struct abi_sample) / 8,
};

#define TAG(_kind) ((uint64_t)(_kind) << RUNTIME_KIND_SHIFT)

typedef union Record {
        struct abi_sample header;
        uint64_t words[HEADER_WORDS + N_KERNEL + N_USER];
} Record;

static Record sound(void) {
        static const uint64_t frames[] = { 0xffffffff81000010, 0xffffffff81000020, 0x401000, 0x402000,
                                           0x403000 };
        Record record = { .words = { 0 } };

        memcpy(record.words + HEADER_WORDS, frames, sizeof(frames));
        record.header.kind = ABI_KIND_CPU;
        record.header.value = 1;
        record.header.tgid = 42;
        record.header.n_kernel = N_KERNEL;
        record.header.n_user = N_USER;
        record.header.stack_end = ABI_STACK_FP_END;
        record.header.context = ABI_CONTEXT_PRESENT;
        strcpy(record.header.comm, "worker");
        return record;
}

static void refuses(const Record *record, size_t size, const char *what) {
        const Sample before = { .header = (void *)1, .kernel = (void *)2, .user = (void *)3 };
        Sample sample = before;

        cr_expect_eq(decode_sample(record, size, &sample), DECODE_E_MALFORMED, "%s", what);
        cr_expect(!memcmp(&sample, &before, sizeof(sample)), "%s: output untouched", what);
}

Test(decode, points_into_a_sound_record) {
        Record record = sound();
        Sample sample;

        cr_assert_eq(decode_sample(&record, sizeof(record), &sample), 0);
        cr_assert_eq(sample.header->tgid, 42);
        cr_assert_eq(sample.kernel, record.words + HEADER_WORDS);
        cr_assert_eq(sample.kernel[1], 0xffffffff81000020);
        cr_assert_eq(sample.user[0], 0x401000, "the user part lies behind the kernel part");
        cr_assert_eq(sample.user[2], 0x403000);
}

Test(decode, takes_a_record_without_frames) {
        Record record = sound();
        Sample sample;

        record.header.n_kernel = record.header.n_user = 0;
        cr_assert_eq(decode_sample(&record, sizeof(record.header), &sample), 0);
}

Test(decode, refuses_every_wrong_size) {
        Record record = sound();

        for (size_t size = 0; size < sizeof(record); size++)
                refuses(&record, size, "short");
        record.header.n_user--;
        refuses(&record, sizeof(record), "long");
}

Test(decode, refuses_counts_beyond_the_limits) {
        static union {
                struct abi_sample header;
                uint64_t words[HEADER_WORDS + ABI_MAX_KERNEL_FRAMES + ABI_MAX_USER_WORDS + 1];
        } record;
        Sample sample;

        record.header = sound().header;
        record.header.n_kernel = ABI_MAX_KERNEL_FRAMES;
        record.header.n_user = ABI_MAX_USER_WORDS;
        for (size_t i = 0; i < ABI_MAX_USER_WORDS; i += RUNTIME_HOTSPOT_WORDS)
                record.header.frames[ABI_MAX_KERNEL_FRAMES + i] = TAG(RUNTIME_HOTSPOT_COMPILED);
        cr_assert_eq(decode_sample(&record, sizeof(record) - 8, &sample), 0,
                     "the limits themselves are fine");
        record.header.n_user++;
        refuses((Record *)&record, sizeof(record), "user frames");
        record.header.n_user--;
        record.header.n_kernel++;
        refuses((Record *)&record, sizeof(record), "kernel frames");
        record.header.n_kernel = record.header.n_user = UINT16_MAX;
        refuses((Record *)&record, sizeof(record), "counts that nobody has");
}

Test(decode, takes_the_signal_of_a_crash_alone) {
        Record record = sound();
        Sample sample;

        record.header.kind = ABI_KIND_CRASH;
        refuses(&record, sizeof(record), "a crash without a signal");
        record.header.signal = 11;
        record.header.signal_code = 1;
        record.header.value = 0x1234;
        cr_assert_eq(decode_sample(&record, sizeof(record), &sample), 0);
        cr_assert_eq(sample.header->signal, 11);
        record.header.signal = ABI_CRASH_MAX_SIGNAL + 1;
        refuses(&record, sizeof(record), "a signal that there is none of");
        record.header.signal = 11;
        record.header.kind = ABI_KIND_CPU;
        refuses(&record, sizeof(record), "a tick with a signal");
        record.header.kind = ABI_KIND_CRASH + 1;
        refuses(&record, sizeof(record), "a kind behind the last one");
}

/* A record of a page fault, without frames of the kernel. */
static union FaultRecord {
        struct abi_sample header;
        uint64_t words[HEADER_WORDS + ABI_FAULT_WORDS + N_USER];
} fault_record(void) {
        union FaultRecord record = { .header = sound().header };
        struct abi_fault *fault = (struct abi_fault *)record.header.frames;

        record.header.kind = ABI_KIND_FAULT;
        record.header.value = 997;
        record.header.n_kernel = 0;
        *fault = (struct abi_fault){ .address = 0x7f0000001000, .memory = ABI_MEMORY_FILE, .is_major = 1,
                                     .file = "data.bin" };
        for (size_t i = 0; i < N_USER; i++)
                record.words[HEADER_WORDS + ABI_FAULT_WORDS + i] = 0x401000 + i;
        return record;
}

Test(decode, finds_the_fault_before_the_frames) {
        union FaultRecord record = fault_record();
        Sample sample;

        cr_assert_eq(decode_sample(&record, sizeof(record), &sample), 0);
        cr_assert_eq(sample.fault, (void *)record.header.frames);
        cr_assert_str_eq(sample.fault->file, "data.bin");
        cr_assert_eq(sample.user[0], 0x401000);
        cr_assert_eq(sample.user[2], 0x401002);
        record.header.kind = ABI_KIND_CPU;
        refuses((const Record *)&record, sizeof(record), "a tick has no such part");
}

Test(decode, refuses_faults_that_the_kernel_half_cannot_have_written) {
        for (size_t size = 0; size < sizeof(union FaultRecord); size++) {
                union FaultRecord record = fault_record();

                refuses((const Record *)&record, size, "short");
        }
        for (int i = 0; i < 4; i++) {
                union FaultRecord record = fault_record();
                struct abi_fault *fault = (struct abi_fault *)record.header.frames;

                if (i == 0)
                        fault->memory = ABI_MEMORY_N;
                else if (i == 1)
                        fault->is_major = 2;
                else if (i == 2)
                        fault->is_huge = 2;
                else
                        memset(fault->file, 'x', sizeof(fault->file));
                refuses((const Record *)&record, sizeof(record), "a field");
        }
}

/* A record of an allocation, likewise. */
static union AllocationRecord {
        struct abi_sample header;
        uint64_t words[HEADER_WORDS + ABI_ALLOCATION_WORDS + N_USER];
} allocation_record(void) {
        union AllocationRecord record = { .header = sound().header };

        record.header.kind = ABI_KIND_ALLOC;
        record.header.value = 524296;
        record.header.n_kernel = 0;
        *(struct abi_allocation *)record.header.frames = (struct abi_allocation){ 0x7f0000001000, 16, 1 };
        for (size_t i = 0; i < N_USER; i++)
                record.words[HEADER_WORDS + ABI_ALLOCATION_WORDS + i] = 0x401000 + i;
        return record;
}

Test(decode, finds_the_allocation_before_the_frames) {
        union AllocationRecord record = allocation_record();
        Sample sample;

        cr_assert_eq(decode_sample(&record, sizeof(record), &sample), 0);
        cr_assert(sample.allocation->address == 0x7f0000001000 && sample.allocation->size == 16);
        cr_assert(sample.user[0] == 0x401000 && !sample.fault);
        record.header.kind = ABI_KIND_CPU;
        refuses((const Record *)&record, sizeof(record), "a tick has no such part");
}

Test(decode, refuses_allocations_whose_sums_would_run_over) {
        for (int i = 0; i < 4; i++) {
                union AllocationRecord record = allocation_record();

                if (i == 0)
                        record.header.value = 0;
                else if (i == 1)
                        record.header.value = (1ull << 40) + 1;
                else if (i == 2)
                        ((struct abi_allocation *)record.header.frames)->size = (1ull << 50) + 1;
                else
                        ((struct abi_allocation *)record.header.frames)->has_free = 2;
                refuses((const Record *)&record, sizeof(record), "a number");
        }
        for (size_t size = 0; size < sizeof(union AllocationRecord); size++) {
                union AllocationRecord record = allocation_record();

                refuses((const Record *)&record, size, "short");
        }
}

Test(decode, takes_frees_of_their_size_alone) {
        struct abi_free record = { ABI_KIND_FREE, 7, UINT64_MAX };
        const struct abi_free *found = NULL;
        Sample sample;

        cr_assert_eq(decode_free(&record, sizeof(record), &found), 0);
        cr_assert_eq(found, &record);
        cr_assert_eq(decode_free(&record, sizeof(record) - 1, &found), DECODE_E_MALFORMED);
        cr_assert_eq(decode_sample(&record, sizeof(record), &sample), DECODE_E_MALFORMED);
        record.kind = ABI_KIND_ALLOC;
        cr_assert_eq(decode_free(&record, sizeof(record), &found), DECODE_E_MALFORMED);
}

static int decode_words(const uint64_t *words, size_t n) {
        static union {
                struct abi_sample header;
                uint64_t words[HEADER_WORDS + ABI_MAX_USER_WORDS];
        } record;
        Sample sample;

        record.header = sound().header;
        record.header.n_kernel = 0;
        record.header.n_user = (uint16_t)n;
        memcpy(record.header.frames, words, n * sizeof(*words));
        return decode_sample(&record, sizeof(record.header) + n * sizeof(*words), &sample);
}

Test(decode, refuses_frames_that_are_cut_or_of_no_kind) {
        const uint64_t whole[] = { 0x5500, TAG(RUNTIME_HOTSPOT_INTERPRETED) | 0x7f00, UINT64_MAX, UINT64_MAX,
                                   0x5600 };
        uint64_t unknown[] = { 0x5500, TAG(RUNTIME_N_KINDS), 1, 2 };
        static uint64_t many[ABI_MAX_FRAMES + 1];

        for (size_t n = 0; n <= 5; n++)
                cr_assert_eq(decode_words(whole, n), n == 2 || n == 3 ? DECODE_E_MALFORMED : 0, "%zu words", n);
        cr_assert_eq(decode_words(unknown, 4), DECODE_E_MALFORMED);
        unknown[1] = UINT64_MAX;
        cr_assert_eq(decode_words(unknown, 4), DECODE_E_MALFORMED);
        cr_assert_eq(decode_words(many, ABI_MAX_FRAMES), 0);
        cr_assert_eq(decode_words(many, ABI_MAX_FRAMES + 1), DECODE_E_MALFORMED, "frames over the cap");
}

Test(decode, refuses_unknown_kinds_and_outcomes) {
        Record record = sound();

        record.header.kind = 0;
        refuses(&record, sizeof(record), "kind 0");
        record.header.kind = ABI_KIND_FREE;
        refuses(&record, sizeof(record), "kind over the last");
        record = sound();
        record.header.stack_end = ABI_STACK_END_N;
        refuses(&record, sizeof(record), "stack end");
        record = sound();
        record.header.context = ABI_CONTEXT_N;
        refuses(&record, sizeof(record), "context");
        record = sound();
        memset(record.header.comm, 'x', sizeof(record.header.comm));
        refuses(&record, sizeof(record), "name without an end");
}

Test(decode, takes_and_refuses_notices) {
        struct abi_notice notice = { .tgid = 7, .kind = ABI_NOTICE_EXIT, .value = 5, .comm = "sh" };
        const struct abi_notice *decoded = NULL;

        cr_assert_eq(decode_notice(&notice, sizeof(notice), &decoded), 0);
        cr_assert_eq(decoded, &notice);
        decoded = NULL;
        cr_assert_eq(decode_notice(&notice, sizeof(notice) - 1, &decoded), DECODE_E_MALFORMED);
        cr_assert_eq(decode_notice(&notice, 0, &decoded), DECODE_E_MALFORMED);
        notice.kind = 0;
        cr_assert_eq(decode_notice(&notice, sizeof(notice), &decoded), DECODE_E_MALFORMED);
        notice.kind = ABI_NOTICE_SETTLED + 1;
        cr_assert_eq(decode_notice(&notice, sizeof(notice), &decoded), DECODE_E_MALFORMED);
        notice.kind = ABI_NOTICE_EXEC;
        memset(notice.comm, 'x', sizeof(notice.comm));
        cr_assert_eq(decode_notice(&notice, sizeof(notice), &decoded), DECODE_E_MALFORMED);
        cr_assert_null(decoded, "output untouched");
}

static union {
        struct abi_stack stack;
        uint8_t bytes[sizeof(struct abi_stack) + 3 * ABI_STACK_CHUNK];
} copied;

static int decode_copy(size_t size) {
        const struct abi_stack *stack;

        return decode_stack(&copied, size, &stack);
}

/* A wait: its head, then a sample. */
typedef struct WaitRecord {
        struct abi_wait head;
        Record sample;
} WaitRecord;

static WaitRecord sound_wait(void) {
        WaitRecord record = { .head = { .blocked_ns = 5,
                                        .runnable_ns = 7,
                                        .end_ns = 100,
                                        .weight = WAIT_WEIGHT_ONE,
                                        .call = WAIT_NO_CALL,
                                        .flags = WAIT_UNINTERRUPTIBLE,
                                        .size = sizeof(record) },
                              .sample = sound() };

        record.sample.header.kind = ABI_KIND_OFF_CPU;
        return record;
}

static void refuses_wait(const WaitRecord *record, size_t size, const char *what) {
        const struct abi_wait *wait = NULL;
        Sample sample = { .header = NULL };

        cr_expect_eq(decode_wait(record, size, &wait, &sample), DECODE_E_MALFORMED, "%s", what);
        cr_expect(!wait && !sample.header, "%s: output untouched", what);
}

Test(decode, takes_and_refuses_waits) {
        WaitRecord record = sound_wait();
        const struct abi_wait *wait;
        Sample sample;

        cr_assert_eq(decode_wait(&record, sizeof(record), &wait, &sample), 0);
        cr_assert_eq(wait->runnable_ns, 7);
        cr_assert_eq(sample.header, &record.sample.header);
        cr_assert_eq(sample.user[0], 0x401000);
        for (size_t size = 0; size < sizeof(record); size++)
                refuses_wait(&record, size, "too short");
        record.head.size = sizeof(record) - 8;
        refuses_wait(&record, sizeof(record), "another size than it says");
        record = sound_wait();
        record.head.flags = WAIT_FLAGS + 1;
        refuses_wait(&record, sizeof(record), "an unknown flag");
        record = sound_wait();
        record.head.weight = 0;
        refuses_wait(&record, sizeof(record), "no weight");
        record = sound_wait();
        record.head.blocked_ns = UINT64_MAX / 2;
        refuses_wait(&record, sizeof(record), "centuries");
        record = sound_wait();
        record.head.run.kind = RUN_KIND_N;
        refuses_wait(&record, sizeof(record), "an unknown kind of run");
        record = sound_wait();
        record.head.run.ns = UINT64_MAX;
        refuses_wait(&record, sizeof(record), "a run of centuries");
        record = sound_wait();
        record.sample.header.kind = ABI_KIND_CPU;
        refuses_wait(&record, sizeof(record), "a sample of the CPU");
        record = sound_wait();
        record.head.waker =
                (struct abi_waker){ .kind = WAKER_THREAD, .tgid = 1, .tid = 2, .span = { 3, 4, 5 } };
        cr_assert_eq(decode_wait(&record, sizeof(record), &wait, &sample), 0);
        cr_assert_eq(wait->waker.tid, 2);
        record.head.waker.tid = 0;
        refuses_wait(&record, sizeof(record), "a waker without an id");
        record.head.waker = (struct abi_waker){ .kind = WAKER_PROCESS, .tid = 2 };
        refuses_wait(&record, sizeof(record), "ids of no target");
        record.head.waker = (struct abi_waker){ .kind = WAKER_INTERRUPT, .span = { 0, 0, 5 } };
        refuses_wait(&record, sizeof(record), "a span of no target");
        record.head.waker = (struct abi_waker){ .kind = WAKER_N };
        refuses_wait(&record, sizeof(record), "an unknown kind of waker");
        record = sound_wait();
        record.head.file = WAIT_FILE_N;
        refuses_wait(&record, sizeof(record), "an unknown kind of file");
        record = sound_wait();
        record.sample.header.n_user++;
        refuses_wait(&record, sizeof(record), "more frames than there are");
}

/* A wait with the frames of its waker behind it. */
Test(decode, takes_and_refuses_stacks_of_wakers) {
        union {
                WaitRecord wait;
                uint64_t words[sizeof(WaitRecord) / sizeof(uint64_t) + 2];
        } record = { .wait = sound_wait() };
        uint64_t *waker = record.words + sizeof(WaitRecord) / sizeof(uint64_t);
        const struct abi_wait *wait;
        Sample sample;

        waker[0] = 0x402000;
        waker[1] = 0x403000;
        record.wait.head.size = sizeof(record);
        record.wait.head.n_waker = 2;
        record.wait.head.waker = (struct abi_waker){ .kind = WAKER_THREAD, .tgid = 1, .tid = 2 };
        cr_assert_eq(decode_wait(&record, sizeof(record), &wait, &sample), 0);
        cr_assert_eq(sample.user[0], 0x401000);
        cr_assert_eq(decode_wait_waker(wait)[0], 0x402000);
        cr_assert_eq(decode_wait_waker(wait)[1], 0x403000);
        record.wait.head.waker_end = ABI_STACK_END_N;
        refuses_wait(&record.wait, sizeof(record), "an unknown end");
        record.wait.head.waker_end = ABI_STACK_COMPLETE;
        record.wait.head.n_waker = 1;
        refuses_wait(&record.wait, sizeof(record), "fewer words than there are");
        record.wait.head.n_waker = WAKER_MAX_WORDS + 1;
        refuses_wait(&record.wait, sizeof(record), "more words than a waker has");
        record.wait.head.n_waker = WAKER_MAX_WORDS;
        refuses_wait(&record.wait, sizeof(record), "more words than there are bytes");
        record.wait.head.n_waker = 2;
        waker[0] = (uint64_t)1 << 63;
        if (runtime_frame_words(waker[0]) != 1)
                refuses_wait(&record.wait, sizeof(record), "a frame that is cut or of no kind");
        waker[0] = 0x402000;
        record.wait.head.waker = (struct abi_waker){ .kind = WAKER_PROCESS };
        refuses_wait(&record.wait, sizeof(record), "a stack of no target");
}

Test(decode, takes_and_refuses_sums_of_waits) {
        struct abi_wait_key key = { .call = 1, .context = ABI_CONTEXT_PRESENT, .form = ABI_FORM_RING };
        struct abi_wait_sum sum = { .blocked_ns = 1, .comm = "worker" };

        cr_expect_eq(decode_wait_sum(&key, &sum), 0);
        key.context = ABI_CONTEXT_N;
        cr_expect_eq(decode_wait_sum(&key, &sum), DECODE_E_MALFORMED);
        key.context = 0;
        key.form = ABI_FORM_N;
        cr_expect_eq(decode_wait_sum(&key, &sum), DECODE_E_MALFORMED);
        key.form = 0;
        key.flags = 0x80;
        cr_expect_eq(decode_wait_sum(&key, &sum), DECODE_E_MALFORMED);
        key.flags = 0;
        sum.runnable_ns = UINT64_MAX;
        cr_expect_eq(decode_wait_sum(&key, &sum), DECODE_E_MALFORMED);
        sum.runnable_ns = 0;
        sum.split_ns = UINT64_MAX;
        cr_expect_eq(decode_wait_sum(&key, &sum), DECODE_E_MALFORMED);
        sum.split_ns = 0;
        sum.whole_ns = UINT64_MAX;
        cr_expect_eq(decode_wait_sum(&key, &sum), DECODE_E_MALFORMED);
        sum.whole_ns = 0;
        memset(sum.comm, 'x', sizeof(sum.comm));
        cr_expect_eq(decode_wait_sum(&key, &sum), DECODE_E_MALFORMED, "a name without an end");
}

Test(decode, takes_copies_of_stacks_in_whole_chunks) {
        const struct abi_stack *stack = NULL;

        copied.stack = (struct abi_stack){ .address = 0x7ffe0000, .n_bytes = 2 * ABI_STACK_CHUNK };
        cr_assert_eq(decode_stack(&copied, sizeof(copied), &stack), 0);
        cr_assert_eq(stack, &copied.stack);
        cr_assert_eq(decode_copy(sizeof(copied.stack) + 2 * ABI_STACK_CHUNK), 0);
        cr_assert_eq(decode_copy(sizeof(copied.stack) + 2 * ABI_STACK_CHUNK - 1), DECODE_E_MALFORMED);
        cr_assert_eq(decode_copy(sizeof(copied.stack) - 1), DECODE_E_MALFORMED);
        copied.stack.n_bytes--;
        cr_assert_eq(decode_copy(sizeof(copied)), DECODE_E_MALFORMED);
        copied.stack.n_bytes = (ABI_STACK_MAX_CHUNKS + 1) * ABI_STACK_CHUNK;
        cr_assert_eq(decode_copy(SIZE_MAX), DECODE_E_MALFORMED);
        copied.stack.n_bytes = 0;
        cr_assert_eq(decode_copy(sizeof(copied.stack)), 0);
        copied.stack.address += 8;
        cr_assert_eq(decode_copy(sizeof(copied)), DECODE_E_MALFORMED);
        copied.stack.address -= 8;
        copied.stack.is_cut = 2;
        cr_assert_eq(decode_copy(sizeof(copied)), DECODE_E_MALFORMED);
}

Test(decode, takes_a_second_piece_of_a_stack_that_lies_inside_the_record) {
        const struct abi_stack good = { .address = 0x7ffe0000,
                                        .n_bytes = ABI_STACK_CHUNK,
                                        .far_address = 0x7fff0000,
                                        .far_begin = ABI_STACK_CHUNK,
                                        .n_far = 2 * ABI_STACK_CHUNK };

        copied.stack = good;
        cr_assert_eq(decode_copy(sizeof(copied)), 0);
        cr_assert_eq(decode_copy(sizeof(copied) - 1), DECODE_E_MALFORMED);
        copied.stack.far_begin = 2 * ABI_STACK_CHUNK;
        cr_assert_eq(decode_copy(sizeof(copied)), DECODE_E_MALFORMED, "it ends behind the record");
        copied.stack.far_begin = UINT32_MAX - ABI_STACK_CHUNK + 1;
        cr_assert_eq(decode_copy(sizeof(copied)), DECODE_E_MALFORMED, "the sum does not wrap");
        copied.stack = good;
        copied.stack.n_bytes = 2 * ABI_STACK_CHUNK;
        cr_assert_eq(decode_copy(sizeof(copied)), DECODE_E_MALFORMED, "pieces do not share bytes");
        copied.stack = good;
        copied.stack.n_far--;
        cr_assert_eq(decode_copy(sizeof(copied)), DECODE_E_MALFORMED);
        copied.stack = good;
        copied.stack.far_address += 8;
        cr_assert_eq(decode_copy(sizeof(copied)), DECODE_E_MALFORMED);
}

Test(decode_start, refuses_texts_beyond_the_record) {
        union {
                struct abi_start start;
                uint8_t bytes[sizeof(struct abi_start) + 64];
        } record = { .start = { .n_arguments = 40, .n_environment = 24 } };
        const struct abi_start *start = NULL;

        cr_assert_eq(decode_start(&record, sizeof(record), &start), 0);
        cr_assert_eq(start, &record.start);
        cr_assert_eq(decode_start(&record, sizeof(record) - 1, &start), DECODE_E_MALFORMED);
        cr_assert_eq(decode_start(&record, sizeof(record.start) - 1, &start), DECODE_E_MALFORMED);
        record.start.n_environment = UINT32_MAX - 15;   /* their sum runs over 32 bits */
        cr_assert_eq(decode_start(&record, sizeof(record), &start), DECODE_E_MALFORMED);
}
