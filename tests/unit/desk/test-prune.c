/* SPDX-License-Identifier: Apache-2.0 */

/* Names that drop_frames hides: what Go's expressions mean, and which are refused. */

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "desk/pprof/prune.h"

static Prune *make(const char *drop, const char *keep) {
        Prune *prune = NULL;

        cr_assert_eq(prune_new(&prune, drop, strlen(drop), keep, strlen(keep)), 0, "%s", drop);
        return prune;
}

static void check(const char *drop, const char *keep, const char *name, int is_hidden) {
        _cleanup_(prune_freep) Prune *prune = make(drop, keep);

        cr_assert_eq(prune_matches(prune, name, strlen(name)), is_hidden, "%s: %s", drop, name);
}

Test(prune, hides_whole_names) {
        check("malloc|operator new", "", "malloc", 1);
        check("malloc|operator new", "", "operator new", 1);
        check("malloc|operator new", "", "my_malloc", 0);
        check("malloc|operator new", "", "malloc_trim", 0);
        check("tcmalloc::.*", "", "tcmalloc::Alloc", 1);
        check("tcmalloc::.*", "", "tcmallocs", 0);
        check("runtime\\.\\w+", "", "runtime.mallocgc", 1);
        check("runtime\\.\\w+", "", "runtimeXmallocgc", 0);
        check("[a-c]{x|[^a]", "", "b{x", 1);
        check("a.*?b|c+?", "", "axxb", 1);
        check("(?:a|b)c", "", "bc", 1);
}

Test(prune, leaves_what_is_to_be_kept) {
        check("tcmalloc::.*", "tcmalloc::Kept", "tcmalloc::Kept", 0);
        check("tcmalloc::.*", "tcmalloc::Kept", "tcmalloc::KeptNot", 1);
}

/* As simplifyFunc() of github.com/google/pprof/profile. */
Test(prune, does_not_look_at_arguments) {
        check("operator new", "", "operator new(unsigned long)", 1);
        check("operator new", "", ".operator new", 1);
        check(".*operator\\(\\)", "", "f::operator()(int) const", 1);
        check("\\(anonymous namespace\\)::f", "", "(anonymous namespace)::f(int)", 1);
        check("f", "", "f(int) [clone .part.0]", 1);
}

Test(prune, refuses_what_means_something_else_to_regcomp) {
        const char *unknown[] = { "(?i)malloc", "a{2,3}", "a{,3}", "\\d+", "(a)\\1", "\\pL", "\\Qa\\E",
                                  "a\\", "[\\w]", "[[:alpha:]]",
                                  "[]a]", "[a", "(a", "a)|(b", "\\<a", "\\x41" };
        char deep[256];
        Prune *prune;

        for (size_t i = 0; i < ARRAY_SIZE(unknown); i++) {
                cr_expect_eq(prune_new(&prune, unknown[i], strlen(unknown[i]), "", 0), PRUNE_E_UNKNOWN, "%s",
                             unknown[i]);
                cr_expect_eq(prune_new(&prune, "a", 1, unknown[i], strlen(unknown[i])), PRUNE_E_UNKNOWN, "%s",
                             unknown[i]);
        }
        memset(deep, '(', 120);
        memset(deep + 120, ')', 120);
        cr_expect_eq(prune_new(&prune, deep, 240, "", 0), PRUNE_E_UNKNOWN);
        cr_expect_eq(prune_new(&prune, "a\0b", 3, "", 0), PRUNE_E_UNKNOWN);
}

/* The matcher is made anew after some names, and finds the same. */
Test(prune, finds_the_same_in_any_number_of_names) {
        _cleanup_(prune_freep) Prune *prune = make("(a|b)*a(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)", "");
        char name[64];

        srand(1);
        for (int i = 0; i < 5000; i++) {
                size_t n = 20 + (size_t)rand() % 40;

                for (size_t k = 0; k < n; k++)
                        name[k] = rand() & 1 ? 'a' : 'b';
                cr_assert_eq(prune_matches(prune, name, n), name[n - 9] == 'a', "%.*s", (int)n, name);
        }
}
