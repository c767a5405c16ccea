/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "host/sampling/process/program-names.h"

static ProgramNames known, settled;
static ProgramNamesChange change;

Test(known_names, are_new_once) {
        cr_assert(program_names_know(&known, "postgres", &change));
        cr_assert_str_eq(change.added.comm, "postgres");
        cr_assert_str_eq(change.removed.comm, "");
        cr_assert_not(program_names_know(&known, "postgres", &change));
        cr_assert_not(program_names_know(&known, "", &change), "which no program is chosen by");
}

Test(known_names, are_compared_as_the_kernel_does) {
        const char twice[ABI_COMM_SIZE] = "cc\0longer-name";

        cr_assert(program_names_know(&known, twice, &change));
        cr_assert_eq(memcmp(change.added.comm, "cc\0\0\0\0\0\0\0\0\0\0\0\0\0\0", ABI_COMM_SIZE), 0);
        cr_assert_not(program_names_know(&known, "cc", &change));
        cr_assert(program_names_know(&known, "a-name-of-more-than-fifteen", &change));
        cr_assert_eq(change.added.comm[ABI_COMM_SIZE - 1], 0);
        cr_assert_not(program_names_know(&known, "a-name-of-more-", &change));
}

Test(known_names, over_the_cap_take_the_place_of_the_oldest) {
        char name[ABI_COMM_SIZE];

        for (unsigned i = 0; i < ABI_MAX_PROGRAM_NAMES; i++) {
                snprintf(name, sizeof(name), "name-%u", i);
                cr_assert(program_names_know(&known, name, &change));
                cr_assert_str_eq(change.removed.comm, "");
        }
        cr_assert(program_names_know(&known, "one-more", &change));
        cr_assert_str_eq(change.removed.comm, "name-0");
        cr_assert_not(program_names_know(&known, "name-1", &change));
        cr_assert(program_names_know(&known, "name-0", &change), "it was forgotten");
        cr_assert_str_eq(change.removed.comm, "name-1");
}

static struct abi_settled_name name_of(const char *comm, uint32_t mount_namespace) {
        struct abi_settled_name name = { .mount_namespace = mount_namespace };

        memcpy(name.comm, comm, strlen(comm));
        return name;
}

static bool judge(const char *comm, uint32_t mount_namespace, bool is_plain) {
        struct abi_settled_name name = name_of(comm, mount_namespace);

        return program_names_judge(&settled, &name, is_plain, &change);
}

static void settle(const char *comm) {
        cr_assert_not(judge(comm, 1, true));
        cr_assert_not(judge(comm, 1, true));
        cr_assert(judge(comm, 1, true));
        cr_assert_str_eq(change.added.comm, comm);
        cr_assert_str_eq(change.removed.comm, "");
}

Test(settled_names, are_settled_by_three_programs_with_nothing_new) {
        settle("ls");
        for (unsigned i = 0; i < 5; i++)
                cr_assert_not(judge("ls", 1, true), "it is settled");
}

Test(settled_names, are_unsettled_by_one_that_has_something_new) {
        settle("ls");
        cr_assert(judge("ls", 1, false));
        cr_assert_str_eq(change.removed.comm, "ls");
        cr_assert_str_eq(change.added.comm, "");
        cr_assert_not(judge("ls", 1, false));
        settle("ls");
}

Test(settled_names, count_in_their_mount_namespace) {
        settle("ls");
        cr_assert_not(judge("ls", 2, false), "another one of that name was never settled");
        cr_assert_not(judge("ls", 1, true), "and this one still is");
        cr_assert(judge("ls", 1, false));
        cr_assert_eq(change.removed.mount_namespace, 1);
}

static bool publish(const char *comm) {
        struct abi_settled_name name = name_of(comm, 1);

        return program_names_note_publication(&settled, &name, &change);
}

Test(settled_names, are_none_of_programs_that_publish) {
        settle("ls");
        cr_assert(publish("ls"));
        cr_assert_str_eq(change.removed.comm, "ls");
        cr_assert_not(publish("ls"), "it is settled no more");
        cr_assert_not(publish("cat"), "it never was");
        for (unsigned i = 0; i < 5; i++) {
                cr_assert_not(judge("ls", 1, true));
                cr_assert_not(judge("cat", 1, true));
        }
        cr_assert_not(publish(""));
        settle("cp");
}

Test(settled_names, do_not_count_without_a_name) {
        for (unsigned i = 0; i < 5; i++)
                cr_assert_not(judge("", 1, true));
}

Test(settled_names, over_the_cap_take_the_place_of_the_oldest) {
        char comm[ABI_COMM_SIZE];

        settle("oldest");
        for (unsigned i = 1; i < ABI_MAX_PROGRAM_NAMES; i++) {
                snprintf(comm, sizeof(comm), "name-%u", i);
                cr_assert_not(judge(comm, 1, true));
        }
        cr_assert_not(judge("oldest", 1, true));
        cr_assert(judge("one-more", 1, true));
        cr_assert_str_eq(change.removed.comm, "oldest");
        cr_assert_not(judge("another", 1, true), "in the place of one that was not settled");
        settle("oldest");
        for (unsigned i = 1; i < ABI_MAX_PROGRAM_NAMES; i++) {
                snprintf(comm, sizeof(comm), "name-%u", i);
                cr_assert_not(publish(comm));
        }
        cr_assert(publish("one-more"));
        cr_assert_str_eq(change.removed.comm, "oldest");
}
