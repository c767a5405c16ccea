/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * HotSpot
 *
 * Walks over frames of Java: code that HotSpot has made has no rows, but the virtual machine describes each
 * piece of it, for its own stack walks. The daemon has read where (struct hotspot_process).
 *
 *     pc 7f..5c1a3e7c, in a code heap at 7f..5be00000
 *       segment map [ … 0 1 2 3 0 … ]       one byte for each 128 bytes: so many segments back to the begin
 *       block at 7f..5c1a3c00               length, used
 *       CodeBlob 7f..5c1a3c10               name "nmethod", frame_size 6 words, compile_id 412, Method *
 *       → CFA = rsp + 48, return address at CFA - 8, caller's rbp at CFA - 16
 *
 * Three ways to a caller:
 *
 *     compiled      frame_size, once the prologue is over; before, and in the epilogue, the code's bytes say
 *                   (hotspot-code-*.bpf.h). A caller that is to be deoptimised has had its return address
 *                   replaced by that of its deopt handler; the frame keeps the true one.
 *     interpreted   by rbp: method, bcp and the caller's rsp lie below it
 *     stubs         frame_size, or rbp. The entry from native code leads back to rows.
 *
 * What the virtual machine does not describe ends the stack with a reason (enum hotspot_end). A frame of
 * compiled code or a stub counts only if the return address that it yields lies behind a call, or in the
 * interpreter. So a wrong size shows. Memory of the target is never more than a hint where to read on: every
 * step leads up the stack, and every table read is bounded.
 *
 * Blobs are found once for each pc: the cache of rules (rows.bpf.h) keeps how far the pc is from its blob.
 * The blob is read at each frame all the same, and must be the one that was met then.
 *
 * A virtual thread that has come back to a carrier has most of its frames in the heap still
 * (hotspot-chunk.c). Where the return barrier stands for them, the walk goes over to the heap, and comes
 * back to the carrier's frames behind the oldest one. A chunk counts only if its frames end where it says
 * that they do; else one frame stands for all that are in the heap.
 *
 * Includes nothing but the processor's parts, as rules.bpf.h. Reaches maps by one function of the includer:
 *
 *     struct rows_cache *hotspot_cache(void)                      of this CPU, or NULL
 */

#if UNWIND_ARM64
#include "arch/hotspot-code-arm64.bpf.h"
#else
#include "arch/hotspot-code-x86_64.bpf.h"
#endif

enum {
        HOTSPOT_SEGMENT_STEPS = 12,     /* hops of at most 254 segments to the begin of a block */
        HOTSPOT_SEGMENT_FREE = 0xff,
        HOTSPOT_CACHED_WORDS = 1 << 16,
        /* kinds of rules that the cache alone holds; see enum unwind_cfa */
        HOTSPOT_RULE_COMPILED = 12,     /* behind UNWIND_CFA_GAP */
        HOTSPOT_RULE_BLOB = 13,
        /* slots of an interpreted frame, from its rbp (frame_x86.hpp) */
        HOTSPOT_SLOT_METHOD = -24,
        HOTSPOT_SLOT_SENDER_SP = -8,
        /* saved rbp of the caller, from its rsp; the return address follows */
        HOTSPOT_LINK = -16,
        /* words on a carrier from a virtual thread's last frame to the ContinuationEntry: arguments */
        HOTSPOT_CARRIER_WORDS = 16,
        /* from the return address of enterSpecial: the Continuation (continuationEntry.hpp) */
        HOTSPOT_CONTINUATION = -56,
        /* a ContinuationEntry: bytes before its Continuation, and from there to two numbers */
        HOTSPOT_ENTRY_BEFORE = 16,
        HOTSPOT_ENTRY_FLAGS = 16,
        HOTSPOT_ENTRY_OLD = 2,          /* words from the one that nobody writes to the return address */
        HOTSPOT_MAX_ARGUMENTS = 255,    /* words of a method */
        HOTSPOT_MAX_CHUNKS = 16,
        HOTSPOT_MAX_EMPTY = 4,          /* chunks without frames in a row */
        HOTSPOT_MAX_CHUNK_WORDS = 1 << 17,
        HOTSPOT_MARK_MOVED = 3,         /* bits of an object's first word: a collector moves it */
};

/* The texts "nmethod", "native nmethod" and "flush_icache_stub", as far as eight bytes go. */
#define HOTSPOT_NAME_NMETHOD 0x00646f6874656d6eull
#define HOTSPOT_NAME_NATIVE 0x6e2065766974616eull
#define HOTSPOT_NAME_FLUSH 0x63695f6873756c66ull

/* Why a walk ended in code of HotSpot; in the order of the counters. */
enum hotspot_end {
        HOTSPOT_END_NONE,
        HOTSPOT_END_UNREADABLE,
        HOTSPOT_END_NO_CODE,
        HOTSPOT_END_NO_FRAME,
        HOTSPOT_END_NO_RETURN,
        HOTSPOT_END_CHANGING,
};

struct hotspot_header {
        /* the block's header, then its blob; one word more, for reads at the end */
        uint8_t bytes[HOTSPOT_MAX_HEADER + 8];
};

enum hotspot_heap_result {
        HOTSPOT_HEAP_NONE,
        HOTSPOT_HEAP_READ,
        HOTSPOT_HEAP_SKIPPED,
};

/* Frames of a virtual thread in the heap. */
struct hotspot_heap_part {
        uint64_t end;                   /* end of this chunk's oldest frame; 0 = the walk is on a stack */
        uint64_t parent;                /* StackChunk with older frames; 0 = there is none */
        uint64_t barrier, blob;         /* pc, and its blob */
        uint64_t slot;                  /* on the carrier's stack: return address of enterSpecial */
        uint32_t n, limit;              /* counts of the walk at the barrier */
        uint32_t n_chunks;
        uint32_t result;                /* enum hotspot_heap_result */
};

/* State of one step, and what it reads. In a map value, as the BPF stack is small. */
struct hotspot {
        uint64_t blob;
        uint32_t kind;                  /* enum runtime_kind */
        uint32_t end;                   /* enum hotspot_end of the walk */
        uint32_t stamp;                 /* stamp of interpreted frames (runtime_abi.h); 0 = not known (yet) */
        uint32_t zero;
        struct hotspot_header header;
        struct hotspot_code code;
        struct hotspot_heap_part heap;
};

/* The words of a sample: `frames` of the walk, as one type for the verifier. */
struct hotspot_words {
        uint64_t words[UNWIND_MAX_FRAMES];
};

/* Pointers of one step. */
struct hotspot_step {
        struct unwind *unwind;
        struct rules *rules;
        const struct hotspot_process *process;
        struct hotspot *state;
        struct hotspot_words *frames;
        uint64_t pc;
        uint32_t is_exact;
        uint32_t n;                     /* index of the frame's first word */
};

/* Before the first step of a walk. */
static inline void hotspot_begin(struct hotspot *state) {
        state->stamp = 0;
        state->heap.end = 0;
        state->heap.result = HOTSPOT_HEAP_NONE;
}

static inline bool hotspot_end(const struct hotspot_step *step, uint32_t reason) {
        step->state->end = reason;
        step->unwind->end = ABI_STACK_RUNTIME;
        return false;
}

/* ---- the blob ---- */

static inline uint64_t hotspot_value(const struct hotspot_step *step, const struct hotspot_field *field) {
        uint32_t at = (uint32_t)step->process->block_header + field->offset;
        uint64_t value;

        at &= HOTSPOT_MAX_HEADER - 1;
        barrier_var(at);
        at &= HOTSPOT_MAX_HEADER - 1;
        __builtin_memcpy(&value, step->state->header.bytes + at, sizeof(value));
        if (field->size == 2)
                return value & 0xffff;
        return field->size == 4 ? value & 0xffffffff : value;
}

static inline uint64_t hotspot_address(const struct hotspot_step *step, const struct hotspot_field *field) {
        uint64_t value = hotspot_value(step, field);

        if (field->base == HOTSPOT_BASE_NONE)
                return value;
        value += step->state->blob;
        if (field->base == HOTSPOT_BASE_CODE && step->process->code_begin.base == HOTSPOT_BASE_BLOB)
                value += hotspot_value(step, &step->process->code_begin);
        else if (field->base == HOTSPOT_BASE_CODE)
                value += hotspot_value(step, &step->process->code_begin) - step->state->blob;
        return value;
}

/* Reads block and blob of step->state->blob. Return: whether they are there and in use. */
static inline bool hotspot_read_blob(const struct hotspot_step *step) {
        struct hotspot *state = step->state;
        uint32_t size = step->process->header_size, used = step->process->block_used;

        if (size > HOTSPOT_MAX_HEADER)
                size = HOTSPOT_MAX_HEADER;
        if (bpf_probe_read_user(state->header.bytes, size,
                                (const void *)(state->blob - step->process->block_header)))
                return hotspot_end(step, HOTSPOT_END_UNREADABLE);
        used &= 15;
        barrier_var(used);
        used &= 15;
        if (!(state->header.bytes[used] & 1))
                return hotspot_end(step, HOTSPOT_END_NO_CODE);
        return true;
}

static inline const struct hotspot_heap *hotspot_heap_of(const struct hotspot_process *process, uint64_t pc) {
        if (pc - process->heaps[0].low < process->heaps[0].size)
                return &process->heaps[0];
        if (pc - process->heaps[1].low < process->heaps[1].size)
                return &process->heaps[1];
        if (pc - process->heaps[2].low < process->heaps[2].size)
                return &process->heaps[2];
        if (pc - process->heaps[3].low < process->heaps[3].size)
                return &process->heaps[3];
        return NULL;
}

/* Finds the block that holds the pc, by the segment map. */
static inline bool hotspot_search(const struct hotspot_step *step) {
        const struct hotspot_heap *heap = hotspot_heap_of(step->process, step->pc);
        uint32_t shift = step->process->segment_shift & 31;
        uint64_t segment;
        uint8_t back = 0;

        if (!heap)
                return hotspot_end(step, HOTSPOT_END_NO_CODE);
        segment = (step->pc - heap->low) >> shift;
        for (int i = 0; i < HOTSPOT_SEGMENT_STEPS; i++) {
                if (bpf_probe_read_user(&back, 1, (const void *)(heap->segment_map + segment)))
                        return hotspot_end(step, HOTSPOT_END_UNREADABLE);
                if (!back)
                        break;
                if (back == HOTSPOT_SEGMENT_FREE || back > segment)
                        return hotspot_end(step, HOTSPOT_END_NO_CODE);
                segment -= back;
        }
        if (back)
                return hotspot_end(step, HOTSPOT_END_NO_CODE);
        step->state->blob = heap->low + (segment << shift) + step->process->block_header;
        return true;
}

static inline bool hotspot_find_kind(const struct hotspot_step *step) {
        uint64_t name = 0, address = hotspot_value(step, &step->process->name);

        if (bpf_probe_read_user(&name, sizeof(name), (const void *)address))
                return hotspot_end(step, HOTSPOT_END_UNREADABLE);
        step->state->kind = name == HOTSPOT_NAME_NMETHOD || name == HOTSPOT_NAME_NATIVE
                                    ? RUNTIME_HOTSPOT_COMPILED
                                    : RUNTIME_HOTSPOT_BLOB;
        return true;
}

/* Packs what the cache keeps: distance to the blob, kind, and what tells this blob from a later one there. */
static inline uint64_t hotspot_rule(const struct hotspot_step *step) {
        uint32_t kind = step->state->kind == RUNTIME_HOTSPOT_COMPILED ? HOTSPOT_RULE_COMPILED
                                                                      : HOTSPOT_RULE_BLOB;
        uint64_t id = kind == HOTSPOT_RULE_COMPILED ? hotspot_value(step, &step->process->compile_id) : 0;

        return ((step->pc - step->state->blob) & 0xffffffff) | (id & 0xffff) << 32 | (uint64_t)kind << 48;
}

static inline bool hotspot_find_cached(const struct hotspot_step *step, const struct rows_cache_entry *entry,
                                       uint64_t tag) {
        struct hotspot *state = step->state;
        uint32_t kind = (uint32_t)(entry->rule >> 48) & 0xff;

        if (entry->tag != tag || (kind != HOTSPOT_RULE_COMPILED && kind != HOTSPOT_RULE_BLOB))
                return false;
        state->blob = step->pc - (entry->rule & 0xffffffff);
        state->kind = kind == HOTSPOT_RULE_COMPILED ? RUNTIME_HOTSPOT_COMPILED : RUNTIME_HOTSPOT_BLOB;
        return hotspot_read_blob(step) && hotspot_rule(step) == entry->rule;
}

/* Finds and reads the blob of step->pc. Return: false and an end. */
static inline bool hotspot_find(const struct hotspot_step *step) {
        uint64_t tag = step->pc ^ step->rules->generation * ROWS_TAG_FACTOR;
        struct rows_cache *cache = hotspot_cache();
        struct rows_cache_entry *entry;

        if (!cache)
                return hotspot_end(step, HOTSPOT_END_UNREADABLE);
        entry = rows_cache_find(cache, step->pc, tag);
        if (hotspot_find_cached(step, entry, tag))
                return true;
        if (!hotspot_search(step) || !hotspot_read_blob(step) || !hotspot_find_kind(step))
                return false;
        entry->tag = tag;
        entry->rule = hotspot_rule(step);
        return true;
}

/* ---- to the caller ---- */

static inline bool hotspot_is_code(const struct hotspot_process *process, uint64_t pc) {
        return pc - process->low < process->size;
}

/* Whether Java code can return to @pc: it lies behind a call, or the interpreter goes on there. */
static inline bool hotspot_returns_to(const struct hotspot_step *step, uint64_t pc) {
        const struct hotspot_process *process = step->process;

        if (!hotspot_is_code(process, pc))
                return false;
        if (pc - process->interpreter < process->interpreter_size)
                return true;
        return hotspot_code_read(&step->state->code, pc - HOTSPOT_CODE_BEFORE) &&
               (hotspot_is_call(&step->state->code, HOTSPOT_CODE_BEFORE) ||
                hotspot_is_barrier(&step->state->code, HOTSPOT_CODE_BEFORE) ||
                hotspot_is_deopt_handler(&step->state->code, HOTSPOT_CODE_BEFORE));
}

static inline void hotspot_write(const struct hotspot_step *step, uint32_t kind, uint64_t address,
                                 uint64_t first, uint64_t second) {
        uint32_t n = step->n;

        if (n > UNWIND_MAX_FRAMES - RUNTIME_HOTSPOT_WORDS)
                return;
        barrier_var(n);
        if (n > UNWIND_MAX_FRAMES - RUNTIME_HOTSPOT_WORDS)
                return;
        step->frames->words[n] = (uint64_t)kind << RUNTIME_KIND_SHIFT | (address & RUNTIME_ADDRESS_MASK);
        step->frames->words[n + 1] = first;
        step->frames->words[n + 2] = second;
        step->unwind->n_frames = n + RUNTIME_HOTSPOT_WORDS;
        step->unwind->limit += RUNTIME_HOTSPOT_WORDS - 1;
}

/* A leaf in code that is not known is a native frame. */
static inline void hotspot_write_pc(const struct hotspot_step *step) {
        hotspot_write(step, RUNTIME_NATIVE, step->pc, 0, 0);
        step->unwind->n_frames = step->n + 1;
        step->unwind->limit -= RUNTIME_HOTSPOT_WORDS - 1;
}

/* The address to be written: readers take every frame but the first for a return address. */
static inline uint64_t hotspot_shown(const struct hotspot_step *step, uint64_t pc) {
        return pc + (step->is_exact & (step->n != step->rules->first));
}

static inline bool hotspot_go(const struct hotspot_step *step, uint64_t pc, uint64_t sp, uint64_t bp) {
        struct unwind *unwind = step->unwind;

        if (step->state->heap.end && sp > step->state->heap.end)
                return hotspot_end(step, HOTSPOT_END_NO_FRAME);
        if (sp - unwind->sp > UNWIND_MAX_JUMP || (sp & 7) ||
            (sp == unwind->sp && !(HOTSPOT_IN_REGISTER && step->is_exact)))
                return rules_end(unwind, ABI_STACK_BAD_CFA);
        unwind->pc = pc;
        unwind->sp = sp;
        unwind->bp = bp;
        step->rules->bx = 0;
        return true;
}

/* Whether the frame that ends at @sp is the last one of its chunk, which keeps no return address. */
static inline bool hotspot_is_oldest(const struct hotspot_step *step, uint64_t sp) {
        return step->state->heap.end && step->state->heap.end == sp;
}

/* In the heap, links are numbers of words from their own place on: where they lie changes. */
static inline bool hotspot_read_link(const struct hotspot_step *step, uint64_t at, uint64_t *bpp) {
        if (!window_read_word(&step->unwind->window, at, bpp))
                return false;
        if (step->state->heap.end)
                *bpp = at + *bpp * 8;
        return true;
}

/* Goes to the caller over a frame whose place is known. @is_saved: rbp lies below the return address. */
static inline bool hotspot_leave(const struct hotspot_step *step, uint64_t cfa, bool is_saved) {
        struct unwind *unwind = step->unwind;
        uint64_t pc, bp = unwind->bp;

        if (is_saved && !hotspot_read_link(step, cfa + (int64_t)HOTSPOT_LINK, &bp))
                return rules_end(unwind, ABI_STACK_FAULT);
        if (!window_read_word(&unwind->window, cfa - 8, &pc))
                return rules_end(unwind, ABI_STACK_FAULT);
        pc = unwind_return_address(pc);
        if (hotspot_is_oldest(step, cfa))
                return hotspot_go(step, 0, cfa, bp);
        /* Callers were checked when their callee was met; a leaf's frame may be anything. */
        if (step->is_exact || step->state->heap.end ? !hotspot_returns_to(step, pc)
                                                    : !hotspot_is_code(step->process, pc))
                return hotspot_end(step, HOTSPOT_END_NO_RETURN);
        return hotspot_go(step, pc, cfa, bp);
}

/*
 * The processor's own: where a frame that has called begins, and the ways to a caller that depend on where
 * its return address is.
 */
#if UNWIND_ARM64
#include "arch/hotspot-frame-arm64.bpf.h"
#else
#include "arch/hotspot-frame-x86_64.bpf.h"
#endif

/* A stub that the virtual machine says nothing of. */
static inline bool hotspot_other_stub(const struct hotspot_step *step) {
        struct unwind *unwind = step->unwind;
        enum hotspot_stage stage = HOTSPOT_STAGE_WHOLE;
        uint64_t pc, cfa;

        if (step->is_exact) {
                if (!hotspot_code_read(&step->state->code, step->pc - HOTSPOT_CODE_BEFORE))
                        return hotspot_end(step, HOTSPOT_END_UNREADABLE);
                stage = hotspot_stub(&step->state->code);
                if (stage != HOTSPOT_STAGE_PUSHED && hotspot_is_bare_stub(step, &pc, &cfa))
                        return hotspot_go(step, pc, cfa, unwind->bp);
                if (stage != HOTSPOT_STAGE_WHOLE)
                        return hotspot_leave_by(step, stage, 0);
        }
        if ((unwind->bp & 7) || unwind->bp - unwind->sp > UNWIND_MAX_JUMP)
                return hotspot_end(step, HOTSPOT_END_NO_FRAME);
        return hotspot_leave(step, unwind->bp + 16, true);
}

/* ---- compiled code ---- */

static inline enum hotspot_stage hotspot_stage_of_leaf(const struct hotspot_step *step) {
        struct hotspot_code *code = &step->state->code;
        uint64_t entry = hotspot_address(step, &step->process->verified_entry);

        if (step->pc <= entry)
                return HOTSPOT_STAGE_NONE;
        if (step->pc < hotspot_address(step, &step->process->frame_complete))
                return hotspot_code_read(code, entry) ? hotspot_prologue(code, step->pc - entry)
                                                      : HOTSPOT_STAGE_UNKNOWN;
        return hotspot_code_read(code, step->pc - HOTSPOT_CODE_BEFORE) ? hotspot_epilogue(code)
                                                                       : HOTSPOT_STAGE_UNKNOWN;
}

/* The true pc of a frame that is to be deoptimised. */
static inline bool hotspot_orig_pc(const struct hotspot_step *step, uint64_t *pcp) {
        uint64_t at = hotspot_frame_sp(step) + (uint32_t)hotspot_value(step, &step->process->orig_pc), pc;

        if (!window_read_word(&step->unwind->window, at, &pc))
                return rules_end(step->unwind, ABI_STACK_FAULT);
        pc = unwind_return_address(pc);
        if (pc - step->state->blob > 0xffffffff)
                return hotspot_end(step, HOTSPOT_END_CHANGING);
        *pcp = pc;
        return true;
}

/*
 * A leaf in its body. Some loops on strings push one word: then the word that should be the return address is
 * the saved rbp, and the next one is the return address.
 */
static inline bool hotspot_leave_body(const struct hotspot_step *step, uint64_t cfa) {
        uint64_t pc;

        if (window_read_word(&step->unwind->window, cfa - 8, &pc) &&
            !hotspot_returns_to(step, unwind_return_address(pc)))
                cfa += HOTSPOT_PUSHED_BYTES;
        return hotspot_leave(step, cfa, true);
}

static inline bool hotspot_compiled(const struct hotspot_step *step) {
        uint64_t size = hotspot_value(step, &step->process->frame_size), pc = step->unwind->pc;
        enum hotspot_stage stage = HOTSPOT_STAGE_WHOLE;

        if (step->is_exact)
                stage = hotspot_stage_of_leaf(step);
        else if (pc == hotspot_address(step, &step->process->deopt_handler) && !hotspot_orig_pc(step, &pc))
                return false;
        hotspot_write(step, RUNTIME_HOTSPOT_COMPILED, hotspot_shown(step, pc),
                      hotspot_value(step, &step->process->compile_id) << 32 |
                              ((hotspot_shown(step, pc) - step->state->blob) & 0xffffffff),
                      hotspot_value(step, &step->process->method));
        /* A method handle's intrinsic has no frame: it jumps on. */
        if (size < 2 && step->is_exact)
                return hotspot_leave_by(step, HOTSPOT_STAGE_NONE, 0);
        if (size < 2 || size > HOTSPOT_CACHED_WORDS)
                return hotspot_end(step, HOTSPOT_END_NO_FRAME);
        if (step->is_exact && stage == HOTSPOT_STAGE_WHOLE)
                return hotspot_leave_body(step, step->unwind->sp + size * 8);
        if (!step->is_exact)
                return hotspot_leave(step, hotspot_frame_sp(step) + size * 8, true);
        return hotspot_leave_by(step, stage, size * 8);
}

/* ---- interpreter ---- */

/* Whether @bcp lies in the bytecodes of @method, or is none of a native method. *const_methodp. */
static inline bool hotspot_is_bcp(const struct hotspot_step *step, uint64_t const_method, uint64_t bcp) {
        uint16_t size;

        if (bpf_probe_read_user(&size, sizeof(size), (const void *)(const_method + step->process->code_size)))
                return false;
        if (!size)
                return true;
        return bcp - (const_method + step->process->code) < size;
}

/* The caller's rsp. In the heap it is a number of words from the frame's rbp on. */
static inline bool hotspot_read_sender(const struct hotspot_step *step, uint64_t fp, uint64_t *senderp) {
        if (!window_read_word(&step->unwind->window, fp + (int64_t)HOTSPOT_SLOT_SENDER_SP, senderp))
                return false;
        if (step->state->heap.end)
                *senderp = fp + *senderp * 8;
        return true;
}

/* Reads how many classes were unloaded: none whose method is on this stack. */
static inline void hotspot_read_stamp(const struct hotspot_step *step) {
        uint64_t count;

        if (step->state->stamp || !step->process->unloads ||
            bpf_probe_read_user(&count, sizeof(count), (const void *)step->process->unloads))
                return;
        step->state->stamp = (uint32_t)count == 0xffffffff ? 1 : (uint32_t)count + 1;
}

static inline void hotspot_write_interpreted(const struct hotspot_step *step, uint64_t bcp,
                                             uint64_t const_method, uint64_t method) {
        uint64_t stamp;

        hotspot_read_stamp(step);
        stamp = (const_method | method) >> RUNTIME_HOTSPOT_STAMP_SHIFT ? 0 : step->state->stamp;
        hotspot_write(step, RUNTIME_HOTSPOT_INTERPRETED, bcp,
                      const_method | (stamp & 0xffff) << RUNTIME_HOTSPOT_STAMP_SHIFT,
                      method | stamp >> 16 << RUNTIME_HOTSPOT_STAMP_SHIFT);
}

static inline bool hotspot_interpreted(const struct hotspot_step *step) {
        struct unwind *unwind = step->unwind;
        struct window *window = &unwind->window;
        uint64_t fp = unwind->bp, method, bcp, sender, pc, bp, const_method, kept;

        if ((fp & 7) || fp - unwind->sp > UNWIND_MAX_JUMP ||
            !window_read_word(window, fp + (int64_t)step->process->bcp, &bcp) ||
            !window_read_word(window, fp + (int64_t)HOTSPOT_SLOT_METHOD, &method) ||
            !hotspot_read_sender(step, fp, &sender) || !hotspot_read_link(step, fp, &bp) ||
            !window_read_word(window, fp + 8, &pc) ||
            bpf_probe_read_user(&const_method, sizeof(const_method),
                                (const void *)(method + step->process->const_method)))
                return hotspot_interpreter_entry(step);
        pc = unwind_return_address(pc);
        sender = hotspot_sender(sender, fp);
        kept = step->rules->registers[HOTSPOT_KEPT_BCP];
        if (step->is_exact && step->n == step->rules->first && hotspot_is_bcp(step, const_method, kept))
                bcp = kept;
        else if (!hotspot_is_bcp(step, const_method, bcp))
                return hotspot_interpreter_entry(step);
        /* A call through a method handle takes one argument off the stack after the caller's rsp was kept. */
        if ((!hotspot_is_code(step->process, pc) && !hotspot_is_oldest(step, sender)) || sender < fp + 8)
                return hotspot_interpreter_entry(step);
        hotspot_write_interpreted(step, bcp, const_method, method);
        return hotspot_go(step, pc, sender, bp);
}

/* ---- stubs ---- */

/* Native code called Java: call_stub keeps a frame pointer, and rows go on above. */
static inline bool hotspot_entry(const struct hotspot_step *step) {
        struct unwind *unwind = step->unwind;
        uint64_t bp, pc;

        if (!window_read_pair(&unwind->window, unwind->bp, &bp, &pc))
                return rules_end(unwind, ABI_STACK_FAULT);
        pc = unwind_return_address(pc);
        if (!pc || hotspot_is_code(step->process, pc))
                return hotspot_end(step, HOTSPOT_END_NO_RETURN);
        return hotspot_go(step, pc, unwind->bp + 16, bp);
}

/* ---- frames in the heap ---- */

static inline uint64_t hotspot_reference(const struct hotspot_step *step, uint64_t at) {
        uint32_t reference;

        if (bpf_probe_read_user(&reference, sizeof(reference), (const void *)at) || !reference)
                return 0;
        return step->process->oop_base + ((uint64_t)reference << (step->process->oop_shift & 31));
}

/* A number of words from a chunk's begin of frames; more than there can be, if it cannot be read. */
static inline uint32_t hotspot_chunk_words(uint64_t at) {
        uint32_t words;

        return bpf_probe_read_user(&words, sizeof(words), (const void *)at) ? 0xffffffff : words;
}

/* A chunk, if no collector moves it, and where its frames lie: *fromp to heap->end. */
static inline bool hotspot_read_chunk(const struct hotspot_step *step, uint64_t chunk, uint64_t *fromp) {
        const struct hotspot_process *process = step->process;
        struct hotspot_heap_part *heap = &step->state->heap;
        uint64_t stack = chunk + process->chunk_stack, mark;
        uint32_t from, to;

        if (!chunk || (chunk & 7) || bpf_probe_read_user(&mark, sizeof(mark), (const void *)chunk) ||
            (mark & HOTSPOT_MARK_MOVED) == HOTSPOT_MARK_MOVED || heap->n_chunks >= HOTSPOT_MAX_CHUNKS)
                return false;
        heap->n_chunks++;
        from = hotspot_chunk_words(chunk + process->chunk_sp);
        to = hotspot_chunk_words(chunk + process->chunk_bottom);
        if (from > HOTSPOT_MAX_CHUNK_WORDS || to > HOTSPOT_MAX_CHUNK_WORDS)
                return false;
        *fromp = stack + (uint64_t)from * 8;
        heap->end = stack + (uint64_t)to * 8;
        heap->parent = hotspot_reference(step, chunk + process->chunk_parent);
        return true;
}

/*
 * Goes to the newest frame of a chunk. The word below a frame is the address that its callee returns to. The
 * VM makes a new chunk in front of one that a collector knows; once it is empty, the older one is next.
 */
static inline bool hotspot_enter_chunk(const struct hotspot_step *step, uint64_t chunk) {
        struct hotspot_heap_part *heap = &step->state->heap;
        struct unwind *unwind = step->unwind;
        uint64_t pc, bp, sp = 0;

        for (uint32_t i = 0; i < HOTSPOT_MAX_EMPTY; i++) {
                if (!hotspot_read_chunk(step, chunk, &sp))
                        return false;
                if (sp < heap->end)
                        break;
                chunk = heap->parent;
        }
        if (sp >= heap->end || !window_read_word(&unwind->window, sp - 8, &pc) ||
            !hotspot_read_link(step, sp + (int64_t)HOTSPOT_LINK, &bp) ||
            !hotspot_returns_to(step, unwind_return_address(pc)))
                return false;
        unwind->pc = unwind_return_address(pc);
        unwind->sp = sp;
        unwind->bp = bp;
        return true;
}

/* A frame that stands for what is known to be at the barrier. */
static inline bool hotspot_write_barrier(const struct hotspot_step *step, uint64_t what) {
        const struct hotspot_heap_part *heap = &step->state->heap;
        struct hotspot_step at = *step;

        at.n = step->unwind->n_frames;
        if (at.n >= step->unwind->limit)
                return rules_end(step->unwind, ABI_STACK_DEPTH);
        hotspot_write(&at, RUNTIME_HOTSPOT_BLOB, heap->barrier, what | (heap->barrier - heap->blob),
                      heap->blob);
        return true;
}

/* Goes on with the carrier's frames: that of enterSpecial, whose pc no release publishes, and its caller's. */
static inline bool hotspot_go_to_carrier(const struct hotspot_step *step) {
        struct hotspot_heap_part *heap = &step->state->heap;
        struct unwind *unwind = step->unwind;
        uint64_t pc, bp;

        heap->end = 0;
        if (!hotspot_write_barrier(step, RUNTIME_HOTSPOT_ENTRY))
                return false;
        if (!window_read_pair(&unwind->window, heap->slot - 8, &bp, &pc))
                return rules_end(unwind, ABI_STACK_FAULT);
        unwind->pc = unwind_return_address(pc);
        unwind->sp = heap->slot + 8;
        unwind->bp = bp;
        return true;
}

/* Behind the oldest frame of a chunk. */
static inline bool hotspot_leave_chunk(const struct hotspot_step *step) {
        uint64_t parent = step->state->heap.parent;

        return parent ? hotspot_enter_chunk(step, parent) : hotspot_go_to_carrier(step);
}

/* Goes on with the carrier's frames. One frame stands for those that are in the heap. */
static inline bool hotspot_skip_heap(const struct hotspot_step *step) {
        struct hotspot_heap_part *heap = &step->state->heap;
        struct unwind *unwind = step->unwind;

        heap->result = HOTSPOT_HEAP_SKIPPED;
        unwind->n_frames = heap->n;
        unwind->limit = heap->limit;
        unwind->end = ABI_STACK_INTERNAL;
        return hotspot_write_barrier(step, 0) && hotspot_go_to_carrier(step);
}

/*
 * Whether heap->slot is the return address of enterSpecial: a ContinuationEntry lies below. *continuationp.
 * Its flags are 0 or 1, and the words of arguments are few: no address is such a word.
 */
static inline bool hotspot_is_entry(const struct hotspot_step *step, uint64_t *continuationp) {
        uint64_t at = step->state->heap.slot + (int64_t)HOTSPOT_CONTINUATION, flags;

        return window_read_word(&step->unwind->window, at, continuationp) && *continuationp &&
               window_read_word(&step->unwind->window, at + HOTSPOT_ENTRY_FLAGS, &flags) &&
               (uint32_t)flags <= 1 && flags >> 32 <= HOTSPOT_MAX_ARGUMENTS;
}

/*
 * Above the thread's frames lies that of enterSpecial, with a ContinuationEntry. Nobody writes the word
 * behind that one's last field: an old return address may lie there, in front of the true one. The search
 * ends two words behind the first that is none.
 */
static inline bool hotspot_find_carrier(const struct hotspot_step *step, uint64_t *continuationp) {
        struct hotspot_heap_part *heap = &step->state->heap;
        uint64_t first = step->unwind->sp + HOTSPOT_ENTRY_BEFORE - (int64_t)HOTSPOT_CONTINUATION, word;
        const uint64_t last = first + 8 * HOTSPOT_CARRIER_WORDS;

        /* end of the search: in memory, where the verifier has one state for all its values */
        heap->end = last;
        for (uint32_t i = 0; i < HOTSPOT_CARRIER_WORDS; i++) {
                heap->slot = first + 8 * i;
                if (heap->slot >= heap->end)
                        break;
                if (!window_read_word(&step->unwind->window, heap->slot, &word))
                        return false;
                word = unwind_return_address(word);
                if (!hotspot_is_code(step->process, word))
                        continue;
                if (hotspot_is_entry(step, continuationp) && hotspot_returns_to(step, word))
                        return true;
                if (heap->end == last)
                        heap->end = heap->slot + 8 * (HOTSPOT_ENTRY_OLD + 1);
        }
        return false;
}

static inline bool hotspot_barrier(const struct hotspot_step *step) {
        struct hotspot_heap_part *heap = &step->state->heap;
        uint64_t continuation = 0;
        bool has_carrier;

        heap->barrier = step->pc;
        heap->blob = step->state->blob;
        heap->n = step->n;
        heap->limit = step->unwind->limit;
        heap->n_chunks = 0;
        heap->result = HOTSPOT_HEAP_READ;
        has_carrier = hotspot_find_carrier(step, &continuation);
        heap->end = 0;
        if (!has_carrier)
                return hotspot_write_barrier(step, 0) && hotspot_end(step, HOTSPOT_END_NO_FRAME);
        if (step->process->chunk_tail &&
            hotspot_enter_chunk(step, hotspot_reference(step, continuation + step->process->chunk_tail)))
                return true;
        return hotspot_skip_heap(step);
}

static inline bool hotspot_is_at_barrier(const struct hotspot_step *step) {
        return !step->is_exact && hotspot_code_read(&step->state->code, step->pc) &&
               hotspot_is_barrier(&step->state->code, 0);
}

static inline bool hotspot_blob(const struct hotspot_step *step) {
        uint64_t size = hotspot_value(step, &step->process->frame_size), pc = step->unwind->pc;

        if (!size && hotspot_is_at_barrier(step))
                return hotspot_barrier(step);
        hotspot_write(step, RUNTIME_HOTSPOT_BLOB, hotspot_shown(step, pc), pc - step->state->blob,
                      step->state->blob);
        if (!step->is_exact && pc == step->process->call_stub)
                return hotspot_entry(step);
        if (!size || size > HOTSPOT_CACHED_WORDS)
                return hotspot_other_stub(step);
        if (!step->is_exact)
                return hotspot_leave(step, step->unwind->sp + size * 8, true);
        if (step->pc < hotspot_address(step, &step->process->frame_complete))
                return hotspot_other_stub(step);
        if (!hotspot_code_read(&step->state->code, step->pc - HOTSPOT_CODE_BEFORE))
                return hotspot_end(step, HOTSPOT_END_UNREADABLE);
        return hotspot_leave_by(step, hotspot_epilogue(&step->state->code), size * 8);
}

static inline bool hotspot_step_by_kind(const struct hotspot_step *step) {
        if (step->pc - step->process->interpreter < step->process->interpreter_size)
                return hotspot_interpreted(step);
        if (!hotspot_find(step)) {
                if (step->n == step->rules->first)
                        hotspot_write_pc(step);
                return false;
        }
        return step->state->kind == RUNTIME_HOTSPOT_COMPILED ? hotspot_compiled(step) : hotspot_blob(step);
}

/* As rules_step(), for a pc in the code heaps. Return: whether the walk goes on. */
static inline bool hotspot_do_step(struct hotspot_step *step) {
        struct unwind *unwind = step->unwind;

        step->n = unwind->n_frames;
        step->pc = unwind->pc;
        step->is_exact = step->rules->is_exact;
        if (step->n >= unwind->limit || step->n > UNWIND_MAX_FRAMES - RUNTIME_HOTSPOT_WORDS)
                return rules_end(unwind, ABI_STACK_DEPTH);
        step->rules->is_exact = 0;
        if (hotspot_step_by_kind(step) && (!step->state->heap.end || unwind->sp < step->state->heap.end ||
                                           hotspot_leave_chunk(step)))
                return true;
        return step->state->heap.end && unwind->end != ABI_STACK_DEPTH && hotspot_skip_heap(step);
}
