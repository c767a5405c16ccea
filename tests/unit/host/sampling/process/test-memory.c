/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/util/macro.h"
#include "host/sampling/process/memory.h"

static volatile uint32_t word = 4711;

typedef struct Child {
        pid_t pid;
        int orders;                     /* a byte lets it execute another program */
        int said;                       /* closed when it has */
} Child;

/* A copy of this process, with the same addresses. */
static Child begin(void) {
        int orders[2], said[2];
        char byte;
        pid_t pid;

        cr_assert_eq(pipe2(orders, O_CLOEXEC), 0);
        cr_assert_eq(pipe2(said, O_CLOEXEC), 0);
        pid = fork();
        cr_assert_geq(pid, 0);
        if (!pid) {
                word = 815;
                close(said[0]);
                close(orders[1]);
                if (write(said[1], "r", 1) == 1 && read(orders[0], &byte, 1) == 1)
                        execlp("sleep", "sleep", "600", NULL);
                _exit(0);
        }
        close(orders[0]);
        close(said[1]);
        cr_assert_eq(read(said[0], &byte, 1), 1);
        return (Child){ .pid = pid, .orders = orders[1], .said = said[0] };
}

static void end(Child *child) {
        kill(child->pid, SIGKILL);
        cr_assert_eq(waitpid(child->pid, NULL, 0), child->pid);
        closep(&child->orders);
        closep(&child->said);
}

static int read_word(pid_t pid, int fd, uint32_t *valuep) {
        return memory_read_opened(pid, fd, (uintptr_t)&word, valuep, sizeof(*valuep));
}

Test(memory, reads_what_is_there) {
        Child child = begin();
        uint32_t value = 0;
        int fd = memory_open(child.pid, 0);

        cr_assert_geq(fd, 0);
        cr_assert_eq(read_word(child.pid, fd, &value), 0);
        cr_assert_eq(value, 815);
        cr_assert_eq(memory_read(child.pid, (uintptr_t)&word, &value, sizeof(value)), 0);
        cr_assert_eq(value, 815);
        cr_assert_eq(memory_read_opened(child.pid, fd, 1 << 16, &value, sizeof(value)), MEMORY_E_ABSENT);
        close(fd);
        end(&child);
}

Test(memory, stays_with_its_program) {
        Child child = begin();
        uint32_t value;
        char byte;
        int fd = memory_open(child.pid, 0);

        cr_assert_geq(fd, 0);
        cr_assert_eq(write(child.orders, "x", 1), 1);
        cr_assert_eq(read(child.said, &byte, 1), 0, "it has executed the other program");
        cr_assert_neq(read_word(child.pid, fd, &value), 0);
        close(fd);
        end(&child);
}

/* This process stands for the one that got the id next: it has something at the same address. */
Test(memory, is_not_that_of_the_next_with_the_id) {
        Child child = begin();
        uint32_t value;
        int fd = memory_open(child.pid, 0);

        cr_assert_geq(fd, 0);
        end(&child);
        cr_assert_eq(read_word(getpid(), fd, &value), MEMORY_E_GONE);
        close(fd);
}

Test(memory, is_of_the_process_that_began_then) {
        Child child = begin();

        cr_assert_eq(memory_open(child.pid, 1), -1);
        end(&child);
}
