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

#include <stdlib.h>
#include <string.h>

#include "core/base/elf/go-functions.h"
#include "core/base/util/macro.h"
#include "host/runtime/go/go-code.h"

enum {
        MAX_TABLE = 64 << 20,           /* bytes of .gopclntab */
        MAX_CODE = 1024,                /* bytes of the function; some 350 */
        EXCHANGE = 3,
};

static const char adder[] = "runtime.allgadd";

/* Addresses that the code names. */
typedef struct Place {
        uint64_t compared, list, length;
        unsigned n_pairs;
} Place;

/* Whether @code exchanges what lies where the register points that the `lea` before it has set. */
static bool exchanges_there(const uint8_t *lea, const uint8_t *code) {
        uint8_t reg = (uint8_t)((lea[2] >> 3 & 7) | (lea[0] & 4) << 1);
        uint8_t base = (uint8_t)((code[2] & 7) | (code[0] & 1) << 3);

        /* registers 4, 5, 12 and 13 need another form of the operand */
        return (code[0] & 0xfa) == 0x48 && code[1] == 0x87 && !(code[2] & 0xc0) && base == reg &&
                (reg & 6) != 4;
}

static void look_at(Place *place, const uint8_t *code, size_t size, uint64_t address) {
        for (size_t at = 0; at + GO_CODE_NAMING + EXCHANGE <= size; at++) {
                uint64_t named;

                if (go_code_names(code + at, 0x39, address + at, &named))
                        place->compared = named;
                if (!go_code_names(code + at, 0x8d, address + at, &named) ||
                    !exchanges_there(code + at, code + at + GO_CODE_NAMING))
                        continue;
                place->n_pairs++;
                place->list = place->length;
                place->length = named;
        }
}

static bool read_function(Place *place, const GoCode *code, uint64_t address, uint32_t size) {
        _cleanup_(freep) char *bytes = NULL;

        if (!go_code_read(code, address, size, &bytes))
                return false;
        look_at(place, (const uint8_t *)bytes, size, address);
        return place->n_pairs == 2 && place->compared == place->list && place->list != place->length &&
                go_code_is_variable(code, place->list, sizeof(uint64_t)) &&
                go_code_is_variable(code, place->length, sizeof(uint64_t));
}

static bool find_adder(const GoTable *table, GoFunction *function) {
        for (uint32_t i = 0; i < table->n; i++)
                if (go_table_function(table, i, function) && go_function_has_name(function, adder))
                        return function->size && function->size <= MAX_CODE;
        return false;
}

static bool find(const GoCode *code, uint64_t *listp, uint64_t *lengthp) {
        GoFunctions functions;
        GoFunction function;
        Place place = { 0 };
        bool is_found;

        if (go_functions_init(&functions, code->image, 0, MAX_TABLE, false))
                return false;
        is_found = find_adder(&functions.table, &function) &&
                read_function(&place, code, functions.text + function.start, function.size);
        go_functions_deinit(&functions);
        if (is_found) {
                *listp = place.list;
                *lengthp = place.length;
        }
        return is_found;
}

bool go_list_find(const GoInput *input, uint64_t *listp, uint64_t *lengthp) {
        ElfImage image;
        GoCode code;
        bool is_found;

        if (input->fd < 0 ? elf_image_init_memory(&image, input->data, input->size)
                          : elf_image_init(&image, input->fd, 0, input->size))
                return false;
        is_found = go_code_init(&code, &image) && find(&code, listp, lengthp);
        go_code_deinit(&code);
        elf_image_deinit(&image);
        return is_found;
}
