/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Rights
 *
 * What a program that root has started gives up, for good: the user id, the groups, the capabilities. The
 * bounding set goes too, and no program that it starts gets new ones. It says nothing; docs/SECURITY.md says
 * against whom.
 */

#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>

#define RIGHTS_OF(_capability) (UINT64_C(1) << (_capability))

/* Sampling needs these capabilities, as the systemd unit grants them; each has its reason there. */
#define RIGHTS_OF_DAEMON \
        (RIGHTS_OF(CAP_BPF) | RIGHTS_OF(CAP_PERFMON) | RIGHTS_OF(CAP_SYS_PTRACE) | \
         RIGHTS_OF(CAP_DAC_READ_SEARCH) | RIGHTS_OF(CAP_CHECKPOINT_RESTORE) | RIGHTS_OF(CAP_SYSLOG))

typedef struct RightsUser {
        uint32_t uid, gid;
        char name[64];
} RightsUser;

enum {
        _RIGHTS_E_SUCCESS,
        RIGHTS_E_UNKNOWN,               /* the machine has no such user */
};

/*
 * @name: a name or a number; "" = spanprof, and nobody where there is no such user. Return: 0,
 * RIGHTS_E_UNKNOWN.
 */
int rights_find_user(const char *name, RightsUser *user);

/* Whether @capability (CAP_…) is effective; all that are, by RIGHTS_OF() (0 = they cannot be asked for). */
bool rights_hold(int capability);
uint64_t rights_held(void);

/* Whether we may become another user, and give files away; a container may hold root without that. */
bool rights_can_change(void);

/*
 * Becomes @user, NULL = stays who we are, and keeps of the capabilities that we hold those of @capabilities.
 * Capabilities are a thread's: for a process with one. Return: 0, -errno: nothing was given up but, perhaps,
 * groups.
 */
int rights_drop(const RightsUser *user, uint64_t capabilities);
