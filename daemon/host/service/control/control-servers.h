/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Control Servers
 *
 * The HTTP servers of one process behind its control socket and its metrics. Daemons come and go with each
 * reload, servers stay: who has connected to one is answered by the daemon that runs then.
 */

#include <systemd/sd-event.h>

#include "core/base/util/macro.h"
#include "core/http/receiver.h"

typedef struct ControlServers ControlServers;

/* Return: NULL = out of memory. */
ControlServers *control_servers_new(void);
ControlServers *control_servers_free(ControlServers *servers);
DEFINE_CLEANUP(ControlServers, control_servers_free)

/*
 * The server at the path, or address and port, of @config: the one that rests, or a new one. Answers by
 * @config's page on @event until control_servers_rest(). *receiverp: borrowed. Return: as receiver_new().
 */
int control_servers_open(ControlServers *servers, sd_event *event, const ReceiverConfig *config,
                         Receiver **receiverp);

/* The daemon that opened them ends: what clients ask from now on waits for the next one. */
void control_servers_rest(ControlServers *servers);

/* Ends servers that were not opened since they rest. What they have been asked is answered by @page first. */
void control_servers_sweep(ControlServers *servers, sd_event *event, ReceiverPage page, void *userdata);
