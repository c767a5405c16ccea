/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads exe, status, cgroup and environ of a process as far as they are asked for, each up to a cap; the
 * same parts may come from what a new process told.
 */

#include "host/sampling/process/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "core/base/data/intern.h"
#include "core/base/file/file.h"
#include "core/base/thread/bounded-call.h"
#include "core/base/util/error.h"
#include "core/base/util/stat.h"
#include "core/symbol/object/deleted.h"
#include "host/sampling/process/process-directory.h"

enum {
        STATUS_MAX = 16384,
        GROUPS_MAX = 65536,             /* a line for each v1 hierarchy, each path up to 4 KiB */
};

int identity_read_exe(int proc_fd, char **exep) {
        char path[PATH_MAX];
        ssize_t n = readlinkat(proc_fd, "exe", path, sizeof(path) - 1);

        if (n < 0)
                return 0;
        *exep = strndup(path, deleted_plain_size(path, (size_t)n));
        return *exep ? 0 : error_origin(-ENOMEM);
}

/*
 * `Uid:` real, effective, saved, filesystem. It may not be the first line's text: a name has no newline in
 * it.
 */
int identity_parse_status(const char *text, uint32_t *uidp) {
        const char *line = strstr(text, "\nUid:\t");
        unsigned long uid;
        char *end;

        if (!line)
                return 1;
        strtoul(line + 6, &end, 10);
        if (*end != '\t')
                return 1;
        uid = strtoul(end + 1, &end, 10);
        if (*end != '\t' || uid > UINT32_MAX)
                return 1;
        *uidp = (uint32_t)uid;
        return 0;
}

static int read_user(Identity *identity, int proc_fd) {
        _cleanup_(freep) char *text = NULL;
        size_t size;
        int r = file_read_at(proc_fd, "status", STATUS_MAX, &text, &size);

        if (!r)
                identity->has_uid = !identity_parse_status(text, &identity->uid);
        return r < 0 ? r : 0;
}

uint32_t identity_user(int proc_fd) {
        Identity identity = { 0 };

        return proc_fd >= 0 && !read_user(&identity, proc_fd) && identity.has_uid ? identity.uid
                                                                                  : IDENTITY_NOBODY;
}

ShareOwner identity_owner(int proc_fd, uint64_t process) {
        ShareOwner owner = { .group = 1, .user = identity_user(proc_fd), .process = process };
        _cleanup_(freep) char *groups = NULL;
        Cgroup cgroup;
        size_t size;

        if (proc_fd < 0 || file_read_at(proc_fd, "cgroup", GROUPS_MAX, &groups, &size))
                return owner;
        cgroup_parse(groups, size, &cgroup);
        cgroup.path = cgroup_share(cgroup.path);
        if (cgroup.path.size)
                owner.group = hash_bytes(cgroup.path.text, cgroup.path.size) | 1;
        return owner;
}

ShareOwner identity_owner_of(pid_t pid, uint64_t start_time_ns) {
        _cleanup_(closep) int fd = -1;

        if (process_open(pid, start_time_ns, &fd))
                fd = -1;
        return identity_owner(fd, (uint64_t)pid);
}

/* A part as text of its own, NULL if there is none. */
static int keep(CgroupPart part, char **textp) {
        char *text;

        if (!part.size)
                return 0;
        text = malloc(part.size + 1);
        if (!text)
                return error_origin(-ENOMEM);
        cgroup_unescape(part, text, part.size + 1);
        *textp = text;
        return 0;
}

static int read_groups(Identity *identity, int proc_fd) {
        Cgroup cgroup;
        int r = file_read_at(proc_fd, "cgroup", GROUPS_MAX, &identity->groups, &identity->groups_size);

        if (r)
                return r < 0 ? r : 0;
        cgroup_parse(identity->groups, identity->groups_size, &cgroup);
        if (cgroup.path.size) {
                identity->cgroup = strndup(cgroup.path.text, cgroup.path.size);
                if (!identity->cgroup)
                        return error_origin(-ENOMEM);
        }
        r = keep(cgroup.container, &identity->container);
        r = r ? r : keep(cgroup.pod, &identity->pod);
        for (char *c = identity->pod; c && *c; c++)
                *c = *c == '_' ? '-' : *c;
        return r ? r : keep(cgroup.unit, &identity->unit);
}

/* Nothing of the rest stays behind, not even on the stack. Return: it could be read. */
static bool feed_environment(EnvironmentReader *reader, int proc_fd, const char *file) {
        _cleanup_(closep) int fd = openat(proc_fd, file, O_RDONLY | O_CLOEXEC);
        char piece[4096];
        ssize_t n = -1;

        /* A piece that is not full is the last one: most are one call. */
        for (size_t size = 0; fd >= 0 && size < ENVIRONMENT_MAX_BYTES; size += (size_t)n) {
                n = bounded_fill(0, fd, piece, sizeof(piece));
                if (n > 0)
                        environment_reader_feed(reader, piece, (size_t)n);
                if (n < (ssize_t)sizeof(piece))
                        break;
        }
        explicit_bzero(piece, sizeof(piece));
        return n >= 0;
}

/*
 * A file of which @look has the @n bytes of @text; n < 0: it has not. One that has held up a look does so no
 * second time. Return: as feed_environment().
 */
static bool feed(EnvironmentReader *reader, int proc_fd, const char *name, const ProcessLook *look,
                 const char *text, int32_t n) {
        if (look && look->is_stuck)
                return false;
        if (n < 0)
                return feed_environment(reader, proc_fd, name);
        environment_reader_feed(reader, text, (size_t)n);
        return true;
}

/* @look: NULL = there was none. */
static int read_environment(Identity *identity, int proc_fd, const ProcessLook *look) {
        EnvironmentReader reader = { 0 };
        bool is_read;
        int r;

        environment_reader_begin(&reader, ENVIRONMENT_ARGUMENTS);
        feed(&reader, proc_fd, "cmdline", look, look ? look->arguments : NULL, look ? look->n_arguments : -1);
        environment_reader_begin(&reader, ENVIRONMENT_VARIABLES);
        is_read = feed(&reader, proc_fd, "environ", look, look ? look->environment : NULL,
                       look ? look->n_environment : -1);
        stat_add(COUNTER_ENVIRONMENTS_UNREADABLE, !is_read);
        r = environment_reader_finish(&reader, &identity->environment);
        stat_add(COUNTER_ENVIRONMENT_INVALID, identity->environment.n_invalid);
        environment_reader_deinit(&reader);
        return r;
}

int identity_new_by(Identity **identityp, int proc_fd, unsigned what, const ProcessLook *look) {
        _cleanup_(identity_freep) Identity *identity = calloc(1, sizeof(*identity));
        int r;

        if (!identity)
                return error_origin(-ENOMEM);
        r = what & IDENTITY_EXE ? identity_read_exe(proc_fd, &identity->exe) : 0;
        if (!r && what & IDENTITY_USER)
                r = read_user(identity, proc_fd);
        if (!r && what & IDENTITY_CGROUP)
                r = read_groups(identity, proc_fd);
        if (!r && what & IDENTITY_ENVIRONMENT)
                r = read_environment(identity, proc_fd, look);
        if (r)
                return r;
        *identityp = take(identity);
        return 0;
}

static int read_texts(const IdentityTexts *texts, Environment *environment) {
        EnvironmentReader reader = { 0 };
        int r;

        environment_reader_begin(&reader, ENVIRONMENT_ARGUMENTS);
        environment_reader_feed(&reader, texts->arguments, texts->n_arguments);
        environment_reader_begin(&reader, ENVIRONMENT_VARIABLES);
        environment_reader_feed(&reader, texts->environment, texts->n_environment);
        r = environment_reader_finish(&reader, environment);
        stat_add(COUNTER_ENVIRONMENT_INVALID, environment->n_invalid);
        environment_reader_deinit(&reader);
        return r;
}

static int copy_text(char **top, const char *from) {
        *top = from ? strdup(from) : NULL;
        return from && !*top ? error_origin(-ENOMEM) : 0;
}

/* Copies all but the text that selectors go by: a process that is told of has been chosen. */
static int copy_groups(Identity *identity, const Identity *group) {
        int r = copy_text(&identity->cgroup, group->cgroup);

        if (!r)
                r = copy_text(&identity->container, group->container);
        if (!r)
                r = copy_text(&identity->unit, group->unit);
        return r ? r : copy_text(&identity->pod, group->pod);
}

/* Most programs say nothing of themselves: they have their group's identity. */
int identity_new_told(Identity **identityp, const IdentityTexts *texts, Identity *group) {
        _cleanup_(identity_freep) Identity *identity = calloc(1, sizeof(*identity));
        int r = identity ? read_texts(texts, &identity->environment) : error_origin(-ENOMEM);

        if (r)
                return r;
        if (group && !identity->environment.service_name && !identity->environment.n_attributes) {
                *identityp = identity_ref(group);
                return 0;
        }
        r = group ? copy_groups(identity, group) : 0;
        if (!r)
                *identityp = take(identity);
        return r;
}

int identity_new(Identity **identityp, int proc_fd, unsigned what) {
        return identity_new_by(identityp, proc_fd, what, NULL);
}

Identity *identity_ref(Identity *identity) {
        identity->n_others++;
        return identity;
}

Identity *identity_free(Identity *identity) {
        if (!identity)
                return NULL;
        if (identity->n_others) {
                identity->n_others--;
                return NULL;
        }
        free(identity->exe);
        free(identity->groups);
        free(identity->cgroup);
        free(identity->container);
        free(identity->pod);
        free(identity->unit);
        environment_deinit(&identity->environment);
        free(identity);
        return NULL;
}
