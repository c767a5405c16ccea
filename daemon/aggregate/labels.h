/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Labels
 *
 * The attributes of a sample (its thread, how its stack ended, its local root
 * span) → index of an attribute set in a window. Remembers the sets of the current
 * window by the few bytes that decide them, so that the usual sample costs one look-up.
 */

#include <stdint.h>

#include "profile/window.h"
#include "sample/decode.h"
#include "target/process.h"
#include "util/intern.h"

typedef struct Labels {
        Intern keys;                    /* struct LabelKey → number */
        uint32_t *sets;                 /* number → attribute set */
        uint32_t sets_size;
        uint64_t window_serial;
} Labels;

void labels_init(Labels *labels);
void labels_deinit(Labels *labels);

/* @stack_end: how the stack ended, after the daemon's own judgement. Return: 0, WINDOW_E_FULL, -ENOMEM. */
int labels_of_sample(Labels *labels, Window *window, const Sample *sample, enum abi_stack_end stack_end,
                     uint32_t *setp);

/* Sets what is known of @process as attributes of its resource. Return: 0, WINDOW_E_FULL, -ENOMEM. */
int labels_set_resource(Window *window, uint32_t resource, const Process *process);
