/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Timeline
 *
 * The events of one kind of profile, thread by thread and in the order of their times, for forms that viewers
 * draw from left to right; and how such viewers call a thread and a frame.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/data/intern.h"
#include "core/base/util/text.h"
#include "core/profile/window.h"

enum {
        TIMELINE_MAX_EVENTS = 1 << 20,
        TIMELINE_MAX_THREADS = 1000,
};

typedef struct TimelineThread {
        uint32_t resource, name;        /* name: a string; 0 = none */
        int64_t id;                     /* -1 = none */
} TimelineThread;

typedef struct TimelineEvent {
        uint64_t time_ns;               /* 0 = not known */
        uint64_t value;                 /* nanoseconds, or in the unit of the kind */
        uint32_t thread, stack;
} TimelineEvent;

/* Starts as zeros but for `window`, then timeline_init(). */
typedef struct Timeline {
        const Window *window;           /* borrowed */
        bool has_untimed;               /* events without a time, or without a thread, are among them */
        Intern threads;                 /* TimelineThread */
        TimelineEvent *events;          /* of the last kind, as the next */
        size_t n_events, events_room;
        bool is_over;                   /* there are more events or threads than fit: some are missing */
} Timeline;

void timeline_init(Timeline *timeline, const Window *window);
void timeline_deinit(Timeline *timeline);

/* Takes the events of all profiles of the kind of @kind. Return: 0, -ENOMEM. */
int timeline_collect(Timeline *timeline, const WindowProfile *kind);

/* How many events from @at on are of the same thread. */
size_t timeline_run(const Timeline *timeline, size_t at);

const TimelineThread *timeline_thread(const Timeline *timeline, const TimelineEvent *event);

/* Type and unit are the same. */
bool timeline_is_same_kind(const WindowProfile *a, const WindowProfile *b);

/* Whether no profile before @profile is of its kind. */
bool timeline_is_first_of_kind(const Window *window, uint32_t profile);

/* Nanoseconds that a sample stands for; 0 = values have a unit of their own. */
uint64_t timeline_weight(const Window *window, const WindowProfile *profile);

/* Appends `shop io`: program and name, as far as they are known and differ. Return: whether there was one. */
bool timeline_append_name(const Window *window, const TimelineThread *thread, Text *name);

/*
 * Identity of a frame as viewers show it: they take each for a function, so addresses of one function are
 * one. Compared as bytes.
 */
typedef struct TimelineFrame {
        uint64_t address;               /* address of a frame without a name */
        uint32_t module, name, file;
        int32_t line;
} TimelineFrame;

TimelineFrame timeline_frame(const Window *window, FrameWord word);

enum { TIMELINE_ADDRESS_SIZE = 96 };

/* Its name, or its place as text in @address. */
const char *timeline_frame_name(const Window *window, const TimelineFrame *frame,
                                char address[static TIMELINE_ADDRESS_SIZE]);
