/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * Erlang
 *
 * Code of the JIT (BeamAsm) runs on the stack of a process of Erlang, which lies in that process' heap; C
 * code runs on the scheduler's. So the walk by rows ends where C code returns to the JIT, and goes on
 * elsewhere:
 *
 *     rows         erts_garbage_collect ─▶ pc in the JIT's code, at the fixed place of the scheduler's stack
 *     this file    ─▶ where the process' stack is ─▶ lists:sort/2 ─▶ busy:leaf/1 ─▶ … ─▶ bottom
 *
 * Where the stack is, the code behind the call says, as it has to go back there: `mov %rbp,%rsp`, or `mov
 * stop(%r13),%rsp`. In the latter case rbp is an old one, which may look right.
 *
 * A word of that stack whose low two bits are 00 is a return address; all others are tagged terms. Its
 * outermost one, `bottom`, is code of no module, the same for all processes. A walk that meets it is whole.
 * Any other one outside of all modules is none that is known here, and ends the walk.
 * Room for variables of a function is made at once, `sub $24,%rsp`, and written later. Until then words of
 * dead frames are there, return addresses among them. So what a leaf has made last is skipped: a variable
 * never holds a return address.
 * Most of C is called by fragments, code of the JIT that is of no module, too. These are called with any
 * address: their caller is the first of three words that lies in a module, whatever its low bits. Where none
 * of the three does, functions behind them may not be its callers, and are left out.
 *
 * One of them asks for the next process to run, and has it behind that call: `mov %rax,%r13`. What C does
 * there, as the signals of a process, is for the one that the scheduler has then. That one waits: the
 * function where it goes on is none that has called, and stands in no word of its stack.
 * Just after a process has ended, the scheduler has that one still, whose stack is free. No word that is
 * known says so: another scheduler that has got that memory may have put a stack of its process there.
 *
 * Long work, of NIFs and of the collector, is done by dirty schedulers. Their threads never run code of the
 * JIT, and the process of Erlang keeps its stack where it was left. So where the native stack of such a
 * thread is whole, that of its process follows. Its innermost function may have no return address there: a
 * function that was called while a collection was due has gone no further than its beginning. It is where the
 * process goes on.
 *
 * Frames are told as pc and cookie; names are the daemon's. So is which process of Erlang runs: its pid, and
 * the atom that it is registered as, else the function that it began with. Includes nothing, as python.bpf.h.
 * x86-64 alone.
 */

enum {
        BEAM_WINDOW = 32,               /* words of a stack that are read at once */
        BEAM_STEP_WORDS = 4,            /* words that are looked at in one step */
        BEAM_MAX_STEPS = 512,
        BEAM_CODE = 96,                 /* bytes of code that say where the stack is: behind a call, or in
                                         * front of a leaf's pc */
        BEAM_LOOSE_WORDS = 3,           /* words in which a fragment's caller is looked for */
        BEAM_REGISTER_PROCESS = 13,
        BEAM_REGISTER_HEAP = 15,        /* top of the heap, which grows towards the stack */
        BEAM_MAX_FRAGMENTS = 64 << 10,  /* bytes of fragments, which lie in front of the first module */
        BEAM_MAX_VARIABLES = 8 << 10,   /* bytes of variables of a function */
        BEAM_PAGE = 4096,
        BEAM_REGISTERED_NAME = 32,      /* in an entry of the names of processes */
        BEAM_SCHEDULER_THREAD = 32,     /* in a scheduler: its thread */
        BEAM_TASK_UNKNOWN = 1,          /* in place of the bytes of what tells it; no record has it */
        BEAM_TERM_ATOM_BITS = 6,        /* low bits of a term that is an atom */
        BEAM_TERM_IS_ATOM = 0x0b,
};

/* Outcomes of a walk over a stack of Erlang. */
enum beam_end {
        BEAM_END_WHOLE,
        BEAM_END_CUT,                   /* too many frames or words, or what is no code or memory */
        BEAM_END_LOST,                  /* no word says where the stack is, or who has called a fragment */
};

/* What code of the JIT does to rsp behind a call of C. */
enum beam_way {
        BEAM_WAY_NEITHER,
        BEAM_WAY_RBP,                   /* it has it from rbp */
        BEAM_WAY_STOP,                  /* it has it from the process */
        BEAM_WAY_UNREAD,                /* the code cannot be read */
};

struct beam {
        uint64_t at;                    /* address of the next word of the stack */
        uint32_t next, n;               /* in `words`: the next one, and how many there are */
        uint32_t loose;                 /* words that may be a fragment's caller; 0 = no more */
        uint32_t end;                   /* enum beam_end */
        uint64_t low, high;             /* all modules lie there */
        uint64_t current;               /* the process whose stack is walked; 0 = none is */
        uint64_t task;                  /* what tells it; 0 = not known */
        uint64_t pid;                   /* behind it: its pid, as a term */
        bool is_dirty;                  /* the thread is a dirty scheduler's */
        uint64_t initial[3];
        uint64_t code_before[BEAM_COOKIE_BYTES / 8];
        uint64_t words[BEAM_WINDOW];
        uint8_t code[BEAM_CODE + 8];
};

static inline bool beam_read(uint64_t address, uint64_t *word) {
        return !bpf_probe_read_user(word, sizeof(*word), (const void *)address);
}

static inline bool beam_is_fragment(const struct beam_process *process, uint64_t pc) {
        return process->modules - 1 - pc < BEAM_MAX_FRAGMENTS;
}

static inline bool beam_is_module(const struct beam *beam, const struct beam_process *process, uint64_t pc) {
        return pc >= beam->low && pc < beam->high && !beam_is_fragment(process, pc);
}

static inline bool beam_stop(struct beam *beam, uint32_t end) {
        beam->end = end;
        return false;
}

/* Writes a frame of code at @pc, which may be 0. Return: whether there was room. */
static inline bool beam_add(struct beam *beam, struct unwind *unwind, uint64_t *frames, uint64_t pc,
                            uint32_t exact) {
        uint32_t n = unwind->n_frames;
        uint64_t cookie = 0;

        if (pc >> 48 || (pc && bpf_probe_read_user(beam->code_before, BEAM_COOKIE_BYTES,
                                                   (const void *)(pc - BEAM_COOKIE_BYTES))))
                return beam_stop(beam, BEAM_END_CUT);
        if (pc)
                cookie = beam_cookie(beam->code_before[0], beam->code_before[1]);
        if (n >= unwind->limit || n > UNWIND_MAX_FRAMES - RUNTIME_PYTHON_WORDS) {
                unwind->end = ABI_STACK_DEPTH;
                return beam_stop(beam, BEAM_END_CUT);
        }
        barrier_var(n);
        if (n > UNWIND_MAX_FRAMES - RUNTIME_PYTHON_WORDS)
                return false;
        frames[n] = (uint64_t)RUNTIME_BEAM << RUNTIME_KIND_SHIFT | pc;
        frames[n + 1] = cookie << 32 | exact;
        unwind->n_frames = n + RUNTIME_PYTHON_WORDS;
        unwind->limit += RUNTIME_PYTHON_WORDS - 1;
        return true;
}

/* Reads the next words, up to the end of their page. Return: whether there are some. */
static inline bool beam_fill(struct beam *beam) {
        uint64_t n = (BEAM_PAGE - (beam->at & (BEAM_PAGE - 1))) / 8;

        if (n > BEAM_WINDOW)
                n = BEAM_WINDOW;
        barrier_var(n);
        n &= 2 * BEAM_WINDOW - 1;
        if (!n || n > BEAM_WINDOW || bpf_probe_read_user(beam->words, n * 8, (const void *)beam->at))
                return false;
        beam->at += n * 8;
        beam->next = 0;
        beam->n = (uint32_t)n;
        return true;
}

/* A word that may be the caller of a fragment. Return: whether there is more to do. */
static inline bool beam_take_loose(struct beam *beam, const struct beam_process *process,
                                   struct unwind *unwind, uint64_t *frames, uint64_t word) {
        beam->loose--;
        if (word != process->bottom && beam_is_module(beam, process, word)) {
                beam->loose = 0;
                return beam_add(beam, unwind, frames, word, 0);
        }
        if (word == process->bottom || !beam->loose)
                return beam_stop(beam, BEAM_END_LOST);
        return true;
}

/* Looks at one word of the stack. Return: whether there is more to do. */
static inline bool beam_take(struct beam *beam, const struct beam_process *process, struct unwind *unwind,
                             uint64_t *frames) {
        uint32_t next = beam->next;
        uint64_t word;

        if (next >= beam->n) {
                if (!beam_fill(beam))
                        return beam_stop(beam, BEAM_END_CUT);
                next = 0;
        }
        barrier_var(next);
        next &= BEAM_WINDOW - 1;
        word = beam->words[next];
        beam->next = next + 1;
        if (beam->loose)
                return beam_take_loose(beam, process, unwind, frames, word);
        if (word == process->bottom) {
                unwind->end = ABI_STACK_COMPLETE;
                return beam_stop(beam, BEAM_END_WHOLE);
        }
        /* Code that traces calls and returns is no function's; 0 is no term. */
        if (!word || (word & 3) || beam_is_fragment(process, word))
                return true;
        if (!beam_is_module(beam, process, word))
                return beam_stop(beam, BEAM_END_CUT);
        return beam_add(beam, unwind, frames, word, 0);
}

/* What the code at @pc does to rsp first. Return: enum beam_way. */
static inline uint32_t beam_look(struct beam *beam, const struct beam_process *process, uint64_t pc) {
        if (bpf_probe_read_user(beam->code, BEAM_CODE, (const void *)pc))
                return BEAM_WAY_UNREAD;
        for (uint32_t i = 0; i < BEAM_CODE - 4; i++) {
                const uint8_t *code = beam->code + i;

                if (code[0] == 0x48 && code[1] == 0x89 && code[2] == 0xec)
                        return BEAM_WAY_RBP;
                if (code[0] == 0x49 && code[1] == 0x8b && code[2] == 0x65 && code[3] == process->stop)
                        return BEAM_WAY_STOP;
        }
        return BEAM_WAY_NEITHER;
}

/* Whether what the code that was looked at has called is what gives it the next process: mov %rax,%r13. */
static inline bool beam_is_switch(const struct beam *beam) {
        return beam->code[0] == 0x49 && beam->code[1] == 0x89 && beam->code[2] == 0xc5;
}

/* 1 if these bits of @word are @expected, else 0. */
static inline uint64_t beam_is(uint64_t word, uint64_t bits, uint64_t expected) {
        return unwind_is_same(word & bits, expected);
}

/* Whether bytes of code begin with what gives up a frame, or goes elsewhere: add, call, jump, return. */
static inline uint64_t beam_is_end(uint64_t word) {
        return beam_is(word, 0xffffff, 0xc48348) | beam_is(word, 0xffffff, 0xc48148) |
                beam_is(word, 0xff, 0xe8) | beam_is(word, 0xff, 0xe9) | beam_is(word, 0xff, 0xeb) |
                beam_is(word, 0xff, 0xc3);
}

/* Bytes at the top of the stack that code in front of @pc, a leaf's, has made room for: 0 = it has not. */
static inline uint64_t beam_made(struct beam *beam, uint64_t pc) {
        uint64_t word = 0, made = 0;

        if (bpf_probe_read_user(beam->code, BEAM_CODE, (const void *)(pc - BEAM_CODE)))
                return 0;
        for (uint32_t i = 0; i < BEAM_CODE + 7; i++) {
                uint64_t byte, by_byte, by_word, new;

                byte = i < BEAM_CODE ? beam->code[i] : 0;
                word = word >> 8 | byte << 56;
                by_byte = beam_is(word, 0xffffff, 0xec8348);
                by_word = beam_is(word, 0xffffff, 0xec8148);
                new = by_byte * (word >> 24 & 0x7f) | by_word * (word >> 24 & 0xffffffff);
                made = new | made * (1 - (by_byte | by_word | beam_is_end(word)));
        }
        return made < BEAM_MAX_VARIABLES && !(made & 7) ? made : 0;
}

/* Address of the process that the scheduler runs whose C code is called from @sp; false = no scheduler's. */
static inline bool beam_current(const struct beam_process *process, uint64_t sp, uint64_t *currentp) {
        for (uint32_t i = 0; i < BEAM_MAX_SCHEDULERS; i++)
                if (sp && process->registers[i] == sp)
                        return beam_read(process->schedulers + (uint64_t)i * process->scheduler_size +
                                                 process->current,
                                         currentp);
        return false;
}

/* Whether the thread with @pointer is a dirty scheduler's; *currentp: the process that it runs, 0 = none. */
static inline bool beam_find_dirty(const struct beam_process *process, uint64_t pointer, uint64_t *currentp) {
        uint64_t bits = beam_dirty_bits(pointer);

        for (uint32_t i = 0; i < BEAM_MAX_SCHEDULERS; i++) {
                uint64_t entry = process->registers[i], address, thread = 0;

                if (i < process->n_schedulers || (entry & ((1u << BEAM_DIRTY_BITS) - 1)) != bits)
                        continue;
                address = (entry >> BEAM_DIRTY_BITS) * BEAM_SCHEDULER_ALIGN;
                if (address && beam_read(address + BEAM_SCHEDULER_THREAD, &thread) && thread == pointer)
                        return beam_read(address + process->current, currentp);
        }
        return false;
}

/* Where modules lie, by the first and last range of the table in force. Return: whether it could be read. */
static inline bool beam_find_modules(struct beam *beam, const struct beam_process *process) {
        uint64_t active = 0, first = 0, n = 0;

        return beam_read(process->active, &active) &&
                beam_read(process->ranges + (active & 0xffffffff) % 3 * 32, &first) &&
                beam_read(process->ranges + (active & 0xffffffff) % 3 * 32 + 8, &n) && n &&
                beam_read(first, &beam->low) && beam_read(first + n * 16 - 8, &beam->high);
}

/*
 * Where the stack of Erlang is, as code of the JIT at unwind->pc was interrupted, or is returned to.
 * *currentp: the process; 0 = the scheduler runs none. Return: 0 = it is not known, or there is none.
 */
static inline uint64_t beam_stack(struct beam *beam, const struct beam_process *process,
                                  const struct unwind *unwind, const struct rules *rules, bool is_leaf,
                                  uint64_t *currentp) {
        uint64_t end = 0, stop = 0;
        uint32_t way;

        if (is_leaf) {
                *currentp = rules->registers[BEAM_REGISTER_PROCESS];
                if (*currentp && beam_read(*currentp + process->end, &end) &&
                    unwind->sp >= rules->registers[BEAM_REGISTER_HEAP] && unwind->sp < end)
                        return unwind->sp;
        } else if (!beam_current(process, unwind->sp, currentp)) {
                *currentp = 1;
                return 0;
        }
        if (!*currentp)
                return 0;
        way = beam_look(beam, process, unwind->pc);
        if (way == BEAM_WAY_RBP)
                return unwind->bp;
        if (way == BEAM_WAY_UNREAD || (way == BEAM_WAY_NEITHER && is_leaf))
                return 0;
        return beam_read(*currentp + process->stop, &stop) ? stop : 0;
}

static inline bool beam_is_atom(uint64_t term) {
        return (term & ((1 << BEAM_TERM_ATOM_BITS) - 1)) == BEAM_TERM_IS_ATOM &&
                !(term >> (BEAM_TERM_ATOM_BITS + BEAM_ATOM_BITS));
}

/* Reads what tells the process whose stack was walked to beam->task. Return: whether it is known. */
static inline bool beam_find_task(struct beam *beam, const struct beam_process *process) {
        uint64_t entry = 0, name = 0, *initial = beam->initial;

        beam->task = beam->pid = 0;
        if (!beam->current || !beam_read(beam->current, &beam->pid) ||
            !beam_read(beam->current + process->registered, &entry))
                return false;
        if (entry && beam_read(entry + BEAM_REGISTERED_NAME, &name) && beam_is_atom(name))
                beam->task = BEAM_TASK_REGISTERED | name >> BEAM_TERM_ATOM_BITS;
        else if (!entry && !bpf_probe_read_user(initial, sizeof(beam->initial),
                                                (const void *)(beam->current + process->initial)) &&
                 beam_is_atom(initial[0]) && beam_is_atom(initial[1]))
                beam->task = initial[0] >> BEAM_TERM_ATOM_BITS << BEAM_TASK_MODULE_SHIFT |
                        initial[1] >> BEAM_TERM_ATOM_BITS << BEAM_TASK_FUNCTION_SHIFT | (initial[2] & 0xff);
        return beam->task;
}

/* There is no room for a frame of Erlang in place of the native one, or no code: that one stays. */
static inline bool beam_keep(struct unwind *unwind) {
        unwind->n_frames++;
        return false;
}

/*
 * Goes on with a process that was left: behind the native stack of a dirty scheduler, which is whole, or of
 * one between two processes. Return: as beam_begin().
 */
static inline bool beam_begin_left(struct beam *beam, const struct beam_process *process,
                                    struct unwind *unwind, uint64_t *frames) {
        uint64_t stack = 0, pc = 0;

        if (beam->current) {
                unwind->end = ABI_STACK_RUNTIME;
                if (!beam_read(beam->current + process->pc, &pc) ||
                    !beam_read(beam->current + process->stop, &stack) || !stack || (stack & 7))
                        return beam_stop(beam, BEAM_END_LOST);
                if (!beam_is_module(beam, process, pc))
                        pc = 0;         /* code that calls a NIF is of none */
        }
        if ((pc || !beam->current) && !beam_add(beam, unwind, frames, pc, pc != 0))
                return false;
        if (!beam->current)
                return beam_stop(beam, BEAM_END_WHOLE);
        beam->at = stack;
        beam->next = beam->n = beam->loose = 0;
        beam->end = BEAM_END_CUT;       /* until the bottom is met */
        return true;
}

/*
 * Goes on where beam_is_met(). The walk by rows has written the code of the JIT that it has met as a native
 * frame. Return: whether there are words to look at, by beam_take().
 */
static inline bool beam_begin(struct beam *beam, const struct beam_process *process, struct unwind *unwind,
                              const struct rules *rules, uint64_t *frames) {
        bool is_leaf = unwind->n_frames == rules->first + 1;
        uint64_t pc = unwind->pc, current = 1, stack;
        bool is_fragment = beam_is_fragment(process, pc);

        if (beam->is_dirty)
                return beam_begin_left(beam, process, unwind, frames);
        stack = beam_stack(beam, process, unwind, rules, is_leaf, &current);
        beam->end = BEAM_END_LOST;
        beam->current = 0;
        unwind->n_frames--;
        if (!current) {
                if (!beam_add(beam, unwind, frames, 0, 0))
                        return beam_keep(unwind);
                unwind->end = ABI_STACK_COMPLETE;
                return beam_stop(beam, BEAM_END_WHOLE);
        }
        if (!is_leaf && is_fragment && stack && beam_is_switch(beam)) {
                beam->current = current;
                return beam_begin_left(beam, process, unwind, frames);
        }
        /* A fragment in between is no one's function; as the leaf it is what runs. */
        if ((is_leaf || !is_fragment || !stack) && !beam_add(beam, unwind, frames, pc, is_leaf))
                return beam_keep(unwind);
        if (!stack || (stack & 7)) {
                unwind->end = ABI_STACK_RUNTIME;
                return beam_stop(beam, BEAM_END_LOST);
        }
        beam->current = current;
        beam->at = stack;
        if (is_leaf && !is_fragment && stack == unwind->sp)
                beam->at += beam_made(beam, pc);
        beam->next = beam->n = 0;
        beam->loose = is_fragment ? BEAM_LOOSE_WORDS : 0;
        unwind->end = ABI_STACK_RUNTIME;
        beam->end = BEAM_END_CUT;       /* until the bottom is met */
        return true;
}

/*
 * Whether the walk by rows has ended in code of the JIT, where rbp may be anything, also 0, or is that of a
 * dirty scheduler. @pointer: the thread's, 0 = not known.
 */
static inline bool beam_is_met(struct beam *beam, const struct beam_process *process,
                               const struct unwind *unwind, const struct rules *rules, uint64_t pointer) {
        uint64_t pc = unwind->pc;

        if (UNWIND_ARM64 || unwind->n_frames <= rules->first)
                return false;
        beam->is_dirty = unwind->end == ABI_STACK_COMPLETE;
        beam->end = BEAM_END_LOST;
        if (beam->is_dirty)
                return pointer && beam_find_dirty(process, pointer, &beam->current) &&
                        beam_find_modules(beam, process);
        return (unwind->end == ABI_STACK_NO_ROWS || unwind->end == ABI_STACK_FP_END) &&
                beam_find_modules(beam, process) &&
                ((pc >= beam->low && pc < beam->high) || beam_is_fragment(process, pc));
}
