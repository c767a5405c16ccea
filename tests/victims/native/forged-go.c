/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says that it is a program of Go: its file has what Go's linker tells of the version. Where goroutines lie
 * is searched for in all of its code, in vain: each byte looks like the begin of the wanted instruction.
 *
 * usage: forged-go        lives for some milliseconds
 *
 * Compiled by test-run-neighbours.py.
 */
#include <unistd.h>

enum { LIFE_US = 30000 };

__asm__(".pushsection .go.buildinfo, \"aw\", @progbits\n"
        " .ascii \"\\377 Go buildinf:\"\n"
        " .byte 8, 2\n"                 /* size of a pointer; texts follow */
        " .skip 16\n"
        " .byte 8\n"
        " .ascii \"go1.22.0\"\n"
        ".popsection\n"
        ".pushsection .text\n"
        " .skip 16 << 20, 0x64\n"
        ".popsection\n");

/* Beside g there may be others, so its place does not follow from the block's size. */
static __thread volatile char block[64];

int main(void) {
        block[0] = 1;
        usleep(LIFE_US);
        return 0;
}
