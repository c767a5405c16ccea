/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What code of Ruby says of its layout, and which files are refused, in which words. The code is that of
 * Debian's libruby 3.1.2, cut out by hand; libraries are made here, by gcc, with the names that every Ruby
 * exports.
 */

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "host/runtime/ruby/ruby-program.h"
#include "work-directory.h"

TestSuite(ruby_program, .init = work_directory_make, .fini = work_directory_remove, .timeout = 60);

static const uint8_t current[] = { 0x48, 0x83, 0xec, 0x08, 0x66, 0x48, 0x8d, 0x3d, 0xac, 0xe2, 0x19, 0x00,
                                   0x66, 0x66, 0x48, 0xe8, 0x4c, 0x50, 0xe2, 0xff, 0x48, 0x8b, 0x00, 0x48,
                                   0x8b, 0x40, 0x30, 0x48, 0x8b, 0x40, 0x10, 0x48, 0x83, 0xc4, 0x08, 0xc3 };
static const uint8_t stack[] = { 0x48, 0x83, 0xec, 0x08, 0x66, 0x48, 0x8d, 0x3d, 0x0c, 0x11, 0x2e, 0x00, 0x66,
                                 0x66, 0x48, 0xe8, 0xac, 0x7e, 0xf6, 0xff, 0x48, 0x8b, 0x10, 0x48, 0x89, 0xe1,
                                 0x48, 0x8b, 0x82, 0x90, 0x00, 0x00, 0x00, 0x48, 0x89, 0x8a, 0x98, 0x00, 0x00,
                                 0x00, 0x48, 0x8b, 0x92, 0xa0, 0x00, 0x00, 0x00, 0x48, 0x29, 0xc8 };
static const uint8_t collector[] = { 0x48, 0x8b, 0x05, 0xa1, 0xf7, 0x2d, 0x00, 0x48, 0x8b, 0x00,
                                     0x48, 0x8b, 0x80, 0x50, 0x04, 0x00, 0x00, 0x0f, 0xb6, 0x40,
                                     0x10, 0xc0, 0xe8, 0x05, 0x83, 0xe0, 0x01, 0xc3 };
static const uint8_t lock[] = { 0x49, 0x8b, 0x7e, 0x18, 0x49, 0x8b, 0x46, 0x28, 0x48, 0x39,
                                0x87, 0x08, 0x02, 0x00, 0x00, 0x74, 0x0f };
static const uint8_t name[] = { 0x48, 0x89, 0xf8, 0x48, 0xc1, 0xe8, 0x04, 0x48, 0x81, 0xff, 0xa9, 0x00,
                                0x00, 0x00, 0x0f, 0x47, 0xf8, 0x31, 0xf6, 0xe9, 0x78, 0xdd, 0xff, 0xff };
static const uint8_t names[] = { 0x72, 0x5f, 0x48, 0x8b, 0x3d, 0x78, 0x85, 0x1a, 0x00,
                                 0x89, 0xde, 0xc1, 0xee, 0x09, 0x48, 0x8b, 0x07 };

static RubyCode code_at(const uint8_t *bytes, size_t size, uint64_t address) {
        return (RubyCode){ bytes, size, address };
}

Test(ruby_program, code_says_where_frames_and_names_are) {
        RubyCode code = code_at(current, sizeof(current), 0x210790);
        RubyOpened opened = { 0 };
        uint64_t target = 0;

        cr_assert(ruby_decode_current(&code, &opened));
        cr_assert_eq(opened.variable, 0x3aea48);
        cr_assert_eq(opened.thread, 48);
        code = code_at(stack, sizeof(stack), 0xcd930);
        cr_assert(ruby_decode_stack(&code, &opened));
        cr_assert_eq(opened.stack_start, 0x90);
        cr_assert_eq(opened.stack_size, 0xa0);
        code = code_at(collector, sizeof(collector), 0xcf4e0);
        cr_assert(ruby_decode_collector(&code, &opened));
        cr_assert_eq(opened.space, 1104);
        cr_assert_eq(opened.space_flags, 16);
        cr_assert_eq(opened.collects, 1 << 5);
        code = code_at(lock, sizeof(lock), 0x211e02);
        cr_assert(ruby_decode_lock(&code, &opened));
        cr_assert_eq(opened.ractor, 24);
        cr_assert_eq(opened.running, 520);
        code = code_at(name, sizeof(name), 0x208e80);
        cr_assert(ruby_decode_name(&code, &opened, &target));
        cr_assert_eq(opened.last_operator, 169);
        cr_assert_eq(target, 0x206c10);
        code = code_at(names, sizeof(names), 0x206c4f);
        cr_assert(ruby_decode_names(&code, &opened));
        cr_assert_eq(opened.ids, 0x3af1d0);
}

Test(ruby_program, code_that_is_cut_or_of_another_shape_says_nothing) {
        RubyOpened opened = { .variable = 0x3aea48 };
        uint8_t other[sizeof(current)];
        uint64_t target;

        for (size_t n = 0; n < sizeof(current); n++) {
                const RubyCode code = code_at(current, n, 0x210790);

                cr_assert_not(ruby_decode_current(&code, &opened), "%zu", n);
        }
        for (size_t n = 0; n < 47; n++) {
                const RubyCode code = code_at(stack, n, 0xcd930);

                cr_assert_not(ruby_decode_stack(&code, &opened), "%zu", n);
        }
        for (size_t n = 0; n < sizeof(collector); n++) {
                const RubyCode code = code_at(collector, n, 0xcf4e0);

                cr_assert_not(ruby_decode_collector(&code, &opened), "%zu", n);
        }
        for (size_t n = 0; n < 15; n++) {
                const RubyCode code = code_at(lock, n, 0x211e02);

                cr_assert_not(ruby_decode_lock(&code, &opened), "%zu", n);
        }
        for (size_t n = 0; n < sizeof(name); n++) {
                const RubyCode code = code_at(name, n, 0x208e80);

                cr_assert_not(ruby_decode_name(&code, &opened, &target), "%zu", n);
        }
        memcpy(other, current, sizeof(other));
        other[26] = 0x38;               /* a context has its thread elsewhere: another release */
        cr_assert_not(ruby_decode_current(&(RubyCode){ other, sizeof(other), 0x210790 }, &opened));
        cr_assert_not(ruby_decode_stack(&(RubyCode){ stack, sizeof(stack), 0xcd931 }, &opened),
                      "another variable");
}

/* Opens a library that exports @names, with this text as its release. Return: what ruby_open() says. */
static int open_library(const char *version, const char *more, RubyOpened *opened) {
        static char data[1 << 20];
        size_t size;
        FILE *file;

        cr_assert_eq(shell("echo '#include <stdio.h>\n"
                           "const char ruby_version[] = \"%s\"; void rb_thread_current(void) { } "
                           "void rb_during_gc(void) { } %s' >ruby.c && gcc -shared -fPIC -o ruby.so ruby.c",
                           version, more),
                     0);
        file = fopen(work_path("ruby.so"), "re");
        cr_assert_not_null(file);
        size = fread(data, 1, sizeof(data), file);
        fclose(file);
        cr_assert(ruby_recognises(-1, data, size));
        memset(opened, 0xee, sizeof(*opened));
        return ruby_open(-1, data, size, opened);
}

Test(ruby_program, other_releases_and_builds_are_refused_by_name) {
        RubyOpened opened;

        cr_assert_eq(open_library("2.7.4", "", &opened), RUBY_OPEN_E_UNKNOWN);
#ifdef __x86_64__
        cr_assert_str_eq(opened.reason, "Ruby 2.7.4: not walked: layout unknown; 3.1 is known");
        cr_assert_eq(open_library("3.3.8", "", &opened), RUBY_OPEN_E_UNKNOWN);
        cr_assert_str_eq(opened.reason, "Ruby 3.3.8: not walked: layout unknown; 3.1 is known");
        cr_assert_eq(open_library("3.1.2", "", &opened), RUBY_OPEN_E_UNKNOWN);
        cr_assert_str_eq(opened.reason, "Ruby 3.1.2: not walked: a C library other than glibc");
        cr_assert_eq(open_library("3.1.2", "void rb_vm_exec(void) { puts(\"\"); } void *ruby_current_vm_ptr;", &opened),
                     RUBY_OPEN_E_UNKNOWN);
        cr_assert_str_eq(opened.reason, "Ruby 3.1.2: not walked: another build than is known");
#else
        cr_assert_str_eq(opened.reason, "Ruby 2.7.4: not walked: this processor");
#endif
        cr_assert_not(ruby_opened_is_sound(&opened));
}

Test(ruby_program, what_a_worker_says_of_a_file_is_checked) {
        const RubyOpened good = { .variable = 8, .machine = 8, .ids = 8, .evaluator = 0x1000,
                                  .evaluator_size = 64, .frame_size = 64, .thread = 48, .stack_start = 0x90,
                                  .stack_size = 0xa0, .last_operator = 169 };
        RubyOpened bad[6] = { good, good, good, good, good, good };

        cr_assert(ruby_opened_is_sound(&good));
        bad[0].frame_size = 0;
        bad[1].evaluator_size = UINT64_MAX;
        bad[2].core_size = UINT64_MAX;
        bad[3].stack_start = RUBY_CONTEXT_SIZE;
        bad[4].thread = 256;
        bad[5].ids = 0;
        for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
                cr_assert_not(ruby_opened_is_sound(&bad[i]), "%zu", i);
}
