/* SPDX-License-Identifier: Apache-2.0 */

/*
 * From PHP 8.4 on ops of their own call functions of C without a frame (frameless), by a table that the file
 * exports: zend_flf_handlers. Code that calls an entry of it is one of a few places:
 *
 *     lea   zend_flf_handlers(%rip),%rax     a library: mov slot(%rip),%rax
 *     mov   0x14(%r15),%ecx                  the op's number of the function
 *     mov   (%rax),%rax
 *     call  *(%rax,%rcx,8)
 *     testb $0x6,0x1d(%r15)                  ◀─ the function returns to this address
 *
 * A native frame that goes on there is in such a function. All else that uses the table calls nothing by it.
 */
#include "host/runtime/php/php-program.h"

#include <string.h>

enum {
        MAX_BETWEEN = 48,               /* bytes from the address to the call */
        LOAD = 7,                       /* bytes of the instruction that has the address */
        NO_REGISTER = 0xff,
        REX_B = 1, REX_X = 2, REX_R = 4, REX_W = 8,
        LEA = 0x8d, MOV = 0x8b,
        NO_INDEX = 4,                   /* without REX_X */
        NO_BASE = 5,                    /* four bytes follow in place of the register */
};

/* The register that the instruction at ELF address @at loads the table's address or (*is_wordp) word to. */
static uint8_t loaded(const uint8_t *code, uint64_t at, const PhpTable *table, bool *is_wordp) {
        uint64_t target;
        int32_t distance;

        if ((code[0] & ~REX_R) != (0x40 | REX_W) || (code[1] != LEA && code[1] != MOV) ||
            (code[2] & 0xc7) != 5)
                return NO_REGISTER;
        memcpy(&distance, code + 3, sizeof(distance));
        target = at + LOAD + (uint64_t)(int64_t)distance;
        *is_wordp = code[1] == MOV && target == table->address;
        if (!*is_wordp && (code[1] == LEA ? target != table->address : !table->slot || target != table->slot))
                return NO_REGISTER;
        return (uint8_t)((code[2] >> 3 & 7) | (code[0] & REX_R ? 8 : 0));
}

/* Whether @code is `mov (%reg),%reg`. */
static bool is_word_of(const uint8_t *code, uint8_t reg) {
        uint8_t low = reg & 7, rex = 0x40 | REX_W | (reg & 8 ? REX_R | REX_B : 0);

        return code[0] == rex && code[1] == MOV && code[2] == (low << 3 | low) && low != 4 && low != 5;
}

/* Bytes of `call *(%reg,…,8)`; 0 = it is another instruction. */
static size_t call_size(const uint8_t *code, uint8_t reg) {
        size_t n = (code[0] & 0xf0) == 0x40 && !(code[0] & (REX_W | REX_R));
        uint8_t high = n && code[0] & REX_B ? 8 : 0;
        bool has_index = (code[n + 2] >> 3 & 7) != NO_INDEX || (n && code[0] & REX_X);

        return has_index && (code[n + 2] & 7) != NO_BASE && code[n] == 0xff && code[n + 1] == 0x14 &&
                        (code[n + 2] & 0xc0) == 0xc0 && ((code[n + 2] & 7) | high) == reg
                ? n + 3
                : 0;
}

bool php_call_decode(const uint8_t *code, uint64_t at, const PhpTable *table, uint64_t *goes_onp) {
        bool is_word = false;
        uint8_t reg = loaded(code, at, table, &is_word);
        size_t n;

        if (reg == NO_REGISTER)
                return false;
        for (size_t i = LOAD; i <= MAX_BETWEEN; i++) {
                n = is_word ? call_size(code + i, reg) : 0;
                if (n) {
                        *goes_onp = at + i + n;
                        return true;
                }
                is_word |= is_word_of(code + i, reg);
        }
        return false;
}
