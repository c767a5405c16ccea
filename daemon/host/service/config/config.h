/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Configuration
 *
 * Every setting of spanprof as a typed value, and where each came from. The
 * options themselves (names, ranges, defaults, help) are the table in option.c;
 * config-load.h says which source wins.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/util/text.h"

typedef struct Option Option;

#define CONTROL_DEFAULT "/run/spanprof/control.sock"

enum { CONFIG_MAX_OPTIONS = 160 };

typedef enum ConfigLevel {
        CONFIG_DEFAULT,
        CONFIG_OTEL,                    /* OTEL_EXPORTER_OTLP_* */
        CONFIG_FILE,
        CONFIG_ENVIRONMENT,             /* SPANPROF_* */
        CONFIG_COMMAND_LINE,
} ConfigLevel;

typedef struct ConfigOrigin {
        ConfigLevel level;
        char *where;                    /* FILE:LINE, a variable, `command line`; NULL = default */
} ConfigOrigin;

typedef struct ConfigList {
        char **items;
        size_t n_items;
} ConfigList;

typedef struct ConfigPids {
        uint32_t *items;
        size_t n_items;
} ConfigPids;

/* Of `symbols = upload`. */
typedef struct ConfigUpload {
        ConfigList paths;               /* globs; container:GLOB */
        char *endpoint;                 /* base URL; "" = the receiver's */
        char *protocol;                 /* pyroscope, parca */
        uint64_t day_bytes;             /* budget of a day */
} ConfigUpload;

/* A section [export NAME]: one more receiver. Its configuration holds nothing else. */
typedef struct ConfigExport {
        char *name;
        struct Config *config;
} ConfigExport;

/* Strings are never NULL; "" = not set. */
typedef struct Config {
        /* targets */
        ConfigPids pids;
        ConfigList comms;               /* globs on the leader's comm */
        ConfigList exes, cgroups, containers, users, units;
        ConfigList excludes;            /* KIND=PATTERN */
        /* no option: programs that `record` has started, with their descendants; borrowed */
        const uint32_t *trees;
        size_t n_trees;
        bool all;
        bool publishers;                /* beside what the others choose */
        bool target_environment;        /* whether targets' environments are looked into */
        char *pods_directory;           /* of the kubelet; "" = none */
        char *pods_url;                 /* who lists pods; "" = nobody */
        char *pods_token, *pods_certificate;    /* files; "" = none, those of the system */

        ConfigList attributes_allow, attributes_deny;   /* globs on keys */
        bool coroutine_ids;
        char *host_id;                  /* hashed, machine, none */
        char *resource_attributes;      /* of each resource, as in OTEL_RESOURCE_ATTRIBUTES */

        /* sampling */
        uint64_t frequency;             /* Hz */
        uint64_t depth;                 /* user frames */
        bool kernel_stacks;
        char *runtimes;                 /* all, off, or names separated by commas: config_has_runtime() */
        bool java_signatures;           /* in names of methods */
        bool jitter;
        char *sample_hosts;             /* host_share_parse() */
        bool off_cpu;
        uint64_t off_cpu_walks;         /* a second and CPU, like the next one */
        uint64_t off_cpu_max_switches;  /* 0 = no limit */
        char *off_cpu_keep;             /* above that: nothing, times, spans, late-stacks */
        uint64_t off_cpu_long_wait_ns;  /* 0 = none is long */
        char *span_operation;           /* key of an attribute of threads; "" = none */
        uint64_t goroutines;            /* of each process, that are looked at in a second; 0 = none */

        /* export */
        char *endpoint;                 /* base URL, as given; "" = default */
        bool endpoint_is_full;          /* OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT is used as it is */
        char *profiles_url;             /* made from both: where requests are posted */
        char *shown_url;                /* the same for people, without possible secrets */
        char *headers;                  /* baggage form */
        char *compression;              /* gzip, none */
        char *protocol;                 /* http/protobuf, http/json */
        uint64_t max_export_rate;       /* bytes a second, as sent; 0 = no limit */
        bool validate;                  /* requests, before they are sent */
        uint64_t timeout_ns;
        uint64_t export_interval_ns;
        uint64_t stop_timeout_ns;
        uint64_t max_queue_bytes;
        ConfigExport *exports;
        size_t n_exports;
        char *spool;                    /* directory; "" = none */
        char *spool_mode;               /* ahead, flush, failed */
        uint64_t spool_max_bytes, spool_max_age_ns;
        char *certificate, *client_certificate, *client_key;
        bool timestamps;
        char *symbols;                  /* remote, local, upload */
        char *mapping_paths;            /* full, name, none */
        /* the form of requests */
        char *backend;                  /* otlp, pyroscope, parca */
        char *tenant;                   /* X-Scope-OrgID; "" = none */
        char *attributes;               /* full, lean */
        ConfigList attributes_keep;     /* globs on keys that stay in a lean payload */
        ConfigList repeat_on_samples;   /* globs on keys of resources */
        char *resource_numbers;         /* keep, text, off */
        char *links;                    /* span, trace, off */
        ConfigUpload upload;
        bool debuginfod;                /* desk verbs too */
        bool jit_symbols;

        /* daemon */
        uint64_t duration_ns;           /* 0 = until stopped */
        /* socket for status, pause, resume; "" = the usual place, if it is there */
        char *control;
        char *metrics;                  /* ADDRESS:PORT or PATH for Prometheus; "" = none */
        uint64_t max_cpu;               /* percent of one CPU; 0 = no limit */
        uint64_t max_memory_bytes;      /* resident; 0 = no limit */
        char *summary;                  /* file for the counters at the end */
        char *run_as;                   /* name or number; "" = spanprof or nobody */
        char *log_level;

        /* receiver */
        uint64_t port;
        char *listen;
        char *output;
        char *forward;
        uint64_t max_request_bytes;
        uint64_t max_stored_bytes;
        uint64_t max_stored_files;
        char *store_layout;             /* flat, partitioned */

        /* report */
        char *spans;
        bool json;                      /* targets too */
        char *probe;                    /* none, health, ready */
        uint64_t top;                   /* rows of each table */
        const char *annotate;           /* a source file, of report */
        uint64_t fail_above;            /* points of the whole, of comparisons */
        const char *compare;            /* baseline of record */
        bool explain, diff, wall;       /* of report */
        char *sort;                     /* self, total */

        /* report and convert */
        bool lines;                     /* record too */
        char *format;
        ConfigList processes, services, hosts, threads, span_ids, trace_ids, operations, coroutines, types;
        char *start, *end;              /* times, as typed */
        ConfigList resources;           /* KEY=VALUE */
        bool pretty, include_payload, include_arguments;

        /* top */
        uint64_t interval_ns;
        uint64_t count;                 /* of refreshes; 0 = until stopped */
        char *view, *filter;

        bool watch;                     /* contexts */
        bool verbose;                   /* targets: those that are not chosen, too */

        /* coro */
        uint64_t stations;
        char *region, *socket;          /* files; "" = of their own */
        uint64_t buffer_bytes;          /* of events that wait, 512 MiB */
        uint64_t max_trace_bytes;       /* 0 = no limit */
        bool places;
        bool progress;

        char *config;                   /* --config */
        bool help, version;             /* --help, --version */

        ConfigOrigin origins[CONFIG_MAX_OPTIONS];       /* by option_index() */
} Config;

enum {
        _CONFIG_E_SUCCESS,
        CONFIG_E_INVALID,               /* a line was added to the errors for each mistake */
};

/* Sets every default. Pair with config_deinit(), also after a failure. Return: 0, -ENOMEM. */
int config_init(Config *config);
void config_deinit(Config *config);

/*
 * Sets one option from text, unless a higher level has set it already; the text is checked in any
 * case. Lists of the command line grow, all else is replaced. On CONFIG_E_INVALID, one line
 * `PREFIX: what is wrong` was added to @errors and nothing changed.
 */
int config_set(Config *config, const Option *option, const char *value, ConfigLevel level, const char *where,
               const char *prefix, Text *errors);

/* Adds a line to @errors. Return: CONFIG_E_INVALID, -ENOMEM. */
_printf_(2, 3) int config_complain(Text *errors, const char *format, ...);

/*
 * Finds the section [export NAME], or adds it with defaults. Return: 0, CONFIG_E_INVALID = there are too
 * many, -ENOMEM.
 */
int config_add_export(Config *config, const char *name, ConfigExport **exportp);

/* Whether frames of the runtime @name are to be walked. */
bool config_has_runtime(const Config *config, const char *name);

/*
 * The URL that requests are posted to: @base with the profiles' path, unless it is there or @full says that
 * the base is all of it. *urlp is owned by the caller. Return: 0, -ENOMEM.
 */
int config_profiles_url(const char *base, bool full, char **urlp);

/* Sets profiles_url and shown_url from @base. Return: 0, -ENOMEM. */
int config_set_urls(Config *config, const char *base, bool full);

/* Whether somebody has set the spool; else it is none, or that of the service manager. */
bool config_spool_is_chosen(const Config *config);

/* Whether a section [export NAME] takes @option. */
bool config_export_takes(const Option *option);

/* Whether the options outside of sections [export NAME] mean a receiver, too: not if only those are set. */
bool config_first_export(const Config *config);
