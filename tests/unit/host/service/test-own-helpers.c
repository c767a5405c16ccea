/* SPDX-License-Identifier: Apache-2.0 */

/* The daemon's own processes, by names and parents: those of this process here. */
#include <criterion/criterion.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/service/run/own-helpers.h"

typedef struct Family {
        pid_t child, grandchild;
} Family;

/* In a child of @parent. It ends with it, also if that has just ended. */
static void become(const char *name, pid_t parent) {
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        if (getppid() != parent)
                _exit(1);
        prctl(PR_SET_NAME, name, 0, 0, 0);
}

static _Noreturn void wait_for_end(void) {
        for (;;)
                pause();
}

/* A child of this process with a child of its own, once both have these names. */
static Family make(const char *child_name, const char *grandchild_name) {
        pid_t self = getpid();
        Family family;
        int ends[2];

        cr_assert_eq(pipe(ends), 0);
        family.child = fork();
        if (!family.child) {
                become(child_name, self);
                self = getpid();
                family.grandchild = fork();
                if (!family.grandchild) {
                        become(grandchild_name, self);
                        family.grandchild = getpid();
                        if (write(ends[1], &family.grandchild, sizeof(pid_t)) < 0)
                                _exit(1);
                }
                wait_for_end();
        }
        cr_assert_gt(family.child, 0);
        cr_assert_eq(read(ends[0], &family.grandchild, sizeof(pid_t)), (ssize_t)sizeof(pid_t));
        close(ends[0]);
        close(ends[1]);
        return family;
}

static void end(Family family) {
        kill(family.child, SIGKILL);
        cr_assert_eq(waitpid(family.child, NULL, 0), family.child);
}

Test(own_helpers, are_children_and_their_children_by_these_names) {
        for (size_t i = 0; own_helper_comms[i]; i++) {
                Family family = make(own_helper_comms[i], own_helper_comms[i]);

                cr_assert(own_helper_is((uint32_t)family.child, NULL));
                cr_assert(own_helper_is((uint32_t)family.child, own_helper_comms[i]));
                cr_assert(own_helper_is((uint32_t)family.grandchild, NULL));
                cr_assert_not(own_helper_is((uint32_t)family.child, "sh"));
                end(family);
                cr_assert_not(own_helper_is((uint32_t)family.child, own_helper_comms[i]), "it has ended");
        }
}

Test(own_helpers, are_no_others) {
        Family family = make("sh", own_helper_comms[1]);

        cr_assert_not(own_helper_is((uint32_t)family.child, NULL));
        cr_assert_not(own_helper_is((uint32_t)family.grandchild, NULL), "a user's program under a command");
        end(family);
        family = make(own_helper_comms[1], "spanprof-remot");
        cr_assert_not(own_helper_is((uint32_t)family.grandchild, NULL));
        end(family);
        cr_assert_not(own_helper_is((uint32_t)getpid(), NULL));
        cr_assert_not(own_helper_is(1, NULL));
        cr_assert_not(own_helper_is(1, own_helper_comms[0]));
}
