/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Other Profilers
 *
 * Other spanprofs on this machine, known by the process tables that they keep in the kernel. Their tables are
 * found by name and shape, and read. This needs CAP_SYS_ADMIN, which the service does not have; then no other
 * profiler is seen.
 */

#include <stdbool.h>
#include <stdint.h>

enum { OTHER_PROFILERS_MAX = 8 };

typedef struct OtherProfilers {
        uint32_t own_id;                /* id of our own table */
        uint32_t last_id;               /* maps up to it have been looked at: ids only grow */
        uint32_t ids[OTHER_PROFILERS_MAX];
        unsigned n;
} OtherProfilers;

/* @processes_fd: our own table. */
void other_profilers_init(OtherProfilers *profilers, int processes_fd);

/* Looks at maps that are new since the last call, and forgets tables that are gone. */
void other_profilers_refresh(OtherProfilers *profilers);

/* Whether another profiler samples this process. @start_time_ns: as in its row. */
bool other_profilers_sample(const OtherProfilers *profilers, uint32_t tgid, uint64_t start_time_ns);
