/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <elf.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/library.h"

#define FUNCTIONS(X) X(sqrt) X(hypot)
#define UNKNOWN(X) X(sqrt) X(spanprof_no_such_function)
int spanprof_no_such_function(void);

static struct {
        FUNCTIONS(LIBRARY_POINTER)
} lib;
static struct {
        UNKNOWN(LIBRARY_POINTER)
} unknown;

Test(library, gives_the_functions_that_were_named) {
        Library library = LIBRARY(lib, "libm.so.6", FUNCTIONS, "to compute");

        cr_assert_eq(library_load(&library), 0);
        cr_assert_eq(lib.sqrt(81), 9);
        cr_assert_eq(lib.hypot(3, 4), 5);
        cr_assert_eq(library_load(&library), 0, "once more");
}

Test(library, has_its_own_functions_alone_where_loading_is_forbidden) {
        static const LibraryFunction own[] = { { "sqrt", (void *)fabs },
                                               { "hypot", (void *)hypot },
                                               { NULL, NULL } };
        Library ours = LIBRARY(lib, "libm.so.6", FUNCTIONS, "to compute");
        Library other = LIBRARY(unknown, "libm.so.6", UNKNOWN, "to compute");
        char name[64];

        library_forbid("here none is", own);
        cr_assert_eq(library_load(&ours), 0);
        cr_assert_eq(lib.sqrt(-7), 7, "the program's own, and not that of the library");
        cr_assert_eq(library_load(&other), LIBRARY_E_MISSING);
        cr_assert_eq(library_file("libm.so.6", name, sizeof(name)), LIBRARY_E_MISSING);
}

Test(library, is_missing_without_its_file_or_a_function) {
        Library none = LIBRARY(lib, "libspanprof-is-not-there.so.7", FUNCTIONS, "to compute");
        Library other = LIBRARY(unknown, "libm.so.6", UNKNOWN, "to compute");

        cr_assert_eq(library_load(&none), LIBRARY_E_MISSING);
        cr_assert_null(lib.sqrt);
        cr_assert_eq(library_load(&other), LIBRARY_E_MISSING);
        cr_assert_eq(library_load(&other), LIBRARY_E_MISSING, "it does not become right by itself");
}

/* What packages and images are made by: `readelf -n` must take the notes for notes. */
Test(library, is_noted_in_the_program) {
        static const char *const wanted[] = { SONAME_CRYPTO, SONAME_CURL, SONAME_MICROHTTPD, SONAME_SQLITE3 };
        char command[512], text[16384] = "";
        FILE *pipe;

        snprintf(command, sizeof(command), "readelf -Wn %s; readelf -Wp .note.dlopen %s",
                 getenv("SPANPROF"), getenv("SPANPROF"));
        pipe = popen(command, "r");
        cr_assert(fread(text, 1, sizeof(text) - 1, pipe) > 0);
        pclose(pipe);
        cr_assert(strstr(text, "FDO "), "%s", text);
        for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
                char part[128];

                snprintf(part, sizeof(part), "\"soname\":[\"%s\"]}]", wanted[i]);
                cr_assert(strstr(text, part), "%s in %s", part, text);
        }
}
