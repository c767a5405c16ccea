/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a file says of its release. The library is made here, by gcc, with the one name that every PHP
 * exports; the version is written into its constants, at places around the ends of what is read at once.
 */

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

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
