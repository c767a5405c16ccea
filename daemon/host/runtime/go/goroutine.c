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
#include <stdbool.h>
#include <stddef.h>
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

/* Fields that must not change while the goroutine is read. */
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

/* ---- what it waits for ---- */

/*
 * The numbers are those of the order in which runtime2.go lists the reasons. Releases add reasons in between,
 * and Go 1.26 has put them into another order. A test compares both lists with the source of each release
 * (tests/integration/host/runtime/test-long-run-go-labels.py). For example, in Go 1.19:
 *
 *     0 ""  1 "GC assist marking"  2 "IO wait"  …  20 "sync.Cond.Wait"  21 "timer goroutine (idle)"
 */
enum { REORDERED_MINOR = 26, NO_END = 255 };

typedef struct Reason {
        const char *words;
        uint8_t first, last;            /* minor versions that have it; 0, 0 = all */
} Reason;

static const Reason until_25[] = {
        { "", 0, 0 },
        { "GC assist marking", 0, 0 },
        { "IO wait", 0, 0 },
        { "chan receive (nil chan)", 0, 0 },
        { "chan send (nil chan)", 0, 0 },
        { "dumping heap", 0, 0 },
        { "garbage collection", 0, 0 },
        { "garbage collection scan", 0, 0 },
        { "panicwait", 0, 0 },
        { "select", 0, 0 },
        { "select (no cases)", 0, 0 },
        { "GC assist wait", 0, 0 },
        { "GC sweep wait", 0, 0 },
        { "GC scavenge wait", 0, 0 },
        { "chan receive", 0, 0 },
        { "chan send", 0, 0 },
        { "finalizer wait", 0, 0 },
        { "force gc (idle)", 0, 0 },
        { "GOMAXPROCS updater (idle)", 25, NO_END },
        { "semacquire", 0, 0 },
        { "sleep", 0, 0 },
        { "sync.Cond.Wait", 0, 0 },
        { "timer goroutine (idle)", 0, 19 },
        { "sync.Mutex.Lock", 20, NO_END },
        { "sync.RWMutex.RLock", 20, NO_END },
        { "sync.RWMutex.Lock", 20, NO_END },
        { "sync.WaitGroup.Wait", 24, NO_END },
        { "trace reader (blocked)", 0, 0 },
        { "wait for GC cycle", 0, 0 },
        { "GC worker (idle)", 0, 0 },
        { "GC worker (active)", 20, NO_END },
        { "preempted", 0, 0 },
        { "debug call", 0, 0 },
        { "GC mark termination", 20, NO_END },
        { "stopping the world", 20, NO_END },
        { "flushing proc caches", 22, NO_END },
        { "trace goroutine status", 22, NO_END },
        { "trace proc status", 22, NO_END },
        { "page trace flush", 22, NO_END },
        { "coroutine", 22, NO_END },
        { "GC weak to strong wait", 23, NO_END },
        { "synctest.Run", 24, NO_END },
        { "synctest.Wait", 24, NO_END },
        { "chan receive (synctest)", 24, 24 },
        { "chan send (synctest)", 24, 24 },
        { "select (synctest)", 24, 24 },
        { "chan receive (durable)", 25, NO_END },
        { "chan send (durable)", 25, NO_END },
        { "select (durable)", 25, NO_END },
        { "sync.WaitGroup.Wait (durable)", 25, NO_END },
        { "cleanup wait", 25, NO_END },
};

static const Reason from_26[] = {
        { "", 0, 0 },
        { "GC assist marking", 0, 0 },
        { "IO wait", 0, 0 },
        { "dumping heap", 0, 0 },
        { "garbage collection", 0, 0 },
        { "garbage collection scan", 0, 0 },
        { "panicwait", 0, 0 },
        { "GC assist wait", 0, 0 },
        { "GC sweep wait", 0, 0 },
        { "GC scavenge wait", 0, 0 },
        { "finalizer wait", 0, 0 },
        { "force gc (idle)", 0, 0 },
        { "GOMAXPROCS updater (idle)", 0, 0 },
        { "semacquire", 0, 0 },
        { "sleep", 0, 0 },
        { "chan receive (nil chan)", 0, 0 },
        { "chan send (nil chan)", 0, 0 },
        { "select (no cases)", 0, 0 },
        { "select", 0, 0 },
        { "chan receive", 0, 0 },
        { "chan send", 0, 0 },
        { "sync.Cond.Wait", 0, 0 },
        { "sync.Mutex.Lock", 0, 0 },
        { "sync.RWMutex.RLock", 0, 0 },
        { "sync.RWMutex.Lock", 0, 0 },
        { "sync.WaitGroup.Wait", 0, 0 },
        { "trace reader (blocked)", 0, 0 },
        { "wait for GC cycle", 0, 0 },
        { "GC worker (idle)", 0, 0 },
        { "GC worker (active)", 0, 0 },
        { "preempted", 0, 0 },
        { "debug call", 0, 0 },
        { "GC mark termination", 0, 0 },
        { "stopping the world", 0, 0 },
        { "flushing proc caches", 0, 0 },
        { "trace goroutine status", 0, 0 },
        { "trace proc status", 0, 0 },
        { "page trace flush", 0, 0 },
        { "coroutine", 0, 0 },
        { "GC weak to strong wait", 0, 0 },
        { "synctest.Run", 0, 0 },
        { "synctest.Wait", 0, 0 },
        { "chan receive (durable)", 0, 0 },
        { "chan send (durable)", 0, 0 },
        { "select (durable)", 0, 0 },
        { "sync.WaitGroup.Wait (durable)", 0, 0 },
        { "cleanup wait", 0, 0 },
};

static bool has(const Reason *reason, uint32_t minor) {
        return !reason->last || (minor >= reason->first && minor <= reason->last);
}

static const char *find(const Reason *reasons, size_t n, uint32_t minor, uint8_t number) {
        unsigned at = 0;

        for (size_t i = 0; i < n; i++)
                if (has(&reasons[i], minor) && at++ == number)
                        return reasons[i].words;
        return "";
}

const char *go_wait_reason(uint32_t minor, uint8_t number) {
        if (minor >= REORDERED_MINOR)
                return find(from_26, ARRAY_SIZE(from_26), minor, number);
        return find(until_25, ARRAY_SIZE(until_25), minor, number);
}
