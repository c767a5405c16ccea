/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Objects of a JVM
 *
 * The class of an object, and what its fields refer to. ZGC marks references and moves objects beside the
 * program: its objects cannot be read so.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/runtime/hotspot/hotspot-layout.h"

/* How references lie in memory: base + (value << shift), or an address. */
typedef struct HotspotObjects {
        const HotspotLayout *layout;
        const HotspotReader *reader;
        uint64_t oop_base, klass_base;
        uint32_t oop_shift, klass_shift;
        uint8_t oop_size, klass_size;   /* bytes: 4, 8 */
        bool has_klass_in_mark;         /* -XX:+UseCompactObjectHeaders */
        bool may_have_moved;            /* an object may only say where it is now: Shenandoah */
} HotspotObjects;

/*
 * Pure but for its reader, as all of these. @layout, @reader: borrowed. Return: NULL, or why objects cannot
 * be read, as `-XX:+UseZGC`.
 */
const char *hotspot_objects_init(HotspotObjects *objects, const HotspotLayout *layout,
                                 const HotspotReader *reader, uint64_t bias);

/* The object at @address: its Klass. Return: 0 = there is none. */
uint64_t hotspot_object_klass(const HotspotObjects *objects, uint64_t address);

/* The object that a field @offset bytes into the object at @address refers to; 0 = none. */
uint64_t hotspot_object_reference(const HotspotObjects *objects, uint64_t address, uint16_t offset);

/*
 * The name of the class of the object at @address, into @to with a NUL, as people write it; longer names than
 * @size bytes are cut. Return: whether an object of a class is there.
 */
bool hotspot_object_name(const HotspotObjects *objects, uint64_t address, char *to, size_t size);
