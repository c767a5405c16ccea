/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Makes the open window: what the configuration and the cluster say of its resources, CPU time and bytes by
 * span.
 */

#include "host/service/run/stages.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"

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
        if (r)
                return r > 0 ? r : error_fold(r);
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

static void describe(Daemon *daemon, Metrics *metrics) {
        metrics->span_cpu = daemon->stages.span_cpu;
        metrics->span_bytes = daemon->stages.span_bytes;
}

static void release(Daemon *daemon) {
        span_cpu_free(daemon->stages.span_cpu);
        span_cpu_free(daemon->stages.span_bytes);
        aggregator_free(daemon->stages.aggregator);
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
