/* SPDX-License-Identifier: Apache-2.0 */

/* Goroutines of a program made by hand, as Go 1.26 lays them out: what counts as one that waits, and when. */

#include <criterion/criterion.h>
#include <string.h>

#include "host/runtime/go/goroutine.h"

enum {
        MEMORY = 0x10000000,
        SIZE = 0x30000,
        ARRAY = 0x40,
        G = 0x200,
        STACK = 0x1000,
        STACK_SIZE = 0x400,
        SP = STACK + 0x380,
        SYSCALL_SP = STACK + 0x300,
        LARGE = 0x8000,                 /* a stack of more than GOROUTINE_MAX_STACK */
        LARGE_SIZE = 0x20000,
        /* offsets in g of Go 1.26 */
        STATUS = 144,
        ID = 152,
        REASON = 176,
        START_PC = 304,
        RUNNABLE = 1,
        RUNNING,
        SYSCALL,
        WAITING,
        DEAD = 6,
        SCAN = 0x1000,
};

static uint8_t memory[SIZE], stack[GOROUTINE_MAX_STACK];
static unsigned n_reads, change_read;   /* at this read, … */
static size_t change_at;                /* … the byte there becomes another one */
static GoGoroutines where;
static Goroutine found;

static int read_memory(void *userdata, uint64_t address, void *to, uint32_t size) {
        uint64_t at = address - MEMORY;

        if (++n_reads == change_read)
                memory[change_at] ^= 1;
        if (at >= SIZE || size > SIZE - at)
                return 1;
        memcpy(to, memory + at, size);
        return 0;
}

static const GoMemory reader = { .read = read_memory };

static void put(size_t at, uint64_t value) {
        memcpy(memory + at, &value, sizeof(value));
}

static void set_status(uint32_t status) {
        memcpy(memory + G + STATUS, &status, sizeof(status));
}

static void setup(void) {
        memset(memory, 0, sizeof(memory));
        n_reads = change_read = 0;
        where = (GoGoroutines){ .minor = 26, .list = MEMORY, .length = MEMORY + 8 };
        cr_assert(go_layout(26, &where.process) && go_goroutine_layout(26, &where.layout));
        put(0, MEMORY + ARRAY);
        put(8, 1);
        put(ARRAY, MEMORY + G);
        put(G + GO_STACK_LOW, MEMORY + STACK);
        put(G + GO_STACK_HIGH, MEMORY + STACK + STACK_SIZE);
        put(G + GO_SP, MEMORY + SP);
        put(G + GO_PC, 0x401005);
        put(G + where.layout.syscall_sp, MEMORY + SYSCALL_SP);
        put(G + where.layout.syscall_sp + 8u, 0x402007);
        put(G + ID, 4711);
        put(G + START_PC, 0x403000);
        memory[G + REASON] = 19;
        memory[SP] = 0x55;
        memory[SYSCALL_SP] = 0x66;
        set_status(WAITING);
}

static int look(uint32_t room) {
        uint64_t list, n;

        cr_assert_eq(goroutines_list(&where, &reader, &list, &n), 0);
        cr_assert_eq(n, 1);
        n_reads = 0;
        return goroutine_read(&where, &reader, list, 0, stack, room, &found);
}

TestSuite(goroutine, .init = setup);

Test(goroutine, one_that_waits_is_where_it_called) {
        cr_assert_eq(look(sizeof(stack)), 0);
        cr_assert_eq(found.id, 4711);
        cr_assert_eq(found.state, GOROUTINE_WAITING);
        cr_assert_str_eq(go_wait_reason(26, found.reason), "chan receive");
        cr_assert_eq(found.pc, 0x401004);
        cr_assert_eq(found.sp, MEMORY + SP);
        cr_assert_eq(found.stack_size, STACK + STACK_SIZE - SP + GOROUTINE_BELOW_SP);
        cr_assert_eq(stack[GOROUTINE_BELOW_SP], 0x55);
        cr_assert_not(found.is_cut);
        cr_assert_eq(found.labels_size, GO_HEADER_SIZE);
}

Test(goroutine, one_in_a_system_call_has_a_place_of_its_own) {
        set_status(SYSCALL);
        cr_assert_eq(look(sizeof(stack)), 0);
        cr_assert_eq(found.state, GOROUTINE_SYSCALL);
        cr_assert_eq(found.pc, 0x402006);
        cr_assert_eq(found.sp, MEMORY + SYSCALL_SP);
        cr_assert_eq(stack[GOROUTINE_BELOW_SP], 0x66);
}

Test(goroutine, one_that_has_never_run_is_at_its_first_instruction) {
        set_status(RUNNABLE);
        put(G + GO_PC, 0x403000);
        cr_assert_eq(look(sizeof(stack)), 0);
        cr_assert_eq(found.state, GOROUTINE_RUNNABLE);
        cr_assert_eq(found.pc, 0x403000);
}

Test(goroutine, others_are_none) {
        static const struct {
                uint32_t status;
                int result;
        } cases[] = {
                { 0, GOROUTINE_E_FREE },        { RUNNING, GOROUTINE_E_RUNNING },
                { DEAD, GOROUTINE_E_FREE },     { SCAN | RUNNING, GOROUTINE_E_RUNNING },
                { 8, GOROUTINE_E_MOVED },       { SCAN | WAITING, GOROUTINE_E_MOVED },
                { 11, GOROUTINE_E_FREE },       { 12, GOROUTINE_E_UNREADABLE },
                { 1 << 30, GOROUTINE_E_UNREADABLE },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                set_status(cases[i].status);
                cr_assert_eq(look(sizeof(stack)), cases[i].result, "%#x", cases[i].status);
        }
}

/* Whatever changes between two reads is seen, and it is read again. */
Test(goroutine, one_that_moves_once_is_read_again) {
        static const size_t places[] = { G + GO_SP + 4, G + GO_PC, G + ID, G + STATUS, G + REASON,
                                         G + GO_STACK_LOW, SP, SP + 0x40 };

        for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
                setup();
                change_at = places[i];
                change_read = 3;                /* the array, g, the stack: when it has read them */
                cr_assert_neq(look(sizeof(stack)), GOROUTINE_E_MOVED);
                cr_assert_gt(n_reads, 4, "place %zu", i);
        }
}

Test(goroutine, a_stack_that_changes_behind_an_equal_g_has_moved) {
        unsigned n_whole;

        cr_assert_eq(look(sizeof(stack)), 0);
        n_whole = n_reads;
        change_at = SP + 0x20;
        change_read = 5;                        /* array, g, stack, g again, stack again */
        cr_assert_eq(look(sizeof(stack)), 0);
        cr_assert_eq(n_reads, 2 * n_whole - 1, "it was read again");
        cr_assert_eq(stack[0x20], memory[SP + 0x20]);
}

Test(goroutine, bounds) {
        put(G + GO_SP, MEMORY + STACK - 8);
        cr_assert_eq(look(sizeof(stack)), GOROUTINE_E_UNREADABLE);
        put(G + GO_SP, MEMORY + STACK + STACK_SIZE);
        cr_assert_eq(look(sizeof(stack)), GOROUTINE_E_UNREADABLE);
        put(G + GO_SP, MEMORY + SP + 4);
        cr_assert_eq(look(sizeof(stack)), GOROUTINE_E_UNREADABLE);
        put(G + GO_SP, MEMORY + SP);
        cr_assert_eq(look(64), GOROUTINE_E_ROOM);
        put(G + ID, 0);
        cr_assert_eq(look(sizeof(stack)), GOROUTINE_E_UNREADABLE);
        put(ARRAY, MEMORY + SIZE);
        cr_assert_eq(look(sizeof(stack)), GOROUTINE_E_UNREADABLE);
}

Test(goroutine, a_large_stack_is_cut) {
        put(G + GO_STACK_LOW, MEMORY + LARGE);
        put(G + GO_STACK_HIGH, MEMORY + LARGE + LARGE_SIZE);
        put(G + GO_SP, MEMORY + LARGE + 16);
        cr_assert_eq(look(sizeof(stack)), 0);
        cr_assert(found.is_cut);
        cr_assert_eq(found.stack_size, GOROUTINE_MAX_STACK);
}

Test(goroutine, lists_that_are_none) {
        uint64_t list = 77, n = 77;

        put(8, UINT64_C(1) << 60);
        cr_assert_eq(goroutines_list(&where, &reader, &list, &n), GOROUTINE_E_UNREADABLE);
        put(8, 1);
        put(0, MEMORY + ARRAY + 1);
        cr_assert_eq(goroutines_list(&where, &reader, &list, &n), GOROUTINE_E_UNREADABLE);
        where.list = 0;
        cr_assert_eq(goroutines_list(&where, &reader, &list, &n), GOROUTINE_E_UNREADABLE);
        cr_assert_eq(list, 77, "outputs stay as they were");
        cr_assert_eq(n, 77);
}

Test(goroutine, words_of_each_release) {
        cr_assert_str_eq(go_wait_reason(18, 14), "chan receive");
        cr_assert_str_eq(go_wait_reason(19, 21), "timer goroutine (idle)");
        cr_assert_str_eq(go_wait_reason(20, 21), "sync.Mutex.Lock");
        cr_assert_str_eq(go_wait_reason(26, 22), "sync.Mutex.Lock");
        cr_assert_str_eq(go_wait_reason(26, 200), "");
}
