/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The control socket and the metrics: one table of pages, served at a path and at a port.
 *
 * At the start another process may have either: the daemon before this one, for the moment that it takes to
 * end, or a stranger. That ends nothing: profiles matter more than what is said of them. The daemon says so,
 * runs without, and tries again after 1, 2, 4 … 30 s until it has what the configuration asks for.
 *
 * Servers outlive the daemon that a reload ends: control-servers.c.
 */

#include "host/service/control/control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/minute-limit.h"
#include "core/base/util/stat.h"
#include "core/http/bearer.h"
#include "core/http/listen.h"
#include "core/http/receiver.h"
#include "host/service/config/option-check.h"
#include "host/service/control/openmetrics.h"

#define RECORDER "/recorder"
#define BOOST "/boost"
#define RECORDER_KEEP RECORDER "/keep"

enum { HOOKS_MINUTE = 60 };

struct Control {
        ControlDaemon daemon;
        sd_event *event;
        const Config *config;
        ControlServers *servers;        /* borrowed, and so are the next */
        Receiver *socket, *port;        /* NULL = not served */
        bool socket_taken, port_taken;  /* another process has it */
        sd_event_source *retry;
        uint64_t retry_ns;              /* until the next try */
        MinuteLimit hooks;
};

/* ---- what is shown ---- */

static void collect(Control *control, Metrics *metrics) {
        control->daemon.read(control->daemon.userdata, metrics);
}

static int show(Control *control, void (*print)(Text *, const Metrics *), Text *page) {
        Metrics metrics;

        collect(control, &metrics);
        print(page, &metrics);
        return 200;
}

/*
 * Health: a loop that does not turn does not answer. A receiver that is down makes neither health nor
 * readiness fail, since a restart would mend nothing.
 */
static int show_health(Control *control, Text *page) {
        text_printf(page, "ok\n");
        return 200;
}

static int show_readiness(Control *control, Text *page) {
        Metrics metrics;

        collect(control, &metrics);
        text_printf(page, "%s\n", metrics.unready ? metrics.unready : metrics.pause ? "ok, paused" : "ok");
        return metrics.unready ? 503 : 200;
}

static int not_found(Text *page) {
        text_printf(page, "there are /metrics, /healthz and /readyz\n");
        return 404;
}

static int show_metrics(Control *control, const char *accept, Text *page, const char **typep) {
        if (openmetrics_is_wanted(accept)) {
                *typep = OPENMETRICS_TYPE;
                return show(control, metrics_print_open, page);
        }
        *typep = "text/plain; version=0.0.4; charset=utf-8";
        return show(control, metrics_print, page);
}

static int show_recorder(Control *control, bool is_post, const char *path, Text *page, const char **typep) {
        return control->daemon.recorder(control->daemon.userdata, is_post, path, page, typep);
}

/*
 * An alert or a program that has seen a slow trace asks for it: what it can do with the token is to ship to
 * the receivers that the configuration has, so often.
 */
static int hook(Control *control, const ReceiverQuestion *question, Text *page, const char **typep) {
        if (!bearer_accepts(control->daemon.tokens, question->authorization)) {
                stat_add(COUNTER_RECORDER_HOOKS_UNAUTHORIZED, 1);
                text_printf(page, "this needs one of the tokens: the header `Authorization: Bearer TOKEN`\n");
                return 401;
        }
        if (!minute_limit(&control->hooks, HOOKS_MINUTE, clock_monotonic_ns())) {
                stat_add(COUNTER_RECORDER_HOOKS_OVER_RATE, 1);
                text_printf(page, "there were %d in this minute\n", HOOKS_MINUTE);
                return 429;
        }
        stat_add(COUNTER_RECORDER_HOOKS, 1);
        return show_recorder(control, true, question->path + strlen(RECORDER), page, typep);
}

static bool is_hook(const Control *control, const ReceiverQuestion *question) {
        return control->daemon.tokens->n && !strcmp(question->method, "POST") &&
                !strncmp(question->path, RECORDER_KEEP, strlen(RECORDER_KEEP));
}

static int public_page(const ReceiverQuestion *question, Text *page, const char **typep, void *userdata) {
        const char *method = question->method, *path = question->path;
        Control *control = userdata;

        if (is_hook(control, question))
                return hook(control, question, page, typep);
        if (strcmp(method, "GET") && strcmp(method, "HEAD")) {
                text_printf(page, "only GET is answered here\n");
                return 405;
        }
        if (!strcmp(path, "/metrics"))
                return show_metrics(control, question->accept, page, typep);
        if (!strcmp(path, "/healthz"))
                return show_health(control, page);
        return strcmp(path, "/readyz") ? not_found(page) : show_readiness(control, page);
}

static int steer(Control *control, bool paused, Text *page) {
        const char *reason;

        if (control->daemon.pause(control->daemon.userdata, paused, &reason) < 0)
                return 500;
        text_printf(page, "%s\n", reason ? reason : "sampling");
        return 200;
}

static const struct {
        const char *path, *type;        /* type of its content; NULL = text */
} watch_pages[CONTROL_N_FORMS] = {
        [CONTROL_TEXT] = { "/watch", NULL },
        [CONTROL_JSON] = { "/watch.json", "application/json" },
        [CONTROL_HTML] = { "/watch.html", "text/html; charset=utf-8" },
};

static int private_page(const ReceiverQuestion *question, Text *page, const char **typep, void *userdata) {
        const char *method = question->method, *path = question->path;
        Control *control = userdata;
        bool is_post = !strcmp(method, "POST");

        if (is_post && !strcmp(path, "/pause"))
                return steer(control, true, page);
        if (is_post && !strcmp(path, "/resume"))
                return steer(control, false, page);
        if (is_post && !strncmp(path, BOOST "/", strlen(BOOST "/")))
                return control->daemon.boost(control->daemon.userdata, path + strlen(BOOST), page);
        if ((is_post || !strcmp(method, "GET")) && !strncmp(path, RECORDER, strlen(RECORDER)) &&
            (!path[strlen(RECORDER)] || path[strlen(RECORDER)] == '/'))
                return show_recorder(control, is_post, path + strlen(RECORDER), page, typep);
        if (!strcmp(method, "GET") && !strcmp(path, "/status"))
                return show(control, metrics_print_status, page);
        if (!strcmp(method, "GET") && !strcmp(path, "/view"))
                return show(control, metrics_print_view, page);
        if (!strcmp(method, "GET") && !strcmp(path, "/status.json")) {
                *typep = "application/json";
                return show(control, metrics_print_json, page);
        }
        for (ControlForm form = 0; form < CONTROL_N_FORMS; form++)
                if (!strcmp(method, "GET") && !strcmp(path, watch_pages[form].path)) {
                        *typep = watch_pages[form].type ?: *typep;
                        return control->daemon.watch(control->daemon.userdata, form, page);
                }
        return public_page(question, page, typep, userdata);
}

/* ---- where it is served ---- */

/* Another process has @where, which the option @name asks for. Return: 0: it goes without. */
static int go_without(const char *name, const char *where, const char *why, bool *takenp) {
        if (*takenp)
                return 0;               /* was said */
        *takenp = true;
        log_write_event(LOG_LEVEL_WARNING, LOG_EVENT_UNSERVED, name,
                        "cannot listen on %s: %s; runs without and tries again. Stop the other one, or set `%s` to "
                        "another place", where, why, name);
        return 0;
}

static int serve_path(Control *control, const char *name, const char *path, bool must, bool *takenp,
                      ReceiverPage page, Receiver **receiverp) {
        const ReceiverConfig config = { .path = path, .on_page = page, .userdata = control };
        int r = control_servers_open(control->servers, control->event, &config, receiverp), error = errno;

        if (r != RECEIVER_E_PATH)
                return r;
        if (error == EADDRINUSE && must)
                return go_without(name, path, "another spanprof does", takenp);
        if (must && !*takenp) {
                log_error("cannot listen on %s (option `%s`): %s", path, name, strerror(error));
                return CONTROL_E_UNUSABLE;
        }
        if (error != EADDRINUSE)
                log_debug("no control socket at %s: %s", path, strerror(error));
        else if (!*takenp)
                log_notice("another spanprof runs and has %s: `spanprof status` shows that one", path);
        *takenp |= error == EADDRINUSE;
        return 0;
}

static int serve_control(Control *control) {
        return serve_path(control, "control", config_control(control->config), *control->config->daemon.control,
                          &control->socket_taken, private_page, &control->socket);
}

static int serve_metrics(Control *control) {
        ReceiverConfig config = { .on_page = public_page, .userdata = control };
        const char *where = control->config->daemon.metrics;
        char host[256];
        int r;

        if (!*where)
                return 0;
        if (*where == '/')
                return serve_path(control, "metrics", where, true, &control->port_taken, public_page,
                                  &control->port);
        if (option_split_address(where, host, sizeof(host), &config.port))
                return CONTROL_E_UNUSABLE;      /* the configuration's check has refused it */
        config.address = host;
        r = control_servers_open(control->servers, control->event, &config, &control->port);
        if (r == RECEIVER_E_TAKEN)
                return go_without("metrics", where, "another process does", &control->port_taken);
        if (r)
                return r > 0 ? CONTROL_E_UNUSABLE : r;
        log_info("metrics are at %s/metrics", receiver_url(control->port));
        return 0;
}

#define RETRY_FIRST_NS NS_PER_SEC
#define RETRY_LAST_NS (30 * NS_PER_SEC)

static bool lacks_something(const Control *control) {
        return (control->socket_taken && !control->socket) || (control->port_taken && !control->port);
}

/* A place that cannot be had for another reason (it is root's, and we are not any more) may be had later. */
static int on_retry(sd_event_source *source, uint64_t time_us, void *userdata) {
        Control *control = userdata;
        int r = 0;

        if (control->socket_taken && !control->socket)
                r = serve_control(control);
        if (r >= 0 && control->port_taken && !control->port)
                r = serve_metrics(control);
        if (r < 0)
                return error_fold(r);
        if (!lacks_something(control))
                return 0;
        control->retry_ns = MIN(2 * control->retry_ns, RETRY_LAST_NS);
        r = sd_event_source_set_time_relative(source, control->retry_ns / NS_PER_US);
        if (r >= 0)
                r = sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
        return r < 0 ? error_origin(r) : 0;
}

static int begin_retries(Control *control) {
        int r;

        if (!lacks_something(control))
                return 0;
        control->retry_ns = RETRY_FIRST_NS;
        r = sd_event_add_time_relative(control->event, &control->retry, CLOCK_MONOTONIC,
                                       control->retry_ns / NS_PER_US, 0, on_retry, control);
        return r < 0 ? error_origin(r) : 0;
}

/*
 * Kept sockets stay open until the process ends: a later reload may ask for one again, and could not open it.
 * While the configuration asks for another one, each is served by this page. Otherwise clients would connect
 * to a socket of which no connection is ever accepted, and wait.
 */
static int unused_page(const ReceiverQuestion *question, Text *page, const char **typep, void *userdata) {
        const Control *control = userdata;

        text_printf(page, "a reload has moved what was here: the control socket is %s\n",
                    config_control(control->config));
        return 410;
}

static bool is_used(const Config *config, const char *where, bool is_path, uint16_t port) {
        char host[256];
        uint16_t used;

        if (is_path)
                return !strcmp(where, config_control(config)) || !strcmp(where, config->daemon.metrics);
        return !option_split_address(config->daemon.metrics, host, sizeof(host), &used) && used == port &&
                !strcmp(host, where);
}

/* A kept descriptor that cannot be served is left alone: the configuration does not ask for it. */
static void serve_unused(Control *control) {
        const char *where;
        uint16_t port;
        bool is_path;

        for (size_t i = 0; i < LISTEN_MAX_KEPT && (where = listen_kept(i, &is_path, &port)); i++) {
                const ReceiverConfig config = { .path = is_path ? where : NULL,
                                                .address = where,
                                                .port = port,
                                                .on_page = unused_page,
                                                .userdata = control };
                Receiver *unused;

                if (!is_used(control->config, where, is_path, port))
                        (void)!control_servers_open(control->servers, control->event, &config, &unused);
        }
}

enum { FIRST_FREE_PORT = 1024, SOCKET_MODE = 0660, KEEP_TRIES = 30, KEEP_PAUSE_US = 100000 };

/* @must: as for ports; the default socket may well be another daemon's, and is not waited for. */
static void keep_path(const char *path, bool must, const char **paths) {
        int r;

        for (int i = 0; (r = listen_keep_path(path, SOCKET_MODE)) == LISTEN_E_PATH && errno == EADDRINUSE &&
             must && i < KEEP_TRIES; i++)
                usleep(KEEP_PAUSE_US);
        if (r)
                return;         /* control_new() logs why */
        while (*paths)
                paths++;
        paths[0] = path;
        paths[1] = NULL;
}

/*
 * Ports from 1024 on need no right: they can be opened later. A lower one is waited for a little, since this
 * is the only time that it can be had.
 */
static int keep_port(const char *where) {
        char host[256];
        uint16_t port;
        int r;

        if (option_split_address(where, host, sizeof(host), &port) || !port || port >= FIRST_FREE_PORT)
                return 0;
        for (int i = 0; (r = listen_keep(host, port)) == LISTEN_E_TAKEN && i < KEEP_TRIES; i++)
                usleep(KEEP_PAUSE_US);
        return r && r != LISTEN_E_TAKEN ? CONTROL_E_UNUSABLE : 0;
}

int control_keep(const Config *config, const char *paths[CONTROL_N_PATHS + 1]) {
        paths[0] = NULL;
        keep_path(config_control(config), *config->daemon.control, paths);
        if (*config->daemon.metrics == '/')
                keep_path(config->daemon.metrics, true, paths);
        else if (*config->daemon.metrics)
                return keep_port(config->daemon.metrics);
        return 0;
}

int control_new(Control **controlp, sd_event *event, const Config *config, ControlServers *servers,
                const ControlDaemon *daemon) {
        _cleanup_(control_freep) Control *control = calloc(1, sizeof(*control));
        int r;

        if (!control)
                return error_origin(-ENOMEM);
        control->daemon = *daemon;
        control->event = event;
        control->config = config;
        control->servers = servers;
        r = serve_control(control);
        if (!r)
                r = serve_metrics(control);
        if (r)
                return r > 0 ? CONTROL_E_UNUSABLE : error_fold(r);
        serve_unused(control);
        control_servers_sweep(servers, event, unused_page, control);
        r = begin_retries(control);
        if (r)
                return r;
        *controlp = take(control);
        return 0;
}

Control *control_free(Control *control) {
        if (!control)
                return NULL;
        sd_event_source_disable_unref(control->retry);
        if (control->servers)
                control_servers_rest(control->servers);
        free(control);
        return NULL;
}
