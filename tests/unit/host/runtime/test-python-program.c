/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Small ELF files with sections and symbols made by hand: an interpreter that only its symbol table, or only
 * its section, tells. Programs with exports are in the integration tests.
 */

#include <criterion/criterion.h>
#include <string.h>

#include "core/base/util/macro.h"
#include "host/runtime/python/python-program.h"
#include "python-file.h"

TestSuite(python_program, .init = put_python_file);

static bool read_file(PythonProgram *program) {
        return python_program_read(program, -1, &file, sizeof(file));
}

static void strip(void) {
        file.sections[2].sh_type = file.sections[2].sh_name = 0;
}

Test(python_program, the_symbol_table_tells_where_an_interpreter_is) {
        PythonProgram program;

        cr_assert(read_file(&program));
        cr_assert_eq(program.version, 0x030b);
        cr_assert_eq(program.places[PYTHON_SYMBOL_RUNTIME].address,
                     PYTHON_FILE_BASE + offsetof(PythonFileImage, runtime));
        cr_assert_eq(program.places[PYTHON_SYMBOL_CODE].address, PYTHON_FILE_BASE + 8);
        cr_assert_eq(program.places[PYTHON_SYMBOL_EVALUATOR].size, 100);
        cr_assert_eq(program.places[PYTHON_SYMBOL_COROUTINE].address, 0);
}

Test(python_program, releases_without_a_version_are_told_by_their_functions) {
        PythonProgram program;

        put_symbol(2, "PyIter_Send", 16, 10);
        cr_assert(read_file(&program));
        cr_assert_eq(program.version, 0x030a);
        file.symbols[2].st_shndx = SHN_UNDEF;
        cr_assert(read_file(&program));
        cr_assert_eq(program.version, 0x0307);
}

Test(python_program, a_stripped_one_describes_itself_from_3_13_on) {
        PythonProgram program;

        strip();
        cr_assert(read_file(&program));
        cr_assert_eq(program.version, 0, "an older one");
        cr_assert_eq(program.places[PYTHON_SYMBOL_RUNTIME].address,
                     PYTHON_FILE_BASE + offsetof(PythonFileImage, runtime));
        file.runtime[0] = PYTHON_COOKIE;
        file.runtime[1] = 0x030e0af0;
        cr_assert(read_file(&program));
        cr_assert_eq(program.version, 0x030e);
        cr_assert_eq(program.places[PYTHON_SYMBOL_CODE].address, 0);
}

Test(python_program, other_files_are_none) {
        PythonProgram program, before;

        memset(&program, 0xee, sizeof(program));
        before = program;
        file.sections[1].sh_name = 0;
        cr_assert_not(read_file(&program), "symbols alone");
        put_python_file();
        file.sections[1].sh_type = SHT_NOBITS;
        cr_assert_not(read_file(&program), "a debug file");
        put_python_file();
        file.sections[1].sh_flags = 0;
        cr_assert_not(read_file(&program));
        cr_assert_not(python_program_read(&program, -1, &file, 20));
        cr_assert_not(python_program_read(&program, -1, section_names, sizeof(section_names)));
        cr_assert_eq(memcmp(&program, &before, sizeof(program)), 0);
}

Test(python_program, tables_that_lie_elsewhere_are_left_out) {
        PythonProgram program;

        file.sections[2].sh_link = PYTHON_FILE_SECTIONS;
        cr_assert(read_file(&program));
        cr_assert_eq(program.places[PYTHON_SYMBOL_CODE].address, 0);
        put_python_file();
        file.sections[2].sh_size = 1ull << 40;
        cr_assert(read_file(&program));
        cr_assert_eq(program.places[PYTHON_SYMBOL_CODE].address, 0);
        put_python_file();
        file.symbols[4].st_name = 0xffffffff;
        cr_assert(read_file(&program));
        cr_assert_eq(program.places[PYTHON_SYMBOL_CODE].address, 0);
        cr_assert_neq(program.places[PYTHON_SYMBOL_VERSION].address, 0);
}
