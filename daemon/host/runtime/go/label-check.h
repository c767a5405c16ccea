/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Check of Labels
 *
 * Holds labels of goroutines that do not run against the rules of writers
 * (host/sampling/context/writer-rules.h). A process of another runtime has none.
 */

#include "core/base/util/macro.h"
#include "host/sampling/context/writer-rules.h"
#include "host/sampling/process/process.h"

typedef struct LabelCheck LabelCheck;

/* @process, @rules: borrowed. Return: 0, -errno. */
int label_check_new(LabelCheck **checkp, const Process *process, WriterRules *rules);
LabelCheck *label_check_free(LabelCheck *check);
DEFINE_CLEANUP(LabelCheck, label_check_free)

/* Return: 0, -errno. */
int label_check_look(LabelCheck *check);
