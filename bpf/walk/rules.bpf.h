/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * Rules
 *
 * One step of a walk by rows: finds the rule of a frame's pc, and hands it to the processor's part
 * (rules-x86_64.bpf.h, rules-arm64.bpf.h), which applies it to the registers and leaves those of the caller.
 *
 * Where no rows exist (code made at run time, a file without call frame
 * information, pages of Go or V8 in a file), the frame pointer is all there is: the
 * walk goes by it, and returns to rows as soon as it reaches code that has them.
 * Code made at run time may keep none. Then rbp is a caller's, whose frame is as good
 * as any, and each function in between has left its return address below it:
 *
 *     7ff..a8   locals of the leaf, which keeps no frame pointer      ← rsp
 *     7ff..b8   return address into code in between                   lies behind a call
 *     7ff..d0   rbp of main's caller                                  ← rbp, which is main's
 *     7ff..d8   return address into main's caller
 *
 * So a frame where such a word lies below is marked (ABI_FRAME_UNPROVED), and the daemon ends the stack there
 * unless it knows where the code begins, and that it begins with a frame (made-frame.h).
 * Where rows are on their way, or are missing among others, it may hold anything:
 * the walk ends (PENDING, NO_ROWS), since a guess is no caller. Includes nothing but
 * the processor's part, as unwind.bpf.h.
 */

enum {
        /* signal frames and changes of the stack in one walk: they alone may lead downwards */
        RULES_MAX_SIGNALS = 8,
        RULES_N_REGISTERS = 16,
        /* Words of a frame that are looked at; the proof of a larger one would cost too much. */
        RULES_MAX_FRAME_WORDS = 128,
        RULES_MAX_WORDS = 4096,         /* words of a walk that may be code: some 50 ns each */
};

/*
 * Return probes of others (bpftrace, tracers of TLS): the kernel has put the address of its trampoline, which
 * lies in no mapping that rows know, in place of the return address:
 *
 *     stack     … | locals of f | trampoline | frame of its caller …
 *                                 ↑ stack                             CFA = stack + 8 on x86-64
 *     kernel    stack, address ─▶ next: the call before that one
 *
 * So each frame that returns to the trampoline finds its own by the CFA. Calls that longjmp() has left stay
 * in the list for a while, below; a function with several probes is in it several times. Behind the
 * trampoline, in the same page, are copies of the instructions that probes of any kind stand on, where the
 * thread executes one step by step.
 */
enum {
        RULES_MAX_PROBES = 64,          /* calls of a thread that the kernel keeps (MAX_URETPROBE_DEPTH) */
        RULES_PROBE_PAGE = 4096,
        RULES_PROBE_CODE = 64,          /* bytes of the trampoline; it has pushed three words at most */
        RULES_PROBE_STEP = 16,          /* bytes of an instruction, at most */
        RULES_PROBE_PUSHED = 24,
        RULES_PROBE_BELOW = UNWIND_ARM64 ? 0 : 8,       /* CFA, seen from `stack` */
};

struct rules_probe {
        uint64_t stack, address, next;
};

struct rules_probes {
        uint64_t trampoline;            /* once it was asked for; 0 = the process has none */
        uint64_t next;                  /* the kernel's address of the next call; 0 = no more */
        uint32_t n;                     /* frames in that page whose address is known */
        uint32_t is_asked;
        uint32_t n_lost;                /* those that have not */
        uint32_t reserved;
};

/* State of a walk by rows, in addition to struct unwind. */
struct rules {
        /* rbx on x86-64; on arm64 x30, the return address of a frame that has not saved it, 0 = not known */
        uint64_t bx;
        uint64_t generation;            /* generation of the node, as the walk began */
        uint64_t space;                 /* number of the nodes' space (spaces.bpf.h) */
        struct rows_place place;
        struct rows_runs runs;
        uint32_t first;                 /* index of frame 0 */
        uint32_t n_signals;
        /* frames from frame 0 to the first that a signal interrupted; 0 = none */
        uint32_t interrupted;
        uint32_t is_sp_lost;            /* arm64: sp of the frame is not known */
        uint32_t has_searched;          /* a mapping, in the nodes */
        uint32_t is_exact;              /* the current pc was interrupted: it is not a return address */
        uint64_t leaf_value;            /* value of the register that the rule names */
        uint64_t cfa;                   /* CFA that rules_rare() has found */
        /* n_frames of the frame that general registers are of; its callers may have kept them; 0 = lost */
        uint32_t known;
        uint32_t is_strict;             /* where there is no row, rbp is no frame pointer */
        uint64_t signal_frame;          /* the registers lie there, in the kernel's frame; 0 = below */
        struct rows_place word_place;   /* mapping of the last word that was looked up */
        uint32_t n_words;               /* words of the stack that were looked at by rules_word_of() */
        uint32_t reserved;
        struct rules_probes probes;
        /* registers of frame 0, by the processor's part */
        uint64_t registers[RULES_N_REGISTERS];
};

/* Pointers of one walk: they live on the BPF stack, everything else in map values. */
struct rows_walk {
        struct unwind *unwind;
        struct rules *rules;
        uint64_t *frames;
        struct rows_cache *cache;
        const struct hotspot_process *hotspot;  /* NULL = none runs there */
        struct python *python;                  /* NULL = none runs there, or not in this thread */
        const struct v8_process *v8;            /* NULL = none runs there */
        struct runtime_states *states;
};

/* The includer defines this: as rules_step(), for a pc in the code heaps of walk->hotspot. */
static inline bool rules_hotspot(const struct rows_walk *walk);

/* The same: rules_step(), for any pc of a process that runs V8. */
static inline bool rules_v8(const struct rows_walk *walk);

/* The same: trampoline and latest call of the thread; 0 = there is none. */
static inline uint64_t rules_probe_trampoline(void);
static inline uint64_t rules_probe_first(void);
static inline bool rules_probe_read(uint64_t at, struct rules_probe *probe);
/* Where @pc, in a copy of a probed instruction, is in the program; 0 = it is in none. */
static inline uint64_t rules_probe_stepped(uint64_t pc);

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
        rules->known = first + 1;
        rules->signal_frame = 0;
        rules->probes.is_asked = 0;
        rules->probes.n = 0;
        rules->probes.n_lost = 0;
        rules->is_exact = 1;
        rules->is_sp_lost = 0;
        rules->has_searched = 0;
        rules->n_words = 0;
        rules->word_place.size = 0;
        rules->runs.last = 0;
        rules->runs.place = ROWS_RUN - 1;
}

static inline bool rules_end(struct unwind *unwind, uint32_t end) {
        unwind->end = end;
        return false;
}

/* The caller's frame is on another stack, so that nothing is below it: the walk goes on as from there. */
static inline bool rules_switch(struct unwind *unwind, struct rules *rules) {
        if (rules->n_signals >= RULES_MAX_SIGNALS)
                return rules_end(unwind, ABI_STACK_BAD_CFA);
        rules->n_signals++;
        rules->known = 0;
        unwind->sp = 0;
        return true;
}

/* The registers are those of code that a signal has interrupted. */
static inline void rules_interrupt(struct unwind *unwind, struct rules *rules) {
        rules->n_signals++;
        rules->is_exact = 1;
        rules->known = unwind->n_frames + 1;
        if (!rules->interrupted)
                rules->interrupted = unwind->n_frames - rules->first;
}

/* A walk of a copy has no code to look at; there each word that lies in code counts as a return address. */
#ifndef RULES_HAS_CODE
#define RULES_HAS_CODE true
#endif

/*
 * On arm64 a frame record may lie anywhere in its frame: nothing says where the caller's sp is, and the next
 * rule that needs it ends the walk.
 */
static inline bool rules_by_frame_pointer(struct unwind *unwind, struct rules *rules) {
        if (rules->is_strict)
                return rules_end(unwind, ABI_STACK_NO_ROWS);
        /*
         * The same bound as in unwind.bpf.h; here 0 alone can be an end, anything else means that there is no
         * frame pointer.
         */
        if (unwind->bp && unwind->bp - unwind->sp > UNWIND_MAX_JUMP)
                return rules_end(unwind, ABI_STACK_NO_ROWS);
        rules->bx = 0;                  /* unknown: no rule tells its place */
        rules->known = 0;
        rules->is_sp_lost = UNWIND_ARM64;
        return unwind_by_frame_pointer(unwind);
}

#if UNWIND_ARM64
#include "arch/rules-arm64.bpf.h"
#else
#include "arch/rules-x86_64.bpf.h"
#endif

enum rules_word {
        RULES_WORD_DATA,                /* in no mapping with code, as far as is known */
        RULES_WORD_CODE,
        RULES_WORD_RETURN,              /* code, behind a call */
};

/* Return: enum rules_word; _RETURN, which leaves a frame in doubt, once a walk has looked at too many. */
APART int rules_word_of(struct rules *rules, uint64_t word) {
        struct rows_place *place;

        if (!rules)
                return RULES_WORD_DATA;
        if (++rules->n_words > RULES_MAX_WORDS)
                return RULES_WORD_RETURN;
        place = &rules->word_place;
        if (word - place->start >= place->size &&
            rows_find_place(rules->space, rules->generation, word, place) == ABI_STACK_NO_MAPPING)
                return RULES_WORD_DATA;
        return rules_is_behind_call(word) ? RULES_WORD_RETURN : RULES_WORD_CODE;
}

/* Whether @word can be an address of code at all. */
static inline bool rules_may_be_code(uint64_t word) {
        return word - UNWIND_PAGE_SIZE < (1ull << 47) - UNWIND_PAGE_SIZE;
}

/*
 * Whether the frame at rbp is of the code at the pc: from rsp up to it no word lies behind a call, and the
 * return address in it does, unless it lies in no code that is known, or the chain of frames ends here
 * (Erlang's processes begin at no call). The frame of another function below is found so, and now and then
 * one of its own, where an earlier call has left its return address. Return: whether that is in doubt.
 */
APART int rules_doubt(struct unwind *unwind, struct rules *rules) {
        uint64_t at, word = 0, next = 0;

        if (!unwind || !rules)
                return 1;
        at = unwind->sp;
        /* What is no frame at all ends the walk. */
        if (rules->is_sp_lost || (unwind->bp & 7) || unwind->bp - at > UNWIND_MAX_JUMP)
                return 0;
        for (uint32_t i = 0; i < RULES_MAX_FRAME_WORDS && at < unwind->bp; i++) {
                if (!window_read_word(&unwind->window, at, &word))
                        return 1;
                if (rules_may_be_code(word) && rules_word_of(rules, word) == RULES_WORD_RETURN)
                        return 1;
                at += 8;
        }
        if (at < unwind->bp || rules->n_words >= RULES_MAX_WORDS ||
            !window_read_pair(&unwind->window, at, &next, &word))
                return 1;
        word = unwind_return_address(word);
        return next && rules_may_be_code(word) && rules_word_of(rules, word) == RULES_WORD_CODE &&
                !rules_by_code(word);
}

/*
 * Decides, once per pc without a row, how to go on there; the cache keeps the decision. @rule: 0 or
 * UNWIND_RULE_FP.
 */
static inline uint64_t rules_without_row(uint64_t pc, uint64_t rule) {
        uint64_t known = rules_by_code(pc);

        if (known)
                return known;
        return rule ? rule : (uint64_t)UNWIND_CFA_GAP << 48;
}

/* The rule at @pc, which lies in the walk's mapping. Return: false and `end`. */
static inline bool rules_look_up(const struct rows_walk *walk, uint64_t pc, uint64_t *rulep) {
        const struct rows_place *place = &walk->rules->place;
        uint64_t rule = UNWIND_RULE_FP, is_made = place->offset & UNWIND_MADE;

        if (place->table < UNWIND_MAX_TABLES)
                rule = rows_rule(place->table, pc - place->start + place->offset - is_made);
        else if (place->table == UNWIND_PENDING_TABLE)
                return rules_end(walk->unwind, ABI_STACK_PENDING);
        else if (place->table == UNWIND_LOST_TABLE)
                rule = 0;
        if (rule == ROWS_NO_TABLE)
                return rules_end(walk->unwind, ABI_STACK_INTERNAL);
        /* no row: of made code, whatever has rows around it */
        if (is_made && (!rule || rule == UNWIND_RULE_FP))
                rule = UNWIND_RULE_FP | UNWIND_MADE;
        *rulep = !rule || (rule | UNWIND_MADE) == (UNWIND_RULE_FP | UNWIND_MADE)
                ? rules_without_row(walk->unwind->pc, rule)
                : rule;
        return true;
}

/*
 * The rule for @pc, by way of the cache. Inlined by force, as rules_apply() is: with two callers clang makes
 * functions of both, and each frame of any walk costs 10 ns more. Return: false and `end`.
 */
static __always_inline bool rules_find(const struct rows_walk *walk, uint64_t pc, uint64_t *rulep) {
        struct rules *rules = walk->rules;
        uint64_t tag = pc ^ rules->generation * ROWS_TAG_FACTOR, rule = 0;
        struct rows_cache_entry *run = rows_run_at(walk->cache, pc, &rules->runs), *entry;

        if (run->tag == tag) {
                *rulep = run->rule;
                return true;
        }
        entry = rows_cache_find(walk->cache, pc, tag);
        if (entry->tag == tag) {
                *run = *entry;
                *rulep = entry->rule;
                return true;
        }
        PART(FRAMES);
        if (pc - rules->place.start >= rules->place.size) {
                uint32_t end = rows_find_place(rules->space, rules->generation, pc, &rules->place);

                rules->has_searched = 1;
                PART(PLACE);
                if (end)
                        return rules_end(walk->unwind, end);
        }
        if (!rules_look_up(walk, pc, &rule))
                return false;
        PART(RULE);
        entry->tag = tag;
        entry->rule = rule;
        *run = *entry;
        *rulep = rule;
        return true;
}

/* Finds the latest call that began at @low or above. */
static inline bool rules_find_probe(struct rules_probes *probes, uint64_t low, struct rules_probe *probe) {
        for (uint32_t i = 0; i < RULES_MAX_PROBES; i++) {
                if (!probes->next || !rules_probe_read(probes->next, probe))
                        return false;
                if (probe->stack >= low)
                        return true;
                probes->next = probe->next;
        }
        return false;
}

/* The thread executes the copy of a probed instruction: it is where that one is. */
static inline int rules_probe_step(struct unwind *unwind, struct rules *rules) {
        uint64_t pc = rules_probe_stepped(unwind->pc);

        if (!pc || rules->probes.n >= RULES_MAX_PROBES) {
                rules->probes.n_lost++;
                return 0;
        }
        rules->probes.n++;
        unwind->pc = pc;
        rules->is_exact = 1;
        return 1;
}

/*
 * Goes on from the trampoline of a return probe, or from the copy of an instruction. @is_exact: code of that
 * page was interrupted; that of the trampoline means that the function has returned. Return: 1 = the frame is
 * its caller's; 0 = it is none.
 */
APART int rules_return_probe(struct unwind *unwind, struct rules *rules, uint32_t is_exact) {
        uint64_t slack = is_exact ? RULES_PROBE_PUSHED : 0, low;
        struct rules_probe probe;
        struct rules_probes *probes;

        if (!unwind || !rules)
                return 0;
        probes = &rules->probes;
        if (!probes->is_asked) {
                probes->trampoline = rules_probe_trampoline();
                probes->next = probes->trampoline ? rules_probe_first() : 0;
                probes->is_asked = 1;
        }
        if (!probes->trampoline || unwind->pc - probes->trampoline >= (is_exact ? RULES_PROBE_PAGE : 1))
                return 0;
        if (unwind->pc - probes->trampoline >= RULES_PROBE_CODE)
                return rules_probe_step(unwind, rules);
        low = unwind->sp - RULES_PROBE_BELOW;
        if (probes->n >= RULES_MAX_PROBES || !rules_find_probe(probes, low, &probe) ||
            (!rules->is_sp_lost && probe.stack - low > slack)) {
                probes->n_lost++;
                return 0;
        }
        probes->n++;
        unwind->pc = probe.address;
        if (!rules->is_sp_lost)
                unwind->sp = probe.stack + RULES_PROBE_BELOW;
        rules->is_exact = is_exact;
        return 1;
}

/* As rules_step(), for a process without a runtime. */
static inline bool rules_native_step(const struct rows_walk *walk) {
        struct unwind *unwind = walk->unwind;
        struct rules *rules = walk->rules;
        uint32_t n = unwind->n_frames;
        uint64_t rule, pc = unwind->pc, doubt = 0;

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
                if (unwind->end != ABI_STACK_NO_MAPPING)
                        return false;
                /* A word that lies in no mapping was no return address, or that of a return probe. */
                if (rules_return_probe(unwind, rules, pc == unwind->pc)) {
                        unwind->n_frames = n;
                        return true;
                }
                if (n > rules->first)
                        unwind->n_frames = n;
                return false;
        }
        if (rule == (UNWIND_RULE_FP | UNWIND_MADE) && !rules->is_strict) {
                doubt = rules_doubt(unwind, rules) ? ABI_FRAME_UNPROVED : 0;
                /* Interrupted by a signal: nothing tells whether the frame is gone already. */
                if (doubt && n > rules->first && pc == unwind->pc)
                        return rules_end(unwind, ABI_STACK_UNPROVED);
        }
        /* The function itself stands there already, by Python's own word; as the leaf it has returned. */
        if (rule == RULES_TRAMPOLINE_RULE && walk->python && n > rules->first)
                unwind->n_frames = n;
        if (!rules_apply(unwind, rules, rule))
                return false;
        walk->frames[n] |= doubt;
        return true;
}

/* Writes one frame and goes to its caller. Return: false when the walk is over. */
static inline bool rules_step(const struct rows_walk *walk) {
        if (walk->hotspot && walk->unwind->pc - walk->hotspot->low < walk->hotspot->size)
                return rules_hotspot(walk);
        if (walk->v8)
                return rules_v8(walk);
        return rules_native_step(walk);
}
