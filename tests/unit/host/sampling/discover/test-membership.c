/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "core/base/util/stat.h"
#include "host/sampling/discover/membership.h"
#include "stat-reset.h"

enum { START_NS = 10000000, PID = 4711 };

static const char *const comms[] = { "cat" };
static const Selector selector = { .comms = comms, .n_comms = 1 };

static Process process_of(uint32_t pid) {
        return (Process){ .pid = pid, .start_time_ns = START_NS, .comm = "cat" };
}

/* Three programs of one process, from 0, 100 and 200 on, of which the last runs. */
typedef struct Story {
        Membership membership;
        Process processes[3];
        Member members[3];
} Story;

static void begin(Story *story) {
        stat_reset();
        *story = (Story){ 0 };
        cr_assert_eq(membership_init(&story->membership, &selector, NULL), 0);
        for (unsigned i = 0; i < 3; i++) {
                story->processes[i] = process_of(PID);
                story->members[i] = (Member){ .process = &story->processes[i] };
                if (i)
                        membership_end(&story->membership, &story->members[i - 1], 100 * i, 0);
                cr_assert_eq(membership_add(&story->membership, &story->members[i], SELECTOR_COMM), 0);
                story->members[i].begin_ns = 100 * i;
        }
}

Test(membership, sorts_samples_to_programs_by_time) {
        Membership *membership;
        Story story;

        begin(&story);
        membership = &story.membership;
        cr_assert_eq(membership_newest(membership, PID), &story.members[2]);
        cr_assert_eq(membership_living(membership, PID), &story.members[2]);
        cr_assert_eq(membership_find(membership, PID, START_NS, 99), &story.members[0]);
        cr_assert_eq(membership_find(membership, PID, START_NS, 100), &story.members[1]);
        cr_assert_eq(membership_find(membership, PID, START_NS, 5000), &story.members[2]);
        cr_assert_null(membership_find(membership, PID, START_NS + 1, 5000), "another process with this id");
        cr_assert_null(membership_find(membership, PID + 1, START_NS, 5000));
        cr_assert_eq(membership_find_generation(membership, PID, story.processes[1].generation),
                     &story.members[1]);
        membership_end(membership, &story.members[2], 300, 0);
        cr_assert_null(membership_living(membership, PID));
        cr_assert_eq(membership_at(membership, PID, 300), &story.members[2]);
        cr_assert_null(membership_at(membership, PID, 301), "a parent that had ended by then");
        membership_deinit(membership);
}

Test(membership, asks_no_program_for_samples_of_one_that_followed_it_unseen) {
        Membership *membership;
        Story story;

        begin(&story);
        membership = &story.membership;
        story.members[1].until_ns = 150;
        story.members[2].begin_ns = 170;
        cr_assert_eq(membership_find(membership, PID, START_NS, 149), &story.members[1]);
        cr_assert_eq(membership_find(membership, PID, START_NS, 170), &story.members[2]);
        story.members[0].until_ns = 100;
        cr_assert_null(membership_find(membership, PID, START_NS, 150));
        membership_deinit(membership);
}

Test(membership, gives_dead_programs_back_in_the_order_of_their_death) {
        Membership *membership;
        Story story;

        begin(&story);
        membership = &story.membership;
        cr_assert_null(membership_take_dead(membership, 149, 50));
        cr_assert_eq(membership_take_dead(membership, 150, 50), &story.members[0]);
        cr_assert_null(membership_find(membership, PID, START_NS, 99));
        cr_assert_null(membership_take_dead(membership, 150, 50));
        membership_end(membership, &story.members[2], 300, 0);
        cr_assert_eq(membership_take_dead(membership, 1000, 50), &story.members[1]);
        cr_assert_eq(membership_take_dead(membership, 1000, 50), &story.members[2]);
        cr_assert_null(membership_take_dead(membership, 1000, 50));
        cr_assert_null(membership_newest(membership, PID));
        cr_assert_eq(membership->n_alive, 0);
        membership_deinit(membership);
}

Test(membership, takes_back_what_the_kernels_table_has_no_room_for) {
        Membership *membership;
        Process process = process_of(PID + 1);
        Member member = { .process = &process };
        Story story;

        begin(&story);
        membership = &story.membership;
        cr_assert_eq(membership_add(membership, &member, SELECTOR_COMM), 0);
        cr_assert_eq(membership->n_alive, 2);
        membership_withdraw(membership, &member);
        cr_assert_null(membership_newest(membership, PID + 1));
        cr_assert_eq(membership->n_alive, 1);
        membership_deinit(membership);
}

/* 4,096 dead programs are kept, whatever their age. */
Test(membership, holds_its_cap_of_dead_programs) {
        enum { N = 4097 };
        Process *processes = calloc(N, sizeof(*processes));
        Member *members = calloc(N, sizeof(*members));
        Membership membership;

        cr_assert_eq(membership_init(&membership, &selector, NULL), 0);
        for (unsigned i = 0; i < N; i++) {
                cr_assert_null(membership_take_dead(&membership, 0, 1));
                processes[i] = process_of(i + 1);
                members[i].process = &processes[i];
                cr_assert_eq(membership_add(&membership, &members[i], SELECTOR_COMM), 0);
                membership_end(&membership, &members[i], 100, 0);
        }
        cr_assert_eq(membership_take_dead(&membership, 0, 1), &members[0]);
        cr_assert_null(membership_take_dead(&membership, 0, 1));
        membership_deinit(&membership);
        free(processes);
        free(members);
}

Test(membership, remembers_rejected_processes_once) {
        uint64_t generation = 0;
        Membership membership;

        cr_assert_eq(membership_init(&membership, &selector, NULL), 0);
        cr_assert_eq(membership_reject(&membership, PID, &generation), 0);
        cr_assert_neq(generation, 0);
        cr_assert_eq(membership_reject(&membership, PID, &generation), MEMBERSHIP_E_REJECTED);
        cr_assert(membership_unreject(&membership, PID));
        cr_assert_not(membership_unreject(&membership, PID));
        membership_deinit(&membership);
}

/* A process that came and went between two ticks counts if its name would have been chosen. */
Test(membership, adds_up_the_cpu_time_of_those_that_are_gone) {
        struct abi_notice notice = { .kind = ABI_NOTICE_EXIT, .tgid = 99, .value = 1000, .comm = "cat" };
        Story story;

        begin(&story);
        membership_end(&story.membership, &story.members[2], 300, 50);
        cr_assert_eq(membership_cpu_time(&story.membership), 50);
        notice.start_time_ns = clock_read_ns(CLOCK_BOOTTIME);
        membership_settle(&story.membership, &notice);
        cr_assert_eq(membership_cpu_time(&story.membership), 1050);
        memcpy(notice.comm, "dog", sizeof("dog"));
        membership_settle(&story.membership, &notice);
        cr_assert_eq(membership_cpu_time(&story.membership), 1050, "not chosen");
        notice = (struct abi_notice){ .kind = ABI_NOTICE_SETTLED, .tgid = PID, .value = 7,
                                      .start_time_ns = START_NS };
        membership_settle(&story.membership, &notice);
        cr_assert_eq(membership_cpu_time(&story.membership), 1057, "what its exit did not know of yet");
        membership_deinit(&story.membership);
}

Test(rejects, expire_in_order_and_can_be_taken_out_anywhere) {
        Rejects rejects;

        rejects_init(&rejects, 3);
        cr_assert_eq(rejects_expired(&rejects, 1000), 0);
        cr_assert_eq(rejects_add(&rejects, 11, 10), 0);
        cr_assert_eq(rejects_add(&rejects, 12, 20), 0);
        cr_assert_eq(rejects_add(&rejects, 12, 20), REJECTS_E_KNOWN);
        cr_assert_eq(rejects_add(&rejects, 13, 30), 0);
        cr_assert_eq(rejects_add(&rejects, 14, 30), REJECTS_E_FULL);
        cr_assert(rejects_contains(&rejects, 12) && !rejects_contains(&rejects, 14));

        cr_assert_eq(rejects_expired(&rejects, 9), 0);
        cr_assert_eq(rejects_expired(&rejects, 10), 11);
        cr_assert(rejects_remove(&rejects, 12));
        cr_assert(!rejects_remove(&rejects, 12));
        cr_assert(rejects_remove(&rejects, 11));
        cr_assert_eq(rejects_expired(&rejects, 29), 0);
        cr_assert_eq(rejects_expired(&rejects, 30), 13);
        cr_assert_eq(rejects_add(&rejects, 14, 40), 0);
        cr_assert(rejects_remove(&rejects, 13));
        cr_assert_eq(rejects_expired(&rejects, 100), 14);
        rejects_deinit(&rejects);
        cr_assert_eq(rejects_expired(&rejects, 100), 0);
}
