/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "core/base/data/short-name.h"
#include "core/base/util/macro.h"

static void check(const char *name, size_t width, const char *expected) {
        _cleanup_(freep) char *found = NULL;

        cr_assert_eq(short_name(name, width, &found), 0);
        cr_assert_str_eq(found, expected, "%s in %zu: %s, not %s", name, width, found, expected);
        cr_assert_leq(text_columns(found), width);
}

Test(short_name, leaves_out_what_tells_least_first) {
        static const char name[] = "shop::pricing::Engine<unsigned long, Table>::price(int, Book const&)";

        check(name, 100, name);
        check(name, 68, name);
        check(name, 67, "shop::pricing::Engine<…>::price(int, Book const&)");
        check(name, 45, "shop::pricing::Engine<…>::price(…)");
        check(name, 33, "…pricing::Engine<…>::price(…)");
        check(name, 22, "…Engine<…>::price(…)");
        check(name, 12, "…price(…)");
        check(name, 8, "…pr…e(…)");
}

Test(short_name, keeps_the_ends_of_names_that_begin_alike) {
        check("tokio::runtime::scheduler::multi_thread::worker::Context::run", 30, "…worker::Context::run");
        check("tokio::runtime::scheduler::multi_thread::worker::run_task", 30, "…worker::run_task");
        check("com.example.shop.pricing.Engine.price", 20, "…Engine.price");
        check("github.com/example/shop/pricing.(*Engine).price", 24, "…pricing.(*Engine).price");
        check("<alloc::boxed::Box<dyn FnOnce<A>> as core::ops::FnOnce<A>>::call_once", 20, "<…>::call_once");
        check("shop.Engine$$Lambda.0x00007f.apply", 14, "…apply");
}

Test(short_name, cuts_what_has_no_parts_in_its_middle) {
        check("an_exceedingly_long_function_name", 20, "an_exc…function_name");
        check("größenänderungsübersicht", 10, "grö…rsicht");
        check("abc", 2, "…c");
        check("abc", 1, "…");
        check("abc", 0, "");
        check("a", 1, "a");
        check("", 0, "");
        check("", 5, "");
}

Test(short_name, takes_brackets_of_operators_and_halves_of_pairs_as_letters) {
        check("Matrix<double, 3, 3>::operator<(Matrix<double, 3, 3> const&)", 32, "Matrix<…>::operator<(…)");
        check("std::ostream::operator<<(unsigned long long)", 30, "std::ostream::operator<<(…)");
        check("Call<int, int, int>::operator()(int, int) const", 30, "Call<…>::operator()(…) const");
        check("Pointer<int, int>::operator->() const", 30, "Pointer<…>::operator->() const");
        check("Pool<shop>::operator<(Key const&)::Less>", 30, "Pool<…>::operator<(…)::Less>");
        check("a < b without an end of brackets", 20, "a < b …d of brackets");
        check(")))>>>>>>>>>>>>>>>>>>>>>>>", 10, ")))…>>>>>>");
        check("((((((((((((((((((((((((", 10, "(((…((((((");
}

Test(short_name, keeps_names_in_brackets_and_what_compilers_append) {
        check("java.text.DecimalFormatSymbols.<init>", 30, "…DecimalFormatSymbols.<init>");
        check("java.text.DecimalFormatSymbols.<init>", 10, "…<init>");
        check("<listcomp>", 8, "<l…comp>");
        check("msort_with_tmp.part.0", 16, "msort…tmp.part.0");
        check("ZSTD_compressBlock.constprop.0.cold", 20, "ZSTD_c…stprop.0.cold");
}

static void check_together(const char *const *names, size_t n, size_t width, const char *const *expected) {
        char *found[8] = { 0 };

        cr_assert_eq(short_names(names, n, width, found), 0);
        for (size_t i = 0; i < n; i++) {
                cr_assert_str_eq(found[i], expected[i], "%s, not %s", found[i], expected[i]);
                cr_assert_leq(text_columns(found[i]), width);
                free(found[i]);
        }
}

Test(short_name, tells_names_apart_by_their_arguments) {
#define STRING "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >"
        static const char *const names[] = {
                "company::shop::Engine<" STRING ", unsigned long, company::shop::RoundUp>::reprice(int)",
                "company::shop::Engine<" STRING ", unsigned long, company::shop::Discount>::reprice(int)",
                "company::shop::Engine<" STRING ", double, company::shop::Discount>::reprice(int)",
                "company::shop::Book<" STRING ">::quote(int)",
                "company::shop::Engine<" STRING ", double, company::shop::Discount>::reprice(int)",
        };
        static const char *const wide[] = {
                "…Engine<basic_string<…>, unsigned long, RoundUp>::reprice(…)",
                "…Engine<basic_string<…>, unsigned long, Discount>::reprice(…)",
                "…shop::Engine<basic_string<…>, double, Discount>::reprice(…)",
                "company::shop::Book<…>::quote(int)",
                "…shop::Engine<basic_string<…>, double, Discount>::reprice(…)",
        };
        static const char *const narrow[] = {
                "…Engine<basic…ong, RoundUp>::reprice(…)",
                "…Engine<basic…ng, Discount>::reprice(…)",
                "…Engine<basic…le, Discount>::reprice(…)",
                "company::shop::Book<…>::quote(int)",
                "…Engine<basic…le, Discount>::reprice(…)",
        };

        check_together(names, 5, 63, wide);
        check_together(names, 5, 39, narrow);
        check_together(names + 2, 2, 35, (const char *const[]){ "…shop::Engine<…>::reprice(…)", narrow[3] });
}
