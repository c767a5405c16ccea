/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A ruleset names the rights that it handles. What it handles is forbidden but below directories with a rule.
 * Which rights there are is asked of the kernel: each version of the interface has all of the one before.
 * Numbers are of Linux' include/uapi/linux/landlock.h, which older C libraries lack or have in part.
 */

#include "core/base/sandbox/landlock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/util/macro.h"

enum {
        CREATE_RULESET = 444,           /* the same number on every processor */
        ADD_RULE = 445,
        RESTRICT_SELF = 446,
        ASK_VERSION = 1,
        RULE_PATH_BENEATH = 1,
        VERSION_REFER = 2,
        VERSION_TRUNCATE = 3,
        VERSION_NETWORK = 4,
        VERSION_SIGNAL = 6,
};

enum {
        EXECUTE = 1 << 0,
        WRITE_FILE = 1 << 1,
        READ_FILE = 1 << 2,
        READ_DIRECTORY = 1 << 3,
        CHANGES = 0x1ff << 4,           /* remove and make files and directories of all kinds */
        REFER = 1 << 13,
        TRUNCATE = 1 << 14,
        BIND_TCP = 1 << 0,
        CONNECT_TCP = 1 << 1,
        SCOPE_SIGNAL = 1 << 1,
};

struct ruleset {
        uint64_t files, network, scoped;
};

struct path_rule {
        uint64_t allowed;
        int32_t directory;
} __attribute__((packed));

static struct ruleset make_ruleset(const Landlock *landlock, long version) {
        struct ruleset ruleset = { .files = WRITE_FILE | CHANGES };

        if (version >= VERSION_REFER)
                ruleset.files |= REFER;
        if (version >= VERSION_TRUNCATE)
                ruleset.files |= TRUNCATE;
        if (version >= VERSION_NETWORK)
                ruleset.network = BIND_TCP | (landlock->connects ? 0 : CONNECT_TCP);
        if (version >= VERSION_SIGNAL)
                ruleset.scoped = SCOPE_SIGNAL;
        return ruleset;
}

/* Older kernels refuse members that they do not know. */
static size_t ruleset_size(long version) {
        return version >= VERSION_SIGNAL ? sizeof(struct ruleset)
                : version >= VERSION_NETWORK ? 2 * sizeof(uint64_t)
                                             : sizeof(uint64_t);
}

static int allow(int rules, const char *path, uint64_t rights) {
        _cleanup_(closep) int directory = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        struct path_rule rule = { rights, directory };

        if (directory < 0 || syscall(ADD_RULE, rules, RULE_PATH_BENEATH, &rule, 0) < 0)
                return -errno;
        return 0;
}

static int restrict_self(int rules) {
        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || syscall(RESTRICT_SELF, rules, 0) < 0 ? -errno
                                                                                                   : 0;
}

int landlock_enter(const Landlock *landlock) {
        long version = syscall(CREATE_RULESET, NULL, 0, ASK_VERSION);
        struct ruleset ruleset = make_ruleset(landlock, version);
        _cleanup_(closep) int rules = -1;
        int r;

        if (version < 1)
                return LANDLOCK_E_ABSENT;
        rules = (int)syscall(CREATE_RULESET, &ruleset, ruleset_size(version), 0);
        if (rules < 0)
                return -errno;
        r = landlock->writable ? allow(rules, landlock->writable, ruleset.files) : 0;
        return r ? r : restrict_self(rules);
}

/* A name may be given to another file meanwhile: what was opened counts. */
static int allow_file(int rules, int directory, const char *name) {
        _cleanup_(closep) int fd = openat(directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        struct path_rule rule = { READ_FILE, fd };
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid)
                return 0;
        return syscall(ADD_RULE, rules, RULE_PATH_BENEATH, &rule, 0) < 0 ? -errno : 0;
}

static int allow_files(int rules, int directory, bool (*is_wanted)(const char *name)) {
        int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
        DIR *stream = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *entry;

        if (!stream) {
                r = -errno;
                closep(&fd);
                return r;
        }
        while (!r && (entry = readdir(stream)))
                if (is_wanted(entry->d_name))
                        r = allow_file(rules, directory, entry->d_name);
        closedir(stream);
        return r;
}

int landlock_read_alone(int directory, bool (*is_wanted)(const char *name)) {
        long version = syscall(CREATE_RULESET, NULL, 0, ASK_VERSION);
        struct ruleset ruleset = make_ruleset(&(Landlock){ 0 }, version);
        _cleanup_(closep) int rules = -1;
        int r;

        if (version < 1)
                return LANDLOCK_E_ABSENT;
        ruleset.files |= EXECUTE | READ_FILE | READ_DIRECTORY;
        rules = (int)syscall(CREATE_RULESET, &ruleset, ruleset_size(version), 0);
        if (rules < 0)
                return -errno;
        r = allow_files(rules, directory, is_wanted);
        return r ? r : restrict_self(rules);
}
