/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Encodings
 *
 * The two ways in which call frame information writes numbers: LEB128 (DWARF 5,
 * 7.6) and encoded pointers (LSB Core, "DWARF Exception Header Encoding"). Both
 * read from a Cursor and fail by setting its `failed`.
 */

#include <stdint.h>

#include "core/base/data/cursor.h"

/* Low four bits: the format of the number. */
enum {
        PE_ABSPTR = 0x00,
        PE_ULEB128 = 0x01,
        PE_UDATA2 = 0x02,
        PE_UDATA4 = 0x03,
        PE_UDATA8 = 0x04,
        PE_SIGNED = 0x08,               /* a pointer, signed: the same eight bytes */
        PE_SLEB128 = 0x09,
        PE_SDATA2 = 0x0a,
        PE_SDATA4 = 0x0b,
        PE_SDATA8 = 0x0c,
        PE_FORMAT = 0x0f,
};

/* Next three bits: what it is relative to. */
enum {
        PE_ABS = 0x00,
        PE_PCREL = 0x10,                /* the address of the number itself */
        PE_TEXTREL = 0x20,              /* has no meaning on this ABI */
        PE_DATAREL = 0x30,              /* in .eh_frame_hdr: the address of that header */
        PE_FUNCREL = 0x40,              /* the start of the function */
        PE_ALIGNED = 0x50,              /* absolute, at the next address that is a multiple of 8 */
        PE_BASE = 0x70,
        PE_INDIRECT = 0x80,             /* the address of the pointer: known at run time only */
        PE_OMIT = 0xff,
};

/* Bytes at a known ELF address, and the bases that a pointer in them may be relative to. */
typedef struct Encoded {
        uint64_t address;               /* ELF address of the cursor's first byte */
        uint64_t data_base;
        uint64_t function_base;
} Encoded;

/* At most 64 bits of value; longer numbers fail, padded ones do not. */
uint64_t encoding_uleb_long(Cursor *cursor);
int64_t encoding_sleb(Cursor *cursor);

/* Reads a ULEB128 number; nearly all of them are one byte. */
static inline uint64_t encoding_uleb(Cursor *cursor) {
        if (cursor_left(cursor) > 0 && cursor->data[cursor->at] < 0x80)
                return cursor->data[cursor->at++];
        return encoding_uleb_long(cursor);
}

/* Reads one pointer of @encoding. What cannot be known from the file (indirect, textrel, omitted) fails. */
uint64_t encoding_pointer(Cursor *cursor, uint8_t encoding, const Encoded *where);

/* Skips one pointer; indirect ones too, since their size is known. */
void encoding_skip(Cursor *cursor, uint8_t encoding, const Encoded *where);
