/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A stripped program has no symbol for its list of goroutines, but a function that adds to it, and .gopclntab
 * says where that is (core/base/elf/go-functions.h). It stores array and length by two exchanges, the array
 * first:
 *
 *     runtime.allgadd   cmp  %rbx,allgptr(%rip)
 *                       lea  allgptr(%rip),%rcx;  xchg %rbx,(%rcx)
 *                       lea  allglen(%rip),%rdx;  xchg %rcx,(%rdx)
 *
 * So it is from Go 1.18 to 1.27. Exactly two such pairs are asked for, the comparison in front, and that both
 * words are aligned and lie in memory that the program may write.
 */
#include "host/runtime/go/go-list.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/elf/go-functions.h"
#include "core/base/util/macro.h"

enum {
        MAX_TABLE = 64 << 20,           /* bytes of .gopclntab */
        MAX_CODE = 1024,                /* bytes of the function; some 350 */
        INSTRUCTION = 7,                /* bytes of those that name an address */
        EXCHANGE = 3,
};

static const char adder[] = "runtime.allgadd";

/* Parts of a file that are read. */
typedef struct Place {
        const Elf64_Phdr *segments;
        uint32_t n_segments;
        uint64_t compared, list, length;
        unsigned n_pairs;
} Place;

static bool is_writable(const Place *place, uint64_t address) {
        for (uint32_t i = 0; i < place->n_segments; i++) {
                const Elf64_Phdr *segment = &place->segments[i];

                if (segment->p_type == PT_LOAD && segment->p_flags & PF_W && address >= segment->p_vaddr &&
                    segment->p_memsz >= sizeof(uint64_t) &&
                    address - segment->p_vaddr <= segment->p_memsz - sizeof(uint64_t))
                        return address % sizeof(uint64_t) == 0;
        }
        return false;
}

/* The address that an instruction with REX.W, @opcode and a place relative to itself names. */
static bool names_address(const uint8_t *code, uint8_t opcode, uint64_t address, uint64_t *namedp) {
        int32_t distance;

        if ((code[0] & 0xfb) != 0x48 || code[1] != opcode || (code[2] & 0xc7) != 0x05)
                return false;
        memcpy(&distance, code + 3, sizeof(distance));
        *namedp = address + INSTRUCTION + (uint64_t)(int64_t)distance;
        return true;
}

/* Whether @code exchanges what lies where the register points that the `lea` before it has set. */
static bool exchanges_there(const uint8_t *lea, const uint8_t *code) {
        uint8_t reg = (uint8_t)((lea[2] >> 3 & 7) | (lea[0] & 4) << 1);
        uint8_t base = (uint8_t)((code[2] & 7) | (code[0] & 1) << 3);

        /* registers 4, 5, 12 and 13 need another form of the operand */
        return (code[0] & 0xfa) == 0x48 && code[1] == 0x87 && !(code[2] & 0xc0) && base == reg &&
                (reg & 6) != 4;
}

static void look_at(Place *place, const uint8_t *code, size_t size, uint64_t address) {
        for (size_t at = 0; at + INSTRUCTION + EXCHANGE <= size; at++) {
                uint64_t named;

                if (names_address(code + at, 0x39, address + at, &named))
                        place->compared = named;
                if (!names_address(code + at, 0x8d, address + at, &named) ||
                    !exchanges_there(code + at, code + at + INSTRUCTION))
                        continue;
                place->n_pairs++;
                place->list = place->length;
                place->length = named;
        }
}

static bool read_function(Place *place, const ElfImage *image, uint64_t address, uint32_t size) {
        for (uint32_t i = 0; i < place->n_segments; i++) {
                const Elf64_Phdr *segment = &place->segments[i];
                _cleanup_(freep) char *code = NULL;

                if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X) || address < segment->p_vaddr ||
                    segment->p_filesz < size || address - segment->p_vaddr > segment->p_filesz - size ||
                    segment->p_offset > image->size)
                        continue;
                if (elf_image_read(image, segment->p_offset + (address - segment->p_vaddr), size, &code))
                        return false;
                look_at(place, (const uint8_t *)code, size, address);
                return place->n_pairs == 2 && place->compared == place->list &&
                        place->list != place->length && is_writable(place, place->list) &&
                        is_writable(place, place->length);
        }
        return false;
}

static bool find_adder(const GoTable *table, GoFunction *function) {
        for (uint32_t i = 0; i < table->n; i++)
                if (go_table_function(table, i, function) && function->n_name == sizeof(adder) - 1 &&
                    !memcmp(function->name, adder, sizeof(adder) - 1))
                        return function->size && function->size <= MAX_CODE;
        return false;
}

static bool find(const ElfImage *image, uint64_t *listp, uint64_t *lengthp) {
        _cleanup_(freep) Elf64_Phdr *segments = NULL;
        GoFunctions functions;
        GoFunction function;
        Place place = { 0 };
        bool is_found;

        if (elf_image_segments(image, &segments, &place.n_segments) ||
            go_functions_init(&functions, image, 0, MAX_TABLE, false))
                return false;
        place.segments = segments;
        is_found = find_adder(&functions.table, &function) &&
                read_function(&place, image, functions.text + function.start, function.size);
        go_functions_deinit(&functions);
        if (is_found) {
                *listp = place.list;
                *lengthp = place.length;
        }
        return is_found;
}

bool go_list_find(const GoInput *input, uint64_t *listp, uint64_t *lengthp) {
        ElfImage image;
        bool is_found;

        if (input->fd < 0 ? elf_image_init_memory(&image, input->data, input->size)
                          : elf_image_init(&image, input->fd, 0, input->size))
                return false;
        is_found = find(&image, listp, lengthp);
        elf_image_deinit(&image);
        return is_found;
}
