/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "core/symbol/function/plain-name.h"

static void check(const char *name, const char *plain) {
        Text text = { 0 };

        plain_name_append(&text, name);
        cr_expect_str_eq(text.data, plain, "%s", name);
        text_deinit(&text);
}

/* As c++filt prints them. */
Test(plain_name, cuts_arguments_of_templates) {
        check("std::vector<Order, std::allocator<Order> >::push_back(Order const&)",
              "std::vector::push_back(Order const&)");
        check("void sort<int*>(int*, int*)", "void sort(int*, int*)");
        check("f(std::map<int, int> const&)", "f(std::map const&)");
        check("Pick<(A<3)>::get()", "Pick::get()");
        check("apply<decltype (a->b())>()", "apply()");
        check("std::enable_if<(2 > 1), int>::type g<int>()", "std::enable_if::type g()");
}

Test(plain_name, leaves_operators_alone) {
        check("operator<<(std::ostream&, Money)", "operator<<(std::ostream&, Money)");
        check("std::operator<< <std::char_traits<char> >(std::ostream&)", "std::operator<< (std::ostream&)");
        check("bool operator< <int>(A<int>, A<int>)", "bool operator< (A, A)");
        check("Ptr<int>::operator->()", "Ptr::operator->()");
        check("Money::operator<=>(Money const&)", "Money::operator<=>(Money const&)");
        check("my_operator<int>()", "my_operator()");
}

Test(plain_name, cuts_numbers_of_lambdas) {
        check("run()::{lambda(int)#2}::operator()(int) const", "run()::{lambda(int)}::operator()(int) const");
        check("main::$_3::operator()() const", "main::$_::operator()() const");
        check("run()::'lambda1'(int)::operator()(int)", "run()::'lambda'(int)::operator()(int)");
        check("run()::<lambda(int)>", "run()::<lambda(int)>");
        check("Main.lambda$main$3", "Main.lambda$main$");
        check("Main$$Lambda$14+0x0000000800c03000.run", "Main$$Lambda.run");
        check("Main$$Lambda/0x00007f00.run", "Main$$Lambda.run");
        check("Main$$Lambda$7/1234567.run", "Main$$Lambda.run");
}

/* Both manglings, as rustfilt prints them. */
Test(plain_name, cuts_hashes_of_rust) {
        check("shop::total::h0123456789abcdef", "shop::total");
        check("shop::total::{{closure}}::h0123456789abcdef", "shop::total::{{closure}}");
        check("shop[8a2c4e0f11223344]::total::<u32>::{closure#2}", "shop::total::{closure}");
        check("<alloc::vec::Vec<T> as core::iter::Extend<T>>::extend", "<alloc::vec::Vec as core::iter::Extend>::extend");
        check("core::ptr::<impl *const T>::add", "core::ptr::<impl *const T>::add");
        check("shop::hash", "shop::hash");
        check("shop::h0123", "shop::h0123");
}

Test(plain_name, keeps_what_it_cannot_make_out) {
        check("java.util.ArrayList.<init>", "java.util.ArrayList.<init>");
        check("<module>", "<module>");
        check("a<b", "a<b");
        check("f(int [16])", "f(int [16])");
        check("main.(*Server).handle", "main.(*Server).handle");
        check("x->y", "x->y");
        check("#1", "#1");
        check("größe", "größe");
}
