/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Command
 *
 * A program that is started to be recorded. It waits before its first instruction until it is let go, and has
 * everything else as if a shell had started it: files, directory, group of the terminal, signals, user.
 */

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/util/stop-signals.h"

enum { COMMAND_STATUS_FAILED = 125, COMMAND_STATUS_DENIED = 126, COMMAND_STATUS_ABSENT = 127 };

typedef struct Command {
        const char *name;               /* borrowed */
        pid_t pid;                      /* 0 = none; it stays ours until it has been waited for */
        int pidfd;                      /* readable when it has ended */
        int go, failure;                /* pipes: a byte lets it go; its errno if it cannot be executed */
        bool is_done;
        int status;                     /* of waitpid(); once is_done */
} Command;

#define COMMAND_NONE (Command){ .pidfd = -1, .go = -1, .failure = -1 }

/* @arguments ends with NULL and lives as long as the command. Return: 0, -errno. */
int command_start(Command *command, char *const *arguments);

/*
 * Calls @visit with the names of programs that it may execute: the last parts of the paths among its first
 * arguments, and among the words of these; what a script's first line has, and the words of a shell's script.
 */
void command_each_program(char *const *arguments, void (*visit)(void *userdata, const char *name),
                          void *userdata);

/* Kills one that was never let go; one that runs, runs on. */
void command_deinit(Command *command);

/* Return: 0, -errno. */
int command_let_go(Command *command);

/* Whether it has ended, without waiting. */
bool command_has_ended(Command *command);

/*
 * Waits for its end. @signals: those that were taken until then. The first is passed on to it. Return: 0, or
 * the number of an impatient one: it runs on.
 */
int command_wait(Command *command, StopSignals *signals);

/* The first of @signals, unless the terminal has sent it, which tells it too. From any thread. */
void command_pass_on(const Command *command, const StopSignals *signals);

/* What its errno was, if it could not be executed; else 0. After it has ended. */
int command_failure(Command *command);

/* As shells have it: its exit status, 128 + signal, 127 not found, 126 not executable. */
int command_exit_status(Command *command);
