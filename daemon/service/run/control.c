/* SPDX-License-Identifier: Apache-2.0 */
#include "service/run/control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util/error.h"
#include "base/util/log.h"
#include "delivery/receive/listen.h"
#include "delivery/receive/receiver.h"

struct Control {
        ControlDaemon daemon;
        sd_event *event;
        const Config *config;
        Receiver *socket, *port;        /* NULL = not served */
        Receiver *unused[LISTEN_MAX_KEPT];
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

static int public_page(const char *method, const char *path, Text *page, const char **typep, void *userdata) {
        Control *control = userdata;

        if (strcmp(method, "GET") && strcmp(method, "HEAD")) {
                text_printf(page, "only GET is answered here\n");
                return 405;
        }
        if (!strcmp(path, "/metrics")) {
                *typep = "text/plain; version=0.0.4; charset=utf-8";
                return show(control, metrics_print, page);
        }
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

static int private_page(const char *method, const char *path, Text *page, const char **typep,
                        void *userdata) {
        Control *control = userdata;
        bool is_post = !strcmp(method, "POST");

        if (is_post && !strcmp(path, "/pause"))
                return steer(control, true, page);
        if (is_post && !strcmp(path, "/resume"))
                return steer(control, false, page);
        if (!strcmp(method, "GET") && !strcmp(path, "/status"))
                return show(control, metrics_print_status, page);
        if (!strcmp(method, "GET") && !strcmp(path, "/status.json")) {
                *typep = "application/json";
                return show(control, metrics_print_json, page);
        }
        return public_page(method, path, page, typep, userdata);
}

/* ---- where it is served ---- */

static int serve_path(Control *control, const char *path, ReceiverPage page, bool must,
                      Receiver **receiverp) {
        const ReceiverConfig config = { .path = path, .on_page = page, .userdata = control };
        int r = receiver_new(receiverp, control->event, &config);

        if (r != RECEIVER_E_PATH)
                return r;
        if (must) {
                log_error("cannot listen on %s: %s", path,
                          errno == EADDRINUSE ? "another spanprof does" : strerror(errno));
                return CONTROL_E_UNUSABLE;
        }
        if (errno == EADDRINUSE)
                log_notice("another spanprof runs and has %s: `spanprof status` shows that one", path);
        else
                log_debug("no control socket at %s: %m", path);
        return 0;
}

static const char *control_path(const Config *config) {
        return *config->control ? config->control : CONTROL_DEFAULT;
}

static int serve_control(Control *control) {
        return serve_path(control, control_path(control->config), private_page, *control->config->control,
                          &control->socket);
}

/* `ADDRESS:PORT`, with brackets around an address that has colons itself. */
static int split_address(const char *text, char *host, size_t size, uint16_t *portp) {
        const char *colon = strrchr(text, ':');
        size_t length = colon ? (size_t)(colon - text) : 0;
        uint64_t port;

        if (!length || length >= size || text_u64(colon + 1, 65535, &port))
                return 1;
        if (*text == '[' && colon[-1] == ']') {
                text++;
                length -= 2;
        }
        snprintf(host, size, "%.*s", (int)length, text);
        *portp = (uint16_t)port;
        return 0;
}

static int serve_metrics(Control *control) {
        ReceiverConfig config = { .on_page = public_page, .userdata = control };
        const char *where = control->config->metrics;
        char host[256];
        int r;

        if (!*where)
                return 0;
        if (*where == '/')
                return serve_path(control, where, public_page, true, &control->port);
        if (split_address(where, host, sizeof(host), &config.port)) {
                log_error("metrics: `%s` is neither ADDRESS:PORT nor a path", where);
                return CONTROL_E_UNUSABLE;
        }
        config.address = host;
        r = receiver_new(&control->port, control->event, &config);
        if (r)
                return r > 0 ? CONTROL_E_UNUSABLE : r;
        log_info("metrics are at %s/metrics", receiver_url(control->port));
        return 0;
}

/*
 * Kept sockets stay open until the process ends: a later reload may ask for one again, and could not open it.
 * While the configuration asks for another one, each is served by this page. Otherwise clients would connect
 * to a socket of which no connection is ever accepted, and wait.
 */
static int unused_page(const char *method, const char *path, Text *page, const char **typep, void *userdata) {
        const Control *control = userdata;

        text_printf(page, "a reload has moved what was here: the control socket is %s\n",
                    control_path(control->config));
        return 410;
}

static bool is_used(const Config *config, const char *where, bool is_path, uint16_t port) {
        char host[256];
        uint16_t used;

        if (is_path)
                return !strcmp(where, control_path(config)) || !strcmp(where, config->metrics);
        return !split_address(config->metrics, host, sizeof(host), &used) && used == port &&
                !strcmp(host, where);
}

/* One that cannot be served is left alone: no one asks the daemon for it. */
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

                if (!is_used(control->config, where, is_path, port))
                        (void)!receiver_new(&control->unused[i], control->event, &config);
        }
}

enum { FIRST_FREE_PORT = 1024, SOCKET_MODE = 0660 };

static void keep_path(const char *path, const char **paths) {
        if (listen_keep_path(path, SOCKET_MODE))
                return;         /* control_new() logs why */
        while (*paths)
                paths++;
        paths[0] = path;
        paths[1] = NULL;
}

/* Ports from 1024 on need no right: they can be opened later. */
static int keep_port(const char *where) {
        char host[256];
        uint16_t port;

        if (split_address(where, host, sizeof(host), &port) || !port || port >= FIRST_FREE_PORT)
                return 0;
        return listen_keep(host, port) ? CONTROL_E_UNUSABLE : 0;
}

int control_keep(const Config *config, const char *paths[CONTROL_N_PATHS + 1]) {
        paths[0] = NULL;
        keep_path(control_path(config), paths);
        if (*config->metrics == '/')
                keep_path(config->metrics, paths);
        else if (*config->metrics)
                return keep_port(config->metrics);
        return 0;
}

int control_new(Control **controlp, sd_event *event, const Config *config, const ControlDaemon *daemon) {
        _cleanup_(control_freep) Control *control = calloc(1, sizeof(*control));
        int r;

        if (!control)
                return error_origin(-ENOMEM);
        control->daemon = *daemon;
        control->event = event;
        control->config = config;
        r = serve_control(control);
        if (!r)
                r = serve_metrics(control);
        if (r)
                return r > 0 ? CONTROL_E_UNUSABLE : error_fold(r);
        serve_unused(control);
        *controlp = take(control);
        return 0;
}

Control *control_free(Control *control) {
        if (!control)
                return NULL;
        receiver_free(control->socket);
        receiver_free(control->port);
        for (size_t i = 0; i < LISTEN_MAX_KEPT; i++)
                receiver_free(control->unused[i]);
        free(control);
        return NULL;
}
