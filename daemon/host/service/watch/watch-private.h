/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Services that are watched; for watch.c, watch-window.c and watch-file.c.
 */

#include "core/base/data/shares.h"
#include "host/service/watch/watch.h"

typedef struct WatchService {
        uint32_t user;
        uint32_t pid;                   /* as in WatchWho; 0 = none was seen yet */
        bool is_compared;               /* `now` with `before`: the verdict counts */
        char place[WATCH_PLACE], service[WATCH_SERVICE], program[WATCH_PROGRAM];
        uint64_t seen_s;                /* REALTIME: last sample */
        Sketch *before, *now;           /* owned; `before` may be NULL */
        SketchVerdict verdict;
        Share *share;
} WatchService;

struct Watch {
        uint64_t time_ns;
        uint32_t way;                   /* WATCH_* */
        WatchService services[WATCH_MAX_SERVICES];
        uint32_t n_services;
        uint64_t serial;                /* last one */
        bool is_changed;                /* since the file was written */
        Shares shares;
};

/* A new one at the end; there is room. Return: 0, -ENOMEM. */
int watch_add_service(Watch *watch, const WatchService *like, WatchService **servicep);
bool watch_has_service(const Watch *watch, const WatchService *like);
void watch_drop_service(Watch *watch, WatchService *service);
void watch_clear(Watch *watch);

/* An empty one with a number of its own, for its service to free. Return: 0, -ENOMEM. */
int watch_new_sketch(Watch *watch, const char *build, Sketch **sketchp);

/* NULL = gone. */
Sketch *watch_sketch(const Watch *watch, uint64_t serial);
