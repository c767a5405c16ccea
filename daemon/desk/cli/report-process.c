/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Attaches to the coroutines of a process for a while, and gives the trace to the report.
 */

#include "desk/cli/report-process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/util/clock.h"
#include "core/base/util/log.h"
#include "desk/coro/engine/attach.h"

#define LOOK_NS NS_PER_SEC              /* unless --duration says how long */

/* A file of that name is a file. */
static bool is_pid(const char *argument, uint32_t *pidp) {
        unsigned long pid = strtoul(argument, NULL, 10);

        *pidp = (uint32_t)pid;
        return *argument && strspn(argument, "0123456789") == strlen(argument) && pid && pid <= 1 << 22 &&
                access(argument, F_OK);
}

static int attach(ReportProcess *process, const Config *config, uint32_t pid) {
        CoroOptions options = {
                .output = process->path, .form = TRACE_JSONL, .trace = { .extra = true, .mode = 0600 },
                .duration_ns = config->daemon.duration_ns ? config->daemon.duration_ns : LOOK_NS,
        };
        CoroSummary summary;
        sigset_t old;
        int r;

        sigprocmask(SIG_SETMASK, NULL, &old);
        r = coro_attach(&options, &pid, 1, &summary);
        sigprocmask(SIG_SETMASK, &old, NULL);   /* an impatient user ends what follows, as ever */
        return r > 0 ? STATUS_FAILURE : r;
}

int report_process_trace(ReportProcess *process, Cli *cli) {
        uint32_t pid;
        int r;

        *process = (ReportProcess){ 0 };
        if (cli->n_arguments != 1 || !is_pid(cli->arguments[0], &pid))
                return 0;
        strcpy(process->directory, "/tmp/spanprof-report-XXXXXX");
        if (!mkdtemp(process->directory)) {
                *process->directory = 0;
                log_error("cannot write the trace to /tmp: %s", strerror(errno));
                return STATUS_FAILURE;
        }
        snprintf(process->path, sizeof(process->path), "%s/process-%u.jsonl", process->directory, pid);
        r = process_names_new(&process->names, pid);
        if (r >= 0)
                r = attach(process, &cli->config, pid);         /* says so if there is no such process */
        if (!r)
                cli->arguments[0] = process->path;
        return r;
}

const char *report_process_name(const ReportProcess *process, uint64_t address) {
        return process->names ? process_names_get(process->names, address) : NULL;
}

void report_process_deinit(ReportProcess *process) {
        process->names = process_names_free(process->names);
        if (!*process->directory)
                return;
        unlink(process->path);
        rmdir(process->directory);
}
