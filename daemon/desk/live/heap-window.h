/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Window of a Heap
 *
 * Puts the heap profile of a program of Go into a window: the four types of Go's own profiles.
 */

#include "core/profile/window.h"
#include "host/runtime/go/go-heap-wire.h"

/*
 * @mapping: of the file with Go in it. *n_lostp: stacks for which there was no room. Return: 0;
 * WINDOW_E_FULL: there was none for the types; -ENOMEM.
 */
int heap_window_fill(Window *window, const Process *process, const Mapping *mapping,
                     const GoHeapAnswer *answer, uint32_t *n_lostp);
