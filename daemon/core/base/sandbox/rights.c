/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Changes user and groups while the capabilities are kept, drops the bounding set, and then all
 * capabilities but those that are wanted: each step needs one that a later step drops.
 */

#include "core/base/sandbox/rights.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/util/text.h"

#define OWN_USER "spanprof"
#define NOBODY 65534u

typedef struct __user_cap_data_struct CapabilityWords[_LINUX_CAPABILITY_U32S_3];

static void take_over(RightsUser *user, const struct passwd *found) {
        user->uid = found->pw_uid;
        user->gid = found->pw_gid;
        snprintf(user->name, sizeof(user->name), "%s", found->pw_name);
}

int rights_find_user(const char *name, RightsUser *user) {
        const struct passwd *found = getpwnam(*name ? name : OWN_USER);
        uint64_t number;

        *user = (RightsUser){ .uid = NOBODY, .gid = NOBODY, .name = "nobody" };
        if (!found && !*name)
                found = getpwnam("nobody");
        if (!found && *name) {
                if (text_u64(name, UINT32_MAX - 1, &number))
                        return RIGHTS_E_UNKNOWN;
                found = getpwuid((uid_t)number);
                user->uid = user->gid = (uint32_t)number;
                snprintf(user->name, sizeof(user->name), "%s", name);
        }
        if (found)
                take_over(user, found);
        return 0;
}

static int get_capabilities(CapabilityWords words) {
        struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };

        return syscall(SYS_capget, &header, words) < 0 ? -errno : 0;
}

/* Keeps those of @capabilities that we are permitted. No inheritable ones stay, and thus no ambient ones. */
static int keep_capabilities(uint64_t capabilities) {
        struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
        CapabilityWords words;
        int r = get_capabilities(words);

        for (int i = 0; !r && i < _LINUX_CAPABILITY_U32S_3; i++) {
                words[i].permitted &= (uint32_t)(capabilities >> 32 * i);
                words[i].effective = words[i].permitted;
                words[i].inheritable = 0;
        }
        return r ? r : syscall(SYS_capset, &header, words) < 0 ? -errno : 0;
}

bool rights_hold(int capability) {
        CapabilityWords words;

        return !get_capabilities(words) && words[capability / 32].effective & 1u << capability % 32;
}

uint64_t rights_held(void) {
        CapabilityWords words;

        return get_capabilities(words) ? 0 : (uint64_t)words[1].effective << 32 | words[0].effective;
}

bool rights_can_change(void) {
        return rights_hold(CAP_SETUID) && rights_hold(CAP_SETGID) && rights_hold(CAP_CHOWN);
}

/* The permitted capabilities outlive the change of user, the effective ones do not. */
static int become(const RightsUser *user) {
        int r = 0;

        prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
        if (setgroups(0, NULL) < 0 || setresgid(user->gid, user->gid, user->gid) < 0 ||
            setresuid(user->uid, user->uid, user->uid) < 0)
                r = -errno;
        prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0);
        return r;
}

/*
 * Dropping takes a capability of its own, which a container may not have given; without exec the set means
 * nothing anyway.
 */
static void drop_bounding_set(void) {
        for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++)
                prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
}

/*
 * The kernel forgets with the user whether a process is to die with its parent; who started us wants that
 * still.
 */
static int change_user(const RightsUser *user) {
        int signal = 0, r;

        prctl(PR_GET_PDEATHSIG, &signal, 0, 0, 0);
        r = become(user);
        prctl(PR_SET_PDEATHSIG, signal, 0, 0, 0);
        return r;
}

int rights_drop(const RightsUser *user, uint64_t capabilities) {
        int r = user ? change_user(user) : 0;

        if (!user)
                (void)!setgroups(0, NULL);
        if (!r)
                r = keep_capabilities(UINT64_MAX);
        if (r)
                return r;
        drop_bounding_set();
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
        r = keep_capabilities(capabilities);
        return r ? r : prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}
