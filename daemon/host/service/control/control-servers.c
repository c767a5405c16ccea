/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How a reload cuts off no client
 *
 * A reload ends one daemon with its event loop, and makes the next. A server that ended with it would close
 * the connections that it has accepted, and a client would see the end of one without an answer. So servers
 * belong to the process:
 *
 *     daemon 1 ── open ──▶ answers ── rest ──▶ answers stop, clients wait ──── open ──▶ daemon 2 answers
 *                                                                            └ sweep ─▶ moved: 410, closed
 *
 * One is found again by where it listens. A path or a port that the new configuration does not have any more
 * is swept. So is a path at which another file is by then, or none: no client would reach us there.
 */

#include "host/service/control/control-servers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/util/error.h"
#include "core/http/listen.h"

/* The control socket, the metrics, and what is kept open, though unused; before and after a reload. */
enum { MAX_SERVERS = 2 * (2 + LISTEN_MAX_KEPT) };

typedef struct Server {
        Receiver *receiver;             /* NULL = this place is free */
        bool rests;
        bool is_path;
        uint16_t port;
        char where[256];                /* the path, or the address */
        /* device of the path's file when it began to listen; 0 = there was none */
        dev_t device;
        ino_t inode;
} Server;

struct ControlServers {
        Server all[MAX_SERVERS];
};

ControlServers *control_servers_new(void) {
        return calloc(1, sizeof(ControlServers));
}

ControlServers *control_servers_free(ControlServers *servers) {
        if (!servers)
                return NULL;
        for (size_t i = 0; i < MAX_SERVERS; i++)
                receiver_free(servers->all[i].receiver);
        free(servers);
        return NULL;
}

static void look_at_path(Server *server) {
        struct stat st;
        bool there = !lstat(server->where, &st);

        server->device = there ? st.st_dev : 0;
        server->inode = there ? st.st_ino : 0;
}

static bool has_its_file(const Server *server) {
        Server now = *server;

        look_at_path(&now);
        return now.device == server->device && now.inode == server->inode;
}

/* A port that the kernel chooses (0) is another one each time. */
static bool is_at(const Server *server, const ReceiverConfig *config) {
        if (!server->receiver || !server->rests || server->is_path != !!config->path)
                return false;
        if (config->path)
                return !strcmp(server->where, config->path) && has_its_file(server);
        return config->port && server->port == config->port && !strcmp(server->where, config->address);
}

static int make(Server *server, sd_event *event, const ReceiverConfig *config) {
        int r = receiver_new(&server->receiver, event, config), error = errno;

        if (r)
                return errno = error, r;
        server->rests = false;
        server->is_path = config->path;
        server->port = config->path ? 0 : config->port;
        snprintf(server->where, sizeof(server->where), "%s", config->path ? config->path : config->address);
        if (server->is_path)
                look_at_path(server);
        return 0;
}

static Server *find(ControlServers *servers, const ReceiverConfig *config) {
        for (size_t i = 0; i < MAX_SERVERS; i++)
                if (is_at(&servers->all[i], config))
                        return &servers->all[i];
        return NULL;
}

static Server *find_free(ControlServers *servers) {
        for (size_t i = 0; i < MAX_SERVERS; i++)
                if (!servers->all[i].receiver)
                        return &servers->all[i];
        return NULL;
}

/* Ends a server. @page answers requests that it still has. */
static void end(Server *server, sd_event *event, ReceiverPage page, void *userdata) {
        if (!receiver_attach(server->receiver, event, page, userdata))
                receiver_answer_now(server->receiver);
        server->receiver = receiver_free(server->receiver);
}

/* The same port, at another address: while we hold it, the port cannot be had at all addresses. */
static void make_way(ControlServers *servers, sd_event *event, const ReceiverConfig *config) {
        for (size_t i = 0; i < MAX_SERVERS; i++) {
                Server *server = &servers->all[i];

                if (server->receiver && server->rests && !server->is_path && server->port == config->port)
                        end(server, event, config->on_page, config->userdata);
        }
}

int control_servers_open(ControlServers *servers, sd_event *event, const ReceiverConfig *config,
                         Receiver **receiverp) {
        Server *server = find(servers, config);
        int r;

        if (server) {
                r = receiver_attach(server->receiver, event, config->on_page, config->userdata);
                if (r)
                        return error_fold(r);
                server->rests = false;
                *receiverp = server->receiver;
                return 0;
        }
        if (!config->path && config->port)
                make_way(servers, event, config);
        server = find_free(servers);
        if (!server)
                return error_origin(-ENOSPC);
        r = make(server, event, config);
        if (!r)
                *receiverp = server->receiver;
        return r;
}

void control_servers_rest(ControlServers *servers) {
        for (size_t i = 0; i < MAX_SERVERS; i++)
                if (servers->all[i].receiver) {
                        receiver_detach(servers->all[i].receiver);
                        servers->all[i].rests = true;
                }
}

void control_servers_sweep(ControlServers *servers, sd_event *event, ReceiverPage page, void *userdata) {
        for (size_t i = 0; i < MAX_SERVERS; i++) {
                Server *server = &servers->all[i];

                if (server->receiver && server->rests)
                        end(server, event, page, userdata);
        }
}
