/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Oracle
 *
 * Asks other programs (readelf, nm, sha256sum, cc) for the truth, and runs children that tests look at.
 */

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* First line that a shell command prints, without its newline. Return: whether there was one. */
static inline bool oracle_line(const char *command, char *line, size_t size) {
        FILE *pipe = popen(command, "r");
        bool ok = pipe && fgets(line, (int)size, pipe);

        if (ok)
                line[strcspn(line, "\n")] = 0;
        if (pipe)
                pclose(pipe);
        return ok;
}

/* The same, read as hex. Return: 0 if there was no line. */
static inline unsigned long oracle_hex(const char *command) {
        char line[512];

        return oracle_line(command, line, sizeof(line)) ? strtoul(line, NULL, 16) : 0;
}

/* A program with its first line of output, asleep afterwards. */
typedef struct OracleChild {
        pid_t pid;
        FILE *output;
        char line[512];
} OracleChild;

static inline OracleChild oracle_spawn(const char *path, const char *argument) {
        OracleChild child = { 0 };
        int fds[2];

        if (pipe(fds))
                abort();
        child.pid = fork();
        if (!child.pid) {
                dup2(fds[1], 1);
                execl(path, path, argument, NULL);
                _exit(127);
        }
        close(fds[1]);
        child.output = fdopen(fds[0], "r");
        if (!fgets(child.line, sizeof(child.line), child.output))
                child.line[0] = 0;
        child.line[strcspn(child.line, "\n")] = 0;
        return child;
}

static inline void oracle_end(OracleChild *child) {
        kill(child->pid, SIGKILL);
        waitpid(child->pid, NULL, 0);
        fclose(child->output);
}

/*
 * Compiles @source with @flags to @path. Return: false if there is no compiler, or it cannot
 * (a test that needs it then skips).
 */
static inline bool oracle_compile(const char *source, const char *flags, const char *path) {
        char command[1024];
        FILE *pipe;

        snprintf(command, sizeof(command), "cc -x c -O1 -g0 -o %s %s - 2>&1", path, flags);
        pipe = popen(command, "w");
        if (!pipe)
                return false;
        fputs(source, pipe);
        return pclose(pipe) == 0;
}
