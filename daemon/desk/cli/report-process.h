/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* `report PID`: what the coroutines of a running process do, in a trace that is written for a short while. */

#include "desk/cli/process-names.h"
#include "host/cli/cli.h"

typedef struct ReportProcess {
        char directory[64];             /* empty = there is none */
        char path[128];
        ProcessNames *names;              /* names of its addresses; NULL = not known */
} ReportProcess;

/*
 * If the one argument is the id of a process, and no file, puts a trace of it in its place. Return: 0, a
 * status (a message was logged), -errno.
 */
int report_process_trace(ReportProcess *process, Cli *cli);

/* The function at an address of the process, or NULL. */
const char *report_process_name(const ReportProcess *process, uint64_t address);

/* Removes the trace. */
void report_process_deinit(ReportProcess *process);
