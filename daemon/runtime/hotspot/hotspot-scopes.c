/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Beside the code of an nmethod lie PcDescs, sorted by pc, scopes as compressed numbers, and metadata, an
 * array of pointers to which scopes refer:
 *
 *     PcDesc   pc_offset  scope_decode_offset                  scope at 37: sender 12, method 2, bci 5 + 1, …
 *              −1         –               (the first: none)              │
 *              44         12                                   scope at 12: sender 0,  method 1, bci 9 + 1, …
 *     pc 50 ─▶ 52         37
 *              2³¹ − 1    –               (the last: none)     metadata[1 − 1]: the nmethod's own Method
 *
 * HotSpot describes places where the VM may stop: returns from calls, safepoints, implicit checks. What a
 * place has run since the one before is of the scope of the first description at or after its pc
 * (nmethod.cpp, pc_desc_near); a return address has its own. Sender 0 ends the chain.
 *
 * The chain ends at the nmethod's own method, or it was no chain: the check that the nmethod was not replaced
 * while it was read.
 */
#include "runtime/hotspot/hotspot-scopes.h"

#include <string.h>

#include "base/util/macro.h"
#include "runtime/hotspot/hotspot-number.h"

enum {
        FIRST_BCI = -8,                 /* below 0: places that are no byte code, as the entry (−1) */
        PC_DESC = 16,                   /* bytes; four ints */
        MAX_TABLE = 16 << 20,           /* bytes of one of the tables */
        SCOPE_BYTES = 3 * 5,            /* of the three numbers that begin a scope, at the most */
};

typedef struct PcDesc {
        int32_t pc_offset, scope, object, flags;
} PcDesc;

_Static_assert(sizeof(PcDesc) == PC_DESC, "vmStructs: PcDesc");

/* The first at or after @offset. */
static int find_desc(const HotspotReader *reader, const HotspotBlob *blob, int32_t offset, PcDesc *desc) {
        uint64_t low = 0, high = (blob->pcs_end - blob->pcs) / PC_DESC;
        bool is_found = false;

        while (low < high) {
                uint64_t middle = low + (high - low) / 2;
                PcDesc here;

                if (!hotspot_read(reader, blob->pcs + middle * PC_DESC, &here, sizeof(here)))
                        return HOTSPOT_SCOPES_E_UNREADABLE;
                if (here.pc_offset < offset) {
                        low = middle + 1;
                        continue;
                }
                *desc = here;
                is_found = true;
                high = middle;
        }
        return is_found && desc->scope > 0 && desc->pc_offset < INT32_MAX ? 0 : HOTSPOT_SCOPES_E_NONE;
}

static int read_scope(HotspotScope *scope, uint64_t *offsetp, const HotspotLayout *layout,
                      const HotspotReader *reader, const HotspotBlob *blob) {
        uint64_t room = blob->scopes_data_end - blob->scopes_data;
        uint32_t sender, method;
        uint8_t data[SCOPE_BYTES];
        HotspotNumbers numbers = { .data = data,
                                   .has_zero_free_numbers = layout->has_zero_free_numbers };

        if (*offsetp >= room)
                return HOTSPOT_SCOPES_E_MALFORMED;
        numbers.size = MIN((uint64_t)SCOPE_BYTES, room - *offsetp);
        if (!hotspot_read(reader, blob->scopes_data + *offsetp, data, numbers.size))
                return HOTSPOT_SCOPES_E_UNREADABLE;
        sender = hotspot_numbers_next(&numbers);
        method = hotspot_numbers_next(&numbers);
        scope->bci = (int32_t)(hotspot_numbers_next(&numbers) - 1);
        /* Scopes are written after those that they were called from, so a chain has no circle. */
        if (numbers.has_failed || sender >= *offsetp || !method ||
            method > (blob->metadata_end - blob->metadata) / 8 || scope->bci < FIRST_BCI ||
            scope->bci > UINT16_MAX)
                return HOTSPOT_SCOPES_E_MALFORMED;
        scope->bci = MAX(scope->bci, -1);
        *offsetp = sender;
        return hotspot_read_u64(reader, blob->metadata + (uint64_t)(method - 1) * 8, &scope->method)
                       ? 0
                       : HOTSPOT_SCOPES_E_UNREADABLE;
}

static bool is_table(uint64_t start, uint64_t end) {
        return start && end >= start && end - start <= MAX_TABLE && !(end >> 56);
}

int hotspot_scopes_read(HotspotScope scopes[HOTSPOT_MAX_INLINED], uint32_t *np, bool *is_exactp,
                        const HotspotLayout *layout, const HotspotReader *reader, const HotspotBlob *blob,
                        uint64_t pc) {
        uint64_t offset;
        PcDesc desc;
        int r;

        if (pc < blob->code || pc > blob->code_end || pc - blob->code > INT32_MAX)
                return HOTSPOT_SCOPES_E_NONE;
        if (!is_table(blob->pcs, blob->pcs_end) || !is_table(blob->scopes_data, blob->scopes_data_end) ||
            !is_table(blob->metadata, blob->metadata_end))
                return HOTSPOT_SCOPES_E_MALFORMED;
        r = find_desc(reader, blob, (int32_t)(pc - blob->code), &desc);
        if (r)
                return r;
        offset = (uint64_t)desc.scope;
        for (uint32_t n = 0; n < HOTSPOT_MAX_INLINED;) {
                r = read_scope(&scopes[n++], &offset, layout, reader, blob);
                if (r)
                        return r;
                if (!offset) {
                        *np = n;
                        *is_exactp = desc.pc_offset == (int32_t)(pc - blob->code);
                        return scopes[n - 1].method == blob->method ? 0 : HOTSPOT_SCOPES_E_MALFORMED;
                }
        }
        return HOTSPOT_SCOPES_E_MALFORMED;
}
