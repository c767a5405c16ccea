/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/util/macro.h"
#include "host/sampling/frames/made-frame.h"

#if defined(__x86_64__)
/*
 * Bytes of real programs: LLVM's, gcc's with -fcf-protection, what Deno 2.9 (V8 15) made of a loop, and what
 * .NET 8 made of methods, in its tiers.
 */
Test(made_frame, is_known_by_the_first_instructions) {
        static const struct {
                size_t prologue;
                uint8_t code[MADE_CODE_SIZE];
        } cases[] = {
                { 4, { 0x55, 0x48, 0x89, 0xe5, 0x41, 0x57 } },
                { 4, { 0x55, 0x48, 0x8b, 0xec, 0x56, 0x57, 0x50 } },
                { 8, { 0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5 } },
                { 11, { 0xcc, 0x45, 0x33, 0xd2, 0x48, 0x83, 0xec, 0x18, 0x49, 0x3b, 0x65, 0xa0, 0x73 } },
                { 19, { 0xcc, 0x45, 0x33, 0xd2, 0x48, 0x83, 0xec, 0x20, 0x4c, 0x8d, 0x94, 0x24, 0x70, 0xfe,
                        0xff, 0xff, 0x4d, 0x3b, 0x55, 0xa0, 0x73 } },
                { 20, { 0xbb, 0x18, 0, 0, 0, 0x49, 0xbc, 0x51, 0xbf, 0xf4, 0x8f, 0xdd, 0x08, 0, 0,
                        0xe8, 0xac, 0xe1, 0xd8, 0x1f, 0x50 } },
                { 10, { 0x55, 0x48, 0x83, 0xec, 0x60, 0x48, 0x8d, 0x6c, 0x24, 0x60, 0xc4, 0x41 } },
                { 13, { 0x55, 0x48, 0x83, 0xec, 0x70, 0xc5, 0xf8, 0x77, 0x48, 0x8d, 0x6c, 0x24, 0x70 } },
                { 9, { 0x55, 0x41, 0x57, 0x53, 0x48, 0x8d, 0x6c, 0x24, 0x10, 0x48, 0x8b, 0xdf } },
                { 16, { 0x55, 0x41, 0x57, 0x41, 0x56, 0x41, 0x55, 0x41, 0x54, 0x53, 0x50, 0x48, 0x8d, 0x6c,
                        0x24, 0x30 } },
                { 16, { 0x55, 0x48, 0x81, 0xec, 0x90, 0, 0, 0, 0x48, 0x8d, 0xac, 0x24, 0x90, 0, 0, 0 } },
                { 8, { 0x48, 0x8b, 0x45, 0x00, 0x50, 0x48, 0x8b, 0xec, 0x48, 0x8b, 0x4d, 0x28 } },
                { 14, { 0x48, 0x8b, 0x45, 0x00, 0x50, 0x48, 0x83, 0xec, 0x20, 0x48, 0x8d, 0x6c, 0x24,
                        0x20 } },
                /* .NET: rbp is not where it was pushed; no rbp; no frame of its own yet */
                { 0, { 0x55, 0x48, 0x83, 0xec, 0x60, 0x48, 0x8d, 0x6c, 0x24, 0x58 } },
                { 0, { 0x41, 0x57, 0x41, 0x56, 0x41, 0x55, 0x53, 0x50, 0x48, 0x8b, 0xdf } },
                { 0, { 0x55, 0x53, 0x48, 0x8b, 0xec } },
                { 0, { 0x48, 0x8b, 0x45, 0x00, 0x51, 0x48, 0x8b, 0xec } },
                /* sub $8,%rsp; push %rbp as a general register; push %rbp behind a test */
                { 0, { 0x48, 0x83, 0xec, 0x08, 0xe8 } },
                { 0, { 0x55, 0x53, 0x48, 0x83, 0xec, 0x08 } },
                { 0, { 0x48, 0x85, 0xff, 0x74, 0x10, 0x55, 0x48, 0x89, 0xe5 } },
                { 0, { 0xcc, 0x45, 0x33, 0xd2, 0x48, 0x83, 0xec, 0x18, 0x90 } },
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                cr_assert_eq(made_frame_prologue(cases[i].code, MADE_CODE_SIZE), cases[i].prologue,
                             "case %zu", i);
                if (cases[i].prologue)
                        cr_assert_eq(made_frame_prologue(cases[i].code, cases[i].prologue - 1), 0,
                                     "case %zu", i);
        }
}

Test(made_frame, that_goes_on_for_a_slower_form_is_known) {
        static const uint8_t with[] = { 0x48, 0x8b, 0x45, 0x00, 0x50, 0x48, 0x8b, 0xec };

        cr_assert(made_frame_goes_on(with, sizeof(with)));
        cr_assert_not(made_frame_goes_on(with, 4));
        cr_assert_not(made_frame_goes_on(with + 1, sizeof(with) - 1));
}

/* A slower form has room in its frame; and what goes on may be gone on for. */
Test(made_frame, that_may_be_left_for_a_faster_form_is_known) {
        static const uint8_t slow[] = { 0x55, 0x48, 0x83, 0xec, 0x60, 0x48, 0x8d, 0x6c, 0x24, 0x60 };
        static const uint8_t small[] = { 0x55, 0x48, 0x8b, 0xec, 0x90, 0x90 };

        cr_assert(made_frame_may_be_left(slow, sizeof(slow)));
        cr_assert_not(made_frame_may_be_left(slow, sizeof(slow) - 1));
        cr_assert_not(made_frame_may_be_left(small, sizeof(small)));
}

Test(made_frame, may_be_gone_where_a_function_returns) {
        static const struct {
                bool is_gone;
                uint8_t code[MADE_END_SIZE];
        } cases[] = {
                { true, { 0, 0, 0, 0, 0, 0, 0, 0, 0xc3 } },     /* at ret */
                { true, { 0, 0, 0, 0, 0, 0, 0, 0, 0xc2 } },
                { true, { 0, 0, 0, 0, 0, 0, 0, 0x5d, 0xe9 } },  /* pop %rbp; jmp */
                { true, { 0, 0, 0, 0, 0, 0, 0, 0xc9, 0xe9 } },  /* leave; jmp */
                { false, { 0, 0, 0, 0, 0, 0, 0x85, 0xc9, 0x74 } },      /* test %ecx,%ecx; je */
                /* pop %rbp; cmp $1,%rcx; jg, of V8 */
                { true, { 0, 0, 0, 0x5d, 0x48, 0x83, 0xf9, 0x01, 0x7f } },
                { false, { 0, 0, 0, 0x5e, 0x48, 0x83, 0xf9, 0x01, 0x7f } },
                /* pop %r10; lea 8(%rsp,%rcx,8),%rsp; push %r10; ret, of V8: at each of them */
                { true, { 0, 0, 0, 0, 0, 0xc2, 0x10, 0, 0x41, 0x5a } },
                { true, { 0, 0, 0, 0xc2, 0x10, 0, 0x41, 0x5a, 0x48, 0x8d } },
                { true, { 0, 0x41, 0x5a, 0x48, 0x8d, 0x64, 0xcc, 0x08, 0x41, 0x52 } },
                { true, { 0x5a, 0x48, 0x8d, 0x64, 0xcc, 0x08, 0x41, 0x52, 0xc3 } },
                /* pop %r11; push %r12 */
                { false, { 0, 0, 0, 0, 0, 0, 0x41, 0x5b, 0x41, 0x54 } },
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                cr_assert_eq(made_frame_may_be_gone(cases[i].code), cases[i].is_gone, "case %zu", i);
}
#endif

/* Code of this process: it is read once, until something else may be there. */
Test(made_frame, is_looked_at_again_once_the_code_may_be_another) {
        static MadeFrames frames;
        uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        Process process = { .pid = getpid(), .generation = 7 };
        MadeReads reads = { .memory = -1 };
        MadeCode code = { .process = &process, .reads = &reads, .serial = 1,
                          .start = (uint64_t)(uintptr_t)page, .pc = (uint64_t)(uintptr_t)page + 16 };
        static const uint8_t with[] = { 0x55, 0x48, 0x89, 0xe5 };
        bool is_unread;

        cr_assert_neq(page, MAP_FAILED);
        memset(page, 0x90, 4096);
        cr_assert_not(made_frames_are_own(&frames, &code, &is_unread));
        memcpy(page, with, sizeof(with));
        cr_assert_not(made_frames_are_own(&frames, &code, &is_unread));
        code.serial = 2;
#if defined(__x86_64__)
        cr_assert(made_frames_are_own(&frames, &code, &is_unread));
        code.pc = code.start + 3;
        cr_assert_not(made_frames_are_own(&frames, &code, &is_unread), "rbp is not set before that");
        code.pc = code.start - 1;
        cr_assert_not(made_frames_are_own(&frames, &code, &is_unread));
#else
        cr_assert_not(made_frames_are_own(&frames, &code, &is_unread));
#endif
        cr_assert_not(is_unread);
        munmap(page, 4096);
        code.pc = code.start + 16;
        code.serial = 3;
        cr_assert_not(made_frames_are_own(&frames, &code, &is_unread), "nothing is there to be read");
        cr_assert(is_unread);
        made_reads_end(&reads);
}

/* Of each function one read; those that are known take none. */
Test(made_frame, is_looked_at_in_so_many_functions_of_a_stack_only) {
        static uint8_t page[4096];
        static MadeFrames frames;
        Process process = { .pid = getpid(), .generation = 7 };
        MadeReads reads = { .memory = -1 };
        MadeCode code = { .process = &process, .reads = &reads, .serial = 1 };
        bool is_unread;

        memset(page, 0x90, sizeof(page));
        for (size_t i = 0; i <= MADE_MAX_READS; i++) {
                code.start = (uint64_t)(uintptr_t)page + 64 * i;
                code.pc = code.start + 16;
                made_frames_are_own(&frames, &code, &is_unread);
                cr_assert_eq(is_unread, i == MADE_MAX_READS, "%zu", i);
        }
        made_reads_end(&reads);
        cr_assert_eq(reads.memory, -1);
        reads.n = MADE_MAX_READS;
        code.start -= 64;
        made_frames_are_own(&frames, &code, &is_unread);
        cr_assert_not(is_unread);
}

Test(made_frame, of_a_process_that_has_the_pid_by_now_is_not_looked_at) {
        static uint8_t page[4096];
        static MadeFrames frames;
        const Process process = { .pid = getpid(), .start_time_ns = 1, .generation = 7 };
        MadeReads reads = { .memory = -1 };
        const MadeCode code = { .process = &process, .reads = &reads, .start = (uint64_t)(uintptr_t)page,
                                .pc = (uint64_t)(uintptr_t)page + 16 };
        bool is_unread;

        memset(page, 0x90, sizeof(page));
        cr_assert_not(made_frames_are_own(&frames, &code, &is_unread));
        cr_assert(is_unread);
        made_reads_end(&reads);
}
