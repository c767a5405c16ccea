/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "host/sampling/discover/tree.h"

static Tree *tree_of(uint32_t root) {
        Tree *tree = NULL;

        cr_assert_eq(tree_new(&tree, &root, 1), 0);
        return tree;
}

Test(tree, holds_its_roots_and_nobody_else) {
        Tree *tree = tree_of(100);

        cr_assert(tree_contains(tree, 100));
        cr_assert_not(tree_contains(tree, 99));
        cr_assert_not(tree_contains(tree, 164), "another bit of another word");
        cr_assert_not(tree_contains(NULL, 100));
        tree_free(tree);
}

Test(tree, follows_forks_of_forks_whoever_is_gone) {
        Tree *tree = tree_of(100);

        tree_fork(tree, 101, 100);
        tree_fork(tree, 102, 101);
        tree_fork(tree, 201, 200);
        cr_assert(tree_contains(tree, 101));
        cr_assert(tree_contains(tree, 102));
        cr_assert_not(tree_contains(tree, 201));
        tree_free(tree);
}

Test(tree, judges_an_id_that_is_used_again_by_its_new_parent) {
        Tree *tree = tree_of(100);

        tree_fork(tree, 101, 100);
        tree_fork(tree, 101, 1);
        cr_assert_not(tree_contains(tree, 101));
        tree_fork(tree, 101, 100);
        cr_assert(tree_contains(tree, 101));
        tree_free(tree);
}

Test(tree, takes_any_number_for_an_id) {
        Tree *tree = tree_of((1u << 22) - 1);

        cr_assert(tree_contains(tree, (1u << 22) - 1), "the largest that the kernel gives");
        tree_fork(tree, 1u << 22, (1u << 22) - 1);
        tree_fork(tree, UINT32_MAX, (1u << 22) - 1);
        cr_assert_not(tree_contains(tree, 1u << 22));
        cr_assert_not(tree_contains(tree, UINT32_MAX));
        tree_free(tree);
}
