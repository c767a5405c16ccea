/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * Frames of HotSpot: arm64
 *
 * What hotspot.bpf.h leaves to the processor. A call leaves its return address in x30, rules->bx of frame 0.
 */

enum {
        HOTSPOT_FIXED_PART = 112,       /* bytes below an interpreted frame's x29 */
};

/*
 * Where a frame that has called begins. Before compiled code calls native code, it may put down where it is:
 * a word of 0, and its return address (aarch64.ad, aarch64_enc_java_to_runtime).
 */
static inline uint64_t hotspot_frame_sp(const struct hotspot_step *step) {
        uint64_t sp = step->unwind->sp, zero, pc;

        if (!step->is_exact && !step->state->heap.end &&
            window_read_pair(&step->unwind->window, sp, &zero, &pc) && !zero &&
            unwind_return_address(pc) == step->pc)
                return sp + 16;
        return sp;
}

/*
 * The caller's sp, by an interpreted frame at @fp. An interpreted caller has its sp below its operands, where
 * this frame begins; it is found by its x29.
 */
static inline uint64_t hotspot_sender(uint64_t sender, uint64_t fp) {
        return sender < fp + 16 ? fp + 16 : sender;
}

/* Goes to the caller over a frame that has not saved x30. */
static inline bool hotspot_leave_by_link(const struct hotspot_step *step, uint64_t cfa) {
        uint64_t pc = step->rules->bx;

        if (!step->is_exact || !hotspot_returns_to(step, pc))
                return hotspot_end(step, HOTSPOT_END_NO_RETURN);
        return hotspot_go(step, pc, cfa, step->unwind->bp);
}

static inline bool hotspot_leave_by(const struct hotspot_step *step, enum hotspot_stage stage,
                                    uint64_t size) {
        uint64_t sp = step->unwind->sp;

        switch (stage) {
        case HOTSPOT_STAGE_WHOLE:
                return hotspot_leave(step, sp + size, true);
        case HOTSPOT_STAGE_NONE:
                return hotspot_leave_by_link(step, sp);
        case HOTSPOT_STAGE_PUSHED:
                return hotspot_leave(step, sp + 16, true);
        case HOTSPOT_STAGE_UNSAVED:
                return hotspot_leave_by_link(step, sp + size);
        default:
                return hotspot_end(step, HOTSPOT_END_CHANGING);
        }
}

/* Whether x29 is the leaf's own: the pair at it has what is in x30. *bpp: the caller's. */
static inline bool hotspot_is_own_frame(const struct hotspot_step *step, uint64_t max, uint64_t *bpp) {
        uint64_t fp = step->unwind->bp, pc;

        return !(fp & 7) && fp - step->unwind->sp <= max &&
               window_read_pair(&step->unwind->window, fp, bpp, &pc) &&
               unwind_return_address(pc) == step->rules->bx;
}

/*
 * Interrupted while the frame is made, or after it was left:
 *
 *     entry          return address in x30, x29 is the caller's. Compiled code has called by an adapter,
 *                    which has moved sp down for arguments; in some releases x19 is the sp from before.
 *     fixed part     x29 is the frame's; sp is not far below it
 */
static inline bool hotspot_interpreter_entry(const struct hotspot_step *step) {
        struct unwind *unwind = step->unwind;
        uint64_t pc = step->rules->bx, sp = unwind->sp, bp = unwind->bp,
                 sender = step->rules->registers[HOTSPOT_KEPT_SENDER];

        hotspot_write(step, RUNTIME_HOTSPOT_BLOB, hotspot_shown(step, step->pc),
                      step->pc - step->process->interpreter_blob, step->process->interpreter_blob);
        if (!step->is_exact || step->n != step->rules->first || !hotspot_returns_to(step, pc))
                return hotspot_end(step, HOTSPOT_END_NO_FRAME);
        if (hotspot_is_own_frame(step, HOTSPOT_FIXED_PART, &bp))
                sp = unwind->bp + 16;
        if (pc - step->process->interpreter < step->process->interpreter_size ||
            pc == step->process->call_stub)
                return hotspot_go(step, pc, sp, bp);
        if (!step->process->keeps_sender || sender < sp)
                return hotspot_end(step, HOTSPOT_END_NO_FRAME);
        return hotspot_go(step, pc, sender, bp);
}

/* Whether a leaf in a stub has no frame. *pcp, *cfap: its return address, and the caller's sp. */
static inline bool hotspot_is_bare_stub(const struct hotspot_step *step, uint64_t *pcp, uint64_t *cfap) {
        uint64_t bp;

        *pcp = step->rules->bx;
        *cfap = step->unwind->sp;
        return !hotspot_is_own_frame(step, UNWIND_MAX_JUMP, &bp) && hotspot_returns_to(step, *pcp);
}
