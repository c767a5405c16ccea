/* SPDX-License-Identifier: Apache-2.0 */

/*
 * /proc/PID/cgroup names the group in each hierarchy, /proc/PID/mountinfo where a hierarchy is mounted, and
 * which of its groups is at the mount point:
 *
 *     0::/kubepods/pod7/agent                       group
 *     31 24 0:27 /kubepods/pod7 /sys/fs/cgroup …    mount: root of it, mount point
 *     /sys/fs/cgroup/agent, then /sys/fs/cgroup     directories that are read, up to the mount point
 *
 * A group that is not below the root of the mount is that root, as a container's often is.
 */

#include "host/service/limits/group-limit.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file/file.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "core/base/util/stat.h"
#include "core/base/util/text.h"
#include "host/sampling/process/cgroup.h"

enum {
        TEXT_MAX = 1 << 20,
        STAT_MAX = 16 << 10,            /* memory.stat; it has some fifty lines */
        MAX_LEVELS = 16,                /* groups around one of others; a container has some seven */
};

/* The older hierarchies write this or more, rounded to pages, where there is no limit. */
#define UNLIMITED (UINT64_C(1) << 60)

/* A mount of a hierarchy: parts of mountinfo. */
typedef struct Mount {
        CgroupPart root, point;
} Mount;

static bool has_word(const char *list, const char *word) {
        size_t n = strlen(word);

        for (const char *at = list; (at = strstr(at, word)); at += n)
                if ((at == list || at[-1] == ',') && (!at[n] || at[n] == ',' || at[n] == '\n'))
                        return true;
        return false;
}

/* Whether a line of mountinfo is that of the hierarchy with @controller; NULL = the unified one. */
static bool parse_mount(char *line, const char *controller, Mount *mount) {
        char *fields[5] = { 0 }, *rest = line, *kind, *options;

        for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
                if (!(fields[i] = strsep(&rest, " ")))
                        return false;
        kind = rest ? strstr(rest, " - ") : NULL;
        options = kind ? strrchr(kind, ' ') + 1 : NULL;
        if (!kind || !(controller ? !strncmp(kind, " - cgroup ", 10) && has_word(options, controller)
                                  : !strncmp(kind, " - cgroup2 ", 11)))
                return false;
        *mount = (Mount){ { fields[3], strlen(fields[3]) }, { fields[4], strlen(fields[4]) } };
        return true;
}

/* Whether a group is that at the root of a mount, or below it. One outside of our namespace has `..` in it. */
static bool is_in(CgroupPart path, CgroupPart top) {
        return path.size >= top.size && !memcmp(path.text, top.text, top.size) &&
                (path.size == top.size || path.text[top.size] == '/') && !memmem(path.text, path.size, "/..", 3);
}

/* Directory of a group. */
typedef struct Place {
        char *directory;                /* owned; NULL = none is known */
        size_t n_point;                 /* bytes of it that are the mount point */
        bool is_below;                  /* else it is that of the root of the mount */
} Place;

/* Cuts a copy of @mounts. Return: 0, -ENOMEM. */
static int find_directory(CgroupPart path, const char *mounts, const char *controller, Place *place) {
        _cleanup_(freep) char *copy = strdup(mounts);
        CgroupPart below = { "", 0 };
        char *rest = copy, *line;
        Mount mount;

        if (!copy)
                return error_origin(-ENOMEM);
        while ((line = strsep(&rest, "\n"))) {
                if (!parse_mount(line, controller, &mount))
                        continue;
                if (mount.root.size == 1)
                        mount.root.size = 0;
                place->is_below = is_in(path, mount.root);
                if (place->is_below && path.size > 1)
                        below = (CgroupPart){ path.text + mount.root.size, path.size - mount.root.size };
                place->n_point = mount.point.size;
                if (asprintf(&place->directory, "%s%.*s", mount.point.text, (int)below.size, below.text) < 0) {
                        place->directory = NULL;
                        return error_origin(-ENOMEM);
                }
                return 0;
        }
        return 0;
}

static bool read_text(const char *directory, const char *name, char *text, size_t size) {
        _cleanup_(freep) char *data = NULL;
        char path[PATH_MAX];
        size_t n;

        if ((size_t)snprintf(path, sizeof(path), "%s/%s", directory, name) >= sizeof(path) ||
            file_read(path, size - 1, &data, &n))
                return false;
        memcpy(text, data, n);
        text[n] = 0;
        return true;
}

/* Words instead of a number, as `max` or -1, are no limit. */
static uint64_t read_number(const char *directory, const char *name) {
        char text[64];

        if (!read_text(directory, name, text, sizeof(text)) || *text < '0' || *text > '9')
                return 0;
        return strtoull(text, NULL, 10);
}

/* 0 = there is none. */
static uint64_t read_memory_limit(const char *directory, bool is_unified) {
        uint64_t bytes = read_number(directory, is_unified ? "memory.max" : "memory.limit_in_bytes");

        return bytes < UNLIMITED ? bytes : 0;
}

static uint64_t read_memory_used(const char *directory, bool is_unified) {
        return read_number(directory, is_unified ? "memory.current" : "memory.usage_in_bytes");
}

static void take_memory(GroupLimit *limit, const char *directory, bool is_unified) {
        uint64_t bytes = read_memory_limit(directory, is_unified);

        if (bytes && (!limit->memory_bytes || bytes < limit->memory_bytes))
                limit->memory_bytes = bytes;
}

static void take_cpu(GroupLimit *limit, const char *directory, bool is_unified) {
        uint64_t quota = 0, period = 0;
        char text[64];
        double percent;

        if (!is_unified) {
                quota = read_number(directory, "cpu.cfs_quota_us");
                period = read_number(directory, "cpu.cfs_period_us");
        } else if (!read_text(directory, "cpu.max", text, sizeof(text)) ||
                   sscanf(text, "%" SCNu64 " %" SCNu64, &quota, &period) != 2) {
                return;
        }
        percent = quota && period ? 100.0 * (double)quota / (double)period : 0;
        if (percent > 0 && (limit->cpu_percent <= 0 || percent < limit->cpu_percent))
                limit->cpu_percent = percent;
}

/* The directory becomes that of the group above. Return: false = it was at the mount point. */
static bool go_up(char *directory, size_t n_point) {
        char *slash = strrchr(directory, '/');

        if (!slash || (size_t)(slash - directory) < n_point)
                return false;
        *slash = 0;
        return true;
}

/* The group's own use of memory counts, also where a group around it has the limit. */
static int take_group(GroupLimit *limit, const char *directory, bool is_unified) {
        if (!read_memory_used(directory, is_unified))
                return 0;
        free(limit->memory_group);
        limit->is_unified = is_unified;
        limit->memory_group = strdup(directory);
        return limit->memory_group ? 0 : error_origin(-ENOMEM);
}

/* Limits of one hierarchy: of the group, and of those around it. @controller: NULL = the unified one. */
static int take_hierarchy(GroupLimit *limit, const CgroupEntry *entry, const char *mounts,
                          const char *controller) {
        bool has_memory = !controller || !strcmp(controller, "memory"), has_cpu = !controller || !has_memory;
        Place place = { 0 };
        int r = find_directory(entry->path, mounts, controller, &place);

        if (!r && place.directory && has_memory)
                r = take_group(limit, place.directory, !controller);
        if (!r && place.directory)
                do {
                        if (has_memory)
                                take_memory(limit, place.directory, !controller);
                        if (has_cpu)
                                take_cpu(limit, place.directory, !controller);
                } while (go_up(place.directory, place.n_point));
        free(place.directory);
        return error_fold(r);
}

static bool part_has(CgroupPart part, const char *word) {
        char text[256];

        return (size_t)snprintf(text, sizeof(text), "%.*s", (int)part.size, part.text) < sizeof(text) &&
                has_word(text, word);
}

static int read_all(GroupLimit *limit, const char *groups, size_t n_groups, const char *mounts) {
        const char *at = groups;
        CgroupEntry entry;
        int r = 0;

        while (!r && cgroup_next(&at, groups + n_groups, &entry)) {
                if (!entry.controllers.size)
                        r = take_hierarchy(limit, &entry, mounts, NULL);
                if (!r && part_has(entry.controllers, "memory"))
                        r = take_hierarchy(limit, &entry, mounts, "memory");
                if (!r && part_has(entry.controllers, "cpu"))
                        r = take_hierarchy(limit, &entry, mounts, "cpu");
        }
        return error_fold(r);
}

int group_limit_read(GroupLimit *limit, const char *proc) {
        _cleanup_(freep) char *groups = NULL, *mounts = NULL;
        _cleanup_(group_limit_deinit) GroupLimit found = { 0 };
        char path[PATH_MAX];
        size_t n_groups, n;
        int r;

        *limit = found;
        snprintf(path, sizeof(path), "%s/cgroup", proc);
        if (file_read(path, TEXT_MAX, &groups, &n_groups))
                return 0;
        snprintf(path, sizeof(path), "%s/mountinfo", proc);
        if (file_read(path, TEXT_MAX, &mounts, &n))
                return 0;
        r = read_all(&found, groups, n_groups, mounts);
        if (r)
                return error_fold(r);
        *limit = found;
        found.memory_group = NULL;
        return 0;
}

void group_limit_deinit(GroupLimit *limit) {
        free(limit->memory_group);
        *limit = (GroupLimit){ 0 };
}

uint64_t group_limit_memory(const GroupLimit *limit) {
        return limit->memory_bytes / 100 * GROUP_LIMIT_PERCENT;
}

uint64_t group_limit_spare(const GroupLimit *limit) {
        uint64_t bytes = group_limit_memory(limit);

        if (!bytes)
                return UINT64_MAX;
        return MAX(bytes - MIN(bytes, GROUP_LIMIT_BASE_BYTES), GROUP_LIMIT_LEAST_BYTES);
}

uint64_t group_limit_cpu(const GroupLimit *limit) {
        double percent = limit->cpu_percent * GROUP_LIMIT_PERCENT / 100;

        return percent <= 0 ? 0 : percent < 1 ? 1 : (uint64_t)percent;
}

/* Value of a line `KEY NUMBER` of memory.stat. */
static uint64_t value_of(const char *text, const char *key) {
        size_t n = strlen(key);

        for (const char *line = text; line; line = strchr(line, '\n'), line += line != NULL)
                if (!strncmp(line, key, n) && line[n] == ' ')
                        return strtoull(line + n, NULL, 10);
        return 0;
}

/* Return: whether it is known. */
static bool read_files(const char *directory, bool is_unified, uint64_t *filesp) {
        char text[STAT_MAX];

        if (!read_text(directory, "memory.stat", text, sizeof(text)))
                return false;
        *filesp = value_of(text, is_unified ? "inactive_file" : "total_inactive_file") +
                value_of(text, is_unified ? "active_file" : "total_active_file");
        return true;
}

uint64_t group_limit_used(const GroupLimit *limit) {
        uint64_t used, files;

        if (!limit->memory_group || !read_files(limit->memory_group, limit->is_unified, &files))
                return 0;
        used = read_memory_used(limit->memory_group, limit->is_unified);
        return used - MIN(used, files);
}

uint64_t group_limit_room(const GroupLimit *limit) {
        uint64_t used = limit->memory_bytes ? group_limit_used(limit) : 0;

        return used ? limit->memory_bytes - MIN(limit->memory_bytes, used) : UINT64_MAX;
}

/* ---- groups of others ---- */

/*
 * The group, and those around it, up to MAX_LEVELS: a user may nest as many as a path has room for. What is
 * not below the root of the mount cannot be seen from here.
 */
static int visit_hierarchy(const CgroupEntry *entry, const char *mounts, const char *controller,
                           MemoryGroupVisit visit, void *userdata) {
        Place place = { 0 };
        unsigned n = 0;
        int r = find_directory(entry->path, mounts, controller, &place);

        if (!r && place.directory && place.is_below)
                do {
                        const MemoryGroup memory = {
                                .directory = place.directory,
                                .is_unified = !controller,
                                .limit_bytes = read_memory_limit(place.directory, !controller),
                        };

                        if (memory.limit_bytes)
                                r = visit(userdata, &memory);
                } while (!r && ++n < MAX_LEVELS && go_up(place.directory, place.n_point));
        if (n == MAX_LEVELS && go_up(place.directory, place.n_point))
                stat_add(COUNTER_MEMORY_GROUPS_OVER_CAP, 1);
        free(place.directory);
        return r;
}

int memory_groups_each(const char *proc, const char *mounts, MemoryGroupVisit visit, void *userdata) {
        _cleanup_(freep) char *groups = NULL;
        char path[PATH_MAX];
        const char *at;
        CgroupEntry entry;
        size_t n;
        int r = 0;

        snprintf(path, sizeof(path), "%s/cgroup", proc);
        if (file_read(path, TEXT_MAX, &groups, &n))
                return 0;
        at = groups;
        while (!r && cgroup_next(&at, groups + n, &entry)) {
                if (!entry.controllers.size)
                        r = visit_hierarchy(&entry, mounts, NULL, visit, userdata);
                else if (part_has(entry.controllers, "memory"))
                        r = visit_hierarchy(&entry, mounts, "memory", visit, userdata);
        }
        return r;
}

uint64_t memory_group_used(const MemoryGroup *memory) {
        return read_memory_used(memory->directory, memory->is_unified);
}

uint64_t memory_group_set(const MemoryGroup *memory, uint64_t used) {
        uint64_t files;

        return read_files(memory->directory, memory->is_unified, &files) ? used - MIN(used, files) : 0;
}

uint64_t memory_group_outs(const MemoryGroup *memory) {
        char text[STAT_MAX];

        if (!read_text(memory->directory, memory->is_unified ? "memory.events" : "memory.oom_control", text,
                       sizeof(text)))
                return 0;
        return value_of(text, memory->is_unified ? "oom" : "oom_kill");
}
