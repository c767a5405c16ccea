/* SPDX-License-Identifier: Apache-2.0 */

/*
 * libgcc up to gcc 12 has two lists under one mutex, and no symbol names any of the three. But code of theirs
 * is exported (objdump of Debian 12's):
 *
 *     __register_frame_info_bases            _Unwind_Find_FDE
 *         lea 0x1f240(%rip),%rdi   mutex         lea 0x1f240(%rip),%rdi   the same mutex
 *         mov 0x1f278(%rip),%rax   unseen        mov 0x1f270(%rip),%rbx   seen
 *         mov %rbx,0x1f278(%rip)                 mov 0x1f278(%rip),%rbx   unseen
 *
 * So `unseen` is what the first function both loads and stores, the mutex is what it takes the address of,
 * and `seen` is the other one that the second function loads. Each has to be the only one of its kind in
 * memory that stays writable.
 *
 * gcc 13 and later keep a tree by address, with locks of its own. The mutex is that of who sorts an object
 * (Debian 13's):
 *
 *     __register_frame_info_bases            _Unwind_Find_FDE
 *         lea 0x2c290(%rip),%rdi   another       mov 0x2c2b0(%rip),%rax   the tree: its root
 *         lea 0x2c2b0(%rip),%rdi   the tree      mov 0x2c2c0(%rip),%rax   its lock, 16 bytes behind
 *                                                lea 0x2c260(%rip),%rdi   mutex
 *
 * So the tree is what the first function takes the address of and the second one loads, with what lies 16
 * bytes behind. The other tree (from gcc 14 on) has the same objects by the address of their section. The
 * first function may end with a jump to one that does its work (Debian sid's), which is read in its place.
 *
 * LLVM's libunwind keeps functions in an array, under a lock of readers and a writer. What takes one out is
 * exported (that of LLVM 19 is a jump there):
 *
 *     __unw_remove_dynamic_fde
 *         lea 0xac6a(%rip),%rdi    the lock
 *         mov 0xac2a(%rip),%rax    the array's begin
 *         mov 0xac2b(%rip),%rcx    its end
 *         mov %rax,0xabf2(%rip)    the same, stored
 *
 * Code is not decoded: any seven bytes that look like such an instruction count. One that is none would have
 * to name a variable by chance, and then there are two, and the library is refused.
 */
#include "host/sampling/unwind/made/frame-variables.h"

#include <string.h>

#include "core/base/util/macro.h"

enum {
        INSTRUCTION = 7,                /* bytes: REX.W, opcode, ModRM, distance */
        OP_LOAD = 0x8b,
        OP_STORE = 0x89,
        OP_ADDRESS = 0x8d,
        OP_JUMP = 0xe9,
        JUMP = 5,                       /* bytes: opcode, distance */
        FRAME_TAIL = 512,               /* bytes that are read of a function without a symbol */
};

/* Whether 8 bytes at an ELF address are a variable: in writable memory, also once the loader is done. */
static bool is_variable(const DynamicImage *image, uint64_t address) {
        bool is_writable = false;

        for (unsigned i = 0; i < image->n_headers; i++) {
                const Elf64_Phdr *header = &image->headers[i];
                bool holds = address >= header->p_vaddr && header->p_memsz >= 8 &&
                        address - header->p_vaddr <= header->p_memsz - 8;

                if (header->p_type == PT_GNU_RELRO && holds)
                        return false;
                is_writable = is_writable || (header->p_type == PT_LOAD && header->p_flags & PF_W && holds);
        }
        return is_writable && address % 8 == 0;
}

/*
 * The next instruction of kind @opcode from *@atp on that names a variable by its distance from itself.
 * Return: its ELF address, 0 = there is none.
 */
static uint64_t next_variable(const DynamicImage *image, const FrameCode *code, uint8_t opcode,
                              uint32_t *atp) {
        for (uint32_t at = *atp; at + INSTRUCTION <= code->size; at++) {
                const uint8_t *bytes = code->bytes + at;
                uint64_t address;
                int32_t distance;

                if ((bytes[0] & 0xfb) != 0x48 || bytes[1] != opcode || (bytes[2] & 0xc7) != 0x05)
                        continue;
                memcpy(&distance, bytes + 3, sizeof(distance));
                address = code->address + at + INSTRUCTION + (uint64_t)(int64_t)distance;
                if (!is_variable(image, address))
                        continue;
                *atp = at + 1;
                return address;
        }
        return 0;
}

static bool names(const DynamicImage *image, const FrameCode *code, uint8_t opcode, uint64_t variable) {
        uint32_t at = 0;
        uint64_t address;

        while ((address = next_variable(image, code, opcode, &at)))
                if (address == variable)
                        return true;
        return false;
}

/*
 * The only variable that @code names by @opcode, apart from @but; with @is_stored only of those that it
 * stores, too. Return: 0 = there is none, or there are several.
 */
static uint64_t only_variable(const DynamicImage *image, const FrameCode *code, uint8_t opcode, uint64_t but,
                              bool is_stored) {
        uint64_t address, only = 0;
        uint32_t at = 0;

        while ((address = next_variable(image, code, opcode, &at))) {
                if (address == but || (is_stored && !names(image, code, OP_STORE, address)))
                        continue;
                if (only && only != address)
                        return 0;
                only = address;
        }
        return only;
}

FrameVariables frame_variables_at(const FrameVariables *variables, uint64_t bias) {
        return (FrameVariables){ .lock = variables->lock + bias,
                                 .unseen = variables->unseen ? variables->unseen + bias : 0,
                                 .seen = variables->seen ? variables->seen + bias : 0,
                                 .begin = variables->used ? variables->begin + bias : 0,
                                 .used = variables->used ? variables->used + bias : 0 };
}

/* The only tree. Return: 0 = there is none, or there are several. */
static uint64_t only_tree(const DynamicImage *image, const FrameCode *registrar, const FrameCode *finder) {
        uint64_t address, only = 0;
        uint32_t at = 0;

        while ((address = next_variable(image, finder, OP_LOAD, &at))) {
                if (!names(image, registrar, OP_ADDRESS, address) ||
                    !names(image, finder, OP_LOAD, address + FRAME_TREE_LOCK))
                        continue;
                if (only && only != address)
                        return 0;
                only = address;
        }
        return only;
}

static int learn_tree(const DynamicImage *image, const FrameCode *registrar, const FrameCode *finder,
                      FrameVariables *variables) {
        FrameVariables found = { .unseen = only_tree(image, registrar, finder),
                                 .lock = only_variable(image, finder, OP_ADDRESS, 0, false) };

        if (!found.unseen || !found.lock ||
            (found.lock >= found.unseen && found.lock <= found.unseen + FRAME_TREE_LOCK))
                return FRAME_VARIABLES_E_UNKNOWN;
        *variables = found;
        return 0;
}

int frame_variables_learn(const DynamicImage *image, const FrameCode *registrar, const FrameCode *finder,
                          FrameVariables *variables) {
        FrameVariables found = { .unseen = only_variable(image, registrar, OP_LOAD, 0, true),
                                 .lock = only_variable(image, registrar, OP_ADDRESS, 0, false) };

        found.seen = only_variable(image, finder, OP_LOAD, found.unseen, false);
        if (!found.unseen || !found.lock || !found.seen || found.lock == found.unseen ||
            found.lock == found.seen || !names(image, finder, OP_LOAD, found.unseen) ||
            !names(image, finder, OP_ADDRESS, found.lock))
                return learn_tree(image, registrar, finder, variables);
        *variables = found;
        return 0;
}

int frame_variables_learn_array(const DynamicImage *image, const FrameCode *remover,
                                FrameVariables *variables) {
        FrameVariables found = { .used = only_variable(image, remover, OP_LOAD, 0, true),
                                 .lock = only_variable(image, remover, OP_ADDRESS, 0, false) };

        found.begin = only_variable(image, remover, OP_LOAD, found.used, false);
        if (!found.used || !found.lock || !found.begin || found.lock == found.used ||
            found.lock == found.begin)
                return FRAME_VARIABLES_E_UNKNOWN;
        *variables = found;
        return 0;
}

/* Return: 0, FRAME_VARIABLES_E_*. */
static int read_code(const DynamicImage *image, const char *name, uint8_t bytes[FRAME_MAX_FUNCTION],
                     FrameCode *code) {
        Elf64_Sym symbol;
        uint32_t index;

        if (!dynamic_image_find(image, name, &index, &symbol))
                return FRAME_VARIABLES_E_NONE;
        if (symbol.st_size > FRAME_MAX_FUNCTION || symbol.st_size < JUMP ||
            !dynamic_image_read(image, symbol.st_value, bytes, symbol.st_size))
                return FRAME_VARIABLES_E_UNKNOWN;
        *code = (FrameCode){ bytes, (uint32_t)symbol.st_size, symbol.st_value };
        return 0;
}

/* The code that @code ends with a jump to. Return: whether it does. */
static bool read_tail(const DynamicImage *image, const FrameCode *code, uint8_t bytes[FRAME_TAIL],
                      FrameCode *tail) {
        int32_t distance;

        if (code->size < JUMP || code->bytes[code->size - JUMP] != OP_JUMP)
                return false;
        memcpy(&distance, code->bytes + code->size - sizeof(distance), sizeof(distance));
        *tail = (FrameCode){ bytes, FRAME_TAIL, code->address + code->size + (uint64_t)(int64_t)distance };
        return dynamic_image_read(image, tail->address, bytes, FRAME_TAIL);
}

/* Return: 0, FRAME_VARIABLES_E_*. */
static int find_array(const DynamicImage *image, FrameVariables *variables) {
        uint8_t bytes[FRAME_MAX_FUNCTION], tail_bytes[FRAME_TAIL];
        FrameCode remover, tail;
        int r = read_code(image, "__unw_remove_dynamic_fde", bytes, &remover);

        if (r)
                return r;
        r = frame_variables_learn_array(image, &remover, variables);
        if (r && read_tail(image, &remover, tail_bytes, &tail))
                r = frame_variables_learn_array(image, &tail, variables);
        return r;
}

int frame_variables_find(const DynamicImage *image, FrameVariables *variables) {
        uint8_t registrar_bytes[FRAME_MAX_FUNCTION], finder_bytes[FRAME_MAX_FUNCTION], tail_bytes[FRAME_TAIL];
        FrameCode registrar, finder, tail;
        int r = find_array(image, variables);

        /* LLVM's has libgcc's functions, too, and they do nothing */
        if (r != FRAME_VARIABLES_E_NONE)
                return r;
        r = read_code(image, "__register_frame_info_bases", registrar_bytes, &registrar);
        if (!r)
                r = read_code(image, "_Unwind_Find_FDE", finder_bytes, &finder);
        if (r)
                return r;
        r = frame_variables_learn(image, &registrar, &finder, variables);
        if (r && read_tail(image, &registrar, tail_bytes, &tail))
                r = frame_variables_learn(image, &tail, &finder, variables);
        return r;
}
