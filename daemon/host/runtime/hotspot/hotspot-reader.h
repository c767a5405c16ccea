/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reader of a JVM's Memory
 *
 * Everything here reads a JVM through this one call, so that tests and the fuzzer feed recorded or made-up
 * memory. What it gives is the target's word: no value is an address, a length or an index before a check.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct HotspotReader {
        /* Reads @size bytes at @address of the process. Return: whether all of them could be read. */
        bool (*read)(void *userdata, uint64_t address, void *to, size_t size);
        void *userdata;
} HotspotReader;

static inline bool hotspot_read(const HotspotReader *reader, uint64_t address, void *to, size_t size) {
        return reader->read(reader->userdata, address, to, size);
}

static inline bool hotspot_read_u64(const HotspotReader *reader, uint64_t address, uint64_t *to) {
        return hotspot_read(reader, address, to, sizeof(*to));
}
