/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Thread Reader
 *
 * Has files looked through by workers without rights, one after the other, in turns (shares.h): for the
 * variable of thread-symbol.h, and for the runtimes that they are of. The caller never waits: an object says
 * by OBJECT_LOOK_ASKED that its answer is still to come. Each file costs a worker a bounded number of reads,
 * so one that is late is late for want of a processor, or of a disk.
 */

#include <stdbool.h>

#include "core/base/sandbox/zygotes.h"
#include "core/base/util/macro.h"
#include "host/sampling/process/object.h"
#include "host/sampling/process/process.h"

typedef struct ThreadReader ThreadReader;

/* @zygotes: borrowed. Return: 0, -errno. */
int thread_reader_new(ThreadReader **readerp, Zygotes *zygotes);

/* Gives back every object. */
ThreadReader *thread_reader_free(ThreadReader *reader);
DEFINE_CLEANUP(ThreadReader, thread_reader_free)

/* Readable when thread_reader_step() has something to do. */
int thread_reader_fd(const ThreadReader *reader);

enum { THREAD_READER_MAX_WAITING = 4096 };      /* files; each has a descriptor */

/*
 * For object_cache_set_ask(). @reader: a ThreadReader; takes @fd. @owner: a process that has it mapped. A
 * file that finds no room is counted, and OBJECT_LOOK_REFUSED. Return: 0, -ENOMEM.
 */
int thread_reader_ask(void *reader, Object *object, int fd, uint64_t size, const ShareOwner *owner);

/* Asks again for refused files of a process, as far as there is room. Return: 0, -ENOMEM. */
int thread_reader_ask_again(ThreadReader *reader, const Process *process);

/* Whether there is an answer still to come. */
bool thread_reader_is_busy(const ThreadReader *reader);

/* Does what can be done now. Return: whether something has become known. */
bool thread_reader_step(ThreadReader *reader);
