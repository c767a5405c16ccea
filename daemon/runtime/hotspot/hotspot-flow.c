/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A place says of which scope the code is that leads up to it. But a loop that calls nothing and has no
 * safepoint has no place, and after it comes whatever the compiler has put there:
 *
 *     before   call …                          scope: main, sort, compare at bci 5
 *              head: … ◀─┐
 *     pc             …   │                     of `burn`, inlined: nothing says so
 *              end:  jl ─┘
 *     after    call …                          scope: main, sort, compare at bci 9, Integer.compare
 *
 * So what is looked for is a jump back over the pc. If there is one before the place after, then callers are
 * known that both places have: main, sort, compare, without its line. If there is none, the place holds.
 *
 * If a branch leaves the way to the place after, the thread may never come there:
 *
 *     pc             …                     of main
 *                    je   over ─┐
 *                    …          │          of `rare`, inlined
 *     after          call …     │          scope: main, rare
 *     over:          …        ◀─┘
 *     elsewhere      call …                scope: main
 *
 * So where the branch leads is told, too.
 *
 * A poll of a safepoint belongs to the loop that it stands in, and so do loops inside of that one: C2 splits
 * a loop into an inner one without a poll and an outer one with it. So a poll holds if its own loop has the
 * pc. Its loop is the first jump back over the poll.
 */
#include "runtime/hotspot/hotspot-flow.h"

#include <string.h>

#include "base/elf/machine.h"
#include "base/util/macro.h"
#include "sampling/unwind/scan-arch.h"

enum {
        BUFFER = 256,
        MAX_BYTES = 16 << 10,           /* of code that are looked at from one place on */
        TEST = 0x85,                    /* test %r32, memory */
        REX_B = 0x41,
};

/* Instructions from an address on. */
typedef struct Sweep {
        const HotspotReader *reader;
        uint64_t at, end;               /* the next one; where to stop */
        uint64_t first;                 /* in @bytes */
        size_t n;
        uint8_t bytes[BUFFER];
} Sweep;

static Sweep sweep_from(const HotspotReader *reader, uint64_t at, uint64_t end) {
        return (Sweep){ .reader = reader, .at = at, .end = end, .first = at };
}

static bool fill(Sweep *sweep) {
        sweep->first = sweep->at;
        sweep->n = (size_t)MIN((uint64_t)BUFFER, sweep->end - sweep->at);
        return hotspot_read(sweep->reader, sweep->at, sweep->bytes, sweep->n);
}

/* Return: whether *to is the instruction at *atp. */
static bool next_instruction(Sweep *sweep, uint64_t *atp, ScanInstruction *to) {
        uint64_t used = sweep->at - sweep->first;

        if (sweep->at >= sweep->end)
                return false;
        if (used + SCAN_MAX_SIZE > sweep->n && sweep->first + sweep->n < sweep->end) {
                if (!fill(sweep))
                        return false;
                used = 0;
        }
        if (!scan_decode(sweep->bytes + used, sweep->n - used, sweep->at, to))
                return false;
        *atp = sweep->at;
        sweep->at += to->size;
        return true;
}

static bool is_back(const ScanInstruction *instruction, uint64_t to) {
        return (instruction->flow == SCAN_BRANCH || instruction->flow == SCAN_JUMP) &&
               instruction->target <= to;
}

static bool is_end(const ScanInstruction *instruction) {
        return instruction->flow == SCAN_JUMP || instruction->flow == SCAN_RETURN ||
               instruction->flow == SCAN_INDIRECT || instruction->flow == SCAN_STOP;
}

/* `test %eax, memory`, on arm64 `ldr wzr, [xN]`: so all releases poll in a loop. */
static bool is_poll(const HotspotReader *reader, const HotspotPlaces *places, uint64_t at) {
        uint8_t bytes[4];
        uint32_t word;
        size_t i;

        if (at <= places->code || places->code_end - at < sizeof(bytes) ||
            !hotspot_read(reader, at, bytes, sizeof(bytes)))
                return false;
        memcpy(&word, bytes, sizeof(word));
        if (ELF_MACHINE == EM_AARCH64)
                return (word & 0xfffffc1f) == 0xb940001f;
        i = bytes[0] == REX_B;
        return bytes[i] == TEST && !(bytes[i + 1] & 0x38) && bytes[i + 1] < 0xc0;
}

/*
 * The loop that the poll at @poll is in: its jump back lies before @end. Return: whether it has @pc, and
 * leads to @inner at the latest, the end of a loop in front of the poll. It may lead into that one, past
 * its head.
 */
static bool is_in_loop_of(const HotspotReader *reader, uint64_t poll, uint64_t end, uint64_t inner,
                          uint64_t pc) {
        Sweep sweep = sweep_from(reader, poll, MIN(end, poll + MAX_BYTES));
        ScanInstruction instruction;
        uint64_t at;

        while (next_instruction(&sweep, &at, &instruction)) {
                if (is_back(&instruction, poll))
                        return instruction.target <= inner && at >= pc;
                if (is_end(&instruction))
                        return false;
        }
        return false;
}

/* Whether the code from @before on goes on to @head, or into the loop [@head, @end]. */
static bool leads_to(const HotspotReader *reader, uint64_t before, uint64_t head, uint64_t end) {
        Sweep sweep = sweep_from(reader, before, head);
        uint64_t at, furthest = 0;
        ScanInstruction instruction;

        if (head <= before)
                return true;
        if (head - before > MAX_BYTES)
                return false;
        while (sweep.at < head) {
                if (!next_instruction(&sweep, &at, &instruction))
                        return false;
                if ((instruction.flow == SCAN_BRANCH || instruction.flow == SCAN_JUMP) &&
                    instruction.target > at && instruction.target <= end)
                        furthest = MAX(furthest, instruction.target);
                if (is_end(&instruction) && furthest <= at)
                        return false;
        }
        return true;
}

/* For a thread in the loop [@head, @end], which has no place behind the pc. */
static HotspotFlow judge_loop(const HotspotReader *reader, const HotspotPlaces *places, uint64_t head,
                              uint64_t end, uint64_t pc) {
        if (places->after < places->code_end && is_poll(reader, places, places->after) &&
            is_in_loop_of(reader, places->after, places->beyond, end, pc))
                return HOTSPOT_FLOW_AFTER;
        if (is_poll(reader, places, places->before) &&
            is_in_loop_of(reader, places->before, places->after, UINT64_MAX, pc))
                return HOTSPOT_FLOW_BEFORE;
        return leads_to(reader, places->before, head, end) ? HOTSPOT_FLOW_COMMON : HOTSPOT_FLOW_ROOT;
}

bool hotspot_flow_leads(const HotspotReader *reader, const HotspotPlaces *places, uint64_t pc) {
        return leads_to(reader, places->before, pc, pc);
}

HotspotFlow hotspot_flow(const HotspotReader *reader, const HotspotPlaces *places, uint64_t pc, uint64_t at,
                         uint64_t *nextp, HotspotExits *exits) {
        Sweep sweep = sweep_from(reader, at, MIN(places->after, at + MAX_BYTES));
        ScanInstruction instruction;
        uint64_t here;

        while (sweep.at < places->after) {
                if (!next_instruction(&sweep, &here, &instruction))
                        return HOTSPOT_FLOW_ROOT;
                if (is_back(&instruction, pc) && instruction.target >= places->code)
                        return judge_loop(reader, places, instruction.target, here, pc);
                if (instruction.flow == SCAN_BRANCH && exits->n < HOTSPOT_MAX_EXITS &&
                    (instruction.target < at || instruction.target > places->after))
                        exits->to[exits->n++] = instruction.target;
                if (instruction.flow == SCAN_JUMP && instruction.target > pc &&
                    instruction.target < places->code_end) {
                        *nextp = instruction.target;
                        return HOTSPOT_FLOW_ELSEWHERE;
                }
                if (is_end(&instruction))
                        return HOTSPOT_FLOW_ROOT;
        }
        return HOTSPOT_FLOW_AFTER;
}
