/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "core/base/util/clock.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "core/http/connections.h"

static const ConnectionTimes times = { .headers_ns = 5 * NS_PER_SEC, .idle_ns = 60 * NS_PER_SEC };
static Connections *connections;

typedef struct Peer {
        Connection *connection;
        int here, there;
} Peer;

static void begin(void) {
        log_set_level(LOG_LEVEL_ERROR);
        connections = connections_new(&times);
        cr_assert_not_null(connections);
}

static void end(void) {
        connections_free(connections);
}

TestSuite(connections, .init = begin, .fini = end);

static Peer add(const char *host, uint64_t now_ns) {
        struct sockaddr_in ipv4 = { .sin_family = AF_INET };
        struct sockaddr_in6 ipv6 = { .sin6_family = AF_INET6 };
        int fds[2];
        bool is_ipv4 = inet_pton(AF_INET, host, &ipv4.sin_addr) == 1;

        if (!is_ipv4)
                cr_assert_eq(inet_pton(AF_INET6, host, &ipv6.sin6_addr), 1);
        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        return (Peer){ connections_add(connections, fds[0],
                                       is_ipv4 ? (struct sockaddr *)&ipv4 : (struct sockaddr *)&ipv6, now_ns),
                       fds[0], fds[1] };
}

static void drop(Peer *peer) {
        connections_remove(connections, peer->connection);
        close(peer->here);
        close(peer->there);
}

static bool is_shut(const Peer *peer) {
        char byte;

        return recv(peer->there, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
}

static void say(const Peer *peer, size_t size) {
        char data[1024] = { 0 };

        cr_assert_eq(send(peer->there, data, size, 0), (ssize_t)size);
}

Test(connections, end_headers_by_accept_whatever_comes) {
        Peer peer = add("192.0.2.1", 0);
        char byte;

        cr_assert_eq(connections_expire(connections, 1 * NS_PER_SEC), 5 * NS_PER_SEC);
        for (unsigned i = 0; i < 5; i++) {
                say(&peer, 1);
                cr_assert_eq(recv(peer.here, &byte, 1, 0), 1);
        }
        connections_expire(connections, 5 * NS_PER_SEC - 1);
        cr_assert_not(is_shut(&peer));
        cr_assert_eq(connections_expire(connections, 5 * NS_PER_SEC), UINT64_MAX, "nothing else to wait for");
        cr_assert(is_shut(&peer));
        cr_assert_eq(stat_get(COUNTER_CONNECTIONS_SLOW_HEADERS), 1);
        connections_expire(connections, 6 * NS_PER_SEC);
        cr_assert_eq(stat_get(COUNTER_CONNECTIONS_SLOW_HEADERS), 1, "once");
        drop(&peer);
}

Test(connections, spare_who_was_not_read_in_time) {
        Peer peer = add("192.0.2.1", 0);
        char byte;

        say(&peer, 1);
        cr_assert_eq(connections_expire(connections, 5 * NS_PER_SEC), 5 * NS_PER_SEC + 100 * NS_PER_MS);
        cr_assert_not(is_shut(&peer));
        cr_assert_eq(recv(peer.here, &byte, 1, 0), 1);
        connections_expire(connections, 5 * NS_PER_SEC + 100 * NS_PER_MS);
        cr_assert(is_shut(&peer));
        drop(&peer);
}

Test(connections, want_a_least_rate_of_bodies) {
        Peer good = add("192.0.2.1", 0), bad = add("192.0.2.1", 0);

        connection_begin_body(good.connection, NS_PER_SEC);
        connection_begin_body(bad.connection, NS_PER_SEC);
        connection_take(good.connection, 64 << 10);
        connection_take(bad.connection, 1);
        connections_expire(connections, 12 * NS_PER_SEC);
        cr_assert(is_shut(&bad));
        cr_assert_not(is_shut(&good));
        cr_assert_eq(stat_get(COUNTER_CONNECTIONS_SLOW_BODY), 1);
        connections_expire(connections, 14 * NS_PER_SEC);
        cr_assert(is_shut(&good), "64 KiB are two seconds");
        drop(&good);
        drop(&bad);
}

Test(connections, want_a_least_rate_of_readers_also_of_those_who_ask_again_meanwhile) {
        Peer peer = add("192.0.2.1", 0);

        connection_begin_body(peer.connection, 0);
        connection_begin_answer(peer.connection, 1 << 20, 0);
        say(&peer, 100);
        connections_expire(connections, 41 * NS_PER_SEC);
        cr_assert_not(is_shut(&peer));
        connections_expire(connections, 43 * NS_PER_SEC);
        cr_assert(is_shut(&peer));
        cr_assert_eq(stat_get(COUNTER_CONNECTIONS_SLOW_ANSWER), 1);
        drop(&peer);
}

Test(connections, rest_after_an_answer) {
        Peer peer = add("192.0.2.1", 0);

        connection_begin_body(peer.connection, 0);
        connection_begin_answer(peer.connection, 10, 0);
        connection_rest(peer.connection, NS_PER_SEC);
        connections_expire(connections, 60 * NS_PER_SEC);
        cr_assert_not(is_shut(&peer));
        connections_expire(connections, 61 * NS_PER_SEC);
        cr_assert(is_shut(&peer));
        cr_assert_eq(stat_get(COUNTER_CONNECTIONS_IDLE), 1);
        drop(&peer);
}

Test(connections, of_one_address_leave_room_for_others) {
        static Peer peers[CONNECTIONS_PER_ADDRESS + 1];
        Peer other = add("192.0.2.2", 0);

        for (unsigned i = 0; i < CONNECTIONS_PER_ADDRESS; i++)
                peers[i] = add(i % 2 ? "192.0.2.1" : "::ffff:192.0.2.1", 10 + i);
        connection_begin_body(peers[0].connection, 500);
        cr_assert_not(is_shut(&peers[1]));
        peers[CONNECTIONS_PER_ADDRESS] = add("192.0.2.1", 1000);
        cr_assert(is_shut(&peers[1]), "the oldest");
        cr_assert_not(is_shut(&peers[0]));
        cr_assert_not(is_shut(&other), "older, but of another");
        cr_assert_eq(stat_get(COUNTER_CONNECTIONS_ADDRESS_FULL), 1);
        for (unsigned i = 0; i < ARRAY_SIZE(peers); i++)
                drop(&peers[i]);
        drop(&other);
}

Test(connections, of_all_addresses_make_room_for_a_new_one) {
        static Peer peers[CONNECTIONS_MAX + 1];

        for (unsigned i = 0; i < CONNECTIONS_MAX; i++) {
                char host[32];

                snprintf(host, sizeof(host), "2001:db8:0:%x::1", i);
                peers[i] = add(host, i);
                if (i < 3) {
                        connection_begin_body(peers[i].connection, i);
                        connection_take(peers[i].connection, 1 << 10);
                }
        }
        peers[CONNECTIONS_MAX] = add("192.0.2.1", 1000);
        cr_assert(is_shut(&peers[3]), "bodies that come count as younger");
        cr_assert_eq(stat_get(COUNTER_CONNECTIONS_FULL), 1);
        for (unsigned i = 0; i < ARRAY_SIZE(peers); i++)
                drop(&peers[i]);
}

/* A slow crowd sends bodies; a client that was just let in must not go before one of the crowd. */
Test(connections, let_a_new_one_stay_while_others_come) {
        static Peer peers[CONNECTIONS_MAX + 2];
        Peer idle;

        for (unsigned i = 0; i < CONNECTIONS_MAX - 1; i++) {
                char host[32];

                snprintf(host, sizeof(host), "2001:db8:0:%x::1", i);
                peers[i] = add(host, i);
                connection_begin_body(peers[i].connection, i);
        }
        idle = add("192.0.2.2", 500);
        connection_begin_body(idle.connection, 500);
        connection_begin_answer(idle.connection, 10, 600);
        connection_rest(idle.connection, 700);
        peers[CONNECTIONS_MAX - 1] = add("192.0.2.1", 1000);
        cr_assert(is_shut(&idle), "it loses nothing");
        connection_begin_work(peers[0].connection, 1);
        for (unsigned i = 0; i < 2; i++) {
                peers[CONNECTIONS_MAX + i] = add("192.0.2.3", 1001 + i);
                cr_assert_not(is_shut(&peers[CONNECTIONS_MAX - 1]));
                cr_assert(is_shut(&peers[1 + i]), "%u", i);
        }
        cr_assert_not(is_shut(&peers[0]), "it waits for us");
        for (unsigned i = 0; i < ARRAY_SIZE(peers); i++)
                drop(&peers[i]);
        drop(&idle);
}

Test(connections, are_never_more_than_there_is_room_for) {
        static Peer peers[CONNECTIONS_MAX + CONNECTIONS_SPARE];
        Peer more;

        for (unsigned i = 0; i < ARRAY_SIZE(peers); i++)
                peers[i] = add("192.0.2.1", i);
        more = add("192.0.2.2", 1000);
        cr_assert_null(more.connection);
        close(more.here);
        close(more.there);
        for (unsigned i = 0; i < ARRAY_SIZE(peers); i++)
                drop(&peers[i]);
}

Test(connections, have_an_address_by_which_they_are_counted) {
        static const struct { const char *host, *address; } cases[] = {
                { "192.0.2.1", "192.0.2.1" },
                { "::ffff:192.0.2.1", "192.0.2.1" },
                { "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64" },
                { "::1", "::1" },
        };
        const struct sockaddr_un file = { .sun_family = AF_UNIX };
        Connection *connection;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                Peer peer = add(cases[i].host, 0);

                cr_expect_str_eq(connection_address(peer.connection), cases[i].address);
                drop(&peer);
        }
        connection = connections_add(connections, -1, (const struct sockaddr *)&file, 0);
        cr_assert_str_empty(connection_address(connection));
        connections_remove(connections, connection);
}
