/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * OtherProfilers
 *
 * Other spanprofs on this machine, by the process tables that they keep in the kernel. Nothing is
 * asked of them: their tables are found by name and shape and looked into. Needs CAP_SYS_ADMIN, which
 * a daemon with only the capabilities that it needs does not have; there are no rivals then.
 */

#include <stdbool.h>
#include <stdint.h>

enum { OTHER_PROFILERS_MAX = 8 };

typedef struct OtherProfilers {
        uint32_t own_id;                /* of our own table */
        uint32_t last_id;               /* maps up to it have been looked at: ids only grow */
        uint32_t ids[OTHER_PROFILERS_MAX];
        unsigned n;
} OtherProfilers;

/* @processes_fd: our own table. */
void other_profilers_init(OtherProfilers *rivals, int processes_fd);

/* Looks at maps that are new since the last call, and forgets tables that are gone. */
void other_profilers_refresh(OtherProfilers *rivals);

/* Whether one of them samples this process. @start_time_ns: as in its row. */
bool other_profilers_sample(const OtherProfilers *rivals, uint32_t tgid, uint64_t start_time_ns);
