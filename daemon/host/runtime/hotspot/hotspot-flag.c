/* SPDX-License-Identifier: Apache-2.0 */

/*
 *     JVMFlag::flags ─▶ JVMFlag { _name, _addr, … } JVMFlag { … } …      numFlags of them; `Flag` in JDK 8
 *                                  │       └─▶ its value: one byte, or eight
 *                                  └─▶ "UseCountedLoopSafepoints"
 */
#include "host/runtime/hotspot/hotspot-flag.h"

#include <string.h>

#include "core/base/util/macro.h"

enum {
        MAX_FLAGS = 4096,               /* JDK 25 has 1,100 */
        LEVEL_OF_C2 = 4,
};

static const char polls[] = "UseCountedLoopSafepoints";
static const char level[] = "TieredStopAtLevel";
static const char compiles[] = "UseCompiler";

typedef struct Flags {
        uint64_t polls, level, compiles;        /* addresses of their values; 0 = not found */
} Flags;

static void note(Flags *flags, const char *name, uint64_t value) {
        if (!memcmp(name, polls, sizeof(polls)))
                flags->polls = value;
        else if (!memcmp(name, level, sizeof(level)))
                flags->level = value;
        else if (!memcmp(name, compiles, sizeof(compiles)))
                flags->compiles = value;
}

static void find(Flags *flags, const HotspotLayout *layout, const HotspotReader *reader, uint64_t bias) {
        const HotspotFlagsLayout *at = &layout->flags;
        uint64_t list, n, name, value;
        char text[sizeof(polls)];

        if (!at->list || !at->count || !at->struct_size ||
            !hotspot_read_u64(reader, bias + at->list, &list) ||
            !hotspot_read_u64(reader, bias + at->count, &n))
                return;
        for (uint64_t i = 0; i < MIN(n, (uint64_t)MAX_FLAGS); i++) {
                uint64_t flag = list + i * at->struct_size;

                if (!hotspot_read_field(reader, at->name, flag, &name) ||
                    !hotspot_read_field(reader, at->value, flag, &value))
                        return;
                memset(text, 0, sizeof(text));
                if (name && hotspot_read(reader, name, text, sizeof(text)))
                        note(flags, text, value);
        }
}

bool hotspot_flag_no_loop_polls(const HotspotLayout *layout, const HotspotReader *reader, uint64_t bias) {
        Flags flags = { 0 };
        uint8_t has_polls, compiler;
        uint64_t highest;

        find(&flags, layout, reader, bias);
        return flags.polls && flags.level && flags.compiles &&
               hotspot_read(reader, flags.polls, &has_polls, 1) &&
               hotspot_read(reader, flags.compiles, &compiler, 1) &&
               hotspot_read_u64(reader, flags.level, &highest) && !has_polls && compiler &&
               highest >= LEVEL_OF_C2;
}
