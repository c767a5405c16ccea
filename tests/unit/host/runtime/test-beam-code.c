/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Names of functions in memory made by hand, by the layouts of OTP 25 and 29 (BeamCodeHeader,
 * ErtsCodeInfo, Atom), where a process has its variables, and what a worker may say of them.
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
        FRAME_LAYOUT = VARIABLES + 32,
        ATOMS_TEXT = VARIABLES + 0x300,
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
        MANY = BASE + 0x2800,           /* a table of more ranges */
        LOWER = BASE - 0x1000000,       /* another block of code; its first module alone is there */
        LOWEST = LOWER + 0x400,
};

enum { FALSE, TRUE, APP, ALL, MAP, LISTS, ODD, LONG, MACHINE, EXIT };   /* atoms */

static uint8_t memory[SIZE], lower[0x1000];
static unsigned n_reads, n_good_reads;
static ReaderFunction function;

static bool read_memory(void *userdata, uint64_t address, void *to, size_t size) {
        if (++n_reads > n_good_reads)
                return false;
        if (address >= LOWER && address + size <= LOWER + sizeof(lower)) {
                memcpy(to, lower + (address - LOWER), size);
                return true;
        }
        if (address < BASE || address + size > BASE + SIZE)
                return false;
        memcpy(to, memory + (address - BASE), size);
        return true;
}

static BeamReader reader;

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
        put(at + 32, at + 64 + (reader.layout->has_terms ? 2 : 0));
        put(at + 64 + 8, (uint64_t)length * 8);
        memcpy(memory + (at + 64 + (reader.layout->has_terms ? 16 : 0) - BASE), text, length);
}

static uint64_t function_at(unsigned module, unsigned i) {
        return MODULES + MODULE_SIZE * (uint64_t)module + 0x200 + FUNCTION_SIZE * (uint64_t)i;
}

/* Three functions, and stubs behind them. */
static void put_module(unsigned module, unsigned atom, unsigned name) {
        uint64_t at = MODULES + MODULE_SIZE * (uint64_t)module;

        put(at, N_FUNCTIONS);
        for (unsigned i = 0; i <= N_FUNCTIONS; i++)
                put(at + reader.layout->functions + 8 * (uint64_t)i, function_at(module, i));
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

static void make(unsigned release) {
        reader = (BeamReader){ .read = read_memory, .layout = beam_layout(release), .ranges = RANGES,
                               .active = ACTIVE, .modules = MODULES, .atoms = ATOMS };
        n_reads = 0;
        n_good_reads = UINT32_MAX;
        for (size_t i = 0; i < sizeof(memory); i++)
                memory[i] = (uint8_t)(i * 13 + (i >> 8));
        memset(memory, 0, FRAGMENTS - BASE);
        put(ATOMS + 120, ATOMS + 0x100);
        put(ATOMS + 0x100, SEGMENT);
        put_atom(FALSE, "false", 5);
        put_atom(TRUE, "true", 4);
        put_atom(MACHINE, "erts_beamasm", 12);
        put_atom(EXIT, "normal_exit", 11);
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

static void setup(void) {
        make(25);
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

Test(beam_code, atoms_of_29_have_a_binary) {
        uint64_t pc = function_at(0, 2) + 0x50, at = TEXTS + 1200 * (uint64_t)LISTS;

        make(29);
        cr_assert_eq(name_at(function_at(0, 2) + 0x50, 0), 0);
        cr_assert_str_eq(function.name, "lists:-map/2-fun-0-/2");
        put(at + 64 + 8, 5 * 8 + 1);
        cr_assert_eq(name_at(pc, 0), BEAM_CODE_E_GONE, "more bits than the atom has");
        put(at + 64 + 8, 5 * 8);
        put(at + 32, at + 64 + 1);
        cr_assert_eq(name_at(pc, 0), BEAM_CODE_E_GONE, "a list");
}

Test(beam_code, a_release_that_is_not_known_has_no_layout) {
        cr_assert_null(beam_layout(26));
        cr_assert_null(beam_layout(0));
        cr_assert(beam_layout_has_process(200, 248, 32, 440));
        cr_assert_not(beam_layout_has_process(136, 248, 32, 440), "of two releases");
}

Test(beam_code, names_of_elixir_are_as_elixir_writes_them) {
        cr_assert_eq(name_at(function_at(1, 1) + 0x50, 0), 0);
        cr_assert_str_eq(function.name, "MyApp.Repo.all/1");
        cr_assert_str_eq(function.file, "");
        cr_assert_eq(function.line, 0);
}

/* What Exception.format_mfa() of Elixir 1.14 writes. */
Test(beam_code, functions_of_elixir_without_a_plain_name) {
        static const struct {
                const char *name, *expected;
        } cases[] = {
                { "-total/2-fun-0-", "anonymous fn/1 in MyApp.Repo.total/2" },
                { "-map/2-lists^map/1-0-", "MyApp.Repo.\"-map/2-lists^map/1-0-\"/1" },
                { "any?", "MyApp.Repo.any?/1" },
                { "__struct__", "MyApp.Repo.__struct__/1" },
                { "==", "MyApp.Repo.==/1" },
                { "1st", "MyApp.Repo.\"1st\"/1" },
                { "-fun-0-", "MyApp.Repo.\"-fun-0-\"/1" },
                { "-x/1-fun-0-more", "MyApp.Repo.\"-x/1-fun-0-more\"/1" },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                put_atom(ALL, cases[i].name, (int)strlen(cases[i].name));
                cr_assert_eq(name_at(function_at(1, 1) + 0x50, 0), 0);
                cr_assert_str_eq(function.name, cases[i].expected);
        }
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

Test(beam_code, a_process_has_the_name_of_its_atoms) {
        cr_assert_eq(beam_code_task(&reader, BEAM_TASK_REGISTERED | LISTS, &function), 0);
        cr_assert_str_eq(function.name, "lists");
        cr_assert_eq(beam_code_task(&reader, (uint64_t)APP << 32 | ALL << 8 | 3, &function), 0);
        cr_assert_str_eq(function.name, "MyApp.Repo.all/3");
        cr_assert_eq(beam_code_task(&reader, BEAM_TASK_REGISTERED | 0xffffff, &function), BEAM_CODE_E_GONE);
        cr_assert_eq(beam_code_task(&reader, (uint64_t)APP << 32 | 0xffffffull << 8, &function),
                     BEAM_CODE_E_GONE);
        cr_assert_eq(beam_code_task(&reader, 0xffffffull << 32 | ALL << 8, &function), BEAM_CODE_E_GONE);
}

Test(beam_code, a_pid_is_as_erlang_writes_it) {
        char text[BEAM_MAX_PID];

        cr_assert(beam_code_pid(beam_layout(25), 0x377b00186ef3, text));
        cr_assert_str_eq(text, "<0.1775.3>");
        cr_assert_not(beam_code_pid(beam_layout(25), 0x377b00186efb, text), "an atom");
        cr_assert_str_eq(text, "");
        cr_assert(beam_code_pid(beam_layout(27), 0x811103, text));
        cr_assert_str_eq(text, "<0.66082.0>");
        cr_assert_not(beam_code_pid(beam_layout(29), 0x811113, text));
        cr_assert_not(beam_code_pid(beam_layout(29), 0x800811103, text), "two numbers");
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

static const BeamOpened opened = { .atoms = ATOMS_TEXT - BIAS, .frame_layout = FRAME_LAYOUT - BIAS,
                                   .data = FILE_VARIABLES, .data_size = 0x1000, .release = 25 };
static BeamFound found;
static const struct beam_process *const process = &found.process;

static int find(void) {
        return beam_find(&reader, &opened, BIAS, &found);
}

static void put_scheduler(unsigned i) {
        uint64_t at = SCHEDULERS + (uint64_t)SCHEDULER_SIZE * i;

        put(at, 0x7f0000 + i);
        put(at + 176, 0);
        put(at + 184, i + 1);
        put(at + 192, 0);
        put(at + 200, 0xabcd00000000ull | (i + 1));
}

static void put_dirty(uint64_t at, uint32_t kind, uint64_t number, uint64_t thread) {
        put(at + 32, thread);
        put(at + 176, kind);
        put(at + 184, 0);
        put(at + 192, number);
        put(at + 200, 0);
}

static void put_code(uint64_t at, const char *code, size_t n) {
        memcpy(memory + (at - BASE), code, n);
}

/* Loads the address of the index of the code in force, and reads it: `mov $active,%rdi … mov (%rdi),%r12d`. */
static void put_active(uint64_t at, uint64_t active) {
        put_code(at, "\x48\xbf", 2);
        put(at + 2, active);
        put_code(at + 10, "\x31\xf6\x44\x8b\x27", 5);
}

static void put_process(void) {
        memset(memory + (FRAGMENTS - BASE), 0, MODULES - FRAGMENTS);
        put(VARIABLES + 16, SCHEDULERS);
        put(VARIABLES + 0xf00, SCHEDULERS);
        put(ATOMS + 64, ATOMS_TEXT);
        for (unsigned i = 0; i < 3; i++)
                put_scheduler(i);
        put_code(FRAGMENTS + 0x100, "\x49\x8b\x65\x58", 4);
        put_active(FRAGMENTS + 0x201, ACTIVE);
        put(BOTTOM - 24, term_of(MACHINE));
        put(BOTTOM - 16, term_of(EXIT));
        put(BOTTOM - 8, 0);
}

Test(beam_code, a_process_is_found_by_what_its_variables_are) {
        static const unsigned releases[] = { 25, 27, 29 };
        BeamOpened own = opened;

        for (size_t k = 0; k < 3; k++) {
                make(releases[k]);
                put_process();
                own.release = releases[k];
                cr_assert_eq(beam_find(&reader, &own, BIAS, &found), 0, "%u", releases[k]);
                cr_assert_eq(process->ranges, RANGES);
                cr_assert_eq(process->active, ACTIVE);
                cr_assert_eq(process->modules, MODULES);
                cr_assert_eq(process->bottom, BOTTOM);
                cr_assert_eq(process->n_schedulers, 3);
                cr_assert_eq(process->scheduler_size, SCHEDULER_SIZE);
                cr_assert_eq(found.atoms, ATOMS);
                for (unsigned i = 0; i < 3; i++)
                        cr_assert_eq(process->registers[i], 0x7f0000 + i);
                cr_assert_eq(process->registers[3], 0);
                cr_assert(beam_found_check(&found));
        }
        found.process.stop = 200;
        cr_assert_not(beam_found_check(&found));
}

/* A block of code below the one with the fragments: @n modules, @step bytes from each other. */
static void put_lower(unsigned n, uint64_t step) {
        uint64_t functions = LOWEST + reader.layout->functions;

        put_process();
        memset(lower, 0, sizeof(lower));
        memcpy(lower + (LOWEST - LOWER), &(uint64_t){ 1 }, 8);
        memcpy(lower + (functions - LOWER), (uint64_t[]){ functions + 0x40, functions + 0x60 }, 16);
        for (unsigned i = 0; i < 3; i++) {
                put(RANGES + 32 * i, MANY);
                put(RANGES + 32 * i + 8, n + 2);
                put(RANGES + 32 * i + 16, n + 2);
                put(RANGES + 32 * i + 24, MANY);
        }
        for (unsigned i = 0; i < n + 2; i++) {
                uint64_t begin = i < n ? LOWEST + step * i : MODULES + MODULE_SIZE * (uint64_t)(i - n);

                put(MANY + 16 * i, begin);
                put(MANY + 16 * i + 8, begin + 0xb00);
        }
}

/* A service with much code has several blocks, and the second one mostly lies lower. */
Test(beam_code, fragments_may_be_in_another_block_than_the_lowest_module) {
        put_lower(1, 0);
        cr_assert_eq(find(), 0);
        cr_assert_eq(process->modules, MODULES);
        cr_assert_eq(process->bottom, BOTTOM);
        cr_assert(beam_found_check(&found));
        put_lower(60, 0x1000);
        cr_assert_eq(find(), 0);
        cr_assert_eq(process->modules, MODULES);
}

Test(beam_code, fragments_are_not_guessed_where_several_blocks_are) {
        put_lower(1, 0);
        put(BOTTOM - 16, term_of(ALL));
        cr_assert_eq(find(), BEAM_CODE_E_UNKNOWN, "no block has them");
        put_lower(1, 0);
        memcpy(lower + 0x100, memory + (BOTTOM - 24 - BASE), 24);
        cr_assert_eq(find(), BEAM_CODE_E_UNKNOWN, "two blocks have them");
        put_lower(1, 0);
        put(MANY + 16, MODULES - 0x800);
        put(MANY + 24, MODULES - 0x700);
        put(MANY + 32, MODULES);
        put(MANY + 40, MODULES + 0xf00);
        cr_assert_eq(find(), BEAM_CODE_E_UNKNOWN, "a module lies among them");
        put_lower(1, 0);
        put(FRAME_LAYOUT, 1);
        cr_assert_eq(find(), BEAM_CODE_E_POINTERS);
}

Test(beam_code, so_many_blocks_are_looked_at) {
        put_lower(62, 0x20000);
        cr_assert_eq(find(), 0, "sixty-two, and that of the modules");
        put_lower(64, 0x20000);
        cr_assert_eq(find(), BEAM_CODE_E_UNKNOWN);
}

Test(beam_code, a_machine_with_one_scheduler_is_found) {
        put_process();
        put(SCHEDULERS + SCHEDULER_SIZE + 184, 0);
        cr_assert_eq(find(), 0);
        cr_assert_eq(process->n_schedulers, 1);
        cr_assert(beam_found_check(&found));
}

Test(beam_code, a_process_that_has_just_begun_is_asked_again) {
        put_process();
        put(SCHEDULERS + 2 * SCHEDULER_SIZE, 0);
        cr_assert_eq(find(), BEAM_CODE_E_LATER);
        put_scheduler(2);
        cr_assert_eq(find(), 0);
        put(SCHEDULERS + 184, 0);
        cr_assert_eq(find(), BEAM_CODE_E_LATER);
        put_scheduler(0);
        put(ATOMS + 64, 0);
        cr_assert_eq(find(), BEAM_CODE_E_LATER);
        put_process();
        put(RANGES + 32 + 8, 0);
        cr_assert_eq(find(), BEAM_CODE_E_LATER);
}

/* ERTS_FRAME_LAYOUT_FP_RA is 1; the words behind the variable are none of it. */
Test(beam_code, a_process_whose_frames_have_frame_pointers_is_refused) {
        BeamOpened without = opened;

        put_process();
        put(FRAME_LAYOUT, 0xabcd00000000ull);
        cr_assert_eq(find(), 0);
        put(FRAME_LAYOUT, 1);
        cr_assert_eq(find(), BEAM_CODE_E_POINTERS);
        without.frame_layout = 0;
        cr_assert_eq(beam_find(&reader, &without, BIAS, &found), 0);
        put_code(FRAGMENTS + 0x100, "\x49\x8b\x65\x58\x49\x8b\x6d\x60", 8);
        cr_assert_eq(beam_find(&reader, &without, BIAS, &found), BEAM_CODE_E_POINTERS);
}

Test(beam_code, code_that_is_not_as_it_should_be_is_another_layout) {
        put_process();
        put_code(FRAGMENTS + 0x100, "\x49\x8b\x65\x60", 4);
        cr_assert_eq(find(), BEAM_CODE_E_UNKNOWN);
        put_process();
        put(BOTTOM - 16, term_of(ALL));
        cr_assert_eq(find(), BEAM_CODE_E_UNKNOWN, "no code ends stacks");
        put_process();
        memcpy(memory + (BOTTOM + 0x40 - 24 - BASE), memory + (BOTTOM - 24 - BASE), 24);
        cr_assert_eq(find(), BEAM_CODE_E_UNKNOWN, "two do");
        put_process();
        put(BOTTOM - 8, 1);
        cr_assert_eq(find(), BEAM_CODE_E_UNKNOWN, "a function of another arity");
        put_process();
        put_active(FRAGMENTS + 0x201, VARIABLES + 0x1000);
        cr_assert_eq(find(), BEAM_CODE_E_UNKNOWN, "no variable");
        put_process();
        put_active(FRAGMENTS + 0x401, ACTIVE + 4);
        cr_assert_eq(find(), BEAM_CODE_E_UNKNOWN, "two variables");
}

Test(beam_code, dirty_schedulers_stand_behind_the_others) {
        enum { CPU = SCHEDULERS + 0x4000, IO = BASE + 0x17000, THREAD = 0x7f5500, SMALL = 0x100 };

        put_process();
        put_dirty(CPU, 1, 1, THREAD);
        put_dirty(CPU + SCHEDULER_SIZE, 1, 2, THREAD + 64);
        put(VARIABLES + 0xe00, CPU);
        cr_assert_eq(find(), 0);
        cr_assert_eq(process->n_schedulers, 3);
        cr_assert_eq(process->registers[3], beam_dirty(CPU, THREAD));
        cr_assert_eq(process->registers[4], beam_dirty(CPU + SCHEDULER_SIZE, THREAD + 64));
        cr_assert_eq(process->registers[5], 0);
        put_dirty(CPU + SCHEDULER_SIZE, 1, 2, 0);
        cr_assert_eq(find(), BEAM_CODE_E_LATER, "its thread has not begun");
        put_dirty(CPU + SCHEDULER_SIZE, 1, 2, THREAD + 64);
        /* a single scheduler, which does not say how large one is */
        put(SCHEDULERS + SCHEDULER_SIZE + 184, 0);
        put(CPU + SCHEDULER_SIZE + 192, 0);
        for (unsigned i = 0; i < BEAM_MAX_SCHEDULERS; i++)
                put_dirty(IO + SMALL * (uint64_t)i, 2, i + 1, THREAD + 128);
        put(VARIABLES + 0xe08, IO);
        cr_assert_eq(find(), 0);
        cr_assert_eq(process->n_schedulers, 1);
        cr_assert_eq(process->registers[1], beam_dirty(CPU, THREAD));
        cr_assert_eq(process->registers[2], beam_dirty(IO, THREAD + 128));
        cr_assert_eq(process->registers[BEAM_MAX_SCHEDULERS - 1],
                     beam_dirty(IO + SMALL * (BEAM_MAX_SCHEDULERS - 3), THREAD + 128), "as many as fit");
        cr_assert(beam_found_check(&found));
        put_dirty(CPU + 0x800, 1, 1, THREAD);
        put(VARIABLES + 0xe10, CPU + 0x800);
        cr_assert_eq(find(), 0);
        cr_assert_eq(process->registers[1], beam_dirty(IO, THREAD + 128), "two may be the first: neither is");
}

Test(beam_code, what_is_there_twice_is_another_layout) {
        put_process();
        /* a second place that looks like the tables */
        memcpy(memory + (VARIABLES + 0xc00 - BASE), memory + (RANGES - BASE), 96);
        cr_assert_eq(find(), BEAM_CODE_E_UNKNOWN);
        make(25);
        put_process();
        put(SCHEDULERS + 0x4000 + 176, 0);
        put(SCHEDULERS + 0x4000 + 184, 1);
        put(SCHEDULERS + 0x4000 + 192, 0);
        put(SCHEDULERS + 0x4000 + 200, 1);
        put(VARIABLES + 0xe00, SCHEDULERS + 0x4000);
        cr_assert_eq(find(), BEAM_CODE_E_UNKNOWN);
        make(25);
        put_process();
        memcpy(memory + (ATOMS + 0x80 - BASE), memory + (ATOMS - BASE), 0x80);
        cr_assert_eq(find(), BEAM_CODE_E_UNKNOWN);
}

/* The last one is not counted up to: a sixty-fifth is enough. */
Test(beam_code, more_schedulers_than_there_is_room_for_are_said_to_be_many) {
        enum { SMALL = 0x100 };

        put_process();
        for (unsigned i = 0; i < BEAM_MAX_SCHEDULERS + 1; i++) {
                put(SCHEDULERS + SMALL * i, 0x7f0000 + i);
                put(SCHEDULERS + SMALL * i + 176, 0);
                put(SCHEDULERS + SMALL * i + 184, i + 1);
                put(SCHEDULERS + SMALL * i + 192, 0);
                put(SCHEDULERS + SMALL * i + 200, i + 1);
        }
        cr_assert_eq(find(), BEAM_CODE_E_MANY);
        put(SCHEDULERS + SMALL * BEAM_MAX_SCHEDULERS + 184, 0);
        cr_assert_eq(find(), 0);
        cr_assert_eq(process->n_schedulers, BEAM_MAX_SCHEDULERS);
}

Test(beam_code, each_read_of_a_process_may_fail) {
        put_process();
        cr_assert_eq(find(), 0);
        for (unsigned n = n_reads; n-- > 0;) {
                n_reads = 0;
                n_good_reads = n;
                if (!find())
                        cr_assert(beam_found_check(&found));
        }
}

/* ---- what a worker says ---- */

Test(beam_code, answers_that_may_not_come_are_refused) {
        const FunctionSaid good = { .magic = BEAM_WIRE_MAGIC, .kind = BEAM_WIRE_NAME, .line = 3, .n_name = 4,
                                .n_file = 1 };
        FunctionSaid said = good;

        cr_assert(beam_wire_check(&said, BEAM_WIRE_NAME));
        cr_assert_not(beam_wire_check(&said, BEAM_WIRE_FIND));
        cr_assert_not(beam_wire_check(&said, BEAM_WIRE_TASK));
        said.kind = BEAM_WIRE_TASK;
        cr_assert(beam_wire_check(&said, BEAM_WIRE_TASK));
        said.kind = BEAM_WIRE_NAME;
        said.n_name = BEAM_MAX_TEXT + 1;
        cr_assert_not(beam_wire_check(&said, BEAM_WIRE_NAME));
        said = good;
        said.line = 0x80000000u;
        cr_assert_not(beam_wire_check(&said, BEAM_WIRE_NAME));
        said = good;
        said.result = BEAM_CODE_E_GONE;
        cr_assert_not(beam_wire_check(&said, BEAM_WIRE_NAME));
        said = (FunctionSaid){ .magic = BEAM_WIRE_MAGIC, .kind = BEAM_WIRE_FIND, .result = BEAM_CODE_E_N };
        cr_assert_not(beam_wire_check(&said, BEAM_WIRE_FIND));
        cr_assert(function_wire_take(&function, &good, "a/0\0"));
        cr_assert_str_eq(function.name, "a/0");
        cr_assert_not(function_wire_take(&function, &good, "a\xff\x30\0"));
}
