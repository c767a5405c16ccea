/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Program Names
 *
 * Tells from the name of earlier programs whether the first sample of the next one calls the daemon at once.
 * Two tables of names say it, each as a map of the kernel half has it:
 *
 *     known       the name was a target's lately: the sample calls                    bpf/walk/wake.bpf.h
 *     settled     … unless the last programs of the name had nothing new: it waits    bpf/walk/start.bpf.h
 *
 * A program has nothing new if each file that it has mapped was known by its path, and has neither a runtime
 * nor contexts of threads: the ordinary drain finds its files without it. A program that has something new
 * unsettles its name. A program that publishes does so for good, since what it publishes is to be found soon.
 *
 * A known name counts in every mount namespace, since each container has another one. A settled name counts
 * in its own: the same path may be another file elsewhere. Hence two tables.
 *
 * At the cap the oldest name makes room for a new one. No counter says so: the next program of the oldest
 * name is found by the daemon's own clock, or calls. Pure: the caller changes the map.
 */

#include <stdbool.h>
#include <stdint.h>

#include "border/abi.h"

typedef struct ProgramName {
        struct abi_settled_name name;   /* known names have no mount namespace */
        uint32_t n_plain;               /* programs with nothing new, one after the other */
        bool publishes;                 /* a program of the name did */
        bool is_in_map;                 /* the kernel half's map holds the name */
} ProgramName;

typedef struct ProgramNames {
        ProgramName names[ABI_MAX_PROGRAM_NAMES];       /* in the order of arrival, as a ring */
        uint32_t n;                     /* arrivals so far */
} ProgramNames;

/* How the map changes. Empty names: no change. */
typedef struct ProgramNamesChange {
        struct abi_settled_name added, removed;         /* zeros behind the name, as the kernel has it */
} ProgramNamesChange;

/* A program called @comm is a target; nothing becomes of an empty name. Return: whether the map changes. */
bool program_names_know(ProgramNames *names, const char *comm, ProgramNamesChange *changep);

/* Another program of @name was met; @is_plain: it had nothing new. Return: whether the map changes. */
bool program_names_judge(ProgramNames *names, const struct abi_settled_name *name, bool is_plain,
                         ProgramNamesChange *changep);

/* A program of @name publishes something. Return: whether the map changes. */
bool program_names_note_publication(ProgramNames *names, const struct abi_settled_name *name,
                                    ProgramNamesChange *changep);
