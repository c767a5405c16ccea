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
 * HotSpot describes places where the VM may stop: returns from calls, safepoints, implicit checks. A return
 * address has its own description. For what runs up to a place HotSpot takes that one's scope (nmethod.cpp,
 * pc_desc_near). But it may be of a method that is inlined there and has not begun yet:
 *
 *     before   call …                          scope: main, append
 *     pc             …                         of `stringSize`, inlined, or of append: nothing says so
 *     after    test …                          scope: main, append, getChars
 *
 * So a frame counts if the place before the pc has it, too, and the code leads from there to here
 * (hotspot-flow.c). Sender 0 ends the chain.
 *
 * The chain ends at the nmethod's own method, or it was no chain: the check that the nmethod was not replaced
 * while it was read.
 */
#include "runtime/hotspot/hotspot-scopes.h"

#include <string.h>

#include "base/util/macro.h"
#include "runtime/hotspot/hotspot-flow.h"
#include "runtime/hotspot/hotspot-number.h"

enum {
        FIRST_BCI = -8,                 /* below 0: places that are no byte code, as the entry (−1) */
        PC_DESC = 16,                   /* bytes; four ints */
        MAX_TABLE = 16 << 20,           /* bytes of one of the tables */
        SCOPE_BYTES = 3 * 5,            /* of the three numbers that begin a scope, at the most */
        MAX_JUMPS = 16,                 /* that are followed from a pc on */
};

typedef struct PcDesc {
        int32_t pc_offset, scope, object, flags;
} PcDesc;

_Static_assert(sizeof(PcDesc) == PC_DESC, "vmStructs: PcDesc");

static int read_desc(const HotspotReader *reader, const HotspotBlob *blob, uint64_t index, PcDesc *desc) {
        bool is_read = hotspot_read(reader, blob->pcs + index * PC_DESC, desc, sizeof(*desc));

        return is_read ? 0 : HOTSPOT_SCOPES_E_UNREADABLE;
}

static uint64_t n_descs(const HotspotBlob *blob) {
        return (blob->pcs_end - blob->pcs) / PC_DESC;
}

/* The first at or after @offset, *indexp; n_descs() if there is none. */
static int find_desc(const HotspotReader *reader, const HotspotBlob *blob, int32_t offset, uint64_t *indexp) {
        uint64_t low = 0, high = n_descs(blob);

        while (low < high) {
                uint64_t middle = low + (high - low) / 2;
                PcDesc here;

                if (read_desc(reader, blob, middle, &here))
                        return HOTSPOT_SCOPES_E_UNREADABLE;
                if (here.pc_offset < offset)
                        low = middle + 1;
                else
                        high = middle;
        }
        *indexp = low;
        return 0;
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

/* The scope of a description and its callers. Return: 0, HOTSPOT_SCOPES_E_*. */
static int read_chain(HotspotScope scopes[HOTSPOT_MAX_INLINED], uint32_t *np, const HotspotLayout *layout,
                      const HotspotReader *reader, const HotspotBlob *blob, const PcDesc *desc) {
        uint64_t offset = (uint64_t)desc->scope;

        if (desc->scope <= 0 || desc->pc_offset == INT32_MAX)
                return HOTSPOT_SCOPES_E_NONE;
        for (uint32_t n = 0; n < HOTSPOT_MAX_INLINED;) {
                int r = read_scope(&scopes[n++], &offset, layout, reader, blob);

                if (r)
                        return r;
                if (!offset) {
                        *np = n;
                        return scopes[n - 1].method == blob->method ? 0 : HOTSPOT_SCOPES_E_MALFORMED;
                }
        }
        return HOTSPOT_SCOPES_E_MALFORMED;
}

static int take_root(HotspotScope scopes[HOTSPOT_MAX_INLINED], uint32_t *np, const HotspotBlob *blob) {
        scopes[0] = (HotspotScope){ blob->method, HOTSPOT_NO_BCI };
        *np = 1;
        return 0;
}

/* How many callers both chains have, the outermost first. The last of them may be at different places. */
static uint32_t count_common(const HotspotScope *scopes, uint32_t n, const HotspotScope *other,
                             uint32_t n_other) {
        uint32_t common = 0;

        while (common < n && common < n_other &&
               scopes[n - 1 - common].method == other[n_other - 1 - common].method &&
               (!common || scopes[n - common].bci == other[n_other - common].bci))
                common++;
        return common;
}

/* Leaves in @scopes the callers that @other has, too. */
static void keep_common(HotspotScope scopes[HOTSPOT_MAX_INLINED], uint32_t *np,
                        const HotspotScope other[HOTSPOT_MAX_INLINED], uint32_t n_other) {
        uint32_t n = count_common(scopes, *np, other, n_other);

        if (n && scopes[*np - n].bci != other[n_other - n].bci)
                scopes[*np - n].bci = HOTSPOT_NO_BCI;
        memmove(scopes, scopes + *np - n, n * sizeof(*scopes));
        *np = n;
}

/* Descriptions around a place. */
typedef struct Around {
        PcDesc before, after;           /* a scope of 0: none */
        HotspotPlaces places;
} Around;

static uint64_t place_of(const HotspotBlob *blob, const PcDesc *desc, uint64_t none) {
        uint64_t place = blob->code + (uint32_t)desc->pc_offset;

        return desc->scope > 0 && desc->pc_offset >= 0 && place < blob->code_end ? place : none;
}

/* @before: of the pc itself, @at: where its code goes on. */
static int find_around(Around *around, const HotspotReader *reader, const HotspotBlob *blob, uint64_t pc,
                       uint64_t at) {
        PcDesc beyond = { 0 }, earlier = { 0 };
        uint64_t of_pc, of_at, n = n_descs(blob);

        *around = (Around){ .places = { .code = blob->code, .code_end = blob->code_end } };
        if (find_desc(reader, blob, (int32_t)(pc - blob->code), &of_pc) ||
            find_desc(reader, blob, (int32_t)(at - blob->code), &of_at) ||
            (of_pc && read_desc(reader, blob, of_pc - 1, &around->before)) ||
            (of_pc > 1 && read_desc(reader, blob, of_pc - 2, &earlier)) ||
            (of_at < n && read_desc(reader, blob, of_at, &around->after)) ||
            (of_at + 1 < n && read_desc(reader, blob, of_at + 1, &beyond)))
                return HOTSPOT_SCOPES_E_UNREADABLE;
        around->places.before = place_of(blob, &around->before, blob->code);
        around->places.earlier = place_of(blob, &earlier, blob->code);
        around->places.after = place_of(blob, &around->after, blob->code_end);
        around->places.beyond = place_of(blob, &beyond, blob->code_end);
        return 0;
}

/* Where the code from the pc on leads. Return: 0, HOTSPOT_SCOPES_E_*. */
static int follow(HotspotFlow *flowp, Around *around, HotspotLoop *loop, const HotspotReader *reader,
                  const HotspotBlob *blob, uint64_t pc) {
        uint64_t at = pc;

        *flowp = HOTSPOT_FLOW_ELSEWHERE;
        *loop = (HotspotLoop){ 0 };
        for (int i = 0; i < MAX_JUMPS && *flowp == HOTSPOT_FLOW_ELSEWHERE; i++) {
                int r = find_around(around, reader, blob, pc, at);

                if (r)
                        return r;
                *flowp = hotspot_flow(reader, &around->places, pc, at, &at, loop);
        }
        return 0;
}

/* Leaves in @scopes the callers that @desc has, too; if none is known, the compiled method alone. */
static void keep_those_of(const PcDesc *desc, HotspotScope scopes[HOTSPOT_MAX_INLINED], uint32_t *np,
                          const HotspotLayout *layout, const HotspotReader *reader,
                          const HotspotBlob *blob) {
        HotspotScope other[HOTSPOT_MAX_INLINED];
        uint32_t n_other;

        if (read_chain(other, &n_other, layout, reader, blob, desc))
                take_root(scopes, np, blob);
        else
                keep_common(scopes, np, other, n_other);
}

/*
 * Leaves in @scopes, of the place after the pc, what runs at the pc. A loop that has the place before in it
 * may be a caller's, which called the same method again meanwhile; so what stands in front of such a loop
 * has to agree, too.
 */
static void keep_proved(HotspotScope scopes[HOTSPOT_MAX_INLINED], uint32_t *np, const HotspotLayout *layout,
                        const HotspotReader *reader, const HotspotBlob *blob, const Around *around,
                        uint64_t pc, const HotspotLoop *loop) {
        Around outside;

        if (!hotspot_flow_leads(reader, &around->places, pc, loop)) {
                take_root(scopes, np, blob);
                return;
        }
        keep_those_of(&around->before, scopes, np, layout, reader, blob);
        if (!loop->end || loop->head > around->places.before)
                return;
        if (find_around(&outside, reader, blob, loop->head, loop->head))
                take_root(scopes, np, blob);
        else
                keep_those_of(&outside.before, scopes, np, layout, reader, blob);
}

/* Of a pc between two descriptions. */
static int read_between(HotspotScope scopes[HOTSPOT_MAX_INLINED], uint32_t *np, const HotspotLayout *layout,
                        const HotspotReader *reader, const HotspotBlob *blob, uint64_t pc,
                        bool *is_shortp) {
        HotspotLoop loop;
        HotspotFlow flow;
        Around around;
        uint32_t n;
        int32_t bci;
        int r;

        if (blob->frame_complete > 0 && pc < blob->code + (uint32_t)blob->frame_complete)
                return take_root(scopes, np, blob);
        r = follow(&flow, &around, &loop, reader, blob, pc);
        if (r)
                return r;
        if (flow == HOTSPOT_FLOW_BEFORE)
                return read_chain(scopes, np, layout, reader, blob, &around.before);
        *is_shortp = flow != HOTSPOT_FLOW_LOOP;
        if (flow != HOTSPOT_FLOW_LOOP && flow != HOTSPOT_FLOW_AFTER)
                return take_root(scopes, np, blob);
        r = read_chain(scopes, np, layout, reader, blob, &around.after);
        if (r || flow == HOTSPOT_FLOW_LOOP)
                return r;
        n = *np;
        bci = scopes[0].bci;
        if (n > 1 || loop.end)
                keep_proved(scopes, np, layout, reader, blob, &around, pc, &loop);
        if (*np == n && !loop.end)
                scopes[0].bci = bci;    /* where it goes on is near enough */
        *is_shortp = *np < n || loop.end;
        return 0;
}

int hotspot_scopes_read(HotspotScope scopes[HOTSPOT_MAX_INLINED], uint32_t *np, const HotspotLayout *layout,
                        const HotspotReader *reader, const HotspotBlob *blob, uint64_t pc, bool *is_shortp) {
        uint64_t index;
        PcDesc desc;

        *is_shortp = false;
        if (pc < blob->code || pc > blob->code_end || pc - blob->code > INT32_MAX)
                return HOTSPOT_SCOPES_E_NONE;
        if (!is_table(blob->pcs, blob->pcs_end) || !is_table(blob->scopes_data, blob->scopes_data_end) ||
            !is_table(blob->metadata, blob->metadata_end))
                return HOTSPOT_SCOPES_E_MALFORMED;
        if (find_desc(reader, blob, (int32_t)(pc - blob->code), &index))
                return HOTSPOT_SCOPES_E_UNREADABLE;
        if (index == n_descs(blob))
                return HOTSPOT_SCOPES_E_NONE;
        if (read_desc(reader, blob, index, &desc))
                return HOTSPOT_SCOPES_E_UNREADABLE;
        return desc.pc_offset == (int32_t)(pc - blob->code)
                       ? read_chain(scopes, np, layout, reader, blob, &desc)
                       : read_between(scopes, np, layout, reader, blob, pc, is_shortp);
}
