/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Identity
 *
 * What a person knows a process by, beyond pid and name: executable, user, control group with
 * container and unit, and what it says of itself in its environment. Each part is read on
 * request, since not every process is worth it; a part that cannot be read stays unset.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/data/shares.h"
#include "core/base/util/macro.h"
#include "host/sampling/process/cgroup.h"
#include "host/sampling/process/environment.h"
#include "host/sampling/process/process-look.h"

enum {
        IDENTITY_EXE = 1 << 0,
        IDENTITY_USER = 1 << 1,
        IDENTITY_CGROUP = 1 << 2,
        IDENTITY_ENVIRONMENT = 1 << 3,
};

typedef struct Identity {
        /* path in its own root, ` (deleted)` removed; owned; NULL = unknown */
        char *exe;
        uint32_t uid;                   /* effective */
        bool has_uid;
        char *groups;                   /* text of /proc/PID/cgroup; owned; NULL = unknown */
        size_t groups_size;
        char *cgroup;                   /* the path that tells most; owned; NULL = unknown */
        char *container, *unit;         /* owned; NULL = none */
        char *pod;                      /* uid of a Kubernetes pod, with dashes; owned; NULL = none */
        Environment environment;
        unsigned n_others;              /* owners besides the first one */
} Identity;

/*
 * Reads what @what names of the process whose /proc directory is @proc_fd.
 * *identityp is owned by the caller. Return: 0, -ENOMEM.
 */
int identity_new(Identity **identityp, int proc_fd, unsigned what);

/* The same, where @look has what IDENTITY_ENVIRONMENT needs. */
int identity_new_by(Identity **identityp, int proc_fd, unsigned what, const ProcessLook *look);

/* Texts that exec gave to a process, one behind the other, as they lie in memory. */
typedef struct IdentityTexts {
        const char *arguments, *environment;
        size_t n_arguments, n_environment;      /* bytes */
} IdentityTexts;

/*
 * The identity of a process whose texts are @texts, and whose groups are those of @group, NULL = they are not
 * known. Return: 0, -ENOMEM.
 */
int identity_new_told(Identity **identityp, const IdentityTexts *texts, Identity *group);

/* Adds an owner: a fork shares the identity of its parent. */
Identity *identity_ref(Identity *identity);

/* The last owner frees it. */
Identity *identity_free(Identity *identity);
DEFINE_CLEANUP(Identity, identity_free)

/*
 * The executable's path in its own root, ` (deleted)` removed; owned by the caller. Where there is none to
 * see, *exep stays as it is. Return: 0, -ENOMEM.
 */
int identity_read_exe(int proc_fd, char **exep);

/* no user: it cannot be told */
#define IDENTITY_NOBODY UINT32_MAX

/* The effective user of the process whose /proc directory is @proc_fd; IDENTITY_NOBODY. */
uint32_t identity_user(int proc_fd);

/*
 * Whose shares the process has: its user, and the control group of its pod or unit. What cannot be read is
 * one group, and one user. @process: number that tells it apart from others.
 */
ShareOwner identity_owner(int proc_fd, uint64_t process);

/* The same of a process by its id. @start_time_ns: as for process_open(). */
ShareOwner identity_owner_of(pid_t pid, uint64_t start_time_ns);

/* Pure. The effective user in the text of /proc/PID/status. Return: 0, 1 = no such line. */
int identity_parse_status(const char *text, uint32_t *uidp);
