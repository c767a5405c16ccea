/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Connections
 *
 * Who is connected to a server, and for how long. An HTTP library knows one timeout, which each byte sets
 * back: a few hundred clients that send one byte every few seconds keep everybody else away. Here each phase
 * of a connection has an end of its own:
 *
 *     headers     whole within a time from accept, or from the end of the answer before
 *     body        at a least rate, after some time for nothing
 *     answer      read at a least rate, after some time for nothing
 *
 * A newcomer is always let in. When an address has as many connections as one may have, or all have as many
 * as there may be, an idle one goes, or else the one that has used its time least. What goes is shut down,
 * never closed: the descriptor belongs to the library, which then sees an end, and removes it here.
 */

#include <stdint.h>
#include <sys/socket.h>

#include "core/base/util/macro.h"

enum {
        CONNECTIONS_MAX = 256,
        CONNECTIONS_PER_ADDRESS = 128,  /* half: a proxy or this machine may be many clients */
        CONNECTIONS_SPARE = 64,         /* connections that are shut down, but not removed yet */
        CONNECTIONS_ADDRESS_ROOM = 64,
};

typedef struct Connection Connection;
typedef struct Connections Connections;

typedef struct ConnectionTimes {
        uint64_t headers_ns;            /* from accept to the end of the headers */
        uint64_t idle_ns;               /* from an answer to the end of the next headers */
} ConnectionTimes;

/* Return: NULL = out of memory. */
Connections *connections_new(const ConnectionTimes *times);
Connections *connections_free(Connections *connections);
DEFINE_CLEANUP(Connections, connections_free)

/*
 * @fd stays the caller's, and open until connections_remove(). May shut others down. Return: NULL = out of
 * memory, or more than CONNECTIONS_MAX + CONNECTIONS_SPARE.
 */
Connection *connections_add(Connections *connections, int fd, const struct sockaddr *address,
                            uint64_t now_ns);
void connections_remove(Connections *connections, Connection *connection);

/* The headers are whole. */
void connection_begin_body(Connection *connection, uint64_t now_ns);
void connection_take(Connection *connection, uint64_t n_bytes);
/* The body is whole, and waits for its turn. */
void connection_begin_work(Connection *connection, uint64_t now_ns);
/* The answer, of @n_bytes, is ready. */
void connection_begin_answer(Connection *connection, uint64_t n_bytes, uint64_t now_ns);
/* The answer is sent. */
void connection_rest(Connection *connection, uint64_t now_ns);

/* Numeric; of IPv6 the /64, which one host may have whole; "" for a socket in the filesystem. */
const char *connection_address(const Connection *connection);

/* Gives each connection @time_ns more, since none was served for so long. */
void connections_postpone(Connections *connections, uint64_t time_ns);

/* Shuts down whose time is over. Return: when to look again, UINT64_MAX = never. */
uint64_t connections_expire(Connections *connections, uint64_t now_ns);
