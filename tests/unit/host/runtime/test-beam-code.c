/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Names of functions in memory made by hand, by the layout of OTP 25 (BeamCodeHeader, ErtsCodeInfo, Atom),
 * and what a worker may say of them.
 */

#include <criterion/criterion.h>
#include <string.h>

#include "host/runtime/beam/beam-wire.h"

enum {
        BASE = 0x66000000,
        SIZE = 0x20000,
        VARIABLES = BASE,               /* a page of them, as a file has them at 0x1000 */
        FILE_VARIABLES = 0x1000,
        BIAS = VARIABLES - FILE_VARIABLES,
        ACTIVE = VARIABLES + 8,
        RANGES = VARIABLES + 0x808,
        ATOMS = VARIABLES + 0x200,
        TABLES = BASE + 0x2000,         /* 64 bytes each */
        SCHEDULERS = BASE + 0x3000,
        SCHEDULER_SIZE = 0x1140,
        FRAGMENTS = BASE + 0xa000,
        BOTTOM = FRAGMENTS + 0xc30,
        MODULES = BASE + 0xb000,        /* 0x1000 each */
        MODULE_SIZE = 0x1000,
        FUNCTION_SIZE = 0x100,
        LINES = BASE + 0x10000,         /* the table of lines of the first module */
        SEGMENT = BASE + 0x12000,
        TEXTS = BASE + 0x14000,         /* 64 bytes of an atom, and 1024 of its text */
        LIST = BASE + 0x1e000,
        N_FUNCTIONS = 3,
        N_ATOMS = 8,
};

enum { APP = 1, ALL, MAP, LISTS, ODD, LONG };    /* atoms */

static uint8_t memory[SIZE];
static unsigned n_reads, n_good_reads;
static BeamFunction function;

static bool read_memory(void *userdata, uint64_t address, void *to, size_t size) {
        if (++n_reads > n_good_reads || address < BASE || address + size > BASE + SIZE)
                return false;
        memcpy(to, memory + (address - BASE), size);
        return true;
}

static const BeamReader reader = { .read = read_memory, .ranges = RANGES, .active = ACTIVE,
                                   .modules = MODULES, .atoms = ATOMS };

static void put(uint64_t address, uint64_t word) {
        memcpy(memory + (address - BASE), &word, sizeof(word));
}

static uint64_t term_of(unsigned atom) {
        return (uint64_t)atom << 6 | 0x0b;
}

static void put_atom(unsigned atom, const char *text, uint16_t length) {
        uint64_t at = TEXTS + 1200 * (uint64_t)atom;

        put(SEGMENT + 8 * (uint64_t)atom, at);
        memcpy(memory + (at + 24 - BASE), &length, sizeof(length));
        put(at + 32, at + 64);
        memcpy(memory + (at + 64 - BASE), text, length);
}

static uint64_t function_at(unsigned module, unsigned i) {
        return MODULES + MODULE_SIZE * (uint64_t)module + 0x200 + FUNCTION_SIZE * (uint64_t)i;
}

/* Three functions, and stubs behind them. */
static void put_module(unsigned module, unsigned atom, unsigned name) {
        uint64_t at = MODULES + MODULE_SIZE * (uint64_t)module;

        put(at, N_FUNCTIONS);
        for (unsigned i = 0; i <= N_FUNCTIONS; i++)
                put(at + 96 + 8 * (uint64_t)i, function_at(module, i));
        for (unsigned i = 0; i < N_FUNCTIONS; i++) {
                put(function_at(module, i) + 16, term_of(atom));
                put(function_at(module, i) + 24, term_of(name));
                put(function_at(module, i) + 32, 0x7f00 | i);
        }
}

/* Places 0x40 and 0x80 of each function of the first module: lines 10 * i + 1 and + 2, that of file 1. */
static void put_lines(void) {
        uint64_t pcs = LINES + 0x100, locations = LINES + 0x200;

        put(MODULES + 72, LINES);
        put(LINES, LINES + 0x80);
        put(LINES + 8, 4);
        put(LINES + 16, locations);
        for (unsigned i = 0; i <= N_FUNCTIONS; i++)
                put(LINES + 24 + 8 * (uint64_t)i, pcs + 16 * (uint64_t)i);
        for (unsigned i = 0; i < 2 * N_FUNCTIONS; i++) {
                uint32_t location = (i & 1) << 24 | (10 * (i / 2) + 1 + (i & 1));

                put(pcs + 8 * (uint64_t)i, function_at(0, i / 2) + (i & 1 ? 0x80 : 0x40));
                memcpy(memory + (locations + 4 * (uint64_t)i - BASE), &location, sizeof(location));
        }
        put(LINES + 0x80, LIST + 1);
        for (unsigned i = 0; i < 5; i++) {
                put(LIST + 16 * (uint64_t)i, (uint64_t)"a/b.x"[i] << 4 | 0xf);
                put(LIST + 16 * (uint64_t)i + 8, i == 4 ? 0x3b : LIST + 16 * (uint64_t)(i + 1) + 1);
        }
}

static void setup(void) {
        n_reads = 0;
        n_good_reads = UINT32_MAX;
        for (size_t i = 0; i < sizeof(memory); i++)
                memory[i] = (uint8_t)(i * 13 + (i >> 8));
        memset(memory, 0, FRAGMENTS - BASE);
        put(ATOMS + 120, ATOMS + 0x100);
        put(ATOMS + 0x100, SEGMENT);
        put_atom(APP, "Elixir.MyApp.Repo", 17);
        put_atom(ALL, "all", 3);
        put_atom(MAP, "-map/2-fun-0-", 13);
        put_atom(LISTS, "lists", 5);
        put_module(0, LISTS, MAP);
        put_module(1, APP, ALL);
        put_lines();
        put(ACTIVE, 2);
        for (unsigned i = 0; i < 3; i++) {
                put(RANGES + 32 * i, TABLES + 64 * i);
                put(RANGES + 32 * i + 8, 2);
                put(RANGES + 32 * i + 16, 3);
                put(RANGES + 32 * i + 24, TABLES + 64 * i + 16);
                for (unsigned module = 0; module < 2; module++) {
                        put(TABLES + 64 * i + 16 * module, MODULES + MODULE_SIZE * module);
                        put(TABLES + 64 * i + 16 * module + 8, MODULES + MODULE_SIZE * module + 0xf00);
                }
        }
}

TestSuite(beam_code, .init = setup);

static uint64_t cookie_of(uint64_t pc) {
        uint64_t code[2];

        memcpy(code, memory + (pc - 16 - BASE), sizeof(code));
        return (uint64_t)beam_cookie(code[0], code[1]) << 32;
}

static int name_at(uint64_t pc, uint32_t exact) {
        const uint64_t words[] = { (uint64_t)RUNTIME_BEAM << RUNTIME_KIND_SHIFT | pc,
                                   (pc ? cookie_of(pc) : 0) | exact };

        return beam_code_name(&reader, words, &function);
}

Test(beam_code, a_function_is_named_with_its_module_and_arity) {
        cr_assert_eq(name_at(function_at(0, 2) + 0x50, 0), 0);
        cr_assert_str_eq(function.name, "lists:-map/2-fun-0-/2");
        cr_assert_str_eq(function.file, "lists.erl");
        cr_assert_eq(function.line, 21);
}

Test(beam_code, names_of_elixir_are_as_elixir_writes_them) {
        cr_assert_eq(name_at(function_at(1, 1) + 0x50, 0), 0);
        cr_assert_str_eq(function.name, "MyApp.Repo.all/1");
        cr_assert_str_eq(function.file, "");
        cr_assert_eq(function.line, 0);
}

Test(beam_code, a_return_address_is_of_its_call_and_a_leaf_of_itself) {
        uint64_t next = function_at(0, 1);

        cr_assert_eq(name_at(next, 0), 0);
        cr_assert_str_eq(function.name, "lists:-map/2-fun-0-/0");
        cr_assert_eq(name_at(function_at(0, 1) + 0x80, 0), 0);
        cr_assert_eq(function.line, 11);
        cr_assert_eq(name_at(function_at(0, 1) + 0x80, BEAM_PC_EXACT), 0);
        cr_assert_eq(function.line, 12);
        cr_assert_str_eq(function.file, "a/b.x");
}

Test(beam_code, a_place_in_front_of_the_first_line_has_none) {
        cr_assert_eq(name_at(function_at(0, 1) + 0x30, 0), 0);
        cr_assert_eq(function.line, 0);
        cr_assert_str_eq(function.file, "");
}

Test(beam_code, stubs_behind_the_last_function_are_not_named_for_it) {
        cr_assert_eq(name_at(function_at(0, N_FUNCTIONS), 0), 0);
        cr_assert_eq(name_at(function_at(0, N_FUNCTIONS) + 1, 0), BEAM_CODE_E_GONE);
        cr_assert_eq(name_at(function_at(0, N_FUNCTIONS), BEAM_PC_EXACT), BEAM_CODE_E_GONE);
}

Test(beam_code, other_code_of_the_same_place_has_no_name) {
        uint64_t pc = function_at(0, 1) + 0x50;
        const uint64_t words[] = { (uint64_t)RUNTIME_BEAM << RUNTIME_KIND_SHIFT | pc, cookie_of(pc) };

        cr_assert_eq(beam_code_name(&reader, words, &function), 0);
        memory[pc - 9 - BASE] ^= 1;
        cr_assert_eq(beam_code_name(&reader, words, &function), BEAM_CODE_E_GONE);
}

Test(beam_code, code_of_no_module_and_schedulers_have_names_of_their_own) {
        cr_assert_eq(name_at(FRAGMENTS + 0x500, 0), 0);
        cr_assert_str_eq(function.name, "(runtime)");
        cr_assert_eq(name_at(0, 0), 0);
        cr_assert_str_eq(function.name, "(scheduler)");
        cr_assert_eq(name_at(MODULES + 0xf80, 0), BEAM_CODE_E_GONE, "between two modules");
}

Test(beam_code, a_module_that_one_table_has_is_found) {
        put(RANGES + 32 * 2 + 8, 1);
        cr_assert_eq(name_at(function_at(1, 1) + 0x50, 0), 0);
        put(RANGES + 8, 1);
        cr_assert_eq(name_at(function_at(1, 1) + 0x50, 0), 0);
        put(RANGES + 32 + 8, 1);
        cr_assert_eq(name_at(function_at(1, 1) + 0x50, 0), BEAM_CODE_E_GONE);
}

Test(beam_code, long_and_broken_atoms) {
        static char text[1021];

        memset(text, 'x', sizeof(text));
        put_atom(LONG, text, 1020);
        put_module(1, LONG, LONG);
        cr_assert_eq(name_at(function_at(1, 0) + 0x50, 0), 0);
        cr_assert_lt(strlen(function.name), BEAM_MAX_TEXT);
        cr_assert_str_eq(strchr(function.name, '/'), "/0");
        put_atom(LONG, text, 1021);
        cr_assert_eq(name_at(function_at(1, 0) + 0x50, 0), BEAM_CODE_E_GONE);
        put_atom(ODD, "a\xff", 2);
        put_module(1, ODD, ALL);
        cr_assert_eq(name_at(function_at(1, 0) + 0x50, 0), BEAM_CODE_E_GONE);
}

Test(beam_code, each_read_may_fail) {
        uint64_t pc = function_at(0, 1) + 0x90;

        cr_assert_eq(name_at(pc, 0), 0);
        for (unsigned n = n_reads; n-- > 0;) {
                n_reads = 0;
                n_good_reads = n;
                if (!name_at(pc, 0))
                        cr_assert_str_eq(function.name, "lists:-map/2-fun-0-/1");
        }
}

/* ---- a process ---- */

static const BeamOpened opened = { .bottom = FILE_VARIABLES,
                                   .active = FILE_VARIABLES + 8,
                                   .schedulers = FILE_VARIABLES + 16,
                                   .n_schedulers = FILE_VARIABLES + 24,
                                   .atoms = FILE_VARIABLES + 0x200,
                                   .frame_layout = FILE_VARIABLES + 32,
                                   .data = FILE_VARIABLES,
                                   .data_size = 0x1000 };

static void put_scheduler(unsigned i) {
        uint64_t at = SCHEDULERS + (uint64_t)SCHEDULER_SIZE * i;

        put(at, 0x7f0000 + i);
        put(at + 184, i + 1);
        put(at + 192, 0);
        put(at + 200, i + 1);
}

static void put_process(void) {
        put(VARIABLES, BOTTOM);
        put(VARIABLES + 16, SCHEDULERS);
        put(VARIABLES + 24, 0xabcd00000003ull);
        for (unsigned i = 0; i < 3; i++)
                put_scheduler(i);
        memcpy(memory + (FRAGMENTS + 0x100 - BASE), "\x49\x8b\x65\x58", 4);
}

Test(beam_code, a_process_is_found_by_its_tables_and_schedulers) {
        struct beam_process process;

        put_process();
        cr_assert_eq(beam_code_find(&reader, &opened, BIAS, &process), 0);
        cr_assert_eq(process.ranges, RANGES);
        cr_assert_eq(process.active, ACTIVE);
        cr_assert_eq(process.modules, MODULES);
        cr_assert_eq(process.bottom, BOTTOM);
        cr_assert_eq(process.n_schedulers, 3);
        cr_assert_eq(process.scheduler_size, SCHEDULER_SIZE);
        for (unsigned i = 0; i < 3; i++)
                cr_assert_eq(process.registers[i], 0x7f0000 + i);
        cr_assert_eq(process.registers[3], 0);
        cr_assert(beam_code_check(&process));
        process.stop = 200;
        cr_assert_not(beam_code_check(&process));
}

Test(beam_code, a_process_that_has_just_begun_is_asked_again) {
        struct beam_process process;

        put_process();
        put(SCHEDULERS + 2 * SCHEDULER_SIZE, 0);
        cr_assert_eq(beam_code_find(&reader, &opened, BIAS, &process), BEAM_CODE_E_LATER);
        put_scheduler(2);
        put(RANGES + 32 + 8, 0);
        cr_assert_eq(beam_code_find(&reader, &opened, BIAS, &process), BEAM_CODE_E_LATER);
        put(VARIABLES, 0);
        cr_assert_eq(beam_code_find(&reader, &opened, BIAS, &process), BEAM_CODE_E_LATER);
}

/* ERTS_FRAME_LAYOUT_FP_RA is 1; the words behind the variable are none of it. */
Test(beam_code, a_process_whose_frames_have_frame_pointers_is_refused) {
        BeamOpened without = opened;
        struct beam_process process;

        put_process();
        put(VARIABLES + 32, 0xabcd00000000ull);
        cr_assert_eq(beam_code_find(&reader, &opened, BIAS, &process), 0);
        put(VARIABLES + 32, 1);
        cr_assert_eq(beam_code_find(&reader, &opened, BIAS, &process), BEAM_CODE_E_POINTERS);
        without.frame_layout = 0;
        cr_assert_eq(beam_code_find(&reader, &without, BIAS, &process), 0);
}

Test(beam_code, another_layout_is_said_to_be_one) {
        struct beam_process process;

        put_process();
        memcpy(memory + (FRAGMENTS + 0x100 - BASE), "\x49\x8b\x65\x60", 4);
        cr_assert_eq(beam_code_find(&reader, &opened, BIAS, &process), BEAM_CODE_E_UNKNOWN);
        put_process();
        put(SCHEDULERS + 184, 0);
        cr_assert_eq(beam_code_find(&reader, &opened, BIAS, &process), BEAM_CODE_E_UNKNOWN);
        put_process();
        put(VARIABLES + 24, 65);
        cr_assert_eq(beam_code_find(&reader, &opened, BIAS, &process), BEAM_CODE_E_MANY);
        put_process();
        /* a second place that looks like the tables */
        memcpy(memory + (VARIABLES + 0xc00 - BASE), memory + (RANGES - BASE), 96);
        cr_assert_eq(beam_code_find(&reader, &opened, BIAS, &process), BEAM_CODE_E_UNKNOWN);
}

/* ---- what a worker says ---- */

Test(beam_code, answers_that_may_not_come_are_refused) {
        const BeamSaid good = { .magic = BEAM_WIRE_MAGIC, .kind = BEAM_WIRE_NAME, .line = 3, .n_name = 4,
                                .n_file = 1 };
        BeamSaid said = good;

        cr_assert(beam_wire_check(&said, BEAM_WIRE_NAME));
        cr_assert_not(beam_wire_check(&said, BEAM_WIRE_FIND));
        said.n_name = BEAM_MAX_TEXT + 1;
        cr_assert_not(beam_wire_check(&said, BEAM_WIRE_NAME));
        said = good;
        said.line = 0x80000000u;
        cr_assert_not(beam_wire_check(&said, BEAM_WIRE_NAME));
        said = good;
        said.result = BEAM_CODE_E_GONE;
        cr_assert_not(beam_wire_check(&said, BEAM_WIRE_NAME));
        said = (BeamSaid){ .magic = BEAM_WIRE_MAGIC, .kind = BEAM_WIRE_FIND, .result = BEAM_CODE_E_N };
        cr_assert_not(beam_wire_check(&said, BEAM_WIRE_FIND));
        cr_assert(beam_wire_take(&function, &good, "a/0\0"));
        cr_assert_str_eq(function.name, "a/0");
        cr_assert_not(beam_wire_take(&function, &good, "a\xff\x30\0"));
}
