/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Heap of a Short Command
 *
 * A command that fills tables, writes them out and ends spends a fifth of its time on pages that the kernel
 * hands out one by one. The daemon has no use for this: it must give back what it does not need.
 */

/*
 * Lets what is allocated from now on come from large pages, and what is freed wait for the next one. Before
 * any thread starts.
 */
void heap_prepare(void);
