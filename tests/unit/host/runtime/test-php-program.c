/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a file says of its release. The library is made here, by gcc, with the one name that every PHP
 * exports; the version is written into its constants, at places around the ends of what is read at once.
 */

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/runtime/php/php-program.h"
#include "work-directory.h"

enum {
        SEARCHED = 64 << 10,            /* bytes that are read at once */
        AROUND = 100,
};

TestSuite(php_program, .init = work_directory_make, .fini = work_directory_remove, .timeout = 60);

/* Return: the bytes of the library, to be freed; *constantsp: its array, where its constants begin. */
static char *make_library(size_t *sizep, char **constantsp) {
        char *data;
        FILE *file;

        cr_assert_eq(shell("echo 'const char constants[200000] __attribute__((aligned(4096))) = \"constants begin\"; "
                           "void execute_ex(void) { }' >php.c && gcc -shared -fPIC -Wl,-z,separate-code -o php.so php.c"),
                     0);
        file = fopen(work_path("php.so"), "re");
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

Test(php_program, a_version_is_read_whole_wherever_it_lies) {
        static const char text[] = "X-Powered-By: PHP/8.2.36";
        char *constants, *data;
        PhpOpened opened;
        size_t size;

        data = make_library(&size, &constants);
        for (size_t at = SEARCHED - AROUND; at < SEARCHED + AROUND; at++) {
                memcpy(constants + at, text, sizeof(text));
                php_open(-1, data, size, &opened);
                cr_expect_eq(strncmp(opened.reason, "PHP 8.2.36: ", 12), 0, "%zu: %s", at, opened.reason);
                memset(constants + at, 0, sizeof(text));
        }
        free(data);
}

/* Globals are those of a thread there, and have another name. */
Test(php_program, a_thread_safe_build_is_refused_in_words) {
        static const char text[] = "X-Powered-By: PHP/8.2.36";
        char *constants, *data;
        PhpOpened opened;
        size_t size;

        data = make_library(&size, &constants);
        memcpy(constants + AROUND, text, sizeof(text));
        cr_assert_eq(php_open(-1, data, size, &opened), PHP_OPEN_E_UNKNOWN);
        cr_assert_str_eq(opened.reason, "PHP 8.2.36: not walked: thread-safe build (ZTS)");
        free(data);
}

/* Static programs have no symbols of their own. */
Test(php_program, a_static_build_is_refused_in_words) {
        static const struct {
                const char *engine, *reason;    /* NULL = it is not PHP's */
        } cases[] = {
                { "Zend Engine v%s", "PHP 8.4.21: not walked: a static build, which exports nothing" },
                { "Zend Engines", NULL },
        };
        PhpOpened opened;
        uint64_t size;
        FILE *file;
        int fd;

        for (size_t i = 0; i < 2; i++) {
                file = fopen(work_path("static.c"), "we");
                cr_assert_not_null(file);
                fprintf(file,
                        "#include <stdio.h>\nconst char header[] = \"X-Powered-By: PHP/8.4.21\";\n"
                        "int main(void) { printf(header); return printf(\"%s\", \"\"); }\n",
                        cases[i].engine);
                fclose(file);
                cr_assert_eq(shell("gcc -w -static -o static static.c && strip static"), 0);
                fd = open(work_path("static"), O_RDONLY | O_CLOEXEC);
                cr_assert_geq(fd, 0);
                size = (uint64_t)lseek(fd, 0, SEEK_END);
                cr_expect_eq(php_recognises(fd, NULL, size), cases[i].reason != NULL);
                cr_expect_eq(php_open(fd, NULL, size, &opened), PHP_OPEN_E_UNKNOWN);
                cr_expect_str_eq(opened.reason,
                                 cases[i].reason ? cases[i].reason : "PHP: not walked: the file has changed");
                close(fd);
        }
}

/* ---- functions that are called without a frame ---- */

/* Opens a program with the code of PHP that is looked at, and @n places that call such functions. */
static void open_with_calls(unsigned n, PhpOpened *opened) {
        FILE *file = fopen(work_path("calls.s"), "we");
        int fd;

        cr_assert_not_null(file);
        fprintf(file,
                ".macro object name\n.globl \\name\n.type \\name,@object\n.size \\name,8\n"
                "\\name: .quad 0\n.endm\n"
                ".macro begin name\n.globl \\name\n.type \\name,@function\n\\name:\n.endm\n"
                ".data\nobject zend_flf_functions\nobject zend_flf_handlers\nobject executor_globals\n"
                ".text\nbegin zend_vm_kind\nmov $4,%%eax\nret\n.size zend_vm_kind,.-zend_vm_kind\n"
                "begin zend_get_executed_filename_ex\nlea executor_globals(%%rip),%%rdx\n"
                "mov 0x1e8(%%rdx),%%rax\nmov 0x18(%%rax),%%rdx\n"
                "mov 0x30(%%rax),%%rax\nmov 0x98(%%rdx),%%rax\nret\n"
                ".size zend_get_executed_filename_ex,.-zend_get_executed_filename_ex\n"
                "begin execute_ex\n.rept %u\nlea zend_flf_handlers(%%rip),%%rax\nmov (%%rax),%%rax\n"
                "call *(%%rax,%%rcx,8)\n.endr\nret\n.skip 64\n.size execute_ex,.-execute_ex\n",
                n);
        fclose(file);
        cr_assert_eq(shell("gcc -shared -nostdlib -Wl,-Bsymbolic -o calls.so calls.s"), 0);
        fd = open(work_path("calls.so"), O_RDONLY | O_CLOEXEC);
        cr_assert_geq(fd, 0);
        cr_assert_eq(php_open(fd, NULL, (uint64_t)lseek(fd, 0, SEEK_END), opened), 0, "%s", opened->reason);
        close(fd);
}

Test(php_program, as_many_places_as_a_process_has_room_for_call_functions_without_frames) {
        PhpOpened opened;

        open_with_calls(PHP_MAX_CALLS, &opened);
        cr_assert_str_eq(opened.reason, "PHP");
        cr_assert_neq(opened.frameless, 0);
        for (size_t i = 0; i < PHP_MAX_CALLS; i++)
                cr_assert_eq(opened.calls[i], 13 * (int32_t)(i + 1), "%zu", i);
}

Test(php_program, functions_without_frames_that_are_not_found_are_told_in_words) {
        static const unsigned numbers[] = { 0, PHP_MAX_CALLS + 1 };
        PhpOpened opened;

        for (size_t i = 0; i < 2; i++) {
                open_with_calls(numbers[i], &opened);
                cr_assert_str_eq(opened.reason, "PHP; functions without frames are not found");
                cr_assert_eq(opened.frameless, 0);
        }
}
