/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The kernel half's walk (bpf/walk/rules.bpf.h, bpf/walk/rows.bpf.h) compiled for the host: one set of rules,
 * so that a stack is the same whichever half has walked it. What the kernel half reaches by maps and helpers
 * is put under it here:
 *
 *     kernel half                      here
 *     stack window, probe reads        the copy: a word outside of it cannot be read
 *     node of the process              process_resolve(): what was mapped when the sample was taken
 *     table of rows in a map           the same map, mapped into our memory
 *     cache of rules, kept             the same, of one walk: the mappings of the next may be others
 *     generation of the node           a number for each walk
 *     reads of the current process     HostWalkLive.read(), if the program lives and stands still
 *     python_threads, a map            states[]: of all threads, read once as the program is entered
 *
 * An example: a program of 20 ms was sampled 9 ms after its exec.
 *
 *     sample   pc 55..1234, ABI_STACK_PENDING, with a copy of 3 KiB
 *     walk     55..1234 lies in the program, whose table is on its way: PENDING, and nothing is delivered
 *     (8 ms)   the table is in the kernel
 *     walk     55..1234 ─▶ 55..1310 ─▶ libc+27249 ─▶ _start: COMPLETE, though the process is gone
 *
 * The bytes come from a target. The rules check each address that they make of them, and every read is
 * checked against the copy.
 */

#include "host/sampling/unwind/walk/host-walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "border/unwind_abi.h"
#include "core/base/util/error.h"

enum { MAX_TABLES = 64 };               /* tables that are held; the oldest makes room */

/* A table in our memory. It stays as it was, even if the kernel's array has lost it by now. */
typedef struct HostTable {
        uint64_t object_id;
        const uint8_t *blocks;
        size_t size;
        uint64_t text_low, text_high;
} HostTable;

/* ---- what the rules stand on ---- */

#define barrier_var(_var) __asm__ volatile("" : "+r"(_var))

/* In place of the stack window (memory.bpf.h). */
enum { WINDOW_SIZE = 0 };               /* a window that copies nothing */

struct window {
        uint64_t n_valid, n_words, size;        /* not used here */
        const struct abi_stack *copy;
        bool is_beyond;                 /* a word behind the copy was asked for */
};

static bool window_read_word(struct window *window, uint64_t address, uint64_t *valuep) {
        const struct abi_stack *copy = window->copy;
        uint64_t offset = address - copy->address, far = address - copy->far_address;

        if (address & 7)
                return false;
        if (far < copy->n_far)
                offset = copy->far_begin + far;
        else if (offset >= copy->n_bytes) {
                window->is_beyond = address > copy->address;
                return false;
        }
        memcpy(valuep, copy->bytes + offset, sizeof(*valuep));
        return true;
}

static bool window_read_pair(struct window *window, uint64_t address, uint64_t *firstp, uint64_t *secondp) {
        uint64_t first;

        if (!window_read_word(window, address, &first) || !window_read_word(window, address + 8, secondp))
                return false;
        *firstp = first;
        return true;
}

static long bpf_probe_read_user(void *to, uint32_t size, const void *from);

static const uint8_t *rows_block(uint32_t table, uint32_t block);
static uint64_t rows_rule(uint32_t table, uint64_t offset);

/* Nodes are the kernel's. */
static inline const struct unwind_node *rows_leaf(uint64_t space, uint32_t leaf) {
        return NULL;
}

#include "walk/unwind.bpf.h"

#define rows_find_place rows_find_place_in_nodes
#include "walk/rows.bpf.h"
#undef rows_find_place

static uint32_t rows_find_place(uint64_t space, uint64_t generation, uint64_t pc,
                                struct rows_place *place);

#define RULES_HAS_CODE has_code()
static bool has_code(void) __attribute__((unused));     /* by x86-64 alone */

#include "walk/rules.bpf.h"

static inline struct rows_cache *hotspot_cache(void);
#include "runtimes/hotspot.bpf.h"
#include "runtimes/python.bpf.h"
#include "runtimes/php.bpf.h"
#include "runtimes/ruby.bpf.h"
#include "runtimes/beam.bpf.h"
#include "runtimes/v8.bpf.h"

/* A thread of Python, by its pthread_self(). */
typedef struct ThreadState {
        uint64_t id, state;
        bool has_frames;                /* false: another interpreter may have them */
} ThreadState;

struct HostWalk {
        const Tables *tables;
        uint32_t depth;
        uint64_t n_walks;
        const Process *process;         /* the process of the walk under way, like the next two */
        bool has_runtime;
        const struct abi_stack *stack;
        uint64_t pending;               /* id of the object whose rows it lacks; 0 = none so far */
        const HostWalkLive *live;       /* NULL = copies alone */
        const struct abi_thread *thread;        /* NULL = not known: a copy */
        ThreadState states[PYTHON_MAX_THREADS];
        uint32_t n_states;
        HostTable held[MAX_TABLES];
        uint32_t n_held, next_held;
        struct unwind unwind;
        struct rules rules;
        struct rows_cache cache;
        struct runtime_states runtimes;
        struct python python;
        struct beam beam;
        uint64_t frames[UNWIND_MAX_FRAMES];
};

/* The rules know of no walk but theirs. */
static _Thread_local HostWalk *under_way;

static bool has_code(void) {
        return under_way->live;
}

static long bpf_probe_read_user(void *to, uint32_t size, const void *from) {
        const HostWalkLive *live = under_way->live;

        if (live && !live->read(live->userdata, (uint64_t)(uintptr_t)from, to, size))
                return 0;
        memset(to, 0, size);            /* as the helper does */
        return -EFAULT;
}

/* The kernel's list of calls comes with a thread, not with a copy. @at: number of a call, from 1 on. */
static inline uint64_t rules_probe_trampoline(void) {
        return under_way->thread ? under_way->thread->trampoline : 0;
}

static inline uint64_t rules_probe_first(void) {
        return 1;
}

static inline bool rules_probe_read(uint64_t at, struct rules_probe *probe) {
        const struct abi_probe *told = at <= THREAD_MAX_PROBES ? &under_way->thread->probes[at - 1] : NULL;

        if (!told || !told->address)
                return false;
        *probe = (struct rules_probe){ .stack = told->stack, .address = told->address, .next = at + 1 };
        return true;
}

static inline uint64_t rules_probe_stepped(uint64_t pc) {
        return 0;
}

static inline struct rows_cache *hotspot_cache(void) {
        return &under_way->cache;
}

static inline bool rules_hotspot(const struct rows_walk *walk) {
        struct hotspot_step step = { .unwind = walk->unwind, .rules = walk->rules, .process = walk->hotspot,
                                     .state = &walk->states->hotspot,
                                     .frames = (struct hotspot_words *)walk->frames };

        return hotspot_do_step(&step);
}

static inline bool rules_v8(const struct rows_walk *walk) {
        const struct v8_step step = { .unwind = walk->unwind, .rules = walk->rules, .process = walk->v8,
                                      .state = &walk->states->v8,
                                      .frames = (struct hotspot_words *)walk->frames };
        int r = v8_do_find(&step, walk);

        if (r == V8_FOUND)
                r = v8_do_leaf(&step);
        return r == V8_FOUND ? v8_frame(&step) : r;
}

static inline bool python_write_one(const struct rows_walk *walk) {
        return python_write(walk->unwind, walk->python, walk->frames);
}

static const uint8_t *rows_block(uint32_t table, uint32_t block) {
        const HostTable *held = &under_way->held[table];

        if (((uint64_t)block + 1) * UNWIND_BLOCK_SIZE > held->size)
                return NULL;
        return held->blocks + (size_t)block * UNWIND_BLOCK_SIZE;
}

static uint64_t rows_rule(uint32_t table, uint64_t offset) {
        return rows_read_table(table, offset);
}

/* ---- tables ---- */

static void drop_table(HostTable *held) {
        if (held->blocks)
                munmap((void *)held->blocks, held->size);
        *held = (HostTable){ 0 };
}

static HostTable *find_held(HostWalk *walk, uint64_t object_id) {
        for (uint32_t i = 0; i < walk->n_held; i++)
                if (walk->held[i].object_id == object_id)
                        return &walk->held[i];
        return NULL;
}

static HostTable *hold_table(HostWalk *walk, uint64_t object_id, const TablesRows *rows) {
        void *blocks = mmap(NULL, rows->size, PROT_READ, MAP_SHARED, rows->fd, 0);
        HostTable *held;

        if (blocks == MAP_FAILED)
                return NULL;
        held = &walk->held[walk->next_held];
        walk->next_held = (walk->next_held + 1) % MAX_TABLES;
        if (walk->n_held < MAX_TABLES)
                walk->n_held++;
        drop_table(held);
        *held = (HostTable){ object_id, blocks, rows->size, rows->text_low, rows->text_high };
        return held;
}

/* Finds the place of the rows of @id, and the part of the mapping that they cover. */
static void place_rows(HostWalk *walk, uint64_t id, uint64_t address, struct rows_place *place) {
        HostTable *held = find_held(walk, id);
        TablesRows rows;

        if (!held) {
                place->table = tables_find_rows(walk->tables, id, &rows);
                if (place->table < UNWIND_MAX_TABLES)
                        held = hold_table(walk, id, &rows);
                if (!held) {
                        if (place->table < UNWIND_MAX_TABLES)
                                place->table = UNWIND_LOST_TABLE;
                        else if (place->table == UNWIND_PENDING_TABLE)
                                walk->pending = id;
                        return;
                }
        }
        place->table = UNWIND_NO_TABLE;
        if (address < held->text_low || address >= held->text_high)
                return;
        place->table = (uint32_t)(held - walk->held);
        place->offset |= address - held->text_low;
        place->size = MIN(place->size, held->text_high - address);
}

/* The part of memory without a file that is an area with rows, or is none, and has @pc. */
static void place_made(HostWalk *walk, uint64_t pc, struct rows_place *place) {
        uint64_t time_ns = walk->stack->time_ns, start = place->start, end = start + place->size;
        const MadeAreas *made = walk->process->made;
        const MadePiece *piece = made_areas_next(made, start, time_ns);

        while (piece && piece->end <= pc) {
                start = piece->end;
                piece = made_areas_next(made, piece->end, time_ns);
        }
        if (piece && piece->start <= pc) {
                start = MAX(start, piece->start);
                end = MIN(end, piece->end);
        } else if (piece) {
                end = MIN(end, piece->start);
                piece = NULL;
        }
        place->start = start;
        place->size = end - start;
        if (piece)
                place_rows(walk, piece->id, start, place);
}

static uint32_t rows_find_place(uint64_t space, uint64_t generation, uint64_t pc,
                                struct rows_place *place) {
        HostWalk *walk = under_way;
        const Mapping *mapping;
        ProcessAnswer answer;
        uint64_t address;

        process_resolve(walk->process, pc, walk->stack->time_ns, &answer);
        mapping = answer.mapping;
        if (!mapping)
                return ABI_STACK_NO_MAPPING;
        if (walk->has_runtime && mapping->kind == MAPPING_ANONYMOUS &&
            !(walk->live && (walk->live->v8 || walk->live->beam)))
                return ABI_STACK_RUNTIME;
        *place = (struct rows_place){ .start = mapping->start,
                                      .size = mapping->end - mapping->start,
                                      .offset = UNWIND_MADE,
                                      .table = UNWIND_NO_TABLE };
        if (mapping->object && (mapping->kind == MAPPING_FILE || mapping->kind == MAPPING_VDSO) &&
            tables_find_address(mapping->object, mapping->offset, &address)) {
                place->offset = 0;
                place_rows(walk, mapping->object->id, address, place);
        } else if (mapping->kind == MAPPING_ANONYMOUS && walk->process->made) {
                place_made(walk, pc, place);
        }
        if (pc - place->start < place->size)
                return 0;
        place->size = 0;
        return ABI_STACK_NO_MAPPING;    /* behind the file's text */
}

/* ---- threads of Python ---- */

static void add_state(HostWalk *walk, const struct python_process *process, uint64_t state) {
        const uint8_t *bytes = walk->python.thread_bytes;
        const uint32_t mask = PYTHON_MAX_THREAD - 1;

        walk->states[walk->n_states++] = (ThreadState){
                .id = python_word(bytes, process->thread_id, mask),
                .state = state,
                .has_frames = python_word(bytes, process->thread_frame, mask),
        };
}

/* Looks once for all threads: a look for each takes as many steps. */
static void read_states(HostWalk *walk, const struct python_process *process) {
        struct python *python = &walk->python;

        python->thread_id = ~0ull;      /* no thread's: the look goes on to the end */
        if (!python_look_begin(python, process))
                return;
        for (unsigned i = 0; i < PYTHON_MAX_THREADS; i++) {
                uint64_t state = python->thread;
                bool goes_on = python_look(python, process);

                if (state && goes_on)
                        add_state(walk, process, state);
                if (!goes_on)
                        return;
        }
}

/* Whether it is the thread's still. */
static bool is_state(const struct python_process *process, uint64_t state, uint64_t thread_id) {
        uint64_t id;

        return state && python_read(state + process->thread_id, &id) && id == thread_id;
}

/* As python_find() in bpf/walk/walk.bpf.h. Return: whether the thread has a state. */
static bool find_states(HostWalk *walk, const struct python_process *process, uint64_t thread_id) {
        struct python *python = &walk->python;

        python->found = 0;
        python->n_states = 0;
        python->has_more = 0;
        for (uint32_t i = 0; i < walk->n_states; i++) {
                const ThreadState *state = &walk->states[i];

                if (state->id != thread_id || !is_state(process, state->state, thread_id))
                        continue;
                python->found = state->state;
                if (state->has_frames)
                        python_add_state(python, state->state);
        }
        return python_look_end(python);
}

/* As python_begin() there. Return: NULL = the thread runs no function of Python. */
static struct python *begin_python(HostWalk *walk, uint64_t pointer) {
        const struct python_process *process = walk->live ? walk->live->python : NULL;
        struct python *python = &walk->python;

        if (!process || !find_states(walk, process, pointer - process->thread_below) ||
            !python_chain_begin(python, process))
                return NULL;
        for (unsigned i = 0; i < PYTHON_MAX_STEPS; i++)
                if (!python_chain_step(python, process))
                        break;
        return python_chain_end(python) ? python : NULL;
}

/* As php_begin() there: a process with Python in it is walked as one. Copies have no frames of PHP. */
static struct python *begin_php(HostWalk *walk) {
        const struct php_process *process = walk->live && !walk->live->python ? walk->live->php : NULL;
        struct python *python = &walk->python;

        if (!process || !walk->live->is_first)
                return NULL;
        walk->rules.is_strict = 1;
        if (!php_chain_begin(python, process))
                return NULL;
        python_chain_place(python, &walk->unwind, &walk->rules);
        for (unsigned i = 0; i < PYTHON_MAX_CHAIN; i++)
                if (!php_chain_step(python, process, walk->rules.registers))
                        break;
        return python_chain_end(python) ? python : NULL;
}

/* As ruby_begin() there. @pointer: the thread's, 0 = not known. */
static struct python *begin_ruby(HostWalk *walk, uint64_t pointer) {
        const struct ruby_process *process = walk->live && pointer ? walk->live->ruby : NULL;
        struct python *python = &walk->python;

        if (!process || walk->live->python || walk->live->php)
                return NULL;
        walk->rules.is_strict = 1;
        if (!ruby_chain_begin(python, process, pointer, walk->unwind.sp))
                return NULL;
        python_chain_place(python, &walk->unwind, &walk->rules);
        for (unsigned i = 0; i < PYTHON_MAX_CHAIN; i++)
                if (!ruby_chain_step(python, process))
                        break;
        return python_chain_end(python) ? python : NULL;
}

/* As beam_expect() there. */
static void expect_beam(HostWalk *walk) {
        if (walk->live && walk->live->beam)
                walk->rules.is_strict = 1;
}

/* As beam_part() there. @pointer: the thread's, 0 = not known. */
static void walk_beam(HostWalk *walk, uint64_t pointer) {
        const struct beam_process *process = walk->live ? walk->live->beam : NULL;
        struct beam *beam = &walk->beam;

        if (!process || !beam_is_met(beam, process, &walk->unwind, &walk->rules, pointer) ||
            !beam_begin(beam, process, &walk->unwind, &walk->rules, walk->frames))
                return;
        for (unsigned i = 0; i < BEAM_MAX_STEPS * BEAM_STEP_WORDS; i++)
                if (!beam_take(beam, process, &walk->unwind, walk->frames))
                        break;
}

/* ---- walks ---- */

int host_walk_new(HostWalk **walkp, const Tables *tables, uint32_t depth) {
        HostWalk *walk = calloc(1, sizeof(*walk));

        if (!walk)
                return error_origin(-ENOMEM);
        walk->tables = tables;
        walk->depth = depth;
        *walkp = walk;
        return 0;
}

void host_walk_release(HostWalk *walk) {
        for (uint32_t i = 0; i < walk->n_held; i++)
                drop_table(&walk->held[i]);
        walk->n_held = walk->next_held = 0;
}

HostWalk *host_walk_free(HostWalk *walk) {
        if (!walk)
                return NULL;
        host_walk_release(walk);
        free(walk);
        return NULL;
}

static void begin(HostWalk *walk, const struct abi_stack *stack) {
        struct unwind *unwind = &walk->unwind;

        unwind_begin(unwind, 0, walk->depth);
        unwind->window.copy = stack;
        unwind->window.is_beyond = false;
        unwind->pc = stack->pc;
        unwind->sp = stack->sp;
        unwind->bp = stack->bp;
        rules_begin(&walk->rules, stack->tgid, ++walk->n_walks, 0);
        walk->rules.bx = stack->bx;
        walk->rules.is_strict = 0;
        memcpy(walk->rules.registers, stack->registers, sizeof(walk->rules.registers));
}

/* A walk that ends for want of a word behind the copy may go further with a longer one. */
static bool is_long(const HostWalk *walk, const struct abi_stack *stack) {
        uint32_t end = walk->unwind.end;

        return (end == ABI_STACK_FAULT || (end == ABI_STACK_RUNTIME && walk->live)) && stack->is_cut &&
                walk->unwind.window.is_beyond;
}

void host_walk_enter(HostWalk *walk, const HostWalkLive *live) {
        walk->live = live;
        walk->n_states = 0;
        if (!live || !live->python)
                return;
        under_way = walk;
        read_states(walk, live->python);
        under_way = NULL;
}

void host_walk_thread(HostWalk *walk, const Process *process, bool has_runtime, const struct abi_stack *stack,
                      const struct abi_thread *thread, HostWalkResult *resultp) {
        struct rows_walk rows = { .unwind = &walk->unwind,
                                  .rules = &walk->rules,
                                  .frames = walk->frames,
                                  .cache = &walk->cache,
                                  .hotspot = walk->live ? walk->live->hotspot : NULL,
                                  .v8 = walk->live ? walk->live->v8 : NULL,
                                  .states = &walk->runtimes };
        uint64_t pointer = thread ? thread->pointer : 0;

        hotspot_begin(&walk->runtimes.hotspot);
        v8_begin(&walk->runtimes.v8);
        walk->process = process;
        walk->has_runtime = has_runtime;
        walk->stack = stack;
        walk->pending = 0;
        walk->thread = thread;
        under_way = walk;
        begin(walk, stack);
        rows.python = begin_python(walk, pointer) ?: begin_php(walk);
        if (!rows.python)
                rows.python = begin_ruby(walk, pointer);
        if (!rows.python)
                expect_beam(walk);
        while (python_step(&rows))
                ;
        walk_beam(walk, pointer);
        under_way = NULL;
        *resultp = (HostWalkResult){ .frames = walk->frames,
                                     .n = walk->unwind.n_frames,
                                     .pending = walk->pending,
                                     .end = is_long(walk, stack) ? ABI_STACK_LONG : walk->unwind.end,
                                     .interrupted = walk->rules.interrupted <= 0xff
                                             ? (uint8_t)walk->rules.interrupted
                                             : 0 };
}

void host_walk(HostWalk *walk, const Process *process, bool has_runtime, const struct abi_stack *stack,
               HostWalkResult *resultp) {
        host_walk_thread(walk, process, has_runtime, stack, NULL, resultp);
}

bool host_walk_waits_for_lock(HostWalk *walk, uint64_t address) {
        bool waits;

        if (!walk->live || !walk->live->python)
                return false;
        under_way = walk;
        waits = python_waits_for_lock(walk->live->python, address);
        under_way = NULL;
        return waits;
}

uint64_t host_walk_lowest(uint64_t sp) {
        return unwind_lowest(sp);
}
