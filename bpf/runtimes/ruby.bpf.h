/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * Ruby
 *
 * Ruby runs its code in vm_exec(), one run of it for all methods and blocks that call each other without C
 * between them. Each thread, and each fiber, has an execution context with frames of its own, side by side in
 * one array, from the innermost one on. The outermost frame of each run is marked (FINISH):
 *
 *     context ─▶ | block [FINISH] | each | top | main [FINISH] | end |
 *
 *     native       vm_exec()  rb_ary_each()    vm_exec()         main()
 *
 * So frames take the places of native ones by the rules of PHP's (php.bpf.h): runs and native frames of the
 * evaluator are counted, and the walk is made again while a run begins or ends. C functions that Ruby calls
 * have frames in both: their code, and behind it their name. What vm_exec() calls first, vm_exec_core(), runs
 * the instructions: its native frame is left out, too.
 *
 * A fiber, or a thread, may begin with methods of C that no run has called. No mark follows them, so they are
 * put behind all native frames.
 *
 * A thread's context is where a variable of its own points to. While another fiber is gone to, that is
 * already the other one's: then the stack pointer does not lie in the native stack that the context is of,
 * and there are no frames of Ruby. Before 3.0 one variable points to the context of the thread that has the
 * lock: all others have no frames of Ruby meanwhile.
 *
 * From 3.2 on a class has its name, so a frame has the class of its method.
 *
 * Code of a JIT does not store where it is. Then the innermost frame has no position; callers have theirs,
 * since a call stores it.
 *
 * While the collector of garbage runs, the chain begins with a frame that says so. A flag of the whole heap
 * tells it. It is the collector of the thread that took the lock last: a ractor has that one's context.
 * Others wait meanwhile, or run C code without the lock.
 *
 * Includes nothing, as python.bpf.h, behind which it is included.
 */

enum {
        /* in python->frame_bytes, behind a frame, in words: its flags, and what is in front of them; */
        RUBY_AT_ENVIRONMENT = 8,
        RUBY_AT_OUTER = 12,             /* the same of its method */
        RUBY_AT_WORD = 16,              /* a word that is read */
        RUBY_AT_CLASS = 16,             /* in python->code_bytes: words of a class */
};

static inline uint64_t ruby_word(uint64_t kind, uint64_t what) {
        return (uint64_t)RUNTIME_RUBY << RUNTIME_KIND_SHIFT | kind << RUBY_KIND_SHIFT | what;
}

/* Adds a frame of a method that @class has; 0 = that is not known. */
static inline void ruby_add(struct python *python, uint64_t kind, uint64_t what, uint64_t second,
                            uint64_t class) {
        uint32_t n = python->n;

        python->n_frames++;
        python_add(python, ruby_word(kind, what), second);
        barrier_var(n);
        if (n < PYTHON_MAX_CHAIN)
                python->thirds[n] = class;
}

/* ---- classes ---- */

/* The third word of a frame; 0 = @class is none. */
static inline uint64_t ruby_class_word(struct python *python, const struct ruby_process *process,
                                       uint64_t class) {
        uint64_t *words = (uint64_t *)python->code_bytes + RUBY_AT_CLASS;

        if (!class || (class & 7) || class >> RUBY_CLASS_SHIFT ||
            bpf_probe_read_user(words, RUBY_CLASS_WORDS * 8, (const void *)(class + process->class)))
                return 0;
        return ruby_class_cookie(words) << RUBY_CLASS_SHIFT | class;
}

static inline uint32_t ruby_entry_type(const uint64_t *entry) {
        return entry[RUBY_ENTRY_FLAGS] >> 12 & 15;
}

/* Reads the words at @entry into python->code_bytes. Return: whether they are a method's. */
static inline bool ruby_read_entry(struct python *python, uint64_t entry) {
        const uint64_t *words = (const uint64_t *)python->code_bytes;

        return !(entry & 7) &&
                !bpf_probe_read_user(python->code_bytes, RUBY_ENTRY_WORDS * 8, (const void *)entry) &&
                (ruby_entry_type(words) == RUBY_ENTRY_TYPE || ruby_entry_type(words) == RUBY_ENTRY_VARIABLES);
}

/*
 * The class of the method that code of Ruby is of. A block's is that of the method around it, whose
 * environment is the outermost one. Code of a file, or of a class, has none.
 */
static inline uint64_t ruby_class_of(struct python *python, const struct ruby_process *process) {
        const uint64_t *words = (const uint64_t *)python->code_bytes;
        uint64_t *local = (uint64_t *)python->frame_bytes + RUBY_AT_ENVIRONMENT;
        uint64_t outer;

        if (!process->class)
                return 0;
        for (uint32_t i = 0; i < RUBY_MAX_BLOCKS && !(local[2] & RUBY_FLAG_LOCAL); i++) {
                outer = (local[1] & ~3ull) - 16;
                local = (uint64_t *)python->frame_bytes + RUBY_AT_OUTER;
                if (bpf_probe_read_user(local, 24, (const void *)outer))
                        return 0;
        }
        if (!(local[2] & RUBY_FLAG_LOCAL) || !ruby_read_entry(python, local[0]))
                return 0;
        if (ruby_entry_type(words) == RUBY_ENTRY_VARIABLES &&
            (!ruby_read_entry(python, words[RUBY_ENTRY_OTHER]) || ruby_entry_type(words) != RUBY_ENTRY_TYPE))
                return 0;
        return ruby_class_word(python, process, words[RUBY_ENTRY_OWNER]);
}

/* ---- frames ---- */

/* Takes a frame of Ruby's own code, at @pc. Return: whether there is such code. */
static inline bool ruby_take_code(struct python *python, const struct ruby_process *process, uint64_t pc,
                                  uint64_t code) {
        const uint64_t *words = (const uint64_t *)python->code_bytes;
        uint64_t body, position, *word = (uint64_t *)python->frame_bytes + RUBY_AT_WORD;

        if ((code & 7) || !python_read(code + RUBY_CODE_BODY, word))
                return false;
        body = *word;
        if ((body & 7) || body >> RUBY_KIND_SHIFT ||
            bpf_probe_read_user(python->code_bytes, RUBY_BODY_WORDS * 8, (const void *)body))
                return false;
        position = pc - words[RUBY_BODY_CODE];
        if ((position & 7) || position >> 3 > words[RUBY_BODY_SIZE] >> 32)
                return false;
        position >>= 3;
        if (!python->has_leaf && (!python_read(body + process->compiled, word) || *word >> 12))
                position = PYTHON_NO_POSITION;
        position |= (uint64_t)ruby_cookie(words) << 32;
        ruby_add(python, RUBY_FRAME_METHOD, body, position, ruby_class_of(python, process));
        return true;
}

/* Takes a frame of a method that is written in C. Return: whether there is one. */
static inline bool ruby_take_c(struct python *python, const struct ruby_process *process, uint64_t entry) {
        const uint64_t *words = (const uint64_t *)python->code_bytes;
        uint64_t *id = (uint64_t *)python->frame_bytes + RUBY_AT_WORD;

        if (!ruby_read_entry(python, entry) || ruby_entry_type(words) != RUBY_ENTRY_TYPE ||
            !python_read(words[RUBY_ENTRY_DEFINITION] + RUBY_DEFINITION_ID, id) || !*id ||
            *id >> RUBY_KIND_SHIFT)
                return false;
        ruby_add(python, RUBY_FRAME_C, *id, 0,
                 process->class ? ruby_class_word(python, process, words[RUBY_ENTRY_OWNER]) : 0);
        return true;
}

static inline bool ruby_is_code(uint32_t kind) {
        return kind == RUBY_KIND_METHOD || kind == RUBY_KIND_BLOCK || kind == RUBY_KIND_CLASS ||
                kind == RUBY_KIND_TOP || kind == RUBY_KIND_EVAL || kind == RUBY_KIND_RESCUE;
}

/* Takes a frame whose words were read. Return: whether it is one that is known. */
static inline bool ruby_take(struct python *python, const struct ruby_process *process, uint32_t kind) {
        const uint64_t *frame = (const uint64_t *)python->frame_bytes;

        if (kind == RUBY_KIND_C)
                return ruby_take_c(python, process, frame[RUBY_AT_ENVIRONMENT]);
        /* a dummy inside of the stack: a call with wrong arguments has one while the error is made */
        if (kind == RUBY_KIND_C_BLOCK || kind == RUBY_KIND_DUMMY)
                return true;
        if (!ruby_is_code(kind))
                return false;
        /* code that is being made has no place yet, and Ruby does not name it either */
        return !frame[RUBY_FRAME_PC] ||
                ruby_take_code(python, process, frame[RUBY_FRAME_PC], frame[RUBY_FRAME_CODE]);
}

/* Copies one frame of the chain. Return: whether there is another one. */
static inline bool ruby_chain_step(struct python *python, const struct ruby_process *process) {
        uint64_t *frame = (uint64_t *)python->frame_bytes, at = python->frame, flags;
        const uint64_t both = RUBY_FLAG_RUN | RUBY_FLAG_C;
        uint32_t kind;

        if (python_is_full(python) || at >= python->native ||
            bpf_probe_read_user(python->frame_bytes, RUBY_FRAME_WORDS * 8, (const void *)at) ||
            bpf_probe_read_user(frame + RUBY_AT_ENVIRONMENT, 24,
                                (const void *)(frame[RUBY_FRAME_ENVIRONMENT] - 16)))
                return false;
        flags = frame[RUBY_AT_ENVIRONMENT + 2];
        python->frame = at + process->frame_size;
        kind = (uint32_t)flags & RUBY_KIND_MASK;
        if (kind == RUBY_KIND_DUMMY && (flags & both) == both) {
                python->is_cut = python->frame != python->native;
                /* a collector that no method has called for has no place */
                if (python->n == 1 && python->entries[0].first == ruby_word(RUBY_FRAME_COLLECTOR, 0))
                        python->n = python->n_frames = 0;
                /* methods of C that no run has called: a fiber of an Enumerator begins with them */
                python->is_resumed = python->last_mark != python->n;
                return false;
        }
        if (!ruby_take(python, process, kind))
                return false;
        python->has_leaf = 1;
        if ((flags & both) == RUBY_FLAG_RUN) {
                python->n_runs++;
                python_add_mark(python, PYTHON_MARK_EVALUATOR);
        }
        return true;
}

/* Whether the collector runs in the thread of the context that was read. */
static inline bool ruby_collects(const struct python *python, const struct ruby_process *process) {
        uint64_t at = 0, thread;
        uint8_t flags = 0;

        thread = python_word(python->code_bytes, process->thread, PYTHON_MAX_CODE - 1);
        return python_read(process->machine, &at) && python_read(at + process->space, &at) &&
                !bpf_probe_read_user(&flags, 1, (const void *)(at + process->space_flags)) &&
                (flags & process->collects) &&
                (!process->ractor ||
                 (python_read(thread + process->ractor, &at) && python_read(at + process->running, &at) &&
                  at == python->found));
}

/* As below, before 3.0: there is one context for all threads. It is that of the thread with the lock. */
static inline bool ruby_read_only_context(struct python *python, const struct ruby_process *process,
                                          uint64_t pointer) {
        uint64_t thread, owner = 0;

        if (!python_read(process->variable, &python->found) || !python->found ||
            bpf_probe_read_user(python->code_bytes, RUBY_CONTEXT_SIZE, (const void *)python->found))
                return false;
        thread = python_word(python->code_bytes, process->thread, PYTHON_MAX_CODE - 1);
        return python_read(thread + process->owner, &owner) && owner == pointer;
}

/* Reads python->found, the context of the thread with this thread pointer. Return: whether it has one. */
static inline bool ruby_read_context(struct python *python, const struct ruby_process *process,
                                     uint64_t pointer) {
        uint64_t variable[2], block = 0;

        python->found = 0;
        if (process->owner)
                return ruby_read_only_context(python, process, pointer);
        return !bpf_probe_read_user(variable, sizeof(variable), (const void *)process->variable) &&
                variable[0] - 1 < RUBY_MAX_MODULES && python_read(pointer + 8, &block) &&
                python_read(block + 16 * variable[0], &block) &&
                python_read(block + variable[1], &python->found) && python->found &&
                !bpf_probe_read_user(python->code_bytes, RUBY_CONTEXT_SIZE, (const void *)python->found);
}

/* Goes to the innermost frame of the thread, whose stack is at @sp. Return: whether there is one. */
static inline bool ruby_chain_begin(struct python *python, const struct ruby_process *process,
                                    uint64_t pointer, uint64_t sp) {
        const uint64_t *words = (const uint64_t *)python->code_bytes;
        const uint32_t mask = PYTHON_MAX_CODE - 1;
        uint64_t begin;

        python_clear(python);
        python->evaluator = process->evaluator;
        python->evaluator_size = process->evaluator_size;
        python->core = process->core;
        python->core_size = process->core_size;
        python->is_counted = 1;
        python->has_thirds = 1;
        python->mark = PYTHON_NO_MARK;
        python->last_mark = 0;
        python->is_cut = 1;             /* until its end was met */
        python->has_leaf = 0;
        if (!ruby_read_context(python, process, pointer) ||
            python_word(python->code_bytes, process->stack_start, mask) - sp >
                    python_word(python->code_bytes, process->stack_size, mask))
                return false;
        begin = words[RUBY_CONTEXT_STACK / 8];
        if (words[RUBY_CONTEXT_SIZE_AT / 8] > RUBY_MAX_STACK)
                return false;
        python->native = begin + 8 * words[RUBY_CONTEXT_SIZE_AT / 8];
        python->frame = words[RUBY_CONTEXT_FRAME / 8];
        if ((python->frame & 7) || python->frame < begin || python->frame >= python->native)
                return false;
        if (ruby_collects(python, process))
                ruby_add(python, RUBY_FRAME_COLLECTOR, 0, 0, 0);
        return true;
}
