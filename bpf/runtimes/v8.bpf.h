/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * V8
 *
 * Walks over frames of JavaScript. All code that V8 makes or brings along keeps rbp, and none of it has rows.
 * A frame of JavaScript has its function in it:
 *
 *     rbp + 8    return address
 *     rbp        caller's rbp
 *     rbp - 8    context, a tagged pointer; in any other frame of V8's a small number: the kind of frame
 *     rbp - 16   JSFunction ─▶ SharedFunctionInfo, which the sample takes along with a cookie of it
 *     rbp - 32   bytecode array, and
 *     rbp - 40   offset in it: only where the interpreter runs the function
 *
 * What is read is checked: the function's SharedFunctionInfo and the bytecode array are known by the types in
 * their maps. The collector leaves the new address in place of the map of an object that it has moved; it is
 * followed. Frames that are not of JavaScript are native ones: builtins have symbols.
 *
 * A leaf may have no frame of its own (yet, or any more). In code made at run time the bytes say so
 * (arch/v8-code-*.bpf.h). A builtin without a frame (a handler of the interpreter, a stub) leaves that of its
 * caller: it is written as native, and the interpreted function whose frame is there follows. Where compiled
 * code has called, its return address is between rsp and rbp, behind a call.
 *
 * Includes nothing but the processor's part, as rules.bpf.h, and stands behind hotspot.bpf.h, whose test for
 * calls it asks.
 */

#if UNWIND_ARM64
#include "arch/v8-code-arm64.bpf.h"
#else
#include "arch/v8-code-x86_64.bpf.h"
#endif

enum {
        V8_SLOT_CONTEXT = -8,
        V8_SLOT_FUNCTION = -16,
        V8_SLOT_BYTECODE = -32,
        V8_SLOT_OFFSET = -40,
        V8_TAG = 1,                     /* pointer to an object; 3 = a weak one, even = a small number */
        V8_TAG_MASK = 3,
        V8_LEAF_WORDS = 12,             /* words above rsp that are searched for a return address */
        V8_FIELD_MASK = 7,              /* a field is one of the first eight words of an object, */
        V8_OBJECT_WORDS = 8 + V8_COOKIE_WORDS - 1,      /* and a cookie begins there */
};

/* State of one step, and what it reads. In a map value, as the BPF stack is small. */
struct v8 {
        uint64_t info_map, bytecode_map;        /* maps that were seen to be of these types, in this walk */
        uint64_t pc;                    /* pc of the step's frame */
        uint32_t n;                     /* index of its first word */
        uint32_t is_exact, is_first;
        uint32_t is_made;               /* code made at run time: no file has it */
        uint32_t is_found;              /* a rule, or a mapping without one */
        uint64_t info;                  /* SharedFunctionInfo, without its tag; 0 = none */
        uint64_t cookie;
        uint64_t bytecode;              /* tagged, of the frame at rbp */
        uint64_t mark;                  /* the context's slot of the frame at rbp: in a function's a pointer */
        uint64_t slot, caller;          /* where a leaf's return address lies, and which it is */
        uint64_t words[V8_COOKIE_WORDS];
        uint64_t object[V8_OBJECT_WORDS];       /* begin of the object that was read last */
        struct rows_place place;
        struct v8_code code;
        struct hotspot_code call;
};

/* States of the runtimes that one walk may meet, as the walk itself hands them on (rules.bpf.h). */
struct runtime_states {
        struct v8 v8;
        struct hotspot hotspot;
};

/* Pointers of one step: they live on the BPF stack, everything else in a map value. */
struct v8_step {
        struct unwind *unwind;
        struct rules *rules;
        const struct v8_process *process;
        struct v8 *state;
        struct hotspot_words *frames;
};

/* What the parts of a step say beside 0 and 1, which rules_step() would: the next part goes on. */
enum { V8_FOUND = 2 };

/* Before the first step of a walk. */
static inline void v8_begin(struct v8 *state) {
        state->info_map = 0;
        state->bytecode_map = 0;
}

/* ---- objects ---- */

/* Goes from a tagged pointer to the object, whether it was moved or not. Return: whether it has a map. */
static inline bool v8_object(uint64_t tagged, uint64_t *addressp, uint64_t *mapp) {
        uint64_t address = tagged - V8_TAG, map = 0;

        if ((tagged & V8_TAG_MASK) != V8_TAG || bpf_probe_read_user(&map, sizeof(map), (const void *)address))
                return false;
        if (!(map & V8_TAG)) {
                address = map;
                if ((address & 7) || !address ||
                    bpf_probe_read_user(&map, sizeof(map), (const void *)address) || !(map & V8_TAG))
                        return false;
        }
        *addressp = address;
        *mapp = map;
        return true;
}

/* Whether objects of @map are of @type. *knownp: one that is. */
static inline bool v8_is(const struct v8_process *process, uint64_t map, uint16_t type, uint64_t *knownp) {
        uint16_t found = 0;

        if (map == *knownp)
                return true;
        if (bpf_probe_read_user(&found, sizeof(found),
                                (const void *)(map - V8_TAG + process->instance_type)) ||
            found != type)
                return false;
        *knownp = map;
        return true;
}

/*
 * Reads @size bytes of the object that a tagged pointer leads to, moved or not: one read for its map and its
 * fields. Return: its address; 0 = it has no map.
 */
static inline uint64_t v8_read_object(const struct v8_step *step, uint64_t tagged, uint32_t size) {
        uint64_t address = tagged - V8_TAG, *object = step->state->object;

        if (size > sizeof(step->state->object))
                return 0;
        barrier_var(size);
        if (size > sizeof(step->state->object) || (tagged & V8_TAG_MASK) != V8_TAG ||
            bpf_probe_read_user(object, size, (const void *)address))
                return 0;
        if (object[0] & V8_TAG)
                return address;
        address = object[0];
        if ((address & 7) || !address || bpf_probe_read_user(object, size, (const void *)address) ||
            !(object[0] & V8_TAG))
                return 0;
        return address;
}

/*
 * The function's SharedFunctionInfo and its cookie. Only fields that every object has are read: a function
 * may be the last one of a page, and no page behind it. Return: whether @function is one of JavaScript.
 */
static inline bool v8_read_function(const struct v8_step *step, uint64_t function) {
        const struct v8_process *process = step->process;
        struct v8 *state = step->state;
        uint32_t shared = process->shared >> 3 & V8_FIELD_MASK, cookie = process->cookie >> 3 & V8_FIELD_MASK;
        uint64_t address;

        if (!v8_read_object(step, function, 8 * shared + 8))
                return false;
        address = v8_read_object(step, state->object[shared],
                                 8 * (cookie + V8_COOKIE_WORDS - !process->has_unique_id));
        if (!address || !v8_is(process, state->object[0], process->info_type, &state->info_map))
                return false;
        state->info = address;
        state->cookie = v8_cookie(&state->object[cookie], process->has_unique_id);
        return !(address >> V8_COOKIE_SHIFT);
}

/* ---- frames ---- */

static inline void v8_write(const struct v8_step *step, uint32_t n, uint32_t kind, uint64_t pc, uint64_t info,
                            uint64_t cookie, uint32_t offset) {
        if (n > UNWIND_MAX_FRAMES - RUNTIME_V8_WORDS)
                return;
        barrier_var(n);
        if (n > UNWIND_MAX_FRAMES - RUNTIME_V8_WORDS)
                return;
        step->frames->words[n] = (uint64_t)kind << RUNTIME_KIND_SHIFT | (pc & RUNTIME_ADDRESS_MASK);
        step->frames->words[n + 1] = info | cookie << V8_COOKIE_SHIFT;
        step->frames->words[n + 2] = (cookie >> 16) << 32 | offset;
        step->unwind->n_frames = n + RUNTIME_V8_WORDS;
        step->unwind->limit += RUNTIME_V8_WORDS - 1;
}

/* The address to be written: readers take every frame but the first for a return address. */
static inline uint64_t v8_shown(const struct v8_step *step) {
        return step->state->pc + (step->state->is_exact & !step->state->is_first);
}

static inline void v8_write_native(const struct v8_step *step) {
        uint32_t n = step->state->n;

        if (n >= UNWIND_MAX_FRAMES)
                return;
        barrier_var(n);
        if (n >= UNWIND_MAX_FRAMES)
                return;
        step->frames->words[n] = v8_shown(step);
        step->unwind->n_frames = n + 1;
}

/* Whether the frame at rbp is of JavaScript; then state->info and state->cookie are its function's. */
static inline bool v8_is_function(const struct v8_step *step) {
        struct unwind *unwind = step->unwind;
        uint64_t bp = unwind->bp, function;

        step->state->mark = V8_TAG;
        if ((bp & 7) || bp - unwind->sp > UNWIND_MAX_JUMP)
                return false;
        return window_read_pair(&unwind->window, bp + (int64_t)V8_SLOT_FUNCTION, &function,
                                &step->state->mark) &&
               (step->state->mark & V8_TAG_MASK) == V8_TAG && v8_read_function(step, function);
}

/* Whether the frame at rbp is of code made at run time that is no function's, and has a name. */
static inline bool v8_is_marked(const struct v8_step *step) {
        uint64_t mark = step->state->mark;

        return step->state->is_made && !(mark & 1) && mark >> 1 < 64 &&
                (step->process->marks >> (mark >> 1 & 63) & 1);
}

/* Whether the interpreter is in a handler, and runs the bytecode that state->bytecode leads to. */
static inline bool v8_is_at_bytecode(const struct v8_step *step) {
        const uint64_t *registers = step->rules->registers;

        return step->state->is_first && registers[V8_REGISTER_BYTECODE] == step->state->bytecode &&
                registers[V8_REGISTER_OFFSET] < V8_NO_OFFSET;
}

/* Whether the frame at rbp is one that the interpreter has made. *offsetp: of its bytecode. */
static inline bool v8_is_interpreted(const struct v8_step *step, uint32_t *offsetp) {
        struct unwind *unwind = step->unwind;
        uint64_t offset, bytecode, address, map;

        if (!window_read_pair(&unwind->window, unwind->bp + (int64_t)V8_SLOT_OFFSET, &offset, &bytecode) ||
            (uint32_t)offset || !v8_object(bytecode, &address, &map) ||
            !v8_is(step->process, map, step->process->bytecode_type, &step->state->bytecode_map))
                return false;
        step->state->bytecode = bytecode;
        *offsetp = (uint32_t)(offset >> 32) & V8_NO_OFFSET;
        /* The slot is written at calls alone; until then the register has it. */
        if (v8_is_at_bytecode(step))
                *offsetp = (uint32_t)step->rules->registers[V8_REGISTER_OFFSET];
        return true;
}

/* A frame that is there: by rbp to its caller. */
static inline bool v8_leave(const struct v8_step *step) {
        step->rules->is_exact = 0;
        return rules_by_frame_pointer(step->unwind, step->rules);
}

static inline bool v8_go(const struct v8_step *step, uint64_t pc, uint64_t sp) {
        step->rules->is_exact = 0;
        step->rules->bx = 0;
        step->unwind->pc = pc;
        step->unwind->sp = sp;
        return true;
}

static inline bool v8_frame(const struct v8_step *step) {
        bool is_function = v8_is_function(step), is_interpreted;
        uint32_t offset = V8_NO_OFFSET;

        is_interpreted = is_function && v8_is_interpreted(step, &offset);
        /* Compiled code may go on in the frame of an interpreted function, with all that is in it. */
        if (is_function && step->state->is_made)
                v8_write(step, step->state->n, RUNTIME_V8_COMPILED, step->state->pc, step->state->info,
                         step->state->cookie, offset | (step->state->is_exact ? V8_PC_EXACT : 0));
        else if (is_interpreted)
                v8_write(step, step->state->n, RUNTIME_V8_INTERPRETED, step->state->pc, step->state->info,
                         step->state->cookie, offset);
        else if (v8_is_marked(step))
                v8_write(step, step->state->n, RUNTIME_V8_COMPILED, step->state->pc, 0, step->state->mark,
                         V8_NO_OFFSET | (step->state->is_exact ? V8_PC_EXACT : 0));
        else
                v8_write_native(step);
        return v8_leave(step);
}

/* ---- leaves ---- */

/* Whether no file has the code at @pc, as far as is known. */
static inline bool v8_is_made(const struct v8_step *step, uint64_t pc) {
        struct rows_place *place = &step->state->place;

        if (pc - step->process->text < step->process->text_size)
                return false;
        if (rows_find_place(step->rules->space, step->rules->generation, pc, place))
                return true;
        return place->table == UNWIND_NO_TABLE;
}

static inline bool v8_returns_to(const struct v8_step *step, uint64_t pc) {
        return pc > UNWIND_PAGE_SIZE && !(pc >> 47) &&
               hotspot_code_read(&step->state->call, pc - HOTSPOT_CODE_BEFORE) &&
               hotspot_is_call(&step->state->call, HOTSPOT_CODE_BEFORE);
}

/*
 * Finds the first word that may be a return address, for a leaf in a file that may have no frame. Return:
 * whether it is one of code made at run time; then state->caller.
 */
static inline bool v8_find_caller(const struct v8_step *step) {
        struct unwind *unwind = step->unwind;
        struct v8 *state = step->state;

        for (uint32_t i = 0; i < V8_LEAF_WORDS; i++) {
                state->slot = unwind->sp + 8 * i;
                if (state->slot >= unwind->bp ||
                    !window_read_word(&unwind->window, state->slot, &state->caller))
                        return false;
                if (v8_returns_to(step, state->caller))
                        return v8_is_made(step, state->caller);
        }
        return false;
}

/* A builtin, or native code without a row. */
static inline bool v8_leaf_in_file(const struct v8_step *step) {
        uint32_t offset = V8_NO_OFFSET;
        bool is_interpreted;

        v8_write_native(step);
        if (!v8_is_function(step))
                return v8_leave(step);
        is_interpreted = v8_is_interpreted(step, &offset);
        if (!is_interpreted || !v8_is_at_bytecode(step)) {
                if (v8_find_caller(step))
                        return v8_go(step, step->state->caller, step->state->slot + 8);
                if (!is_interpreted)
                        return v8_leave(step);
        }
        if (step->state->n + 1 >= step->unwind->limit)
                return rules_end(step->unwind, ABI_STACK_DEPTH);
        v8_write(step, step->state->n + 1, RUNTIME_V8_INTERPRETED, step->state->pc, step->state->info,
                 step->state->cookie, offset);
        return v8_leave(step);
}

/* Whether code begins at @start: the words in front of it lead to what says so. Writes state->words. */
static inline bool v8_begins_at(const struct v8_step *step, uint64_t start) {
        const struct v8_process *process = step->process;
        uint64_t *words = step->state->words;

        /* of the map, where the Code is in front of its code; else of the Code, behind the map */
        if (bpf_probe_read_user(words, 16, (const void *)(start - process->code_header)))
                return false;
        words[2] = 0;
        if (!process->code_start)
                return (words[0] & V8_TAG_MASK) == V8_TAG &&
                       v8_is(process, words[0], process->code_type, &words[2]);
        return (words[1] & V8_TAG_MASK) == V8_TAG &&
               !bpf_probe_read_user(&words[2], sizeof(words[2]),
                                    (const void *)(words[1] - V8_TAG + process->code_start)) &&
               words[2] == start;
}

static inline int v8_stage_of(const struct v8_step *step) {
        uint64_t start = step->state->pc & ~(uint64_t)(V8_CODE_LINE - 1);
        struct v8 *state = step->state;

        if (v8_begins_at(step, start)) {
                if (bpf_probe_read_user(state->code.bytes, V8_CODE_LINE, (const void *)start))
                        return V8_STAGE_WHOLE;
                return v8_prologue(&state->code, (uint32_t)(step->state->pc - start));
        }
        if (bpf_probe_read_user(state->code.bytes, V8_CODE_BEFORE,
                                (const void *)(step->state->pc - V8_CODE_BEFORE)))
                return V8_STAGE_WHOLE;
        return v8_epilogue(&state->code);
}

/* Code made at run time. */
static inline int v8_leaf_made(const struct v8_step *step) {
        struct unwind *unwind = step->unwind;
        const uint64_t *registers = step->rules->registers;
        int stage = v8_stage_of(step);
        uint64_t pc = 0, sp = unwind->sp + (stage == V8_STAGE_PUSHED ? 8 : 0);
        bool is_known;

        if (stage == V8_STAGE_WHOLE)
                return V8_FOUND;
        if (stage == V8_STAGE_RCX || stage == V8_STAGE_R10) {
                pc = registers[stage == V8_STAGE_RCX ? V8_REGISTER_RCX : V8_REGISTER_R10];
                sp -= 8;
        } else {
                window_read_word(&unwind->window, sp, &pc);
        }
        if (!v8_returns_to(step, pc))
                return V8_FOUND;
        is_known = (stage == V8_STAGE_NONE || stage == V8_STAGE_PUSHED) &&
                v8_read_function(step, registers[V8_REGISTER_FUNCTION]);
        v8_write(step, step->state->n, RUNTIME_V8_COMPILED, step->state->pc, is_known ? step->state->info : 0,
                 is_known ? step->state->cookie : 0, V8_NO_OFFSET | V8_PC_EXACT);
        return v8_go(step, pc, sp + 8);
}

/* ---- the step ---- */

/* The frame of code with rows, or of another file. @is_found: there is @rule. */
static inline bool v8_native(const struct v8_step *step, bool is_found, uint64_t rule) {
        v8_write_native(step);
        step->rules->is_exact = 0;
        if (!is_found) {
                /* as in rules_native_step() */
                if (!step->state->is_first && step->unwind->end == ABI_STACK_NO_MAPPING)
                        step->unwind->n_frames = step->state->n;
                return false;
        }
        return rules_apply(step->unwind, step->rules, rule);
}

/*
 * Finds out whose the code at the pc is, and does the step of native code. Return: 0, 1; V8_FOUND = it is
 * V8's: v8_do_leaf() goes on.
 */
static inline int v8_do_find(const struct v8_step *step, const struct rows_walk *walk) {
        struct unwind *unwind = step->unwind;
        struct rules *rules = step->rules;
        struct v8 *state = step->state;
        uint64_t rule = 0;
        uint32_t kind;

        state->n = unwind->n_frames;
        state->pc = unwind->pc;
        state->is_exact = rules->is_exact;
        state->is_first = state->n == rules->first;
        if (state->n >= unwind->limit || state->n > UNWIND_MAX_FRAMES - RUNTIME_V8_WORDS - 1)
                return rules_end(unwind, ABI_STACK_DEPTH);
        if (state->pc >> RUNTIME_KIND_SHIFT)
                return rules_end(unwind, ABI_STACK_MALFORMED);
        state->is_found = rules_find(walk, state->pc - !state->is_exact, &rule);
        kind = (uint32_t)(rule >> 48) & 0xff;
        if (!state->is_found)
                return unwind->end == ABI_STACK_NO_MAPPING ? V8_FOUND : v8_native(step, false, 0);
        if (kind != UNWIND_CFA_FP &&
            (kind != UNWIND_CFA_GAP || state->pc - step->process->text >= step->process->text_size))
                return v8_native(step, true, rule);
        return V8_FOUND;
}

/*
 * Does the step of a leaf in V8's code, which may have no frame; of other frames it looks whether they count.
 * Return: 0, 1; V8_FOUND = v8_frame() goes on.
 */
static inline int v8_do_leaf(const struct v8_step *step) {
        struct v8 *state = step->state;

        /* A pc in no mapping is in no file: the look for its rule has found that. */
        state->is_made = state->is_found ? v8_is_made(step, state->pc)
                                         : state->pc - step->process->text >= step->process->text_size;
        /* Pages of code lose the right to be executed for moments: only frames of JavaScript count there. */
        if (!state->is_found && !state->is_first && !v8_is_function(step))
                return v8_native(step, false, 0);
        if (!state->is_exact)
                return V8_FOUND;
        return state->is_made ? v8_leaf_made(step) : v8_leaf_in_file(step);
}
