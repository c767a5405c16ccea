/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A compiler checks what it bets on. A bet that is lost leaves for a slow path, which stands behind all
 * else and calls the VM. So it has a description: the scope of the byte code whose check it is.
 *
 *     before   call …                          scope: main, append
 *              cmp …; jae slow ────────┐
 *     pc         …                     │       between two checks of getChars: it runs there
 *     load       mov 12(%rax), %r10  ──┼──┐    (no branch: a null faults, and the VM goes on at `null`)
 *     after    call …                  │  │    scope: main, append, next
 *     slow       …; call uncommon trap ◀  │    scope: main, append, getChars
 *     null       …; call uncommon trap ◀──┘    scope: main, append, getChars
 *
 * Code of the program that is rarely needed lies there, too, and its description is of what runs in it. So
 * a way out counts only if it leads to a call of the VM without a branch: an uncommon trap, an allocation,
 * a stub of C1.
 *
 * Loads without a branch are in a table of the nmethod (ImplicitExceptionTable): how many there are, then
 * pairs of offsets {load, where the VM goes on}, sorted.
 */
#include "host/runtime/hotspot/hotspot-exit.h"

#include <string.h>

#include "core/base/util/macro.h"

enum {
        MAX_NULL_CHECKS = 1 << 16,
        MAX_NAME = 48,                  /* bytes that are read of a name; longest: 45 */
};

typedef struct NullCheck {
        uint32_t at, target;            /* from the code's start */
} NullCheck;

/* How many entries there are; 0 if there is no table, or what is there is none. */
static uint32_t count_null_checks(const HotspotReader *reader, const HotspotBlob *blob) {
        uint64_t end = blob->pcs > blob->null_checks ? blob->pcs : blob->end;
        uint32_t n;

        if (!blob->null_checks || !hotspot_read(reader, blob->null_checks, &n, sizeof(n)) ||
            n > MAX_NULL_CHECKS || end < blob->null_checks + sizeof(n) ||
            n > (end - blob->null_checks - sizeof(n)) / sizeof(NullCheck))
                return 0;
        return n;
}

static bool read_null_check(const HotspotReader *reader, const HotspotBlob *blob, uint32_t i,
                            HotspotExit *exit) {
        NullCheck check;

        if (!hotspot_read(reader, blob->null_checks + sizeof(uint32_t) + (uint64_t)i * sizeof(check), &check,
                          sizeof(check)))
                return false;
        *exit = (HotspotExit){ blob->code + check.at, blob->code + check.target };
        return true;
}

/* The first entry at or after @at; @n if there is none. */
static uint32_t find_null_check(const HotspotReader *reader, const HotspotBlob *blob, uint32_t n,
                                uint64_t at) {
        uint32_t low = 0, high = n;

        while (low < high) {
                uint32_t middle = low + (high - low) / 2;
                HotspotExit exit;

                if (!read_null_check(reader, blob, middle, &exit))
                        return n;
                if (exit.at < at)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

void hotspot_exit_null_checks(HotspotExits *exits, const HotspotCompiled *in, uint64_t from, uint64_t to,
                              bool is_last) {
        uint32_t n = count_null_checks(in->reader, in->blob), begin, end;
        HotspotExit exit;

        if (!n || to <= from)
                return;
        begin = find_null_check(in->reader, in->blob, n, from);
        end = find_null_check(in->reader, in->blob, n, to);
        if (end > begin && end - begin > HOTSPOT_MAX_EXITS) {
                begin = is_last ? end - HOTSPOT_MAX_EXITS : begin;
                end = begin + HOTSPOT_MAX_EXITS;
        }
        for (uint32_t i = begin; i < end; i++)
                if (read_null_check(in->reader, in->blob, i, &exit) && exit.at >= from && exit.at < to)
                        hotspot_exits_add(exits, &exit, is_last);
}

/* Whether a call there is made by the compiler for a byte code, and is no call of the program. */
static bool is_of_vm(const HotspotCompiled *in, uint64_t called) {
        static const char *const starts[] = { "UncommonTrapBlob", "_new_", "C1 Runtime ", "C2 Runtime new_" };
        char name[MAX_NAME + 1];
        HotspotBlob blob;
        uint64_t address;

        if (hotspot_code_find(in->code, in->layout, in->reader, called, &address) ||
            hotspot_blob_read(&blob, in->code, in->layout, in->reader, address) ||
            blob.kind != HOTSPOT_BLOB || !hotspot_blob_name(&blob, in->reader, name, sizeof(name)))
                return false;
        for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
                if (!strncmp(name, starts[i], strlen(starts[i])))
                        return true;
        return strstr(name, " Runtime1 stub");
}

bool hotspot_exit_follow(const HotspotExit *exit, const HotspotCompiled *in, const HotspotPlaces *places,
                         uint64_t *returnp) {
        uint64_t called;

        return hotspot_flow_call(in->reader, places, exit->target, returnp, &called) &&
               is_of_vm(in, called);
}
