/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Executables of Go, as tests/fuzz/make/make-go-labels-corpus.py makes them. Real ones of each toolchain:
 * tests/integration/host/runtime/test-run-go-labels.py.
 */

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/runtime/go/go-layout.h"
#include "host/runtime/go/go-program.h"

static bool read_file(const char *name, GoProgram *program) {
        char path[4096];
        struct stat stat;
        bool is, is_library;
        int fd;

        snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/go-program/%s", getenv("BUILD_DIR"), name);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        cr_assert_geq(fd, 0, "%s", path);
        cr_assert_eq(fstat(fd, &stat), 0);
        is = go_program_read(&(GoInput){ .fd = fd, .size = (uint64_t)stat.st_size }, program);
        cr_assert_eq(go_program_is(&(GoInput){ .fd = fd, .size = (uint64_t)stat.st_size }, &is_library), is);
        cr_assert_eq(is && program->is_library, is_library);
        close(fd);
        return is;
}

static int64_t place_of(const char *name) {
        GoProgram program;

        cr_assert(read_file(name, &program));
        cr_assert_str_eq(program.version, "go1.26.8");
        cr_assert_eq(program.minor, 26);
        return program.tls == GO_TLS_KNOWN ? program.tls_offset : 0;
}

Test(go_program, places) {
        cr_assert_eq(place_of("static"), -8);
        cr_assert_eq(place_of("tls-only"), -8);
        cr_assert_eq(place_of("symbol"), -0x80);
        cr_assert_eq(place_of("direct"), -0x80);
        cr_assert_eq(place_of("indirect"), -0x80);
        cr_assert_eq(place_of("two-places"), 0);
}

Test(go_program, a_register_of_arm64) {
        GoProgram program;

        cr_assert(read_file("arm64", &program));
        cr_assert_eq(program.minor, 26);
        cr_assert_eq(program.tls, GO_TLS_NONE);
}

/* The address of the word that has the place; 0 = which one is not known. */
static uint64_t word_of(const char *name) {
        GoProgram program;

        cr_assert(read_file(name, &program));
        cr_assert(program.is_library);
        cr_assert_eq(program.minor, 26);
        return program.tls == GO_TLS_IN_WORD ? program.tls_word : 0;
}

Test(go_program, libraries) {
        cr_assert_eq(word_of("library"), 0);
        cr_assert_eq(word_of("library-word"), 0x1fb8);
        cr_assert_eq(word_of("library-stripped"), 0);
        cr_assert_eq(word_of("library-symbol"), 0x1fc0);
        cr_assert(go_tls_offset_is_sound(-8));
        cr_assert_not(go_tls_offset_is_sound(0));
        cr_assert_not(go_tls_offset_is_sound(-12));
        cr_assert_not(go_tls_offset_is_sound(INT64_MIN));
}

Test(go_program, an_executable_without_a_dynamic_linker_is_no_library) {
        GoProgram program;

        cr_assert(read_file("static-pie", &program));
        cr_assert_not(program.is_library);
        cr_assert_eq(program.tls, GO_TLS_KNOWN);
        cr_assert_eq(program.tls_offset, -8);
}

Test(go_program, versions) {
        GoProgram program;

        cr_assert(read_file("devel", &program));
        cr_assert_str_eq(program.version, "go1.28-abc");
        cr_assert_eq(program.minor, 28);
        cr_assert(read_file("old", &program));
        cr_assert_eq(program.minor, 17);
        cr_assert_eq(go_version_minor("go1.27rc1"), 27);
        cr_assert_eq(go_version_minor("devel go1.28-d5f"), 28);
        cr_assert_eq(go_version_minor("go2.1"), 0);
        cr_assert_eq(go_version_minor("go1.-3"), 0);
        cr_assert_eq(go_version_minor("go1.99999999999999999999"), 0);
        cr_assert_eq(go_version_minor(""), 0);
}

Test(go_program, layouts) {
        struct go_process process;

        cr_assert_not(go_layout(17, &process));
        cr_assert_not(go_layout(28, &process));
        for (uint32_t minor = GO_FIRST_MINOR; minor <= GO_LAST_MINOR; minor++) {
                cr_assert(go_layout(minor, &process));
                cr_assert_lt(process.m, process.goid);
                cr_assert_lt(process.goid, process.labels);
                cr_assert_lt(process.labels - process.m, GO_MAX_OFFSET);
                cr_assert_eq(process.form, minor < 24 ? GO_LABELS_MAP : GO_LABELS_SLICE);
        }
}
