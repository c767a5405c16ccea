/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Gives each connection a phase with an end, shuts those that are past it, and makes room for a new one by
 * shutting another: an idle one first, then the oldest.
 */

#include "core/http/connections.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "core/base/util/clock.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"

/*
 * Bytes a second that a network must carry, and a time for nothing: names, handshakes, a receiver that is
 * busy itself.
 */
enum { LEAST_RATE = 32 << 10, GRACE_S = 10, LOOK_AGAIN_MS = 100 };

typedef enum Phase {
        PHASE_HEADERS,
        PHASE_IDLE,
        PHASE_BODY,
        PHASE_WORK,
        PHASE_ANSWER,
} Phase;

struct Connection {
        int fd;
        Phase phase;
        bool is_shut;
        uint64_t since_ns, end_ns;      /* begin and end of the phase; bytes of a body put off both */
        uint64_t idle_ns;
        char address[CONNECTIONS_ADDRESS_ROOM];
};

struct Connections {
        ConnectionTimes times;
        unsigned n;
        Connection *all[CONNECTIONS_MAX + CONNECTIONS_SPARE];
};

Connections *connections_new(const ConnectionTimes *times) {
        Connections *connections = calloc(1, sizeof(*connections));

        if (connections)
                connections->times = *times;
        return connections;
}

Connections *connections_free(Connections *connections) {
        if (!connections)
                return NULL;
        for (unsigned i = 0; i < connections->n; i++)
                free(connections->all[i]);
        free(connections);
        return NULL;
}

/* ---- the end of one ---- */

static void say(const Connection *connection, const char *why) {
        static LogLimit limit;
        uint64_t n_skipped;

        if (!log_limit(&limit, 60 * NS_PER_SEC, &n_skipped))
                return;
        log_notice("closed a connection of %s: %s (%" PRIu64 " more since the last message)",
                   *connection->address ? connection->address : "the socket", why, n_skipped);
}

static void shut(Connection *connection, enum counter counter, const char *why) {
        stat_add(counter, 1);
        if (counter == COUNTER_CONNECTIONS_IDLE)
                log_debug("closed a connection of %s: %s", connection->address, why);
        else
                say(connection, why);
        connection->is_shut = true;
        shutdown(connection->fd, SHUT_RDWR);
}

static void shut_late(Connection *connection) {
        switch (connection->phase) {
        case PHASE_HEADERS:
                shut(connection, COUNTER_CONNECTIONS_SLOW_HEADERS, "its headers were not whole in time");
                break;
        case PHASE_IDLE:
                shut(connection, COUNTER_CONNECTIONS_IDLE, "no other request came");
                break;
        case PHASE_BODY:
                shut(connection, COUNTER_CONNECTIONS_SLOW_BODY, "its body came too slowly");
                break;
        case PHASE_WORK:                /* work has no end: it is our own delay */
                break;
        case PHASE_ANSWER:
                shut(connection, COUNTER_CONNECTIONS_SLOW_ANSWER, "it read the answer too slowly");
                break;
        }
}

/* ---- too many ---- */

/* IPv4 within IPv6 is IPv4. */
static void print_address(char *to, const struct sockaddr *address) {
        const struct sockaddr_in6 *ipv6 = (const struct sockaddr_in6 *)address;
        const struct sockaddr_in *ipv4 = (const struct sockaddr_in *)address;
        struct in6_addr network;

        *to = 0;
        if (address && address->sa_family == AF_INET)
                inet_ntop(AF_INET, &ipv4->sin_addr, to, CONNECTIONS_ADDRESS_ROOM);
        if (!address || address->sa_family != AF_INET6)
                return;
        network = ipv6->sin6_addr;
        if (IN6_IS_ADDR_V4MAPPED(&network)) {
                inet_ntop(AF_INET, network.s6_addr + 12, to, CONNECTIONS_ADDRESS_ROOM);
                return;
        }
        if (!IN6_IS_ADDR_LOOPBACK(&network))
                memset(network.s6_addr + 8, 0, 8);
        inet_ntop(AF_INET6, &network, to, CONNECTIONS_ADDRESS_ROOM - 4);
        if (!IN6_IS_ADDR_LOOPBACK(&network))
                strcat(to, "/64");
}

/*
 * An idle connection loses nothing. Then the order is by how long a connection has had its place for
 * nothing: a new one whose request is on its way has the shortest such time, and bytes of a body move its
 * beginning, so that slow bodies go before a body at a good rate. What waits for us goes last.
 */
static int rank(const Connection *connection) {
        return connection->phase == PHASE_IDLE ? 0 : connection->phase == PHASE_WORK ? 2 : 1;
}

static bool goes_before(const Connection *a, const Connection *b) {
        return rank(a) != rank(b) ? rank(a) < rank(b) : a->since_ns < b->since_ns;
}

/* @address: NULL = all. Return: how many live, and which would go first. */
static unsigned count(const Connections *connections, const char *address, Connection **firstp) {
        unsigned n = 0;

        *firstp = NULL;
        for (unsigned i = 0; i < connections->n; i++) {
                Connection *connection = connections->all[i];

                if (connection->is_shut || (address && strcmp(connection->address, address)))
                        continue;
                if (!*firstp || goes_before(connection, *firstp))
                        *firstp = connection;
                n++;
        }
        return n;
}

static void make_room(const Connections *connections, const char *address) {
        Connection *first;

        if (*address && count(connections, address, &first) >= CONNECTIONS_PER_ADDRESS)
                shut(first, COUNTER_CONNECTIONS_ADDRESS_FULL,
                     "its address has as many as one may have, and this one used its time least");
        if (count(connections, NULL, &first) >= CONNECTIONS_MAX)
                shut(first, COUNTER_CONNECTIONS_FULL,
                     "there are as many as there may be, and this one used its time least");
}

/* ---- one ---- */

static void begin(Connection *connection, Phase phase, uint64_t now_ns, uint64_t time_ns) {
        connection->phase = phase;
        connection->since_ns = now_ns;
        connection->end_ns = now_ns + time_ns;
}

Connection *connections_add(Connections *connections, int fd, const struct sockaddr *address,
                            uint64_t now_ns) {
        Connection *connection;

        if (connections->n == ARRAY_SIZE(connections->all))
                return NULL;
        connection = calloc(1, sizeof(*connection));
        if (!connection)
                return NULL;
        connection->fd = fd;
        connection->idle_ns = connections->times.idle_ns;
        begin(connection, PHASE_HEADERS, now_ns, connections->times.headers_ns);
        print_address(connection->address, address);
        make_room(connections, connection->address);
        connections->all[connections->n++] = connection;
        return connection;
}

void connections_remove(Connections *connections, Connection *connection) {
        for (unsigned i = 0; i < connections->n; i++)
                if (connections->all[i] == connection) {
                        connections->all[i] = connections->all[--connections->n];
                        break;
                }
        free(connection);
}

static uint64_t transfer_ns(uint64_t n_bytes) {
        return n_bytes * (NS_PER_SEC / LEAST_RATE);
}

void connection_begin_body(Connection *connection, uint64_t now_ns) {
        begin(connection, PHASE_BODY, now_ns, GRACE_S * NS_PER_SEC);
}

void connection_take(Connection *connection, uint64_t n_bytes) {
        connection->since_ns += transfer_ns(n_bytes);
        connection->end_ns += transfer_ns(n_bytes);
}

void connection_begin_work(Connection *connection, uint64_t now_ns) {
        begin(connection, PHASE_WORK, now_ns, UINT64_MAX - now_ns);
}

void connection_begin_answer(Connection *connection, uint64_t n_bytes, uint64_t now_ns) {
        begin(connection, PHASE_ANSWER, now_ns, GRACE_S * NS_PER_SEC + transfer_ns(n_bytes));
}

void connection_rest(Connection *connection, uint64_t now_ns) {
        begin(connection, PHASE_IDLE, now_ns, connection->idle_ns);
}

const char *connection_address(const Connection *connection) {
        return connection->address;
}

/*
 * Tells whether bytes have come that were not read yet: that is our own delay (a loop that was held up, a
 * machine that slept), unless it is the answer that is not read.
 */
static bool has_come(const Connection *connection) {
        int n_bytes = 0;

        return connection->phase != PHASE_ANSWER && !ioctl(connection->fd, FIONREAD, &n_bytes) && n_bytes > 0;
}

void connections_postpone(Connections *connections, uint64_t time_ns) {
        for (unsigned i = 0; i < connections->n; i++)
                connections->all[i]->end_ns += time_ns;
}

uint64_t connections_expire(Connections *connections, uint64_t now_ns) {
        uint64_t next_ns = UINT64_MAX;

        for (unsigned i = 0; i < connections->n; i++) {
                Connection *connection = connections->all[i];

                if (connection->is_shut)
                        continue;
                if (connection->end_ns <= now_ns && !has_come(connection)) {
                        shut_late(connection);
                        continue;
                }
                next_ns = MIN(next_ns, MAX(connection->end_ns, now_ns + LOOK_AGAIN_MS * NS_PER_MS));
        }
        return next_ns;
}
