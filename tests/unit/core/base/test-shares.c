/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "core/base/data/shares.h"

static Share *hold(Shares *shares, uint64_t group, uint32_t user, uint64_t process, size_t n) {
        const ShareOwner owner = { group, user, process };
        Share *share = NULL;

        cr_assert_eq(shares_hold(shares, &owner, n, &share), 0);
        return share;
}

Test(shares, counts_for_the_process_its_user_its_group_and_all) {
        Shares shares = { 0 };
        Share *one = hold(&shares, 1, 1000, 11, 5), *two = hold(&shares, 1, 1000, 12, 7),
              *three = hold(&shares, 1, 0, 11, 1), *four = hold(&shares, 2, 1000, 11, 100);

        cr_assert_eq(hold(&shares, 1, 1000, 11, 2), one);
        cr_assert_eq(share_held(one), 7);
        cr_assert_eq(share_held(two), 7);
        cr_assert_eq(share_held_by_user(one), 14);
        cr_assert_eq(share_held_by_user(three), 1);
        cr_assert_eq(share_held_by_group(one), 15);
        cr_assert_eq(shares_held(&shares), 115);
        cr_assert_eq(share_owner(four)->group, 2);
        share_release(&shares, four, 100);
        share_release(&shares, one, 7);
        cr_assert_eq(share_held_by_group(two), 8);
        share_release(&shares, two, 7);
        share_release(&shares, three, 1);
        cr_assert_eq(shares_held(&shares), 0);
        cr_assert_null(shares.root);
        cr_assert_eq(shares.nodes.n_entries, 0);
        shares_deinit(&shares);
}

Test(shares, the_greatest_process_of_the_greatest_user_of_the_greatest_group_gives_way) {
        Shares shares = { 0 };
        /* group 1 has most, though no process of it has as much as that of group 2 */
        Share *first = hold(&shares, 1, 1000, 11, 30), *second = hold(&shares, 1, 1000, 12, 31),
              *third = hold(&shares, 1, 1001, 13, 50), *other = hold(&shares, 2, 1000, 21, 60),
              *asking = hold(&shares, 3, 1000, 31, 1);

        cr_assert_eq(shares_victim(&shares, asking, 1), second);
        cr_assert_eq(shares_victim(&shares, other, 1), second);
        cr_assert_eq(shares_victim(&shares, first, 1), first, "31 is not more than 30 and one");
        share_hold_more(second, 1);
        cr_assert_eq(shares_victim(&shares, first, 1), second);
        cr_assert_eq(shares_victim(&shares, third, 1), second, "its user has 62, this one's 50");
        share_release(&shares, second, 32);
        cr_assert_eq(shares_victim(&shares, asking, 1), third);
        share_release(&shares, first, 30);
        share_release(&shares, third, 50);
        cr_assert_eq(shares_victim(&shares, asking, 1), other);
        cr_assert_eq(shares_victim(&shares, other, 1), other, "none has more: it gives way to itself");
        share_release(&shares, other, 60);
        share_release(&shares, asking, 1);
        shares_deinit(&shares);
}

Test(shares, a_thousand_processes_have_one_share) {
        Shares shares = { 0 };
        Share *crowd[1000], *big = hold(&shares, 2, 0, 1, 500);

        for (uint32_t i = 0; i < 1000; i++)
                crowd[i] = hold(&shares, 1, 1000, i, 1);
        cr_assert_eq(share_owner(shares_victim(&shares, big, 1))->group, 1);
        for (uint32_t i = 0; i < 1000; i++)
                share_release(&shares, crowd[i], 1);
        share_release(&shares, big, 500);
        shares_deinit(&shares);
}

Test(shares, who_holds_more_than_others_on_average) {
        Shares shares = { 0 };
        Share *one = hold(&shares, 1, 1000, 11, 90), *two, *other;

        cr_assert(!share_is_above_average(NULL));
        cr_assert(!share_is_above_average(one), "there is nobody else");
        two = hold(&shares, 1, 1000, 12, 10);
        cr_assert(share_is_above_average(one), "processes have 50 on average");
        cr_assert(!share_is_above_average(two));
        other = hold(&shares, 2, 1000, 21, 20);
        cr_assert(share_is_above_average(two), "groups have 60 on average, and its own has 100");
        cr_assert(!share_is_above_average(other));
        share_release(&shares, one, 90);
        cr_assert(!share_is_above_average(two));
        cr_assert(share_is_above_average(other));
        share_release(&shares, two, 10);
        cr_assert(!share_is_above_average(other), "those that hold nothing count no more");
        share_release(&shares, other, 20);
        shares_deinit(&shares);
}

/* Whether so many more are allowed, which are held then. */
static size_t fill(Shares *shares, uint64_t group, uint32_t user, uint64_t process, size_t max) {
        const ShareOwner owner = { group, user, process };
        Share *share = NULL;
        size_t n = 0;

        for (; shares_leave_room(shares, &owner, 1, max); n++)
                cr_assert_eq(shares_hold(shares, &owner, 1, &share), 0);
        return n;
}

static void release(Shares *shares, uint64_t group, uint32_t user, uint64_t process) {
        const ShareOwner owner = { group, user, process };
        Share *share = NULL;

        cr_assert_eq(shares_hold(shares, &owner, 0, &share), 0);
        share_release(shares, share, share_held(share));
}

Test(shares, each_leaves_as_much_as_it_holds) {
        Shares shares = { 0 };

        /* group, user and process are one: 3 times what it holds is free */
        cr_assert_eq(fill(&shares, 1, 1000, 11, 1024), 256);
        /* x of the same user: 768 - x is free, less 256 + x for the group and for the user: 4 x = 256 */
        cr_assert_eq(fill(&shares, 1, 1000, 12, 1024), 64);
        /* another user of that group: 704 - x, less 320 + x for the group, x for itself: 4 x = 384 */
        cr_assert_eq(fill(&shares, 1, 1001, 13, 1024), 96);
        /* another group: 608 - x, less x, x and x */
        cr_assert_eq(fill(&shares, 2, 1000, 21, 1024), 152);
        release(&shares, 1, 1000, 11);
        release(&shares, 1, 1000, 12);
        release(&shares, 1, 1001, 13);
        release(&shares, 2, 1000, 21);
        shares_deinit(&shares);
}

Test(shares, a_group_never_has_more_than_half_however_many_processes_it_has) {
        Shares shares = { 0 };
        size_t n = 0;

        for (uint32_t i = 0; i < 100; i++)
                for (uint32_t j = 0; j < 100; j++)
                        n += fill(&shares, 1, i, j, 1024);
        cr_assert_gt(n, 480);
        cr_assert_leq(n, 512);
        cr_assert_geq(fill(&shares, 2, 1000, 1, 1024), 128);
        for (uint32_t i = 0; i < 100; i++)
                for (uint32_t j = 0; j < 100; j++)
                        release(&shares, 1, i, j);
        release(&shares, 2, 1000, 1);
        shares_deinit(&shares);
}

Test(shares, groups_take_turns_and_users_in_them) {
        Shares shares = { 0 };
        Share *a1 = hold(&shares, 1, 1000, 11, 1), *a2 = hold(&shares, 1, 1000, 12, 1),
              *a3 = hold(&shares, 1, 1001, 13, 1), *b = hold(&shares, 2, 1000, 21, 1);

        cr_assert_eq(share_compare_turns(a1, b), 0);
        share_take_turn(&shares, a1);
        cr_assert_gt(share_compare_turns(a1, b), 0);
        cr_assert_gt(share_compare_turns(a3, b), 0, "its group had its turn");
        cr_assert_lt(share_compare_turns(a3, a1), 0, "of one group, it is the other user's");
        cr_assert_eq(share_compare_turns(a1, a2), 0);
        cr_assert_gt(share_compare_process_turns(a1, a2), 0);
        share_take_turn(&shares, b);
        cr_assert_lt(share_compare_turns(a1, b), 0);
        share_release(&shares, a1, 1);
        share_release(&shares, a2, 1);
        share_release(&shares, a3, 1);
        share_release(&shares, b, 1);
        shares_deinit(&shares);
}

/* Each comes behind as many of others as it has there of its own. */
Test(shares, have_a_rank_in_a_line_by_what_they_have_in_it) {
        Shares shares = { 0 };
        Share *a1 = hold(&shares, 1, 1000, 11, 3), *a2, *b;

        cr_assert_eq(share_rank(&shares, a1), 3);
        b = hold(&shares, 2, 1000, 21, 1);
        cr_assert_eq(share_rank(&shares, b), 1, "it goes before the second of the other group");
        a2 = hold(&shares, 1, 1000, 12, 1);
        cr_assert_eq(share_rank(&shares, a2), 2, "its user has a turn for both");
        cr_assert_eq(share_rank(&shares, a1), 6);
        share_release(&shares, a1, 3);
        cr_assert_eq(share_rank(&shares, a2), 1);
        a1 = hold(&shares, 1, 1001, 11, 1);
        cr_assert_eq(share_rank(&shares, a1), 2, "its group has a turn for both users");
        share_release(&shares, a1, 1);
        share_release(&shares, a2, 1);
        share_release(&shares, b, 1);
        shares_deinit(&shares);
}

/* A line of two: the one that waits, and two of another, which come again as soon as they are served. */
Test(shares, do_not_pass_for_ever_who_waits) {
        Shares shares = { 0 };
        Share *many = hold(&shares, 1, 1000, 11, 3), *stream = hold(&shares, 2, 1000, 21, 1);
        const uint64_t waits = share_rank(&shares, many);
        uint64_t line[2] = { share_rank(&shares, stream) };
        unsigned n = 0;

        share_hold_more(stream, 1);
        line[1] = share_rank(&shares, stream);
        cr_assert(line[0] < line[1] && line[1] < waits);
        for (; line[0] < waits; n++) {
                cr_assert_lt(n, 10, "it is passed by each one that comes");
                shares_note_served(&shares, line[0]);
                line[0] = line[1];
                line[1] = share_rank(&shares, stream);
                cr_assert_geq(line[1], line[0]);
        }
        cr_assert_eq(n, 2, "what has waited as long goes before it, and no more");
        shares_note_served(&shares, waits);
        cr_assert_gt(share_rank(&shares, many), waits);
        share_release(&shares, many, 3);
        share_release(&shares, stream, 2);
        shares_deinit(&shares);
}

Test(shares, are_told_at_once_and_then_once_an_hour) {
        const ShareOwner owner = { 1, 1000, 11 };
        const uint64_t hour = 3600000000000;
        Shares shares = { 0 };

        cr_assert(shares_tell(&shares, "things", &owner, 5));
        cr_assert_not(shares_tell(&shares, "things", &owner, 6));
        cr_assert_not(shares_tell(&shares, "things", &owner, hour + 4));
        cr_assert(shares_tell(&shares, "things", &owner, hour + 5));
        cr_assert_eq(shares.n_untold, 0);
        cr_assert_not(shares_tell(&shares, "things", &owner, hour + 6));
        cr_assert_eq(shares.n_untold, 1);
        shares_deinit(&shares);
}

Test(shares, are_counted_by_user_in_bounded_memory) {
        const ShareUser *users;
        ShareOwner owner = { 1, 1000, 11 };
        Shares first = { 0 }, second = { 0 };
        uint64_t n_others, sum = 0;
        size_t n;

        shares_tell_of(&first, "things", &owner, 5, 1);
        shares_tell(&second, "others", &owner, 1);
        users = shares_users(&n, &n_others);
        cr_assert_eq(n, 1);
        cr_assert_eq(users[0].user, 1000);
        cr_assert_eq(users[0].n, 6);
        for (owner.user = 2000; owner.user < 2100; owner.user++)
                shares_tell(&first, "things", &owner, 1);
        users = shares_users(&n, &n_others);
        cr_assert_eq(n, SHARES_MAX_USERS);
        for (size_t i = 0; i < n; i++)
                sum += users[i].n;
        cr_assert_eq(sum + n_others, 106);
        cr_assert_eq(users[0].n, 6, "who has most stays");
        shares_deinit(&first);
        shares_deinit(&second);
}

/* Ten times of each of so many users as have a place. */
static void fill_users(Shares *shares) {
        for (uint32_t user = 1; user <= SHARES_MAX_USERS; user++) {
                const ShareOwner owner = { 1, user, user };

                shares_tell_of(shares, "things", &owner, 10, 1);
        }
}

/* @user came @n times more. The number of all others, which never falls. */
static uint64_t come(Shares *shares, uint32_t user, uint64_t n) {
        const ShareOwner owner = { 1, user, user };
        uint64_t before, n_others;
        size_t n_users;

        shares_users(&n_users, &before);
        shares_tell_of(shares, "things", &owner, n, 1);
        shares_users(&n_users, &n_others);
        cr_assert_eq(n_users, SHARES_MAX_USERS);
        cr_assert_geq(n_others, before);
        return n_others;
}

/* How often it came, as far as it has a place; 0 = it has none. */
static uint64_t told_of(uint32_t user) {
        uint64_t n_others;
        size_t n;
        const ShareUser *users = shares_users(&n, &n_others);

        for (size_t i = 0; i < n; i++)
                if (users[i].user == user)
                        return users[i].n;
        return 0;
}

Test(shares, a_crowd_of_users_takes_no_place) {
        Shares shares = { 0 };
        uint64_t n_others = 0;

        fill_users(&shares);
        for (uint32_t user = 1000; user < 66000; user++)
                n_others = come(&shares, user, 1);
        for (unsigned i = 0; i < 1000; i++)
                n_others = come(&shares, 1000 + i % 2, 1);
        cr_assert_eq(n_others, 66000);
        for (uint32_t user = 1; user <= SHARES_MAX_USERS; user++)
                cr_assert_eq(told_of(user), 10);
        shares_deinit(&shares);
}

Test(shares, a_user_takes_the_place_of_the_least_once_it_has_more) {
        Shares shares = { 0 };

        fill_users(&shares);
        come(&shares, 5, 1);
        for (uint32_t user = 1; user <= SHARES_MAX_USERS; user++)
                if (user != 7 && user != 5)
                        come(&shares, user, 1);
        cr_assert_eq(come(&shares, 1000, 10), 10, "7 has as many");
        cr_assert_eq(told_of(1000), 0);
        cr_assert_eq(come(&shares, 1001, 3), 13);
        cr_assert_eq(come(&shares, 1000, 3), 16, "it has 10 more than others beside it");
        cr_assert_eq(come(&shares, 1000, 1), 16, "all of 7's ten, and three of 1000's and 1001's each");
        cr_assert_eq(told_of(1000), 11);
        cr_assert_eq(told_of(7), 0);
        come(&shares, 1000, 5);
        cr_assert_eq(told_of(1000), 16);
        come(&shares, 2000, 1000);
        cr_assert_eq(told_of(2000), 1000);
        cr_assert_eq(told_of(1000), 16);
        shares_deinit(&shares);
}

Test(shares, are_told_no_sooner_because_all_was_given_back) {
        const ShareOwner owner = { 1, 1000, 11 };
        Shares shares = { 0 };
        Share *share;

        cr_assert_eq(shares_hold(&shares, &owner, 3, &share), 0);
        cr_assert(shares_tell(&shares, "things", &owner, 5));
        cr_assert_not(shares_tell(&shares, "things", &owner, 6));
        shares_reset(&shares);
        cr_assert_eq(shares_held(&shares), 0);
        cr_assert_not(shares_tell(&shares, "things", &owner, 7));
        cr_assert_eq(shares.n_untold, 2);
        shares_deinit(&shares);
}
