/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * OBI's Map
 *
 * OpenTelemetry's eBPF instrumentation (OBI) writes the span of each thread that it follows into a map of its
 * own, pinned as traces_ctx_v1: ids of process and thread in the first PID namespace → ids of trace and span,
 * as on the wire. The daemon puts that map into a slot of ours (host/sampling/sample/obi-map.c), and this
 * looks the current thread up. Nothing is ever written there.
 *
 * An entry bears no time, and who ends a request on another thread leaves it there. So the ids of a thread
 * that has ended may be found for the next one that has its id. Entries that were there before, and prove
 * nothing, are in the second slot:
 *
 *     all that the map held as the daemon took it up
 *     that of a thread as it is born, or of a process as it runs another program
 *
 * They count from their first change on.
 *
 * The pin outlives OBI. The map has a reference from the pin and one from our slot; without a third one,
 * nobody can write it any more, and it is left alone until the daemon has taken it up again.
 */

#include "walk/tables.bpf.h"

enum {
        OBI_OWN_REFERENCES = 2,         /* of the pin, and of the slot */
};

/* What a map must be to take a slot, but for its size. */
struct obi_map {
        __uint(type, BPF_MAP_TYPE_LRU_HASH);
        __uint(max_entries, 1);
        __uint(key_size, sizeof(uint64_t));
        __uint(value_size, sizeof(struct abi_obi_ids));
};

/* Daemon writes, all programs read; births write what the second map holds. Empty slots take no memory. */
struct {
        __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
        __uint(max_entries, ABI_OBI_N_MAPS);
        __type(key, uint32_t);
        __array(values, struct obi_map);
} obi_maps SEC(".maps");

static __always_inline void *obi_slot(uint32_t slot) {
        return bpf_map_lookup_elem(&obi_maps, &slot);
}

static __always_inline bool obi_is_held(const void *map) {
        return ((const volatile struct bpf_map *)map)->refcnt.counter > OBI_OWN_REFERENCES;
}

/*
 * Whether an entry was there before its thread, or before the daemon. One that has changed is the thread's
 * own from then on.
 */
static __always_inline bool obi_is_left(uint64_t key, const struct abi_obi_ids *ids) {
        const struct abi_obi_ids *left;
        void *lefts;

        if (!obi_marks[abi_obi_mark(key)])
                return false;
        lefts = obi_slot(ABI_OBI_LEFT);
        left = lefts ? bpf_map_lookup_elem(lefts, &key) : NULL;
        if (!left)
                return false;
        if (!((left->words[0] ^ ids->words[0]) | (left->words[1] ^ ids->words[1]) |
              (left->words[2] ^ ids->words[2])))
                return true;
        bpf_map_delete_elem(lefts, &key);
        return false;
}

/*
 * Reads the entry of a thread. The kernel may give an element to another thread while it is copied, so it is
 * looked up once more: only the thread itself has its own written. A global function, as rows_rule().
 * Return: enum abi_context; UNPUBLISHED = there is none.
 */
__attribute__((noinline)) int obi_read(uint64_t key, struct abi_obi_ids *ids) {
        struct counters *counters = counters_get();
        const struct abi_obi_ids *entry;
        void *map = obi_slot(ABI_OBI_MAP);

        if (!ids || !counters || !map)
                return ABI_CONTEXT_UNPUBLISHED;
        if (!obi_is_held(map)) {
                obi_on = 0;
                return ABI_CONTEXT_UNPUBLISHED;
        }
        entry = bpf_map_lookup_elem(map, &key);
        if (entry) {
                *ids = *entry;
                if (bpf_map_lookup_elem(map, &key) != entry)
                        entry = NULL;
        }
        if (!entry || !(ids->words[0] | ids->words[1] | ids->words[2])) {
                counters_count(counters, COUNTER_OBI_MISSED, 1);
                return ABI_CONTEXT_UNPUBLISHED;
        }
        if (obi_is_left(key, ids)) {
                counters_count(counters, COUNTER_OBI_STALE, 1);
                return ABI_CONTEXT_STALE;
        }
        counters_count(counters, COUNTER_OBI_READ, 1);
        return ABI_CONTEXT_PRESENT;
}

/*
 * A thread begins, or a process with another program: an entry that is there by now is of another one. A
 * global function, as rows_rule().
 */
__attribute__((noinline)) int obi_meet(uint64_t key) {
        void *map = obi_slot(ABI_OBI_MAP), *lefts = obi_slot(ABI_OBI_LEFT);
        const struct abi_obi_ids *entry;
        struct abi_obi_ids ids;

        if (!map || !lefts)
                return 0;
        entry = bpf_map_lookup_elem(map, &key);
        if (!entry)
                return 0;
        ids = *entry;
        obi_marks[abi_obi_mark(key)] = 1;
        bpf_map_update_elem(lefts, &key, &ids, BPF_ANY);
        return 0;
}

/* Run by the daemon: whether anybody but the pin and the slot has the map, who may write it. */
SEC("raw_tp")
int obi_look(void *context) {
        void *map = obi_slot(ABI_OBI_MAP);

        return map && obi_is_held(map);
}
