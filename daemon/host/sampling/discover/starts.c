/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Keeps what new processes said of themselves in a queue by time, with a cap of bytes, and clears the
 * memory of each before it is freed.
 */

#include "host/sampling/discover/starts.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/data/list.h"
#include "core/base/util/stat.h"

enum { MAX_BYTES = 2 << 20 };

Start *start_free(Start *start) {
        if (start)
                explicit_bzero(start, start->size);
        free(start);
        return NULL;
}

void starts_deinit(Starts *starts) {
        Start *start;

        while ((start = fifo_pop(starts)))
                start_free(start);
        *starts = (Starts){ 0 };
}

void starts_add(Starts *starts, const struct abi_start *told) {
        size_t n_texts = (size_t)told->n_arguments + told->n_environment;
        size_t size = sizeof(Start) + n_texts;
        Start *start = starts->n_bytes + size <= MAX_BYTES ? malloc(size) : NULL;

        if (!start) {
                stat_add(COUNTER_STARTS_LOST, 1);
                return;
        }
        start->size = size;
        memcpy(&start->told, told, sizeof(*told) + n_texts);
        fifo_push(starts, start);
        starts->n_bytes += size;
}

/* Both rings have their records in about the same order, so it is among the first. */
Start *starts_take(Starts *starts, const struct abi_sample *sample) {
        Start *before = NULL, *start = starts->first;

        while (start && (start->told.time_ns != sample->time_ns || start->told.tgid != sample->tgid)) {
                before = start;
                start = start->next;
        }
        if (!start)
                return NULL;
        *(before ? &before->next : &starts->first) = start->next;
        if (starts->last == start)
                starts->last = before;
        starts->n_bytes -= start->size;
        return start;
}

const Start *starts_find(const Starts *starts, uint32_t tgid, uint64_t since_ns, uint64_t until_ns) {
        for (const Start *start = starts->first; start; start = start->next)
                if (start->told.tgid == tgid && start->told.time_ns > since_ns &&
                    (!until_ns || start->told.time_ns < until_ns))
                        return start;
        return NULL;
}

void starts_expire(Starts *starts, uint64_t until_ns) {
        while (starts->first && starts->first->told.time_ns < until_ns) {
                stat_add(COUNTER_STARTS_LOST, 1);
                starts->n_bytes -= starts->first->size;
                start_free(fifo_pop(starts));
        }
}
