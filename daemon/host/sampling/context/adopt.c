/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Lists the threads of a process, and tells the kernel half each thread's id in its own namespace.
 */

#include "host/sampling/context/adopt.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file/directory.h"
#include "core/base/file/file.h"
#include "core/base/util/macro.h"
#include "core/base/util/text.h"

enum { STATUS_MAX = 16384 };

int adopt_parse_status(const char *text, uint32_t *ns_tidp) {
        const char *line = strstr(text, "\nNSpid:");
        const char *end = line ? strchr(line + 1, '\n') : NULL;
        uint64_t id;

        if (!end)
                return 1;
        while (line < end && end[-1] >= '0' && end[-1] <= '9')
                end--;
        id = strtoull(end, NULL, 10);
        if (!id || id > INT32_MAX)
                return 1;
        *ns_tidp = (uint32_t)id;
        return 0;
}

static int read_ns_tid(int task_fd, const char *tid, uint32_t *ns_tidp) {
        _cleanup_(freep) char *text = NULL;
        char path[NAME_MAX + sizeof("/status")];
        size_t size;

        snprintf(path, sizeof(path), "%s/status", tid);
        return file_read_at(task_fd, path, STATUS_MAX, &text, &size) || adopt_parse_status(text, ns_tidp);
}

static int adopt_thread(int task_fd, uint32_t tgid, uint32_t capacity, const char *name, AdoptVisit visit,
                        void *userdata) {
        struct abi_adoption adoption = { .tgid = tgid };
        uint32_t ns_tid;
        int r;

        if (text_u64(name, INT32_MAX, &adoption.tid) || read_ns_tid(task_fd, name, &ns_tid))
                return 0;
        adoption.slot = ns_tid % capacity;
        r = visit(userdata, &adoption);
        if (r || !faccessat(task_fd, name, F_OK, 0))
                return r;
        /* The end of the thread may have come before its birth was known. */
        adoption.slot = ABI_ADOPTION_GONE;
        return visit(userdata, &adoption);
}

int adopt_threads(uint32_t tgid, uint32_t capacity, AdoptVisit visit, void *userdata) {
        _cleanup_(closedirp) DIR *dir = NULL;
        struct dirent *entry;
        char path[32];
        int r = 0;

        snprintf(path, sizeof(path), "/proc/%u/task", tgid);
        dir = opendir(path);
        while (!r && dir && capacity && (entry = readdir(dir)))
                if (entry->d_name[0] != '.')
                        r = adopt_thread(dirfd(dir), tgid, capacity, entry->d_name, visit, userdata);
        return r;
}
