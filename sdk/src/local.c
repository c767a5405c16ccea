/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts for a Profiler inside of the Process
 *
 * One record a thread, which no reader outside finds. Those inside look from a signal handler of that thread,
 * or, by a pointer that they got from it, from another one. A write:
 *
 *     checksum = 0 | fence | span, root | (release) checksum of both
 *
 * A handler that interrupts the write sees its stores in program order: a checksum of 0 until the last store,
 * and after it one that fits. A reader on another CPU may load the checksum, then ids of which a later write
 * has changed one or both. If one: each half is multiplied by an odd number of its own (and so no two values
 * of it give one product), thus pairs that differ in one half have different checksums. If both: two pairs
 * have one checksum once in 2^64.
 *
 * A handler that sets inside of set() finishes first. The interrupted write sees by `n_writes` that somebody
 * wrote, and writes all of its own again.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "backend.h"
#include "spanprof/context-api.h"

struct local {
        uint64_t span, root, checksum;
        uint32_t tags[SPANPROF_API_TAGS];
        volatile uint32_t n_writes;
};

static _Thread_local struct local this_local BACKEND_TLS;

uint64_t spanprof_api_checksum(uint64_t span, uint64_t root) {
        uint64_t sum = span * UINT64_C(0x9E3779B97F4A7C15) ^
                (root << 32 | root >> 32) * UINT64_C(0xC2B2AE3D27D4EB4F);

        return sum ? sum : 1;
}

void local_write(uint64_t span, uint64_t root) {
        uint64_t checksum = spanprof_api_checksum(span, root);
        struct local *local = &this_local;
        uint32_t n;

        do {
                n = local->n_writes + 1;
                local->n_writes = n;
                __atomic_store_n(&local->checksum, 0, __ATOMIC_RELAXED);
                __atomic_thread_fence(__ATOMIC_RELEASE);
                __atomic_store_n(&local->span, span, __ATOMIC_RELAXED);
                __atomic_store_n(&local->root, root, __ATOMIC_RELAXED);
                __atomic_store_n(&local->checksum, checksum, __ATOMIC_RELEASE);
                __atomic_signal_fence(__ATOMIC_SEQ_CST);
        } while (local->n_writes != n);
}

bool local_read(struct backend_ids *ids) {
        struct local *local = &this_local;
        uint64_t checksum = __atomic_load_n(&local->checksum, __ATOMIC_ACQUIRE);
        uint64_t span = __atomic_load_n(&local->span, __ATOMIC_RELAXED);
        uint64_t root = __atomic_load_n(&local->root, __ATOMIC_RELAXED);

        if (!checksum || checksum != spanprof_api_checksum(span, root) || !(span | root))
                return false;
        *ids = (struct backend_ids){ 0, root, span };
        return true;
}

/* Tags belong to the context: they go with it. */
void local_clear(void) {
        local_write(0, 0);
        memset(this_local.tags, 0, sizeof(this_local.tags));
}

int spanprof_api_set_tag(unsigned int index, uint32_t value) {
        if (index >= SPANPROF_API_TAGS)
                return -EINVAL;
        if (backend_storage() != SPANPROF_CONTEXT_PROFILER)
                return -ENOTSUP;
        __atomic_store_n(&this_local.tags[index], value, __ATOMIC_RELAXED);
        return 0;
}

uint32_t spanprof_api_get_tag(unsigned int index) {
        return index < SPANPROF_API_TAGS ? __atomic_load_n(&this_local.tags[index], __ATOMIC_RELAXED) : 0;
}

/* The child's thread works for nobody yet. Its other threads' records are gone with them. */
static void fork_child(void) {
        local_clear();
}

static __attribute__((__constructor__)) void load(void) {
        (void)pthread_atfork(NULL, NULL, fork_child);
}
