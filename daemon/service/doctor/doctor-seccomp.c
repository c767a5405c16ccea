/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Whether a filter of system calls, as containers have, leaves us those that we live on. Asked by trying
 * them.
 */

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "service/doctor/doctor.h"

enum { DOCTOR_SECCOMP_FILTER = 2 };     /* proc(5): Seccomp: */

static bool try_bpf(void) {
        return syscall(SYS_bpf, INT_MAX, NULL, 0) >= 0 || errno == EINVAL;
}

static bool try_perf_event_open(void) {
        return syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0) >= 0 || errno == EFAULT;
}

static bool try_process_vm_readv(void) {
        return process_vm_readv(getpid(), NULL, 0, NULL, 0, 0) >= 0;
}

/* Without arguments that mean anything, and each in a process of its own: a filter may kill. */
static bool passes(bool (*try)(void)) {
        int status = 0;
        pid_t pid = fork();

        if (!pid) {
                signal(SIGSYS, SIG_DFL);
                _exit(try() ? EXIT_SUCCESS : EXIT_FAILURE);
        }
        return pid < 0 || waitpid(pid, &status, 0) != pid ||
                (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS);
}

void doctor_check_seccomp(Doctor *doctor, const char *status, bool has_bpf) {
        const char *line = strstr(status, "\nSeccomp:");
        bool bpf, perf, memory;

        if (!line || strtol(line + strlen("\nSeccomp:"), NULL, 10) != DOCTOR_SECCOMP_FILTER) {
                doctor_add(doctor, "seccomp", DOCTOR_OK, NULL, "no filter");
                return;
        }
        /* without CAP_BPF it is the kernel itself that may refuse, as is said above */
        bpf = !has_bpf || passes(try_bpf);
        perf = passes(try_perf_event_open);
        memory = passes(try_process_vm_readv);
        doctor_add(
                doctor, "seccomp", bpf && perf && memory ? DOCTOR_OK : DOCTOR_FAIL,
                "allow them in the profile of the container (seccompProfile, --security-opt seccomp=), or SystemCallFilter=",
                "a filter is in force%s%s%s%s",
                bpf && perf && memory ? ", and lets us work" : ", and forbids", bpf ? "" : " bpf",
                perf ? "" : " perf_event_open", memory ? "" : " process_vm_readv");
}
