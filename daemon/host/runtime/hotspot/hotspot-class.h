/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Classes of a JVM
 *
 * What a class is called, what it extends, and where its objects have their fields.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/runtime/hotspot/hotspot-layout.h"

enum { HOTSPOT_MAX_OBJECT = 1024 };     /* a field that is looked for lies in so many bytes of an object */

typedef struct HotspotClassField {
        const char *name;
        uint16_t *to;                   /* place for the offset; unchanged if there is no such field */
} HotspotClassField;

/* Pure but for its reader, as all of these. Takes those of @fields that the class itself declares. */
void hotspot_class_fields(const HotspotLayout *layout, const HotspotReader *reader, uint64_t klass,
                          const HotspotClassField *fields, size_t n);

/* Whether the Klass at @klass is called @name, as `java/lang/Thread`; 63 bytes at most. */
bool hotspot_class_is(const HotspotLayout *layout, const HotspotReader *reader, uint64_t klass,
                      const char *name);

/* The class called @name among @klass and what it extends; 0 = none of them is. */
uint64_t hotspot_class_find(const HotspotLayout *layout, const HotspotReader *reader, uint64_t klass,
                            const char *name);

/*
 * The name of an InstanceKlass, as the JVM has it. Its pool must belong to it, so that other memory is none.
 * Return: bytes in @to, without a NUL; 0 = no such class is there.
 */
size_t hotspot_class_name(const HotspotLayout *layout, const HotspotReader *reader, uint64_t klass, char *to,
                          size_t most);
