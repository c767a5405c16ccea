/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a file says of its release, and why it is not walked. Libraries are made here, by gcc, with the names
 * that builds of Erlang export; the banner is written into their constants.
 */

#include <criterion/criterion.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "host/runtime/beam/beam-program.h"
#include "work-directory.h"

#define EXTENSIONS "void enif_schedule_nif(void) { } void driver_output_term(void) { } void erl_drv_init_ack(void) { }"
#define VARIABLES "long variables[1000] = { 1 };"
#define ATOMS "const char name[] = \"atom_tab\";"
#define JIT " [source] [64-bit] [jit:ns%s]"

enum {
        SEARCHED = 64 << 10,            /* bytes that are read at once */
        AROUND = 80,                    /* more bytes than the text has */
};

TestSuite(beam_program, .init = work_directory_make, .fini = work_directory_remove, .timeout = 60);

/* Return: the bytes of the library, to be freed; *constantsp: its array, where its constants begin. */
static char *make_library(const char *source, size_t *sizep, char **constantsp) {
        char *data;
        FILE *file;

        cr_assert_eq(shell("echo 'const char constants[100000] __attribute__((aligned(4096))) = \"constants begin\"; "
                           "%s' >beam.c && gcc -shared -fPIC -Wl,-z,separate-code -o beam.so beam.c",
                           source),
                     0);
        file = fopen(work_path("beam.so"), "re");
        cr_assert_not_null(file);
        cr_assert_eq(fseek(file, 0, SEEK_END), 0);
        *sizep = (size_t)ftell(file);
        rewind(file);
        data = malloc(*sizep);
        cr_assert_not_null(data);
        cr_assert_eq(fread(data, 1, *sizep, file), *sizep);
        fclose(file);
        *constantsp = memmem(data, *sizep, "constants begin", 15);
        cr_assert_not_null(*constantsp);
        return data;
}

static void expect(const char *source, const char *banner, int result, const char *reason) {
        char *constants, *data;
        BeamOpened opened;
        size_t size;

        data = make_library(source, &size, &constants);
        strcpy(constants + 100, banner);
        cr_expect(beam_recognises(-1, data, size));
        cr_expect_eq(beam_open(-1, data, size, &opened), result, "%s", banner);
        cr_expect_str_eq(opened.reason, reason);
        cr_expect_eq(beam_opened_is_sound(&opened), !result);
        free(data);
}

Test(beam_program, a_build_with_the_jit_is_known_and_others_are_refused_in_words) {
        expect(EXTENSIONS VARIABLES ATOMS, "Erlang/OTP 25%s [erts-13.1.5]" JIT, 0, "Erlang/OTP 25");
        expect(EXTENSIONS VARIABLES ATOMS, "Erlang/OTP 27%s [erts-15.2.7]" JIT, 0, "Erlang/OTP 27");
        expect(EXTENSIONS VARIABLES ATOMS, "Erlang/OTP 29%s [erts-17.1.1]" JIT, 0, "Erlang/OTP 29");
        expect(EXTENSIONS VARIABLES ATOMS, "Erlang/OTP 28%s [erts-16.1]" JIT, BEAM_OPEN_E_UNKNOWN,
               "Erlang/OTP 28: not walked: layout unknown; 25, 27 and 29 are known");
        expect(EXTENSIONS VARIABLES ATOMS, "Erlang/OTP 25%s [erts-13.1.5]", BEAM_OPEN_E_UNKNOWN,
               "Erlang/OTP 25: not walked: the interpreter (emu): a build with the JIT is");
        expect(EXTENSIONS VARIABLES, "Erlang/OTP 25%s [erts-13.1.5]" JIT, BEAM_OPEN_E_UNKNOWN,
               "Erlang/OTP 25: not walked: its variables are not found");
        expect(EXTENSIONS VARIABLES ATOMS, "Erlang/OTP 18. For more information", BEAM_OPEN_E_UNKNOWN,
               "Erlang/OTP: not walked: layout unknown; 25, 27 and 29 are known");
}

Test(beam_program, a_release_is_read_whole_wherever_it_lies) {
        static const char text[] = "Erlang/OTP 25%s [erts-13.1.5]" JIT;
        char *constants, *data;
        BeamOpened opened;
        size_t size;

        data = make_library(EXTENSIONS VARIABLES ATOMS, &size, &constants);
        for (size_t at = SEARCHED - AROUND; at < SEARCHED + AROUND; at++) {
                memcpy(constants + at, text, sizeof(text));
                beam_open(-1, data, size, &opened);
                cr_expect_str_eq(opened.reason, "Erlang/OTP 25", "%zu", at);
                memset(constants + at, 0, sizeof(text));
        }
        free(data);
}

/* A segment of constants behind the others; PT_GNU_STACK gives it its place among the headers. */
static char *add_segment(char *data, size_t size, size_t n) {
        char *grown = calloc(1, size + n);
        Elf64_Ehdr header;
        Elf64_Phdr segment;

        cr_assert_not_null(grown);
        memcpy(grown, data, size);
        memcpy(&header, grown, sizeof(header));
        for (unsigned i = 0; i < header.e_phnum; i++) {
                char *at = grown + header.e_phoff + i * sizeof(segment);

                memcpy(&segment, at, sizeof(segment));
                if (segment.p_type != PT_GNU_STACK)
                        continue;
                segment = (Elf64_Phdr){ .p_type = PT_LOAD, .p_flags = PF_R, .p_offset = size,
                                        .p_vaddr = 1ull << 32, .p_filesz = n, .p_memsz = n };
                memcpy(at, &segment, sizeof(segment));
                return grown;
        }
        cr_assert_fail("gcc writes PT_GNU_STACK");
        return NULL;
}

Test(beam_program, a_release_is_searched_in_so_many_bytes_only) {
        enum { MIB = 1 << 20, N = 70 * MIB };
        static const char text[] = "Erlang/OTP 25%s [erts-13.1.5]" JIT;
        char *constants, *data, *grown;
        BeamOpened opened;
        size_t size;

        data = make_library(EXTENSIONS VARIABLES ATOMS, &size, &constants);
        grown = add_segment(data, size, N);
        memcpy(grown + size + 60 * MIB, text, sizeof(text));
        beam_open(-1, grown, size + N, &opened);
        cr_expect_str_eq(opened.reason, "Erlang/OTP 25");
        memset(grown + size + 60 * MIB, 0, sizeof(text));
        memcpy(grown + size + 66 * MIB, text, sizeof(text));
        beam_open(-1, grown, size + N, &opened);
        cr_expect_str_eq(opened.reason, "Erlang/OTP: not walked: layout unknown; 25, 27 and 29 are known");
        free(grown);
        free(data);
}

Test(beam_program, another_program_is_none) {
        char *constants, *data;
        size_t size;

        data = make_library("void enif_schedule_nif(void) { }", &size, &constants);
        cr_assert_not(beam_recognises(-1, data, size));
        cr_assert_not(beam_recognises(-1, data, 10));
        free(data);
}
