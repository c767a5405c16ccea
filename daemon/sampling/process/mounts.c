/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A line of /proc/PID/mountinfo (proc_pid_mountinfo(5)):
 *
 *     36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
 *     id parent device root mountpoint options tags… - type source options
 *
 * Blanks inside a field are escaped, so the first ` - ` ends the tags.
 */
#include "sampling/process/mounts.h"

#include <stdlib.h>
#include <string.h>

#include "base/util/file.h"
#include "base/util/macro.h"

/* Types whose reads are answered by another process or another machine. virtiofs is left out: the hypervisor
 * serves it, as it serves the disk. */
static const char *const remote_types[] = {
        "fuse", "fuseblk", "nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "afs", "coda", "lustre", "orangefs",
        "autofs", "ocfs2", "gfs2", "gpfs", "beegfs",
};

static bool is_remote(const char *type, size_t size) {
        if (size > 5 && !memcmp(type, "fuse.", 5))
                return true;
        for (size_t i = 0; i < ARRAY_SIZE(remote_types); i++)
                if (strlen(remote_types[i]) == size && !memcmp(remote_types[i], type, size))
                        return true;
        return false;
}

/* The @n-th blank-separated field of the line, from 0. */
static const char *nth_field(const char *line, const char *end, unsigned n, size_t *sizep) {
        const char *stop;

        for (; n; n--) {
                line = memchr(line, ' ', (size_t)(end - line));
                if (!line++)
                        return NULL;
        }
        stop = memchr(line, ' ', (size_t)(end - line));
        *sizep = (size_t)((stop ? stop : end) - line);
        return line;
}

/* Decimal number up to @stop. */
static bool number(const char *p, const char *stop, uint32_t *valuep) {
        uint32_t value = 0;

        if (p == stop)
                return false;
        for (; p < stop; p++)
                if (*p < '0' || *p > '9' || __builtin_mul_overflow(value, 10, &value) ||
                    __builtin_add_overflow(value, (uint32_t)(*p - '0'), &value))
                        return false;
        *valuep = value;
        return true;
}

static MountKind line_kind(const char *line, const char *end, uint32_t major, uint32_t minor) {
        const char *device, *colon, *tail;
        uint32_t line_major, line_minor;
        size_t size;

        device = nth_field(line, end, 2, &size);
        colon = device ? memchr(device, ':', size) : NULL;
        if (!colon || !number(device, colon, &line_major) || !number(colon + 1, device + size, &line_minor) ||
            line_major != major || line_minor != minor)
                return MOUNT_UNKNOWN;
        tail = memmem(line, (size_t)(end - line), " - ", 3);
        if (!tail)
                return MOUNT_UNKNOWN;
        tail = nth_field(tail + 3, end, 0, &size);
        return is_remote(tail, size) ? MOUNT_REMOTE : MOUNT_LOCAL;
}

MountKind mounts_find(const char *text, size_t size, uint32_t major, uint32_t minor) {
        const char *stop = text + size;
        MountKind found = MOUNT_UNKNOWN;

        while (text < stop) {
                const char *end = memchr(text, '\n', (size_t)(stop - text));
                MountKind kind;

                if (!end)
                        end = stop;
                kind = line_kind(text, end, major, minor);
                if (kind == MOUNT_REMOTE)
                        return kind;
                if (kind)
                        found = kind;
                text = end + 1;
        }
        return found;
}

MountKind mounts_of_process(Mounts *mounts, int proc_fd, uint32_t major, uint32_t minor) {
        if (!mounts->was_read &&
            file_read_at(proc_fd, "mountinfo", MOUNTS_TEXT_MAX, &mounts->text, &mounts->size))
                mounts->text = NULL;
        mounts->was_read = true;
        return mounts->text ? mounts_find(mounts->text, mounts->size, major, minor) : MOUNT_UNKNOWN;
}

void mounts_deinit(Mounts *mounts) {
        free(mounts->text);
        *mounts = (Mounts){ 0 };
}
