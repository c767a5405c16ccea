/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A JVM publishes two lists of itself, in which each entry has a name: its flags, and the counts that its own
 * tools read (PerfMemory). hotspot-layout.c finds where they begin; here each is gone through once.
 */
#include "host/runtime/hotspot/hotspot-published.h"

#include <string.h>

#include "core/base/util/macro.h"

/* ---- flags ---- */

/*
 *     JVMFlag::flags ─▶ JVMFlag { _name, _addr, … } JVMFlag { … } …      numFlags of them; `Flag` in JDK 8
 *                                  │       └─▶ its value: one byte, or eight
 *                                  └─▶ "UseCountedLoopSafepoints"
 */
enum {
        MAX_FLAGS = 4096,               /* JDK 25 has 1,100 */
        MAX_FLAG_NAME = 32,             /* bytes of a name that is looked for, with its NUL */
        LEVEL_OF_C2 = 4,
};

/* Takes the address of the value of the flag called @name, if it is one of @names. */
static void note(const char *name, uint64_t value, const char *const *names, size_t n, uint64_t *values) {
        for (size_t i = 0; i < n; i++)
                if (!strncmp(name, names[i], MAX_FLAG_NAME))
                        values[i] = value;
}

void hotspot_published_flags(const HotspotLayout *layout, const HotspotReader *reader, uint64_t bias,
                             const char *const *names, size_t n, uint64_t *values) {
        const HotspotFlagsLayout *at = &layout->flags;
        uint64_t list, n_flags, name, value;

        memset(values, 0, n * sizeof(*values));
        if (!at->list || !at->count || !at->struct_size ||
            !hotspot_read_u64(reader, bias + at->list, &list) ||
            !hotspot_read_u64(reader, bias + at->count, &n_flags))
                return;
        for (uint64_t i = 0; i < MIN(n_flags, (uint64_t)MAX_FLAGS); i++) {
                uint64_t flag = list + i * at->struct_size;
                char text[MAX_FLAG_NAME] = "";

                if (!hotspot_read_field(reader, at->name, flag, &name) ||
                    !hotspot_read_field(reader, at->value, flag, &value))
                        return;
                if (name && hotspot_read(reader, name, text, sizeof(text)))
                        note(text, value, names, n, values);
        }
}

bool hotspot_published_no_loop_polls(const HotspotLayout *layout, const HotspotReader *reader,
                                     uint64_t bias) {
        enum { POLLS, LEVEL, COMPILES, N };
        static const char *const names[N] = { "UseCountedLoopSafepoints", "TieredStopAtLevel", "UseCompiler" };
        uint64_t values[N], highest;
        uint8_t has_polls, compiler;

        hotspot_published_flags(layout, reader, bias, names, N, values);
        return values[POLLS] && values[LEVEL] && values[COMPILES] &&
               hotspot_read(reader, values[POLLS], &has_polls, 1) &&
               hotspot_read(reader, values[COMPILES], &compiler, 1) &&
               hotspot_read_u64(reader, values[LEVEL], &highest) && !has_polls && compiler &&
               highest >= LEVEL_OF_C2;
}

/* ---- a JVM that starts ---- */

/*
 * The interpreter gets a block of some hundred KiB, and gives back what it has not needed once it is made:
 *
 *     while it is made   [ interpreter                                     ]
 *     later              [ interpreter ][ StubRoutines (2) ][ adapters ] …
 *
 * Bounds that were read in between would take those stubs for the interpreter, for as long as the process
 * lives. The thread of `main` is listed before that or after, by the release, all others after.
 */
enum { FIRST_THREADS = 2 };

bool hotspot_published_has_begun(const HotspotLayout *layout, const HotspotReader *reader, uint64_t bias) {
        const HotspotLockLayout *at = &layout->locks;
        uint64_t list, n;

        if (at->threads && at->n_threads.size)
                return hotspot_read_u64(reader, bias + at->threads, &list) &&
                       hotspot_read_field(reader, at->n_threads, list, &n) && n >= FIRST_THREADS;
        if (!at->first_thread || !at->next_thread.size)
                return true;
        return hotspot_read_u64(reader, bias + at->first_thread, &list) && list &&
               hotspot_read_field(reader, at->next_thread, list, &n) && n;
}

/* ---- unloaded classes ---- */

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
enum {
        MAX_ENTRIES = 4096,             /* JDK 25 has 300 */
        MAX_LENGTH = 64 << 10,          /* bytes of an entry */
};

static bool is_count(const HotspotReader *reader, uint64_t name) {
        static const char count[] = "java.cls.unloadedClasses";
        char text[sizeof(count)];

        return hotspot_read(reader, name, text, sizeof(text)) && !memcmp(text, count, sizeof(count));
}

uint64_t hotspot_published_unloads(const HotspotLayout *layout, const HotspotReader *reader, uint64_t bias) {
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
