/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * List of Threads
 *
 * What each thread does, from a window that holds a wait or CPU samples of it: threads that do the same in
 * the same place stand together.
 */

#include <stddef.h>
#include <stdio.h>

#include "core/profile/window.h"
#include "desk/live/goroutine-list.h"
#include "host/service/run/daemon.h"

typedef struct ThreadList ThreadList;

/*
 * @window: closed, with names; borrowed. @threads: all that were met; those that have nothing in the window
 * run, unseen. Return: 0, -ENOMEM.
 */
int thread_list_new(ThreadList **listp, const Window *window, const ThreadWaits *threads);
ThreadList *thread_list_free(ThreadList *list);
DEFINE_CLEANUP(ThreadList, thread_list_free)

void thread_list_print(const ThreadList *list, FILE *out);

/* One object, in a line, with @goroutines in it. Return: 0, -ENOMEM. */
int thread_list_json(const ThreadList *list, const GoroutineList *goroutines, FILE *out);
