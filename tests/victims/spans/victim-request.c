/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-request [SECONDS [WORK_US]]: what a service pays for being profiled
 *
 * A client thread sends a request over a socket pair and waits for the reply; a
 * server thread does WORK_US (default 50) microseconds of work for each, with a
 * span published by the SDK. Closed loop, one request at a time. It only prints
 * figures, once a second and for all of it; the bench compares runs:
 *     pid 4711
 *     second 1 requests 15210 p50_ns 61230 p99_ns 98811
 *     total seconds 10.000 requests 152417 p50_ns 61301 p99_ns 99120
 */
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

#include "spanprof/context.h"
#include "victim.h"

enum {
        /* latencies are kept to 0.1 µs, up to 10 ms; longer ones in the last bucket */
        BUCKET_NS = 100,
        N_BUCKETS = 100000,
};

typedef struct Latencies {
        uint64_t n;
        uint32_t buckets[N_BUCKETS];
} Latencies;

typedef struct Request {
        uint64_t trace_high, trace_low, span;
} Request;

static int sockets[2];                  /* client, server */
static unsigned int work_rounds;
static Latencies latencies_second, latencies_total;

STEP void request_work(unsigned int rounds);

STEP void request_work(unsigned int rounds) {
        KEEP_FRAME();
        victim_sink = victim_spin(victim_sink, rounds);
}

/*
 * The least of a few tries; so much for calibration: the same work in every run matters more than its exact
 * length.
 */
static unsigned int rounds_for(uint64_t work_ns) {
        enum { N_TRIES = 10, ROUNDS = 200000 };
        uint64_t least_ns = UINT64_MAX;

        for (int i = 0; i < N_TRIES; i++) {
                uint64_t start_ns = victim_cpu_ns(), took_ns;

                request_work(ROUNDS);
                took_ns = victim_cpu_ns() - start_ns;
                least_ns = took_ns < least_ns ? took_ns : least_ns;
        }
        return (unsigned int)(work_ns * ROUNDS / least_ns);
}

static void *server_main(void *data) {
        Request request;

        while (recv(sockets[1], &request, sizeof(request), 0) == sizeof(request)) {
                spanprof_context_set(request.trace_high, request.trace_low, request.span);
                request_work(work_rounds);
                spanprof_context_clear();
                if (send(sockets[1], &request.span, sizeof(request.span), MSG_NOSIGNAL) < 0)
                        break;
        }
        return NULL;
}

static void latencies_add(Latencies *latencies, uint64_t ns) {
        uint64_t bucket = ns / BUCKET_NS;

        latencies->buckets[bucket < N_BUCKETS ? bucket : N_BUCKETS - 1]++;
        latencies->n++;
}

/* The value under which @percent % of them lie. */
static uint64_t latencies_percentile(const Latencies *latencies, unsigned int percent) {
        uint64_t seen = 0, bucket;

        for (bucket = 0; bucket < N_BUCKETS - 1; bucket++) {
                seen += latencies->buckets[bucket];
                if (seen * 100 >= latencies->n * percent)
                        break;
        }
        return (bucket + 1) * BUCKET_NS;
}

static void latencies_print(const Latencies *latencies) {
        printf("requests %lu p50_ns %lu p99_ns %lu\n", latencies->n, latencies_percentile(latencies, 50),
               latencies_percentile(latencies, 99));
        fflush(stdout);
}

/* One request and its reply. */
static void client_ask(uint64_t span) {
        Request request = { 0x1d, 0x2e, span };
        uint64_t reply = 0, start_ns = victim_clock_ns(CLOCK_MONOTONIC), took_ns;

        if (send(sockets[0], &request, sizeof(request), MSG_NOSIGNAL) != sizeof(request) ||
            recv(sockets[0], &reply, sizeof(reply), 0) != sizeof(reply) || reply != span) {
                perror("victim-request");
                exit(1);
        }
        took_ns = victim_clock_ns(CLOCK_MONOTONIC) - start_ns;
        latencies_add(&latencies_second, took_ns);
        latencies_add(&latencies_total, took_ns);
}

static void client_run(void) {
        uint64_t start_ns = victim_clock_ns(CLOCK_MONOTONIC), second_ns = start_ns, span = 0;
        unsigned int n_seconds = 0;

        while (!victim_stopped) {
                client_ask(++span);
                if (victim_clock_ns(CLOCK_MONOTONIC) - second_ns < 1000000000)
                        continue;
                printf("second %u ", ++n_seconds);
                latencies_print(&latencies_second);
                memset(&latencies_second, 0, sizeof(latencies_second));
                second_ns = victim_clock_ns(CLOCK_MONOTONIC);
        }
        printf("total seconds %.3f ", (double)(victim_clock_ns(CLOCK_MONOTONIC) - start_ns) / 1e9);
        latencies_print(&latencies_total);
}

int main(int argc, char **argv) {
        static const char usage[] = "victim-request [SECONDS [WORK_US]]";
        double seconds = victim_argument(argc, argv, 1, 0, 0, 1e6, usage);
        pthread_t server;

        work_rounds = rounds_for((uint64_t)(victim_argument(argc, argv, 2, 50, 0, 1e6, usage) * 1000));
        /* seqpacket: a message is a request; restarted calls: the stop signal tears none */
        if (spanprof_context_start(NULL) || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) ||
            pthread_create(&server, NULL, server_main, NULL))
                return 1;
        pthread_setname_np(server, "server");
        victim_stop_after(seconds);
        printf("pid %d\n", getpid());
        fflush(stdout);
        client_run();
        shutdown(sockets[0], SHUT_RDWR);
        pthread_join(server, NULL);
        return 0;
}
