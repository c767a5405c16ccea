/* SPDX-License-Identifier: Apache-2.0 */
/*
 * example-service: a service to try a profiler on
 *
 * Serves made-up requests on a few threads, publishes a span for each of them,
 * and says at the end what a profile of it should have shown: the CPU time of
 * each operation by the threads' own clocks.
 *
 * SIGUSR1 prints the truth so far; SIGTERM and SIGINT end it.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "load.h"
#include "operations.h"
#include "pool.h"
#include "spanlog.h"
#include "spanprof/context.h"

/* The demo's build sets it to what carries names, too (demo/meson.build). */
#ifndef EXAMPLE_STORAGE
#define EXAMPLE_STORAGE SPANPROF_CONTEXT_UNSAID
#endif

typedef struct Options {
        double duration_s;              /* 0 = until a signal */
        double load;                    /* share of the workers' time that requests need */
        double rate;                    /* requests per second; 0 = closed loop; < 0 = by `load` */
        double publish_after_s;
        unsigned int n_workers;
        uint64_t seed;
        bool no_trace_high;
        const char *spans_path, *json_path;
} Options;

typedef struct Service {
        Options options;
        SpanLog *log;
        Pool *pool;
        Load *load;
        double start_s;
        bool publishing;
} Service;

static const char usage[] =
        "usage: example-service [OPTION…]\n"
        "  --duration SEC       end after so many seconds (default: at SIGTERM or SIGINT)\n"
        "  --workers N          threads that serve requests, 1 … 1024 (default 2)\n"
        "  --load SHARE         how busy the workers are, 0.01 … 10 (default 0.8)\n"
        "  --rate N             requests per second instead; 0 = as many as the workers can\n"
        "  --spans FILE         write span_id,operation,tid,start_before,start_after,end_before,end_after\n"
        "  --json FILE          write the truth as JSON too\n"
        "  --publish-after SEC  serve without spans at first\n"
        "  --no-trace-high      trace ids of 64 bits\n"
        "  --seed N             of ids and arrivals (default: random)\n";

static double now_s(void) {
        struct timespec ts;

        clock_gettime(CLOCK_MONOTONIC, &ts);
        return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static bool parse_number(const char *text, double least, double most, double *valuep) {
        char *end;
        double value = strtod(text, &end);

        if (end == text || *end || !(value >= least && value <= most)) {
                fprintf(stderr, "example-service: '%s' is no number from %g to %g\n", text, least, most);
                return false;
        }
        *valuep = value;
        return true;
}

static bool parse_option(Options *options, int letter, const char *value) {
        double number;

        switch (letter) {
        case 'd':
                return parse_number(value, 0, 1e9, &options->duration_s);
        case 'l':
                return parse_number(value, 0.01, 10, &options->load);
        case 'r':
                return parse_number(value, 0, 1e6, &options->rate);
        case 'p':
                return parse_number(value, 0, 1e9, &options->publish_after_s);
        case 'w':
                if (!parse_number(value, 1, 1024, &number))
                        return false;
                options->n_workers = (unsigned int)number;
                return true;
        case 's':
                if (!parse_number(value, 0, 1e15, &number))
                        return false;
                options->seed = (uint64_t)number;
                return true;
        case 'o':
                options->spans_path = value;
                return true;
        case 'j':
                options->json_path = value;
                return true;
        case 'n':
                options->no_trace_high = true;
                return true;
        default:
                return false;
        }
}

static bool parse_options(Options *options, int argc, char **argv) {
        static const struct option table[] = {
                { "duration", required_argument, NULL, 'd' },
                { "workers", required_argument, NULL, 'w' },
                { "load", required_argument, NULL, 'l' },
                { "rate", required_argument, NULL, 'r' },
                { "spans", required_argument, NULL, 'o' },
                { "json", required_argument, NULL, 'j' },
                { "seed", required_argument, NULL, 's' },
                { "publish-after", required_argument, NULL, 'p' },
                { "help", no_argument, NULL, 'h' },
                { "no-trace-high", no_argument, NULL, 'n' },
                { 0 },
        };
        int letter;

        while ((letter = getopt_long(argc, argv, "", table, NULL)) != -1) {
                if (letter == 'h') {
                        fputs(usage, stdout);
                        exit(0);
                }
                if (!parse_option(options, letter, optarg))
                        return false;
        }
        return optind == argc;
}

/* The truth */

static uint64_t truth_total(const Truth *truth) {
        uint64_t cpu_ns = 0;

        for (int i = 0; i < N_OPERATIONS; i++)
                cpu_ns += truth[i].cpu_ns;
        return cpu_ns ? cpu_ns : 1;
}

static void print_table(const Service *service, const Truth *truth) {
        double total = (double)truth_total(truth);

        printf("%-10s %10s %10s %8s %10s\n", "operation", "requests", "CPU s", "share", "spans");
        for (int i = 0; i < N_OPERATIONS; i++)
                printf("%-10s %10" PRIu64 " %10.3f %7.2f%% %10" PRIu64 "\n", operation_name(i),
                       truth[i].n_requests, (double)truth[i].cpu_ns / 1e9,
                       100 * (double)truth[i].cpu_ns / total, truth[i].n_spans);
        if (load_n_shed(service->load))
                printf("%" PRIu64 " requests shed: the workers did not keep up\n",
                       load_n_shed(service->load));
        fflush(stdout);
}

static int write_json(const Service *service, const Truth *truth) {
        FILE *file = fopen(service->options.json_path, "we");
        double total = (double)truth_total(truth);

        if (!file)
                return -errno;
        fprintf(file, "{\"pid\":%d,\"workers\":%u,\"seconds\":%.3f,\"shed\":%" PRIu64 ",\"operations\":[",
                getpid(), service->options.n_workers, now_s() - service->start_s, load_n_shed(service->load));
        for (int i = 0; i < N_OPERATIONS; i++)
                fprintf(file,
                        "%s{\"name\":\"%s\",\"requests\":%" PRIu64 ",\"cpu_ns\":%" PRIu64
                        ",\"share\":%.6f,\"spans\":%" PRIu64 "}",
                        i ? "," : "", operation_name(i), truth[i].n_requests, truth[i].cpu_ns,
                        (double)truth[i].cpu_ns / total, truth[i].n_spans);
        fputs("]}\n", file);
        return fclose(file) == 0 ? 0 : -errno;
}

static int service_report(const Service *service) {
        Truth truth[N_OPERATIONS];
        int r;

        pool_read_truth(service->pool, truth);
        print_table(service, truth);
        if (!service->options.json_path)
                return 0;
        r = write_json(service, truth);
        if (r)
                fprintf(stderr, "example-service: cannot write %s: %s\n", service->options.json_path,
                        strerror(-r));
        return r;
}

/* Life */

static int service_publish(Service *service) {
        const struct spanprof_context_options options = { .size = sizeof(options),
                                                          .storage = EXAMPLE_STORAGE };
        int r = spanprof_context_start(&options);

        if (r) {
                fprintf(stderr, "example-service: cannot publish spans: %s\n", strerror(-r));
                return r;
        }
        service->publishing = true;
        pool_publish(service->pool);
        return 0;
}

static double service_rate(const Options *options) {
        double mean_s = 0;

        if (options->rate >= 0)
                return options->rate;
        for (int i = 0; i < N_OPERATIONS; i++)
                mean_s += (double)operation_nominal_ns(i) / 1e9 / N_OPERATIONS;
        return options->load * options->n_workers / mean_s;
}

static int service_start(Service *service) {
        const Options *options = &service->options;
        double rate = service_rate(options);
        PoolOptions pool = {
                .n_workers = options->n_workers,
                .seed = options->seed,
                .closed_loop = rate == 0,
                .trace_high = !options->no_trace_high,
        };
        int r = 0;

        if (options->spans_path)
                r = spanlog_new(&service->log, options->spans_path);
        if (r) {
                fprintf(stderr, "example-service: cannot write %s: %s\n", options->spans_path, strerror(-r));
                return r;
        }
        pool.log = service->log;
        r = pool_new(&service->pool, &pool);
        if (!r && options->publish_after_s == 0)
                r = service_publish(service);
        if (!r && rate > 0)
                r = load_new(&service->load, service->pool, rate, ~options->seed);
        if (r)
                return r;
        printf("example-service %d: %u workers, %.0f requests/s%s\n", getpid(), options->n_workers, rate,
               rate == 0 ? " asked for: as many as they can" : "");
        fflush(stdout);
        return 0;
}

/* Seconds until something is to be done; a signal ends the wait earlier. */
static double service_wait_s(const Service *service) {
        double passed_s = now_s() - service->start_s, wait_s = 3600;

        if (service->options.duration_s > 0 && service->options.duration_s - passed_s < wait_s)
                wait_s = service->options.duration_s - passed_s;
        if (!service->publishing && service->options.publish_after_s - passed_s < wait_s)
                wait_s = service->options.publish_after_s - passed_s;
        return wait_s > 0 ? wait_s : 0;
}

static int service_run(Service *service, const sigset_t *signals) {
        const Options *options = &service->options;
        int r = 0;

        while (!r) {
                double wait_s = service_wait_s(service);
                struct timespec timeout = { (time_t)wait_s, (long)((wait_s - (double)(time_t)wait_s) * 1e9) };
                int signal = sigtimedwait(signals, NULL, &timeout);
                double passed_s = now_s() - service->start_s;

                if (signal == SIGTERM || signal == SIGINT)
                        break;
                if (signal == SIGUSR1)
                        r = service_report(service);
                if (options->duration_s > 0 && passed_s >= options->duration_s)
                        break;
                if (!r && !service->publishing && passed_s >= options->publish_after_s)
                        r = service_publish(service);
        }
        return r;
}

/* The log is complete only when no worker appends any more. */
static int service_stop(Service *service) {
        int r;

        if (service->pool)
                pool_stop(service->pool);
        r = spanlog_close(service->log);
        service->log = NULL;
        if (r)
                fprintf(stderr, "example-service: %s is not complete: %s\n", service->options.spans_path,
                        strerror(-r));
        return r;
}

static uint64_t random_seed(void) {
        uint64_t seed = 0;

        if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
                seed = (uint64_t)time(NULL) ^ (uint64_t)getpid();
        return seed;
}

int main(int argc, char **argv) {
        Service service = { .options = { .n_workers = 2, .load = 0.8, .rate = -1, .seed = random_seed() } };
        sigset_t signals;
        int r;

        if (!parse_options(&service.options, argc, argv)) {
                fputs(usage, stderr);
                return 2;
        }
        /*
         * before any thread is made, so that all of them inherit it and only sigtimedwait() sees the signals
         */
        sigemptyset(&signals);
        sigaddset(&signals, SIGTERM);
        sigaddset(&signals, SIGINT);
        sigaddset(&signals, SIGUSR1);
        sigprocmask(SIG_BLOCK, &signals, NULL);
        operations_calibrate();
        service.start_s = now_s();
        r = service_start(&service);
        if (!r)
                r = service_run(&service, &signals);
        if (service_stop(&service) < 0)
                r = -EIO;
        if (service.pool && service_report(&service) < 0)
                r = -EIO;
        load_free(service.load);
        pool_free(service.pool);
        spanprof_context_stop();
        return r ? 1 : 0;
}
