/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sink
 *
 * Writes blocks of bytes to a descriptor from a thread of its own, so that their producer never waits for a
 * disk. Blocks are written whole and in order. There are as many as a large burst fills in a second; when all
 * of them wait to be written, sink_swap() waits, too, and counts that.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/util/macro.h"

typedef struct Sink Sink;

enum { SINK_BLOCK = 32 << 10 };

/* @fd: borrowed. *blockp: the first block, of SINK_BLOCK bytes. Return: 0, -errno. */
int sink_new(Sink **sinkp, int fd, char **blockp);

/* Hands over the block that is being filled. Return: an empty one. */
char *sink_swap(Sink *sink, size_t size);

/* Whether several blocks are free, so that sink_swap() will not wait. */
bool sink_has_room(const Sink *sink);

/* errno of the first failure, after which nothing is written; 0 = none so far. */
int sink_error(Sink *sink);
uint64_t sink_n_stalls(const Sink *sink);

/* Waits until all is written and ends the thread. Return: as sink_error(). */
int sink_finish(Sink *sink);
Sink *sink_free(Sink *sink);
DEFINE_CLEANUP(Sink, sink_free)
