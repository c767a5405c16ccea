/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Control
 *
 * How others look at a running daemon and steer it: HTTP on a socket of its own, mode 0660 (/status,
 * /status.json, /watch, /watch.json, /watch.html, /view, /metrics, /healthz, /readyz, /recorder/…; POST
 * /pause, /resume and /boost/…), and the harmless part of it, if wanted, on a port for Prometheus: with a
 * token, POST /recorder/keep/…, too. control-client.c is the client.
 */

#include <stdbool.h>
#include <systemd/sd-event.h>

#include "core/base/util/macro.h"
#include "core/base/util/text.h"
#include "core/http/bearer.h"
#include "host/service/config/config.h"
#include "host/service/control/control-servers.h"
#include "host/service/control/metrics.h"

typedef struct Control Control;

typedef enum ControlForm {
        CONTROL_TEXT,
        CONTROL_JSON,
        CONTROL_HTML,
        CONTROL_N_FORMS,
} ControlForm;

/* Calls of Control into the daemon that it belongs to. */
typedef struct ControlDaemon {
        void (*read)(void *userdata, Metrics *metrics);         /* reads its state now */
        /*
         * Pauses or resumes by command. *reasonp: why it is paused all the same (static), NULL = it samples.
         * Return: 0, -errno.
         */
        int (*pause)(void *userdata, bool paused, const char **reasonp);
        /* A page below /recorder, as ReceiverPage; @path: what is behind that. Return: HTTP status. */
        int (*recorder)(void *userdata, bool is_post, const char *path, Text *page, const char **typep);
        /* What is known of builds. Return: HTTP status. */
        int (*watch)(void *userdata, ControlForm form, Text *page);
        /* Begins a boost; @path: what is behind /boost. Return: HTTP status. */
        int (*boost)(void *userdata, const char *path, Text *page);
        const Bearer *tokens;           /* tokens that let one ask the recorder to ship; none: nobody */
        void *userdata;
} ControlDaemon;

enum { CONTROL_N_PATHS = 2 };           /* sockets in the filesystem: its own, that of metrics */

enum {
        _CONTROL_E_SUCCESS,
        CONTROL_E_UNUSABLE,             /* the path or address cannot be had, now or ever; logged */
        CONTROL_E_UNREACHABLE,          /* no daemon answers there; errno says why */
};

/*
 * Serves what @config asks for, by @servers, which the daemons of one process hand on. @daemon is copied;
 * @config, @event, @servers, tokens and userdata are borrowed. Return: 0, CONTROL_E_UNUSABLE, -errno.
 */
int control_new(Control **controlp, sd_event *event, const Config *config, ControlServers *servers,
                const ControlDaemon *daemon);
Control *control_free(Control *control);
DEFINE_CLEANUP(Control, control_free)

/*
 * Listens ahead, for a daemon that will not have the right to. @paths: those of @config that it has made,
 * ended by NULL. A path that cannot be had is logged by control_new(). Return: 0, CONTROL_E_UNUSABLE.
 */
int control_keep(const Config *config, const char *paths[CONTROL_N_PATHS + 1]);

/*
 * Asks the daemon behind the socket @path, once more if the connection ends without an answer. *statusp: of
 * HTTP. @answer: any bytes. Return: 0, CONTROL_E_UNREACHABLE, -ENOMEM.
 */
int control_ask(const char *path, const char *method, const char *page, int *statusp, Text *answer);
