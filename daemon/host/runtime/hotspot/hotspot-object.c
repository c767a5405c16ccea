/* SPDX-License-Identifier: Apache-2.0 */

/*
 * An object begins with a mark and its Klass, which is compressed, or not, by a flag of the command line; so
 * are references. With compact headers (JDK 24 and later) the mark has the Klass in its highest 22 bits. An
 * object that Shenandoah has just moved has its new address there, and 3 in the lowest bits. What looks like
 * an object is one if its class has a pool that belongs to that class.
 */
#include "host/runtime/hotspot/hotspot-object.h"

#include <string.h>

#include "core/base/util/java-name.h"
#include "core/base/util/macro.h"
#include "core/base/util/text.h"
#include "host/runtime/hotspot/hotspot-class.h"
#include "host/runtime/hotspot/hotspot-method.h"
#include "host/runtime/hotspot/hotspot-published.h"

enum {
        MAX_SHIFT = 10,
        MARK_KLASS_SHIFT = 42,          /* markWord.hpp of JDK 24 to 27 */
        MARK_MOVED = 3,                 /* lowest bits */
        FIRST_WITH_MOVED = 17,          /* before, Shenandoah kept new addresses elsewhere */
        FIRST_WITHOUT_FLAG = 27,        /* classes of objects have 4 bytes or less there, always */
};

/* Flags that are asked for. JVMs without the first three may be too old to have them. */
enum { ZGC, SHENANDOAH, SMALL_HEADERS, N_NEW, OOPS = N_NEW, KLASSES, N_FLAGS };

static const char *const flag_names[N_FLAGS] = {
        [ZGC] = "UseZGC",
        [SHENANDOAH] = "UseShenandoahGC",
        [SMALL_HEADERS] = "UseCompactObjectHeaders",
        [OOPS] = "UseCompressedOops",
        [KLASSES] = "UseCompressedClassPointers",
};

static bool read_form(const HotspotObjects *objects, uint64_t base, uint64_t shift, uint64_t *basep,
                      uint32_t *shiftp) {
        return base && shift && hotspot_read_u64(objects->reader, base, basep) &&
                hotspot_read(objects->reader, shift, shiftp, sizeof(*shiftp)) && *shiftp <= MAX_SHIFT;
}

/* 0 if the address is not known. */
static uint64_t at(uint64_t bias, uint64_t variable) {
        return variable ? bias + variable : 0;
}

const char *hotspot_objects_init(HotspotObjects *objects, const HotspotLayout *layout,
                                 const HotspotReader *reader, uint64_t bias) {
        const HotspotClassLayout *classes = &layout->classes;
        uint64_t values[N_FLAGS];
        uint8_t is_set[N_FLAGS] = { 0 };

        *objects = (HotspotObjects){ .layout = layout, .reader = reader, .oop_size = 8, .klass_size = 8 };
        hotspot_published_flags(layout, reader, bias, flag_names, N_FLAGS, values);
        is_set[KLASSES] = layout->version >= FIRST_WITHOUT_FLAG;
        for (size_t i = 0; i < N_FLAGS; i++)
                if ((!values[i] && i >= N_NEW && !is_set[i]) ||
                    (values[i] && !hotspot_read(reader, values[i], &is_set[i], 1)))
                        return flag_names[i];
        if (is_set[ZGC])
                return "-XX:+UseZGC";
        if (is_set[SHENANDOAH] && layout->version < FIRST_WITH_MOVED)
                return "-XX:+UseShenandoahGC";
        objects->may_have_moved = is_set[SHENANDOAH];
        objects->has_klass_in_mark = is_set[SMALL_HEADERS];
        if (is_set[OOPS]) {
                objects->oop_size = 4;
                if (!read_form(objects, at(bias, classes->oop_base), at(bias, classes->oop_shift),
                               &objects->oop_base, &objects->oop_shift))
                        return "CompressedOops::_base";
        }
        if (is_set[KLASSES]) {
                objects->klass_size = 4;
                if (!read_form(objects, at(bias, layout->locks.klass_base),
                               at(bias, layout->locks.klass_shift), &objects->klass_base,
                               &objects->klass_shift))
                        return "CompressedKlassPointers::_base";
        }
        return objects->has_klass_in_mark || layout->locks.object_klass.size ? NULL
                                                                             : "oopDesc::_metadata._klass";
}

static uint64_t read_word(const HotspotObjects *objects, uint64_t address, uint8_t size, uint64_t base,
                          uint32_t shift) {
        uint64_t value = 0;

        if (!hotspot_read(objects->reader, address, &value, size))
                return 0;
        return size == 4 && value ? base + (value << shift) : value;
}

/* Where the object at @address is now. */
static uint64_t find_moved(const HotspotObjects *objects, uint64_t address) {
        uint64_t mark;
        bool has_moved = objects->may_have_moved && hotspot_read_u64(objects->reader, address, &mark) &&
                (mark & MARK_MOVED) == MARK_MOVED;

        return has_moved ? mark & ~(uint64_t)MARK_MOVED : address;
}

static uint64_t klass_in_mark(const HotspotObjects *objects, uint64_t address) {
        uint64_t mark;

        if (!hotspot_read_u64(objects->reader, address, &mark) || !(mark >> MARK_KLASS_SHIFT))
                return 0;
        return objects->klass_base + (mark >> MARK_KLASS_SHIFT << objects->klass_shift);
}

uint64_t hotspot_object_klass(const HotspotObjects *objects, uint64_t address) {
        if (!address || address & 7)
                return 0;
        address = find_moved(objects, address);
        if (objects->has_klass_in_mark)
                return klass_in_mark(objects, address);
        return read_word(objects, address + objects->layout->locks.object_klass.offset, objects->klass_size,
                         objects->klass_base, objects->klass_shift);
}

uint64_t hotspot_object_reference(const HotspotObjects *objects, uint64_t address, uint16_t offset) {
        return read_word(objects, find_moved(objects, address) + offset, objects->oop_size,
                         objects->oop_base, objects->oop_shift);
}

bool hotspot_object_name(const HotspotObjects *objects, uint64_t address, char *to, size_t size) {
        char text[HOTSPOT_MAX_CLASS], name[HOTSPOT_MAX_CLASS + 1], whole[3 * HOTSPOT_MAX_CLASS + 1];
        size_t n = hotspot_class_name(objects->layout, objects->reader,
                                      hotspot_object_klass(objects, address), text, sizeof(text));

        if (!n || !text[0])
                return false;
        java_class_name(name, text, n);
        text_repair_utf8(whole, name, strlen(name));
        n = text_cut_utf8(whole, size - 1);
        memcpy(to, whole, n);
        to[n] = '\0';
        return true;
}
