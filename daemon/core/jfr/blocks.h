/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The Events of a Chunk, by Blocks
 *
 * In a recording the same few combinations of stack, thread, span and so on come again and again. So of an
 * event only what it measures is read; the rest becomes a hash, which is looked up in a table of combinations
 * where a newcomer replaces the older of two. Which combination it is is told by the event's bytes and the
 * chunk's types alone: the caller that takes the blocks makes samples, of new combinations. Events whose
 * times are not kept are added up here.
 *
 *     event event event …  ×64      read:     hash, time, value            asks for the hash's place
 *                                   look up:  hash → place                 it has come by now
 *                                   tell:     new | timed | sum | about    into a block
 */

#include "core/jfr/reader.h"

typedef enum JfrSeenKind {
        /* an event of a new combination, which gets the place; what was there moves one on */
        JFR_SEEN_NEW,
        JFR_SEEN_TIMED,                 /* an event of the combination that is at the place */
        JFR_SEEN_SUM,                   /* events of the combination, summed, without their times */
        JFR_SEEN_ABOUT,                 /* an event about the recording */
} JfrSeenKind;

typedef struct JfrSeen {
        uint32_t kind;
        uint32_t place;
        uint32_t class;                 /* number: new, about */
        uint32_t n;                     /* events: sum; else 1 */
        int64_t value;
        uint64_t time_ns;               /* new, timed */
        /* place of the event's fields, behind its size and type, in the block's buffer: new, about */
        uint32_t at, size;
} JfrSeen;

typedef struct JfrBlock {
        uint8_t *buffer;
        JfrSeen *seen;                  /* in the order of the events, but for sums */
        uint32_t n;
        uint64_t next;                  /* up to where the chunk was read */
} JfrBlock;

typedef struct JfrBlocks JfrBlocks;

/* The reader's chunk is ready to be read. Return: 0, -ENOMEM. */
int jfr_blocks_new(JfrBlocks **blocksp, JfrReader *reader);
JfrBlocks *jfr_blocks_free(JfrBlocks *blocks);
DEFINE_CLEANUP(JfrBlocks, jfr_blocks_free)

/*
 * The next events; they stay until the next call. Once the reader is not `timed`, all may be sums. Return:
 * NULL = there are no more.
 */
const JfrBlock *jfr_blocks_next(JfrBlocks *blocks);
