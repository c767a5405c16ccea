/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "symbol/demangle.h"

static const char *demangled(const char *name, DemangleStyle style) {
        static char text[DEMANGLE_MAX_OUTPUT];
        size_t size = demangle(name, style, text, sizeof(text));

        if (!size)
                return "";
        cr_assert_eq(strlen(text), size);
        return text;
}

/* Expected: c++filt --no-verbose of binutils 2.40, with parameters and with -p; Rust: rustfilt 0.2.1 and RFC 2603. */
Test(demangle, reads_names_of_cxx) {
        static const char *const names[][3] = {
                { "_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int, std::allocator<int> >::push_back",
                  "std::vector<int, std::allocator<int> >::push_back(int const&)" },
                { "_ZN4llvm9StringRef4findEcm", "llvm::StringRef::find", "llvm::StringRef::find(char, unsigned long)" },
                { "_ZNSaIcED1Ev", "std::allocator<char>::~allocator", "std::allocator<char>::~allocator()" },
                { "_Z3foov.cold", "foo", "foo() [clone .cold]" },
                { "_Z3fooILi3EEvv", "foo<3>", "void foo<3>()" },
                { "_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()", "main::{lambda()#1}::operator()() const" },
                { "_GLOBAL__I_main", "global constructors keyed to main", "global constructors keyed to main" },
                { "_GLOBAL__I__ZN1a1bE", "global constructors keyed to a::b", "global constructors keyed to a::b" },
        };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                cr_expect_str_eq(demangled(names[i][0], DEMANGLE_SHORT), names[i][1]);
                cr_expect_str_eq(demangled(names[i][0], DEMANGLE_FULL), names[i][2]);
                cr_expect_str_eq(demangled(names[i][0], DEMANGLE_NONE), "");
        }
}

Test(demangle, reads_names_of_rust) {
        static const char *const names[][2] = {
                { "_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt" },
                { "_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$3bar17h930b740aa94f1d3aE",
                  "<Test + 'static as foo::Bar<Test>>::bar" },
                { "_RNvC6_123foo3bar", "123foo::bar" },
                { "_RNvMsr_NtCs3ssYzQotkvD_3std4pathNtB5_7PathBuf3new", "<std::path::PathBuf>::new" },
                { "_RNqCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y",
                  "utf8_idents::\xe1\x83\xa1\xe1\x83\x90\xe1\x83\xad\xe1\x83\x9b\xe1\x83\x94\xe1\x83\x9a\xe1\x83\x90\xe1\x83\x93_"
                  "\xe1\x83\x92\xe1\x83\x94\xe1\x83\x9b\xe1\x83\xa0\xe1\x83\x98\xe1\x83\x94\xe1\x83\x9a\xe1\x83\x98_"
                  "\xe1\x83\xa1\xe1\x83\x90\xe1\x83\x93\xe1\x83\x98\xe1\x83\x9a\xe1\x83\x98" },
                { "_RINvNtC3std3mem8align_ofNtNtC3std3mem12DiscriminantE", "std::mem::align_of::<std::mem::Discriminant>" },
        };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                cr_expect_str_eq(demangled(names[i][0], DEMANGLE_SHORT), names[i][1]);
                cr_expect_str_eq(demangled(names[i][0], DEMANGLE_FULL), names[i][1]);
        }
}

Test(demangle, leaves_other_names_alone) {
        static const char *const names[] = { "", "main", "_", "_Z", "_start", "_R", "_ZN", "runtime.mallocgc", "_Z3fo", "_GLOBAL_", "_GLOBAL__",
                                             "_GLOBAL__sub", "_GLOBAL__I", "_GLOBAL__I", "_GLOBAL__sub_I_main" };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                cr_expect_str_eq(demangled(names[i], DEMANGLE_FULL), "", "%s", names[i]);
}
