/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Names that runtimes give to the group of a container, ID being 64 hexadecimal digits:
 *
 *     docker                  /docker/ID                      /system.slice/docker-ID.scope
 *     containerd (CRI)        /kubepods/…/podUID/ID           /kubepods.slice/…/cri-containerd-ID.scope
 *                             /system.slice/containerd.service/kubepods-….slice:cri-containerd:ID
 *     CRI-O                   /kubepods.slice/…/crio-ID.scope
 *     podman                  /machine.slice/libpod-ID.scope/container   …/user.slice/libpod-ID.scope
 *                             …/app.slice/UNIT.service/libpod-payload-ID
 *     ECS                     /ecs/TASK/ID                    /ecs/TASK/TASK-NUMBER   (TASK: 32 digits)
 *     systemd-nspawn          /machine.slice/systemd-nspawn@NAME.service/payload
 *                             /machine.slice/machine-NAME.scope
 *     LXC                     /lxc/NAME                       /lxc.payload.NAME
 *
 * and the helpers beside them, which are in no container: crio-conmon-ID.scope, libpod-conmon-ID.scope,
 * lxc.monitor.NAME, nspawn's own `supervisor`. machine-qemu….scope is a virtual machine: its process runs on
 * the host.
 */
#include "host/sampling/process/cgroup.h"

#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/base/util/macro.h"
#include "core/base/util/text.h"
#include "core/symbol/object/deleted.h"

enum {
        ID_DIGITS = 64,
        TASK_DIGITS = 32,
        POD_DIGITS = 32,
};

static CgroupPart none(void) {
        return (CgroupPart){ "", 0 };
}

static bool part_is(CgroupPart part, const char *text) {
        return part.size == strlen(text) && !memcmp(part.text, text, part.size);
}

static bool part_cut_start(CgroupPart *part, const char *start) {
        size_t n = strlen(start);

        if (part->size < n || memcmp(part->text, start, n))
                return false;
        part->text += n;
        part->size -= n;
        return true;
}

static bool part_cut_end(CgroupPart *part, const char *end) {
        size_t n = strlen(end);

        if (part->size < n || memcmp(part->text + part->size - n, end, n))
                return false;
        part->size -= n;
        return true;
}

static bool part_contains(CgroupPart part, const char *text) {
        return memmem(part.text, part.size, text, strlen(text));
}

/* `N:CONTROLLERS:PATH`; only the path may hold colons. */
static bool parse_line(CgroupPart line, CgroupEntry *entry) {
        const char *first = memchr(line.text, ':', line.size), *second, *end = line.text + line.size;

        second = first ? memchr(first + 1, ':', (size_t)(end - first) - 1) : NULL;
        if (!second || second + 1 == end || second[1] != '/')
                return false;
        entry->controllers = (CgroupPart){ first + 1, (size_t)(second - first) - 1 };
        entry->path = (CgroupPart){ second + 1, (size_t)(end - second) - 1 };
        entry->path.size = deleted_plain_size(entry->path.text, entry->path.size);
        return entry->path.size;
}

bool cgroup_next(const char **textp, const char *end, CgroupEntry *entry) {
        while (*textp < end) {
                const char *newline = memchr(*textp, '\n', (size_t)(end - *textp)),
                           *stop = newline ? newline : end;
                CgroupPart line = { *textp, (size_t)(stop - *textp) };

                *textp = newline ? newline + 1 : end;
                if (parse_line(line, entry))
                        return true;
        }
        return false;
}

/* Takes the last component off a path. Return: whether there was one. */
static bool pop(CgroupPart *path, CgroupPart *component) {
        const char *slash = path->size ? memrchr(path->text, '/', path->size) : NULL;

        if (!slash)
                return false;
        *component = (CgroupPart){ slash + 1, path->size - (size_t)(slash - path->text) - 1 };
        path->size = (size_t)(slash - path->text);
        return true;
}

static size_t count_hex(CgroupPart part) {
        size_t n = 0;

        while (n < part.size &&
               ((part.text[n] >= '0' && part.text[n] <= '9') || (part.text[n] >= 'a' && part.text[n] <= 'f')))
                n++;
        return n;
}

/* `PREFIX-ID`, `PREFIX:ID` or ID alone. */
static CgroupPart find_id(CgroupPart name) {
        CgroupPart id;

        if (name.size < ID_DIGITS)
                return none();
        id = (CgroupPart){ name.text + name.size - ID_DIGITS, ID_DIGITS };
        if (count_hex(id) != ID_DIGITS || (name.size > ID_DIGITS && id.text[-1] != '-' && id.text[-1] != ':'))
                return none();
        name.size -= ID_DIGITS;
        return part_contains(name, "conmon-") ? none() : id;
}

/* `TASK-NUMBER`, as ECS on Fargate has it. */
static CgroupPart find_task(CgroupPart name) {
        if (count_hex(name) != TASK_DIGITS || name.size < TASK_DIGITS + 2 || name.text[TASK_DIGITS] != '-')
                return none();
        for (size_t i = TASK_DIGITS + 1; i < name.size; i++)
                if (name.text[i] < '0' || name.text[i] > '9')
                        return none();
        return name;
}

/* Names of machines; @above is the path above the component, @below what stands right below it. */
static CgroupPart find_machine(CgroupPart component, CgroupPart above, CgroupPart below) {
        CgroupPart name = component, parent;

        if (part_is(below, "supervisor"))
                return none();
        if (part_cut_start(&name, "systemd-nspawn@"))
                return part_cut_end(&name, ".service") ? name : none();
        if (part_cut_start(&name, "machine-") && part_cut_end(&name, ".scope"))
                return part_cut_start(&name, "qemu") ? none() : name;
        name = component;
        if (part_cut_start(&name, "lxc.payload.") || (pop(&above, &parent) && part_is(parent, "lxc")))
                return name;
        return none();
}

CgroupPart cgroup_container(CgroupPart path) {
        CgroupPart component, below = none();

        while (pop(&path, &component)) {
                CgroupPart name = component, found;

                if (!part_cut_end(&name, ".scope"))
                        part_cut_end(&name, ".service");
                found = find_id(name);
                if (!found.size)
                        found = find_task(name);
                if (!found.size)
                        found = find_machine(component, path, below);
                if (found.size)
                        return found;
                below = component;
        }
        return none();
}

/* `0f4c1a9e-7f2d-4a1b-9c3e-5d6f7a8b9c0d`, with `_` for `-` in names of slices; of a static pod 32 digits. */
static size_t pod_size(CgroupPart part) {
        static const unsigned char groups[] = { 8, 4, 4, 4, 12 };
        size_t n = 0;

        if (count_hex(part) == POD_DIGITS)
                return POD_DIGITS;
        for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
                if (i && (n == part.size || (part.text[n] != '-' && part.text[n] != '_')))
                        return 0;
                n += i > 0;
                if (count_hex((CgroupPart){ part.text + n, part.size - n }) != groups[i])
                        return 0;
                n += groups[i];
        }
        return n;
}

/* The outermost: groups below its own are the container's to make, and may have any name. */
CgroupPart cgroup_pod(CgroupPart path) {
        static const char word[] = "pod";
        CgroupPart at = path;

        if (!part_contains(path, "kubepods"))
                return none();
        for (const char *next; (next = memmem(at.text, at.size, word, strlen(word)));) {
                size_t size;

                at.size -= (size_t)(next - at.text) + strlen(word);
                at.text = next + strlen(word);
                size = next > path.text && (next[-1] == '/' || next[-1] == '-') ? pod_size(at) : 0;
                if (size && (size == at.size || at.text[size] == '/' || at.text[size] == '.'))
                        return (CgroupPart){ at.text, size };
        }
        return none();
}

CgroupPart cgroup_unit(CgroupPart path) {
        CgroupPart component;

        while (pop(&path, &component)) {
                CgroupPart name = component;

                if (part_cut_end(&name, ".service") || part_cut_end(&name, ".scope"))
                        return component;
        }
        return none();
}

/* Whether the last component of a path is a container, a unit, or a user's slice of all sessions. */
static bool begins_share(CgroupPart path) {
        CgroupPart above = path, name, component;

        if (!pop(&above, &component))
                return false;
        name = component;
        if (part_cut_end(&name, ".service") || part_cut_end(&name, ".scope"))
                return true;
        if (part_cut_end(&name, ".slice") && part_cut_start(&name, "user-"))
                return true;
        return cgroup_container(path).size;
}

CgroupPart cgroup_share(CgroupPart path) {
        CgroupPart pod = cgroup_pod(path);
        size_t first = pod.size ? (size_t)(pod.text - path.text) + pod.size : 1;

        for (size_t i = first; i < path.size; i++) {
                CgroupPart start = { path.text, i };

                if (path.text[i] == '/' && (pod.size || begins_share(start)))
                        return start;
        }
        return path;
}

/* How much a path tells; the root of a hierarchy tells nothing. */
static unsigned rank(const CgroupEntry *entry, CgroupPart container) {
        if (container.size)
                return 4;
        if (entry->path.size <= 1)
                return 0;
        return part_is(entry->controllers, "") ? 3 : part_is(entry->controllers, "name=systemd") ? 2 : 1;
}

void cgroup_parse(const char *text, size_t size, Cgroup *cgroup) {
        const char *end = text + size;
        unsigned best = 0;
        CgroupEntry entry;

        *cgroup = (Cgroup){ none(), none(), none(), none() };
        while (cgroup_next(&text, end, &entry)) {
                CgroupPart container = cgroup_container(entry.path);
                unsigned r = rank(&entry, container);

                if (cgroup->path.size && r <= best)
                        continue;
                best = r;
                *cgroup = (Cgroup){ entry.path, container, cgroup_pod(entry.path), cgroup_unit(entry.path) };
        }
}

/* Copies @part with NUL. Return: whether it fits; paths of the kernel do. */
static bool copy(char *to, size_t size, CgroupPart part) {
        return (size_t)snprintf(to, size, "%.*s", (int)part.size, part.text) < size;
}

static size_t glob_start(const char *glob) {
        static const char *const mounts[] = { "/sys/fs/cgroup/unified", "/sys/fs/cgroup" };

        for (int i = 0; i < 2; i++) {
                size_t n = strlen(mounts[i]);

                if (!strncmp(glob, mounts[i], n) && (!glob[n] || glob[n] == '/'))
                        return n;
        }
        return 0;
}

bool cgroup_path_matches(CgroupPart path, const char *glob) {
        char text[PATH_MAX], pattern[PATH_MAX];
        size_t n;

        glob += glob_start(glob);
        glob += *glob == '/';
        n = strlen(glob);
        while (n && glob[n - 1] == '/')
                n--;
        part_cut_start(&path, "/");
        if (!n)
                return true;            /* the root: everything is below it */
        return copy(text, sizeof(text), path) && copy(pattern, sizeof(pattern), (CgroupPart){ glob, n }) &&
               fnmatch(pattern, text, FNM_LEADING_DIR) == 0;
}

bool cgroup_unit_matches(CgroupPart path, const char *glob) {
        CgroupPart component;
        char name[NAME_MAX + 1];

        while (pop(&path, &component)) {
                if (!copy(name, sizeof(name), component))
                        continue;
                if (strrchr(name, '.') && fnmatch(glob, name, 0) == 0)
                        return true;
                if (part_cut_end(&component, ".service") && copy(name, sizeof(name), component) &&
                    fnmatch(glob, name, 0) == 0)
                        return true;
        }
        return false;
}

bool cgroup_unescape(CgroupPart part, char *to, size_t size) {
        size_t n = 0;

        if (part.size >= size)
                return false;
        for (size_t i = 0; i < part.size; i++) {
                uint64_t value;

                if (part.size - i >= 4 && part.text[i] == '\\' && part.text[i + 1] == 'x' &&
                    !text_hex(part.text + i + 2, part.text + i + 4, &value) && value) {
                        to[n++] = (char)value;
                        i += 3;
                } else {
                        to[n++] = part.text[i];
                }
        }
        to[n] = 0;
        return true;
}

bool cgroup_container_matches(CgroupPart container, const char *pattern) {
        char name[NAME_MAX + 1];

        if (!container.size || !cgroup_unescape(container, name, sizeof(name)))
                return false;
        return !strncmp(name, pattern, strlen(pattern)) || fnmatch(pattern, name, 0) == 0;
}
