/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Go keeps all goroutines in one array, runtime.allgs, which only grows. A g is never freed: one that ends
 * is used again for the next. One that does not run has left where it goes on in its g:
 *
 *     allglen   3
 *     allgptr ─▶ [ g, g, g ]                      status    where it goes on
 *                  │                              waiting   sched.pc, sp, bp     behind a call in gopark
 *                  ▼                              syscall   syscallpc, sp, bp    behind a call
 *                g { stack.lo, stack.hi, sched, … status, goid, waitreason, labels }
 *
 * Others may run it, or move its stack, at any time. So it is read twice, and counts if nothing has changed:
 *
 *     g ─▶ stack ─▶ labels ─▶ g again: the same? ─▶ stack again: the same? ─▶ it has stood
 *
 * If it has run in between and waits in the same place again, its g may be the same, and a part of the
 * first copy be of before. The second copy tells: its return addresses would be others.
 *
 * A pc behind a call becomes that of the call, as in all callers of a sample. One that has never run is at
 * the first instruction of its function, where no call is in front.
 */
#include "host/runtime/go/goroutine.h"

#include <errno.h>
#include <string.h>

#include "core/base/util/macro.h"

enum {
        MAX_G = 512,                    /* bytes of a g that are read */
        COMPARED = 4096,                /* bytes that are compared at once */
        /* values of g.atomicstatus */
        STATUS_RUNNABLE = 1,
        STATUS_RUNNING = 2,
        STATUS_SYSCALL = 3,
        STATUS_WAITING = 4,
        STATUS_COPYING = 8,
        STATUS_PREEMPTED = 9,
        STATUS_LEAKED = 10,
        STATUS_LAST = 11,
        STATUS_SCAN = 0x1000,           /* the collector has it, and may move its stack */
};

#define MAX_ADDRESS (UINT64_C(1) << 47)
#define MAX_STACK_BYTES (UINT64_C(1) << 31)     /* Go's own limit is 1 GB */

/* ---- labels: the lines of the kernel half, on the host ---- */

#define barrier_var(_var) __asm__ volatile("" : "+r"(_var))

static _Thread_local const GoMemory *under_way;

static long bpf_probe_read_user(void *to, uint32_t size, const void *from) {
        if (!under_way->read(under_way->userdata, (uint64_t)(uintptr_t)from, to, size))
                return 0;
        memset(to, 0, size);            /* as the helper does */
        return -EFAULT;
}

#include "host/runtime/go/go-host.h"

static void read_labels(const GoGoroutines *where, const GoMemory *memory, uint64_t labels,
                        Goroutine *goroutine) {
        struct go_state state = { .size = GO_HEADER_SIZE };

        memcpy(state.bytes, &goroutine->id, sizeof(goroutine->id));
        under_way = memory;
        if (labels && where->process.form == GO_LABELS_MAP)
                go_from_map(&state, labels);
        else if (labels)
                go_from_slice(&state, labels);
        under_way = NULL;
        goroutine->labels_size = (uint16_t)MIN(state.size, (uint64_t)ABI_MAX_ATTRIBUTES_SIZE);
        memcpy(goroutine->labels, state.bytes, goroutine->labels_size);
}

/* ---- the g ---- */

/* What must not change while it is read. */
typedef struct G {
        uint64_t low, high;
        uint64_t pc, sp, bp, start_pc;
        uint64_t id, labels;
        uint32_t status;
        uint32_t reason;
} G;

static uint64_t word_at(const uint8_t *bytes, uint32_t offset) {
        uint64_t word = 0;

        if (offset + sizeof(word) <= MAX_G)
                memcpy(&word, bytes + offset, sizeof(word));
        return word;
}

static void take_place(const GoGoroutineLayout *layout, const uint8_t *bytes, G *g) {
        bool is_syscall = g->status == STATUS_SYSCALL;

        g->sp = word_at(bytes, is_syscall ? layout->syscall_sp : GO_SP);
        g->pc = word_at(bytes, is_syscall ? layout->syscall_sp + 8u : GO_PC);
        g->bp = word_at(bytes, is_syscall ? layout->syscall_bp : layout->bp);
        if (is_syscall && !layout->syscall_bp)
                g->bp = 0;
}

static int read_g(const GoGoroutines *where, const GoMemory *memory, uint64_t address, G *g) {
        uint32_t size = MIN(where->process.labels + 8u, (uint32_t)MAX_G);
        uint8_t bytes[MAX_G] = { 0 };

        if (!address || address % 8 || address >= MAX_ADDRESS ||
            memory->read(memory->userdata, address, bytes, size))
                return GOROUTINE_E_UNREADABLE;
        *g = (G){ .low = word_at(bytes, GO_STACK_LOW),
                  .high = word_at(bytes, GO_STACK_HIGH),
                  .start_pc = word_at(bytes, where->layout.start_pc),
                  .id = word_at(bytes, where->process.goid),
                  .labels = word_at(bytes, where->process.labels),
                  .status = (uint32_t)word_at(bytes, where->layout.status),
                  .reason = (uint8_t)word_at(bytes, where->layout.reason) };
        take_place(&where->layout, bytes, g);
        return 0;
}

static int judge_status(uint32_t status) {
        switch (status) {
        case STATUS_RUNNABLE:
        case STATUS_SYSCALL:
        case STATUS_WAITING:
        case STATUS_PREEMPTED:
        case STATUS_LEAKED:
                return 0;
        case STATUS_RUNNING:
        case STATUS_SCAN | STATUS_RUNNING:
                return GOROUTINE_E_RUNNING;
        case STATUS_COPYING:
                return GOROUTINE_E_MOVED;
        default:
                if ((status & ~(uint32_t)STATUS_SCAN) > STATUS_LAST)
                        return GOROUTINE_E_UNREADABLE;
                return status & STATUS_SCAN ? GOROUTINE_E_MOVED : GOROUTINE_E_FREE;
        }
}

static bool is_plausible(const G *g) {
        return g->id && !(g->id >> 62) && g->low < g->high && g->high < MAX_ADDRESS &&
                g->high - g->low <= MAX_STACK_BYTES && !(g->high % 8) &&
                g->sp >= g->low + GOROUTINE_BELOW_SP && g->sp < g->high && !(g->sp % 8) && g->pc &&
                g->pc < MAX_ADDRESS;
}

static GoroutineState state_of(uint32_t status) {
        return status == STATUS_SYSCALL ? GOROUTINE_SYSCALL
                : status == STATUS_RUNNABLE || status == STATUS_PREEMPTED ? GOROUTINE_RUNNABLE
                                                                          : GOROUTINE_WAITING;
}

/* ---- the stack ---- */

static bool is_same_memory(const GoMemory *memory, uint64_t address, const uint8_t *bytes, uint32_t size) {
        uint8_t again[COMPARED];

        for (uint32_t at = 0, n; at < size; at += n) {
                n = MIN(size - at, (uint32_t)COMPARED);
                if (memory->read(memory->userdata, address + at, again, n) || memcmp(again, bytes + at, n))
                        return false;
        }
        return true;
}

/* Return: 0, GOROUTINE_E_ROOM. */
static int measure_stack(const G *g, uint32_t room, Goroutine *goroutine) {
        uint64_t all = g->high - g->sp + GOROUTINE_BELOW_SP, size = MIN(all, (uint64_t)GOROUTINE_MAX_STACK);

        goroutine->is_cut = size < all;
        goroutine->stack_size = (uint32_t)size;
        return size > room ? GOROUTINE_E_ROOM : 0;
}

/* Whether nothing has happened to it since it was read. */
static bool has_stood(const GoGoroutines *where, const GoMemory *memory, uint64_t address, const G *before,
                      const uint8_t *stack, uint32_t size) {
        G after;

        return !read_g(where, memory, address, &after) && !memcmp(before, &after, sizeof(after)) &&
                is_same_memory(memory, before->sp - GOROUTINE_BELOW_SP, stack, size);
}

static int try_read(const GoGoroutines *where, const GoMemory *memory, uint64_t address, uint8_t *stack,
                    uint32_t room, Goroutine *goroutine) {
        G g;
        int r = read_g(where, memory, address, &g);

        if (!r)
                r = judge_status(g.status);
        if (r)
                return r;
        /* between two states it has left no place to go on */
        if (!is_plausible(&g))
                return has_stood(where, memory, address, &g, stack, 0) ? GOROUTINE_E_UNREADABLE
                                                                       : GOROUTINE_E_MOVED;
        *goroutine = (Goroutine){ .id = g.id, .pc = g.pc - (g.pc != g.start_pc), .sp = g.sp, .bp = g.bp,
                                  .state = state_of(g.status), .reason = (uint8_t)g.reason };
        r = measure_stack(&g, room, goroutine);
        if (r)
                return r;
        r = memory->read(memory->userdata, g.sp - GOROUTINE_BELOW_SP, stack, goroutine->stack_size);
        if (!r)
                read_labels(where, memory, g.labels, goroutine);
        if (!has_stood(where, memory, address, &g, stack, r ? 0 : goroutine->stack_size))
                return GOROUTINE_E_MOVED;
        return r ? GOROUTINE_E_UNREADABLE : 0;
}

int goroutine_read(const GoGoroutines *where, const GoMemory *memory, uint64_t list, uint64_t index,
                   uint8_t *stack, uint32_t room, Goroutine *goroutine) {
        uint64_t address;
        int r = GOROUTINE_E_MOVED;

        if (memory->read(memory->userdata, list + index * 8, &address, sizeof(address)))
                return GOROUTINE_E_UNREADABLE;
        for (unsigned i = 0; i < GOROUTINE_MAX_TRIES && r == GOROUTINE_E_MOVED; i++)
                r = try_read(where, memory, address, stack, room, goroutine);
        return r;
}

/* Go writes a longer array first and its length then, so that the length is read first. */
int goroutines_list(const GoGoroutines *where, const GoMemory *memory, uint64_t *listp, uint64_t *np) {
        uint64_t n, list;

        if (!where->list || !where->length ||
            memory->read(memory->userdata, where->length, &n, sizeof(n)) ||
            memory->read(memory->userdata, where->list, &list, sizeof(list)) || n > GOROUTINES_MAX ||
            list % 8 || list >= MAX_ADDRESS)
                return GOROUTINE_E_UNREADABLE;
        *listp = list;
        *np = list ? n : 0;
        return 0;
}
