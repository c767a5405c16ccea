/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A JVM counts for its own tools, in memory that it publishes (PerfMemory):
 *
 *     PerfDataPrologue { …, entry_offset, num_entries }
 *     PerfDataEntry    { entry_length, name_offset, …, data_offset }, "java.cls.loadedClasses", 512
 *     PerfDataEntry    { …                                         }, "java.cls.unloadedClasses", 37
 *
 * A class is counted before its memory is given back. And no class is unloaded while a thread is in one of
 * its methods. So if the count is the same at a tick and after a name was read, the name is of the method
 * that ran at the tick, whatever lay there before and may lie there later.
 */
#include "host/runtime/hotspot/hotspot-unload.h"

#include <string.h>

#include "core/base/util/macro.h"

enum {
        MAX_ENTRIES = 4096,             /* JDK 25 has 300 */
        MAX_LENGTH = 64 << 10,          /* bytes of an entry */
};

static bool is_count(const HotspotReader *reader, uint64_t name) {
        static const char count[] = "java.cls.unloadedClasses";
        char text[sizeof(count)];

        return hotspot_read(reader, name, text, sizeof(text)) && !memcmp(text, count, sizeof(count));
}

uint64_t hotspot_unload_find(const HotspotLayout *layout, const HotspotReader *reader, uint64_t bias) {
        const HotspotCountsLayout *at = &layout->counts;
        uint64_t start, entry, n, length, name, data;

        if (!at->start || !hotspot_read_u64(reader, bias + at->start, &start) || !start ||
            !hotspot_read_field(reader, at->first, start, &entry) || entry > MAX_LENGTH ||
            !hotspot_read_field(reader, at->n, start, &n))
                return 0;
        entry += start;
        for (uint64_t i = 0; i < MIN(n, (uint64_t)MAX_ENTRIES); i++, entry += length) {
                if (!hotspot_read_field(reader, at->length, entry, &length) || !length ||
                    length > MAX_LENGTH || !hotspot_read_field(reader, at->name, entry, &name) ||
                    name > length ||
                    !hotspot_read_field(reader, at->data, entry, &data) || data > length)
                        return 0;
                if (is_count(reader, entry + name))
                        return (entry + data) & 7 ? 0 : entry + data;
        }
        return 0;
}
