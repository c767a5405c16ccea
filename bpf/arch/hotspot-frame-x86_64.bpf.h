/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * Frames of HotSpot: x86-64
 *
 * What hotspot.bpf.h leaves to the processor. A call leaves its return address at rsp.
 */

enum {
        HOTSPOT_FIXED_PART = 80,        /* bytes below an interpreted frame's rbp */
};

/* Where a frame that has called begins. */
static inline uint64_t hotspot_frame_sp(const struct hotspot_step *step) {
        return step->unwind->sp;
}

/* The caller's rsp, by an interpreted frame at @fp. */
static inline uint64_t hotspot_sender(uint64_t sender, uint64_t fp) {
        return sender;
}

static inline bool hotspot_leave_by(const struct hotspot_step *step, enum hotspot_stage stage,
                                    uint64_t size) {
        uint64_t sp = step->unwind->sp;

        switch (stage) {
        case HOTSPOT_STAGE_WHOLE:
                return hotspot_leave(step, sp + size, true);
        case HOTSPOT_STAGE_NONE:
                return hotspot_leave(step, sp + 8, false);
        case HOTSPOT_STAGE_PUSHED:
                return hotspot_leave(step, sp + 16, true);
        case HOTSPOT_STAGE_UNSAVED:
                return hotspot_leave(step, sp + size, false);
        default:
                return hotspot_end(step, HOTSPOT_END_CHANGING);
        }
}

/*
 * Interrupted while the frame is made. The caller has put its rsp into r13, where it stays until the frame
 * has it:
 *
 *     entry          return address at rsp
 *     locals         return address in rax: it was taken off the stack, to put locals below it
 *     fixed part     rbp is the frame's; rsp is not far below it
 */
static inline bool hotspot_interpreter_entry(const struct hotspot_step *step) {
        struct unwind *unwind = step->unwind;
        uint64_t sender = step->rules->registers[HOTSPOT_KEPT_SENDER], pc = 0, bp = unwind->bp, kept;

        hotspot_write(step, RUNTIME_HOTSPOT_BLOB, hotspot_shown(step, step->pc),
                      step->pc - step->process->interpreter_blob, step->process->interpreter_blob);
        if (!step->is_exact || step->n != step->rules->first)
                return hotspot_end(step, HOTSPOT_END_NO_FRAME);
        if (window_read_word(&unwind->window, unwind->sp, &pc) && hotspot_returns_to(step, pc) &&
            sender > unwind->sp)
                return hotspot_go(step, pc, sender, bp);
        if (!(bp & 7) && bp - unwind->sp <= HOTSPOT_FIXED_PART &&
            window_read_pair(&unwind->window, unwind->bp, &bp, &pc) && hotspot_returns_to(step, pc)) {
                if (sender - unwind->bp <= UNWIND_MAX_JUMP && sender > unwind->bp)
                        return hotspot_go(step, pc, sender, bp);
                if (window_read_word(&unwind->window, unwind->bp + (int64_t)HOTSPOT_SLOT_SENDER_SP, &kept) &&
                    kept > unwind->bp)
                        return hotspot_go(step, pc, kept, bp);
        }
        pc = step->rules->registers[0];
        if (sender > unwind->sp && hotspot_returns_to(step, pc))
                return hotspot_go(step, pc, sender, unwind->bp);
        return hotspot_end(step, HOTSPOT_END_NO_FRAME);
}

/*
 * Whether the leaf is in flush_icache_stub, which the virtual machine calls for all code that it makes, and
 * @pc is where it returns to. It alone is known to leave the stack alone: others may have old words there.
 */
static inline bool hotspot_is_flush(const struct hotspot_step *step, uint64_t pc) {
        uint64_t name = 0, address = hotspot_value(step, &step->process->name);

        return !bpf_probe_read_user(&name, sizeof(name), (const void *)address) &&
               name == HOTSPOT_NAME_FLUSH && rules_word_of(step->rules, pc) == RULES_WORD_RETURN;
}

/* Whether a leaf in a stub has no frame. *pcp, *cfap: its return address, and the caller's rsp. */
static inline bool hotspot_is_bare_stub(const struct hotspot_step *step, uint64_t *pcp, uint64_t *cfap) {
        const struct unwind *unwind = step->unwind;

        *cfap = unwind->sp + 8;
        if (!window_read_word(&step->unwind->window, unwind->sp, pcp))
                return false;
        if (!hotspot_is_code(step->process, *pcp))
                return hotspot_is_flush(step, *pcp);
        return unwind->bp != unwind->sp && hotspot_returns_to(step, *pcp);
}
