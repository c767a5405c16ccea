/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Keeps rejected ids in a map and in a list by time, so that expired ones are at its front; over its cap
 * the oldest goes.
 */

#include "host/sampling/discover/rejects.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/data/list.h"
#include "core/base/util/error.h"

struct Reject {
        Reject *previous, *next;
        uint64_t until_ns;
        uint32_t tgid;
};

void rejects_deinit(Rejects *rejects) {
        for (Reject *reject = rejects->first, *next; reject; reject = next) {
                next = reject->next;
                free(reject);
        }
        hashmap_deinit(&rejects->map);
        *rejects = (Rejects){ .max = rejects->max };
}

int rejects_add(Rejects *rejects, uint32_t tgid, uint64_t until_ns) {
        Reject *reject;
        int r;

        if (hashmap_get(&rejects->map, tgid))
                return REJECTS_E_KNOWN;
        if (rejects->map.n_entries >= rejects->max)
                return REJECTS_E_FULL;
        reject = calloc(1, sizeof(*reject));
        if (!reject)
                return error_origin(-ENOMEM);
        r = hashmap_put(&rejects->map, tgid, reject);
        if (r) {
                free(reject);
                return error_fold(r);
        }
        *reject = (Reject){ .until_ns = until_ns, .tgid = tgid };
        list_append(rejects, reject);
        return 0;
}

bool rejects_contains(const Rejects *rejects, uint32_t tgid) {
        return hashmap_get(&rejects->map, tgid);
}

bool rejects_remove(Rejects *rejects, uint32_t tgid) {
        Reject *reject = hashmap_remove(&rejects->map, tgid);

        if (!reject)
                return false;
        list_remove(rejects, reject);
        free(reject);
        return true;
}

uint32_t rejects_expired(const Rejects *rejects, uint64_t now_ns) {
        return rejects->first && rejects->first->until_ns <= now_ns ? rejects->first->tgid : 0;
}
