/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * Rules: x86-64
 *
 * One step of a walk by rows: applies a rule to the registers of a frame and
 * leaves those of its caller. What a processor's rules mean is all in this file,
 * so that another one can take its place.
 *
 *     rule: CFA = rsp + 24, rbp saved at CFA - 16
 *
 *     address   word
 *     7ff..c0   local                       ← rsp
 *     7ff..c8   caller's rbp                = CFA - 16
 *     7ff..d0   return address              = CFA - 8, always (psABI 3.2.2)
 *     7ff..d8   …the caller's frame         ← CFA, the caller's rsp
 *
 * Where no rows exist (code made at run time, a file without call frame
 * information, pages of Go or V8 in a file), the frame pointer is all there is: the
 * walk goes by it, and returns to rows as soon as it reaches code that has them.
 * Where rows are on their way, or are missing among others, rbp may hold anything:
 * the walk ends (PENDING, NO_ROWS), since a guess is no caller. Includes nothing,
 * as unwind.bpf.h.
 */

enum {
        /* signal frames in one stack: they alone may lead downwards */
        RULES_MAX_SIGNALS = 8,
        /* offsets in struct rt_sigframe, from the rsp at its start (arch/x86/include/asm/sigframe.h) */
        RULES_SIGNAL_RBP = 120,
        RULES_SIGNAL_RBX = 128,
        RULES_SIGNAL_RSP = 160,
        RULES_SIGNAL_RIP = 168,
        RULES_N_REGISTERS = 16,
};

/* `mov $15,%rax; syscall`: rt_sigreturn, as every libc's restorer has it. musl's has no row. */
#define RULES_SIGRETURN_CODE 0x0f0000000fc0c748ull
#define RULES_SIGRETURN_CODE_END 0x05

/* State of a walk by rows, in addition to struct unwind. */
struct rules {
        uint64_t bx;
        uint64_t generation;            /* generation of the node, as the walk began */
        uint64_t space;                 /* of the nodes (spaces.bpf.h) */
        struct rows_place place;
        uint32_t first;                 /* index of frame 0 */
        uint32_t n_signals;
        /* frames from frame 0 to the first that a signal interrupted; 0 = none */
        uint32_t interrupted;
        uint32_t is_exact;              /* the current pc was interrupted: it is not a return address */
        uint64_t leaf_value;            /* value of the register that frame 0's rule names */
        /* registers of frame 0 by DWARF number; rsp, rbp and rbx are elsewhere */
        uint64_t registers[RULES_N_REGISTERS];
};

/* Pointers of one walk: they live on the BPF stack, everything else in map values. */
struct rows_walk {
        struct unwind *unwind;
        struct rules *rules;
        uint64_t *frames;
        const struct unwind_node *root;
        struct rows_cache *cache;
        const struct hotspot_process *hotspot;  /* NULL = none runs there */
        struct hotspot *state;
};

/* Of the includer: as rules_step(), for a pc in the code heaps of walk->hotspot. */
static inline bool rules_hotspot(const struct rows_walk *walk);

/*
 * A walk of the same generation, which is the same process, goes on in the mapping that the last one looked
 * up.
 */
static inline void rules_begin(struct rules *rules, uint64_t space, uint64_t generation, uint32_t first) {
        if (rules->generation != generation) {
                rules->place.start = 0;
                rules->place.size = 0;
        }
        rules->generation = generation;
        rules->space = space;
        rules->first = first;
        rules->n_signals = 0;
        rules->interrupted = 0;
        rules->is_exact = 1;
}

static inline bool rules_end(struct unwind *unwind, uint32_t end) {
        unwind->end = end;
        return false;
}

static inline bool rules_is_sigreturn(uint64_t pc) {
        uint64_t code[2] = { 0, 0 };

        if (bpf_probe_read_user(code, 9, (const void *)pc))
                return false;
        return code[0] == RULES_SIGRETURN_CODE && (code[1] & 0xff) == RULES_SIGRETURN_CODE_END;
}

/*
 * Decides, once per pc without a row, how to go on there; the cache keeps the decision. @rule: 0 or
 * UNWIND_RULE_FP.
 */
static inline uint64_t rules_without_row(uint64_t pc, uint64_t rule) {
        if (rules_is_sigreturn(pc))
                return (uint64_t)UNWIND_CFA_SIGNAL << 48;
        return rule ? rule : (uint64_t)UNWIND_CFA_GAP << 48;
}

/* The rule at @pc, which lies in the walk's mapping. Return: false and `end`. */
static inline bool rules_look_up(const struct rows_walk *walk, uint64_t pc, uint64_t *rulep) {
        const struct rows_place *place = &walk->rules->place;
        uint64_t rule = UNWIND_RULE_FP;

        if (place->table < UNWIND_MAX_TABLES)
                rule = rows_rule(place->table, pc - place->start + place->offset);
        else if (place->table == UNWIND_PENDING_TABLE)
                return rules_end(walk->unwind, ABI_STACK_PENDING);
        else if (place->table == UNWIND_LOST_TABLE)
                rule = 0;
        if (rule == ROWS_NO_TABLE)
                return rules_end(walk->unwind, ABI_STACK_INTERNAL);
        *rulep = !rule || rule == UNWIND_RULE_FP ? rules_without_row(walk->unwind->pc, rule) : rule;
        return true;
}

/* The rule for @pc, by way of the cache. Return: false and `end`. */
static inline bool rules_find(const struct rows_walk *walk, uint64_t pc, uint64_t *rulep) {
        struct rules *rules = walk->rules;
        uint64_t tag = pc ^ rules->generation * ROWS_TAG_FACTOR, rule = 0;
        uint32_t index = rows_cache_index(pc);
        struct rows_cache_entry *entry = rows_cache_at(walk->cache, index), *second;

        if (entry->tag == tag) {
                *rulep = entry->rule;
                return true;
        }
        /* Two pcs with one index share a pair, which lies in one line. */
        second = rows_cache_at(walk->cache, index ^ 1);
        if (second->tag == tag) {
                *rulep = second->rule;
                return true;
        }
        if (pc - rules->place.start >= rules->place.size) {
                uint32_t end = rows_find_place(walk->root, rules->space, rules->generation, pc,
                                               &rules->place);

                if (end)
                        return rules_end(walk->unwind, end);
        }
        if (!rules_look_up(walk, pc, &rule))
                return false;
        *second = *entry;
        entry->tag = tag;
        entry->rule = rule;
        *rulep = rule;
        return true;
}

/* The kernel has pushed all registers where the handler's frame ends: at rsp. */
static inline bool rules_signal(struct unwind *unwind, struct rules *rules) {
        struct window *window = &unwind->window;
        uint64_t sp = unwind->sp, pc, bp, bx, caller_sp;

        if (rules->n_signals >= RULES_MAX_SIGNALS)
                return rules_end(unwind, ABI_STACK_BAD_CFA);
        if (!window_read_word(window, sp + RULES_SIGNAL_RBP, &bp) ||
            !window_read_word(window, sp + RULES_SIGNAL_RBX, &bx) ||
            !window_read_word(window, sp + RULES_SIGNAL_RSP, &caller_sp) ||
            !window_read_word(window, sp + RULES_SIGNAL_RIP, &pc))
                return rules_end(unwind, ABI_STACK_FAULT);
        unwind->pc = pc;
        unwind->sp = caller_sp;
        unwind->bp = bp;
        rules->bx = bx;
        rules->n_signals++;
        rules->is_exact = 1;
        if (!rules->interrupted)
                rules->interrupted = unwind->n_frames - rules->first;
        return true;
}

static inline bool rules_by_frame_pointer(struct unwind *unwind, struct rules *rules) {
        /*
         * The same bound as in unwind.bpf.h; here 0 alone can be an end, anything else means that there is no
         * frame pointer.
         */
        if (unwind->bp && unwind->bp - unwind->sp > UNWIND_MAX_JUMP)
                return rules_end(unwind, ABI_STACK_NO_ROWS);
        rules->bx = 0;                  /* its place is not known */
        return unwind_by_frame_pointer(unwind);
}

/* CFA in memory: at a register + 24-bit offset, + 8-bit addend. */
static inline bool rules_deref(struct unwind *unwind, uint64_t base, int32_t offset, uint64_t *cfap) {
        uint64_t value;

        if (!window_read_word(&unwind->window, base + (int64_t)(offset >> 8), &value))
                return rules_end(unwind, ABI_STACK_FAULT);
        *cfap = value + (int64_t)(int8_t)offset;
        return true;
}

/*
 * The rarer kinds are sums, told apart by a table and not by branches: the verifier
 * follows each branch through all that comes after it. The leaf's value is that of a
 * general register, which is known only where the sample was taken.
 */
struct rules_terms {
        uint8_t sp, bp, leaf;           /* factors of the registers */
        uint8_t is_leaf;                /* the kind is valid for frame 0 alone */
        uint8_t is_deref;               /* the CFA lies in memory there */
        uint8_t is_stub;
};

enum {
        /* index of the kinds that have a register's number in their low four bits */
        RULES_TERMS_LEAF = 16,
        RULES_N_TERMS = 32,
};

static const struct rules_terms rules_terms[RULES_N_TERMS] = {
        [UNWIND_CFA_RSP] = { .sp = 1, .is_leaf = 1 },           /* a landing: the others do not come here */
        [UNWIND_CFA_DEREF_RSP] = { .sp = 1, .is_deref = 1 },
        [UNWIND_CFA_DEREF_RBP] = { .bp = 1, .is_deref = 1 },
        [UNWIND_CFA_PLT] = { .sp = 1, .is_stub = 1 },
        [RULES_TERMS_LEAF + UNWIND_CFA_REGISTER / 16] = { .leaf = 1, .is_leaf = 1 },
        [RULES_TERMS_LEAF + UNWIND_CFA_RETURN / 16] = { .sp = 1, .is_leaf = 1 },
        [RULES_TERMS_LEAF + UNWIND_CFA_INDEXED / 16] = { .sp = 1, .leaf = 8, .is_leaf = 1, .is_deref = 1 },
        [RULES_TERMS_LEAF + UNWIND_CFA_SUM / 16] = { .bp = 1, .leaf = 1, .is_leaf = 1 },
};

static inline const struct rules_terms *rules_terms_of(uint32_t kind) {
        uint32_t index = kind < 16 ? kind : RULES_TERMS_LEAF + (kind >> 4);

        index &= RULES_N_TERMS - 1;
        barrier_var(index);
        index &= RULES_N_TERMS - 1;
        return &rules_terms[index];
}

static inline uint64_t rules_leaf_register(const struct rules *rules, uint32_t kind) {
        uint32_t reg = kind & (RULES_N_REGISTERS - 1);

        barrier_var(reg);
        reg &= RULES_N_REGISTERS - 1;
        return rules->registers[reg];
}

/* A stub's offset is 8, and 8 more where pc & 15 is not below the limit that the rule has in its place. */
static inline int64_t rules_offset(const struct rules_terms *terms, uint64_t pc, int32_t offset) {
        int64_t stub = 8 + (int64_t)(8 * ((uint64_t)((int64_t)offset - 1 - (int64_t)(pc & 15)) >> 63));

        return terms->is_stub * stub + (1 - terms->is_stub) * (int64_t)offset;
}

static inline bool rules_find_other_cfa(struct unwind *unwind, struct rules *rules, uint32_t kind,
                                        int32_t offset, uint64_t *cfap) {
        const struct rules_terms *terms = rules_terms_of(kind & (UNWIND_CFA_LANDING - 1));
        uint64_t base;

        if (kind == UNWIND_CFA_END)
                return rules_end(unwind, ABI_STACK_COMPLETE);
        if (kind == UNWIND_CFA_GAP)
                /* no guess: rbp is 0 where a program begins, as in ld.so's entry, which has no row */
                return rules_end(unwind, unwind->bp ? ABI_STACK_NO_ROWS : ABI_STACK_FP_END);
        if (!(terms->sp | terms->bp | terms->leaf) ||
            (terms->is_leaf && unwind->n_frames != rules->first + 1))
                return rules_end(unwind, ABI_STACK_UNSUPPORTED);
        rules->is_exact = kind / UNWIND_CFA_LANDING;
        rules->leaf_value = rules_leaf_register(rules, kind);
        base = terms->sp * unwind->sp + terms->bp * unwind->bp + terms->leaf * rules->leaf_value;
        if (terms->is_deref)
                return rules_deref(unwind, base, offset, cfap);
        *cfap = base + rules_offset(terms, unwind->pc, offset);
        return true;
}

/* Registers of the caller, given the CFA. Return: false and `end`, registers untouched. */
static inline bool rules_restore(struct unwind *unwind, struct rules *rules, uint64_t rule, uint64_t cfa) {
        uint64_t at = cfa, pc, bp = unwind->bp, bx = rules->bx;
        uint32_t kind = (uint32_t)(rule >> 56) & 3, slot = (uint32_t)(rule >> 58);

        /* rbx first: it lies lowest, and the window grows upwards from the first word that is read. */
        if (slot == UNWIND_RBX_LOST)
                bx = 0;
        else if (slot && !window_read_word(&unwind->window, cfa - 8 * (uint64_t)slot, &bx))
                return rules_end(unwind, ABI_STACK_FAULT);
        if (kind == UNWIND_RBP_AT_RBP)
                at = bp;
        if (kind == UNWIND_RBP_LOST)
                bp = 0;
        else if (kind && !window_read_word(&unwind->window, at + (int64_t)(int16_t)(rule >> 32), &bp))
                return rules_end(unwind, ABI_STACK_FAULT);
        if (!window_read_word(&unwind->window, cfa - 8, &pc))
                return rules_end(unwind, ABI_STACK_FAULT);
        if (!pc)
                return rules_end(unwind, ABI_STACK_FP_END);
        unwind->pc = pc;
        unwind->sp = cfa;
        unwind->bp = bp;
        rules->bx = bx;
        return true;
}

/*
 * The leaf has popped its return address into a register: nothing is left to be read. It happens once, so the
 * CFA may stay.
 */
static inline bool rules_leaf_return(struct unwind *unwind, struct rules *rules, uint64_t cfa) {
        if (cfa < unwind->sp || (cfa & 7))
                return rules_end(unwind, ABI_STACK_BAD_CFA);
        if (!rules->leaf_value)
                return rules_end(unwind, ABI_STACK_FP_END);
        unwind->pc = rules->leaf_value;
        unwind->sp = cfa;
        return true;
}

static inline bool rules_apply(struct unwind *unwind, struct rules *rules, uint64_t rule) {
        uint32_t kind = (uint32_t)(rule >> 48) & 0xff;
        int32_t offset = (int32_t)rule;
        uint64_t cfa = unwind->sp;

        if (kind <= UNWIND_CFA_RBX) {
                if (kind == UNWIND_CFA_RBP)
                        cfa = unwind->bp;
                if (kind == UNWIND_CFA_RBX)
                        cfa = rules->bx;
                cfa += (int64_t)offset;
        } else if (kind == UNWIND_CFA_FP) {
                return rules_by_frame_pointer(unwind, rules);
        } else if (kind == UNWIND_CFA_SIGNAL) {
                return rules_signal(unwind, rules);
        } else {
                if (!rules_find_other_cfa(unwind, rules, kind, offset, &cfa))
                        return false;
                if ((kind & 0x70) == UNWIND_CFA_RETURN)
                        return rules_leaf_return(unwind, rules, cfa);
        }
        /* Every frame lies above the one that it called: else a crafted stack would be walked in circles. */
        if (cfa <= unwind->sp || (cfa & 7))
                return rules_end(unwind, ABI_STACK_BAD_CFA);
        return rules_restore(unwind, rules, rule, cfa);
}

/* Writes one frame and goes to its caller. Return: false when the walk is over. */
static inline bool rules_step(const struct rows_walk *walk) {
        struct unwind *unwind = walk->unwind;
        struct rules *rules = walk->rules;
        uint32_t n = unwind->n_frames;
        uint64_t rule, pc = unwind->pc;

        if (walk->hotspot && pc - walk->hotspot->low < walk->hotspot->size)
                return rules_hotspot(walk);
        if (n >= unwind->limit || n >= UNWIND_MAX_FRAMES)
                return rules_end(unwind, ABI_STACK_DEPTH);
        if (pc >> RUNTIME_KIND_SHIFT)
                return rules_end(unwind, ABI_STACK_MALFORMED);
        /*
         * Readers take every frame but the first for a return address, so an interrupted pc is written as
         * one.
         */
        walk->frames[n] = pc + (rules->is_exact & (n != rules->first));
        unwind->n_frames = n + 1;
        /*
         * A return address may be the first byte behind its function, so the row of the call itself counts.
         */
        pc -= !rules->is_exact;
        rules->is_exact = 0;
        if (!rules_find(walk, pc, &rule)) {
                /* A word that lies in no mapping was no return address. */
                if (n > rules->first && unwind->end == ABI_STACK_NO_MAPPING)
                        unwind->n_frames = n;
                return false;
        }
        return rules_apply(unwind, rules, rule);
}
