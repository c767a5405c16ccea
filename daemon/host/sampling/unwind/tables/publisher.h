/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Publisher
 *
 * Puts tables into the kernel's array of tables and takes them out again, in a
 * thread of its own: each of these calls waits until no program can hold the old
 * entry any more (7 to 16 ms), which the event loop must not. In the order of the
 * calls; results come back through a descriptor that polls as readable.
 *
 * A table's own descriptor is closed after it has left the array, and a slot is
 * reported free only then: kernels before 6.8 freed a table that was in use if
 * its last user went first.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/util/macro.h"

typedef struct Publisher Publisher;

/* Result of one call. */
typedef struct PublisherResult {
        uint32_t slot;
        bool is_removal;
        int error;                      /* 0 or -errno */
} PublisherResult;

/*
 * @array_fd: the array of tables, borrowed. @max_slots: calls per slot wait at most twice. Return: 0, -errno.
 */
int publisher_new(Publisher **publisherp, int array_fd, uint32_t max_slots);

/* Waits for calls under way. Descriptors that it still has are closed. */
Publisher *publisher_free(Publisher *publisher);
DEFINE_CLEANUP(Publisher, publisher_free)

/* Takes @table_fd over until publisher_remove() has ended. */
void publisher_set(Publisher *publisher, uint32_t slot, int table_fd);
void publisher_remove(Publisher *publisher, uint32_t slot);

/* Readable when there is a result. */
int publisher_fd(const Publisher *publisher);

/* The next result. Return: false = none for now. */
bool publisher_take(Publisher *publisher, PublisherResult *resultp);
