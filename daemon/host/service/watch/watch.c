/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A service is a user, a place, a name and a program. The kernel says user and place: of a unit its control
 * group, of a pod what the cluster calls its owner. Who may run processes as this user in this unit decides
 * what its sketches say, and nobody else, whatever service name others claim. Two builds are two build ids of
 * the program's file, or two values of service.version.
 *
 *     before      the last build           is fed on where it still runs (a canary, a way back)
 *     now         the one that runs        once both have enough: compared, once
 *     a third     takes the place of `now`, which becomes `before` if it has enough and is what ran last, or
 *                 `before` has not enough
 *
 * The table has room for 64 services. When it is full, shares decide whose service gives way: that of the
 * control group with most, of its user with most, the one unseen for longest. Where all have one, one that
 * was not seen for an hour, or for five minutes if it had too few samples to compare anything.
 */

#include "host/service/watch/watch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/data/intern.h"
#include "core/base/data/json-writer.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/stat.h"
#include "host/service/watch/watch-private.h"

enum {
        UNSEEN_S = 3600,
        BRIEF_UNSEEN_S = 300,           /* the same for a service that says nothing yet */
        BESIDE_S = 60,                  /* two builds seen within this ran beside each other */
};

#define MILLION 1e6

int watch_new(Watch **watchp, uint64_t time_ns, uint32_t way) {
        Watch *watch = calloc(1, sizeof(*watch));

        if (!watch)
                return error_origin(-ENOMEM);
        watch->time_ns = time_ns;
        watch->way = way;
        *watchp = watch;
        return 0;
}

void watch_clear(Watch *watch) {
        while (watch->n_services)
                watch_drop_service(watch, &watch->services[0]);
}

Watch *watch_free(Watch *watch) {
        if (!watch)
                return NULL;
        watch_clear(watch);
        shares_deinit(&watch->shares);
        free(watch);
        return NULL;
}

bool watch_is_for(const Watch *watch, uint64_t time_ns, uint32_t way) {
        return watch->time_ns == time_ns && watch->way == way;
}

static ShareOwner owner_of(uint32_t user, const char *place) {
        return (ShareOwner){ .group = hash_stable(place, strlen(place)) | 1, .user = user, .process = 1 };
}

int watch_add_service(Watch *watch, const WatchService *like, WatchService **servicep) {
        WatchService *service = &watch->services[watch->n_services];
        ShareOwner owner = owner_of(like->user, like->place);
        int r;

        *service = *like;
        r = shares_hold(&watch->shares, &owner, 1, &service->share);
        if (r)
                return error_fold(r);
        watch->n_services++;
        *servicep = service;
        return 0;
}

void watch_drop_service(Watch *watch, WatchService *service) {
        size_t n_behind = (size_t)(&watch->services[--watch->n_services] - service);

        share_release(&watch->shares, service->share, 1);
        free(service->before);
        free(service->now);
        memmove(service, service + 1, n_behind * sizeof(*service));
}

Sketch *watch_sketch(const Watch *watch, uint64_t serial) {
        for (uint32_t i = 0; serial && i < watch->n_services; i++) {
                const WatchService *service = &watch->services[i];

                if (service->now->serial == serial)
                        return service->now;
                if (service->before && service->before->serial == serial)
                        return service->before;
        }
        return NULL;
}

/* Whether its service has nothing to be compared with: a job, a pod that has gone. */
static bool is_brief(const WatchService *service) {
        return !service->before && !sketch_is_enough(service->now);
}

/* Service unseen for longest of who gives way, NULL = of all; @brief: of those alone that say nothing. */
static WatchService *oldest(Watch *watch, const Share *share, bool brief) {
        WatchService *oldest = NULL;

        for (uint32_t i = 0; i < watch->n_services; i++) {
                WatchService *service = &watch->services[i];

                if ((!share || service->share == share) && (!brief || is_brief(service)) &&
                    (!oldest || service->seen_s < oldest->seen_s))
                        oldest = service;
        }
        return oldest;
}

/* Service that gives way where all have one; NULL = none. */
static WatchService *oldest_of_all(Watch *watch, uint64_t now_s) {
        WatchService *brief = oldest(watch, NULL, true), *any = oldest(watch, NULL, false);

        if (brief && now_s >= brief->seen_s + BRIEF_UNSEEN_S)
                return brief;
        return now_s >= any->seen_s + UNSEEN_S ? any : NULL;
}

/* Return: 0, WATCH_E_FULL, -ENOMEM. */
static int make_room(Watch *watch, const WatchService *asking, uint64_t now_s) {
        ShareOwner owner = owner_of(asking->user, asking->place);
        Share *own, *victim;
        WatchService *service;
        int r = watch->n_services < WATCH_MAX_SERVICES ? 1 : shares_hold(&watch->shares, &owner, 1, &own);

        if (r)
                return MIN(r, 0);
        victim = shares_victim(&watch->shares, own, 0);
        if (victim == own && share_held(own) == 1)
                victim = NULL;          /* all have one service */
        service = victim ? oldest(watch, victim, false) : oldest_of_all(watch, now_s);
        if (!service)
                r = WATCH_E_FULL;
        owner.process = asking->pid;
        if (service)
                owner = (ShareOwner){ .user = service->user, .process = service->pid };
        shares_tell(&watch->shares, "services that are watched", &owner, clock_monotonic_ns());
        stat_add(COUNTER_WATCH_SERVICES_OVER_CAP, 1);
        share_release(&watch->shares, own, 1);
        if (service)
                watch_drop_service(watch, service);
        return r;
}

int watch_new_sketch(Watch *watch, const char *build, Sketch **sketchp) {
        Sketch *sketch = calloc(1, sizeof(*sketch));

        if (!sketch)
                return error_origin(-ENOMEM);
        snprintf(sketch->build, sizeof(sketch->build), "%s", build);
        sketch->serial = ++watch->serial;
        *sketchp = sketch;
        return 0;
}

/* Whether the build before the next one is `now`, and not a `before` that has come back. */
static bool is_last(const WatchService *service) {
        const Sketch *before = service->before, *now = service->now;

        return !before || !sketch_is_enough(before) ||
                (sketch_is_enough(now) && before->seen_s <= now->seen_s + BESIDE_S);
}

/* A build that neither sketch is of. */
static int begin_build(Watch *watch, WatchService *service, const char *build) {
        Sketch *sketch = NULL;
        int r = watch_new_sketch(watch, build, &sketch);

        if (r)
                return r;
        if (is_last(service)) {
                free(service->before);
                service->before = take(service->now);
        }
        free(service->now);
        service->now = sketch;
        service->is_compared = false;
        return 0;
}

static const WatchService *find(const Watch *watch, const WatchService *like) {
        for (uint32_t i = 0; i < watch->n_services; i++) {
                const WatchService *service = &watch->services[i];

                if (service->user == like->user && !strcmp(service->place, like->place) &&
                    !strcmp(service->service, like->service) && !strcmp(service->program, like->program))
                        return service;
        }
        return NULL;
}

bool watch_has_service(const Watch *watch, const WatchService *like) {
        return find(watch, like);
}

static int begin_service(Watch *watch, WatchService *like, const char *build, uint64_t now_s,
                         WatchService **servicep) {
        int r = make_room(watch, like, now_s);

        if (!r)
                r = watch_new_sketch(watch, build, &like->now);
        if (!r)
                r = watch_add_service(watch, like, servicep);
        if (r)
                free(like->now);
        return r;
}

/* Whether a build is @id and a version behind it. */
static bool has_version(const Sketch *sketch, const char *id) {
        size_t n = strlen(id);

        return sketch && !strncmp(sketch->build, id, n) && sketch->build[n] == ' ';
}

/* Text that the file of sketches can hold. */
static bool is_text(const char *text) {
        return text_is_utf8(text, strlen(text));
}

int watch_find(Watch *watch, const WatchWho *who, uint64_t now_s, uint64_t *serialp) {
        WatchService like = { .user = who->user, .pid = who->pid }, *service;
        char build[SKETCH_BUILD];
        Sketch *sketch;
        int r = 0;

        snprintf(like.place, sizeof(like.place), "%s", who->place);
        memcpy(like.service, who->service, text_cut_utf8(who->service, sizeof(like.service) - 1));
        memcpy(like.program, who->program, text_cut_utf8(who->program, sizeof(like.program) - 1));
        snprintf(build, sizeof(build), "%.*s", (int)text_cut_utf8(who->build, sizeof(build) - 1), who->build);
        if (!is_text(like.place) || !is_text(like.service) || !is_text(like.program) || !is_text(build))
                return WATCH_E_NONE;
        service = (WatchService *)find(watch, &like);
        if (service && (has_version(service->now, build) || has_version(service->before, build)))
                return WATCH_E_NONE;
        if (!service)
                r = begin_service(watch, &like, build, now_s, &service);
        else if (strcmp(service->now->build, build) &&
                 (!service->before || strcmp(service->before->build, build)))
                r = begin_build(watch, service, build);
        if (r)
                return r;
        sketch = strcmp(service->now->build, build) ? service->before : service->now;
        service->seen_s = sketch->seen_s = now_s;
        service->pid = who->pid;
        watch->is_changed = true;
        *serialp = sketch->serial;
        return 0;
}

/* ---- for people and programs ---- */

static void print_slower(const SketchVerdict *verdict, Text *text) {
        text_printf(text, "    %8s %8s %8s  %18s  %s\n", "before", "after", "change", "interval", "function");
        for (uint32_t i = 0; i < MIN(verdict->n_slower, (uint32_t)SKETCH_SLOWER); i++) {
                const SketchSlower *row = &verdict->slower[i];

                text_printf(text, "    %6.2f %% %6.2f %% %+8.2f  %+7.2f to %+7.2f  ", row->before / 1e4,
                            row->after / 1e4, (row->after - row->before) / 1e4, row->low / 1e4,
                            row->high / 1e4);
                text_append_masked(text, row->name);
                text_printf(text, "\n");
        }
        if (verdict->n_slower > SKETCH_SLOWER)
                text_printf(text, "    and %u more\n", verdict->n_slower - SKETCH_SLOWER);
}

static void print_state(const WatchService *service, Text *text) {
        const Sketch *now = service->now;

        text_printf(text, "  build ");
        text_append_masked(text, now->build);
        if (service->is_compared) {
                text_printf(text, ": %u of %u functions take more than in build ", service->verdict.n_slower,
                            service->verdict.n_compared);
                text_append_masked(text, service->verdict.before);
                text_printf(text, "\n");
                if (service->verdict.n_slower)
                        print_slower(&service->verdict, text);
                return;
        }
        text_printf(text, ": %" PRIu64 " samples in %u of %u parts of the time", sketch_samples(now), now->n_blocks,
                    SKETCH_ENOUGH_BLOCKS);
        text_printf(text, "%s\n", !service->before ? "; the first build"
                    : sketch_is_enough(service->before) ? "" : "; the build before has too few to compare");
}

void watch_print(const Watch *watch, Text *text) {
        for (uint32_t i = 0; i < watch->n_services; i++) {
                const WatchService *service = &watch->services[i];

                text_append_masked(text, service->service);
                text_printf(text, ", program ");
                text_append_masked(text, service->program);
                text_printf(text, ", user %u, ", service->user);
                text_append_masked(text, service->place);
                text_printf(text, "\n");
                print_state(service, text);
        }
        if (!watch->n_services)
                text_printf(text, "no service has been seen yet\n");
}

static void add_slower(JsonWriter *json, const SketchVerdict *verdict) {
        json_text(json, "before", verdict->before);
        json_number(json, "functions", verdict->n_compared);
        json_number(json, "slower", verdict->n_slower);
        json_open(json, "list", '[');
        for (uint32_t i = 0; i < MIN(verdict->n_slower, (uint32_t)SKETCH_SLOWER); i++) {
                const SketchSlower *row = &verdict->slower[i];

                json_open(json, NULL, '{');
                json_text(json, "function", row->name);
                json_decimal(json, "before", row->before / MILLION, 6);
                json_decimal(json, "after", row->after / MILLION, 6);
                json_decimal(json, "low", row->low / MILLION, 6);
                json_decimal(json, "high", row->high / MILLION, 6);
                json_close(json, '}');
        }
        json_close(json, ']');
}

void watch_print_json(const Watch *watch, Text *text) {
        JsonWriter json = { .text = text };

        json_open(&json, NULL, '{');
        json_open(&json, "services", '[');
        for (uint32_t i = 0; i < watch->n_services; i++) {
                const WatchService *service = &watch->services[i];

                json_open(&json, NULL, '{');
                json_text(&json, "service", service->service);
                json_text(&json, "program", service->program);
                json_number(&json, "user", service->user);
                json_text(&json, "place", service->place);
                json_text(&json, "build", service->now->build);
                json_number(&json, "samples", sketch_samples(service->now));
                json_bool(&json, "enough", sketch_is_enough(service->now));
                json_bool(&json, "compared", service->is_compared);
                if (service->is_compared)
                        add_slower(&json, &service->verdict);
                json_close(&json, '}');
        }
        json_close(&json, ']');
        json_close(&json, '}');
        json_end(&json);
}
