/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Labels
 *
 * The attributes of a sample (its thread, how its stack ended, its local root
 * span) → index of an attribute set in a window; a process → index of its resource.
 * Remembers those of the current window by the few bytes that decide them, so that
 * the usual sample costs one look-up each.
 */

#include <stdint.h>

#include "aggregate/context-labels.h"
#include "profile/window.h"
#include "sample/decode.h"
#include "target/process.h"
#include "util/intern.h"

typedef struct LabelCache {
        Intern keys;                    /* → number */
        uint32_t *indexes;              /* number → index in the window */
        uint32_t size;
} LabelCache;

typedef struct Labels {
        LabelCache sets;                /* struct LabelKey → attribute set */
        LabelCache resources;           /* generation and context of a process → resource */
        ContextLabels context;
        LabelFilter filter;
        uint64_t window_serial;
} Labels;

void labels_init(Labels *labels);
void labels_deinit(Labels *labels);

/* @stack_end: how the stack ended, after the daemon's own judgement. Return: 0, WINDOW_E_FULL, -ENOMEM. */
int labels_of_sample(Labels *labels, Window *window, Process *process, const Sample *sample, enum abi_stack_end stack_end,
                     uint32_t *setp);

/* Of a coroutine that was suspended. Return: as above. */
int labels_of_suspended(Labels *labels, Window *window, const SampleCoroutine *coroutine, uint32_t *setp);

/*
 * The resource of @process, with what is known of it as attributes. A program that executes itself in place is a new
 * generation, but the same resource: nothing that is shipped tells the two apart. Return: 0, WINDOW_E_FULL, -ENOMEM.
 */
int labels_of_process(Labels *labels, Window *window, const Process *process, uint32_t *resourcep);
