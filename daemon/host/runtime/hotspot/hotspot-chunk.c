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
 * keeps a list of such classes, of which the first is published, and each class describes its fields
 * (hotspot-class.c):
 *
 *     vmClasses::_klasses ─▶ Object, String, … InstanceKlass
 *
 * References are read by the kernel half, which knows compressed ones alone. Collectors that move objects
 * beside the program (ZGC) use none.
 */
#include "host/runtime/hotspot/hotspot-chunk.h"

#include "core/base/util/macro.h"
#include "host/runtime/hotspot/hotspot-class.h"

enum {
        FIRST_RELEASE = 21,
        MAX_CLASSES = 160,              /* classes of the list: JDK 25 has 110 */
        MAX_SHIFT = 8,
        IS_SLOW = 1,                    /* Klass::_layout_helper: bit that is not of the size */
};

typedef struct Reading {
        const HotspotLayout *layout;
        const HotspotReader *reader;
} Reading;

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
                if (hotspot_class_is(reading->layout, reading->reader, klass, "jdk/internal/vm/Continuation"))
                        classes->continuation = klass;
                else if (hotspot_class_is(reading->layout, reading->reader, klass, "jdk/internal/vm/StackChunk"))
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
        const HotspotClassField of_continuation[] = {
                { "tail", &chunk->tail }, { "parent", &parent }, { "child", &child }
        };
        const HotspotClassField of_chunk[] = {
                { "parent", &chunk->parent }, { "sp", &chunk->sp }, { "bottom", &chunk->bottom }
        };
        uint64_t size;

        hotspot_class_fields(reading->layout, reading->reader, classes->continuation, of_continuation,
                             ARRAY_SIZE(of_continuation));
        hotspot_class_fields(reading->layout, reading->reader, classes->chunk, of_chunk,
                             ARRAY_SIZE(of_chunk));
        if (!hotspot_read_field(reading->reader, reading->layout->classes.size, classes->chunk, &size) ||
            size >= HOTSPOT_MAX_OBJECT)
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
