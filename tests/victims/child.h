/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A forked process that a test talks to, word by word, through two pipes. It dies with the test. */

#include <criterion/criterion.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct Child {
        pid_t pid;
        int ready, go;                  /* it says something at one, and hears at the other */
} Child;

static inline void say(int fd) {
        if (write(fd, "x", 1) != 1)
                _exit(1);
}

static inline void hear(int fd) {
        char c;

        if (read(fd, &c, 1) != 1)
                _exit(1);
}

/*
 * Runs @body, says that it is done, and waits to be killed. Returns when it has said something for the first
 * time.
 */
static inline Child child_start(void (*body)(int ready, int go)) {
        int ready[2], go[2];
        Child child;

        cr_assert(!pipe(ready) && !pipe(go));
        child = (Child){ .pid = fork(), .ready = ready[0], .go = go[1] };
        cr_assert_geq(child.pid, 0);
        if (!child.pid) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                body(ready[1], go[0]);
                say(ready[1]);
                for (;;)
                        pause();
        }
        close(ready[1]);
        close(go[0]);
        hear(child.ready);
        return child;
}

static inline void child_go_on(const Child *child) {
        say(child->go);
        hear(child->ready);
}

static inline void child_stop(const Child *child) {
        kill(child->pid, SIGKILL);
        waitpid(child->pid, NULL, 0);
}
