/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Three forms of frame, told apart by the pc; each gives the caller's pc, sp and fp (x86-64: rip, rsp, rbp;
 * arm64: pc, sp, x29):
 *
 *     interpreted        fp + 8   caller's pc                compiled, stub     sp + size       caller's sp
 *     (pc lies in the    fp       caller's fp                (any other blob)   … −  8          caller's pc
 *     interpreter)       fp −  8  caller's sp                                   … − 16          caller's fp
 *                        fp − 24  Method *                                      sp              frame
 *                        fp − 64  bcp (JDK 8: fp − 56)
 *
 *     call stub          fp − 48  JavaCallWrapper *; its _anchor says where Java was left before: pc, sp, fp
 *     (pc is its return           (native frames lie between). sp 0: there was no Java before
 *     address)
 *
 * The caller's sp of an interpreted frame is not fp + 16: the callee made room for its locals between the
 * two, and a compiled caller's frame is counted from the sp it had. A compiled frame that the VM wants to
 * give to the interpreter has a return address of its "deopt handler"; the true one is at sp + _orig_pc_offset.
 *
 * A virtual thread that has slept gets its frames back from the heap a few at a time. Below those that are
 * there, a return address of a stub without a frame stands for the rest (the return barrier). The stack goes
 * on with the carrier's frames: the first is that of Continuation.enterSpecial, with its ContinuationEntry at
 * its sp, which the JavaThread knows (_cont_entry, published since 25.0.3). The stub's frame marks the gap.
 */
#include "host/runtime/hotspot/hotspot-walk.h"

#include "core/base/elf/machine.h"
#include "core/base/util/macro.h"
#include "host/runtime/hotspot/hotspot-published.h"

enum { MAX_STEP = 16 << 20 };           /* bytes from a frame to its caller's */

typedef struct Walk {
        const HotspotCode *code;
        const HotspotLayout *layout;
        const HotspotReader *reader;
        uint64_t thread;                /* JavaThread *; 0 = not known */
        HotspotRegisters at;
        uint64_t (*words)[HOTSPOT_WORDS];
        uint32_t n;
} Walk;

static bool read_slot(const Walk *walk, uint64_t address, uint64_t *to) {
        return !(address & 7) && hotspot_read_u64(walk->reader, address, to);
}

/* Without what authenticates it (bpf/walk/unwind.bpf.h, unwind_return_address()). */
static bool read_return(const Walk *walk, uint64_t address, uint64_t *to) {
        if (!read_slot(walk, address, to))
                return false;
        if (ELF_MACHINE == EM_AARCH64)
                *to = *to << 16 >> 16;
        return true;
}

static uint64_t first_word(HotspotKind kind, uint64_t address) {
        return (uint64_t)kind << 56 | (address & ((UINT64_C(1) << 56) - 1));
}

static void put(Walk *walk, uint64_t word0, uint64_t word1, uint64_t word2) {
        walk->words[walk->n][0] = word0;
        walk->words[walk->n][1] = word1;
        walk->words[walk->n++][2] = word2;
}

/* Goes on to @next. Return: true, or *endp: a caller lies above, but that of a barrier, which has no size. */
static bool go_on(Walk *walk, HotspotRegisters next, HotspotWalkEnd *endp) {
        *endp = HOTSPOT_WALK_MALFORMED;
        if (next.sp < walk->at.sp || (next.sp == walk->at.sp && next.pc != walk->code->cont_return_pc) ||
            next.sp - walk->at.sp > MAX_STEP)
                return false;
        walk->at = next;
        return true;
}

/* 0: there is no count, or it cannot be read. */
static uint64_t stamp_now(const Walk *walk) {
        uint64_t count;

        if (!walk->code->unloads || !hotspot_read_u64(walk->reader, walk->code->unloads, &count))
                return 0;
        return hotspot_published_stamp(count);
}

static bool step_interpreted(Walk *walk, HotspotWalkEnd *endp) {
        const HotspotInterpreterLayout *slots = &walk->layout->interpreter;
        uint64_t fp = walk->at.fp, stamp = stamp_now(walk), method, bcp, const_method = 0;
        HotspotRegisters next;

        *endp = HOTSPOT_WALK_UNREADABLE;
        if (!read_slot(walk, fp + (uint64_t)(int64_t)slots->method, &method) ||
            !read_slot(walk, fp + (uint64_t)(int64_t)slots->bcp, &bcp) ||
            !read_slot(walk, fp + (uint64_t)(int64_t)slots->sender_sp, &next.sp) ||
            !read_slot(walk, fp, &next.fp) || !read_return(walk, fp + 8, &next.pc) ||
            !hotspot_read_field(walk->reader, walk->layout->method.const_method, method, &const_method))
                return false;
        put(walk, first_word(HOTSPOT_INTERPRETED, bcp),
            const_method | (stamp & UINT16_MAX) << HOTSPOT_STAMP_SHIFT,
            method | stamp >> 16 << HOTSPOT_STAMP_SHIFT);
        if (ELF_MACHINE == EM_AARCH64)  /* an interpreted caller's lies below its operands */
                next.sp = MAX(next.sp, fp + 16);
        return go_on(walk, next, endp);
}

static bool step_call_stub(Walk *walk, HotspotWalkEnd *endp) {
        const HotspotThreadLayout *at = &walk->layout->thread;
        uint64_t wrapper, slot = walk->at.fp + (uint64_t)(int64_t)walk->layout->interpreter.entry_wrapper;
        HotspotRegisters next;

        *endp = HOTSPOT_WALK_UNREADABLE;
        if (!read_slot(walk, slot, &wrapper))
                return false;
        wrapper += at->wrapper_anchor.offset;
        if (!read_slot(walk, wrapper + at->last_sp.offset, &next.sp) ||
            !read_slot(walk, wrapper + at->last_fp.offset, &next.fp) ||
            !read_slot(walk, wrapper + at->last_pc.offset, &next.pc))
                return false;
        *endp = HOTSPOT_WALK_ROOT;
        if (!next.sp)
                return false;
        *endp = HOTSPOT_WALK_UNREADABLE;
        if (!next.pc && !read_return(walk, next.sp - 8, &next.pc))
                return false;
        return go_on(walk, next, endp);
}

static bool step_barrier(Walk *walk, HotspotWalkEnd *endp) {
        HotspotRegisters next = { .pc = walk->code->cont_return_pc };

        *endp = HOTSPOT_WALK_BARRIER;
        return walk->thread && next.pc &&
                hotspot_read_field(walk->reader, walk->layout->thread.cont_entry, walk->thread, &next.sp) &&
                go_on(walk, next, endp);
}

static bool step_blob(Walk *walk, HotspotWalkEnd *endp) {
        HotspotRegisters next;
        HotspotBlob blob;
        uint64_t address;
        int r = hotspot_code_find(walk->code, walk->layout, walk->reader, walk->at.pc, &address);

        *endp = r == HOTSPOT_CODE_E_UNREADABLE ? HOTSPOT_WALK_UNREADABLE : HOTSPOT_WALK_NO_BLOCK;
        if (r || hotspot_blob_read(&blob, walk->code, walk->layout, walk->reader, address))
                return false;
        *endp = HOTSPOT_WALK_UNREADABLE;
        if (blob.kind == HOTSPOT_COMPILED && (walk->at.pc == blob.deopt || walk->at.pc == blob.deopt_mh) &&
            !read_slot(walk, walk->at.sp + (uint64_t)(int64_t)blob.orig_pc, &walk->at.pc))
                return false;
        if (blob.kind == HOTSPOT_COMPILED)
                put(walk, first_word(HOTSPOT_COMPILED, walk->at.pc),
                    (uint64_t)blob.compile_id << 32 | (uint32_t)(walk->at.pc - address), blob.method);
        else
                put(walk, first_word(HOTSPOT_BLOB, walk->at.pc), walk->at.pc - address, address);
        if (!blob.frame_size)
                return step_barrier(walk, endp);
        next.sp = walk->at.sp + blob.frame_size;
        if (!read_return(walk, next.sp - 8, &next.pc) || !read_slot(walk, next.sp - 16, &next.fp))
                return false;
        return go_on(walk, next, endp);
}

static bool step(Walk *walk, HotspotWalkEnd *endp) {
        if (!hotspot_code_heap(walk->code, walk->at.pc)) {
                *endp = HOTSPOT_WALK_NATIVE;
                return false;
        }
        if (walk->at.pc == walk->code->call_stub_return)
                return step_call_stub(walk, endp);
        if (walk->at.pc >= walk->code->interpreter_low && walk->at.pc < walk->code->interpreter_high)
                return step_interpreted(walk, endp);
        return step_blob(walk, endp);
}

bool hotspot_walk_start(HotspotRegisters *registers, const HotspotLayout *layout, const HotspotReader *reader,
                        uint64_t thread) {
        const HotspotThreadLayout *at = &layout->thread;
        uint64_t anchor = thread + at->anchor.offset;
        HotspotRegisters found;

        if (!at->anchor.size || !hotspot_read_field(reader, at->last_sp, anchor, &found.sp) || !found.sp ||
            !hotspot_read_field(reader, at->last_fp, anchor, &found.fp) ||
            !hotspot_read_field(reader, at->last_pc, anchor, &found.pc) ||
            (!found.pc && !hotspot_read_u64(reader, found.sp - 8, &found.pc)))
                return false;
        *registers = found;
        return true;
}

HotspotWalkEnd hotspot_walk(uint64_t (*words)[HOTSPOT_WORDS], uint32_t max, uint32_t *np,
                            const HotspotCode *code, const HotspotLayout *layout, const HotspotReader *reader,
                            uint64_t thread, HotspotRegisters registers) {
        Walk walk = { .code = code, .layout = layout, .reader = reader, .thread = thread, .at = registers,
                      .words = words };
        HotspotWalkEnd end = HOTSPOT_WALK_FULL;

        /* A step that writes no frame goes to an older part of the stack, so there are no more of them. */
        while (walk.n < max && step(&walk, &end))
                end = HOTSPOT_WALK_FULL;
        *np = walk.n;
        return end;
}
