/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Forks a child that waits for a byte before it executes its program, passes signals and stops on to it,
 * and returns its exit status.
 */

#include "desk/live/command.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"

enum {
        N_ARGUMENTS = 8,                /* `sudo -u me timeout 9 python3` */
        N_SCRIPT = 16 << 10,            /* bytes of a script */
};

/* In the child: nothing that we have changed for ourselves reaches the program. */
static _Noreturn void become(char *const *arguments, const sigset_t *mask, int go, int failure) {
        int number;
        char byte = 0;

        signal(SIGPIPE, SIG_DFL);       /* main() has it ignored */
        sigprocmask(SIG_SETMASK, mask, NULL);
        while (read(go, &byte, 1) < 0 && errno == EINTR)
                continue;
        if (byte != 'g')                /* the process that was to let it go has ended */
                _exit(COMMAND_STATUS_FAILED);
        execvp(arguments[0], arguments);
        number = errno;
        if (write(failure, &number, sizeof(number)) < 0)
                _exit(COMMAND_STATUS_FAILED);
        _exit(number == ENOENT ? COMMAND_STATUS_ABSENT : COMMAND_STATUS_DENIED);
}

static int start(Command *command, char *const *arguments, int go, int failure) {
        sigset_t mask;

        sigprocmask(SIG_BLOCK, NULL, &mask);
        command->pid = fork();
        if (command->pid < 0) {
                command->pid = 0;
                return error_origin(-errno);
        }
        if (!command->pid) {
                close(command->go);     /* or the end of spanprof would not be seen */
                become(arguments, &mask, go, failure);
        }
        command->pidfd = (int)syscall(SYS_pidfd_open, command->pid, 0);
        return command->pidfd < 0 ? error_origin(-errno) : 0;
}

int command_start(Command *command, char *const *arguments) {
        int go[2], failure[2], r;

        *command = COMMAND_NONE;
        command->name = arguments[0];
        if (pipe2(go, O_CLOEXEC) < 0)
                return error_origin(-errno);
        command->go = go[1];
        if (pipe2(failure, O_CLOEXEC) < 0) {
                r = error_origin(-errno);
                close(go[0]);
                return r;
        }
        command->failure = failure[0];
        r = start(command, arguments, go[0], failure[1]);
        close(go[0]);
        close(failure[1]);
        return r;
}

/* ---- what it will be ---- */

/* As execvp() does. Return: whether there is such a file. */
static bool find_program(const char *name, char path[PATH_MAX]) {
        const char *folders = getenv("PATH"), *end;

        if (strchr(name, '/') || !folders)
                return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX;
        for (;; folders = end + 1) {
                end = strchrnul(folders, ':');
                if (snprintf(path, PATH_MAX, "%.*s/%s", (int)(end - folders), folders, name) < PATH_MAX &&
                    !access(path, X_OK))
                        return true;
                if (!*end)
                        return false;
        }
}

/* The script @name from its `#!` on; "" = it is none. */
static void read_script(const char *name, char text[N_SCRIPT]) {
        _cleanup_(closep) int fd = -1;
        char path[PATH_MAX];
        ssize_t n = 0;

        if (find_program(name, path))
                fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd >= 0)
                n = read(fd, text, N_SCRIPT - 1);
        text[MAX(n, 0)] = '\0';
        if (strncmp(text, "#!", 2))
                *text = '\0';
}

static const char *last_part(const char *path) {
        const char *slash = strrchr(path, '/');

        return slash ? slash + 1 : path;
}

/* Changes @text. */
static void each_word(char *text, void (*visit)(void *userdata, const char *name), void *userdata) {
        static const char separators[] = " \t\n;&|()<>`'\"=$#!";
        char *rest;

        for (char *word = strtok_r(text, separators, &rest); word; word = strtok_r(NULL, separators, &rest))
                visit(userdata, last_part(word));
}

/* Whether the words behind the first line are commands, too. */
static bool is_of_shell(const char *script) {
        size_t n = strcspn(script, "\n");

        return n >= 2 && (memmem(script, n, "sh ", 3) || !strncmp(script + n - 2, "sh", 2));
}

void command_each_program(char *const *arguments, void (*visit)(void *userdata, const char *name),
                          void *userdata) {
        char text[N_SCRIPT];

        for (size_t i = 0; i < N_ARGUMENTS && arguments[i]; i++) {
                visit(userdata, last_part(arguments[i]));
                snprintf(text, sizeof(text), "%s", arguments[i]);       /* text of `sh -c` */
                each_word(text, visit, userdata);
        }
        read_script(arguments[0], text);
        if (!is_of_shell(text))
                text[strcspn(text, "\n")] = '\0';
        each_word(text, visit, userdata);
}

void command_deinit(Command *command) {
        bool waits = command->go >= 0;

        if (waits)
                close(command->go);
        if (command->failure >= 0)
                close(command->failure);
        if (command->pid && !command->is_done && waits) {
                kill(command->pid, SIGKILL);
                waitpid(command->pid, &command->status, 0);
        }
        if (command->pidfd >= 0)
                close(command->pidfd);
        *command = COMMAND_NONE;
}

int command_let_go(Command *command) {
        ssize_t n = write(command->go, "g", 1);

        if (n != 1)
                return error_origin(-errno);
        close(command->go);
        command->go = -1;
        return 0;
}

bool command_has_ended(Command *command) {
        if (command->pid && !command->is_done)
                command->is_done = waitpid(command->pid, &command->status, WNOHANG) == command->pid;
        return command->is_done;
}

/* Not by its id, which may be another's once it has been waited for. */
void command_pass_on(const Command *command, const StopSignals *signals) {
        if (command->pidfd >= 0 && !signals->by_terminal)
                syscall(SYS_pidfd_send_signal, command->pidfd, signals->number, NULL, 0);
}

int command_wait(Command *command, StopSignals *signals) {
        sigset_t set;

        stop_signals_fill(&set);
        sigaddset(&set, SIGCHLD);
        sigprocmask(SIG_BLOCK, &set, NULL);
        while (command->pid && !command_has_ended(command)) {
                siginfo_t info;
                int number = sigwaitinfo(&set, &info);
                StopWish wish;

                if (number < 0 || number == SIGCHLD)
                        continue;
                wish = stop_signals_take(signals, number, info.si_code, clock_monotonic_ns());
                if (wish == STOP_WISH_IMPATIENT)
                        return number;
                if (wish == STOP_WISH_FIRST)
                        command_pass_on(command, signals);
        }
        return 0;
}

int command_failure(Command *command) {
        int number;

        return read(command->failure, &number, sizeof(number)) == sizeof(number) ? number : 0;
}

int command_exit_status(Command *command) {
        if (WIFSIGNALED(command->status))
                return 128 + WTERMSIG(command->status);
        return WEXITSTATUS(command->status);
}
