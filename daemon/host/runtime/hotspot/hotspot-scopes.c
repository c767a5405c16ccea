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
 * (hotspot-flow.c). A way out of the code that is nearer than a place stands for it (hotspot-exit.c), and its
 * byte code has to be in order: what is checked twice may have ended in between. Sender 0 ends the chain.
 * A loop without a place is of the one method that can loop between its neighbours (hotspot-loop.c).
 *
 * The chain ends at the nmethod's own method, or it was no chain: the check that the nmethod was not replaced
 * while it was read.
 */
#include "host/runtime/hotspot/hotspot-scopes.h"

#include <string.h>

#include "core/base/util/macro.h"
#include "host/runtime/hotspot/hotspot-exit.h"
#include "host/runtime/hotspot/hotspot-flow.h"
#include "host/runtime/hotspot/hotspot-loop.h"
#include "host/runtime/hotspot/hotspot-number.h"

enum {
        FIRST_BCI = -8,                 /* below 0: places that are no byte code, as the entry (−1) */
        PC_DESC = 16,                   /* bytes; four ints */
        MAX_TABLE = 16 << 20,           /* bytes of one of the tables */
        SCOPE_BYTES = 3 * 5,            /* bytes of the three numbers that begin a scope, at the most */
        MAX_JUMPS = 16,                 /* jumps that are followed from a pc on */
        MAX_AGREED = 2048,              /* descriptions that are asked for other targets of a call */
        EXITS_SINCE = 11,               /* release whose ways out are asked; docs/RUNTIMES.md says why */
};

typedef struct PcDesc {
        int32_t pc_offset, scope, object, flags;
} PcDesc;

_Static_assert(sizeof(PcDesc) == PC_DESC, "vmStructs: PcDesc");

static int read_desc(const HotspotCompiled *in, uint64_t index, PcDesc *desc) {
        bool is_read = hotspot_read(in->reader, in->blob->pcs + index * PC_DESC, desc, sizeof(*desc));

        return is_read ? 0 : HOTSPOT_SCOPES_E_UNREADABLE;
}

static uint64_t n_descs(const HotspotCompiled *in) {
        return (in->blob->pcs_end - in->blob->pcs) / PC_DESC;
}

/* The first at or after @offset, *indexp; n_descs() if there is none. */
static int find_desc(const HotspotCompiled *in, int32_t offset, uint64_t *indexp) {
        uint64_t low = 0, high = n_descs(in);

        while (low < high) {
                uint64_t middle = low + (high - low) / 2;
                PcDesc here;

                if (read_desc(in, middle, &here))
                        return HOTSPOT_SCOPES_E_UNREADABLE;
                if (here.pc_offset < offset)
                        low = middle + 1;
                else
                        high = middle;
        }
        *indexp = low;
        return 0;
}

static int read_scope(HotspotScope *scope, uint64_t *offsetp, const HotspotCompiled *in) {
        uint64_t room = in->blob->scopes_data_end - in->blob->scopes_data;
        uint32_t sender, method;
        uint8_t data[SCOPE_BYTES];
        HotspotNumbers numbers = { .data = data,
                                   .has_zero_free_numbers = in->layout->has_zero_free_numbers };

        if (*offsetp >= room)
                return HOTSPOT_SCOPES_E_MALFORMED;
        numbers.size = MIN((uint64_t)SCOPE_BYTES, room - *offsetp);
        if (!hotspot_read(in->reader, in->blob->scopes_data + *offsetp, data, numbers.size))
                return HOTSPOT_SCOPES_E_UNREADABLE;
        sender = hotspot_numbers_next(&numbers);
        method = hotspot_numbers_next(&numbers);
        scope->bci = (int32_t)(hotspot_numbers_next(&numbers) - 1);
        /* Scopes are written after those that they were called from, so a chain has no circle. */
        if (numbers.has_failed || sender >= *offsetp || !method ||
            method > (in->blob->metadata_end - in->blob->metadata) / 8 || scope->bci < FIRST_BCI ||
            scope->bci > UINT16_MAX)
                return HOTSPOT_SCOPES_E_MALFORMED;
        scope->bci = MAX(scope->bci, -1);
        *offsetp = sender;
        return hotspot_read_u64(in->reader, in->blob->metadata + (uint64_t)(method - 1) * 8, &scope->method)
                       ? 0
                       : HOTSPOT_SCOPES_E_UNREADABLE;
}

static bool is_table(uint64_t start, uint64_t end) {
        return start && end >= start && end - start <= MAX_TABLE && !(end >> 56);
}

/* The scope of a description and its callers. Return: 0, HOTSPOT_SCOPES_E_*. */
static int read_chain(HotspotScope scopes[HOTSPOT_MAX_INLINED], uint32_t *np, const HotspotCompiled *in,
                      const PcDesc *desc) {
        uint64_t offset = (uint64_t)desc->scope;

        if (desc->scope <= 0 || desc->pc_offset == INT32_MAX)
                return HOTSPOT_SCOPES_E_NONE;
        for (uint32_t n = 0; n < HOTSPOT_MAX_INLINED;) {
                int r = read_scope(&scopes[n++], &offset, in);

                if (r)
                        return r;
                if (!offset) {
                        *np = n;
                        return scopes[n - 1].method == in->blob->method ? 0 : HOTSPOT_SCOPES_E_MALFORMED;
                }
        }
        return HOTSPOT_SCOPES_E_MALFORMED;
}

static int take_root(HotspotScope scopes[HOTSPOT_MAX_INLINED], uint32_t *np, const HotspotCompiled *in) {
        scopes[0] = (HotspotScope){ in->blob->method, HOTSPOT_NO_BCI };
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

static uint64_t place_of(const HotspotCompiled *in, const PcDesc *desc, uint64_t none) {
        uint64_t place = in->blob->code + (uint32_t)desc->pc_offset;

        return desc->scope > 0 && desc->pc_offset >= 0 && place < in->blob->code_end ? place : none;
}

/* @before: of the pc itself, @at: where its code goes on. */
static int find_around(Around *around, const HotspotCompiled *in, uint64_t pc, uint64_t at) {
        PcDesc beyond = { 0 }, earlier = { 0 };
        uint64_t of_pc, of_at, n = n_descs(in);

        *around = (Around){ .places = { .code = in->blob->code, .code_end = in->blob->code_end } };
        if (find_desc(in, (int32_t)(pc - in->blob->code), &of_pc) ||
            find_desc(in, (int32_t)(at - in->blob->code), &of_at) ||
            (of_pc && read_desc(in, of_pc - 1, &around->before)) ||
            (of_pc > 1 && read_desc(in, of_pc - 2, &earlier)) ||
            (of_at < n && read_desc(in, of_at, &around->after)) ||
            (of_at + 1 < n && read_desc(in, of_at + 1, &beyond)))
                return HOTSPOT_SCOPES_E_UNREADABLE;
        around->places.before = place_of(in, &around->before, in->blob->code);
        around->places.earlier = place_of(in, &earlier, in->blob->code);
        around->places.after = place_of(in, &around->after, in->blob->code_end);
        around->places.beyond = place_of(in, &beyond, in->blob->code_end);
        return 0;
}

/* The description to which a way out leads. Return: whether there is one. */
static bool read_exit(PcDesc *desc, const HotspotCompiled *in, const HotspotPlaces *places,
                      const HotspotExit *exit) {
        uint64_t place, index;

        return hotspot_exit_follow(exit, in, places, &place) &&
               !find_desc(in, (int32_t)(place - in->blob->code), &index) && index < n_descs(in) &&
               !read_desc(in, index, desc) && desc->scope > 0 &&
               in->blob->code + (uint32_t)desc->pc_offset == place;
}

/* Finds the first way out from @at on that is described; up to a place, or a jump back or away. */
static bool first_exit(PcDesc *desc, const HotspotCompiled *in, const HotspotPlaces *places, uint64_t pc,
                       uint64_t at) {
        HotspotExits exits;

        hotspot_flow_exits(&exits, in->reader, places, at, places->after, pc, false);
        hotspot_exit_null_checks(&exits, in, at, exits.end, false);
        for (uint32_t i = 0; i < exits.n; i++)
                if (read_exit(desc, in, places, &exits.exits[i]))
                        return true;
        return false;
}

/* Facts about the code around a pc. */
typedef struct Flow {
        HotspotFlow flow;
        uint64_t next;                  /* where a jump back leads */
        Around around;                  /* @around.after may be a way out's */
        HotspotLoop loop;
        bool asks_exits;
} Flow;

/* Where the code from the pc on leads. Return: 0, HOTSPOT_SCOPES_E_*. */
static int follow(Flow *flow, const HotspotCompiled *in, uint64_t pc, bool asks_exits) {
        PcDesc desc;

        *flow = (Flow){ .flow = HOTSPOT_FLOW_ELSEWHERE, .next = pc, .asks_exits = asks_exits };
        for (int i = 0; i < MAX_JUMPS && flow->flow == HOTSPOT_FLOW_ELSEWHERE; i++) {
                const HotspotPlaces *places = &flow->around.places;
                int r = find_around(&flow->around, in, pc, flow->next);

                if (r)
                        return r;
                if (asks_exits && !flow->loop.end && first_exit(&desc, in, places, pc, flow->next)) {
                        flow->around.after = desc;
                        flow->flow = HOTSPOT_FLOW_AFTER;
                        return 0;
                }
                flow->flow = hotspot_flow(in->reader, places, pc, flow->next, &flow->next, &flow->loop);
        }
        return 0;
}

/* Finds the description in front of @pc: the last way out there that leads on to it, or the place. */
static int read_before(PcDesc *desc, uint64_t *placep, const Flow *flow, const HotspotCompiled *in,
                       uint64_t pc, const HotspotLoop *loop) {
        HotspotExits exits;
        PcDesc of_exit;
        Around around;
        int r = find_around(&around, in, pc, pc);

        *desc = around.before;
        *placep = around.places.before;
        if (r || !flow->asks_exits)
                return r;
        hotspot_flow_exits(&exits, in->reader, &around.places, *placep, pc, pc, true);
        hotspot_exit_null_checks(&exits, in, *placep, pc, true);
        for (uint32_t i = exits.n; i--;)
                if (read_exit(&of_exit, in, &around.places, &exits.exits[i]) &&
                    hotspot_flow_leads(in->reader, exits.exits[i].at, pc, loop)) {
                        *desc = of_exit;
                        *placep = exits.exits[i].at;
                        return 0;
                }
        return 0;
}

/*
 * Whether the innermost method that both have goes on from @other to @scopes. Else it may have ended and
 * begun again, as in a loop that C2 has written down more than once.
 */
static bool goes_on(const HotspotScope *scopes, uint32_t n, const HotspotScope *other, uint32_t n_other) {
        uint32_t common = count_common(scopes, n, other, n_other);

        if (common <= 1)
                return true;
        return other[n_other - common].bci < scopes[n - common].bci ||
               (other[n_other - common].bci == scopes[n - common].bci && n_other == common && n > common);
}

/*
 * Leaves in @scopes the callers that @desc has, too; if none is known, the compiled method alone. Return:
 * false if these may have been left in between.
 */
static bool keep_those_of(const PcDesc *desc, HotspotScope scopes[HOTSPOT_MAX_INLINED], uint32_t *np,
                          const Flow *flow, const HotspotCompiled *in) {
        HotspotScope other[HOTSPOT_MAX_INLINED];
        uint32_t n_other;

        if (read_chain(other, &n_other, in, desc))
                take_root(scopes, np, in);
        else if (flow->asks_exits && !goes_on(scopes, *np, other, n_other))
                return false;
        else
                keep_common(scopes, np, other, n_other);
        return true;
}

/*
 * Leaves in @scopes, of what is known behind the pc, what runs at the pc. A loop that has the place before in
 * it may be a caller's, which called the same method again meanwhile; so what stands in front of such a loop
 * has to agree, too. Return: false if ways out do not tell.
 */
static bool keep_proved(HotspotScope scopes[HOTSPOT_MAX_INLINED], uint32_t *np, const HotspotCompiled *in,
                        const Flow *flow, uint64_t pc) {
        const HotspotLoop *loop = &flow->loop, none = { 0 };
        uint64_t place;
        PcDesc before;

        if (read_before(&before, &place, flow, in, pc, loop) ||
            !hotspot_flow_leads(in->reader, place, pc, loop)) {
                take_root(scopes, np, in);
                return true;
        }
        if (!keep_those_of(&before, scopes, np, flow, in))
                return false;
        if (!loop->end || loop->head > place)
                return true;
        if (!read_before(&before, &place, flow, in, loop->head, &none))
                return keep_those_of(&before, scopes, np, flow, in);
        take_root(scopes, np, in);
        return true;
}

/* Reads the chain of a description; if it has none, the compiled method alone, at @bci. */
static void read_chain_or_root(HotspotChain *chain, const HotspotCompiled *in, const PcDesc *desc,
                               int32_t bci) {
        if (read_chain(chain->scopes, &chain->n, in, desc)) {
                chain->scopes[0] = (HotspotScope){ in->blob->method, bci };
                chain->n = 1;
        }
}

/*
 * Reads the chain of the place behind a loop, to which the code from @next on leads. *is_backp: after a jump
 * back. Return: false = it leads to none.
 */
static bool read_behind(HotspotChain *chain, const HotspotCompiled *in, uint64_t next, bool asks_exits,
                        bool *is_backp) {
        Flow flow;

        if (follow(&flow, in, next, asks_exits))
                return false;
        *is_backp = flow.flow == HOTSPOT_FLOW_BACK;
        if (*is_backp && follow(&flow, in, flow.next, asks_exits))
                return false;
        switch (flow.flow) {
        case HOTSPOT_FLOW_AFTER:
        case HOTSPOT_FLOW_LOOP:
                read_chain_or_root(chain, in, &flow.around.after, HOTSPOT_NO_BCI);
                return true;
        case HOTSPOT_FLOW_BEFORE:
                read_chain_or_root(chain, in, &flow.around.before, HOTSPOT_NO_BCI);
                return true;
        case HOTSPOT_FLOW_RETURN:
                read_chain_or_root(chain, in, &(PcDesc){ 0 }, UINT16_MAX);
                return true;
        default:
                return false;
        }
}

/* Reads the chain of the place in front of a loop; if its code does not lead there, of a jump that does. */
static bool read_front(HotspotChain *chain, const HotspotCompiled *in, const HotspotPlaces *places,
                       const HotspotLoop *loop, bool asks_exits, bool *is_backp) {
        const Flow flow = { .asks_exits = asks_exits };
        const HotspotLoop none = { 0 };
        uint64_t place, source;
        PcDesc desc;

        if (read_before(&desc, &place, &flow, in, loop->head, loop))
                return false;
        if (!hotspot_flow_leads(in->reader, place, loop->head, loop)) {
                if (!hotspot_flow_source(in->reader, places, loop, &source) ||
                    read_before(&desc, &place, &flow, in, source, &none) ||
                    !hotspot_flow_leads(in->reader, place, source, &none))
                        return false;
                *is_backp |= source > loop->end;
        }
        read_chain_or_root(chain, in, &desc, -1);
        return true;
}

/* Whether all descriptions agree on what the calls of @found lead to. */
static bool is_agreed(const HotspotChain *found, const HotspotCompiled *in) {
        uint64_t n = n_descs(in);
        HotspotChain other;
        PcDesc desc;

        for (uint64_t i = 0; i < n && n <= MAX_AGREED; i++)
                if (read_desc(in, i, &desc) || (!read_chain(other.scopes, &other.n, in, &desc) &&
                                                hotspot_loop_contradicts(found, &other)))
                        return false;
        return n <= MAX_AGREED;
}

/* Names the method whose loop is around @pc, if no place is in it. Return: whether it is known. */
static bool read_loop(HotspotScope scopes[HOTSPOT_MAX_INLINED], uint32_t *np, const HotspotCompiled *in,
                      uint64_t pc, bool asks_exits) {
        HotspotChain before, after, found;
        HotspotLoop loop;
        Around around;
        uint64_t next;
        uint32_t common;
        bool is_back;

        if (find_around(&around, in, pc, pc) ||
            !hotspot_flow_loop(in->reader, &around.places, pc, &loop, &next) ||
            !read_behind(&after, in, next, asks_exits, &is_back) ||
            !read_front(&before, in, &around.places, &loop, asks_exits, &is_back))
                return false;
        common = count_common(before.scopes, before.n, after.scopes, after.n);
        if (!common || !hotspot_loop_find(&found, in, &before, &after, common, is_back) ||
            !is_agreed(&found, in))
                return false;
        memcpy(scopes, found.scopes, found.n * sizeof(*scopes));
        *np = found.n;
        return true;
}

/*
 * Reads the scopes of a pc between two descriptions. Return: 0, HOTSPOT_SCOPES_E_*, -1 = ways out do not
 * tell.
 */
static int read_between(HotspotScope scopes[HOTSPOT_MAX_INLINED], uint32_t *np, const HotspotCompiled *in,
                        uint64_t pc, bool asks_exits, bool *is_shortp) {
        Flow flow;
        uint32_t n;
        int32_t bci;
        int r;

        if (in->blob->frame_complete > 0 && pc < in->blob->code + (uint32_t)in->blob->frame_complete)
                return take_root(scopes, np, in);
        r = follow(&flow, in, pc, asks_exits);
        if (r)
                return r;
        if ((flow.flow == HOTSPOT_FLOW_LOOP || flow.flow == HOTSPOT_FLOW_BEFORE) &&
            read_loop(scopes, np, in, pc, asks_exits))
                return 0;
        if (flow.flow == HOTSPOT_FLOW_BEFORE)
                return read_chain(scopes, np, in, &flow.around.before);
        *is_shortp = flow.flow != HOTSPOT_FLOW_LOOP;
        if (flow.flow != HOTSPOT_FLOW_LOOP && flow.flow != HOTSPOT_FLOW_AFTER)
                return take_root(scopes, np, in);
        r = read_chain(scopes, np, in, &flow.around.after);
        if (r || flow.flow == HOTSPOT_FLOW_LOOP)
                return r;
        n = *np;
        bci = scopes[0].bci;
        if ((n > 1 || flow.loop.end) && !keep_proved(scopes, np, in, &flow, pc))
                return -1;
        if (*np == n && !flow.loop.end)
                scopes[0].bci = bci;    /* where it goes on is near enough */
        *is_shortp = *np < n || flow.loop.end;
        return 0;
}

int hotspot_scopes_read(HotspotScope scopes[HOTSPOT_MAX_INLINED], uint32_t *np, const HotspotCompiled *in,
                        uint64_t pc, bool *is_shortp) {
        bool asks_exits = in->layout->version >= EXITS_SINCE;
        const HotspotBlob *blob = in->blob;
        uint64_t index;
        PcDesc desc;
        int r;

        *is_shortp = false;
        if (pc < blob->code || pc > blob->code_end || pc - blob->code > INT32_MAX)
                return HOTSPOT_SCOPES_E_NONE;
        if (!is_table(blob->pcs, blob->pcs_end) || !is_table(blob->scopes_data, blob->scopes_data_end) ||
            !is_table(blob->metadata, blob->metadata_end))
                return HOTSPOT_SCOPES_E_MALFORMED;
        if (find_desc(in, (int32_t)(pc - blob->code), &index))
                return HOTSPOT_SCOPES_E_UNREADABLE;
        if (index == n_descs(in))
                return HOTSPOT_SCOPES_E_NONE;
        if (read_desc(in, index, &desc))
                return HOTSPOT_SCOPES_E_UNREADABLE;
        if (desc.pc_offset == (int32_t)(pc - blob->code))
                return read_chain(scopes, np, in, &desc);
        r = read_between(scopes, np, in, pc, asks_exits, is_shortp);
        if (r < 0)
                r = read_between(scopes, np, in, pc, false, is_shortp);
        if (!r && *is_shortp)
                *is_shortp = !read_loop(scopes, np, in, pc, asks_exits);
        return r;
}
