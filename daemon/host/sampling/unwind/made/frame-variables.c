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
 * Code is not decoded: any seven bytes that look like such an instruction count. One that is none would have
 * to name a variable by chance, and then there are two, and the library is refused. So are gcc 13 and later,
 * which keep a tree.
 */
#include "host/sampling/unwind/made/frame-variables.h"

#include <string.h>

#include "core/base/util/macro.h"

enum {
        INSTRUCTION = 7,                /* bytes: REX.W, opcode, ModRM, distance */
        OP_LOAD = 0x8b,
        OP_STORE = 0x89,
        OP_ADDRESS = 0x8d,
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

int frame_variables_learn(const DynamicImage *image, const FrameCode *registrar, const FrameCode *finder,
                          FrameVariables *variables) {
        FrameVariables found = { .unseen = only_variable(image, registrar, OP_LOAD, 0, true),
                                 .lock = only_variable(image, registrar, OP_ADDRESS, 0, false) };

        found.seen = only_variable(image, finder, OP_LOAD, found.unseen, false);
        if (!found.unseen || !found.lock || !found.seen || found.lock == found.unseen ||
            found.lock == found.seen || !names(image, finder, OP_LOAD, found.unseen) ||
            !names(image, finder, OP_ADDRESS, found.lock))
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
        if (symbol.st_size > FRAME_MAX_FUNCTION || symbol.st_size < INSTRUCTION ||
            !dynamic_image_read(image, symbol.st_value, bytes, symbol.st_size))
                return FRAME_VARIABLES_E_UNKNOWN;
        *code = (FrameCode){ bytes, (uint32_t)symbol.st_size, symbol.st_value };
        return 0;
}

int frame_variables_find(const DynamicImage *image, FrameVariables *variables) {
        uint8_t registrar_bytes[FRAME_MAX_FUNCTION], finder_bytes[FRAME_MAX_FUNCTION];
        FrameCode registrar, finder;
        int r = read_code(image, "__register_frame_info_bases", registrar_bytes, &registrar);

        if (!r)
                r = read_code(image, "_Unwind_Find_FDE", finder_bytes, &finder);
        return r ? r : frame_variables_learn(image, &registrar, &finder, variables);
}
