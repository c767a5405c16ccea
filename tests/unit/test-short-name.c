/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/util/macro.h"
#include "base/util/short-name.h"

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
