/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Control
 *
 * How others look at a running daemon and steer it: HTTP on a socket of its own, mode 0660 (/status,
 * /status.json, /metrics, /healthz, /readyz; POST /pause and /resume), and the harmless part of it, if
 * wanted, on a port for Prometheus. And the client's end.
 */

#include "base/util/text.h"
#include "service/run/daemon.h"

typedef struct Control Control;

enum {
        _CONTROL_E_SUCCESS,
        CONTROL_E_UNUSABLE,             /* the socket or port that was asked for cannot be had; logged */
        CONTROL_E_UNREACHABLE,          /* nobody answers there; errno says why */
};

/* Return: 0, CONTROL_E_UNUSABLE, -errno. */
int control_new(Control **controlp, Daemon *daemon);
Control *control_free(Control *control);
DEFINE_CLEANUP(Control, control_free)

/* Asks the daemon behind the socket @path. *statusp: of HTTP. Return: 0, CONTROL_E_UNREACHABLE, -ENOMEM. */
int control_ask(const char *path, const char *method, const char *page, int *statusp, Text *answer);
