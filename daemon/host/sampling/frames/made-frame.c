/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Compares the first bytes of a function with the ways in which compilers at run time make a frame, and keeps
 * the answers for a few functions, since each costs a read of the target's memory.
 *
 * Code that .NET puts in force while a slower form of the same function runs (OSR) has a frame below it:
 *
 *     saved rbp, of the function's caller       ◀─ rbp
 *     return address into the slower form       which never returns there
 *     the slower form's frame                   its saved rbp is the same, its return address the true caller's
 *
 * By rbp the slower form is met, and its caller is not: such a stack ends at the code that goes on, or at
 * code that may do so, since it is not known yet.
 */

#include "host/sampling/frames/made-frame.h"

#include <string.h>

#include "core/base/util/macro.h"
#include "host/sampling/process/memory.h"

#if defined(__x86_64__)

enum { ANY = -1 };                      /* any byte */

typedef struct Form {
        uint8_t size;
        int16_t bytes[24];
} Form;

/*
 * V8's code has its frame from elsewhere where it goes on for an interpreter's (OSR, which first checks the
 * stack by r13), or has a builtin make it (baseline, the call with the size in ebx and the bytecode in r12).
 */
static const Form forms[] = {
        { 4, { 0x55, 0x48, 0x89, 0xe5 } },              /* push %rbp; mov %rsp,%rbp, in two encodings */
        { 4, { 0x55, 0x48, 0x8b, 0xec } },
        { 8, { 0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5 } },      /* the same behind endbr64 */
        { 11, { 0xcc, 0x45, 0x33, 0xd2, 0x48, 0x83, 0xec, ANY, 0x49, 0x3b, 0x65 } },
        { 19, { 0xcc, 0x45, 0x33, 0xd2, 0x48, 0x83, 0xec, ANY, 0x4c, 0x8d, 0x94, 0x24, ANY, ANY, ANY, ANY,
                0x4d, 0x3b, 0x55 } },                   /* check of a large frame */
        { 14, { 0xcc, 0x45, 0x33, 0xd2, 0x48, 0x81, 0xec, ANY, ANY, ANY, ANY, 0x49, 0x3b, 0x65 } },
        { 20, { 0xbb, ANY, ANY, ANY, ANY, 0x49, 0xbc, ANY, ANY, ANY, ANY, ANY, ANY, ANY, ANY,
                0xe8, ANY, ANY, ANY, ANY } },
};

static bool has_form(const uint8_t *code, const Form *form) {
        for (size_t i = 0; i < form->size; i++)
                if (form->bytes[i] != ANY && form->bytes[i] != code[i])
                        return false;
        return true;
}

/* mov (%rbp),%rax; push %rax: the caller's rbp once more, of .NET's code that goes on for slower code (OSR). */
static const uint8_t goes_on[] = { 0x48, 0x8b, 0x45, 0x00, 0x50 };

bool made_frame_goes_on(const uint8_t *code, size_t size) {
        return size >= sizeof(goes_on) && !memcmp(code, goes_on, sizeof(goes_on));
}

/* Bytes of `push` of a register that is kept, or of rax, for room; 0 = none. */
static size_t push_size(const uint8_t *code, size_t size) {
        if (size && (code[0] == 0x53 || code[0] == 0x50))
                return 1;
        return size > 1 && code[0] == 0x41 && code[1] >= 0x54 && code[1] <= 0x57 ? 2 : 0;
}

/* An operand of one byte, or four. */
static int64_t operand(const uint8_t *code, bool is_long) {
        int32_t value;

        if (!is_long)
                return (int8_t)*code;
        memcpy(&value, code, sizeof(value));
        return value;
}

/*
 * .NET's frame: push %rbp, or what stands for it (above); more pushes; sub $N,%rsp; lea M(%rsp),%rbp. It is
 * one if M leads to the first push.
 */
static size_t dotnet_prologue(const uint8_t *code, size_t size) {
        size_t at = made_frame_goes_on(code, size) ? sizeof(goes_on) : size && *code == 0x55, n;
        int64_t depth = 0;

        if (!at)
                return 0;
        for (; (n = push_size(code + at, size - at)); at += n)
                depth += 8;
        if (at + 7 <= size && code[at] == 0x48 && (code[at + 1] | 2) == 0x83 && code[at + 2] == 0xec) {
                depth += operand(code + at + 3, code[at + 1] == 0x81);
                at += code[at + 1] == 0x81 ? 7 : 4;
        }
        if (at + 3 <= size && code[at] == 0xc5 && code[at + 1] == 0xf8 && code[at + 2] == 0x77)
                at += 3;                /* vzeroupper */
        if (!depth && at + 3 <= size && code[at] == 0x48 && code[at + 1] == 0x8b && code[at + 2] == 0xec)
                return at + 3;          /* mov %rsp,%rbp */
        n = at + 2 < size && code[at + 2] == 0xac ? 8 : 5;
        if (at + n > size || code[at] != 0x48 || code[at + 1] != 0x8d || (code[at + 2] & 0x3f) != 0x2c ||
            (n == 5 && code[at + 2] != 0x6c) || code[at + 3] != 0x24 ||
            operand(code + at + 4, n == 8) != depth)
                return 0;
        return at + n;
}

/* A function that may be left counts its rounds in its frame, so it has one with room. */
bool made_frame_may_be_left(const uint8_t *code, size_t size) {
        return dotnet_prologue(code, size) > 4;
}

size_t made_frame_prologue(const uint8_t *code, size_t size) {
        for (size_t i = 0; i < ARRAY_SIZE(forms); i++)
                if (forms[i].size <= size && has_form(code, &forms[i]))
                        return forms[i].size;
        return dotnet_prologue(code, size);
}

/*
 * At `ret`, behind `pop %rbp`, where V8's code goes on to compare the number of arguments, or behind `leave` at
 * a jump to another function. Where there are more arguments than V8's function has, it drops them by
 * `pop %r10; lea (%rsp,…),%rsp; push %r10; ret`, and has its return address in r10 meanwhile.
 */
bool made_frame_may_be_gone(const uint8_t code[MADE_END_SIZE]) {
        const uint8_t *at = code + MADE_END_BEFORE;

        if (*at == 0xc3 || *at == 0xc2 || at[-1] == 0x5d)
                return true;
        if (at[-5] == 0x5d && at[-4] == 0x48 && at[-3] == 0x83 && at[-2] == 0xf9)
                return true;
        if ((*at == 0x41 && (at[1] == 0x5a || at[1] == 0x52)) || (at[-2] == 0x41 && at[-1] == 0x5a))
                return true;
        return at[-1] == 0xc9 && (*at == 0xe9 || *at == 0xeb || *at == 0xff || *at == 0x41);
}

#else

/* No form is known: there is no frame that is proved so. */
size_t made_frame_prologue(const uint8_t *code, size_t size) {
        return 0;
}

bool made_frame_may_be_gone(const uint8_t code[MADE_END_SIZE]) {
        return true;
}

bool made_frame_goes_on(const uint8_t *code, size_t size) {
        return false;
}

bool made_frame_may_be_left(const uint8_t *code, size_t size) {
        return false;
}

#endif

void made_reads_end(MadeReads *reads) {
        closep(&reads->memory);
        reads->memory = -1;
}

/* Return: whether it could be read. A process that has the pid by now is not read. */
static bool read_code(const MadeCode *code, uint64_t address, uint8_t *to, size_t size) {
        MadeReads *reads = code->reads;
        const Process *process = code->process;

        if (reads->n >= MADE_MAX_READS)
                return false;
        reads->n++;
        if (reads->memory < 0)
                reads->memory = memory_open(process->pid, process->start_time_ns);
        return reads->memory >= 0 && !memory_read_opened(process->pid, reads->memory, address, to, size);
}

/* Return: NULL = it cannot be read now. */
static const MadeFunction *find_function(MadeFrames *frames, const MadeCode *code) {
        MadeFunction *known = &frames->known[code->start / 16 % MADE_N_KNOWN];
        uint8_t bytes[MADE_CODE_SIZE];

        if (known->start == code->start && known->generation == code->process->generation &&
            known->serial == code->serial)
                return known;
        if (!read_code(code, code->start, bytes, sizeof(bytes)))
                return NULL;
        *known = (MadeFunction){ code->process->generation, code->serial, code->start,
                                 (uint32_t)made_frame_prologue(bytes, sizeof(bytes)),
                                 made_frame_goes_on(bytes, sizeof(bytes)),
                                 made_frame_may_be_left(bytes, sizeof(bytes)) };
        return known;
}

bool made_frames_go_on(MadeFrames *frames, const MadeCode *code, bool *is_unreadp) {
        const MadeFunction *function = find_function(frames, code);

        *is_unreadp = !function;
        return function && function->goes_on;
}

bool made_frames_may_be_left(MadeFrames *frames, const MadeCode *code) {
        const MadeFunction *function = find_function(frames, code);

        return function && function->may_be_left;
}

bool made_frames_are_own(MadeFrames *frames, const MadeCode *code, bool *is_unreadp) {
        const MadeFunction *function = find_function(frames, code);
        uint8_t bytes[MADE_END_SIZE];

        *is_unreadp = !function;
        if (!function || !function->prologue || code->pc < code->start ||
            code->pc - code->start < function->prologue)
                return false;
        if (!code->is_leaf)
                return true;
        *is_unreadp = !read_code(code, code->pc - MADE_END_BEFORE, bytes, sizeof(bytes));
        return !*is_unreadp && !made_frame_may_be_gone(bytes);
}
