/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Watch
 *
 * Sketches of the builds of each service, from window to window and over restarts: watch.c says how builds
 * follow each other, sketch.c what makes one slower.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/util/macro.h"
#include "core/base/util/text.h"
#include "core/profile/window.h"
#include "host/service/watch/sketch.h"

enum {
        WATCH_MAX_SERVICES = 64,        /* with two sketches each */
        WATCH_PLACE = 256,
        WATCH_SERVICE = 128,
        WATCH_PROGRAM = 64,
};

enum {
        _WATCH_E_SUCCESS,
        WATCH_E_FULL,                   /* there is no room for another service */
        WATCH_E_MALFORMED,              /* nothing was taken over */
        WATCH_E_NONE,                   /* it is no build of a service */
};

/* Key of a service. Users and places are what the kernel says; the rest is a target's word. */
typedef struct WatchWho {
        uint32_t user;                  /* effective */
        const char *place;              /* control group, or what stands for it */
        const char *service, *program;  /* service.name; last part of the executable's path */
        const char *build;              /* not "" */
        uint32_t pid;                   /* a process of it, for the log */
} WatchWho;

typedef struct Watch Watch;

/* Ways: shares depend on them besides the build, and those of another way are not comparable. */
enum {
        WATCH_KERNEL = 1,               /* stacks have the kernel's frames */
        WATCH_NAMES = 2,                /* functions in files have names */
};

/* @time_ns: how long a build must run before it is compared; @way: WATCH_*. Return: 0, -ENOMEM. */
int watch_new(Watch **watchp, uint64_t time_ns, uint32_t way);
Watch *watch_free(Watch *watch);
DEFINE_CLEANUP(Watch, watch_free)

bool watch_is_for(const Watch *watch, uint64_t time_ns, uint32_t way);

/*
 * The sketch of a build, made if it is new, by its number, which is never 0. It may be gone when others have
 * been asked for. A build id alone is none of a service whose builds have a version behind it: it was not
 * published yet. @now_s: REALTIME. Return: 0, WATCH_E_FULL (said in the log), WATCH_E_NONE, -ENOMEM.
 */
int watch_find(Watch *watch, const WatchWho *who, uint64_t now_s, uint64_t *serialp);

/*
 * Counts the CPU samples of a closed window. @serials: number of the sketch of each profile, 0 = none. Then
 * builds are compared that have enough for the first time. Return: 0, -ENOMEM.
 */
int watch_window(Watch *watch, const Window *window, const uint64_t *serials);

/* For people and programs. */
void watch_print(const Watch *watch, Text *text);
void watch_print_json(const Watch *watch, Text *text);
/* A page of HTML without scripts (watch-page.c). */
void watch_print_page(const Watch *watch, Text *text);

/* ---- over restarts (watch-file.c) ---- */

/* Takes over what the bytes say. Whatever they are, nothing but a part of it is dropped, or all of it. */
int watch_parse(Watch *watch, const void *data, size_t size);
void watch_write(const Watch *watch, Text *text);

/* Reads the file `watch` in a directory. Return: 0, also without one; WATCH_E_MALFORMED, -errno, -ENOMEM. */
int watch_load(Watch *watch, int directory);

/* Replaces it, if something has changed since. Return: 0, -errno: the old file stays. */
int watch_save(Watch *watch, int directory);
