/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The rule is that of the kernel half (select.bpf.h), which leaves out nearly all of their ticks. What it
 * cannot leave out are processes with a row, which a search of /proc has chosen:
 *
 *     spanprof ─┬─ spanprof-parser       a child with such a name
 *               ├─ spanprof-remote
 *               │    └─ spanprof-remote  a copier: a child of such a child
 *               └─ sh                    a command: another name
 *                    └─ spanprof-remote  a user's program: its parent has another name
 *
 * Where the daemon is pid 1 of its PID namespace, it adopts processes whose parents have ended. Such a one
 * may take a helper's name: it hides itself, and children that take one, too.
 */
#include "host/service/run/own-helpers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file/file.h"
#include "core/base/sandbox/remote-reader.h"
#include "core/base/sandbox/sweeper.h"
#include "core/base/sandbox/zygotes.h"
#include "core/base/util/macro.h"
#include "host/sampling/sample/event-opener.h"
#include "host/sampling/sample/sampler-config.h"

enum { SMALL_FILE_MAX = 4096 };

const char *const own_helper_comms[] = { ZYGOTE_COMM, REMOTE_READER_COMM, EVENT_OPENER_COMM, SWEEPER_COMM,
                                         NULL };

_Static_assert(ARRAY_SIZE(own_helper_comms) == SAMPLER_MAX_HELPERS + 1, "the kernel half has room for each");

static bool is_name(const char *comm, size_t size) {
        for (size_t i = 0; own_helper_comms[i]; i++)
                if (strlen(own_helper_comms[i]) == size && !memcmp(own_helper_comms[i], comm, size))
                        return true;
        return false;
}

/* Return: the parent of a process that has the name of a helper, 0 = it has another one, or has ended. */
static uint32_t parent_of_helper(uint32_t pid) {
        _cleanup_(freep) char *text = NULL;
        const char *begin, *end;
        uint32_t parent = 0;
        char path[32];
        size_t size;

        snprintf(path, sizeof(path), "/proc/%u/stat", pid);
        if (file_read(path, SMALL_FILE_MAX, &text, &size) || !(begin = strchr(text, '(')) ||
            !(end = strrchr(text, ')')) || !is_name(begin + 1, (size_t)(end - begin - 1)))
                return 0;
        return sscanf(end + 1, " %*c %u", &parent) == 1 ? parent : 0;
}

bool own_helper_is(uint32_t pid, const char *comm) {
        const uint32_t self = (uint32_t)getpid();
        uint32_t parent;

        if (comm && !is_name(comm, strlen(comm)))
                return false;
        parent = parent_of_helper(pid);
        return parent && (parent == self || parent_of_helper(parent) == self);
}
