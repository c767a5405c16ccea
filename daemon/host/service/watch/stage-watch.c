/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Feeds sketches of builds, with --watch-builds. Which program a resource is of is noted when its first
 * sample comes, with the build id of its file. When the window closes, user and control group of its process
 * are read again, of those with a thousandth of the samples: a child of root's that has become another user
 * is that user's, and who has gone by then counts for nobody. Names come from naming: this stands behind it.
 *
 *     unit             /system.slice/shop.service         the group that its processes cannot leave
 *     pod              pod:shop/checkout                  namespace and owner, as the cluster says them
 *     container        …/docker-ID.scope                  its id: the next container is another service
 *
 * Sketches lie beside the spool, and outlive a reload.
 */

#include "host/service/run/stages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "core/base/util/array.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "host/sampling/aggregate/pod-names.h"
#include "host/sampling/aggregate/service-name.h"
#include "host/sampling/process/cgroup.h"
#include "host/service/config/backend.h"

enum {
        MAX_SLOTS = 4096,               /* resources of a window */
        LEAST_SAMPLES = 8,              /* samples of a process in a window; */
        LEAST_PART = 1024,              /* … and one of so many: it takes 50 µs to read one */
};

#define SAVE_NS (300 * NS_PER_SEC)

/* The build id of the executable; "" = it is not known. */
static const char *build_of(const Process *process) {
        const Mapping *mapping = process_executable(process);
        const Object *object = mapping ? mapping->object : NULL;

        if (!object)
                return "";
        return *object->build_id_gnu   ? object->build_id_gnu
                : *object->build_id_go ? object->build_id_go
                                       : object->htlhash;
}

static int note(void *userdata, const Program *program, uint32_t resource) {
        const Process *process = program->process;
        Daemon *daemon = userdata;
        DaemonWatch *own = &daemon->watch;
        DaemonWatchSlot *slot, now = { .pid = process->pid, .start_time_ns = process->start_time_ns };
        const char *name = service_name_executable(process);
        char repaired[3 * sizeof(now.program) + 1];
        int r = 0;

        if (resource >= MAX_SLOTS)
                return 0;
        r = array_reserve_zero(&own->slots, &own->room, resource + 1u, 64);
        if (r)
                return error_fold(r);
        slot = &own->slots[resource];
        snprintf(now.build, sizeof(now.build), "%s", build_of(process));
        text_repair_utf8(repaired, name, strnlen(name, sizeof(now.program)));
        snprintf(now.program, sizeof(now.program), "%.*s",
                 (int)text_cut_utf8(repaired, sizeof(now.program) - 1), repaired);
        now.is_mixed = slot->pid && (slot->is_mixed || slot->pid != now.pid ||
                                     slot->start_time_ns != now.start_time_ns ||
                                     strcmp(slot->build, now.build) || strcmp(slot->program, now.program));
        *slot = now;
        return 0;
}

/* A name that is kept over the pods of an owner; NULL = the cluster has not said it. */
static const char *owner_of_pod(const PodName *pod) {
        static const char *const keys[] = { "k8s.deployment.name", "k8s.statefulset.name",
                                            "k8s.daemonset.name" };

        for (const char *key = pod->more; key && *key;) {
                const char *value = key + strlen(key) + 1;

                for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
                        if (!strcmp(key, keys[i]))
                                return value;
                key = value + strlen(value) + 1;
        }
        return NULL;
}

/*
 * Return: whether it is known, and fits. A pod that the cluster's list has not yet has no place: its control
 * group would be one more service that is never seen again.
 */
static bool find_place(Daemon *daemon, const Identity *identity, char place[static WATCH_PLACE]) {
        PodName pod = { 0 };
        CgroupPart share;
        const char *owner = NULL;

        if (identity->pod && daemon->pods &&
            !pod_names_find(daemon->pods, identity->pod, clock_monotonic_ns(), &pod))
                owner = owner_of_pod(&pod);
        if (identity->pod && daemon->pod_api && !pod.more)
                return false;
        if (owner)
                return snprintf(place, WATCH_PLACE, "pod:%s/%s", pod.namespace, owner) < WATCH_PLACE;
        if (!identity->cgroup)
                return false;
        share = cgroup_share((CgroupPart){ identity->cgroup, strlen(identity->cgroup) });
        return text_is_utf8(share.text, share.size) &&
                snprintf(place, WATCH_PLACE, "%.*s", (int)share.size, share.text) < WATCH_PLACE;
}

/* Return: 0, also where it is in no sketch; -ENOMEM. */
static int find_sketch(Daemon *daemon, const Window *window, uint32_t resource, uint64_t *serialp) {
        const DaemonWatchSlot *slot = &daemon->watch.slots[resource];
        const char *version = window_get_resource_text(window, resource, "service.version");
        _cleanup_(identity_freep) Identity *identity = NULL;
        _cleanup_(closep) int fd = -1;
        char place[WATCH_PLACE], build[2 * SKETCH_BUILD];
        WatchWho who = { .place = place, .program = slot->program, .build = build, .pid = slot->pid };
        int r;

        if (process_open((pid_t)slot->pid, slot->start_time_ns, &fd))
                return 0;
        r = identity_new(&identity, fd, IDENTITY_USER | IDENTITY_CGROUP);
        if (r || !identity->has_uid || !find_place(daemon, identity, place))
                return error_fold(r);
        snprintf(build, sizeof(build), "%s%s%.*s", slot->build, *version ? " " : "",
                 (int)text_cut_utf8(version, 64), version);
        who.user = identity->uid;
        who.service = window_get_resource_text(window, resource, "service.name");
        r = watch_find(daemon->totals->watch, &who, clock_read_ns(CLOCK_REALTIME) / NS_PER_SEC, serialp);
        return MIN(r, 0);
}

static bool is_known(const Daemon *daemon, const WindowProfile *profile, uint64_t n_all) {
        const DaemonWatch *own = &daemon->watch;
        const DaemonWatchSlot *slot = profile->resource < own->room ? &own->slots[profile->resource] : NULL;

        return slot && slot->pid && !slot->is_mixed && *slot->build && profile->n_events >= LEAST_SAMPLES &&
                profile->n_events * LEAST_PART >= n_all;
}

static int feed(Daemon *daemon, const Window *window) {
        const uint32_t n = window_n_profiles(window);
        uint64_t n_all = window_n_events_of(window, PROFILE_CPU) + window_n_events_of(window, PROFILE_BOOST);
        _cleanup_(freep) uint64_t *serials = calloc(n + 1u, sizeof(*serials));
        int r = serials ? 0 : error_origin(-ENOMEM);

        for (uint32_t i = 0; i < n && !r; i++) {
                const WindowProfile *profile = window_get_profile(window, i);

                if (!profile_is_cpu(profile->type))
                        continue;
                /* sketches count samples, which a boost makes shorter */
                if (profile->type == PROFILE_CPU && is_known(daemon, profile, n_all))
                        r = find_sketch(daemon, window, profile->resource, &serials[i]);
                stat_add(COUNTER_WATCH_SAMPLES_UNKNOWN, serials[i] ? 0 : profile->n_events);
        }
        return r ? error_fold(r) : watch_window(daemon->totals->watch, window, serials);
}

/* ---- the file ---- */

static int open_directory(const Daemon *daemon) {
        const char *path = daemon->config->spool.directory;

        return *path ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
}

static int load(Daemon *daemon) {
        _cleanup_(closep) int fd = open_directory(daemon);
        int r;

        if (!backend_wants_names(daemon->config))
                log_warning("watch: functions in files have no names here, so most builds are not compared: set "
                            "symbols = local");
        if (backend_merges_processes(daemon->config))
                log_warning("watch: without process.pid (attributes-deny, attributes-allow), builds of services with "
                            "several processes are not compared");
        if (!*daemon->config->spool.directory)
                log_notice("watch: without a spool, builds from before a restart are not known");
        r = fd < 0 ? 0 : watch_load(daemon->totals->watch, fd);
        if (r < 0 && r != -ENOMEM)
                log_warning("watch: cannot read sketches of builds beside the spool, so builds from before are not "
                            "known: %s", strerror(-r));
        return r == -ENOMEM ? r : 0;
}

static int save(Daemon *daemon) {
        _cleanup_(closep) int fd = open_directory(daemon);
        int r = fd < 0 ? 0 : watch_save(daemon->totals->watch, fd);

        daemon->watch.saved_ns = clock_monotonic_ns();
        if (r && r != -ENOMEM && !daemon->watch.has_failed)
                log_warning("watch: cannot keep sketches of builds beside the spool: %s", strerror(-r));
        daemon->watch.has_failed = r;
        return r == -ENOMEM ? r : 0;
}

/* ---- the stage ---- */

static int start(Daemon *daemon) {
        const AttributesNote hook = { note, daemon };
        DaemonTotals *totals = daemon->totals;
        const Config *config = daemon->config;
        uint64_t time_ns = daemon->sink ? 0 : config->sampling.watch_ns;
        uint32_t way = (config->sampling.kernel_stacks ? WATCH_KERNEL : 0) |
                       (backend_wants_names(config) ? WATCH_NAMES : 0);
        int r = 0;

        if (totals->watch && !watch_is_for(totals->watch, time_ns, way))
                totals->watch = watch_free(totals->watch);
        if (!time_ns)
                return 0;
        if (!totals->watch) {
                r = watch_new(&totals->watch, time_ns, way);
                if (!r)
                        r = load(daemon);
        }
        daemon->watch.saved_ns = clock_monotonic_ns();
        aggregator_set_note(daemon->stages.aggregator, &hook);
        return error_fold(r);
}

static int watch_closed(Daemon *daemon, Window *window) {
        DaemonWatch *own = &daemon->watch;
        int r;

        if (!daemon->totals->watch)
                return 0;
        r = feed(daemon, window);
        if (own->slots)
                memset(own->slots, 0, own->room * sizeof(*own->slots));
        if (!r && (daemon->stop.time_ns || clock_monotonic_ns() - own->saved_ns >= SAVE_NS))
                r = save(daemon);
        return error_fold(r);
}

static void release(Daemon *daemon) {
        free(daemon->watch.slots);
}

const Stage stage_watch = { .name = "watch", .start = start, .window = watch_closed, .release = release };
