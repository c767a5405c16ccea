/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The kernel half's walk (bpf/rules.bpf.h, bpf/rows.bpf.h) compiled for the host: one set of rules, so that a
 * stack is the same whichever half has walked it. What the kernel half reaches by maps and helpers is put
 * under it here:
 *
 *     kernel half                      here
 *     stack window, probe reads        the copy: a word outside of it cannot be read
 *     node of the process              process_resolve(): what was mapped when the sample was taken
 *     table of rows in a map           the same map, mapped into our memory
 *     cache of rules, kept             the same, of one walk: the mappings of the next may be others
 *     generation of the node           a number for each walk
 *     state of runtimes in maps        what the caller has read of them, for a thread that stands still
 *
 * An example: a program of 20 ms was sampled 9 ms after its exec.
 *
 *     sample   pc 55..1234, ABI_STACK_PENDING, with a copy of 3 KiB
 *     walk     55..1234 lies in the program, whose table is on its way: PENDING, and nothing is delivered
 *     (8 ms)   the table is in the kernel
 *     walk     55..1234 ─▶ 55..1310 ─▶ libc+27249 ─▶ _start: COMPLETE, though the process is gone
 *
 * Of a copy nothing but the stack is there, so frames of runtimes end its walk. A thread that stands still
 * has all of its memory, and the walks over Java and Python (bpf/hotspot.bpf.h, bpf/python.bpf.h) read it.
 *
 * The bytes come from a target. The rules check each address that they make of them, and every read is
 * checked against the copy.
 */

#include "sampling/unwind/host-walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/util/error.h"
#include "unwind_abi.h"

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
struct window {
        uint64_t n_valid, n_words;      /* not used here */
        const struct abi_stack *copy;
        bool is_beyond;                 /* a word behind the copy was asked for */
};

static bool window_read_word(struct window *window, uint64_t address, uint64_t *valuep) {
        const struct abi_stack *copy = window->copy;
        uint64_t offset = address - copy->address;

        if (address & 7)
                return false;
        if (offset >= copy->n_bytes) {
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

/* Of a copy: asked for code alone (the restorer of musl's signal handlers), which was not copied. */
static long bpf_probe_read_user(void *to, uint32_t size, const void *from);

static const uint8_t *rows_block(uint32_t table, uint32_t block);
static uint64_t rows_rule(uint32_t table, uint64_t offset);

/* Nodes are the kernel's. */
static inline const struct unwind_node *rows_leaf(uint32_t tgid, uint32_t leaf) {
        return NULL;
}

#include "unwind.bpf.h"

#define rows_find_place rows_find_place_in_nodes
#include "rows.bpf.h"
#undef rows_find_place

static uint32_t rows_find_place(const struct unwind_node *root, uint32_t tgid, uint64_t generation,
                                uint64_t pc, struct rows_place *place);

#include "rules.bpf.h"

static inline struct rows_cache *hotspot_cache(void);

#include "hotspot-code.bpf.h"
#include "hotspot.bpf.h"
#include "python.bpf.h"

static inline bool rules_hotspot(const struct rows_walk *walk) {
        struct hotspot_step step = { .unwind = walk->unwind, .rules = walk->rules, .process = walk->hotspot,
                                     .state = walk->state, .frames = (struct hotspot_words *)walk->frames };

        return hotspot_do_step(&step);
}

static inline bool python_write_one(const struct rows_walk *walk) {
        return python_write(walk->unwind, walk->python, walk->frames);
}

struct HostWalk {
        const Tables *tables;
        uint32_t depth;
        uint64_t n_walks;
        const Process *process;         /* of the walk under way, like the next two */
        bool has_runtime;
        const struct abi_stack *stack;
        const HostMemory *memory;       /* of a thread that stands still; NULL = the copy is all there is */
        HostTable held[MAX_TABLES];
        uint32_t n_held, next_held;
        struct unwind unwind;
        struct rules rules;
        struct rows_cache cache;
        struct hotspot hotspot;
        struct python python;
        uint64_t frames[UNWIND_MAX_FRAMES];
};

/* The rules know of no walk but theirs. */
static _Thread_local HostWalk *under_way;

static long bpf_probe_read_user(void *to, uint32_t size, const void *from) {
        const HostMemory *memory = under_way->memory;

        if (memory && !memory->read(memory->userdata, (uint64_t)(uintptr_t)from, to, size))
                return 0;
        memset(to, 0, size);
        return -EFAULT;
}

static inline struct rows_cache *hotspot_cache(void) {
        return &under_way->cache;
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

/* What stands for the rows of @object, and for how much of the mapping. */
static void place_object(HostWalk *walk, const Object *object, uint64_t address, struct rows_place *place) {
        HostTable *held = find_held(walk, object->id);
        TablesRows rows;

        if (!held) {
                place->table = tables_find_rows(walk->tables, object->id, &rows);
                if (place->table < UNWIND_MAX_TABLES)
                        held = hold_table(walk, object->id, &rows);
                if (!held) {
                        if (place->table < UNWIND_MAX_TABLES)
                                place->table = UNWIND_LOST_TABLE;
                        return;
                }
        }
        place->table = UNWIND_NO_TABLE;
        if (address < held->text_low || address >= held->text_high)
                return;
        place->table = (uint32_t)(held - walk->held);
        place->offset = address - held->text_low;
        place->size = MIN(place->size, held->text_high - address);
}

static uint32_t rows_find_place(const struct unwind_node *root, uint32_t tgid, uint64_t generation,
                                uint64_t pc, struct rows_place *place) {
        HostWalk *walk = under_way;
        const Mapping *mapping;
        ProcessAnswer answer;
        uint64_t address;

        process_resolve(walk->process, pc, walk->stack->time_ns, &answer);
        mapping = answer.mapping;
        if (!mapping)
                return ABI_STACK_NO_MAPPING;
        if (walk->has_runtime && mapping->kind == MAPPING_ANONYMOUS)
                return ABI_STACK_RUNTIME;
        *place = (struct rows_place){ .start = mapping->start,
                                      .size = mapping->end - mapping->start,
                                      .table = UNWIND_NO_TABLE };
        if (mapping->object && (mapping->kind == MAPPING_FILE || mapping->kind == MAPPING_VDSO) &&
            tables_find_address(mapping->object, mapping->offset, &address))
                place_object(walk, mapping->object, address, place);
        if (pc - place->start < place->size)
                return 0;
        place->size = 0;
        return ABI_STACK_NO_MAPPING;    /* behind the file's text */
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
        memcpy(walk->rules.registers, stack->registers, sizeof(walk->rules.registers));
}

/* As python_begin() of bpf/walk.bpf.h. Return: NULL = this thread runs no function of Python. */
static struct python *begin_python(HostWalk *walk, const struct python_process *process, uint64_t pointer) {
        struct python *python = &walk->python;

        python->thread_pointer = pointer;
        python->found = 0;
        if (python_look_begin(python, process))
                for (unsigned i = 0; i < PYTHON_MAX_THREADS && python_look(python, process); i++)
                        ;
        if (!python->found || !python_chain_begin(python, process))
                return NULL;
        for (unsigned i = 0; i <= PYTHON_MAX_CHAIN && python_chain_step(python, process); i++)
                ;
        return python->n_frames ? python : NULL;
}

void host_walk(HostWalk *walk, const Process *process, bool has_runtime, const HostMemory *memory,
               const struct abi_stack *stack, HostWalkResult *resultp) {
        struct rows_walk rows = { .unwind = &walk->unwind, .rules = &walk->rules, .frames = walk->frames,
                                  .cache = &walk->cache, .state = &walk->hotspot };
        uint32_t end;

        walk->process = process;
        walk->has_runtime = has_runtime;
        walk->stack = stack;
        walk->memory = memory;
        under_way = walk;
        begin(walk, stack);
        rows.hotspot = memory ? memory->hotspot : NULL;
        if (memory && memory->python)
                rows.python = begin_python(walk, memory->python, memory->thread_pointer);
        while (python_step(&rows))
                ;
        under_way = NULL;
        walk->memory = NULL;
        end = walk->unwind.end;
        /* A walk over Java that lacks a word of the stack says that the runtime ended it. */
        if ((end == ABI_STACK_FAULT || (end == ABI_STACK_RUNTIME && memory)) && stack->is_cut &&
            walk->unwind.window.is_beyond)
                end = ABI_STACK_LONG;
        *resultp = (HostWalkResult){ .frames = walk->frames,
                                     .n = walk->unwind.n_frames,
                                     .end = end,
                                     .interrupted = walk->rules.interrupted <= 0xff
                                             ? (uint8_t)walk->rules.interrupted
                                             : 0 };
}

size_t host_walk_bytes(const HostWalk *walk) {
        size_t sum = 0;

        for (uint32_t i = 0; i < walk->n_held; i++)
                sum += walk->held[i].size;
        return sum;
}
