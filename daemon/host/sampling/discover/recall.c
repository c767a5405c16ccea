/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Makes the identity of an ended process from the notices that it left: the first mapped file is its
 * executable, and the nearest ancestor that lives lends the rest.
 */

#include "host/sampling/discover/recall.h"

#include <errno.h>
#include <string.h>

#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "host/sampling/process/process.h"

/* The first file that a program maps is its executable. */
static int recall_exe(void *userdata, const MappingNotice *notice) {
        Identity *identity = userdata;

        if (identity->exe || !notice->path_size || notice->path[0] != '/')
                return 0;
        identity->exe = strndup(notice->path, notice->path_size);
        return identity->exe ? 0 : error_origin(-ENOMEM);
}

/* One that began after @time_ns has the id of an ancestor that is gone. */
static int open_ancestor(uint32_t tgid, uint64_t time_ns, int *fdp) {
        char comm[ABI_COMM_SIZE];
        ProcessStat stat;
        int r = process_identify((pid_t)tgid, &stat, comm);

        if (!r && process_begin_ns(stat.start_time_ns) > time_ns)
                r = PROCESS_E_GONE;
        return r ? r : process_open_living((pid_t)tgid, stat.start_time_ns, fdp, NULL);
}

/* The nearest that lives. @time_ns: @tgid itself was there then. */
static int identity_of_ancestor(const NoticeHistory *history, uint32_t tgid, uint64_t time_ns, unsigned what,
                                Identity **identityp) {
        for (unsigned i = 0; i < RECALL_DEPTH && tgid; i++) {
                _cleanup_(closep) int fd = -1;

                tgid = notice_history_parent(history, tgid);
                if (tgid && open_ancestor(tgid, time_ns, &fd) == 0)
                        return identity_new(identityp, fd, what);
        }
        return 0;
}

int recall_executable(const NoticeHistory *history, uint32_t tgid, uint64_t time_ns, Identity *identity) {
        NoticeHistoryOrigin origin;

        if (!history || notice_history_find_origin(history, tgid, 0, time_ns, &origin) || origin.parent)
                return 0;
        return MIN(notice_history_visit(history, tgid, 0, time_ns, recall_exe, identity), 0);
}

int recall_identity(const NoticeHistory *history, uint32_t tgid, unsigned what, Identity **identityp) {
        _cleanup_(identity_freep) Identity *identity = NULL;
        unsigned inherited = what;
        NoticeHistoryOrigin origin;
        int r;

        if (!history || notice_history_find_origin(history, tgid, 0, UINT64_MAX, &origin))
                return 0;
        /* an exec gives another executable and another environment than the parent's */
        if (!origin.parent)
                inherited &= ~(unsigned)(IDENTITY_EXE | IDENTITY_ENVIRONMENT);
        r = identity_of_ancestor(history, tgid, origin.time_ns, inherited, &identity);
        if (!r && identity && !origin.parent && what & IDENTITY_EXE)
                r = recall_executable(history, tgid, UINT64_MAX, identity);
        if (!r && identity && (identity->exe || !(what & IDENTITY_EXE)))
                *identityp = take(identity);
        return MIN(r, 0);
}
