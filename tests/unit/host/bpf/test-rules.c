/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The lines of bpf/walk/rows.bpf.h and bpf/walk/rules.bpf.h themselves, on tables, stacks and
 * mappings made by hand.
 */

#include <criterion/criterion.h>
#include <stdlib.h>

#include "shim/bpf-shim.h"
#include "shim/rows-shim.h"

#include "core/base/util/macro.h"
#include "host/sampling/unwind/tables/rows.h"

enum {
        STACK = 0x7ffe0000,
        N_WORDS = 4096,
        LOW = 0x1000,                   /* text_low of the file */
        TEXT = 0x55000000,              /* where it is mapped */
        PAGES = 16,
        JIT = 0x66000000,               /* executable memory without rows */
        OTHER = 0x77000000,             /* in no mapping */
        GENERATION = 7,
        /* Functions: offsets of their starts; each 0x100 long. */
        F_RSP = 0x000,                  /* CFA = rsp + 16 */
        F_END = 0x100,
        F_RBP = 0x200,                  /* CFA = rbp + 16, rbp at CFA - 16 */
        F_RBX = 0x300,                  /* CFA = rbx + 32, rbx at CFA - 24 */
        F_DEREF_RSP = 0x400,            /* CFA = *(rsp + 16) + 8 */
        F_DEREF_RBP = 0x500,            /* CFA = *(rbp - 8), rbp at *(rbp) */
        F_PLT = 0x600,                  /* limit 11 */
        F_SIGNAL = 0x700,
        F_BAD = 0x800,
        F_REGISTER = 0x900,             /* CFA = r10 + 8 */
        F_LOST = 0xa00,                 /* CFA = rsp + 16, rbp and rbx lost */
        F_HUGE = 0xb00,                 /* CFA = rsp + 2^31 - 8 */
        F_BACK = 0xc00,                 /* CFA = rsp - 16 */
        F_ODD = 0xd00,                  /* CFA = rsp + 12 */
        F_SELF = 0xe00,                 /* CFA = rsp */
        F_NONE = 0xf00,                 /* a gap */
        F_RETURN = 0x1000,              /* CFA = rsp, return address in rcx */
        F_RETURN_ODD = 0x1100,          /* CFA = rsp - 8, return address in rcx */
        F_INDEXED = 0x1200,             /* CFA = *(rsp + 8 r9 + 8) + 8 */
        F_LAND_REGISTER = 0x1300,       /* the landing rules: CFA = rcx + 8 */
        F_LAND_RSP = 0x1400,            /* CFA = rsp + 8 */
        F_LAND_RETURN = 0x1500,         /* CFA = rsp, return address in rcx */
        F_LAND_SUM = 0x1600,            /* CFA = rbp + rcx + 16 */
        F_SWITCH = 0x1700,              /* CFA = rbp + 16 on another stack, rbp at CFA - 16 */
        F_GOROUTINE = 0x1800,
        F_DEREF_TWICE = 0x1900,         /* CFA = *(*(rsp + 16) + 24) + 8 */
        F_END_OF_ALL = 0x1a00,
};

static uint64_t words[N_WORDS];
static uint8_t text[F_END_OF_ALL];
static uint64_t frames[UNWIND_MAX_FRAMES];
static struct unwind unwind;
static struct rules rules;
static struct rows_cache cache;
static Rows rows;

static void add(uint64_t function, uint64_t rule) {
        cr_assert_eq(rows_add(&rows, LOW + function, rule), 0);
}

static void map(struct unwind_mapping *mappings, uint32_t n) {
        uint32_t n_left_out, n_now = nodes_fit(mappings, n, &n_left_out);

        cr_assert_eq(n_left_out, 0);
        nodes_build(&shim_nodes, mappings, n_now, GENERATION);
}

static void set_jit_table(uint32_t table) {
        cr_assert_eq(shim_nodes.nodes[0].mappings[1].start, JIT);
        shim_nodes.nodes[0].mappings[1].table = table;
        memset(&rules.place, 0, sizeof(rules.place));
        memset(&cache, 0, sizeof(cache));
}

static void setup(void) {
        struct unwind_mapping mappings[] = {
                { .start = TEXT, .n_pages = PAGES, .table = 3, .offset = 0 },
                { .start = JIT, .n_pages = 1, .table = UNWIND_NO_TABLE },
        };

        cr_assert_eq(rows_init(&rows, LOW, LOW + PAGES * UNWIND_PAGE_SIZE, 1 << 20), 0);
        add(F_RSP, unwind_rule(UNWIND_CFA_RSP, 16, 0, 0, 0));
        add(F_END, unwind_rule(UNWIND_CFA_END, 0, 0, 0, 0));
        add(F_RBP, unwind_rule(UNWIND_CFA_RBP, 16, UNWIND_RBP_AT_CFA, -16, 0));
        add(F_RBX, unwind_rule(UNWIND_CFA_RBX, 32, 0, 0, 3));
        add(F_DEREF_RSP, unwind_rule(UNWIND_CFA_DEREF_RSP, 16 << 8 | 8, 0, 0, 0));
        add(F_DEREF_RBP,
            unwind_rule(UNWIND_CFA_DEREF_RBP, (int32_t)((uint32_t)-8 << 8), UNWIND_RBP_AT_RBP, 0, 0));
        add(F_PLT, unwind_rule(UNWIND_CFA_PLT, 11, 0, 0, 0));
        add(F_SIGNAL, unwind_rule(UNWIND_CFA_SIGNAL, 0, 0, 0, 0));
        add(F_BAD, unwind_rule(UNWIND_CFA_BAD, 0, 0, 0, 0));
        add(F_REGISTER, unwind_rule(UNWIND_CFA_REGISTER + 10, 8, 0, 0, 0));
        add(F_LOST, unwind_rule(UNWIND_CFA_RSP, 16, UNWIND_RBP_LOST, 0, UNWIND_RBX_LOST));
        add(F_HUGE, unwind_rule(UNWIND_CFA_RSP, INT32_MAX - 7, 0, 0, 0));
        add(F_BACK, unwind_rule(UNWIND_CFA_RSP, -16, 0, 0, 0));
        add(F_ODD, unwind_rule(UNWIND_CFA_RSP, 12, 0, 0, 0));
        add(F_SELF, unwind_rule(UNWIND_CFA_RSP, 0, 0, 0, 0));
        add(F_NONE, 0);
        add(F_RETURN, unwind_rule(UNWIND_CFA_RETURN + 2, 0, 0, 0, 0));
        add(F_RETURN_ODD, unwind_rule(UNWIND_CFA_RETURN + 2, -8, 0, 0, 0));
        add(F_INDEXED, unwind_rule(UNWIND_CFA_INDEXED + 9, 8 << 8 | 8, 0, 0, 0));
        add(F_LAND_REGISTER, unwind_rule(UNWIND_CFA_LANDING + UNWIND_CFA_REGISTER + 2, 8, 0, 0, 0));
        add(F_LAND_RSP, unwind_rule(UNWIND_CFA_LANDING + UNWIND_CFA_RSP, 8, 0, 0, 0));
        add(F_LAND_RETURN, unwind_rule(UNWIND_CFA_LANDING + UNWIND_CFA_RETURN + 2, 0, 0, 0, 0));
        add(F_LAND_SUM, unwind_rule(UNWIND_CFA_LANDING + UNWIND_CFA_SUM + 2, 16, UNWIND_RBP_AT_RBP, 0, 0));
        add(F_SWITCH, unwind_rule(UNWIND_CFA_SWITCH, 16, UNWIND_RBP_AT_CFA, -16, UNWIND_RBX_LOST));
        add(F_GOROUTINE, unwind_rule(UNWIND_CFA_GOROUTINE, 0, 0, 0, 0));
        add(F_DEREF_TWICE, unwind_rule(UNWIND_CFA_DEREF_TWICE, 16 << 16 | 24 << 8 | 8, 0, 0, 0));
        cr_assert_eq(rows_finish(&rows, LOW + F_END_OF_ALL), 0);
        shim_tables[3] = (ShimTable){ .data = rows.data, .size = (size_t)rows.n_blocks * UNWIND_BLOCK_SIZE };
        shim_areas[0] = (ShimArea){ .address = STACK, .size = sizeof(words), .data = words };
        map(mappings, 2);
}

static void teardown(void) {
        rows_deinit(&rows);
}

TestSuite(rules, .init = setup, .fini = teardown);

static uint64_t in(uint64_t function) {
        return TEXT + function + 0x20;
}

static uint64_t at(unsigned word) {
        return STACK + 8 * (uint64_t)word;
}

static void walk_from(uint64_t pc, uint64_t sp, uint64_t bp, uint64_t bx, uint32_t depth) {
        memset(frames, 0xee, sizeof(frames));
        shim_begin(&unwind, &rules, depth);
        unwind.pc = pc;
        unwind.sp = sp;
        unwind.bp = bp;
        rules.bx = bx;
        shim_walk(&unwind, &rules, frames, &cache);
}

static void check(uint32_t end, unsigned n, const uint64_t *expected) {
        cr_assert_eq(unwind.end, end, "end %u, expected %u", unwind.end, end);
        cr_assert_eq(unwind.n_frames, n, "%u frames, expected %u", unwind.n_frames, n);
        for (unsigned i = 0; i < n; i++)
                cr_assert_eq(frames[i], expected[i], "frame %u is %lx", i, frames[i]);
}

#define CHECK(_end, ...) \
        check(_end, sizeof((uint64_t[]){ __VA_ARGS__ }) / 8, (const uint64_t[]){ __VA_ARGS__ })

/* A call in front of in(@function), in code that is there to be read: @code, @size bytes. */
static void put_call(uint64_t function, const uint8_t *code, size_t size) {
        memcpy(text + function + 0x20 - size, code, size);
        shim_areas[1] = (ShimArea){ .address = TEXT, .size = sizeof(text), .data = text };
}

static void put_calls(uint64_t function) {
        static const uint8_t call[] = { 0xe8, 0, 1, 0, 0 };

        put_call(function, call, sizeof(call));
}

Test(rules, by_rsp_to_the_end) {
        words[1] = in(F_RSP);
        words[3] = in(F_END);
        walk_from(in(F_RSP), at(0), 0, 0, 512);
        CHECK(ABI_STACK_COMPLETE, in(F_RSP), in(F_RSP), in(F_END));
        cr_assert_eq(unwind.sp, at(4));
        cr_assert_eq(shim_n_reads, 1, "one window serves both");
}

Test(rules, look_a_return_address_up_where_its_call_is) {
        /* The return address is the first byte of F_END: the row of the call, the last of F_RSP, counts. */
        words[1] = TEXT + F_END;
        words[3] = in(F_END);
        walk_from(in(F_RSP), at(0), 0, 0, 512);
        CHECK(ABI_STACK_COMPLETE, in(F_RSP), TEXT + F_END, in(F_END));
        walk_from(TEXT + F_END, at(0), 0, 0, 512);
        CHECK(ABI_STACK_COMPLETE, TEXT + F_END);
}

Test(rules, restore_rbp_and_rbx) {
        words[2] = at(10);              /* saved rbp */
        words[3] = in(F_RBP);
        words[10] = 0;
        words[11] = in(F_RBX);
        words[17] = 99;                 /* rbx at CFA - 24: CFA = at(20) */
        words[19] = in(F_END);
        walk_from(in(F_RBP), at(0), at(2), at(16), 512);
        CHECK(ABI_STACK_COMPLETE, in(F_RBP), in(F_RBP), in(F_RBX), in(F_END));
        cr_assert_eq(rules.bx, 99);
        cr_assert_eq(unwind.bp, 0);
        cr_assert_eq(unwind.sp, at(20));
}

Test(rules, read_the_cfa_from_memory) {
        words[2] = at(7);               /* *(rsp + 16) + 8 = at(8) */
        words[7] = in(F_DEREF_RBP);
        words[19] = at(30);             /* *(rbp - 8) = at(30), the CFA */
        words[20] = at(40);             /* *(rbp): the caller's rbp */
        words[29] = in(F_END);
        walk_from(in(F_DEREF_RSP), at(0), at(20), 0, 512);
        CHECK(ABI_STACK_COMPLETE, in(F_DEREF_RSP), in(F_DEREF_RBP), in(F_END));
        cr_assert_eq(unwind.bp, at(40));
        cr_assert_eq(unwind.sp, at(30));
}

/*
 * OCaml 5 notes on the stack that it goes to where the other one is: caml_c_call, and a handler of effects.
 * A word that lies behind no call is not followed down.
 */
Test(rules, go_to_the_stack_that_memory_leads_to) {
        words[102] = at(9);             /* *(rsp + 16) + 8 = at(10) */
        words[9] = in(F_DEREF_TWICE);
        words[12] = at(50);             /* *(rsp + 16) + 24 = at(53), whose word + 8 = at(4) */
        words[53] = at(3);
        words[3] = in(F_END);
        put_calls(F_DEREF_TWICE);
        walk_from(in(F_DEREF_RSP), at(100), 0, 0, 512);
        CHECK(ABI_STACK_BAD_CFA, in(F_DEREF_RSP), in(F_DEREF_TWICE));
        put_calls(F_END);
        walk_from(in(F_DEREF_RSP), at(100), 0, 0, 512);
        CHECK(ABI_STACK_COMPLETE, in(F_DEREF_RSP), in(F_DEREF_TWICE), in(F_END));
        cr_assert_eq(unwind.sp, at(4));
        words[53] = at(59);             /* up, as on one stack */
        words[59] = in(F_END);
        walk_from(in(F_DEREF_TWICE), at(10), 0, 0, 512);
        CHECK(ABI_STACK_COMPLETE, in(F_DEREF_TWICE), in(F_END));
        words[12] = 1;
        walk_from(in(F_DEREF_TWICE), at(10), 0, 0, 512);
        CHECK(ABI_STACK_FAULT, in(F_DEREF_TWICE));
}

Test(rules, change_stacks_so_often_only) {
        words[2] = at(9);               /* its own caller: CFA = at(10), and rsp is at(10) next */
        words[9] = in(F_DEREF_RSP);
        words[12] = at(9);
        put_calls(F_DEREF_RSP);
        walk_from(in(F_DEREF_RSP), at(0), 0, 0, 512);
        cr_assert_eq(unwind.end, ABI_STACK_BAD_CFA);
        cr_assert_eq(unwind.n_frames, RULES_MAX_SIGNALS + 2);
}

/*
 * perf's and bpftrace's return probes (kernel/events/uprobes.c): the trampoline stands where the return address
 * was, and the kernel has that one and its place.
 */
static void put_probe(unsigned word, uint64_t caller) {
        words[word] = shim_trampoline;
        shim_probes[shim_n_probes++] = (struct rules_probe){ .stack = at(word), .address = caller };
}

static void use_probes(void) {
        shim_trampoline = OTHER;
        shim_n_probes = 0;
}

Test(rules, go_on_where_a_return_probe_has_taken_the_address) {
        use_probes();
        put_probe(5, in(F_END));        /* the outermost call comes first */
        put_probe(3, in(F_RSP));
        put_probe(3, in(F_RSP));        /* two probes on one function */
        put_probe(1, in(F_RSP));
        put_probe(0, in(F_BAD));        /* a call that longjmp() has left */
        walk_from(in(F_RSP), at(0), 0, 0, 512);
        CHECK(ABI_STACK_COMPLETE, in(F_RSP), in(F_RSP), in(F_RSP), in(F_END));
        cr_assert_eq(rules.probes.n, 3);
        cr_assert_eq(rules.probes.n_lost, 0);
        cr_assert_eq(unwind.sp, at(6));
}

Test(rules, go_by_the_frame_pointer_through_a_return_probe) {
        use_probes();
        put_probe(3, in(F_END));
        words[2] = at(20);
        walk_from(JIT + 4, at(0), at(2), 0, 512);
        CHECK(ABI_STACK_COMPLETE, JIT + 4, in(F_END));
        cr_assert_eq(unwind.bp, at(20));
}

Test(rules, end_at_a_return_probe_that_the_kernel_does_not_know) {
        use_probes();
        put_probe(9, in(F_END));        /* of a call further up */
        words[1] = shim_trampoline;
        walk_from(in(F_RSP), at(0), 0, 0, 512);
        CHECK(ABI_STACK_NO_MAPPING, in(F_RSP));
        cr_assert_eq(rules.probes.n_lost, 1);
        shim_n_probes = 0;
        walk_from(in(F_RSP), at(0), 0, 0, 512);
        CHECK(ABI_STACK_NO_MAPPING, in(F_RSP));
        cr_assert_eq(rules.probes.n_lost, 1);
        shim_trampoline = 0;            /* the process has no probes */
        words[1] = OTHER;
        walk_from(in(F_RSP), at(0), 0, 0, 512);
        CHECK(ABI_STACK_NO_MAPPING, in(F_RSP));
        cr_assert_eq(rules.probes.n_lost, 0);
}

/* The trampoline's code has pushed r11, rcx and rax as its system call begins (arch/x86/kernel/uprobes.c). */
Test(rules, go_on_from_the_code_of_a_return_probe) {
        use_probes();
        put_probe(9, in(F_RSP));
        put_probe(5, TEXT + F_END);
        for (unsigned pushed = 0; pushed <= 3; pushed++) {
                words[7] = in(F_END);
                walk_from(OTHER + 8, at(6 - pushed), 0, 0, 512);
                CHECK(ABI_STACK_COMPLETE, TEXT + F_END);
                cr_assert_eq(unwind.sp, at(6));
        }
        walk_from(OTHER + 8, at(2), 0, 0, 512);
        CHECK(ABI_STACK_NO_MAPPING, OTHER + 8);
}

/* Copies are 128 bytes apart (UPROBE_XOL_SLOT_BYTES), the trampoline takes the first place. */
Test(rules, go_on_from_the_copy_of_a_probed_instruction) {
        use_probes();
        shim_copy = OTHER + 128;
        shim_stepped = TEXT + F_RSP;
        words[1] = in(F_END);
        walk_from(OTHER + 128 + 4, at(0), 0, 0, 512);
        CHECK(ABI_STACK_COMPLETE, TEXT + F_RSP + 4, in(F_END));
        walk_from(OTHER + 128 + RULES_PROBE_STEP, at(0), 0, 0, 512);
        CHECK(ABI_STACK_NO_MAPPING, OTHER + 128 + RULES_PROBE_STEP);
        words[1] = OTHER + 128;         /* as a return address */
        walk_from(in(F_RSP), at(0), 0, 0, 512);
        CHECK(ABI_STACK_NO_MAPPING, in(F_RSP));
        cr_assert_eq(rules.probes.n_lost, 0);
}

Test(rules, go_through_so_many_return_probes_only) {
        use_probes();
        for (unsigned i = 0; i < 2 * RULES_MAX_PROBES + 2; i++)
                words[i] = shim_trampoline;
        for (unsigned i = 0; i < RULES_MAX_PROBES + 1; i++)
                shim_probes[i] = (struct rules_probe){ .stack = at(2 * (RULES_MAX_PROBES - i) + 1),
                                                       .address = in(F_RSP) };
        shim_n_probes = RULES_MAX_PROBES + 1;
        walk_from(in(F_RSP), at(0), 0, 0, 512);
        cr_assert_eq(unwind.end, ABI_STACK_NO_MAPPING);
        cr_assert_eq(unwind.n_frames, RULES_MAX_PROBES + 1);
        cr_assert_eq(rules.probes.n_lost, 1);
}

Test(rules, go_to_a_lower_stack_and_so_often_only) {
        words[101] = in(F_SWITCH);
        words[10] = 0;
        words[11] = in(F_END);
        walk_from(in(F_RSP), at(100), at(10), 0, 512);
        CHECK(ABI_STACK_COMPLETE, in(F_RSP), in(F_SWITCH), in(F_END));
        cr_assert_eq(unwind.sp, at(12));
        words[10] = at(10);             /* a frame that is its own caller */
        words[11] = in(F_SWITCH);
        walk_from(in(F_SWITCH), at(100), at(10), 0, 512);
        cr_assert_eq(unwind.end, ABI_STACK_BAD_CFA);
        cr_assert_eq(unwind.n_frames, RULES_MAX_SIGNALS + 1);
}

/* g0 at word 200, m at 300, the goroutine at 400: the words that Go's runtime has there. */
Test(rules, go_on_with_the_goroutine_that_g_leads_to) {
        words[1] = in(F_GOROUTINE);
        words[200 + RULES_GO_M / 8] = at(300);
        words[300] = at(200);
        words[400 + RULES_GO_M / 8] = at(300);
        words[400 + RULES_GO_SP / 8] = at(20);
        words[400 + RULES_GO_PC / 8] = in(F_RSP);
        words[400 + RULES_GO_SELF / 8] = at(400);
        words[21] = in(F_END);
        for (unsigned before = 0; before < 2; before++) {
                words[300 + RULES_GO_CURG / 8 + !before] = 0;
                words[300 + RULES_GO_CURG / 8 + before] = at(400);
                rules.registers[RULES_GO_REGISTER] = at(200);
                walk_from(in(F_RSP), at(0), 0, 0, 512);
                CHECK(ABI_STACK_COMPLETE, in(F_RSP), in(F_GOROUTINE), in(F_RSP) + 1, in(F_END));
        }
        words[300 + RULES_GO_CURG / 8 + 1] = 0;
        walk_from(in(F_RSP), at(0), 0, 0, 512);
        CHECK(ABI_STACK_COMPLETE, in(F_RSP), in(F_GOROUTINE));
        words[300 + RULES_GO_CURG / 8] = at(400);
        words[400 + RULES_GO_SELF / 8] = at(401);
        walk_from(in(F_RSP), at(0), 0, 0, 512);
        CHECK(ABI_STACK_UNSUPPORTED, in(F_RSP), in(F_GOROUTINE));
        words[300] = 0;
        walk_from(in(F_RSP), at(0), 0, 0, 512);
        CHECK(ABI_STACK_UNSUPPORTED, in(F_RSP), in(F_GOROUTINE));
        walk_from(in(F_GOROUTINE), at(0), 0, 0, 512);
        CHECK(ABI_STACK_UNSUPPORTED, in(F_GOROUTINE));
}

Test(rules, know_both_halves_of_a_stub) {
        words[0] = in(F_END);
        walk_from(TEXT + F_PLT + 0x10 + 10, at(0), 0, 0, 512);
        CHECK(ABI_STACK_COMPLETE, TEXT + F_PLT + 0x10 + 10, in(F_END));
        words[0] = 1;
        words[1] = in(F_END);
        walk_from(TEXT + F_PLT + 0x10 + 11, at(0), 0, 0, 512);
        CHECK(ABI_STACK_COMPLETE, TEXT + F_PLT + 0x10 + 11, in(F_END));
}

Test(rules, use_any_register_in_the_leaf_alone) {
        words[4] = in(F_END);
        rules.registers[10] = at(4);
        walk_from(in(F_REGISTER), at(0), 0, 0, 512);
        CHECK(ABI_STACK_COMPLETE, in(F_REGISTER), in(F_END));
        words[1] = in(F_REGISTER);
        walk_from(in(F_RSP), at(0), 0, 0, 512);
        CHECK(ABI_STACK_UNSUPPORTED, in(F_RSP), in(F_REGISTER));
}

/* OpenSSL's AES-GCM: rax is the CFA of a function that calls others, which leave it alone. */
Test(rules, use_a_register_of_a_caller_where_it_leads_behind_a_call) {
        words[1] = in(F_RSP);           /* two callees, each with its row */
        words[3] = in(F_REGISTER);
        words[8] = in(F_END);
        rules.registers[10] = at(8);
        put_calls(F_END);
        walk_from(in(F_RSP), at(0), 0, 0, 512);
        CHECK(ABI_STACK_COMPLETE, in(F_RSP), in(F_RSP), in(F_REGISTER), in(F_END));
        cr_assert_eq(unwind.sp, at(9));
        rules.registers[10] = at(7);    /* what a callee has left in it: no return address is below */
        walk_from(in(F_RSP), at(0), 0, 0, 512);
        CHECK(ABI_STACK_UNSUPPORTED, in(F_RSP), in(F_RSP), in(F_REGISTER));
        rules.registers[10] = at(2);    /* a callee's frame, below this one */
        words[2] = in(F_END);
        walk_from(in(F_RSP), at(0), 0, 0, 512);
        CHECK(ABI_STACK_BAD_CFA, in(F_RSP), in(F_RSP), in(F_REGISTER));
}

Test(rules, use_no_register_of_a_caller_where_the_way_to_it_is_not_by_rows) {
        words[2] = at(10);              /* a frame of code without rows */
        words[3] = in(F_REGISTER);
        words[8] = in(F_END);
        rules.registers[10] = at(8);
        put_calls(F_END);
        walk_from(JIT + 4, at(0), at(2), 0, 512);
        CHECK(ABI_STACK_UNSUPPORTED, JIT + 4, in(F_REGISTER));
}

/* The encodings of CALL (Intel SDM, volume 2A), and jumps beside them. */
Test(rules, know_each_call_by_its_bytes) {
        static const struct {
                bool is_call;
                uint8_t size, code[7];
        } cases[] = {
                { true, 5, { 0xe8, 1, 2, 3, 4 } },                    /* call 1f */
                { true, 2, { 0xff, 0xd0 } },                          /* call *%rax */
                { true, 3, { 0x41, 0xff, 0xd2 } },                    /* call *%r10 */
                { true, 2, { 0xff, 0x13 } },                          /* call *(%rbx) */
                { true, 6, { 0xff, 0x15, 1, 2, 3, 4 } },              /* call *1f(%rip) */
                { true, 3, { 0xff, 0x14, 0xc8 } },                    /* call *(%rax,%rcx,8) */
                { true, 3, { 0xff, 0x50, 0x18 } },                    /* call *24(%rax) */
                { true, 4, { 0xff, 0x54, 0x24, 0x08 } },              /* call *8(%rsp) */
                { true, 6, { 0xff, 0x90, 0, 1, 0, 0 } },              /* call *256(%rax) */
                { true, 7, { 0xff, 0x94, 0x24, 0, 1, 0, 0 } },        /* call *256(%rsp) */
                { false, 5, { 0xe9, 1, 2, 3, 4 } },                   /* jmp 1f */
                { false, 2, { 0xff, 0xe0 } },                         /* jmp *%rax */
                { false, 2, { 0xff, 0x33 } },                         /* push (%rbx) */
                { false, 6, { 0xff, 0x25, 1, 2, 3, 4 } },             /* jmp *1f(%rip) */
                { false, 2, { 0xff, 0x14 } },                         /* its third byte is missing */
                { false, 1, { 0xc3 } },
        };

        words[1] = in(F_REGISTER);
        words[4] = in(F_END);
        rules.registers[10] = at(4);
        for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                memset(text, 0x90, sizeof(text));
                put_call(F_END, cases[i].code, cases[i].size);
                walk_from(in(F_RSP), at(0), 0, 0, 512);
                cr_assert_eq(unwind.end, cases[i].is_call ? ABI_STACK_COMPLETE : ABI_STACK_UNSUPPORTED,
                             "case %u", i);
        }
}

/* D and Crystal begin a fiber with a jump to its function, and 0 where the return address would be. */
Test(rules, are_complete_where_a_function_was_entered_with_nothing_behind_it) {
        words[1] = in(F_RSP);
        words[3] = 0;
        walk_from(in(F_RSP), at(0), 0, 0, 512);
        CHECK(ABI_STACK_COMPLETE, in(F_RSP), in(F_RSP));
        words[2] = at(10);              /* by a frame pointer it may be any word */
        words[3] = in(F_RSP);
        words[5] = 0;
        walk_from(JIT + 4, at(0), at(2), 0, 512);
        CHECK(ABI_STACK_FP_END, JIT + 4, in(F_RSP));
}

/* `xor %rdi,%rdi; call _exit; hlt` behind Boost's `push %rbp; jmp *%rbx` (make_x86_64_sysv_elf_gas.S). */
Test(rules, are_complete_where_a_fiber_of_boost_returns_to) {
        static const uint8_t finish[] = { 0x55, 0xff, 0xe3, 0x48, 0x31, 0xff, 0xe8, 0, 1, 2, 3, 0xf4 };

        memcpy(text + F_NONE, finish, sizeof(finish));
        shim_areas[1] = (ShimArea){ .address = TEXT, .size = sizeof(text), .data = text };
        words[1] = TEXT + F_NONE + 3;
        walk_from(in(F_RSP), at(0), 5, 0, 512);
        CHECK(ABI_STACK_COMPLETE, in(F_RSP), TEXT + F_NONE + 3);
        text[F_NONE + 11] = 0x90;       /* the call may return */
        memset(&cache, 0, sizeof(cache));
        walk_from(in(F_RSP), at(0), 5, 0, 512);
        CHECK(ABI_STACK_NO_ROWS, in(F_RSP), TEXT + F_NONE + 3);
}

Test(rules, return_to_a_register_from_the_leaf_alone) {
        words[1] = in(F_END);
        rules.registers[2] = in(F_RSP);
        walk_from(in(F_RETURN), at(0), 5, 6, 512);
        CHECK(ABI_STACK_COMPLETE, in(F_RETURN), in(F_RSP), in(F_END));
        cr_assert_eq(unwind.bp, 5);
        cr_assert_eq(rules.bx, 6);
        words[1] = in(F_RETURN);
        walk_from(in(F_RSP), at(0), 0, 0, 512);
        CHECK(ABI_STACK_UNSUPPORTED, in(F_RSP), in(F_RETURN));
        walk_from(in(F_RETURN_ODD), at(4), 0, 0, 512);
        CHECK(ABI_STACK_BAD_CFA, in(F_RETURN_ODD));
        rules.registers[2] = 0;
        walk_from(in(F_RETURN), at(0), 0, 0, 512);
        CHECK(ABI_STACK_FP_END, in(F_RETURN));
}

Test(rules, look_a_landing_pad_up_as_it_is) {
        /* The pad is the first byte of F_END; a return address there would be looked up in F_RSP. */
        words[3] = TEXT + F_END;
        words[5] = in(F_RSP);
        rules.registers[2] = at(3);
        walk_from(in(F_LAND_REGISTER), at(0), 0, 0, 512);
        CHECK(ABI_STACK_COMPLETE, in(F_LAND_REGISTER), TEXT + F_END + 1);
        cr_assert_eq(unwind.sp, at(4));
        walk_from(in(F_LAND_RSP), at(3), 0, 0, 512);
        CHECK(ABI_STACK_COMPLETE, in(F_LAND_RSP), TEXT + F_END + 1);
        /* what a signal handler has put in calls others: two of them, and each place below is exact */
        words[2] = in(F_LAND_RSP) + 1;
        walk_from(in(F_LAND_RSP), at(2), 0, 0, 512);
        CHECK(ABI_STACK_COMPLETE, in(F_LAND_RSP), in(F_LAND_RSP) + 2, TEXT + F_END + 1);
        cr_assert_eq(unwind.sp, at(4));
        rules.registers[2] = TEXT + F_END;
        walk_from(in(F_LAND_RETURN), at(4), 0, 0, 512);
        CHECK(ABI_STACK_COMPLETE, in(F_LAND_RETURN), TEXT + F_END + 1);
        cr_assert_eq(unwind.sp, at(4));
        cr_assert_eq(rules.interrupted, 0, "no signal");
        words[1] = 77;
        words[7] = TEXT + F_END;
        rules.registers[2] = 5 * 8;
        walk_from(in(F_LAND_SUM), at(0), at(1), 0, 512);
        CHECK(ABI_STACK_COMPLETE, in(F_LAND_SUM), TEXT + F_END + 1);
        cr_assert_eq(unwind.sp, at(8));
        cr_assert_eq(unwind.bp, 77);
}

Test(rules, find_the_cfa_in_an_array_on_the_stack) {
        words[4] = at(9);               /* *(rsp + 8 * 3 + 8) + 8 = at(10) */
        words[9] = in(F_END);
        rules.registers[9] = 3;
        walk_from(in(F_INDEXED), at(0), 0, 0, 512);
        CHECK(ABI_STACK_COMPLETE, in(F_INDEXED), in(F_END));
        rules.registers[9] = UINT64_MAX / 8;
        walk_from(in(F_INDEXED), at(0), 0, 0, 512);
        CHECK(ABI_STACK_BAD_CFA, in(F_INDEXED));
        rules.registers[9] = 1ULL << 40;
        walk_from(in(F_INDEXED), at(0), 0, 0, 512);
        CHECK(ABI_STACK_FAULT, in(F_INDEXED));
}

Test(rules, say_that_a_row_cannot_be_expressed) {
        walk_from(in(F_BAD), at(0), 0, 0, 512);
        CHECK(ABI_STACK_UNSUPPORTED, in(F_BAD));
}

/*
 * A frame as the kernel pushes it (arch/x86/include/asm/sigframe.h): offsets from the rsp after the handler's
 * ret.
 */
static void put_signal(unsigned word, uint64_t pc, uint64_t sp, uint64_t bp, uint64_t bx) {
        words[word + 15] = bp;
        words[word + 16] = bx;
        words[word + 20] = sp;
        words[word + 21] = pc;
}

Test(rules, go_from_a_signal_handler_to_what_it_interrupted) {
        words[101] = in(F_SIGNAL);
        put_signal(102, TEXT + F_END, at(10), 11, 12);
        walk_from(in(F_RSP), at(100), 0, 0, 512);
        /*
         * Looked up as it is, the first byte of F_END and not the last of F_RSP; written like a return
         * address.
         */
        CHECK(ABI_STACK_COMPLETE, in(F_RSP), in(F_SIGNAL), TEXT + F_END + 1);
        cr_assert_eq(rules.interrupted, 2);
        cr_assert_eq(unwind.sp, at(10), "an alternate stack may lie anywhere");
        cr_assert_eq(unwind.bp, 11);
        cr_assert_eq(rules.bx, 12);
}

/* Where a signal came in all registers are known again: they lie in the kernel's frame (asm/sigcontext.h). */
Test(rules, use_any_register_where_a_signal_came_in) {
        words[101] = in(F_SIGNAL);
        put_signal(102, in(F_REGISTER), at(0), 0, 0);
        words[102 + 7] = at(4);         /* r10: behind r8, r9 at 40, 48 */
        words[4] = in(F_RSP);
        words[6] = in(F_RETURN);
        rules.registers[10] = at(50);
        walk_from(in(F_RSP), at(100), 0, 0, 512);
        CHECK(ABI_STACK_UNSUPPORTED, in(F_RSP), in(F_SIGNAL), in(F_REGISTER) + 1, in(F_RSP), in(F_RETURN));
        put_signal(102, in(F_RETURN), at(0), 0, 0);
        words[102 + 19] = in(F_END);    /* rcx at 152 */
        walk_from(in(F_RSP), at(100), 0, 0, 512);
        CHECK(ABI_STACK_COMPLETE, in(F_RSP), in(F_SIGNAL), in(F_RETURN) + 1, in(F_END));
}

Test(rules, have_a_cap_of_signals) {
        /* A signal frame that was interrupted in itself. */
        put_signal(100, in(F_SIGNAL), at(100), 0, 0);
        walk_from(in(F_SIGNAL), at(100), 0, 0, 512);
        cr_assert_eq(unwind.end, ABI_STACK_BAD_CFA);
        cr_assert_eq(unwind.n_frames, RULES_MAX_SIGNALS + 1);
}

Test(rules, never_lead_downwards) {
        words[1] = in(F_RSP);
        walk_from(in(F_BACK), at(4), 0, 0, 512);
        CHECK(ABI_STACK_BAD_CFA, in(F_BACK));
        walk_from(in(F_SELF), at(4), 0, 0, 512);
        CHECK(ABI_STACK_BAD_CFA, in(F_SELF));
        walk_from(in(F_ODD), at(4), 0, 0, 512);
        CHECK(ABI_STACK_BAD_CFA, in(F_ODD));
        walk_from(in(F_RBP), at(100), at(4), 0, 512);
        CHECK(ABI_STACK_BAD_CFA, in(F_RBP));
}

Test(rules, leave_registers_untouched_on_a_fault) {
        words[1] = in(F_HUGE);
        walk_from(in(F_RSP), at(0), 5, 6, 512);
        CHECK(ABI_STACK_FAULT, in(F_RSP), in(F_HUGE));
        cr_assert_eq(unwind.sp, at(2));
        cr_assert_eq(unwind.bp, 5);
        cr_assert_eq(rules.bx, 6);
        cr_assert_eq(unwind.pc, in(F_HUGE));
}

/* On the kernel's side of the address space there is nothing to be read for a target, and no frame. */
Test(rules, never_lead_into_the_kernel) {
        const uint64_t kernel = 0xffff888000000000;

        walk_from(in(F_RBP), at(0), kernel, 0, 512);
        CHECK(ABI_STACK_FAULT, in(F_RBP));
        walk_from(in(F_RBX), at(0), 0, kernel, 512);
        CHECK(ABI_STACK_FAULT, in(F_RBX));
        rules.registers[10] = kernel;
        walk_from(in(F_REGISTER), at(0), 0, 0, 512);
        CHECK(ABI_STACK_FAULT, in(F_REGISTER));
        words[1] = kernel;              /* as a return address */
        walk_from(in(F_RSP), at(0), 0, 0, 512);
        CHECK(ABI_STACK_MALFORMED, in(F_RSP));
        put_signal(0, in(F_RSP), kernel, 0, 0);
        walk_from(in(F_SIGNAL), at(0), 0, 0, 512);
        CHECK(ABI_STACK_FAULT, in(F_SIGNAL), in(F_RSP) + 1);
}

Test(rules, forget_registers_that_are_lost) {
        words[1] = in(F_RBP);
        walk_from(in(F_LOST), at(0), at(10), at(12), 512);
        CHECK(ABI_STACK_BAD_CFA, in(F_LOST), in(F_RBP));
        cr_assert_eq(unwind.bp, 0);
        cr_assert_eq(rules.bx, 0);
}

Test(rules, take_no_word_for_a_frame_that_lies_in_no_mapping) {
        words[1] = OTHER;
        walk_from(in(F_RSP), at(0), 0, 0, 512);
        CHECK(ABI_STACK_NO_MAPPING, in(F_RSP));
        walk_from(OTHER, at(0), 0, 0, 512);
        CHECK(ABI_STACK_NO_MAPPING, OTHER);
        walk_from(1, at(0), 0, 0, 512);
        CHECK(ABI_STACK_NO_MAPPING, 1);
}

/* Else a stack could hold frames of a runtime that was never there. */
Test(rules, write_no_address_that_looks_like_a_frame_of_a_runtime) {
        const uint64_t tagged = (uint64_t)RUNTIME_HOTSPOT_COMPILED << RUNTIME_KIND_SHIFT | in(F_RSP);

        walk_from(UINT64_MAX, at(0), 0, 0, 512);
        cr_assert_eq(unwind.end, ABI_STACK_MALFORMED);
        cr_assert_eq(unwind.n_frames, 0);
        walk_from(tagged, at(0), 0, 0, 512);
        cr_assert_eq(unwind.end, ABI_STACK_MALFORMED);
        cr_assert_eq(unwind.n_frames, 0);
        words[1] = tagged;
        walk_from(in(F_RSP), at(0), 0, 0, 512);
        CHECK(ABI_STACK_MALFORMED, in(F_RSP));
}

Test(rules, go_by_the_frame_pointer_where_there_are_none_and_come_back) {
        words[4] = at(8);               /* two frames of JIT code, called by code with rows */
        words[5] = JIT + 0x50;
        words[8] = at(20);
        words[9] = in(F_RSP);
        words[11] = in(F_END);
        for (int cached = 0; cached < 2; cached++) {
                walk_from(JIT + 0x10, at(0), at(4), 0, 512);
                CHECK(ABI_STACK_COMPLETE, JIT + 0x10, JIT + 0x50, in(F_RSP), in(F_END));
                cr_assert_eq(unwind.bp, at(20));
        }
}

/* JIT is made at run time: no file is there, so a frame needs a proof. */
static void map_made_code(void) {
        struct unwind_mapping mappings[] = {
                { .start = TEXT, .n_pages = PAGES, .table = 3, .offset = 0 },
                { .start = JIT, .n_pages = 1, .table = UNWIND_NO_TABLE, .offset = UNWIND_MADE },
        };

        map(mappings, 2);
        memset(&rules.place, 0, sizeof(rules.place));
        memset(&cache, 0, sizeof(cache));
}

/*
 * rbp is that of main's caller: its chain is whole, and leaves the function out that called the code at the
 * pc, at at(2), from native code or from such code itself.
 */
Test(rules, mark_a_frame_made_at_run_time_with_a_return_address_below_it) {
        static uint8_t made[0x100];
        const uint64_t callers[] = { in(F_END), JIT + 0x50, JIT + 0x58 };

        map_made_code();
        put_calls(F_END);
        put_calls(F_RSP);
        made[0x4b] = 0xe8;              /* a call in front of JIT + 0x50, none in front of JIT + 0x58 */
        shim_areas[2] = (ShimArea){ .address = JIT, .size = sizeof(made), .data = made };
        words[4] = at(8);
        words[5] = in(F_RSP);
        words[7] = in(F_END);
        for (int i = 0; i < 3; i++) {
                words[2] = callers[i];
                walk_from(JIT + 0x10, at(0), at(4), 0, 512);
                CHECK(ABI_STACK_COMPLETE, (JIT + 0x10) | (i < 2 ? ABI_FRAME_UNPROVED : 0), in(F_RSP),
                      in(F_END));
        }
        words[2] = 0;
        words[0] = in(F_END);
        walk_from(JIT + 0x10, at(0), at(4), 0, 512);
        CHECK(ABI_STACK_COMPLETE, (JIT + 0x10) | ABI_FRAME_UNPROVED, in(F_RSP), in(F_END));
        words[0] = OTHER + 8;           /* no code is there, as far as is known */
        walk_from(JIT + 0x10, at(0), at(4), 0, 512);
        CHECK(ABI_STACK_COMPLETE, JIT + 0x10, in(F_RSP), in(F_END));
        words[0] = 0;
        shim_areas[1].size = shim_areas[2].size = 0;
}

/* JIT is an area of which some functions have rows: of table 3's, from @offset on. */
static void map_made_rows(uint64_t offset) {
        struct unwind_mapping mappings[] = {
                { .start = TEXT, .n_pages = PAGES, .table = 3, .offset = 0 },
                { .start = JIT, .n_pages = 1, .table = 3, .offset = offset },
        };

        map(mappings, 2);
        memset(&rules.place, 0, sizeof(rules.place));
        memset(&cache, 0, sizeof(cache));
}

Test(rules, go_by_rows_in_code_made_at_run_time_that_has_some) {
        words[1] = JIT + F_LOST + 0x20;
        words[3] = in(F_END);
        for (uint64_t offset = 0; offset < 2; offset++) {
                map_made_rows(offset);
                walk_from(JIT + F_RSP + 0x20, at(0), 0, 0, 512);
                CHECK(ABI_STACK_COMPLETE, JIT + F_RSP + 0x20, JIT + F_LOST + 0x20, in(F_END));
        }
}

/* In a gap, and in a page without any: files end there, or are taken to keep frame pointers. */
Test(rules, prove_frames_of_code_made_at_run_time_that_has_none_beside_some) {
        const uint64_t pcs[] = { JIT + F_NONE + 0x20, JIT + 0x10 }, offsets[] = { 0, 0x4000 };

        put_calls(F_END);
        put_calls(F_RSP);
        words[4] = at(8);
        words[5] = in(F_RSP);
        words[7] = in(F_END);
        for (int i = 0; i < 2; i++) {
                words[2] = 0;
                map_made_rows(offsets[i] | UNWIND_MADE);
                walk_from(pcs[i], at(0), at(4), 0, 512);
                CHECK(ABI_STACK_COMPLETE, pcs[i], in(F_RSP), in(F_END));
                words[2] = in(F_END);
                walk_from(pcs[i], at(0), at(4), 0, 512);
                CHECK(ABI_STACK_COMPLETE, pcs[i] | ABI_FRAME_UNPROVED, in(F_RSP), in(F_END));
                map_made_rows(offsets[i]);
                walk_from(pcs[i], at(0), at(4), 0, 512);
                if (i)
                        CHECK(ABI_STACK_COMPLETE, pcs[i], in(F_RSP), in(F_END));
                else
                        CHECK(ABI_STACK_NO_ROWS, pcs[i]);
        }
        shim_areas[1].size = 0;
}

Test(rules, mark_a_frame_made_at_run_time_that_returns_to_no_call) {
        map_made_code();
        put_calls(F_RSP);
        words[4] = at(8);
        words[5] = in(F_RSP) + 1;       /* code, and not behind a call */
        words[7] = in(F_END);
        walk_from(JIT + 0x10, at(0), at(4), 0, 512);
        CHECK(ABI_STACK_COMPLETE, (JIT + 0x10) | ABI_FRAME_UNPROVED, in(F_RSP) + 1, in(F_END));
        words[4] = 0;                   /* the chain ends there */
        walk_from(JIT + 0x10, at(0), at(4), 0, 512);
        CHECK(ABI_STACK_COMPLETE, JIT + 0x10, in(F_RSP) + 1, in(F_END));
        shim_areas[1].size = 0;
}

Test(rules, mark_a_frame_made_at_run_time_that_is_too_large_to_prove) {
        map_made_code();
        put_calls(F_RSP);
        for (int i = 0; i < 2; i++) {
                unsigned last = RULES_MAX_FRAME_WORDS + (unsigned)i;

                words[last] = at(last + 4);
                words[last + 1] = in(F_RSP);
                words[last + 3] = in(F_END);
                walk_from(JIT + 0x10, at(0), at(last), 0, 512);
                CHECK(ABI_STACK_COMPLETE, (JIT + 0x10) | (i ? ABI_FRAME_UNPROVED : 0), in(F_RSP), in(F_END));
                words[last] = words[last + 1] = words[last + 3] = 0;
        }
        shim_areas[1].size = 0;
}

/*
 * 78 frames of 102 words that may be addresses of code: in no mapping, or in one that is known, behind no
 * call. From where the walk has looked at RULES_MAX_WORDS of them, none is proved, and one word more ends
 * the look at a frame.
 */
Test(rules, mark_frames_made_at_run_time_once_a_walk_has_looked_at_too_many_words) {
        enum { MANY = STACK - 0x100000, N_MANY = 2 * RULES_MAX_WORDS, N_DATA = 102, SIZE = N_DATA + 2 };
        static uint64_t many[N_MANY];
        static uint8_t made[0x100];
        const unsigned n = N_MANY / SIZE, n_proved = RULES_MAX_WORDS / (N_DATA + 1);
        const uint64_t data[] = { OTHER + 8, TEXT + F_NONE };

        map_made_code();
        put_calls(F_RSP);
        made[0x4b] = 0xe8;              /* a call in front of JIT + 0x50 */
        shim_areas[2] = (ShimArea){ .address = JIT, .size = sizeof(made), .data = made };
        shim_areas[3] = (ShimArea){ .address = MANY, .size = sizeof(many), .data = many };
        for (size_t k = 0; k < ARRAY_SIZE(data); k++) {
                for (unsigned i = 0; i < n * SIZE; i++)
                        many[i] = data[k];
                for (unsigned i = 0; i < n; i++) {
                        many[i * SIZE + N_DATA] = i + 1 < n ? MANY + 8 * ((i + 1) * SIZE + N_DATA) : 0;
                        many[i * SIZE + N_DATA + 1] = JIT + 0x50;
                }
                walk_from(JIT + 0x10, MANY, MANY + 8 * N_DATA, 0, 512);
                cr_assert_eq(unwind.n_frames, n + 1, "%zu: %u", k, unwind.n_frames);
                cr_assert_leq(rules.n_words, RULES_MAX_WORDS + n, "%zu: %u", k, rules.n_words);
                for (unsigned i = 0; i < n; i++)
                        cr_assert_eq(!(frames[i] & ABI_FRAME_UNPROVED), i < n_proved, "%zu: %u", k, i);
        }
        shim_areas[1].size = shim_areas[2].size = shim_areas[3].size = 0;
}

/* The handler's frame is known by rows; whether the interrupted code still has its own is not. */
Test(rules, end_at_a_frame_made_at_run_time_that_a_signal_interrupted) {
        map_made_code();
        put_calls(F_RSP);
        words[1] = in(F_SIGNAL);
        put_signal(2, JIT + 0x10, at(100), at(104), 0);
        words[104] = at(120);
        words[105] = in(F_RSP);
        words[107] = in(F_END);
        walk_from(in(F_RSP), at(0), 0, 0, 512);
        CHECK(ABI_STACK_COMPLETE, in(F_RSP), in(F_SIGNAL), JIT + 0x11, in(F_RSP), in(F_END));
        words[100] = in(F_RSP);
        walk_from(in(F_RSP), at(0), 0, 0, 512);
        CHECK(ABI_STACK_UNPROVED, in(F_RSP), in(F_SIGNAL), JIT + 0x11);
        words[100] = 0;
        shim_areas[1].size = 0;
}

Test(rules, end_where_there_is_neither_row_nor_frame_pointer) {
        walk_from(JIT + 0x10, at(0), 0, 0, 512);
        CHECK(ABI_STACK_FP_END, JIT + 0x10);
        walk_from(JIT + 0x10, at(10), at(4), 0, 512);
        CHECK(ABI_STACK_NO_ROWS, JIT + 0x10);
        walk_from(in(F_NONE), at(10), 1ULL << 40, 0, 512);
        CHECK(ABI_STACK_NO_ROWS, in(F_NONE));
}

/* The chain that rbp begins is whole, and still nothing says that it is the chain of this frame. */
Test(rules, guess_no_caller_in_a_gap_between_rows) {
        words[4] = at(8);
        words[5] = in(F_RSP);
        words[9] = in(F_END);
        walk_from(in(F_NONE), at(0), at(4), 0, 512);
        CHECK(ABI_STACK_NO_ROWS, in(F_NONE));
        walk_from(in(F_NONE), at(0), 0, 0, 512);
        CHECK(ABI_STACK_FP_END, in(F_NONE));
}

Test(rules, guess_no_caller_while_rows_are_pending_or_lost) {
        static const struct { uint32_t table, end; } cases[] = {
                { UNWIND_PENDING_TABLE, ABI_STACK_PENDING },
                { UNWIND_LOST_TABLE, ABI_STACK_NO_ROWS },
                { UNWIND_NO_TABLE, ABI_STACK_COMPLETE },
        };

        words[4] = at(20);
        words[5] = in(F_RSP);
        words[7] = in(F_END);
        for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                set_jit_table(cases[i].table);
                walk_from(JIT + 0x10, at(0), at(4), 0, 512);
                cr_assert_eq(unwind.end, cases[i].end, "case %u ended with %u", i, unwind.end);
                cr_assert_eq(unwind.n_frames, cases[i].end == ABI_STACK_COMPLETE ? 3 : 1);
        }
}

/* musl's restorer has no row: mov $15,%rax; syscall. */
Test(rules, know_sigreturn_by_its_code) {
        static const uint8_t code[16] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };

        shim_areas[1] = (ShimArea){ .address = JIT + 0x80, .size = sizeof(code), .data = code };
        words[1] = JIT + 0x80;
        put_signal(2, in(F_END), at(50), 0, 0);
        for (int cached = 0; cached < 2; cached++) {
                walk_from(in(F_RSP), at(0), 0, 0, 512);
                CHECK(ABI_STACK_COMPLETE, in(F_RSP), JIT + 0x80, in(F_END) + 1);
        }
        shim_areas[1].size = 0;
}

/* As `python3 -X perf` writes it: sub $8,%rsp; call *%rcx; add $8,%rsp; ret. */
Test(rules, know_pythons_trampoline_by_its_code) {
        static uint8_t code[16] = { 0x48, 0x83, 0xec, 0x08, 0xff, 0xd1, 0x48, 0x83, 0xc4, 0x08, 0xc3 };

        shim_areas[1] = (ShimArea){ .address = JIT + 0x80, .size = sizeof(code), .data = code };
        words[1] = JIT + 0x80 + 6;
        words[3] = in(F_END);
        for (int cached = 0; cached < 2; cached++) {
                walk_from(in(F_RSP), at(0), 0, 0, 512);
                CHECK(ABI_STACK_COMPLETE, in(F_RSP), JIT + 0x80 + 6, in(F_END));
        }
        /* it calls by another register: not known, and nothing is guessed */
        code[5] = 0xd0;
        memset(&cache, 0, sizeof(cache));
        walk_from(in(F_RSP), at(0), 0, 0, 512);
        cr_assert_neq(unwind.end, ABI_STACK_COMPLETE);
        shim_areas[1].size = 0;
}

Test(rules, stop_exactly_at_the_depth) {
        for (unsigned i = 0; i < 200; i++)
                words[1 + 2 * i] = in(F_RSP);
        walk_from(in(F_RSP), at(0), 0, 0, 100);
        cr_assert_eq(unwind.end, ABI_STACK_DEPTH);
        cr_assert_eq(unwind.n_frames, 100);
        cr_assert_eq(frames[100], 0xeeeeeeeeeeeeeeee);
        words[1 + 2 * 98] = in(F_END);
        walk_from(in(F_RSP), at(0), 0, 0, 100);
        cr_assert_eq(unwind.end, ABI_STACK_COMPLETE, "all of it fits");
        cr_assert_eq(unwind.n_frames, 100);
}

Test(rules, are_not_those_of_another_generation) {
        words[1] = in(F_END);
        walk_from(in(F_RSP), at(0), 0, 0, 512);
        CHECK(ABI_STACK_COMPLETE, in(F_RSP), in(F_END));
        /*
         * The same pcs, but another file is mapped there now; the last walk's mapping was remembered as well.
         */
        shim_nodes.nodes[0].generation++;
        shim_nodes.nodes[0].mappings[0].offset = F_BAD;
        walk_from(in(F_RSP), at(0), 0, 0, 512);
        CHECK(ABI_STACK_UNSUPPORTED, in(F_RSP));
}

/* Another pc of the text that the cache keeps where it keeps @pc. */
static uint64_t meets(uint64_t pc, uint64_t from) {
        while (from < TEXT + PAGES * UNWIND_PAGE_SIZE && rows_cache_index(from) != rows_cache_index(pc))
                from++;
        cr_assert_lt(from, TEXT + PAGES * UNWIND_PAGE_SIZE);
        return from;
}

Test(rules, of_four_pcs_that_meet_in_the_cache_are_all_kept) {
        uint64_t pcs[ROWS_WAYS + 1] = { in(F_RSP) };

        for (int i = 1; i <= ROWS_WAYS; i++)
                pcs[i] = meets(pcs[0], pcs[i - 1] + 1);
        for (int round = 0; round < 3; round++)
                for (int i = 0; i < ROWS_WAYS; i++) {
                        walk_from(pcs[i], at(0), 0, 0, 1);
                        cr_assert_eq(shim_n_searches, round ? ROWS_WAYS : (unsigned)i + 1, "round %d", round);
                }
        walk_from(pcs[0], at(0), 0, 0, 1);
        walk_from(pcs[ROWS_WAYS], at(0), 0, 0, 1);
        cr_assert_eq(shim_n_searches, ROWS_WAYS + 1);
        walk_from(pcs[0], at(0), 0, 0, 1);
        cr_assert_eq(shim_n_searches, ROWS_WAYS + 1, "it was used later than the others");
        walk_from(pcs[1], at(0), 0, 0, 1);
        cr_assert_eq(shim_n_searches, ROWS_WAYS + 2, "the one that was used longest ago is gone");
}

/* A stack of @n frames, each with a pc of its own, that begins at word @first. */
static void lay_out(uint32_t first, uint32_t n) {
        for (uint32_t i = first; i < n; i++)
                words[2 * i + 1] = i + 1 < n ? in(F_RSP) + i : in(F_END);
}

/* The caller's frame is where the callee's was: what single pcs have in the cache is not needed. */
Test(rules, of_callers_lie_beside_those_of_their_callees) {
        enum { N = 24 };
        uint64_t last;

        lay_out(0, N);
        walk_from(in(F_RSP) - 1, at(0), 0, 0, 512);
        cr_assert_eq(unwind.end, ABI_STACK_COMPLETE);
        cr_assert_eq(unwind.n_frames, N + 1);
        cr_assert_gt(shim_n_searches, N / 2);
        memset(cache.entries, 0, sizeof(cache.entries));
        shim_n_searches = 0;
        walk_from(in(F_RSP) - 1, at(0), 0, 0, 512);
        cr_assert_eq(unwind.n_frames, N + 1);
        cr_assert_lt(shim_n_searches, N / 4, "some runs meet in one place: %u", shim_n_searches);
        last = rules.runs.last;
        cr_assert_eq(last % (1 << ROWS_RUN_SHIFT), rules.runs.place / ROWS_RUN, "the run of the last frame");

        /* Another caller where the run has this one: its own rule counts. */
        words[2 * 9 + 1] = in(F_BAD);
        walk_from(in(F_RSP) - 1, at(0), 0, 0, 512);
        cr_assert_eq(unwind.end, ABI_STACK_UNSUPPORTED);
        cr_assert_eq(unwind.n_frames, 11);
        cr_assert_eq(frames[10], in(F_BAD));
        lay_out(0, N);

        /* Another leaf: from the next beginning of a run on, the callers' runs are those of before. */
        walk_from(in(F_RSP) - 1, at(0), 0, 0, 512);
        memset(cache.entries, 0, sizeof(cache.entries));
        shim_n_searches = 0;
        walk_from(in(F_RSP) + 2, at(6), 0, 0, 512);
        cr_assert_eq(unwind.end, ABI_STACK_COMPLETE);
        cr_assert_lt(shim_n_searches, N / 2, "%u", shim_n_searches);
        cr_assert_eq((uint32_t)rules.runs.last, (uint32_t)last, "so the next walk is known to end with them");
}

Test(rules, are_missing_with_their_table) {
        shim_tables[3].size = 0;
        walk_from(in(F_RSP), at(0), 0, 0, 512);
        CHECK(ABI_STACK_INTERNAL, in(F_RSP));
}

static void check_mappings(uint32_t n) {
        static struct unwind_mapping mappings[NODES_MAX_MAPPINGS];

        for (uint32_t i = 0; i < n; i++)
                mappings[i] = (struct unwind_mapping){ .start = TEXT + (uint64_t)i * 0x20000,
                                                       .n_pages = PAGES,
                                                       .table = 3 };
        nodes_build(&shim_nodes, mappings, n, 1000 + n);
        for (uint32_t i = 0; i < n; i++) {
                uint64_t base = (uint64_t)i * 0x20000;

                words[1] = in(F_END) + base;
                walk_from(in(F_RSP) + base, at(0), 0, 0, 512);
                CHECK(ABI_STACK_COMPLETE, in(F_RSP) + base, in(F_END) + base);
                walk_from(TEXT + base + PAGES * UNWIND_PAGE_SIZE, at(0), 0, 0, 512);
                cr_assert_eq(unwind.end, ABI_STACK_NO_MAPPING, "behind mapping %u of %u", i, n);
        }
}

Test(rules, are_found_in_every_mapping) {
        const uint32_t counts[] = { 1, 2, 3, 5, 8, 31, 32, 33, 64, 65, 905, 1024 };

        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
                check_mappings(counts[i]);
}

Test(rules, of_a_leaf_of_another_set_are_stale) {
        check_mappings(100);
        shim_nodes.nodes[2].generation++;
        walk_from(TEXT + 40 * 0x20000 + F_RSP + 0x33, at(0), 0, 0, 512);
        cr_assert_eq(unwind.end, ABI_STACK_STALE);
}

Test(rules, join_neighbours_that_go_on_in_the_same_table) {
        struct unwind_mapping mappings[] = {
                { .start = 0x1000, .n_pages = 1, .table = UNWIND_NO_TABLE },
                { .start = 0x2000, .n_pages = 3, .table = UNWIND_NO_TABLE },
                { .start = 0x5000, .n_pages = 1, .table = 1 },
                { .start = 0x6000, .n_pages = 1, .table = 1 },          /* the same page of the file again */
                { .start = 0x8000, .n_pages = 1, .table = UNWIND_NO_TABLE },
                { .start = 0xa000, .n_pages = 1, .table = UNWIND_NO_TABLE },
                { .start = 0xb000, .n_pages = 2, .table = 2, .offset = 0x4000 },
                { .start = 0xd000, .n_pages = 1, .table = 2, .offset = 0x6000 },
                { .start = 0xe000, .n_pages = 1, .table = 3, .offset = 0x7000 },
        };
        uint32_t n_left_out;

        cr_assert_eq(nodes_fit(mappings, ARRAY_SIZE(mappings), &n_left_out), 7);
        cr_assert_eq(n_left_out, 0);
        cr_assert_eq(mappings[0].n_pages, 4);
        cr_assert_eq(mappings[1].start, 0x5000);
        cr_assert_eq(mappings[4].start, 0xa000);
        cr_assert_eq(mappings[5].n_pages, 3);
        cr_assert_eq(mappings[6].table, 3);
}

/* @n areas without rows, @gap pages apart, then @n_files mappings of one file. */
static uint32_t fit_areas(uint32_t n, uint32_t gap, uint32_t n_files, struct unwind_mapping *mappings,
                          uint32_t *n_left_outp) {
        for (uint32_t i = 0; i < n + n_files; i++)
                mappings[i] = (struct unwind_mapping){
                        .start = 0x10000000 + (uint64_t)i * (gap + 1) * UNWIND_PAGE_SIZE,
                        .n_pages = 1,
                        .table = i < n ? UNWIND_NO_TABLE : 3,
                };
        return nodes_fit(mappings, n + n_files, n_left_outp);
}

Test(rules, join_areas_without_rows_across_small_gaps_if_there_is_no_room) {
        static struct unwind_mapping mappings[4000];
        uint32_t n_left_out;

        cr_assert_eq(fit_areas(1000, 1, 24, mappings, &n_left_out), 1024, "they fit: none is joined");
        cr_assert_eq(n_left_out, 0);
        cr_assert_eq(fit_areas(3000, 1, 24, mappings, &n_left_out), 25);
        cr_assert_eq(n_left_out, 0);
        cr_assert_eq(mappings[0].n_pages, 5999);
        cr_assert_eq(mappings[0].table, UNWIND_NO_TABLE);
        cr_assert_eq(mappings[1].table, 3);
        cr_assert_eq(mappings[1].start, 0x10000000 + 6000 * 0x1000);
}

Test(rules, leave_areas_without_rows_out_before_files) {
        static struct unwind_mapping mappings[4000];
        uint32_t n_left_out, n_files = 0;

        cr_assert_eq(fit_areas(3000, 1000, 24, mappings, &n_left_out), NODES_MAX_MAPPINGS);
        cr_assert_eq(n_left_out, 3024 - 1024);
        for (uint32_t i = 0; i < NODES_MAX_MAPPINGS; i++) {
                n_files += mappings[i].table == 3;
                cr_assert(!i || mappings[i].start > mappings[i - 1].start);
        }
        cr_assert_eq(n_files, 24);
        cr_assert_eq(fit_areas(5, 1000, 1030, mappings, &n_left_out), NODES_MAX_MAPPINGS);
        cr_assert_eq(n_left_out, 11);
        cr_assert_eq(mappings[0].table, 3, "no room is left beside the files");
}

Test(rules, survive_any_stack) {
        srand(1);
        for (int round = 0; round < 20000; round++) {
                for (unsigned i = 0; i < 256; i++) {
                        int kind = rand() % 4;

                        words[i] = kind == 0 ? TEXT + (uint64_t)rand() % F_END_OF_ALL :
                                   kind == 1 ? at((unsigned)rand() % 300) :
                                   kind == 2 ? JIT + (uint64_t)rand() % 0x1000 : (uint64_t)rand() << 20;
                }
                rules.registers[2] = words[rand() % 256];
                rules.registers[9] = (uint64_t)rand() % 300;
                rules.registers[10] = words[rand() % 256];
                walk_from(TEXT + (uint64_t)rand() % F_END_OF_ALL, at((unsigned)rand() % 200),
                          at((unsigned)rand() % 256), at((unsigned)rand() % 256), 512);
                cr_assert_neq(unwind.end, ABI_STACK_INTERNAL);
                cr_assert_leq(unwind.n_frames, 512);
                /* One word may have been written and taken back. */
                cr_assert_eq(frames[unwind.n_frames + 1], 0xeeeeeeeeeeeeeeee);
        }
}
