/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Finds code and variables by the file's segments. A file may say anything of them, so all are held against
 * its size.
 */
#include "host/runtime/go/go-code.h"

#include <elf.h>
#include <stdlib.h>

bool go_code_init(GoCode *code, const ElfImage *image) {
        *code = (GoCode){ .image = image };
        return !elf_image_segments(image, &code->segments, &code->n_segments);
}

void go_code_deinit(GoCode *code) {
        free(code->segments);
        *code = (GoCode){ 0 };
}

bool go_code_read(const GoCode *code, uint64_t address, uint32_t size, char **bytesp) {
        for (uint32_t i = 0; i < code->n_segments; i++) {
                const Elf64_Phdr *segment = &code->segments[i];

                if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X) || address < segment->p_vaddr ||
                    segment->p_filesz < size || address - segment->p_vaddr > segment->p_filesz - size ||
                    segment->p_offset > code->image->size)
                        continue;
                return !elf_image_read(code->image, segment->p_offset + (address - segment->p_vaddr), size,
                                       bytesp);
        }
        return false;
}

bool go_code_is_variable(const GoCode *code, uint64_t address, uint64_t size) {
        for (uint32_t i = 0; i < code->n_segments; i++) {
                const Elf64_Phdr *segment = &code->segments[i];

                if (segment->p_type == PT_LOAD && segment->p_flags & PF_W && address >= segment->p_vaddr &&
                    segment->p_memsz >= size && address - segment->p_vaddr <= segment->p_memsz - size)
                        return address % size == 0;
        }
        return false;
}

bool go_code_names(const uint8_t *bytes, uint8_t opcode, uint64_t address, uint64_t *namedp) {
        if ((bytes[0] & 0xfb) != 0x48 || bytes[1] != opcode || (bytes[2] & 0xc7) != 0x05)
                return false;
        *namedp = go_code_address(bytes + 3, address + GO_CODE_NAMING);
        return true;
}
