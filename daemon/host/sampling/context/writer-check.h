/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Check of a Writer
 *
 * Holds what one process publishes against the rules of writers (writer-rules.h), look by look: each record
 * as it is, and what only several looks show: updates, key maps that grow, slots that stay in use, records
 * that are changed by another thread or that mix two spans. Each look stops threads, as thread-look.h does.
 */

#include <stdint.h>

#include "core/base/util/macro.h"
#include "host/sampling/context/writer-rules.h"
#include "host/sampling/process/object.h"
#include "host/sampling/process/process.h"

typedef struct WriterCheck WriterCheck;

/* @process, @objects: borrowed. Return: 0, -ENOMEM. */
int writer_check_new(WriterCheck **checkp, Process *process, ObjectCache *objects);
WriterCheck *writer_check_free(WriterCheck *check);
DEFINE_CLEANUP(WriterCheck, writer_check_free)

/* Return: 0, PROCESS_E_*, -errno. */
int writer_check_look(WriterCheck *check);

/* After the last look: rules that are broken by what never came. */
void writer_check_finish(WriterCheck *check);

/* Also for rules that others know: labels of goroutines, stations. */
WriterRules *writer_check_rules(WriterCheck *check);
