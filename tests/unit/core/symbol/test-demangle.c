/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "core/symbol/function/demangle.h"
#include "work-directory.h"

TestSuite(demangle, .timeout = 120);

static const char *demangled(const char *name, DemangleStyle style) {
        static char text[DEMANGLE_MAX_OUTPUT];
        size_t size = demangle(name, style, text, sizeof(text));

        if (!size)
                return "";
        cr_assert_eq(strlen(text), size);
        return text;
}

/*
 * Expected: c++filt --no-verbose of binutils 2.40, with parameters and with -p; Rust: rustfilt 0.2.1 and RFC
 * 2603.
 */
Test(demangle, reads_names_of_cxx) {
        static const char *const names[][3] = {
                { "_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int, std::allocator<int> >::push_back",
                  "std::vector<int, std::allocator<int> >::push_back(int const&)" },
                { "_ZN4llvm9StringRef4findEcm", "llvm::StringRef::find",
                  "llvm::StringRef::find(char, unsigned long)" },
                { "_ZNSaIcED1Ev", "std::allocator<char>::~allocator", "std::allocator<char>::~allocator()" },
                { "_Z3foov.cold", "foo", "foo() [clone .cold]" },
                { "_Z3fooILi3EEvv", "foo<3>", "void foo<3>()" },
                { "_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()",
                  "main::{lambda()#1}::operator()() const" },
                { "_GLOBAL__I_main", "global constructors keyed to main",
                  "global constructors keyed to main" },
                { "_GLOBAL__I__ZN1a1bE", "global constructors keyed to a::b",
                  "global constructors keyed to a::b" },
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
                { "_RINvNtC3std3mem8align_ofNtNtC3std3mem12DiscriminantE",
                  "std::mem::align_of::<std::mem::Discriminant>" },
        };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                cr_expect_str_eq(demangled(names[i][0], DEMANGLE_SHORT), names[i][1]);
                cr_expect_str_eq(demangled(names[i][0], DEMANGLE_FULL), names[i][1]);
        }
}

/* Expected: c++filt -s dlang of binutils 2.40; names of gdc 12. */
Test(demangle, reads_names_of_d) {
        static const char *const names[][2] = {
                { "_D1v1S3hotFlZl", "v.S.hot(long)" },
                { "_D1v__T3midTlZQhFlZl", "v.mid!(long).mid(long)" },
                { "_D1v__T4NodeTlZQi3getMFiZl", "v.Node!(long).Node.get(int)" },
                { "_D1v__T4NodeTlZQi6__ctorMFNaNbNiNflZCQBj__TQBkTlZQBq", "v.Node!(long).Node.this(long)" },
        };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                cr_expect_str_eq(demangled(names[i][0], DEMANGLE_SHORT), names[i][1]);
                cr_expect_str_eq(demangled(names[i][0], DEMANGLE_NONE), "");
        }
        cr_expect_str_eq(demangled("_D1v1S3hotFlZ", DEMANGLE_FULL), "", "cut");
        cr_expect_str_eq(demangled("_Dmain", DEMANGLE_FULL), "", "what the runtime calls");
}

/* A template of the template before it, twice, 40 times over: 300 bytes that mean 2^40. */
Test(demangle, does_not_print_names_of_d_for_ever) {
        char name[DEMANGLE_MAX_INPUT] = "_D1v", *end = name + strlen(name);

        for (int i = 0; i < 40; i++)
                end = stpcpy(end, "__T1aTQbTQb");
        stpcpy(end, "ZFZv");
        cr_expect_str_eq(demangled(name, DEMANGLE_FULL), "");
}

/*
 * Names of ocamlopt 4.13, of functions whose names stand in its own sources (stdlib.ml, list.ml), and one
 * with the dot of 5.1.
 */
Test(demangle, reads_names_of_ocaml) {
        static const char *const names[][2] = {
                { "camlStdlib__List__fold_left_275", "Stdlib.List.fold_left_275" },
                { "camlStdlib__$5e_140", "Stdlib.^_140" },
                { "camlStdlib__$40_197", "Stdlib.@_197" },
                { "camlStdlib__$5e$5e_444", "Stdlib.^^_444" },
                { "camlV__$2b$21_81", "V.+!_81" },
                { "camlV__entry", "V.entry" },
                { "camlV.hot_81", "V.hot_81" },
                { "camlV__a$7f$0a$zz$", "V.a$7f$0a$zz$" },
                { "camlV___x_3", "V._x_3" },
        };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                cr_expect_str_eq(demangled(names[i][0], DEMANGLE_SHORT), names[i][1]);
}

/*
 * Names of gnat 12. Expected: GNAT.Source_Info.Enclosing_Entity in that function (in lower case), and the
 * same of __gnat_decode() in libgnat for those without a suffix; from the fourth last on: c++filt -s gnat.
 */
Test(demangle, reads_names_of_ada_that_are_marked) {
        static const char *const names[][2] = {
                { "\1_ada_main_prog", "main_prog" },
                { "\1main_prog__hot.1", "main_prog.hot" },
                { "\1main_prog__hot.1.constprop.0", "main_prog.hot" },
                { "\1shapes__Oadd", "shapes.\"+\"" },
                { "\1shapes__grow", "shapes.grow" },
                { "\1shapes__grow__nested.2", "shapes.grow.nested" },
                { "\1shapes__inner__area__2", "shapes.inner.area" },
                { "\1purer__twice", "purer.twice" },
                { "\1shapes___elabb", "shapes'Elab_Body" },
                { "\1shapes__circleSR", "shapes.circle'Read" },
                { "\1shapes__circleIP", "" },
                { "\1Shapes__grow", "" },
                { "\1", "" },
        };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                cr_expect_str_eq(demangled(names[i][0], DEMANGLE_SHORT), names[i][1], "%s", names[i][0] + 1);
                cr_expect_str_eq(demangled(names[i][0] + 1, DEMANGLE_SHORT), "", "%s", names[i][0] + 1);
        }
}

/*
 * Names of nim 1.6.10. Expected: the name and the file's that the same compiler gives to nimFrame() with
 * --stackTrace:on. One is of the form of 2.0. What can be read in two ways is not read.
 */
Test(demangle, reads_names_of_nim_that_are_marked) {
        static const char *const names[][2] = {
                { "\2hot_loop__program_26", "program.hot_loop" },
                { "\2hot_loop__program_u26", "program.hot_loop" },
                { "\2generic__program_1395.constprop.0", "program.generic" },
                { "\2hash__pureZhashes_279", "hashes.hash" },
                { "\2work2x__foo95dirZmy95mod50_5", "my_mod2.work2x" },
                { "\2plus___program_6", "program.+" },
                { "\2dollar___systemZdollars_6", "dollars.$" },
                { "\2X5BX5D___program_19", "program.[]" },
                { "\2X5BX5Deq___program_129", "program.[]=" },
                { "\2lteqgt___foo95dirZmy95mod50_12", "my_mod2.<=>" },
                { "\2minuspercent___system_716", "system.-%" },
                { "\2lteqpercent___system_985", "system.<=%" },
                { "\2colonanonymous___program_2181", "program.:anonymous" },
                { "\2eqdestroy___systemZassertions_23", "assertions.=destroy" },
                { "\2valueeq___program_40", "program.value=" },
                { "\2pluseq___system_40", "" },
                { "\2grXC3XB6XC3X9Fe___foo95dirZmy95mod50_16", "" },
                { "\2hot__program_", "" },
                { "\2hot__program_1x", "" },
                { "\2hot__mod9_1", "" },
                { "\2__program_1", "" },
                { "\2", "" },
        };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                cr_expect_str_eq(demangled(names[i][0], DEMANGLE_SHORT), names[i][1], "%s", names[i][0] + 1);
                cr_expect_str_eq(demangled(names[i][0] + 1, DEMANGLE_SHORT), "", "%s", names[i][0] + 1);
        }
}

/* Names of ghc 9.0.2. Expected: GHC.Utils.Encoding.zDecodeString of the module and of the function. */
Test(demangle, reads_names_of_haskell_that_are_marked) {
        static const char *const names[][2] = {
                { "\3Main_zdwtop_info", "Main.$wtop" },
                { "\3Main_main8_info", "Main.main8" },
                { "\3ZCMain_main_info", ":Main.main" },
                { "\3Shapes_areazq_info", "Shapes.area'" },
                { "\3Shapes_foldzqem_info", "Shapes.fold'em" },
                { "\3Shapes_zpzpzp_info", "Shapes.+++" },
                { "\3Shapes_zdfEqCirclezuzdczsze_info", "Shapes.$fEqCircle_$c/=" },
                { "\3Shapes_Circle_con_info", "Shapes.Circle_con" },
                { "\3base_GHCziIOziEncodingziLatin1_latin3_info", "GHC.IO.Encoding.Latin1.latin3" },
                { "\3containerszm0zi6zi5zi1_DataziMapziInternal_insert_info", "Data.Map.Internal.insert" },
                { "\3ghczmprim_GHCziTypes_ZMZN_con_info", "GHC.Types.[]_con" },
                { "\3ghczmprim_GHCziTuple_Z0T_info", "GHC.Tuple.()" },
                { "\3ghczmprim_GHCziTuple_Z1T_info", "GHC.Tuple.()" },
                { "\3ghczmprim_GHCziTuple_Z5T_info", "GHC.Tuple.(,,,,)" },
                { "\3M_Z0H_info", "M.(##)" },
                { "\3M_Z1H_info", "M.(# #)" },
                { "\3M_Z3H_info", "M.(#,,#)" },
                { "\3M_z3b1U_info", "M.\xce\xb1" },
                { "\3M_z1f600U_info", "M.\xf0\x9f\x98\x80" },
                { "\3M_zvzbzd_info", "M.%|$" },
                { "\3M_zx_info", "" },
                { "\3M_z110000U_info", "" },
                { "\3M_z0U_info", "" },
                { "\3M_Z999T_info", "" },
                { "\3_info", "" },
                { "\3main_info", "" },
                { "\3M_fz", "" },
                { "\3", "" },
        };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                cr_expect_str_eq(demangled(names[i][0], DEMANGLE_SHORT), names[i][1], "%s", names[i][0] + 1);
                cr_expect_str_eq(demangled(names[i][0] + 1, DEMANGLE_SHORT), "", "%s", names[i][0] + 1);
        }
}

Test(demangle, leaves_other_names_alone) {
        static const char *const names[] = { "",
                                             "main",
                                             "_",
                                             "_Z",
                                             "_start",
                                             "_R",
                                             "_ZN",
                                             "runtime.mallocgc",
                                             "_Z3fo",
                                             "_GLOBAL_",
                                             "_GLOBAL__",
                                             "_GLOBAL__sub",
                                             "_GLOBAL__I",
                                             "_GLOBAL__I",
                                             "_GLOBAL__sub_I_main",
                                             "_D",
                                             "_D9x",
                                             "_DYNAMIC",
                                             "caml_alloc",
                                             "caml",
                                             "pkg__proc" };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                cr_expect_str_eq(demangled(names[i], DEMANGLE_FULL), "", "%s", names[i]);
}

/* Every exported name of libstdc++, in both styles; @flags of c++filt. */
static void agree_with_cxxfilt(DemangleStyle style, const char *flags) {
        char command[256], mangled[8192], expected[8192];
        unsigned n = 0;
        FILE *pipe;

        snprintf(
                command, sizeof(command),
                "nm -D $(gcc -print-file-name=libstdc++.so) | awk '{ print $NF }' | sed 's/@.*//' >%s && c++filt --no-verbose %s <%s | paste -d '\n' %s -",
                work_path("names"), flags, work_path("names"), work_path("names"));
        pipe = popen(command, "r");
        cr_assert_not_null(pipe);
        while (fgets(mangled, sizeof(mangled), pipe) && fgets(expected, sizeof(expected), pipe)) {
                const char *name;

                mangled[strcspn(mangled, "\n")] = 0;
                expected[strcspn(expected, "\n")] = 0;
                name = demangled(mangled, style);
                cr_expect_str_eq(name[0] ? name : mangled, expected, "%s", mangled);
                n += name[0] != 0;
        }
        cr_assert_eq(pclose(pipe), 0);
        cr_assert_gt(n, 3000);
}

Test(demangle, agrees_with_cxxfilt) {
        work_directory_make();
        agree_with_cxxfilt(DEMANGLE_FULL, "");
        agree_with_cxxfilt(DEMANGLE_SHORT, "-p");
        work_directory_remove();
}

/* Base 62 as Rust writes it: `_` is 0, `0_` is 1. C++ has 36 digits instead. */
static char *add_number(char *to, unsigned value, unsigned base, const char *digits) {
        char text[16], *at = text + sizeof(text);

        *--at = 0;
        *--at = '_';
        if (value)
                for (value--; at == text + sizeof(text) - 2 || value; value /= base)
                        *--at = digits[value % base];
        return stpcpy(to, at);
}

static const char rust_digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
static const char cxx_digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/* libiberty 2.40 by itself counts to 2^53 in a part that it does not show. */
Test(demangle, does_not_count_lifetimes_for_ever) {
        cr_expect_str_eq(demangled("_RNvMINvC1a1bFGzzzzzzzzz_EuEC1d1c", DEMANGLE_FULL), "");
        cr_expect_str_eq(demangled("_RNvMINvC1a1bFG2_EuEC1d1c", DEMANGLE_FULL), "<d>::c",
                         "a number that people write");
        cr_expect_str_eq(demangled("_RNvC12Generic_Gzzz_3foo", DEMANGLE_FULL), "",
                         "a length that is wrong by one");
        cr_expect_str_eq(demangled("_RNvC13Generic_Gzzz_3foo", DEMANGLE_FULL), "Generic_Gzzz_::foo",
                         "a name with such letters");
}

/* A tuple of two references to the tuple before it, 40 times: 300 bytes that mean 2^40 units. */
Test(demangle, does_not_print_for_ever) {
        char name[DEMANGLE_MAX_INPUT], *end = stpcpy(name, "_RIC1aTuuE");
        unsigned before = (unsigned)strlen("IC1a");

        for (int i = 0; i < 40; i++) {
                unsigned at = (unsigned)(end - name) - 2;

                end = stpcpy(end, "TB");
                end = add_number(end, before, 62, rust_digits);
                end = stpcpy(end, "B");
                end = add_number(end, before, 62, rust_digits);
                end = stpcpy(end, "E");
                before = at;
                if (i == 2) {
                        strcpy(end, "E");
                        cr_expect_str_eq(
                                demangled(name, DEMANGLE_FULL),
                                "a::<((), ()), (((), ()), ((), ())), ((((), ()), ((), ())), (((), ()), ((), ()))), "
                                "(((((), ()), ((), ())), (((), ()), ((), ()))), ((((), ()), ((), ())), (((), ()), ((), ()))))>");
                }
        }
        stpcpy(end, "E");
        cr_expect_str_eq(demangled(name, DEMANGLE_FULL), "");
}

/*
 * A function of a function and of that function again, in each other 60 times, in a pack expansion: before
 * anything is printed, 2^60 parts are searched for the pack.
 */
Test(demangle, does_not_search_for_ever) {
        enum { DEPTH = 60 };
        char name[DEMANGLE_MAX_INPUT], *end = stpcpy(name, "_Z1fIJEEvDp");

        for (int i = 0; i < DEPTH; i++)
                end = stpcpy(end, "Fv");
        end = stpcpy(end, "FvvE");
        for (unsigned i = 0; i < DEPTH; i++) {
                end = stpcpy(end, "S");
                end = add_number(end, i + 1, 36, cxx_digits);
                end = stpcpy(end, "E");
        }
        cr_expect_str_eq(demangled(name, DEMANGLE_FULL), "");
        cr_expect_str_eq(demangled(name, DEMANGLE_SHORT), "f<>", "the parameters do not matter");
}

/* Length, and room for the result: all of it or nothing. */
Test(demangle, keeps_within_its_limits) {
        static char name[2 << 20];
        char text[16];

        memset(name, 'a', sizeof(name) - 1);
        memcpy(name, "_Z", 2);
        cr_expect_str_eq(demangled(name, DEMANGLE_FULL), "", "a name of 2 MiB");
        cr_expect_eq(demangle("_Z3foov", DEMANGLE_FULL, text, 6), 5);
        cr_expect_str_eq(text, "foo()");
        cr_expect_eq(demangle("_Z3foov", DEMANGLE_FULL, text, 5), 0);
        cr_expect_eq(demangle("_RNvC3foo3bar", DEMANGLE_FULL, text, 9), 8);
        cr_expect_str_eq(text, "foo::bar");
        cr_expect_eq(demangle("_RNvC3foo3bar", DEMANGLE_FULL, text, 8), 0);
        cr_expect_eq(demangle("_Z3foov", DEMANGLE_FULL, text, 0), 0);
}
