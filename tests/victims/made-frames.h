/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Call frame information as LLVM's compiler at run time hands it to libgcc: one section, 64 bytes of text
 * apart or not, by the LSB's "Exception Frames".
 */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { MADE_FRAMES_SIZE = 4096 };       /* more than a section of 16 functions needs */

typedef struct MadeFunctionFrame {
        const void *code;
        uint32_t size;
        uint32_t frame;                 /* bytes below the return address, behind its first 4 bytes of code */
        uint32_t frame_end;             /* offset in the code where they are gone, 5 … 67; 0 = its end */
} MadeFunctionFrame;

static inline uint8_t *made_frames_put(uint8_t *to, const void *data, size_t size) {
        memcpy(to, data, size);
        return to + size;
}

/* Ends the entry that begins at @entry with nops, and writes its length. */
static inline uint8_t *made_frames_end(uint8_t *entry, uint8_t *to) {
        uint32_t length;

        while ((to - entry - 4) % 8)
                *to++ = 0;
        length = (uint32_t)(to - entry - 4);
        memcpy(entry, &length, 4);
        return to;
}

/*
 * Writes the section of @n functions to @to, which is where it will be used. With @is_small the distances are
 * of 4 bytes, as in LLVM's small code model, else of 8. Return: its size, with the zeros at its end.
 */
static inline size_t made_frames(uint8_t *to, const MadeFunctionFrame *functions, unsigned n, int is_small) {
        static const uint8_t cie[] = { 0, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1 },
                             initial[] = { 0x0c, 7, 8, 0x90, 1 };       /* CFA = rsp + 8, rip at CFA - 8 */
        uint8_t *begin = to, encoding = is_small ? 0x1b : 0x1c;

        to = made_frames_put(to, cie, sizeof(cie));
        *to++ = encoding;
        to = made_frames_put(to, initial, sizeof(initial));
        to = made_frames_end(begin, to);
        for (unsigned i = 0; i < n; i++) {
                uint8_t *entry = to;
                uint32_t distance = (uint32_t)(entry + 4 - begin);
                uint64_t size = functions[i].size;
                int64_t start;

                to = made_frames_put(to + 4, &distance, 4);
                start = (int64_t)((uintptr_t)functions[i].code - (uintptr_t)to);
                to = made_frames_put(to, &start, is_small ? 4 : 8);
                to = made_frames_put(to, &size, is_small ? 4 : 8);
                *to++ = 0;              /* no augmentation */
                *to++ = 0x44;           /* behind 4 bytes of code: CFA = rsp + 8 + frame */
                *to++ = 0x0e;
                *to++ = (uint8_t)(8 + functions[i].frame);
                if (functions[i].frame_end) {
                        *to++ = (uint8_t)(0x40 + functions[i].frame_end - 4);
                        *to++ = 0x0e;
                        *to++ = 8;
                }
                to = made_frames_end(entry, to);
        }
        memset(to, 0, 4);
        return (size_t)(to + 4 - begin);
}
