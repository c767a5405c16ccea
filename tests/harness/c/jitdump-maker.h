/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes jitdumps by the description that comes with perf, field by field. */

#include <stdint.h>
#include <string.h>

#include "core/base/util/text.h"

static inline void dump_u32(Text *dump, uint32_t value) {
        text_append(dump, (const char *)&value, sizeof(value));
}

static inline void dump_u64(Text *dump, uint64_t value) {
        text_append(dump, (const char *)&value, sizeof(value));
}

static inline void dump_header(Text *dump, uint32_t magic, uint32_t version, uint32_t size, uint64_t flags) {
        dump_u32(dump, magic);
        dump_u32(dump, version);
        dump_u32(dump, size);
        dump_u32(dump, 62);             /* EM_X86_64 */
        dump_u32(dump, 0);
        dump_u32(dump, 4711);
        dump_u64(dump, 1000);
        dump_u64(dump, flags);
        for (uint32_t i = 40; i < size; i++)
                text_append(dump, "\xEE", 1);
}

static inline void dump_prefix(Text *dump, uint32_t id, uint32_t size, uint64_t time_ns) {
        dump_u32(dump, id);
        dump_u32(dump, size);
        dump_u64(dump, time_ns);
}

static inline void dump_load(Text *dump, uint64_t time_ns, uint64_t start, uint64_t size, uint64_t index,
                             const char *name) {
        dump_prefix(dump, 0, (uint32_t)(16 + 40 + strlen(name) + 1 + size), time_ns);
        dump_u32(dump, 4711);
        dump_u32(dump, 4712);
        dump_u64(dump, start);
        dump_u64(dump, start);
        dump_u64(dump, size);
        dump_u64(dump, index);
        text_append(dump, name, strlen(name) + 1);
        for (uint64_t i = 0; i < size; i++)
                text_append(dump, "\xCC", 1);
}

static inline void dump_move(Text *dump, uint64_t time_ns, uint64_t from, uint64_t to, uint64_t size,
                             uint64_t index) {
        dump_prefix(dump, 1, 16 + 48, time_ns);
        dump_u32(dump, 4711);
        dump_u32(dump, 4712);
        dump_u64(dump, to);
        dump_u64(dump, from);
        dump_u64(dump, to);
        dump_u64(dump, size);
        dump_u64(dump, index);
}
