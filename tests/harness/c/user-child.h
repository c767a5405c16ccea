/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <criterion/criterion.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { USER_CHILD = 65534 };            /* a user that owns nothing */

/* A process of a user, which waits. The caller is root. */
static inline pid_t user_child_begin(uid_t user) {
        int ready[2];
        char byte = 0;
        pid_t pid;

        cr_assert_eq(pipe(ready), 0);
        pid = fork();
        if (!pid) {
                byte = !setuid(user);
                if (write(ready[1], &byte, 1) == 1)
                        pause();
                _exit(0);
        }
        cr_assert_eq(read(ready[0], &byte, 1), 1);
        cr_assert(byte, "has its user");
        close(ready[0]);
        close(ready[1]);
        return pid;
}

static inline void user_child_end(pid_t pid) {
        kill(pid, SIGKILL);
        cr_assert_eq(waitpid(pid, NULL, 0), pid);
}
