/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks which functions of BPF, kinds of programs and kinds of maps the kernel has. It makes one finding
 * with the names of all that are there, for each kind of program and for maps, and one for each that is not.
 */

#include <stdio.h>
#include <string.h>

#include "host/sampling/sample/kernel-needs.h"
#include "host/service/doctor/doctor.h"

enum {
        NAME_SIZE = sizeof(((Finding *)0)->name),
        NAMES_SIZE = sizeof(((Finding *)0)->text),
};

typedef struct Needs {
        Doctor *doctor;
        char names[N_KERNEL_PARTS][NAMES_SIZE]; /* needs that are there, one after the other */
        bool is_silent;
} Needs;

static void add_name(char names[NAMES_SIZE], const char *name) {
        size_t n = strlen(names);

        snprintf(names + n, NAMES_SIZE - n, "%s%s", *names && *name ? " " : "", name);
}

static void name_check(KernelPart part, char name[NAME_SIZE]) {
        const char *program = kernel_part_program(part);

        snprintf(name, NAME_SIZE, "bpf-%s", *program ? program : "maps");
}

/* Without the look at all threads there is no `stacks`, without probes no --allocations; the daemon runs. */
static void add_lacked(Doctor *doctor, const KernelNeed *need) {
        const char *loss = need->part == KERNEL_PART_THREADS ? "`spanprof stacks` does not work"
                : need->part == KERNEL_PART_PROBES           ? "--allocations does not work"
                                                             : NULL;
        char words[128], name[NAME_SIZE];

        name_check(need->part, name);
        kernel_need_text(need, words, sizeof(words));
        if (need->substitute)
                doctor_add(doctor, name, DOCTOR_OK, NULL, "this kernel lacks %s: bpf_%s() is used", words,
                           need->substitute);
        else
                doctor_add(doctor, name, loss ? DOCTOR_WARN : DOCTOR_FAIL,
                           "uname -r; sudo apt-get install linux-image-amd64 || sudo dnf upgrade kernel   # then reboot: Linux 5.15 or later has all",
                           "this kernel lacks %s: %s", words,
                           loss ?: "nothing can be sampled");
}

static void note_need(const KernelNeed *need, KernelAnswer answer, void *userdata) {
        Needs *needs = userdata;

        if (answer == KERNEL_SILENT)
                needs->is_silent = true;
        else if (answer == KERNEL_LACKS)
                add_lacked(needs->doctor, need);
        else
                add_name(needs->names[need->part], need->name);
}

void doctor_check_needs(Doctor *doctor) {
        Needs needs = { .doctor = doctor };

        kernel_needs_ask(note_need, &needs);
        for (KernelPart part = 0; part < N_KERNEL_PARTS; part++) {
                char name[NAME_SIZE];

                name_check(part, name);
                if (*needs.names[part])
                        doctor_add(doctor, name, DOCTOR_OK, NULL, "%s", needs.names[part]);
        }
        /* A daemon that runs has loaded all of it. */
        if (needs.is_silent && !doctor->view.pid)
                doctor_add(doctor, "bpf", DOCTOR_WARN, "sudo spanprof doctor",
                           "the kernel does not say what BPF has here: this takes CAP_BPF and CAP_PERFMON");
}
