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
        RubyOpened opened = { .machine = 1, .layout = *ruby_layout_find("3.1.2") };
        uint64_t target = 0;

        cr_assert(ruby_decode_current(&code, &opened));
        cr_assert_eq(opened.variable, 0x3aea48);
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
        RubyOpened opened = { .machine = 1, .variable = 0x3aea48, .layout = *ruby_layout_find("3.1.2") };
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

/* ---- 2.7 and 3.3 ---- */

/* Code in hex, of Debian's libruby 2.7.4 and two builds of 3.3.8, trixie's and sid's. */
typedef struct Sample {
        const char *text;
        uint64_t address;
        uint8_t bytes[256];
} Sample;

static RubyCode code_of(Sample *sample) {
        size_t n = strlen(sample->text) / 2;

        for (size_t i = 0; i < n; i++)
                cr_assert_eq(sscanf(sample->text + 2 * i, "%2hhx", &sample->bytes[i]), 1);
        return code_at(sample->bytes, n, sample->address);
}

#define CODE(text, address) code_of(&(Sample){ text, address, { 0 } })

Test(ruby_program, 2_7_has_one_context_for_all_threads) {
        RubyOpened opened = { .machine = 1, .variable = 8, .layout = *ruby_layout_find("2.7.4") };
        RubyCode code = CODE("488b05b1911500488b00488b4038488b4010c3", 0x1e9b10);
        uint64_t target = 0;

        cr_assert(ruby_decode_current(&code, &opened));
        cr_assert_eq(opened.variable, 8, "it is a symbol");
        code = CODE("488b0551292800488b004889e1488b9098000000488988a0000000488b80a8000000", 0xc0370);
        cr_assert(ruby_decode_stack(&code, &opened));
        cr_assert_eq(opened.stack_start, 0x98);
        cr_assert_eq(opened.stack_size, 0xa8);
        cr_assert(ruby_decode_lock(&(RubyCode){ 0 }, &opened), "there are no ractors");
        cr_assert_eq(opened.ractor, 0);
        code = CODE("4889f848c1e8044881ffa80000000f47f885ff74133b3d35061600770b31f6e90ce3ffff", 0x1e2b90);
        cr_assert(ruby_decode_name(&code, &opened, &target));
        cr_assert_eq(opened.last_operator, 168);
        cr_assert_eq(target, 0x1e0ec0);
        code = CODE("c1ee094883ec08488b3d1a231600488b07", 0x1e0ec8);
        cr_assert(ruby_decode_names(&code, &opened));
        cr_assert_eq(opened.ids, 0x3431f0);
        opened.variable = 0;
        code = CODE("488b05b1911500488b00488b4038488b4010c3", 0x1e9b10);
        cr_assert_not(ruby_decode_current(&code, &opened), "no symbol");
}

Test(ruby_program, 3_3_has_a_machine_and_an_evaluator_without_symbols) {
        RubyOpened opened = { .layout = *ruby_layout_find("3.3.8") };
        RubyCode code = CODE("488d057d2b3700488b004885c07415488b80180500000fb64010c0e80583e001c3", 0xf9064);
        uint64_t target = 0;

        cr_assert(ruby_decode_collector(&code, &opened));
        cr_assert_eq(opened.machine, 0x46bbe8);
        cr_assert_eq(opened.space, 1304);
        code = CODE("488b7818488b403048398780010000", 0x236ddc);
        cr_assert(ruby_decode_lock(&code, &opened));
        cr_assert_eq(opened.ractor, 24);
        cr_assert_eq(opened.running, 0x180);
        code = CODE("4889f831f648c1e8044881ffa9000000480f47f8e963e1ffff", 0x22bae4);
        cr_assert(ruby_decode_name(&code, &opened, &target));
        cr_assert_eq(target, 0x229c60);
        code = CODE("4889f831f648c1ef04483da9000000480f46f8e984e0ffff", 0x230904);
        cr_assert(ruby_decode_name(&code, &opened, &target));
        cr_assert_eq(opened.last_operator, 169);
        cr_assert_eq(target, 0x22e9a0);
        code = CODE("488b3d8917230089d6c1ee09488b07f6c4", 0x22e9e0);
        cr_assert(ruby_decode_names(&code, &opened));
        cr_assert_eq(opened.ids, 0x460170);
        code = CODE("415d415e415fe98df5ffff", 0x27ea08);
        cr_assert(ruby_decode_tail(&code, &target));
        cr_assert_eq(target, 0x27dfa0);
        code = CODE("415c415de9c5f4ffff", 0x27ead2);
        cr_assert(ruby_decode_tail(&code, &target));
        cr_assert_eq(target, 0x27dfa0);
}

/* What rb_iseq_line_no() goes on to. */
static const char *const lines_2_7 =
        "4155415455534883ec088b87880000004c8b67784885c00f84db0000004883f8017446488baf9000000083fe357f514863c689f2"
        "4869c0398ee338c1fa1f48c1f82129d04863d08d04c029c6488b44d5008d0cf50000000029f148d3e883e07f83e80148984d8d24c4";
static const char *const lines_3_3[] = {
        "4155415455534883ec088b8780000000488b5f704885c00f84db0000004883f80174494c8ba78800000083fe357f514863c689f2"
        "4869c0398ee338c1fa1f48c1f82129d04863d08d04c029c6498b04d48d0cf50000000029f148d3e883e07f83e8014898488d0440",
        "8b87800000004885c00f8409010000488b57704883f80174494c8b878800000083fe357f4b4863c689f14869c0398ee338c1f91f"
        "48c1f82129c84863f88d04c029c6498b04f88d0cf50000000029f148d3e883e07f83e8014898488d0440"
};

Test(ruby_program, a_layout_counts_where_code_says_the_same) {
        RubyOpened two = { .layout = *ruby_layout_find("2.7.4") };
        RubyOpened one = { .layout = *ruby_layout_find("3.1.2") };
        RubyOpened three = { .layout = *ruby_layout_find("3.3.8") };
        RubyCode code = CODE("4883ec08488b7f10e87facffff", 0x132844);
        uint64_t target = 0;

        cr_assert(ruby_decode_line(&code, &target));
        cr_assert_eq(target, 0x12d4d0);
        for (size_t i = 0; i < 2; i++) {
                code = CODE(lines_3_3[i], 0x12d4d0);
                cr_assert(ruby_decode_lines(&code, &three), "%zu", i);
                cr_assert_not(ruby_decode_lines(&code, &two), "%zu", i);
                cr_assert_not(ruby_decode_lines(&code, &one), "%zu", i);
        }
        code = CODE(lines_2_7, 0xebd50);
        cr_assert(ruby_decode_lines(&code, &two));
        cr_assert_not(ruby_decode_lines(&code, &three));
        cr_assert_not(ruby_decode_lines(&code, &one), "lines of another size");
        code = CODE("415455534889fb488b77104883c718f6430120", 0x20f5a4);
        cr_assert(ruby_decode_text(&code, &three));
        cr_assert_not(ruby_decode_text(&code, &one));
        code = CODE("751f48c1ee0e488d7b1083", 0x1c7cab);
        cr_assert(ruby_decode_text(&code, &two));
        cr_assert_not(ruby_decode_text(&code, &three));
        code = CODE("488b8798000000ba040000004885c0480f44c2c3", 0x259a54);
        cr_assert(ruby_decode_class(&code, &three));
        three.layout.class += 8;
        cr_assert_not(ruby_decode_class(&code, &three));
        cr_assert(ruby_decode_class(&(RubyCode){ 0 }, &two), "classes are not read");
        code = CODE("4983c738", 0x28cf19);
        cr_assert(ruby_decode_frames(&code, &three));
        cr_assert(ruby_decode_frames(&code, &two));
        cr_assert_not(ruby_decode_frames(&code, &one));
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

        cr_assert_eq(open_library("2.6.4", "", &opened), RUBY_OPEN_E_UNKNOWN);
#ifdef __x86_64__
        cr_assert_str_eq(opened.reason, "Ruby 2.6.4: not walked: layout unknown; 2.7, 3.1 and 3.3 are known");
        cr_assert_eq(open_library("3.4.1", "", &opened), RUBY_OPEN_E_UNKNOWN);
        cr_assert_str_eq(opened.reason, "Ruby 3.4.1: not walked: layout unknown; 2.7, 3.1 and 3.3 are known");
        cr_assert_eq(open_library("3.1.2", "", &opened), RUBY_OPEN_E_UNKNOWN);
        cr_assert_str_eq(opened.reason, "Ruby 3.1.2: not walked: a C library other than glibc");
        cr_assert_eq(open_library("3.1.2", "void rb_vm_exec(void) { puts(\"\"); } void *ruby_current_vm_ptr;", &opened),
                     RUBY_OPEN_E_UNKNOWN);
        cr_assert_str_eq(opened.reason, "Ruby 3.1.2: not walked: another build than is known");
#else
        cr_assert_str_eq(opened.reason, "Ruby 2.6.4: not walked: this processor");
#endif
        cr_assert_not(ruby_opened_is_sound(&opened));
}

Test(ruby_program, what_a_worker_says_of_a_file_is_checked) {
        const RubyOpened good = { .variable = 8, .machine = 8, .ids = 8, .evaluator = 0x1000,
                                  .evaluator_size = 64, .layout = *ruby_layout_find("3.3.8"),
                                  .stack_start = 0x90, .stack_size = 0xa0, .last_operator = 169 };
        RubyOpened bad[6] = { good, good, good, good, good, good };

        cr_assert(ruby_opened_is_sound(&good));
        bad[0].layout.frame_size = 0;
        bad[1].evaluator_size = UINT64_MAX;
        bad[2].core_size = UINT64_MAX;
        bad[3].stack_start = RUBY_CONTEXT_SIZE;
        bad[4].layout = (RubyLayout){ 0 };
        bad[5].ids = 0;
        for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
                cr_assert_not(ruby_opened_is_sound(&bad[i]), "%zu", i);
}
