/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads numbers byte by byte; a number that is too long or has an unknown form fails the cursor.
 */

#include "host/sampling/unwind/cfi/encoding.h"

enum {
        LEB_MAX_BYTES = 16,             /* ten hold 64 bits; linkers pad with a few more to keep room */
};

/* The common core: collects 7 bits a byte; *lastp is the last byte, *shiftp the bits that were read. */
static uint64_t leb(Cursor *cursor, uint8_t *lastp, unsigned *shiftp) {
        uint64_t value = 0;
        unsigned shift = 0;

        for (unsigned i = 0; i < LEB_MAX_BYTES; i++) {
                uint8_t byte = cursor_u8(cursor);

                if (shift < 64)
                        value |= (uint64_t)(byte & 0x7f) << shift;
                if (shift == 63 && (byte & 0x7e) && (byte & 0x7f) != 0x7f)
                        break;
                shift += 7;
                *lastp = byte;
                *shiftp = shift;
                if (!(byte & 0x80))
                        return value;
        }
        cursor->failed = true;
        return 0;
}

uint64_t encoding_uleb_long(Cursor *cursor) {
        unsigned shift = 0;
        uint8_t last = 0;

        return leb(cursor, &last, &shift);
}

int64_t encoding_sleb(Cursor *cursor) {
        unsigned shift = 0;
        uint8_t last = 0;
        uint64_t value = leb(cursor, &last, &shift);

        if (shift < 64 && (last & 0x40))
                value |= UINT64_MAX << shift;
        return (int64_t)value;
}

static uint64_t number(Cursor *cursor, uint8_t format) {
        switch (format) {
        case PE_ABSPTR:
        case PE_SIGNED:
        case PE_UDATA8:
        case PE_SDATA8:
                return cursor_u64(cursor);
        case PE_UDATA2:
                return cursor_u16(cursor);
        case PE_SDATA2:
                return (uint64_t)(int16_t)cursor_u16(cursor);
        case PE_UDATA4:
                return cursor_u32(cursor);
        case PE_SDATA4:
                return (uint64_t)(int32_t)cursor_u32(cursor);
        case PE_ULEB128:
                return encoding_uleb(cursor);
        case PE_SLEB128:
                return (uint64_t)encoding_sleb(cursor);
        }
        cursor->failed = true;
        return 0;
}

static void align(Cursor *cursor, const Encoded *where) {
        cursor_take(cursor, -(where->address + cursor->at) & 7);
}

uint64_t encoding_pointer(Cursor *cursor, uint8_t encoding, const Encoded *where) {
        uint64_t here = where->address + cursor->at;

        if (encoding == PE_OMIT || (encoding & PE_INDIRECT)) {
                cursor->failed = true;
                return 0;
        }
        switch (encoding & PE_BASE) {
        case PE_ABS:
                return number(cursor, encoding & PE_FORMAT);
        case PE_PCREL:
                return here + number(cursor, encoding & PE_FORMAT);
        case PE_DATAREL:
                if (!where->data_base)
                        break;
                return where->data_base + number(cursor, encoding & PE_FORMAT);
        case PE_FUNCREL:
                return where->function_base + number(cursor, encoding & PE_FORMAT);
        case PE_ALIGNED:
                align(cursor, where);
                return cursor_u64(cursor);
        }
        cursor->failed = true;
        return 0;
}

void encoding_skip(Cursor *cursor, uint8_t encoding, const Encoded *where) {
        if (encoding == PE_OMIT)
                return;
        if ((encoding & PE_BASE) == PE_ALIGNED) {
                align(cursor, where);
                cursor_u64(cursor);
        } else {
                number(cursor, encoding & PE_FORMAT);
        }
}
