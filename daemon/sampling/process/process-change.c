/* SPDX-License-Identifier: Apache-2.0 */

/* One mapping at a time, by notices of the kernel; and all at once, by a fork. */
#include "sampling/process/process-private.h"

#include <errno.h>
#include <string.h>

#include "base/util/error.h"
#include "base/util/stat.h"

void process_free_mappings(Mapping *mappings, size_t n) {
        for (size_t i = 0; i < n; i++)
                mapping_deinit(&mappings[i]);
        free(mappings);
}

uint64_t process_new_serial(void) {
        static uint64_t last;

        return ++last;
}

/* Index of the first mapping that ends above @address. */
static size_t search_mapping(const Process *process, uint64_t address) {
        size_t low = 0, high = process->n_mappings;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (process->mappings[middle].end <= address)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

const Mapping *process_find_mapping(const Process *process, uint64_t address) {
        size_t i = search_mapping(process, address);

        return i < process->n_mappings && process->mappings[i].start <= address ? &process->mappings[i]
                                                                                : NULL;
}

void process_resolve(const Process *process, uint64_t address, uint64_t time_ns, ProcessAnswer *answerp) {
        const MappingHistory *history = &process->history;
        const Mapping *mapping = mapping_history_find(history, address, time_ns);

        answerp->mapping = mapping ? mapping : process_find_mapping(process, address);
        answerp->is_current = process_is_current(process, time_ns);
        /* the history has nothing to say of a time that it does not reach */
        answerp->is_stale = !answerp->is_current && mapping_history_is_stale(history, address, time_ns);
}

/* Adds the piece [@start, @end) of a mapping to @to; an empty one is none. */
static int keep_piece(Mapping *to, size_t *np, const Mapping *mapping, uint64_t start, uint64_t end) {
        int r;

        if (start >= end)
                return 0;
        r = mapping_copy(&to[*np], mapping, start, end);
        if (!r)
                ++*np;
        return r;
}

/* What of @old the new mapping covers is past. */
static int bury_piece(Process *process, const Mapping *old, const Mapping *mapping, uint64_t time_ns) {
        Mapping piece;
        int r;

        if (mapping_is_same_file(old, mapping))
                return 0;
        r = mapping_copy(&piece, old, MAX(old->start, mapping->start), MIN(old->end, mapping->end));
        return r ? r : mapping_history_add(&process->history, &piece, time_ns, time_ns);
}

/*
 * Puts @mapping in the place of the mappings [@first, @end), of which it leaves at most a piece at either
 * side.
 */
static int replace(Process *process, size_t first, size_t end, Mapping *mapping, uint64_t time_ns) {
        Mapping *mappings = calloc(process->n_mappings + 3, sizeof(*mappings));
        size_t n = 0;
        int r = 0;

        if (!mappings)
                return error_origin(-ENOMEM);
        for (size_t i = first; i < end && !r; i++)
                r = bury_piece(process, &process->mappings[i], mapping, time_ns);
        if (!r && first < end)
                r = keep_piece(mappings, &n, &process->mappings[first], process->mappings[first].start,
                               mapping->start);
        if (!r) {
                mappings[n++] = *mapping;
                *mapping = (Mapping){ 0 };
        }
        if (!r && first < end)
                r = keep_piece(mappings, &n, &process->mappings[end - 1], mappings[n - 1].end,
                               process->mappings[end - 1].end);
        if (r) {
                process_free_mappings(mappings, n);
                return r;
        }
        for (size_t i = first; i < end; i++)
                mapping_deinit(&process->mappings[i]);
        memmove(mappings + first, mappings, n * sizeof(*mappings));
        if (process->n_mappings) {
                memcpy(mappings, process->mappings, first * sizeof(*mappings));
                memcpy(mappings + first + n, process->mappings + end,
                       (process->n_mappings - end) * sizeof(*mappings));
        }
        free(process->mappings);
        process->mappings = mappings;
        process->n_mappings = first + n + process->n_mappings - end;
        process->maps_serial = process_new_serial();
        return 0;
}

/* Whether the table has it already, and does not know less of it. */
static bool is_mapped(const Process *process, const Mapping *mapping) {
        const Mapping *now = process_find_mapping(process, mapping->start);

        return now && now->end >= mapping->end && mapping_is_same_file(now, mapping) &&
                (now->object || !mapping->object);
}

/*
 * A change that the last read of all mappings has seen, or has missed since it did not last. In the latter
 * case what is there now was there before, too, unless something else is known to have ended then.
 */
static int change_past(Process *process, Mapping *mapping, uint64_t time_ns) {
        bool is_known = mapping_history_set_time(&process->history, mapping->start, mapping->end,
                                                 process->maps_read_ns, time_ns);
        int r = 0;

        if (is_mapped(process, mapping))
                return 0;
        for (size_t i = search_mapping(process, mapping->start);
             !is_known && !r && i < process->n_mappings && process->mappings[i].start < mapping->end; i++)
                r = bury_piece(process, &process->mappings[i], mapping, time_ns);
        return r ? r
                 : mapping_history_add(&process->history, mapping, process->maps_read_ns,
                                       process->maps_read_ns);
}

static int change(Process *process, Mapping *mapping, uint64_t time_ns) {
        size_t first = search_mapping(process, mapping->start), end = first;

        if (time_ns <= process->maps_read_ns)
                return change_past(process, mapping, time_ns);
        /* made while the last read was under way: since when is known now */
        if (is_mapped(process, mapping)) {
                mapping_history_set_time(&process->history, mapping->start, mapping->end,
                                         process->maps_read_ns, time_ns);
                return 0;
        }
        while (end < process->n_mappings && process->mappings[end].start < mapping->end)
                end++;
        if (process->n_mappings - (end - first) + 3 > PROCESS_MAX_MAPPINGS) {
                stat_add(COUNTER_MAPPINGS_OVER_CAP, 1);
                return 0;
        }
        return replace(process, first, end, mapping, time_ns);
}

int process_change(Process *process, Mapping *mapping, uint64_t time_ns) {
        int r = change(process, mapping, time_ns);

        mapping_deinit(mapping);
        return r;
}

static int inherit_names(Process *process, const Process *parent) {
        if (!process->identity && parent->identity)
                process->identity = identity_ref(parent->identity);
        if (process->exe || !parent->exe)
                return 0;
        process->exe = strdup(parent->exe);
        return process->exe ? 0 : error_origin(-ENOMEM);
}

/* What the parent has replaced since then, its child still has. */
static int inherit_past(Process *process, const Process *parent, uint64_t time_ns) {
        for (size_t i = 0; i < parent->history.n; i++) {
                const PastMapping *history = &parent->history.items[i];
                Mapping copy;
                int r;

                if (history->until_ns <= time_ns)
                        continue;
                r = mapping_copy(&copy, &history->mapping, history->mapping.start, history->mapping.end);
                if (!r)
                        r = process_change(process, &copy, time_ns);
                if (r)
                        return r;
        }
        return 0;
}

/* What it has mapped since then comes along: where the child has nothing, nothing of it runs. */
int process_inherit(Process *process, const Process *parent, uint64_t time_ns) {
        Mapping *mappings = calloc(parent->n_mappings + 1, sizeof(*mappings));
        int r = mappings ? inherit_names(process, parent) : error_origin(-ENOMEM);
        size_t n = 0;

        for (; n < parent->n_mappings && !r; n += !r)
                r = mapping_copy(&mappings[n], &parent->mappings[n], parent->mappings[n].start,
                                 parent->mappings[n].end);
        if (r) {
                process_free_mappings(mappings, n);
                return r;
        }
        process_free_mappings(process->mappings, process->n_mappings);
        process->mappings = mappings;
        process->n_mappings = n;
        process->maps_serial = process_new_serial();
        return inherit_past(process, parent, time_ns);
}
