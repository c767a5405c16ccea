/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Control Groups
 *
 * Reads the text of /proc/PID/cgroup: in which container and unit a process runs,
 * as far as container runtimes and systemd say so in the names of the groups they make.
 * Text in, parts of that text out; opens no file.
 *
 * Two kinds of hierarchies may stand side by side: the unified one (v2, `0::PATH`) and those of
 * single controllers (v1, `N:CONTROLLERS:PATH`). A runtime may use either.
 */

#include <stdbool.h>
#include <stddef.h>

/* A part of a text, without a NUL behind it; size 0 = none. */
typedef struct CgroupPart {
        const char *text;
        size_t size;
} CgroupPart;

/* A line of /proc/PID/cgroup. */
typedef struct CgroupEntry {
        CgroupPart controllers;         /* "" = unified, `name=systemd` = systemd's own */
        CgroupPart path;                /* starts with `/` */
} CgroupEntry;

/*
 * The next line of @*textp, up to @end; lines that no kernel prints are left out. Return: whether there was
 * one.
 */
bool cgroup_next(const char **textp, const char *end, CgroupEntry *entry);

/*
 * The container that a path names: what runtimes call its id (64 hexadecimal digits; on ECS others), or the
 * name of an nspawn or LXC machine. Of nested ones the innermost. Helpers of a runtime that watch over a
 * container from outside are in none.
 */
CgroupPart cgroup_container(CgroupPart path);

/* The uid of the Kubernetes pod that a path names, as it is written there: 36 characters or 32. */
CgroupPart cgroup_pod(CgroupPart path);

/* The innermost service or scope of systemd, e.g. `nginx.service`. */
CgroupPart cgroup_unit(CgroupPart path);

/*
 * The start of a path that one pod, container or unit, or all of a user's sessions, cannot leave: the
 * outermost of these, as groups below it are its own to make. The path itself where nothing names one.
 */
CgroupPart cgroup_share(CgroupPart path);

/* The parts of a whole text that matter. */
typedef struct Cgroup {
        /* the path that tells most: of the container, else unified, else systemd's, else any */
        CgroupPart path;
        CgroupPart container, pod, unit;
} Cgroup;

void cgroup_parse(const char *text, size_t size, Cgroup *cgroup);

/*
 * Copies a part with systemd's escapes (`\x2d` for a dash) resolved; @to has @size bytes, NUL included.
 * Return: whether it fits.
 */
bool cgroup_unescape(CgroupPart part, char *to, size_t size);

/*
 * Whether @glob means this path: it or a group above it matches. A `/sys/fs/cgroup` before it and a `/` at
 * its end do not count; `*` matches `/` too.
 */
bool cgroup_path_matches(CgroupPart path, const char *glob);

/* Whether @glob means a unit on this path: itself, or with `.service` behind it. */
bool cgroup_unit_matches(CgroupPart path, const char *glob);

/* Whether @pattern is a glob of this id or the start of it. */
bool cgroup_container_matches(CgroupPart container, const char *pattern);
