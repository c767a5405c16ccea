/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Raw Printer
 *
 * Every field of a profiles request, driven by the message descriptors, zeros included, and
 * beside each index what it points to. For people who debug payloads: nothing is merged, repaired
 * or left out; fields that the protocol does not know are shown too.
 *
 *     samples[0]:
 *       stack_index: 3             # 12 frames
 *       attribute_indices: [1, 4]  # thread.id=4711, thread.name="worker"
 *       link_index: 9              # out of range, the table has 2 rows
 */

#include <stdio.h>

#include "formats/otlp/messages.h"

/* Writes to @out, in lines that begin with @indent blanks. What @out does is the caller's to check. */
void raw_print(const OtlpRequest *request, unsigned indent, FILE *out);
