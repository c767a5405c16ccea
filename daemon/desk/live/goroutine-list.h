/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Goroutine List
 *
 * Goroutines that wait in a window, as groups that wait in one place for one thing, for people and for
 * programs.
 */

#include <stdio.h>

#include "core/base/data/json-writer.h"
#include "core/base/util/macro.h"
#include "core/profile/window.h"
#include "host/service/run/daemon.h"

typedef struct GoroutineList GoroutineList;

/* @window: closed, of one look; it and @seen outlive the list. Return: 0, -ENOMEM. */
int goroutine_list_new(GoroutineList **listp, const Window *window, const GoroutinesSeen *seen);
GoroutineList *goroutine_list_free(GoroutineList *list);
DEFINE_CLEANUP(GoroutineList, goroutine_list_free)

/* Nothing, if no program of Go was looked at. */
void goroutine_list_print(const GoroutineList *list, FILE *out);

/* `goroutines` and what was left out, as members of an object that is open. */
void goroutine_list_json(const GoroutineList *list, JsonWriter *json);
