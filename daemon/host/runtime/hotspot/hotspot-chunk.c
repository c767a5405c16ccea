/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A virtual thread that waits has its frames in an object of the heap. It comes back with one or two of them;
 * the others follow when these return, by the return barrier:
 *
 *     carrier's stack                              heap
 *       burn        ← the thread's innermost       StackChunk { parent, size, sp, bottom, …
 *       deep                                         free words
 *       return barrier ······························ pc of deep          word in front of sp
 *       ContinuationEntry { …, cont }                 frame of deep   ← sp
 *       Continuation.enterSpecial      │              …
 *       Continuation.run               ▼              frame of Continuation.enter
 *       …                         Continuation      ← bottom
 *                                   { tail } ─▶    older frames: parent }
 *
 * Both classes are the JDK's own, and so are their fields. No build publishes the offsets of these; but a JVM
 * keeps a list of such classes, of which the first is published, and each class describes its fields:
 *
 *     vmClasses::_klasses ─▶ Object, String, … InstanceKlass { _name, _constants, _fieldinfo_stream }
 *
 *     stream      n of the source, n of the VM, then for each: name and type as indexes of the constant pool,
 *                 offset, access, flags, and what the flags say
 *
 * References are read by the kernel half, which knows compressed ones alone. Collectors that move objects
 * beside the program (ZGC) use none.
 */
#include "host/runtime/hotspot/hotspot-chunk.h"

#include <string.h>

#include "core/base/util/macro.h"
#include "host/runtime/hotspot/hotspot-number.h"

enum {
        FIRST_RELEASE = 21,
        MAX_CLASSES = 160,              /* classes of the list: JDK 25 has 110 */
        MAX_FIELDS = 64,
        MAX_STREAM = 1024,              /* bytes */
        MAX_OBJECT = 1024,
        MAX_SHIFT = 8,
        MAX_NAME = 32,
        /* flags of a field that have another number behind them (fieldInfo.hpp) */
        HAS_VALUE = 1 << 0,
        IS_OF_VM = 1 << 1,              /* the name is no index of the constant pool */
        HAS_GENERIC = 1 << 2,
        HAS_GROUP = 1 << 4,
        IS_SLOW = 1,                    /* Klass::_layout_helper: bit that is not of the size */
};

typedef struct Reading {
        const HotspotLayout *layout;
        const HotspotReader *reader;
} Reading;

/* Whether the Symbol at @address is @name. */
static bool is_symbol(const Reading *reading, uint64_t address, const char *name) {
        const HotspotMethodLayout *at = &reading->layout->method;
        size_t size = strlen(name);
        char text[MAX_NAME];
        uint64_t length;

        return size <= sizeof(text) && address &&
                hotspot_read_field(reading->reader, at->symbol_length, address, &length) &&
                (length >> at->symbol_shift & UINT16_MAX) == size &&
                hotspot_read(reading->reader, address + at->symbol_body.offset, text, size) &&
                !memcmp(text, name, size);
}

/* ---- fields of a class ---- */

typedef struct Field {
        const char *name;
        uint16_t *to;                   /* place for the offset */
} Field;

static bool read_stream(const Reading *reading, uint64_t klass, uint8_t data[MAX_STREAM], size_t *np) {
        const HotspotMethodLayout *at = &reading->layout->method;
        uint64_t array, length;

        if (!hotspot_read_field(reading->reader, reading->layout->classes.fields, klass, &array) ||
            !hotspot_read_field(reading->reader, at->array_length, array, &length) || length > MAX_STREAM)
                return false;
        *np = length;
        return hotspot_read(reading->reader, array + at->array_u1.offset, data, length);
}

static void take_field(const Reading *reading, uint64_t pool, uint32_t name, uint32_t offset,
                       const Field *fields, size_t n) {
        uint64_t slot = pool + reading->layout->method.pool_size + (uint64_t)name * 8, symbol;

        if (offset >= MAX_OBJECT || !hotspot_read_u64(reading->reader, slot, &symbol))
                return;
        for (size_t i = 0; i < n; i++)
                if (is_symbol(reading, symbol, fields[i].name))
                        *fields[i].to = (uint16_t)offset;
}

/* Takes those of @fields that the class has. */
static void read_fields(const Reading *reading, uint64_t klass, const Field *fields, size_t n) {
        HotspotNumbers numbers = { .has_zero_free_numbers = reading->layout->has_zero_free_numbers };
        uint8_t data[MAX_STREAM];
        uint32_t n_fields;
        uint64_t pool;

        if (!hotspot_read_field(reading->reader, reading->layout->method.klass_constants, klass, &pool) ||
            !read_stream(reading, klass, data, &numbers.size))
                return;
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

/* ---- the two classes ---- */

typedef struct Classes {
        uint64_t continuation, chunk;
} Classes;

/* The list is filled from its begin on, so nothing behind an empty place is known so far. */
static int find_classes(const Reading *reading, uint64_t list, Classes *classes) {
        uint64_t klass, name;

        for (unsigned i = 0; i < MAX_CLASSES && !(classes->continuation && classes->chunk); i++) {
                if (!hotspot_read_u64(reading->reader, list + i * 8, &klass) || !klass)
                        return HOTSPOT_LAYOUT_E_UNREADABLE;
                if (!hotspot_read_field(reading->reader, reading->layout->method.klass_name, klass, &name))
                        return HOTSPOT_LAYOUT_E_UNKNOWN;
                if (is_symbol(reading, name, "jdk/internal/vm/Continuation"))
                        classes->continuation = klass;
                else if (is_symbol(reading, name, "jdk/internal/vm/StackChunk"))
                        classes->chunk = klass;
        }
        return classes->continuation && classes->chunk ? 0 : HOTSPOT_LAYOUT_E_UNKNOWN;
}

static bool read_references(const Reading *reading, uint64_t bias, HotspotChunkLayout *chunk) {
        const HotspotClassLayout *at = &reading->layout->classes;
        uint32_t shift;

        if (!at->oop_base || !at->oop_shift ||
            !hotspot_read_u64(reading->reader, bias + at->oop_base, &chunk->oop_base) ||
            !hotspot_read(reading->reader, bias + at->oop_shift, &shift, sizeof(shift)) || shift > MAX_SHIFT)
                return false;
        chunk->oop_shift = shift;
        return true;
}

/* References are compressed where those that follow each other lie 4 bytes apart. */
static bool read_classes(const Reading *reading, const Classes *classes, HotspotChunkLayout *chunk) {
        uint16_t parent = 0, child = 0;
        const Field of_continuation[] = {
                { "tail", &chunk->tail }, { "parent", &parent }, { "child", &child }
        };
        const Field of_chunk[] = {
                { "parent", &chunk->parent }, { "sp", &chunk->sp }, { "bottom", &chunk->bottom }
        };
        uint64_t size;

        read_fields(reading, classes->continuation, of_continuation, ARRAY_SIZE(of_continuation));
        read_fields(reading, classes->chunk, of_chunk, ARRAY_SIZE(of_chunk));
        if (!hotspot_read_field(reading->reader, reading->layout->classes.size, classes->chunk, &size) ||
            size >= MAX_OBJECT)
                return false;
        chunk->stack = (uint16_t)(size & ~(uint64_t)IS_SLOW);
        return chunk->tail && chunk->parent && chunk->sp && chunk->bottom && chunk->stack &&
                !(chunk->stack & 7) && parent && child == parent + 4;
}

int hotspot_chunk_read(HotspotLayout *layout, const HotspotReader *reader, uint64_t bias) {
        const Reading reading = { layout, reader };
        HotspotChunkLayout chunk = { 0 };
        Classes classes = { 0 };
        int r;

        layout->chunk = chunk;
        if (layout->version < FIRST_RELEASE || !layout->classes.list)
                return 0;
        r = find_classes(&reading, bias + layout->classes.list, &classes);
        if (r)
                return r == HOTSPOT_LAYOUT_E_UNREADABLE ? r : 0;
        if (read_references(&reading, bias, &chunk) && read_classes(&reading, &classes, &chunk))
                layout->chunk = chunk;
        return 0;
}
