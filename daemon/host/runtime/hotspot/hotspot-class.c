/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Each class describes its fields, in one of two forms:
 *
 *     JDK 21    InstanceKlass { _name, _constants, _fieldinfo_stream } ─▶ n of the source, n of the VM,
 *               then for each: name and type as indexes of the constant pool, offset, access, flags, and what
 *               these say
 *     before    InstanceKlass { …, _fields, _java_fields_count } ─▶ six words of 16 bits each: access, name,
 *               type, value, and twice a half of the offset, whose lowest bits are no part of it
 */
#include "host/runtime/hotspot/hotspot-class.h"

#include <string.h>

#include "core/base/util/macro.h"
#include "host/runtime/hotspot/hotspot-number.h"

enum {
        MAX_FIELDS = 96,
        MAX_STREAM = 1024,              /* bytes */
        MAX_NAME = 64,
        MAX_SUPERS = 32,
        /* flags of a field that have another number behind them (fieldInfo.hpp) */
        HAS_VALUE = 1 << 0,
        IS_OF_VM = 1 << 1,              /* the name is no index of the constant pool */
        HAS_GENERIC = 1 << 2,
        HAS_GROUP = 1 << 4,
        /* words of a field of the older form, and what its lowest bit says */
        OLD_WORDS = 6,
        OLD_NAME = 1,
        OLD_OFFSET = 4,
        OLD_HAS_OFFSET = 1,
        OLD_SHIFT = 2,
};

typedef struct Reading {
        const HotspotLayout *layout;
        const HotspotReader *reader;
} Reading;

/* Return: bytes of the text of a Symbol in @to, @most at the most; 0 = there is none. */
static size_t read_symbol(const Reading *reading, uint64_t address, char *to, size_t most) {
        const HotspotMethodLayout *at = &reading->layout->method;
        uint64_t length;

        if (!address || !hotspot_read_field(reading->reader, at->symbol_length, address, &length))
                return 0;
        length = length >> at->symbol_shift & UINT16_MAX;
        length = MIN(length, (uint64_t)most);
        return length && hotspot_read(reading->reader, address + at->symbol_body.offset, to, length) ? length
                                                                                                   : 0;
}

static bool is_symbol(const Reading *reading, uint64_t address, const char *name) {
        char text[MAX_NAME];
        size_t size = strlen(name);

        return size < sizeof(text) && read_symbol(reading, address, text, sizeof(text)) == size &&
                !memcmp(text, name, size);
}

/* ---- fields ---- */

static void take_field(const Reading *reading, uint64_t pool, uint32_t name, uint32_t offset,
                       const HotspotClassField *fields, size_t n) {
        uint64_t slot = pool + reading->layout->method.pool_size + (uint64_t)name * 8, symbol;

        if (offset >= HOTSPOT_MAX_OBJECT || !hotspot_read_u64(reading->reader, slot, &symbol))
                return;
        for (size_t i = 0; i < n; i++)
                if (is_symbol(reading, symbol, fields[i].name))
                        *fields[i].to = (uint16_t)offset;
}

/* Reads an Array of bytes or words, whose length counts these. Return: bytes; 0 = it is none, or too long. */
static size_t read_array(const Reading *reading, uint64_t klass, HotspotField array, HotspotField data,
                         void *to, size_t most) {
        uint64_t address, length;

        if (!hotspot_read_field(reading->reader, array, klass, &address) ||
            !hotspot_read_field(reading->reader, reading->layout->method.array_length, address, &length) ||
            length > most / MAX(data.size, (uint8_t)1) ||
            !hotspot_read(reading->reader, address + data.offset, to, length * data.size))
                return 0;
        return length * data.size;
}

static void take_stream(const Reading *reading, uint64_t klass, uint64_t pool,
                        const HotspotClassField *fields, size_t n) {
        HotspotNumbers numbers = { .has_zero_free_numbers = reading->layout->has_zero_free_numbers };
        uint8_t data[MAX_STREAM];
        uint32_t n_fields;

        numbers.size = read_array(reading, klass, reading->layout->classes.fields,
                                  reading->layout->method.array_u1, data, sizeof(data));
        numbers.data = data;
        n_fields = hotspot_numbers_next(&numbers);
        hotspot_numbers_next(&numbers);
        for (uint32_t i = 0; i < MIN(n_fields, (uint32_t)MAX_FIELDS) && !numbers.has_failed; i++) {
                uint32_t name = hotspot_numbers_next(&numbers), offset, flags;

                hotspot_numbers_next(&numbers);
                offset = hotspot_numbers_next(&numbers);
                hotspot_numbers_next(&numbers);
                flags = hotspot_numbers_next(&numbers);
                for (uint32_t more = flags & (HAS_VALUE | HAS_GENERIC | HAS_GROUP); more; more &= more - 1)
                        hotspot_numbers_next(&numbers);
                if (!numbers.has_failed && !(flags & IS_OF_VM))
                        take_field(reading, pool, name, offset, fields, n);
        }
}

static void take_words(const Reading *reading, uint64_t klass, uint64_t pool,
                       const HotspotClassField *fields, size_t n) {
        const HotspotClassLayout *at = &reading->layout->classes;
        uint16_t words[MAX_FIELDS * OLD_WORDS];
        uint64_t n_fields;
        size_t n_words = read_array(reading, klass, at->old_fields, at->array_u2, words, sizeof(words)) /
                sizeof(*words);

        if (!hotspot_read_field(reading->reader, at->n_old_fields, klass, &n_fields))
                return;
        for (size_t i = 0; i < n_fields && (i + 1) * OLD_WORDS <= n_words; i++) {
                const uint16_t *field = &words[i * OLD_WORDS];
                uint32_t offset = field[OLD_OFFSET] | (uint32_t)field[OLD_OFFSET + 1] << 16;

                if (offset & OLD_HAS_OFFSET)
                        take_field(reading, pool, field[OLD_NAME], offset >> OLD_SHIFT, fields, n);
        }
}

void hotspot_class_fields(const HotspotLayout *layout, const HotspotReader *reader, uint64_t klass,
                          const HotspotClassField *fields, size_t n) {
        const Reading reading = { layout, reader };
        uint64_t pool;

        if (!hotspot_read_field(reader, layout->method.klass_constants, klass, &pool))
                return;
        if (layout->classes.fields.size)
                take_stream(&reading, klass, pool, fields, n);
        else
                take_words(&reading, klass, pool, fields, n);
}

/* ---- names ---- */

bool hotspot_class_is(const HotspotLayout *layout, const HotspotReader *reader, uint64_t klass,
                      const char *name) {
        const Reading reading = { layout, reader };
        uint64_t symbol;

        return hotspot_read_field(reader, layout->method.klass_name, klass, &symbol) &&
                is_symbol(&reading, symbol, name);
}

uint64_t hotspot_class_find(const HotspotLayout *layout, const HotspotReader *reader, uint64_t klass,
                            const char *name) {
        for (unsigned i = 0; klass && !(klass & 7) && i < MAX_SUPERS; i++) {
                if (hotspot_class_is(layout, reader, klass, name))
                        return klass;
                if (!hotspot_read_field(reader, layout->classes.super, klass, &klass))
                        return 0;
        }
        return 0;
}

size_t hotspot_class_name(const HotspotLayout *layout, const HotspotReader *reader, uint64_t klass, char *to,
                          size_t most) {
        const HotspotMethodLayout *at = &layout->method;
        const Reading reading = { layout, reader };
        uint64_t pool, holder, symbol;

        if (!klass || klass & 7 || !hotspot_read_field(reader, at->klass_constants, klass, &pool) ||
            pool & 7 || !hotspot_read_field(reader, at->holder, pool, &holder) || holder != klass ||
            !hotspot_read_field(reader, at->klass_name, klass, &symbol))
                return 0;
        return read_symbol(&reading, symbol, to, most);
}
