/* SPDX-License-Identifier: Apache-2.0 */

/*
 * LLVM writes no call frame information for a function that throws nothing, which is all that numba compiles.
 * But the list for debuggers says where it begins and ends. So it is followed from there, as code of files
 * that nobody describes is, and its rows are written as a compiler would have:
 *
 *     push %rbx           rsp + 8         CFA rsp + 8
 *     sub $16,%rsp        rsp + 16        CFA rsp + 16, rbx at CFA - 16
 *     …                   rsp + 32        CFA rsp + 32
 *     ret                 not understood  the FDE ends before
 *
 * Who lists code may list what is no function: a part that its compiler has moved away (`foo.cold`), or code
 * that an interpreter jumps to and that jumps back. So code counts only if it returns as it was called.
 *
 * The scan takes files. So there is one of a segment and a symbol around the code.
 */
#include "host/sampling/unwind/made/made-code.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "border/unwind_abi.h"
#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "host/sampling/unwind/scan/scan.h"

#if defined(__x86_64__)
enum { MACHINE = EM_X86_64 };
#else
enum { MACHINE = EM_AARCH64 };
#endif

enum {
        RBX = 3,                        /* psABI, figure 3.36 */
        RBP = 6,
        RSP = 7,
        CFA_ADVANCE_4 = 0x04,           /* DWARF 5, 7.24 */
        CFA_UNDEFINED = 0x07,
        CFA_SAME = 0x08,
        CFA_DEFINE = 0x0c,
        CFA_OFFSET = 0x80,
        MAX_ROW = 32,                   /* bytes of a row's instructions */
        MAX_ENTRY = 16384,              /* bytes of an FDE; a longer function has several */
};

typedef struct Image {
        Elf64_Ehdr header;
        Elf64_Phdr segment;
        Elf64_Shdr sections[2];
        Elf64_Sym symbols[2];
} Image;

void made_code_deinit(MadeCode *made) {
        free(made->frames);
        *made = (MadeCode){ 0 };
}

/* Return: NULL = no memory. */
static uint8_t *make_image(const uint8_t *code, uint32_t size, uint64_t start) {
        const Image image = {
                .header = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
                                         EV_CURRENT },
                            .e_type = ET_DYN, .e_machine = MACHINE, .e_version = EV_CURRENT,
                            .e_phoff = offsetof(Image, segment), .e_shoff = offsetof(Image, sections),
                            .e_ehsize = sizeof(Elf64_Ehdr), .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 1,
                            .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = 2 },
                .segment = { .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_offset = sizeof(Image),
                             .p_vaddr = start, .p_filesz = size, .p_memsz = size, .p_align = 1 },
                .sections[1] = { .sh_type = SHT_SYMTAB, .sh_offset = offsetof(Image, symbols),
                                 .sh_size = sizeof(image.symbols), .sh_entsize = sizeof(Elf64_Sym) },
                .symbols[1] = { .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = SHN_ABS,
                                .st_value = start, .st_size = size },
        };
        uint8_t *bytes = malloc(sizeof(image) + size);

        if (!bytes)
                return NULL;
        memcpy(bytes, &image, sizeof(image));
        memcpy(bytes + sizeof(image), code, size);
        return bytes;
}

/* ---- frames ---- */

static void put(MadeCode *made, const void *data, uint32_t size) {
        memcpy(made->frames + made->size, data, size);
        made->size += size;
}

static void put_byte(MadeCode *made, uint8_t byte) {
        put(made, &byte, 1);
}

static void put_number(MadeCode *made, uint32_t value) {
        for (; value > 0x7f; value >>= 7)
                put_byte(made, (uint8_t)(value | 0x80));
        put_byte(made, (uint8_t)value);
}

/* Room for @size bytes more. Return: 0, -ENOMEM. */
static int reserve(MadeCode *made, uint32_t size) {
        return array_reserve(&made->frames, &made->room, made->size + size, 4096);
}

/* Writes the length of the entry that begins at @begin. */
static void end_entry(MadeCode *made, uint32_t begin) {
        uint32_t length;

        while ((made->size - begin - sizeof(length)) % 8)
                put_byte(made, 0);
        length = made->size - begin - (uint32_t)sizeof(length);
        memcpy(made->frames + begin, &length, sizeof(length));
}

/* Return: 0, -ENOMEM. */
static int put_cie(MadeCode *made) {
        /* version 1, absolute addresses; CFA = rsp + 8, return address at CFA - 8 */
        static const uint8_t cie[] = { 0, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0,
                                       CFA_DEFINE, RSP, 8, CFA_OFFSET | 16, 1 };
        int r = reserve(made, 2 * sizeof(cie));

        if (r)
                return r;
        put(made, cie, sizeof(cie));
        end_entry(made, 0);
        return 0;
}

/* Whether a row says what can be written. */
static bool is_plain(uint64_t rule) {
        uint32_t cfa = unwind_rule_cfa(rule), rbp = unwind_rule_rbp(rule);

        return (cfa == UNWIND_CFA_RSP || cfa == UNWIND_CFA_RBP || cfa == UNWIND_CFA_RBX) &&
                unwind_rule_offset(rule) > 0 && rbp != UNWIND_RBP_AT_RBP &&
                (rbp != UNWIND_RBP_AT_CFA ||
                 (unwind_rule_rbp_offset(rule) < 0 && unwind_rule_rbp_offset(rule) % 8 == 0));
}

static void put_saved(MadeCode *made, uint8_t reg, bool is_same, uint32_t n_words) {
        if (n_words) {
                put_byte(made, CFA_OFFSET | reg);
                put_number(made, n_words);
        } else {
                put_byte(made, is_same ? CFA_SAME : CFA_UNDEFINED);
                put_byte(made, reg);
        }
}

static void put_rule(MadeCode *made, uint64_t rule) {
        uint32_t cfa = unwind_rule_cfa(rule), rbp = unwind_rule_rbp(rule), rbx = unwind_rule_rbx(rule);

        put_byte(made, CFA_DEFINE);
        put_byte(made, cfa == UNWIND_CFA_RSP ? RSP : cfa == UNWIND_CFA_RBP ? RBP : RBX);
        put_number(made, (uint32_t)unwind_rule_offset(rule));
        put_saved(made, RBP, rbp == UNWIND_RBP_SAME,
                  rbp == UNWIND_RBP_AT_CFA ? (uint32_t)-unwind_rule_rbp_offset(rule) / 8 : 0);
        put_saved(made, RBX, rbx == UNWIND_RBX_SAME, rbx <= UNWIND_RBX_MAX ? rbx : 0);
}

/* An FDE of rows from *@ip on. *ip: behind them. Return: 0, -ENOMEM. */
static int put_fde(MadeCode *made, const CfiFunction *function, uint32_t *ip) {
        uint64_t start = function->rows[*ip].address, at = start, size;
        uint32_t begin, distance, i = *ip;
        int r = reserve(made, MAX_ENTRY + 2 * MAX_ROW + 64);

        if (r)
                return r;
        begin = made->size;
        distance = begin + (uint32_t)sizeof(distance);
        put(made, (const uint32_t[]){ 0, distance }, 2 * sizeof(distance));
        put(made, &start, sizeof(start));
        put(made, &start, sizeof(start));       /* the function's size, below */
        put_byte(made, 0);                      /* no augmentation */
        for (; i < function->n_rows && is_plain(function->rows[i].rule) && made->size - begin < MAX_ENTRY;
             i++) {
                uint32_t further = (uint32_t)(function->rows[i].address - at);

                if (further) {
                        put_byte(made, CFA_ADVANCE_4);
                        put(made, &further, sizeof(further));
                }
                at = function->rows[i].address;
                put_rule(made, function->rows[i].rule);
        }
        size = (i < function->n_rows ? function->rows[i].address : function->end) - start;
        memcpy(made->frames + begin + 2 * sizeof(distance) + sizeof(start), &size, sizeof(size));
        end_entry(made, begin);
        *ip = i;
        return 0;
}

/* Return: 0, -ENOMEM. */
static int put_function(MadeCode *made, const CfiFunction *function) {
        int r = made->size ? 0 : put_cie(made);

        for (uint32_t i = 0; i < function->n_rows && !r;) {
                if (is_plain(function->rows[i].rule))
                        r = put_fde(made, function, &i);
                else
                        i++;
        }
        return r;
}

int made_code_add(MadeCode *made, const uint8_t *code, uint32_t size, uint64_t start) {
        _cleanup_(freep) uint8_t *image = make_image(code, size, start);
        _cleanup_(scan_freep) Scan *scan = NULL;
        CfiFunction function;
        int r;

        if (!image)
                return error_origin(-ENOMEM);
        r = scan_new_memory(&scan, image, sizeof(Image) + size);
        if (r)
                return MIN(r, 0);
        r = scan_gap(scan, start, start + size);
        if (!r && !scan_returns(scan))
                return 0;
        while (!r && !scan_next(scan, &function))
                r = put_function(made, &function);
        return r;
}
