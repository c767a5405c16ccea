/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * Python
 *
 * CPython runs functions of Python in one C function, the evaluator, so that a native stack shows nothing
 * but its frames. The interpreter keeps frames of its own, in a chain from the innermost one on:
 *
 *     thread state ─▶ leaf ─▶ callback ─▶ shim ─▶ run ─▶ main ─▶ shim ─▶ NULL
 *                                           │                     │
 *     native   evaluator ◀─ lies in it ─────┘                     │
 *              qsort                                              │
 *              evaluator ◀─ lies in it ───────────────────────────┘
 *              main
 *
 * One evaluator runs a Python function and those that it calls. But each that is entered from C leaves a mark
 * on the native stack: a shim frame (3.12 and newer), or a CFrame (3.10, 3.11), which are local variables of
 * the evaluator. So the native frame around a mark's address is the evaluator's, whatever parts the compiler
 * has made of it, and the Python frames up to that mark take its place:
 *
 *     leaf, callback, qsort, run, main, main
 *
 * Before the native walk python_begin() copies the chain: frames, and between them marks. The walk asks after
 * each step whether it has gone over the next mark, and if so, the frames up to it are written. A native walk
 * that has to end early (rows on their way) still is followed by the rest of the chain; only native frames
 * between are missing then. That, and marks that were never met, is counted as `partial`.
 *
 * 3.8 and 3.9 leave no mark: each of their frames is one evaluator's, which is known by its pc. In 3.10, too,
 * an evaluator runs one frame. Its CFrame says where the next one's is, and is read as the native walk goes
 * over it, out of the stack that the walk has read: so there are no marks among the frames.
 *
 * From 3.14 on a task of asyncio says who awaits it. What an awaiter was doing when it began to wait is in
 * its coroutine, and in those that this one awaits. Their frames follow that of the running task's coroutine,
 * as if they had called it:
 *
 *     thread state ─▶ task ─▶ awaited_by ─▶ task ─▶ coroutine ─▶ coroutine that it awaits ─▶ …
 *                       └─▶ coroutine: its frame must be in the chain, else the task is not this one's
 *
 *     leaf, fetch [its task], gather_all, main [the awaiter's], Handle._run, run_forever
 *
 * The thread that is interrupted has the lock, so no awaiter runs. Several awaiters of one task are no chain:
 * it ends there.
 *
 * A thread may be in several interpreters at once: a function of one runs code in another. It has a state,
 * and a chain, in each of them. The chain whose first mark lies lowest on the native stack is the innermost
 * one, so chains are joined in the order of their marks.
 *
 * Of a chain that is too long, the innermost frames are kept. Without a mark they would have no place, so the
 * first one is searched for, further up.
 *
 * A greenlet has a native stack of its own, whose begin is in greenlet's library. Behind that lies what
 * another greenlet has left there. So a walk that has met all marks ends at the first native frame of that
 * library.
 *
 * Includes nothing, as unwind.bpf.h. All addresses come from the target: every read may fail, every loop is
 * bounded, and what is copied is looked at again by the daemon before it is named.
 */

enum {
        /* frames and marks of one stack: more than a sample has room for, so one that is longer ends there */
        PYTHON_MAX_CHAIN = ABI_MAX_FRAMES + 64,
        PYTHON_MAX_SEARCH = 4096,       /* frames behind these that are looked at for the first mark */
        PYTHON_MAX_STEPS = PYTHON_MAX_CHAIN + PYTHON_MAX_SEARCH,
        PYTHON_MAX_THREADS = 2048,      /* thread states that are looked at for one thread */
        PYTHON_FEW_THREADS = 64,        /* so many are looked at anew each time that none is the thread's */
        PYTHON_MAX_STATES = 4,          /* interpreters that a thread is in at once; a power of two */
        PYTHON_MAX_LOCKS = 16,          /* interpreters whose locks are looked at */
        PYTHON_WINDOW = 512,            /* bytes of frames that are read at once; a power of two */
        PYTHON_PAGE = 4096,
        PYTHON_N_KNOWN = 16,            /* code objects that this stack has met; a power of two */
        PYTHON_MAX_AWAITS = 32,         /* coroutines of one task that await one another; a power of two */
        PYTHON_MAX_TASKS = 32,          /* tasks of a chain of awaiters */
        PYTHON_MAX_COPIES = 1 << 20,    /* copies of the instructions of one code object, for its threads */
        PYTHON_WORD_BEHIND_TYPE = 16,   /* bytes of an object that hold its type */
};

/* No address: no mark to come. */
#define PYTHON_NO_MARK (~0ull)
/* The mark of evaluators without one: any native frame of the evaluator. */
#define PYTHON_MARK_EVALUATOR 1

enum python_mode {
        PYTHON_WAITS,                   /* for the next mark */
        PYTHON_WRITES,                  /* frames up to it */
        PYTHON_WRITES_REST,             /* all frames: the native walk is over */
};

struct python_word_pair {
        /* a frame: as in a sample. A mark: its address, and that of the next one. 0: a frame without code */
        uint64_t first, second;
};

/* The awaiters of the running task, while they are read. */
struct python_awaits {
        uint64_t root;                  /* the frame of the running task's coroutine; 0 = no task is known */
        uint64_t task;
        uint64_t coroutine;             /* the next one of this task; 0 = all are in frames */
        uint32_t is_open;               /* frames of the task's coroutines come next */
        uint32_t n_tasks;
        uint32_t n;                     /* frames, the outermost first */
        uint32_t name_size;             /* 0, PYTHON_TASK_SIZE; 0 also if the task was not this chain's */
        struct python_word_pair frames[PYTHON_MAX_AWAITS];      /* code, position */
        uint8_t name[PYTHON_TASK_SIZE];
        uint8_t bytes[PYTHON_MAX_GENERATOR + 8];
};

/* The chain of one thread state among the entries. */
struct python_part {
        uint64_t mark;                  /* first mark of the chain; PYTHON_NO_MARK = it has none */
        uint32_t begin, end;
};

/* State of one walk. In a map value, as the BPF stack is small. */
struct python {
        uint64_t mark;                  /* the next one, or PYTHON_NO_MARK */
        uint64_t evaluator, evaluator_size;
        uint64_t cold, cold_size;       /* more code of the evaluator; of PHP alone */
        uint64_t core, core_size;       /* code that each evaluator calls first; of Ruby alone */
        uint64_t root, root_size;       /* code that greenlets begin in */
        uint32_t n;                     /* entries of all chains */
        uint32_t at, end;               /* next entry to be written; behind the last one of its part */
        uint32_t mode;                  /* enum python_mode */
        uint32_t n_frames;              /* frames among the entries */
        uint32_t n_written;
        uint32_t is_single;             /* each entry is one evaluator's: no marks among them */
        uint32_t native_previous;       /* in a CFrame */
        uint32_t is_cut;                /* the chain was longer, or could not be read to its end */
        /* PHP and Ruby alone, whose runs and native frames are counted */
        uint32_t is_counted;
        uint32_t n_runs;                /* marks on this native stack */
        uint32_t n_met;                 /* native frames of the evaluator */
        uint32_t n_skipped;             /* first ones that are left as they are */
        uint32_t second;                /* index of the first entry behind the first mark */
        uint32_t is_again;              /* the second walk */
        uint32_t is_resumed;            /* frames follow the last of these runs, as a fiber's */
        uint32_t leaf_line;             /* of entries[0], if the first native frame is met; 0 = not known */
        /* PHP alone: functions that are called without a frame, which are among the entries */
        uint32_t call_line;             /* where the first entry is called */
        uint32_t n_left_out;            /* those that have returned */
        int32_t calls[PHP_MAX_CALLS];   /* as in struct php_process */
        uint32_t has_left;              /* the walk has left the innermost native frame, or one interrupted */
        uint64_t called, own;           /* where the evaluator's callee goes on, and it itself; 0 = a leaf */
        uint32_t has_leaf;              /* Ruby alone: its innermost frame was read; */
        uint32_t is_in_core;            /* the native frame that was left last is the core's */
        uint32_t has_thirds;            /* frames have three words */
        struct {
                uint64_t pc, sp, bp, bx;
                uint32_t n_frames, limit;
        } begin;                        /* the native walk as it begins */
        /* while the chain is read */
        uint64_t interpreter, thread;
        uint64_t thread_id;             /* pthread_self() of the thread that is interrupted */
        uint64_t found;                 /* the state whose chain is read; of Ruby: the thread's context */
        uint64_t first;                 /* the first interpreter, if there is no other one; 0 = there is */
        /* the thread's, with frames; if none has any, one without */
        uint64_t states[PYTHON_MAX_STATES];
        struct python_part parts[PYTHON_MAX_STATES];
        uint32_t n_states, n_parts;
        uint32_t n_looked;              /* states that were looked at */
        /* the sample whose thread has these states: its time, program and thread */
        uint64_t looked_ns, looked_generation, looked_id;
        uint32_t next_state;            /* next state whose chain is to be read */
        uint32_t part_begin;
        uint32_t has_more;              /* there were more states */
        uint64_t frame, native;         /* the next frame; the CFrame that it belongs to */
        uint64_t window;                /* address of frame_bytes[0] */
        uint32_t window_size;           /* bytes that were read; 0 = none */
        uint32_t last_mark;             /* index + 1 of the last mark; 0 = none */
        struct {
                uint64_t code;
                uint64_t cookie;
        } known[PYTHON_N_KNOWN];
        union {
                uint8_t thread_bytes[PYTHON_MAX_THREAD + 8];
                uint8_t frame_bytes[PYTHON_WINDOW + 8];
        };
        uint8_t code_bytes[PYTHON_MAX_CODE + 8] __attribute__((aligned(8)));
        struct python_awaits awaits;
        struct python_word_pair entries[PYTHON_MAX_CHAIN];
        uint64_t thirds[PYTHON_MAX_CHAIN];      /* third words of entries; of Ruby alone */
};

static inline bool python_read(uint64_t address, uint64_t *to) {
        return !bpf_probe_read_user(to, sizeof(*to), (const void *)address);
}

/* The word at @offset of bytes that were read; @mask: their size - 1, a power of two. */
static inline uint64_t python_word(const uint8_t *bytes, uint32_t offset, uint32_t mask) {
        offset &= mask;
        barrier_var(offset);
        offset &= mask;
#ifdef __bpf__
        return *(const uint64_t *)(bytes + offset);     /* a single load, aligned or not */
#else
        uint64_t word;

        __builtin_memcpy(&word, bytes + offset, sizeof(word));
        return word;
#endif
}

static inline bool python_copy(uint8_t *to, uint32_t size, uint32_t max, uint64_t address) {
        if (size > max)
                size = max;
        barrier_var(size);
        if (size > max)
                return false;
        return !bpf_probe_read_user(to, size, (const void *)address);
}

/* ---- the thread's state ---- */

static inline void python_add_state(struct python *python, uint64_t state) {
        uint32_t n = python->n_states;

        if (n >= PYTHON_MAX_STATES) {
                python->has_more = 1;
                return;
        }
        barrier_var(n);
        n &= PYTHON_MAX_STATES - 1;
        python->states[n] = state;
        python->n_states = n + 1;
}

/* Goes to the threads of the next interpreter. Return: whether there is one. */
static inline bool python_next_interpreter(struct python *python, const struct python_process *process) {
        uint64_t interpreter = python->interpreter;

        if (!interpreter || !python_read(interpreter + process->threads, &python->thread) ||
            !python_read(interpreter + process->next_interpreter, &python->interpreter))
                return false;
        if (interpreter == python->first && python->interpreter)
                python->first = 0;
        return true;
}

static inline bool python_has_cframes(const struct python_process *process) {
        return process->chain == PYTHON_CHAIN_CFRAMES || process->chain == PYTHON_CHAIN_CFRAME;
}

/* Looks at one thread state. Return: whether to go on. */
static inline bool python_look(struct python *python, const struct python_process *process) {
        const uint8_t *bytes = python->thread_bytes;
        const uint32_t mask = PYTHON_MAX_THREAD - 1;
        uint64_t thread = python->thread, frame;

        if (!thread)
                return python_next_interpreter(python, process);
        if (!python_copy(python->thread_bytes, process->thread_size, PYTHON_MAX_THREAD, thread))
                return false;
        python->n_looked++;
        python->thread = python_word(bytes, process->next_thread, mask);
        if (python_word(bytes, process->thread_id, mask) != python->thread_id)
                return true;
        python->found = thread;
        frame = python_word(bytes, process->thread_frame, mask);
        /* a CFrame is always there */
        if (frame && python_has_cframes(process) && !python_read(frame + process->native_frame, &frame))
                return true;
        if (frame) {
                python_add_state(python, thread);
                python->thread = 0;     /* the thread has a state in an interpreter */
        }
        return true;
}

static inline bool python_look_begin(struct python *python, const struct python_process *process) {
        python->found = 0;
        python->thread = 0;
        python->n_states = 0;
        python->n_looked = 0;
        python->has_more = 0;
        python->first = 0;
        if (!python_read(process->interpreters, &python->interpreter))
                return false;
        python->first = python->interpreter;
        return true;
}

/*
 * Whether @thread is in the list of @interpreter's threads, and python->thread_id's. A freed state keeps its
 * id for a while, and a new thread may have the id of one that has ended. But once a state is taken off the
 * list, nothing there points to it.
 */
static inline bool python_is_listed(struct python *python, const struct python_process *process,
                                    uint64_t interpreter, uint64_t thread) {
        const uint8_t *bytes = python->thread_bytes;
        const uint32_t mask = PYTHON_MAX_THREAD - 1;
        uint64_t previous, there;

        if (!python_copy(python->thread_bytes, process->thread_size, PYTHON_MAX_THREAD, thread) ||
            python_word(bytes, process->thread_id, mask) != python->thread_id)
                return false;
        previous = python_word(bytes, process->previous_thread, mask);
        return python_read(previous ? previous + process->next_thread : interpreter + process->threads,
                           &there) &&
                there == thread;
}

/*
 * Whether a thread that had no state has none still: new ones come first in the list, which began with @head,
 * another thread's.
 */
static inline bool python_is_as_before(const struct python *python, const struct python_process *process,
                                       uint64_t interpreter, uint64_t head) {
        uint64_t now, id;

        return python_read(interpreter + process->threads, &now) && now == head && head &&
                python_read(head + process->thread_id, &id) && id != python->thread_id;
}

/* All have been looked at. Return: the state to be known by, 0 = none. */
static inline uint64_t python_look_end(struct python *python) {
        if (!python->n_states && python->found)
                python_add_state(python, python->found);
        return python->n_states ? python->states[0] : 0;
}

/* ---- its lock ---- */

static inline bool python_is_in_lock(const struct python_process *process, uint64_t lock, uint64_t address) {
        return address - lock - process->lock_begin < (uint64_t)process->lock_end - process->lock_begin;
}

/*
 * Whether who waits for the futex at @address waits for the lock of an interpreter: for the lock itself, for
 * its mutex, or for another thread to take what it has given up.
 */
static inline bool python_waits_for_lock(const struct python_process *process, uint64_t address) {
        uint64_t interpreter, lock;

        if (!process->lock_end)
                return false;
        if (process->lock)
                return python_is_in_lock(process, process->lock, address);
        if (!python_read(process->interpreters, &interpreter))
                return false;
        for (uint32_t i = 0; i < PYTHON_MAX_LOCKS && interpreter; i++) {
                if (!python_read(interpreter + process->lock_pointer, &lock))
                        return false;
                if (lock && python_is_in_lock(process, lock, address))
                        return true;
                if (!python_read(interpreter + process->next_interpreter, &interpreter))
                        return false;
        }
        return false;
}

/* ---- the chain ---- */

static inline void python_add(struct python *python, uint64_t first, uint64_t second) {
        uint32_t n = python->n;

        if (n >= PYTHON_MAX_CHAIN)
                return;
        barrier_var(n);
        if (n >= PYTHON_MAX_CHAIN)
                return;
        python->entries[n].first = first;
        python->entries[n].second = second;
        python->n = n + 1;
}

static inline void python_add_mark(struct python *python, uint64_t address) {
        uint32_t last = python->last_mark - 1;

        /* The top byte tells marks from frames. */
        address &= RUNTIME_ADDRESS_MASK;
        if (!python->last_mark) {
                python->mark = address;
                python->second = python->n + 1;
        } else {
                if (last >= PYTHON_MAX_CHAIN)
                        return;
                barrier_var(last);
                if (last >= PYTHON_MAX_CHAIN)
                        return;
                python->entries[last].second = address;
        }
        python->last_mark = python->n + 1;
        python_add(python, address, PYTHON_NO_MARK);
}

/*
 * Whether another frame and a mark have no room. What was read of a run that goes on beyond is in the
 * evaluator's place all the same.
 */
static inline bool python_is_full(struct python *python) {
        if (python->n <= PYTHON_MAX_CHAIN - 2)
                return false;
        python_add_mark(python, PYTHON_MARK_EVALUATOR);
        return true;
}

/* Whether there is a code object at @code; *@cookiep. Recursion meets the same ones again and again. */
static inline bool python_read_code(struct python *python, const struct python_process *process,
                                    uint64_t code, uint64_t *cookiep) {
        const uint8_t *bytes = python->code_bytes;
        uint32_t mask = PYTHON_MAX_CODE - 1, at = (uint32_t)(code >> 5 ^ code >> 9) & (PYTHON_N_KNOWN - 1);

        barrier_var(at);
        at &= PYTHON_N_KNOWN - 1;
        if (code == python->known[at].code) {
                *cookiep = python->known[at].cookie;
                return true;
        }
        if (!python_copy(python->code_bytes, process->code_size, PYTHON_MAX_CODE, code) ||
            (process->code_type && python_word(bytes, process->type, mask) != process->code_type))
                return false;
        *cookiep = python_cookie(python_word(bytes, process->name, mask),
                                 python_word(bytes, process->line_table, mask),
                                 (uint32_t)python_word(bytes, process->first_line, mask));
        python->known[at].code = code;
        python->known[at].cookie = *cookiep;
        return true;
}

static inline void python_add_frame(struct python *python, const struct python_process *process,
                                    uint64_t code, uint64_t position) {
        uint64_t cookie;

        if (!python_read_code(python, process, code, &cookie)) {
                if (python->is_single)
                        python_add(python, 0, 0);       /* the evaluator of the frame stays where it is */
                return;
        }
        position = python->is_single ? (uint32_t)position : position - code;
        if (position >> 32)
                position = PYTHON_NO_POSITION;
        python->n_frames++;
        python_add(python, (uint64_t)RUNTIME_PYTHON << RUNTIME_KIND_SHIFT | (code & RUNTIME_ADDRESS_MASK),
                   cookie << 32 | position);
}

/*
 * Where @position, in the thread's copy @index of the instructions, is in the code object; else 0, which is
 * no position. The array has its size, then the address of each copy. The thread that is interrupted runs
 * this copy, so it is there.
 */
static inline uint64_t python_position(const struct python_process *process, uint64_t code,
                                       uint64_t position, uint32_t index) {
        uint64_t copies, copy;

        if (!process->copies || !index)
                return position;
        if (index > PYTHON_MAX_COPIES || !python_read(code + process->copies, &copies) ||
            !python_read(copies + 8 * (1 + (uint64_t)index), &copy))
                return 0;
        return position - copy + code + process->instructions;
}

/*
 * Has the frame's bytes in the window: *@atp, the first one's index. Since 3.11 a caller's frame lies right
 * below its callee's, so what lies below is read with it, down to the begin of the page that the frame is in:
 * what is there can be read if the frame can.
 */
static inline bool python_read_frame(struct python *python, const struct python_process *process,
                                     uint64_t frame, uint32_t *atp) {
        uint32_t size = process->frame_size, below = (uint32_t)frame & (PYTHON_PAGE - 1);
        uint64_t at = frame - python->window;

        if (size > PYTHON_MAX_FRAME)
                return false;
        if (at < python->window_size && at + size <= python->window_size) {
                *atp = (uint32_t)at;
                return true;
        }
        if (below > PYTHON_WINDOW - size)
                below = PYTHON_WINDOW - size;
        if (python->is_single)
                below = 0;
        below &= ~7u;
        python->window = frame - below;
        python->window_size = 0;
        if (!python_copy(python->frame_bytes, below + size, PYTHON_WINDOW, frame - below))
                return false;
        python->window_size = below + size;
        *atp = below;
        return true;
}

/* ---- tasks ---- */

static inline bool python_is_coroutine(const struct python_process *process, const uint8_t *bytes) {
        uint64_t type = python_word(bytes, process->type, PYTHON_MAX_GENERATOR - 1);

        return type && (type == process->tasks.coroutine_type || type == process->tasks.generator_type);
}

/* The task that the thread runs, and the frame that its coroutine has. */
static inline void python_task_begin(struct python *python, const struct python_process *process) {
        struct python_awaits *awaits = &python->awaits;
        uint64_t coroutine = 0;

        awaits->root = 0;
        awaits->task = 0;
        awaits->coroutine = 0;
        awaits->is_open = 0;
        awaits->n_tasks = 0;
        awaits->n = 0;
        if (!process->tasks.running || !python_read(python->found + process->tasks.running, &awaits->task) ||
            !awaits->task || !python_read(awaits->task + process->tasks.coroutine, &coroutine) ||
            !coroutine ||
            bpf_probe_read_user(awaits->bytes, PYTHON_WORD_BEHIND_TYPE, (const void *)coroutine) ||
            !python_is_coroutine(process, awaits->bytes))
                return;
        awaits->root = coroutine + process->tasks.frame;
}

/* The chain has met the frame of the task's coroutine: it is this task that runs. */
static inline void python_task_met(struct python *python, const struct python_process *process) {
        struct python_awaits *awaits = &python->awaits;
        uint64_t name = 0;

        awaits->root = 0;
        awaits->is_open = 1;
        /* the innermost interpreter's task counts */
        if (!awaits->name_size && python_read(awaits->task + process->tasks.name, &name) && name &&
            !bpf_probe_read_user(awaits->name, PYTHON_TASK_SIZE, (const void *)name))
                awaits->name_size = PYTHON_TASK_SIZE;
}

/* Takes one coroutine of an awaiter, and goes to the one that it awaits. One that runs is left out. */
static inline void python_await(struct python *python, const struct python_process *process) {
        const struct python_tasks *tasks = &process->tasks;
        const uint32_t mask = PYTHON_MAX_GENERATOR - 1;
        struct python_awaits *awaits = &python->awaits;
        uint64_t coroutine = awaits->coroutine, stack;
        uint32_t n = awaits->n;
        uint8_t state;

        awaits->coroutine = 0;
        if (n >= PYTHON_MAX_AWAITS || (coroutine & 7) ||
            bpf_probe_read_user(awaits->bytes, PYTHON_MAX_GENERATOR, (const void *)coroutine) ||
            !python_is_coroutine(process, awaits->bytes))
                return;
        state = (uint8_t)python_word(awaits->bytes, tasks->state, mask);
        if (state != tasks->suspended && state != tasks->suspended_for)
                return;
        barrier_var(n);
        n &= PYTHON_MAX_AWAITS - 1;
        awaits->frames[n].first = python_word(awaits->bytes, tasks->code, mask) & ~7ull;
        awaits->frames[n].second = python_word(awaits->bytes, tasks->position, mask);
        awaits->n = n + 1;
        stack = python_word(awaits->bytes, tasks->stack, mask);
        if (state == tasks->suspended_for && stack && python_read(stack - tasks->awaited, &stack))
                awaits->coroutine = stack & ~7ull;
}

/* The next awaiter. Return: whether there is one. */
static inline bool python_next_task(struct python *python, const struct python_process *process) {
        const struct python_tasks *tasks = &process->tasks;
        struct python_awaits *awaits = &python->awaits;
        uint64_t task = 0;
        uint8_t is_set = 1;

        if (++awaits->n_tasks > PYTHON_MAX_TASKS ||
            bpf_probe_read_user(&is_set, 1, (const void *)(awaits->task + tasks->is_set)) || is_set ||
            !python_read(awaits->task + tasks->awaited_by, &task) || !task ||
            !python_read(task + tasks->coroutine, &awaits->coroutine))
                return false;
        awaits->task = task;
        return awaits->coroutine;
}

/* Goes a step towards the frames of awaiters: down a task's coroutines, then back with their frames. */
static inline void python_await_step(struct python *python, const struct python_process *process) {
        struct python_awaits *awaits = &python->awaits;
        uint32_t n = awaits->n;

        if (awaits->coroutine) {
                python_await(python, process);
        } else if (n) {
                n--;
                barrier_var(n);
                n &= PYTHON_MAX_AWAITS - 1;
                awaits->n = n;
                python_add_frame(python, process, awaits->frames[n].first, awaits->frames[n].second);
        } else if (!python_next_task(python, process)) {
                awaits->is_open = 0;
        }
}

/* Goes to the first frame of python->found; 0 = it runs no function of Python. */
static inline void python_open(struct python *python, const struct python_process *process) {
        uint64_t first = 0;

        python->mark = PYTHON_NO_MARK;
        python->last_mark = 0;
        python->part_begin = python->n;
        python->is_cut = 1;             /* until its end was met */
        python->native = 0;
        python->frame = 0;
        if (!python_read(python->found + process->thread_frame, &first) || !first)
                return;
        if (python_has_cframes(process)) {
                python->native = first;
                if (!python_read(first + process->native_frame, &first))
                        return;
        } else if (process->chain == PYTHON_CHAIN_OBJECTS) {
                /* the thread state has both: the frame, and behind native_frame the CFrame */
                if (!python_read(python->found + process->native_frame, &python->mark))
                        return;
                python->mark &= RUNTIME_ADDRESS_MASK;
        } else if (process->chain == PYTHON_CHAIN_EVALUATOR) {
                python->mark = PYTHON_MARK_EVALUATOR;
        }
        python->frame = first;
        python_task_begin(python, process);
}

/* The chain that was read is a part of the entries, whether it came to its end or not. */
static inline void python_close(struct python *python) {
        uint32_t n = python->n_parts;

        if (n >= PYTHON_MAX_STATES || python->n == python->part_begin)
                return;
        barrier_var(n);
        n &= PYTHON_MAX_STATES - 1;
        python->parts[n].mark = python->mark;
        python->parts[n].begin = python->part_begin;
        python->parts[n].end = python->n;
        python->n_parts = n + 1;
        python->part_begin = python->n;
}

/* The chain of the next state. Return: whether there is one. */
static inline bool python_open_next(struct python *python, const struct python_process *process) {
        uint32_t next = python->next_state;

        python_close(python);
        if (next >= python->n_states || next >= PYTHON_MAX_STATES)
                return false;
        barrier_var(next);
        next &= PYTHON_MAX_STATES - 1;
        python->next_state = next + 1;
        python->found = python->states[next];
        python_open(python, process);
        return true;
}

/* Chain and native stack have this place in common. */
static inline void python_meet_at(struct python *python, uint64_t address) {
        if (python->n < PYTHON_MAX_CHAIN)
                python_add_mark(python, address);
        else
                python->mark = address & RUNTIME_ADDRESS_MASK;
}

/* Copies one frame of the chain. Return: whether there is another one. */
static inline bool python_chain_step(struct python *python, const struct python_process *process) {
        const uint32_t mask = PYTHON_WINDOW - 1;
        uint64_t frame = python->frame, code, position, native = python->native;
        const uint8_t *bytes = python->frame_bytes;
        bool is_full = python->n >= PYTHON_MAX_CHAIN;
        uint32_t owner, at = 0;

        if (python->awaits.is_open && !is_full) {
                python_await_step(python, process);
                return true;
        }
        if (!frame) {
                python->is_cut = is_full || python->has_more;
                return python_open_next(python, process);
        }
        if (is_full &&
            (python->is_single || python->mark != PYTHON_NO_MARK || python->n == python->part_begin))
                return false;
        if ((frame & 7) || !python_read_frame(python, process, frame, &at))
                return false;
        python->frame = python_word(bytes, at + process->previous, mask);
        owner = (uint8_t)python_word(bytes, at + process->owner, mask);
        if (process->chain >= PYTHON_CHAIN_CFRAME && process->chain <= PYTHON_CHAIN_SHIMS &&
            owner >= PYTHON_OWNER_SHIM) {
                python_meet_at(python, frame);
                return true;
        }
        /* The low bits are tags since 3.14. */
        if (!is_full) {
                code = python_word(bytes, at + process->code, mask) & ~7ull;
                position = python_position(process, code, python_word(bytes, at + process->position, mask),
                                           (uint32_t)python_word(bytes, at + process->copy_index, mask));
                python_add_frame(python, process, code, position);
                if (frame == python->awaits.root)
                        python_task_met(python, process);
        }
        if (process->chain == PYTHON_CHAIN_CFRAMES && owner) {
                python_meet_at(python, native);
                if (!python_read(native + process->native_previous, &python->native))
                        return false;
        }
        return true;
}

/* No entry is read yet. */
static inline void python_clear(struct python *python) {
        python->cold_size = 0;
        python->core_size = 0;
        python->is_in_core = 0;
        python->has_thirds = 0;
        python->root_size = 0;
        python->is_counted = 0;
        python->n_runs = 0;
        python->n_met = 0;
        python->n_skipped = 0;
        python->is_again = 0;
        python->is_resumed = 0;
        python->leaf_line = 0;
        python->call_line = 0;
        python->n_left_out = 0;
        python->has_left = 0;
        python->called = 0;
        python->is_single = 0;
        python->n = 0;
        python->at = 0;
        python->end = 0;
        python->n_parts = 0;
        python->part_begin = 0;
        python->mode = PYTHON_WAITS;
        python->n_frames = 0;
        python->n_written = 0;
        python->next_state = 0;
        python->window_size = 0;
        python->awaits.name_size = 0;
        for (uint32_t i = 0; i < PYTHON_N_KNOWN; i++)
                python->known[i].code = 1;      /* no code's address: those are even */
}

/* The first frame of the first of python->states. Return: whether there is a state. */
static inline bool python_chain_begin(struct python *python, const struct python_process *process) {
        python_clear(python);
        python->evaluator = process->evaluator;
        python->evaluator_size = process->evaluator_size;
        python->root = process->root;
        python->root_size = process->root_size;
        python->is_single = process->chain == PYTHON_CHAIN_OBJECTS ||
                process->chain == PYTHON_CHAIN_EVALUATOR;
        python->native_previous = process->native_previous;
        return python_open_next(python, process);
}

/* Goes to the part that is left and lies lowest on the native stack. Return: whether there is one. */
static inline bool python_take_part(struct python *python) {
        uint32_t best = PYTHON_MAX_STATES;
        uint64_t lowest = 0;

        python->mark = PYTHON_NO_MARK;
        for (uint32_t i = 0; i < PYTHON_MAX_STATES; i++) {
                if (i >= python->n_parts || !python->parts[i].end)
                        continue;
                if (best < PYTHON_MAX_STATES && python->parts[i].mark >= lowest)
                        continue;
                best = i;
                lowest = python->parts[i].mark;
        }
        if (best >= PYTHON_MAX_STATES)
                return false;
        barrier_var(best);
        best &= PYTHON_MAX_STATES - 1;
        python->at = python->parts[best].begin;
        python->end = python->parts[best].end;
        python->mark = python->parts[best].mark;
        python->parts[best].end = 0;
        return true;
}

/* The native walk begins here. */
static inline void python_chain_place(struct python *python, const struct unwind *unwind,
                                      const struct rules *rules) {
        python->begin.pc = unwind->pc;
        python->begin.sp = unwind->sp;
        python->begin.bp = unwind->bp;
        python->begin.bx = rules->bx;
        python->begin.n_frames = unwind->n_frames;
        python->begin.limit = unwind->limit;
}

/* All chains are copied. Return: whether there are frames. */
static inline bool python_chain_end(struct python *python) {
        python_close(python);
        python_take_part(python);
        return python->n_frames;
}

/* ---- the join ---- */

/* The walk leaves a native frame at @pc. */
static inline bool python_meets_counted(struct python *python, uint64_t pc) {
        uint64_t call = python->has_left ? pc : 0;

        python->has_left = 1;
        if (pc - python->evaluator >= python->evaluator_size && pc - python->cold >= python->cold_size) {
                python->is_in_core = pc - python->core < python->core_size;
                python->called = call;
                return false;
        }
        python->own = call;
        if (++python->n_met <= python->n_skipped) {
                python->is_in_core = 0;
                python->called = 0;
                return false;
        }
        return python->mark == PYTHON_MARK_EVALUATOR;
}

/* The native frame that was written last, with @sp, is left for that of @caller_sp. */
static inline bool python_meets(struct python *python, uint64_t pc, uint64_t sp, uint64_t caller_sp) {
        if (python->is_counted)
                return python_meets_counted(python, pc);
        if (python->mark == PYTHON_MARK_EVALUATOR)
                return pc - python->evaluator < python->evaluator_size;
        return python->mark - sp < caller_sp - sp;
}

static inline bool python_is_frame(const struct python *python, uint32_t at) {
        if (at >= python->end || at >= PYTHON_MAX_CHAIN)
                return false;
        barrier_var(at);
        if (at >= PYTHON_MAX_CHAIN)
                return false;
        return python->entries[at].first >> RUNTIME_KIND_SHIFT;
}

/* Whether a frame's first word is of a function that PHP has called without a frame. */
static inline bool python_is_frameless(uint64_t first) {
        return first >> PHP_FUNCTION_SHIFT ==
                ((uint64_t)RUNTIME_PHP << (RUNTIME_KIND_SHIFT - PHP_FUNCTION_SHIFT) |
                 (PHP_FUNCTION_INTERNAL | PHP_FUNCTION_NAMED | PHP_FUNCTION_FRAMELESS));
}

/* Whether the evaluator that is met has called such a function, and that has not returned. */
static inline bool python_is_in_call(const struct python *python) {
        uint64_t is = 0;

        for (uint32_t i = 0; i < PHP_MAX_CALLS; i++) {
                uint64_t call = python->evaluator + (uint64_t)(int64_t)python->calls[i];

                call &= RUNTIME_ADDRESS_MASK;
                is |= unwind_is_same(python->called, call) | unwind_is_same(python->own, call);
        }
        return is;
}

/* The place of the entries from the next one on is met: what was not known of the first ones is. */
static inline void python_settle(struct python *python) {
        uint32_t at = python->at, line = python->n_met == 1 ? python->leaf_line : 0;
        bool is_in_call;

        if (at >= PYTHON_MAX_CHAIN)
                return;
        barrier_var(at);
        if (at >= PYTHON_MAX_CHAIN)
                return;
        if (!python_is_frameless(python->entries[at].first)) {
                if (!at)
                        python->entries[0].second |= line;
                return;
        }
        is_in_call = python_is_in_call(python);
        if (is_in_call)
                line = python->call_line;
        if (!at)
                python->entries[1].second = python->entries[1].second >> 32 << 32 | line;
        if (is_in_call)
                return;
        python->at = at + 1;
        python->n_left_out++;
}

/* The frame at words[n - 1] is the evaluator's: Python's frames take its place, if there are any. */
static inline void python_join(struct unwind *unwind, struct python *python) {
        python->mode = PYTHON_WRITES;
        if (python->is_counted)
                python_settle(python);
        python->called = 0;
        if (python_is_frame(python, python->at) && unwind->n_frames)
                unwind->n_frames--;
        if (python->is_in_core && python_is_frame(python, python->at) && unwind->n_frames)
                unwind->n_frames--;
        python->is_in_core = 0;
}

/* The walk has come to the begin of a fiber: the rest of the chain follows. */
static inline bool python_is_fiber(const struct python *python) {
        return python->is_resumed && python->n_met == python->n_runs;
}

/*
 * The native walk is over. What is left of the chain called what was written, unless the walk came to its own
 * end: then the rest belongs to another stack. Return: whether frames are left to be written.
 */
static inline bool python_rest(const struct unwind *unwind, struct python *python) {
        if (python->mode != PYTHON_WAITS || python->n_written + python->n_left_out >= python->n_frames ||
            (unwind->end == ABI_STACK_COMPLETE && !python_is_fiber(python)) || unwind->end == ABI_STACK_DEPTH)
                return false;
        python->mode = PYTHON_WRITES_REST;
        return true;
}

/*
 * As many frames of the evaluator as runs were met by a whole walk, so each has its place. Else one run
 * begins or ends: the walk is made again, without the innermost run, or the innermost native frame. If more
 * of either is left, none has a place that is sure. Return: whether to walk again.
 */
static inline bool python_again(const struct rows_walk *walk) {
        struct python *python = walk->python;
        struct unwind *unwind = walk->unwind;

        if (!python->is_counted || python->is_cut || python->is_again || python->mode != PYTHON_WAITS ||
            unwind->end != ABI_STACK_COMPLETE || python->n_met == python->n_runs)
                return false;
        python->is_again = 1;
        python->n_skipped = python->n_met == python->n_runs + 1;
        python->at = python->end;
        if (python->n_skipped)
                python->at = 0;
        else if (python->n_met + 1 == python->n_runs)
                python->at = python->second;
        python->mark = python->at < python->end ? PYTHON_MARK_EVALUATOR : PYTHON_NO_MARK;
        python->n_met = 0;
        python->n_written = 0;
        python->n_left_out = 0;
        python->has_left = 0;
        python->called = 0;
        python->is_in_core = 0;
        unwind->pc = python->begin.pc;
        unwind->sp = python->begin.sp;
        unwind->bp = python->begin.bp;
        unwind->n_frames = python->begin.n_frames;
        unwind->limit = python->begin.limit;
        unwind->end = ABI_STACK_INTERNAL;
        rules_begin(walk->rules, walk->rules->space, walk->rules->generation, python->begin.n_frames);
        walk->rules->bx = python->begin.bx;
        return true;
}

/* The evaluator of the entry was left, and the walk waits for that of the next one. */
static inline void python_wait_for_next(struct unwind *unwind, struct python *python) {
        uint64_t next = 0;

        python->mode = PYTHON_WAITS;
        if (python->at >= python->end) {
                python_take_part(python);
        } else if (python->mark != PYTHON_MARK_EVALUATOR) {
                window_read_word(&unwind->window, python->mark + python->native_previous, &next);
                python->mark = next ? next & RUNTIME_ADDRESS_MASK : PYTHON_NO_MARK;
        }
}

/* Writes one entry. Return: whether the walk goes on. */
static inline bool python_write(struct unwind *unwind, struct python *python, uint64_t *frames) {
        uint32_t at = python->at, n = unwind->n_frames;
        uint64_t first, second;
        uint32_t words = python->has_thirds ? RUNTIME_MAX_WORDS : RUNTIME_PYTHON_WORDS;

        if (at >= python->end || at >= PYTHON_MAX_CHAIN) {
                if (python->mode == PYTHON_WRITES_REST)
                        return python_take_part(python);
                python->mode = PYTHON_WAITS;
                python_take_part(python);
                return true;
        }
        barrier_var(at);
        if (at >= PYTHON_MAX_CHAIN)
                return false;
        first = python->entries[at].first;
        second = python->entries[at].second;
        if (!(first >> RUNTIME_KIND_SHIFT)) {
                python->at = at + 1;
                if (python->is_single) {
                        if (python->mode == PYTHON_WRITES)
                                python_wait_for_next(unwind, python);
                        return true;
                }
                python->mark = second;
                if (python->mode == PYTHON_WRITES) {
                        python->mode = PYTHON_WAITS;
                        if (second == PYTHON_NO_MARK)
                                python_take_part(python);
                }
                return true;
        }
        if (python->mode == PYTHON_WRITES_REST && python_is_frameless(first)) {
                python->at = at + 1;
                python->n_left_out++;
                return true;
        }
        if (n >= unwind->limit || n > UNWIND_MAX_FRAMES - RUNTIME_MAX_WORDS)
                return rules_end(unwind, ABI_STACK_DEPTH);
        barrier_var(n);
        if (n > UNWIND_MAX_FRAMES - RUNTIME_MAX_WORDS)
                return false;
        frames[n] = first;
        frames[n + 1] = second;
        if (python->has_thirds)
                frames[n + 2] = python->thirds[at];
        python->at = at + 1;
        python->n_written++;
        unwind->n_frames = n + words;
        unwind->limit += words - 1;
        if (python->is_single && python->mode == PYTHON_WRITES)
                python_wait_for_next(unwind, python);
        return true;
}

/* The native frame at @pc is the first one of a greenlet. */
static inline bool python_is_root(const struct python *python, uint64_t pc) {
        return python->mark == PYTHON_NO_MARK && pc - python->root < python->root_size;
}

/* The includer defines this: python_write(), where it costs the least. */
static inline bool python_write_one(const struct rows_walk *walk);

/* As rules_step(), of a thread that may run functions of Python. */
static inline bool python_step(const struct rows_walk *walk) {
        struct python *python = walk->python;
        struct unwind *unwind = walk->unwind;
        uint64_t pc = unwind->pc, sp = unwind->sp;
        uint32_t n_signals = walk->rules->n_signals;
        bool is_root, goes_on;

        if (python && python->mode != PYTHON_WAITS)
                return python_write_one(walk);
        is_root = python && python_is_root(python, pc);
        goes_on = rules_step(walk);
        if (is_root && unwind->end != ABI_STACK_DEPTH)
                return rules_end(unwind, ABI_STACK_COMPLETE);
        if (!goes_on)
                return python && (python_again(walk) || python_rest(unwind, python));
        if (!python)
                return true;
        /* A signal's frame may be on another stack than the code that it interrupted. That is a leaf, too. */
        if (n_signals != walk->rules->n_signals) {
                python->has_left = 0;
                python->called = 0;
        } else if (python_meets(python, pc, sp, unwind->sp)) {
                python_join(unwind, python);
                return python_write_one(walk);
        }
        return true;
}
