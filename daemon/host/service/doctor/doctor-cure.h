/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Doctor's Cures
 *
 * What to paste for what only the place of the daemon can grant: a unit of systemd, a container, the
 * DaemonSet of Kubernetes, or a shell. Each is one line for a shell; what no command can say follows behind
 * a `#`.
 */

#include <stddef.h>

typedef enum DoctorPlace {
        DOCTOR_PLACE_SHELL,             /* a user who is not root */
        DOCTOR_PLACE_SERVICE,           /* root; systemd, or whoever started us, may hold rights back */
        DOCTOR_PLACE_CONTAINER,
        DOCTOR_PLACE_KUBERNETES,
} DoctorPlace;

enum { DOCTOR_CURE_MAX = 320 };

/* Where this process runs, by its environment, by the files that engines of containers make, and its user. */
DoctorPlace doctor_place(void);

/* Pure. Grants the capability @name ("CAP_BPF"). */
void doctor_cure_capability(DoctorPlace place, const char *name, char to[static DOCTOR_CURE_MAX]);

/* Pure. Lets the system calls @calls pass ("bpf perf_event_open"). */
void doctor_cure_calls(DoctorPlace place, const char *calls, char to[static DOCTOR_CURE_MAX]);

/* Pure. Shows all processes of the machine. */
void doctor_cure_namespace(DoctorPlace place, char to[static DOCTOR_CURE_MAX]);

/* Pure. Raises the limit of open files. */
void doctor_cure_files(DoctorPlace place, char to[static DOCTOR_CURE_MAX]);
