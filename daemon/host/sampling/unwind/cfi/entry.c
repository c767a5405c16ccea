/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads the headers of entries, which differ between .eh_frame and .debug_frame, and keeps recent CIEs in a
 * cache, since most functions share a few.
 */

#include "host/sampling/unwind/cfi/entry.h"

#include "core/base/util/macro.h"
#include "host/sampling/unwind/cfi/arch.h"
#include "host/sampling/unwind/cfi/encoding.h"
#include "host/sampling/unwind/cfi/program.h"

enum {
        HEADER_MAX = 4 + 8 + 8,         /* length, extended length, id */
};

/*
 * .eh_frame: id 0 is a CIE, any other is the distance back from the id to the
 * CIE. .debug_frame: all ones is a CIE, any other is the CIE's offset.
 *
 * In the 64-bit format the two standards differ about the size of .eh_frame's
 * id: four bytes (LSB) or eight (DWARF). The low four bytes are the same; a CIE
 * tells by what follows them (cie_id_size).
 */
static void set_id(Entry *entry, const CfiSection *section, uint64_t id_offset, uint64_t id) {
        if (section->is_debug_frame) {
                entry->is_cie = id == (entry->is_64 ? UINT64_MAX : UINT32_MAX);
                entry->cie_offset = id;
        } else {
                entry->is_cie = id == 0;
                entry->cie_offset = id <= id_offset ? id_offset - id : UINT64_MAX;
        }
}

int entry_read(Entry *entry, Reader *reader, const CfiSection *section, uint64_t offset) {
        uint64_t left = offset < section->size ? section->size - offset : 0, length, id;
        size_t size = MIN(left, (uint64_t)HEADER_MAX);
        const uint8_t *data = size >= 4 ? reader_bytes(reader, section->offset + offset, size) : NULL;
        Cursor cursor;

        /* The last entry may be shorter than the longest header. */
        if (!data && size > 8)
                data = reader_bytes(reader, section->offset + offset, size = 8);
        if (!data && size > 4)
                data = reader_bytes(reader, section->offset + offset, size = 4);
        if (!data)
                return ENTRY_E_END;
        cursor = cursor_make(data, size);
        length = cursor_u32(&cursor);
        if (length == 0)
                return ENTRY_E_END;
        *entry = (Entry){ .offset = offset, .is_64 = length == UINT32_MAX };
        if (entry->is_64)
                length = cursor_u64(&cursor);
        entry->id_at = (uint32_t)cursor.at;
        if (cursor.failed || length > left - cursor.at || length < 4)
                return CFI_PROBLEM_LENGTH;
        entry->size = entry->id_at + length;
        id = entry->is_64 && section->is_debug_frame ? cursor_u64(&cursor) : cursor_u32(&cursor);
        if (cursor.failed)
                return CFI_PROBLEM_LENGTH;
        set_id(entry, section, offset + entry->id_at, id);
        return 0;
}

/* The whole entry as a cursor that stands on its id. */
static bool entry_body(const Entry *entry, Reader *reader, const CfiSection *section, Cursor *cursorp) {
        const uint8_t *data;

        if (entry->size > ENTRY_MAX_SIZE)
                return false;
        data = reader_bytes(reader, section->offset + entry->offset, entry->size);
        if (!data)
                return false;
        *cursorp = cursor_make(data, entry->size);
        cursor_take(cursorp, entry->id_at);
        return true;
}

/* 64-bit .eh_frame: behind four bytes of id there is a version, or the zeros of a longer id. */
static uint8_t cie_id_size(const Entry *entry, const Cursor *cursor, const CfiSection *section) {
        if (!entry->is_64)
                return 4;
        if (section->is_debug_frame)
                return 8;
        return cursor_left(cursor) > 4 && cursor->data[cursor->at + 4] ? 4 : 8;
}

/*
 * Augmentation letters in their order; each says what data follows it. An unknown
 * letter hides the data of those behind it, which matters only if an R is among them.
 */
static bool read_augmentation(Cie *cie, Cursor *cursor, const char *letters, const Encoded *where) {
        for (; *letters; letters++) {
                switch (*letters) {
                case 'L':
                        cursor_u8(cursor);
                        break;
                case 'P':
                        encoding_skip(cursor, cursor_u8(cursor), where);
                        break;
                case 'R':
                        cie->encoding = cursor_u8(cursor);
                        break;
                case 'S':
                        cie->is_signal = true;
                        break;
                case 'B':
                case 'G':
                        break;          /* aarch64: pointer authentication key, memory tags */
                default:
                        return !strchr(letters, 'R');
                }
        }
        return !cursor->failed;
}

static bool read_letters(Cie *cie, Cursor *cursor, const char *letters, const Encoded *where) {
        uint64_t size;
        Cursor data;

        if (*letters == 0 || strcmp(letters, "eh") == 0)
                return true;
        if (*letters != 'z')
                return false;
        cie->has_augmentation = true;
        size = encoding_uleb(cursor);
        if (size > cursor_left(cursor))
                return false;
        data = cursor_make(cursor->data, cursor->at + size);
        data.at = cursor->at;
        cursor->at += size;
        return read_augmentation(cie, &data, letters + 1, where);
}

static bool read_version(Cursor *cursor, uint8_t version, bool *wide_return_addressp) {
        *wide_return_addressp = version != 1;
        if (version == 4)
                return cursor_u8(cursor) == ARCH_ADDRESS_SIZE && cursor_u8(cursor) == 0;
        return version == 1 || version == 3;
}

static bool read_cie(Cie *cie, Cursor *cursor, const Encoded *where) {
        CfiCounts ignored = { 0 };
        const char *letters;
        uint8_t version;
        uint64_t ra;
        bool wide;

        cursor_take(cursor, cie->id_size);
        version = cursor_u8(cursor);
        letters = (const char *)cursor->data + cursor->at;
        while (cursor_u8(cursor))
                ;
        if (cursor->failed || !read_version(cursor, version, &wide))
                return false;
        if (strcmp(letters, "eh") == 0)
                cursor_u64(cursor);     /* gcc 2: a pointer to exception data */
        cie->code_align = encoding_uleb(cursor);
        cie->data_align = encoding_sleb(cursor);
        ra = wide ? encoding_uleb(cursor) : cursor_u8(cursor);
        if (cursor->failed || ra != ARCH_RETURN_ADDRESS || !read_letters(cie, cursor, letters, where))
                return false;
        return program_run_initial(cie, cursor, where, &ignored) == 0;
}

const Cie *cie_get(CieCache *cache, uint64_t offset) {
        Cie *cie = &cache->cies[(offset >> 2 ^ offset >> 8) % CIE_CACHE_SIZE];
        Entry entry;
        Cursor cursor;

        if (cie->is_known && cie->offset == offset)
                return cie->is_good ? cie : NULL;
        *cie = (Cie){ .offset = offset, .is_known = true };
        if (entry_read(&entry, cache->reader, cache->section, offset) == 0 && entry.is_cie &&
            entry_body(&entry, cache->reader, cache->section, &cursor)) {
                Encoded where = { .address = cache->section->address + offset };

                cie->id_size = cie_id_size(&entry, &cursor, cache->section);
                cie->is_good = read_cie(cie, &cursor, &where);
        }
        return cie->is_good ? cie : NULL;
}

static int read_range(Fde *fde, Cursor *cursor, const Encoded *where) {
        uint8_t encoding = fde->cie->encoding;
        uint64_t size;

        fde->start = encoding_pointer(cursor, encoding, where);
        /* The length has the same format, and is relative to nothing. */
        size = encoding_pointer(cursor, encoding & PE_FORMAT, where);
        if (cursor->failed)
                return CFI_PROBLEM_POINTER;
        if (size == 0 || fde->start + size < fde->start)
                return CFI_PROBLEM_RANGE;
        fde->end = fde->start + size;
        return 0;
}

int fde_read(Fde *fde, Reader *reader, CieCache *cies, const Entry *entry) {
        Encoded where = { .address = cies->section->address + entry->offset };
        Cursor cursor;
        int r;

        *fde = (Fde){ .cie = cie_get(cies, entry->cie_offset) };
        if (!fde->cie)
                return CFI_PROBLEM_CIE;
        if (entry->size > ENTRY_MAX_SIZE)
                return CFI_PROBLEM_TOO_LARGE;
        if (!entry_body(entry, reader, cies->section, &cursor))
                return CFI_PROBLEM_LENGTH;
        cursor_take(&cursor, fde->cie->id_size);
        r = read_range(fde, &cursor, &where);
        if (r)
                return r;
        if (fde->cie->has_augmentation)
                cursor_take(&cursor, encoding_uleb(&cursor));
        if (cursor.failed)
                return CFI_PROBLEM_TRUNCATED;
        fde->code = cursor.data + cursor.at;
        fde->code_size = cursor_left(&cursor);
        fde->code_address = where.address + cursor.at;
        return 0;
}
