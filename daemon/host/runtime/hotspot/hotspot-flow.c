/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A place says of which scope the code is that leads up to it. Whether code leads up to a place is what its
 * instructions say: jumps forth are followed, and branches that are not taken are not.
 *
 * A jump back over the pc is a loop:
 *
 *     before   call …                          scope: main, sort, compare at bci 5
 *              head: … ◀─┐
 *     pc             …   │                     of `burn`, inlined: nothing says so
 *              end:  jl ─┘
 *     after    call …                          scope: main, sort, compare at bci 9, Integer.compare
 *
 * A poll of a safepoint belongs to the loop that it stands in, and so do loops inside of that one: C2 splits
 * a loop into an inner one without a poll and an outer one with it. So a poll holds if its own loop has the
 * pc: an inner one that has no place at all, between head and end, in front of the poll, or none between the
 * poll and the pc.
 */
#include "host/runtime/hotspot/hotspot-flow.h"

#include <string.h>

#include "core/base/elf/machine.h"
#include "core/base/util/macro.h"
#include "host/sampling/unwind/scan/scan-arch.h"

enum {
        BUFFER = 256,
        MAX_BYTES = 16 << 10,           /* bytes of code that are looked at from one place on */
        MAX_METHOD = 64 << 10,          /* bytes of a method that is searched for a jump */
        MAX_STUB = 1 << 10,             /* bytes of a slow path, up to its call */
        MAX_STUB_JUMPS = 3,
        MAX_TARGETS = 64,               /* targets of branches forth */
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
 * The loop that the poll at @poll is in: of the jumps back before @end, the one that leads to the nearest
 * place; others leave it for a loop around it. Return: whether it has @pc, and leads to @inner at the latest,
 * the end of a loop in front of the poll. It may lead into that one, past its head. Another place, which lies
 * up to @beginning, may not be in it.
 */
static bool is_in_loop_of(const HotspotReader *reader, uint64_t poll, uint64_t beginning, uint64_t end,
                          uint64_t inner, uint64_t pc) {
        Sweep sweep = sweep_from(reader, poll, MIN(end, poll + MAX_BYTES));
        ScanInstruction instruction;
        uint64_t at, head = 0, last = 0;

        while (next_instruction(&sweep, &at, &instruction)) {
                if (is_back(&instruction, poll) && at < pc)
                        return false;   /* the loop ends before the pc */
                if (is_back(&instruction, poll) && instruction.target >= head) {
                        head = instruction.target;
                        last = at;
                }
                if (is_end(&instruction))
                        break;
        }
        return head > beginning && head <= inner && last >= pc;
}

/* Places of a piece of code to which it branches forth; those above the cap are lost. */
typedef struct Targets {
        uint64_t targets[MAX_TARGETS];
        uint32_t n;
} Targets;

static bool has_target(const Targets *targets, uint64_t at) {
        for (uint32_t i = 0; i < targets->n; i++)
                if (targets->targets[i] == at)
                        return true;
        return false;
}

/*
 * Whether the code from @before on goes on to @head, or to what lies up to @end behind it. What stands behind
 * a jump is reached only by a branch to it.
 */
static bool leads_to(const HotspotReader *reader, uint64_t before, uint64_t head, uint64_t end) {
        Sweep sweep = sweep_from(reader, before, head);
        ScanInstruction instruction;
        Targets targets = { .n = 0 };
        bool is_reached = true;
        uint64_t at;

        if (head <= before)
                return true;
        if (head - before > MAX_BYTES)
                return false;
        while (sweep.at < head) {
                if (!next_instruction(&sweep, &at, &instruction))
                        return false;
                is_reached = is_reached || has_target(&targets, at);
                if (!is_reached)
                        continue;
                if (instruction.flow == SCAN_BRANCH || instruction.flow == SCAN_JUMP) {
                        if (instruction.target >= head && instruction.target <= end)
                                return true;
                        if (instruction.target > at && instruction.target < head && targets.n < MAX_TARGETS)
                                targets.targets[targets.n++] = instruction.target;
                }
                is_reached = !is_end(&instruction);
        }
        return is_reached;
}

/*
 * For a thread in [@head, @end] which has no place behind the pc. If it has one before the pc, it need not
 * be a loop: C2 puts code that is rarely needed behind all else, and a branch back leads out of that.
 */
static HotspotFlow judge_loop(const HotspotReader *reader, const HotspotPlaces *places, uint64_t head,
                              uint64_t end, uint64_t pc) {
        if (places->before < head && places->after < places->code_end &&
            is_poll(reader, places, places->after) &&
            is_in_loop_of(reader, places->after, places->before, places->beyond, end, pc))
                return HOTSPOT_FLOW_LOOP;
        if (is_poll(reader, places, places->before) &&
            is_in_loop_of(reader, places->before, places->earlier, places->after, UINT64_MAX, pc))
                return HOTSPOT_FLOW_BEFORE;
        return HOTSPOT_FLOW_ELSEWHERE;
}

bool hotspot_flow_leads(const HotspotReader *reader, uint64_t before, uint64_t pc, const HotspotLoop *loop) {
        return leads_to(reader, before, pc, MAX(pc, loop->end));
}

bool hotspot_flow_source(const HotspotReader *reader, const HotspotPlaces *places, const HotspotLoop *loop,
                         uint64_t *sourcep) {
        Sweep sweep = sweep_from(reader, places->code, places->code_end);
        ScanInstruction instruction;
        uint64_t at;

        if (places->code_end - places->code > MAX_METHOD)
                return false;
        while (next_instruction(&sweep, &at, &instruction))
                if ((instruction.flow == SCAN_BRANCH || instruction.flow == SCAN_JUMP) &&
                    (at < places->before || at > loop->end) && instruction.target > places->before &&
                    instruction.target <= loop->end &&
                    leads_to(reader, instruction.target, loop->head, loop->end)) {
                        *sourcep = at;
                        return true;
                }
        return false;
}

void hotspot_exits_add(HotspotExits *exits, const HotspotExit *exit, bool is_last) {
        uint32_t i = exits->n;

        while (i && exits->exits[i - 1].at > exit->at)
                i--;
        if (exits->n < HOTSPOT_MAX_EXITS) {
                memmove(exits->exits + i + 1, exits->exits + i, (exits->n - i) * sizeof(*exit));
                exits->exits[i] = *exit;
                exits->n++;
        } else if (is_last && i) {
                memmove(exits->exits, exits->exits + 1, (i - 1) * sizeof(*exit));
                exits->exits[i - 1] = *exit;
        } else if (!is_last && i < exits->n) {
                memmove(exits->exits + i + 1, exits->exits + i, (exits->n - i - 1) * sizeof(*exit));
                exits->exits[i] = *exit;
        }
}

void hotspot_flow_exits(HotspotExits *exits, const HotspotReader *reader, const HotspotPlaces *places,
                        uint64_t from, uint64_t to, uint64_t pc, bool is_last) {
        Sweep sweep = sweep_from(reader, from, to);
        ScanInstruction instruction;
        uint64_t at;

        *exits = (HotspotExits){ .end = from };
        if (to > from && to - from > MAX_BYTES)
                return;
        while (next_instruction(&sweep, &at, &instruction)) {
                exits->end = sweep.at;
                if (!is_last && (is_back(&instruction, pc) || is_end(&instruction) ||
                                 exits->n == HOTSPOT_MAX_EXITS))
                        return;
                if (instruction.flow == SCAN_BRANCH && instruction.target > places->after &&
                    instruction.target < places->code_end)
                        hotspot_exits_add(exits, &(HotspotExit){ at, instruction.target }, is_last);
        }
}

bool hotspot_flow_call(const HotspotReader *reader, const HotspotPlaces *places, uint64_t target,
                       uint64_t *returnp, uint64_t *calledp) {
        ScanInstruction instruction;
        uint64_t at;

        for (int i = 0; i < MAX_STUB_JUMPS && target >= places->code && target < places->code_end; i++) {
                Sweep sweep = sweep_from(reader, target, MIN(places->code_end, target + MAX_STUB));

                do {
                        if (!next_instruction(&sweep, &at, &instruction))
                                return false;
                } while (instruction.flow == SCAN_NEXT);
                if (instruction.flow == SCAN_CALL) {
                        *returnp = sweep.at;
                        *calledp = instruction.target;
                        return instruction.target;
                }
                if (instruction.flow != SCAN_JUMP)
                        return false;
                target = instruction.target;
        }
        return false;
}

/* The last branch in [@head, @end) that leads behind @end; 0 = there is none. */
static uint64_t find_way_out(const HotspotReader *reader, uint64_t head, uint64_t end) {
        Sweep sweep = sweep_from(reader, head, end);
        ScanInstruction instruction;
        uint64_t at, out = 0;

        if (end - head > MAX_BYTES)
                return 0;
        while (next_instruction(&sweep, &at, &instruction))
                if (instruction.flow == SCAN_BRANCH && instruction.target > end)
                        out = instruction.target;
        return out;
}

/*
 * Follows a jump at @here in code that is read from @at on. One back to what has been read ends a loop, which
 * a branch in it leaves.
 */
static HotspotFlow follow_jump(const HotspotReader *reader, const HotspotPlaces *places, uint64_t target,
                               uint64_t pc, uint64_t at, uint64_t here, uint64_t *nextp) {
        bool is_known = target >= places->code && target < places->code_end;

        if (is_known && target <= pc) {
                *nextp = target;
                return HOTSPOT_FLOW_BACK;
        }
        if (is_known && target >= at && target <= here)
                target = find_way_out(reader, target, here);
        if (!is_known || !target || target >= places->code_end)
                return HOTSPOT_FLOW_ROOT;
        *nextp = target;
        return HOTSPOT_FLOW_ELSEWHERE;
}

HotspotFlow hotspot_flow(const HotspotReader *reader, const HotspotPlaces *places, uint64_t pc, uint64_t at,
                         uint64_t *nextp, HotspotLoop *loop) {
        Sweep sweep = sweep_from(reader, at, MIN(places->after, at + MAX_BYTES));
        ScanInstruction instruction;
        uint64_t here;

        while (sweep.at < places->after) {
                if (!next_instruction(&sweep, &here, &instruction))
                        return HOTSPOT_FLOW_ROOT;
                if (is_back(&instruction, pc) && instruction.target >= places->code) {
                        HotspotFlow flow = judge_loop(reader, places, instruction.target, here, pc);

                        if (flow != HOTSPOT_FLOW_ELSEWHERE)
                                return flow;
                        loop->head = loop->end ? MIN(loop->head, instruction.target) : instruction.target;
                        loop->end = MAX(loop->end, here);
                }
                if (instruction.flow == SCAN_RETURN)
                        return HOTSPOT_FLOW_RETURN;
                if (instruction.flow == SCAN_JUMP)
                        return follow_jump(reader, places, instruction.target, pc, at, here, nextp);
                if (is_end(&instruction))
                        return HOTSPOT_FLOW_ROOT;
        }
        return HOTSPOT_FLOW_AFTER;
}

bool hotspot_flow_loop(const HotspotReader *reader, const HotspotPlaces *places, uint64_t pc,
                       HotspotLoop *loopp, uint64_t *nextp) {
        Sweep sweep = sweep_from(reader, pc, MIN(places->after, pc + MAX_BYTES));
        ScanInstruction instruction;
        uint64_t at, head;

        do {
                if (!next_instruction(&sweep, &at, &instruction) || instruction.flow == SCAN_CALL ||
                    (is_end(&instruction) && !is_back(&instruction, pc)))
                        return false;
        } while (!is_back(&instruction, pc));
        head = instruction.target;
        *loopp = (HotspotLoop){ head, at };
        *nextp = instruction.flow == SCAN_JUMP ? find_way_out(reader, head, at) : sweep.at;
        if (head <= places->before || !*nextp || sweep.at > places->after)
                return false;
        sweep = sweep_from(reader, head, loopp->end);
        while (next_instruction(&sweep, &at, &instruction))
                if (instruction.flow == SCAN_CALL || is_end(&instruction) ||
                    (is_back(&instruction, at) && instruction.target >= head))
                        return false;
        return sweep.at == loopp->end;
}
