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

/* Strings are never NULL; "" = not set. One struct a subject: whoever reads a setting names what it is of. */

/* Processes that are profiled. */
typedef struct ConfigTargets {
        ConfigPids pids;
        ConfigList comms;               /* globs on the leader's comm */
        ConfigList exes, cgroups, containers, users, units;
        ConfigList excludes;            /* KIND=PATTERN */
        /* no option: programs that `record` has started, with their descendants; borrowed */
        const uint32_t *trees;
        size_t n_trees;
        bool all;
        bool publishers;                /* beside what the others choose */
        bool environment;               /* targets' environments are looked into */
} ConfigTargets;

/* Names of pods. */
typedef struct ConfigPods {
        char *directory;                /* the kubelet's; "" = none */
        char *url;                      /* a list of pods; "" = none */
        char *token, *certificate;      /* files; "" = none, those of the system */
        ConfigList labels;              /* globs on keys of labels */
} ConfigPods;

/* Attributes of resources and samples. */
typedef struct ConfigResource {
        ConfigList allow, deny;         /* globs on keys */
        bool coroutine_ids;
        char *host_id;                  /* hashed, machine, none */
        char *attributes;               /* attributes of each resource, as in OTEL_RESOURCE_ATTRIBUTES */
        char *span_operation;           /* in metrics: auto, off, or the key of an attribute of threads */
} ConfigResource;

typedef struct ConfigSampling {
        uint64_t frequency;             /* Hz */
        uint64_t depth;                 /* user frames */
        bool kernel_stacks;
        bool page_faults;               /* sampled, too */
        bool allocated_bytes;           /* ticks read how much their thread of Java has allocated */
        bool jfr;                       /* recordings of JVMs are read */
        char *runtimes;                 /* all, off, or names separated by commas: config_has_runtime() */
        bool java_signatures;           /* in names of methods */
        bool jitter;
        bool remote_files;              /* files of network filesystems are read, too */
        char *obi_map;                  /* path in a file system of BPF; "" = not read */
        char *hosts;                    /* host_share_parse() */
        uint64_t goroutines;            /* looked at in each process a second; 0 = none */
        bool allocations;               /* those that probes of otel_memory tell */
        bool crashes;                   /* the last stack of a target that a signal ends */
        uint64_t watch_ns;              /* builds that ran so long are compared; 0 = none is */
        uint64_t recorder_ns;           /* the flight recorder reaches so far back; 0 = there is none */
        uint64_t recorder_frequency;    /* Hz, about: config_ticks_per_sample() */
        uint64_t recorder_slower_ns;    /* spans whose traces are kept; 0 = by this rule none */
        uint64_t recorder_above_usual;  /* times the 99th percentile of their operation; 0 likewise */
        char *recorder_token;           /* file; "" = only the control socket asks for something */
        char *recorder_listen;          /* ADDRESS:PORT for spans of chosen traces; "" = none */
} ConfigSampling;

/* Time without a CPU. */
typedef struct ConfigWaits {
        bool off_cpu;                   /* waits are counted at all */
        uint64_t walks;                 /* a second and CPU, like the next one */
        uint64_t max_switches;          /* 0 = no limit */
        char *keep;                     /* above max_switches: nothing, times, spans, late-stacks */
        uint64_t long_wait_ns;          /* 0 = none is long */
} ConfigWaits;

/* Requests to the receiver, and their way. */
typedef struct ConfigDelivery {
        char *endpoint;                 /* base URL, as given; "" = default */
        bool endpoint_is_full;          /* OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT is used as it is */
        char *profiles_url;             /* made from both: where requests are posted */
        char *shown_url;                /* the same for people, without possible secrets */
        char *tenant;                   /* X-Scope-OrgID; "" = none */
        char *headers;                  /* baggage form */
        char *compression;              /* gzip, none */
        char *protocol;                 /* http/protobuf, http/json */
        uint64_t max_rate;              /* bytes a second, as sent; 0 = no limit */
        bool validate;                  /* requests, before they are sent */
        uint64_t timeout_ns;
        uint64_t interval_ns;           /* length of a window */
        uint64_t stop_timeout_ns;
        uint64_t max_queue_bytes;
        char *certificate, *client_certificate, *client_key;
} ConfigDelivery;

typedef struct ConfigSpool {
        char *directory;                /* "" = none */
        char *mode;                     /* ahead, flush, failed */
        uint64_t max_bytes, max_age_ns;
} ConfigSpool;

/* The form of requests: backend.c has what each backend needs. */
typedef struct ConfigForm {
        char *backend;                  /* otlp, pyroscope, parca */
        bool timestamps;
        char *symbols;                  /* remote, local, upload */
        char *mapping_paths;            /* full, name, none */
        ConfigList attributes;          /* full; or lean, and globs on more keys that stay */
        ConfigList repeat_on_samples;   /* globs on keys of resources */
        char *resource_numbers;         /* keep, text, off */
        char *links;                    /* span, trace, off */
} ConfigForm;

/* Uploads of symbols, with `symbols = upload`. */
typedef struct ConfigUpload {
        ConfigList paths;               /* globs; container:GLOB */
        char *endpoint;                 /* base URL; "" = the receiver's */
        uint64_t day_bytes;             /* budget of a day */
} ConfigUpload;

/* Names of functions and lines. */
typedef struct ConfigNames {
        ConfigUpload upload;
        bool debuginfod;
        bool jit_symbols;
        bool lines;
} ConfigNames;

/* The process itself. */
typedef struct ConfigDaemon {
        uint64_t duration_ns;           /* 0 = until stopped */
        /* socket for status, pause, resume; "" = the usual place, if it is there */
        char *control;
        char *metrics;                  /* ADDRESS:PORT or PATH for Prometheus; "" = none */
        uint64_t max_cpu;               /* percent of one CPU; 0 = no limit */
        uint64_t max_memory_bytes;      /* resident; 0 = no limit */
        char *summary;                  /* file for the counters at the end */
        char *run_as;                   /* name or number; "" = spanprof or nobody */
        char *log_level;
} ConfigDaemon;

/* `receive` */
typedef struct ConfigReceiver {
        uint64_t port;
        char *listen;
        char *forward;
        uint64_t max_request_bytes;
        uint64_t max_stored_bytes;
        uint64_t max_stored_files;
        char *store_layout;             /* flat, partitioned */
        char *token_file;
} ConfigReceiver;

/* The part of recordings that `report` and `convert` read. */
typedef struct ConfigFilter {
        ConfigList processes, services, hosts, threads, span_ids, trace_ids, operations, coroutines, types;
        char *start, *end;              /* times, as typed */
        uint64_t slower_ns;             /* than this a span of the trace was; 0 = of any trace */
} ConfigFilter;

/* `report`, and the tables of `record` and `top` */
typedef struct ConfigReport {
        char *spans;                    /* file with operations of spans */
        uint64_t top;                   /* rows of each table */
        const char *annotate;           /* a source file */
        uint64_t fail_above;            /* points of the whole, of comparisons */
        const char *compare;            /* baseline of record */
        bool explain, diff, wall;
        char *sort;                     /* self, total */
} ConfigReport;

typedef struct ConfigConvert {
        ConfigList resources;           /* KEY=VALUE */
        bool pretty, include_payload, include_arguments;
} ConfigConvert;

typedef struct ConfigTop {
        uint64_t interval_ns;
        uint64_t count;                 /* refreshes; 0 = until stopped */
        char *view, *filter;
} ConfigTop;

typedef struct ConfigCoro {
        uint64_t stations;
        char *region;                   /* a file; "" = in a directory of its own */
        uint64_t buffer_bytes;          /* events that wait, 512 MiB */
        uint64_t max_trace_bytes;       /* 0 = no limit */
        bool places;
} ConfigCoro;

/* Options that several verbs share, and what a terminal sees. */
typedef struct ConfigCommand {
        char *output;
        char *format;
        bool json;
        char *probe;                    /* question of health checks: none, health, ready */
        bool watch, check;              /* contexts */
        uint64_t boost_ns;              /* boost: how long */
        bool verbose;                   /* targets: those that are not chosen, too */
        char *config;                   /* --config */
        bool help, version;             /* --help, --version */
} ConfigCommand;

/* A section [export NAME]: one more receiver. Its configuration holds nothing else. */
typedef struct ConfigExport {
        char *name;
        struct Config *config;
} ConfigExport;

typedef struct Config {
        ConfigTargets targets;
        ConfigPods pods;
        ConfigResource resource;
        ConfigSampling sampling;
        ConfigWaits waits;
        ConfigDelivery delivery;
        ConfigSpool spool;
        ConfigForm form;
        ConfigNames names;
        ConfigDaemon daemon;
        ConfigReceiver receiver;
        ConfigFilter filter;
        ConfigReport report;
        ConfigConvert convert;
        ConfigTop top;
        ConfigCoro coro;
        ConfigCommand command;
        ConfigExport *exports;
        size_t n_exports;
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

enum { CONFIG_MAX_TICKS = 10000 };      /* Hz */

/*
 * Ticks of a CPU for one that is exported: recorder_frequency, about, and CONFIG_MAX_TICKS at most. Without a
 * flight recorder it is 1.
 */
uint32_t config_ticks_per_sample(const Config *config);

/* Whether frames of the runtime @name are to be walked. */
bool config_has_runtime(const Config *config, const char *name);

/*
 * The URL that requests are posted to: @base with the profiles' path, unless it is there or @full says that
 * the base is all of it. *urlp is owned by the caller. Return: 0, -ENOMEM.
 */
int config_profiles_url(const char *base, bool full, char **urlp);

/* Sets profiles_url and shown_url from @base. Return: 0, -ENOMEM. */
int config_set_urls(Config *config, const char *base, bool full);

/* From where an option has its value, by its name, which there is; and the place of its control socket. */
const ConfigOrigin *config_origin(const Config *config, const char *option);
const char *config_control(const Config *config);

/* Whether the configuration has set the spool; else it is none, or that of the service manager. */
bool config_spool_is_chosen(const Config *config);

/* Whether a section [export NAME] takes @option. */
bool config_export_takes(const Option *option);

/* Whether the options outside of sections [export NAME] mean a receiver, too: not if only those are set. */
bool config_first_export(const Config *config);
