/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Makes the open window: what the configuration and the cluster say of its resources, CPU time and bytes by
 * span. With --allocations it gets, as it closes, what is alive then: the same again in each window until it
 * is freed.
 */

#include "host/service/run/stages.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/stat.h"
#include "host/service/run/daemon-window.h"

static LabelHostId host_id_of(const Config *config) {
        if (!strcmp(config->resource.host_id, "machine"))
                return LABEL_HOST_MACHINE;
        return strcmp(config->resource.host_id, "none") ? LABEL_HOST_HASHED : LABEL_HOST_NONE;
}

/*
 * Reads the configuration's attributes of each resource. A sum over the fleet is to be divided by the share.
 */
static int read_own_attributes(Daemon *daemon) {
        const Config *config = daemon->config;
        _cleanup_(freep) char *text = NULL;
        size_t size = strcspn(config->sampling.hosts, "%");
        int r;

        if (asprintf(&text, "%s%s%.*s", config->resource.attributes,
                     size ? ",spanprof.hosts.percent=" : "", (int)size, config->sampling.hosts) < 0)
                return error_origin(-ENOMEM);
        r = environment_read_attributes(text, &daemon->own);
        return error_fold(r);
}

static int make_pods(Daemon *daemon) {
        const Config *config = daemon->config;
        const PodApiConfig api = { config->pods.url, config->pods.token, config->pods.certificate,
                                   { config->pods.labels.items, config->pods.labels.n_items } };
        PodLister lister = { .want = pod_api_want };
        int r = *config->pods.url ? pod_api_new(&daemon->pod_api, &api) : 0;

        if (r)
                return r > 0 ? DAEMON_E_UNUSABLE : error_fold(r);
        lister.userdata = daemon->pod_api;
        if (!*config->pods.directory && !daemon->pod_api)
                return 0;
        return pod_names_new(&daemon->pods, config->pods.directory, daemon->pod_api ? &lister : NULL);
}

/* As span_cpu_new() takes it. */
static const char *operation_key(const Config *config) {
        const char *key = config->resource.span_operation;

        if (!strcmp(key, "auto"))
                return NULL;
        return strcmp(key, "off") ? key : "";
}

static int make_window(Daemon *daemon) {
        const ConfigList *allow = &daemon->config->resource.allow, *deny = &daemon->config->resource.deny;
        AttributeFilter filter = { allow->items,
                                   deny->items,
                                   allow->n_items,
                                   deny->n_items,
                                   daemon->config->resource.coroutine_ids,
                                   host_id_of(daemon->config),
                                   &daemon->own,
                                   NULL };
        int r = read_own_attributes(daemon);

        if (!r && !daemon->sink)
                r = make_pods(daemon);
        filter.pods = daemon->pods;
        if (!r)
                r = aggregator_new(&daemon->stages.aggregator, daemon->stages.frames, clock_monotonic_ns());
        if (!r && !daemon->sink)
                r = span_cpu_new(&daemon->stages.span_cpu, operation_key(daemon->config));
        if (!r && !daemon->sink && daemon->config->sampling.allocated_bytes)
                r = span_cpu_new(&daemon->stages.span_bytes, operation_key(daemon->config));
        if (!r && daemon->config->sampling.allocations)
                r = live_set_new(&daemon->stages.live);
        if (r)
                return r > 0 ? r : error_fold(r);
        aggregator_set_live(daemon->stages.aggregator, daemon->stages.live);
        daemon->filter = filter;
        aggregator_set_filter(daemon->stages.aggregator, &daemon->filter);
        return 0;
}

static int collect_pods(Daemon *daemon) {
        return daemon->pod_api ? pod_api_collect(daemon->pod_api, daemon->pods) : 0;
}

static int rotate_span_cpu(Daemon *daemon, Window *window) {
        int r = daemon->stages.span_cpu ? span_cpu_rotate(daemon->stages.span_cpu) : 0;

        return r || !daemon->stages.span_bytes ? r : span_cpu_rotate(daemon->stages.span_bytes);
}

static uint64_t lost_frees(void *userdata, uint32_t pid, uint64_t start_time_ns) {
        const Daemon *daemon = userdata;

        return sampler_lost_frees(daemon->stages.sampler, pid, start_time_ns);
}

typedef struct Adding {
        Daemon *daemon;
        uint64_t now_ns;
        Program program;                /* the one whose allocations come */
} Adding;

static int begin_process(void *userdata, uint32_t pid, uint64_t generation) {
        Adding *adding = userdata;
        int r = targets_program(adding->daemon->stages.targets, pid, generation, &adding->program);

        return r < 0 ? error_fold(r) : r || adding->program.has_ended;
}

static int add_allocation(void *userdata, const LiveAllocation *allocation) {
        const Adding *adding = userdata;
        int r = aggregator_add_live(adding->daemon->stages.aggregator, &adding->program, allocation,
                                    adding->now_ns);

        stat_add(COUNTER_LIVE_WINDOW_FULL, r > 0);
        return r < 0 ? error_fold(r) : 0;
}

int daemon_add_live(Daemon *daemon) {
        Adding adding = { .daemon = daemon, .now_ns = clock_monotonic_ns() };
        const LiveVisit visit = { begin_process, add_allocation, &adding };
        LiveSet *live = daemon->stages.live;
        uint64_t n_unknown;
        int r = 0;

        if (!live)
                return 0;
        if (!daemon->stop.time_ns)
                r = sampler_read_counters(daemon->stages.sampler);
        if (r)
                return error_fold(r);
        n_unknown = stat_get(COUNTER_FREES_LOSERS_FULL);
        live_set_check(live, lost_frees, daemon, n_unknown != daemon->window.n_unknown_losses);
        daemon->window.n_unknown_losses = n_unknown;
        /* parts of one window would be summed: the last one has it */
        if (!daemon->sink || !daemon->sink->has_one_window || daemon->stop.time_ns)
                r = live_set_visit(live, &visit);
        /* the probes are off, so nothing is known of what comes until they are on again */
        if (daemon->pause.is_on)
                live_set_begin(live, clock_monotonic_ns());
        return error_fold(r);
}

static void describe(Daemon *daemon, Metrics *metrics) {
        metrics->span_cpu = daemon->stages.span_cpu;
        metrics->span_bytes = daemon->stages.span_bytes;
}

static void release(Daemon *daemon) {
        span_cpu_free(daemon->stages.span_cpu);
        span_cpu_free(daemon->stages.span_bytes);
        aggregator_free(daemon->stages.aggregator);
        live_set_free(daemon->stages.live);
        environment_deinit(&daemon->own);
        pod_names_free(daemon->pods);
        pod_api_free(daemon->pod_api);
}

const Stage stage_aggregate = {
        .name = "window",
        .make = make_window,
        .second = collect_pods,
        .window = rotate_span_cpu,
        .describe = describe,
        .release = release,
};
