/* SPDX-License-Identifier: Apache-2.0 */

/* The table of options. What it says of a value beyond its kind is checked by option-check.c. */

#include "host/service/config/option.h"

#include <errno.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "host/service/config/option-check.h"

#define FIELD(_name) .offset = offsetof(Config, _name)
#define SECONDS(_n) ((_n) * NS_PER_SEC)
#define MIB(_n) ((uint64_t)(_n) << 20)
#define USES(...) .uses = (const OptionUse[]){ __VA_ARGS__, { 0 } }

enum {
        RUN = VERB_RUN,
        RECORD = VERB_RECORD,
        DESK = VERB_RECORD | VERB_TOP | VERB_STACKS,
        SAMPLERS = VERB_RUN | DESK,
        CHOOSERS = SAMPLERS | VERB_TARGETS,     /* verbs that look for targets */
        REPORT = VERB_REPORT,
        RECEIVE = VERB_RECEIVE,
        CORO = VERB_CORO,
        CONVERT = VERB_CONVERT,
        LOOKS = VERB_STACKS | VERB_HEAP,        /* verbs that look once at what runs */
        READERS = VERB_REPORT | VERB_CONVERT | VERB_KEEP,       /* verbs that choose what they read */
        SENDERS = VERB_RUN | VERB_RECEIVE | VERB_CONVERT | VERB_SPOOL,  /* `receive` sends what it forwards */
        MAX_PID = 1 << 22,              /* the kernel's PID_MAX_LIMIT */
};

/*
 * Order = order in help and manual pages; options of a section stand together. Advanced are the options that
 * an operator rarely sets: limits whose defaults fit, debugging, and paths of files.
 */
const Option option_table[] = {
        { "pid", 'p', OPTION_PIDS, CHOOSERS | REPORT | CORO, "targets", FIELD(targets.pids), .min = 1,
          .max = MAX_PID, .argument = "PID[,PID…]", .help = "only these processes" },
        { "comm", 'C', OPTION_LIST, CHOOSERS | REPORT, "targets", FIELD(targets.comms),
          .argument = "GLOB[,GLOB…]", .check = option_check_comm,
          .help = "only processes whose name matches (comm; in reports also the service's name)" },
        { "exe", 0, OPTION_LIST, CHOOSERS, "targets", FIELD(targets.exes), .argument = "GLOB[,GLOB…]",
          .check = option_check_glob,
          .help = "only processes whose executable matches: its path, or its name if there is no slash in "
                  "GLOB" },
        { "cgroup", 'G', OPTION_LIST, CHOOSERS, "targets", FIELD(targets.cgroups), .argument = "GLOB[,GLOB…]",
          .check = option_check_glob,
          .help = "only processes in a matching control group, or below it" },
        { "container", 0, OPTION_LIST, CHOOSERS, "targets", FIELD(targets.containers), .argument = "ID[,ID…]",
          .check = option_check_glob,
          .help = "only processes of these containers: start of the id, or name of an nspawn or LXC machine "
                  "(* for all)" },
        { "user", 0, OPTION_LIST, CHOOSERS, "targets", FIELD(targets.users), .argument = "USER[,USER…]",
          .check = option_check_user,
          .help = "only processes of these users, by name or number (the effective one)" },
        { "unit", 'u', OPTION_LIST, CHOOSERS | VERB_BOOST, "targets", FIELD(targets.units),
          .argument = "UNIT[,UNIT…]", .check = option_check_glob,
          USES({ VERB_BOOST, NULL, "processes of this systemd unit; `.service` may be left out" }),
          .help = "only processes of these systemd units; `.service` may be left out" },
        { "exclude", 0, OPTION_LIST, CHOOSERS, "targets", FIELD(targets.excludes),
          .argument = "KIND=PATTERN[,…]", .check = option_check_exclude,
          .help = "never these processes, whatever else chooses them; KIND: pid, comm, exe, cgroup, "
                  "container, user, unit" },
        { "all", 'a', OPTION_BOOL, CHOOSERS, "targets", FIELD(targets.all), "off",
          .help = "profile every process but this one, without threads of the kernel" },
        { "publishers", 0, OPTION_BOOL, CHOOSERS, "targets", FIELD(targets.publishers), "off",
          .advanced = true,
          .help = "profile processes that publish a trace context, too; without it any other selector "
                  "replaces them" },
        { "target-environment", 0, OPTION_BOOL, CHOOSERS, "targets", FIELD(targets.environment), "on",
          .advanced = true,
          .help = "take service names from OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES and DD_* of targets; "
                  "nothing else is kept" },
        { "pods-directory", 0, OPTION_STRING, RUN, "targets", FIELD(pods.directory), "",
          .argument = "DIRECTORY", .advanced = true,
          .help = "the kubelet's directory with an entry for each pod, NAMESPACE_NAME_UID (/var/log/pods): "
                  "pods have names by it" },
        { "pods-url", 0, OPTION_STRING, RUN, "targets", FIELD(pods.url), "", .argument = "URL",
          .check = option_check_pods_url, .advanced = true,
          .help = "who lists the pods of this node: a kubelet's /pods or the API server's /api/v1/pods; for "
                  "those that pods-directory does not name" },
        { "pods-token", 0, OPTION_STRING, RUN, "targets", FIELD(pods.token), "", .argument = "FILE",
          .advanced = true,
          .help = "file with the bearer token for pods-url, which must be https then; read at each request" },
        { "pods-certificate", 0, OPTION_STRING, RUN, "targets", FIELD(pods.certificate), "",
          .argument = "FILE",
          .advanced = true, .help = "certificate authorities that pods-url must be signed by (PEM)" },
        { "pods-labels", 0, OPTION_LIST, RUN, "targets", FIELD(pods.labels), .argument = "GLOB[,GLOB…]",
          .advanced = true,
          .help = "labels of pods that become attributes, k8s.pod.label.KEY, by globs on keys; they come from "
                  "pods-url" },

        { "frequency", 'F', OPTION_NUMBER, SAMPLERS | VERB_BOOST, "sampling", FIELD(sampling.frequency), "99", 1,
          10000, .argument = "HZ", USES({ VERB_BOOST, NULL, "samples per second and CPU of these, 1000 at most" }),
          .help = "samples per second and CPU" },
        { "depth", 0, OPTION_NUMBER, SAMPLERS, "sampling", FIELD(sampling.depth), "512", 1, 1024,
          .argument = "FRAMES", .advanced = true, .help = "most user frames of one stack" },
        { "kernel-stacks", 0, OPTION_BOOL, SAMPLERS, "sampling", FIELD(sampling.kernel_stacks), "on",
          .advanced = true, .help = "add the kernel's part of each stack" },
        { "runtimes", 0, OPTION_STRING, CHOOSERS, "sampling", FIELD(sampling.runtimes), "all",
          .argument = "NAME[,NAME…]|all|off", .check = option_check_runtimes, .advanced = true,
          .help = "read these runtimes, without their help: hotspot (Java), python, v8 (Node.js), php, ruby and "
                  "beam (Erlang): frames and names; go: labels of goroutines; jvm: which other virtual machine of Java it is" },
        { "java-signatures", 0, OPTION_BOOL, SAMPLERS, "sampling", FIELD(sampling.java_signatures), "off",
          .advanced = true,
          .help = "names of Java's methods with their parameters, `Cart.add(int, java.lang.String)`: "
                  "overloads are told apart" },
        { "remote-files", 0, OPTION_BOOL, CHOOSERS | VERB_DOCTOR, "sampling", FIELD(sampling.remote_files), "off",
          .advanced = true,
          .help = "read programs on network filesystems, too, by a process that may hang and is given up then; "
                  "those on FUSE are read without" },
        { "obi-map", 0, OPTION_STRING, SAMPLERS, "sampling", FIELD(sampling.obi_map),
          "/sys/fs/bpf/otel/traces_ctx_v1", .argument = "PATH", .advanced = true,
          .help = "the map with spans of OBI, OpenTelemetry's eBPF instrumentation, for processes that "
                  "publish none (empty: none)" },
        { "sample-hosts", 0, OPTION_STRING, RUN, "sampling", FIELD(sampling.hosts), "",
          .argument = "PERCENT%/TIME", .check = option_check_sample_hosts, .advanced = true,
          .help = "sample on this part of the hosts at each time, in turns of TIME (10%/1h); each host has "
                  "its turn" },
        { "jitter", 0, OPTION_BOOL, SAMPLERS, "sampling", FIELD(sampling.jitter), "on",
          .advanced = true, .help = "vary the period, so that periodic work is not sampled in lock-step" },

        { "page-faults", 0, OPTION_BOOL, RUN | RECORD, "sampling", FIELD(sampling.page_faults), "off",
          .advanced = true,
          .help = "sample page faults, too: where memory grows, by function and span" },
        { "allocated-bytes", 0, OPTION_BOOL, RUN, "sampling", FIELD(sampling.allocated_bytes), "off",
          .advanced = true,
          .help = "read what threads of Java have allocated at their ticks, for "
                  "span_allocated_bytes_total of `metrics`: bytes by operation" },
        { "jfr", 0, OPTION_BOOL, RUN | RECORD, "sampling", FIELD(sampling.jfr), "off", .advanced = true,
          USES({ VERB_RECORD, .help = "read what JVMs record of themselves (JFR), too: allocations, locks, exceptions, "
                                      "old objects; those of --pid that record nothing record allocations meanwhile" }),
          .help = "read what JVMs record of themselves (JFR), too: allocations, locks, exceptions, old objects" },
        { "off-cpu", 0, OPTION_BOOL, RUN | RECORD | VERB_TOP, "sampling", FIELD(waits.off_cpu), "off",
          .help = "count how long threads have no CPU, by span and reason" },
        { "off-cpu-walks", 0, OPTION_NUMBER, RUN | RECORD | VERB_TOP, "sampling", FIELD(waits.walks), "1000",
          0, 100000, .argument = "N", .advanced = true,
          .help = "with --off-cpu: walks of waits, a second and CPU; above, waits are drawn by chance and "
                  "the others counted without a stack" },
        { "off-cpu-long-wait", 0, OPTION_DURATION, RUN | RECORD | VERB_TOP, "sampling",
          FIELD(waits.long_wait_ns), "10ms", 0, SECONDS(60), .argument = "TIME", .advanced = true,
          .help = "with --off-cpu: waits from this length on have their stack, also beyond off-cpu-walks (0: "
                  "none has)" },
        { "off-cpu-max-switches", 0, OPTION_NUMBER, RUN | RECORD | VERB_TOP, "sampling",
          FIELD(waits.max_switches), "100000", 0, 100000000, .argument = "N", .advanced = true,
          .help = "with --off-cpu: switches of threads on the machine, a second and CPU; above it less is "
                  "read of waits, and above three times as many they are not counted, until half as many are "
                  "left (0: no limit)" },
        { "off-cpu-keep", 0, OPTION_CHOICE, RUN | RECORD | VERB_TOP, "sampling", FIELD(waits.keep), "nothing",
          .choices = "nothing times spans late-stacks", .argument = "WHAT", .advanced = true,
          .help = "with --off-cpu: what is known of waits however many switches there are; times: how long "
                  "each thread waited, and on what; spans: by span and waker, too; late-stacks: also stacks "
                  "of long waits" },
        { "span-operation", 0, OPTION_STRING, RUN, "sampling", FIELD(resource.span_operation), "auto",
          .argument = "KEY", .advanced = true,
          .help = "the attribute of thread contexts that names the operation of a span, for "
                  "span_cpu_seconds_total of `metrics` (http.route; auto: the name of the span, else its "
                  "route; off: by service alone)" },

        { "goroutines", 0, OPTION_NUMBER, RUN | RECORD, "sampling", FIELD(sampling.goroutines), "0", 0, 10000,
          .argument = "N", .advanced = true,
          .help = "count goroutines that wait, by stack, reason and labels, without stopping any: look at N "
                  "of each process of Go a second (0: at none)" },
        { "allocations", 0, OPTION_BOOL, RUN | RECORD, "sampling", FIELD(sampling.allocations), "off",
          .advanced = true,
          USES({ VERB_RUN, .help = "sample allocations of programs that tell some of them by the probe otel_memory:alloc "
                                   "(USDT), as with libspanprof-alloc preloaded: bytes and objects, by stack and span; "
                                   "read heap profiles that programs of Go keep, too" }),
          .help = "sample allocations of programs that tell some of them by the probe otel_memory:alloc (USDT), "
                  "as with libspanprof-alloc preloaded: bytes and objects, by stack and span, and which of these "
                  "are alive" },
        { "crashes", 0, OPTION_BOOL, RUN | RECORD, "sampling", FIELD(sampling.crashes), "off", .advanced = true,
          .help = "keep the last stack of a target that a signal ends, with its span, the signal and its "
                  "address, and log a line; SIGTERM, SIGINT and SIGHUP are no crashes" },

        { "watch-builds", 0, OPTION_DURATION, RUN, "sampling", FIELD(sampling.watch_ns), "0", 0, SECONDS(86400),
          .argument = "TIME", .advanced = true,
          .help = "compare what functions take in each new build of a service that ran for TIME, as 30m, with the "
                  "build before, and say which are slower: log, `metrics`, `spanprof watch` (0: none)" },
        { "recorder", 0, OPTION_DURATION, RUN, "sampling", FIELD(sampling.recorder_ns), "0", 0, SECONDS(86400),
          .argument = "TIME", .advanced = true,
          .help = "keep the last TIME in memory at recorder-frequency, 64 MiB at most, for `spanprof keep`: a "
                  "flight recorder (0: none)" },
        { "recorder-frequency", 0, OPTION_NUMBER, RUN, "sampling", FIELD(sampling.recorder_frequency), "999", 1,
          10000, .argument = "HZ", .advanced = true,
          .help = "ticks per second and CPU with --recorder, about: a multiple of frequency, which is exported" },
        { "recorder-slower-than", 0, OPTION_DURATION, RUN, "sampling", FIELD(sampling.recorder_slower_ns), "0", 0,
          SECONDS(86400), .argument = "TIME", .advanced = true,
          .help = "with --recorder: ship each trace that has a span of this length (0: none by this rule)" },
        { "recorder-above-usual", 0, OPTION_NUMBER, RUN, "sampling", FIELD(sampling.recorder_above_usual), "0", 0,
          1000, .argument = "TIMES", .advanced = true,
          .help = "with --recorder: ship each trace that has a span TIMES as long as 99 of 100 spans of its "
                  "operation (0: none by this rule)" },
        { "recorder-listen", 0, OPTION_STRING, RUN, "sampling", FIELD(sampling.recorder_listen), "",
          .argument = "ADDRESS:PORT", .check = option_check_address, .advanced = true,
          .help = "with --recorder: ship the traces whose spans are sent there, as OTLP over HTTP with a token of "
                  "recorder-token: for a Collector's tail_sampling" },
        { "recorder-token", 0, OPTION_STRING, RUN, "sampling", FIELD(sampling.recorder_token), "",
          .argument = "FILE", .advanced = true,
          .help = "with --recorder: who has a bearer token in FILE, one a line, may ask for traces by POST "
                  "/recorder/keep/… at the address of metrics" },

        { "endpoint", 0, OPTION_URL, RUN | CONVERT | VERB_SPOOL, "export", FIELD(delivery.endpoint), "",
          .argument = "URL", .otel = "ENDPOINT",
          .help = "OTLP/HTTP receiver, without /v1development/profiles; or unix:SOCKET (empty: "
                  "http://localhost:4318)" },
        { "backend", 0, OPTION_CHOICE, RUN | CONVERT | VERB_SPOOL | VERB_VALIDATE, "export",
          FIELD(form.backend), "otlp", .choices = "otlp pyroscope parca", .argument = "NAME",
          .help = "what the receiver is: sets symbols, attributes, timestamps and links as it needs them, "
                  "where nothing else does, and the form of requests; `validate` says as well what it "
                  "refuses or leaves out" },
        { "tenant", 0, OPTION_STRING, SENDERS, "export", FIELD(delivery.tenant), "", .argument = "NAME",
          .check = option_check_tenant, .advanced = true,
          .help = "whose data it is: the header X-Scope-OrgID of each request" },
        { "headers", 0, OPTION_STRING, SENDERS, "export", FIELD(delivery.headers), "",
          .argument = "NAME=VALUE[,…]", .check = option_check_headers, .otel = "HEADERS", .secret = true,
          .help = "headers added to each request, percent-encoded" },
        { "compression", 0, OPTION_CHOICE, SENDERS, "export", FIELD(delivery.compression), "gzip",
          .choices = "gzip none", .argument = "METHOD", .otel = "COMPRESSION",
          .advanced = true, .help = "how requests are packed" },
        { "protocol", 0, OPTION_CHOICE, SENDERS, "export", FIELD(delivery.protocol), "http/protobuf",
          .choices = "http/protobuf http/json", .argument = "PROTOCOL",
          .advanced = true, .help = "how requests are written (also OTEL_EXPORTER_OTLP_PROTOCOL)" },
        { "timeout", 0, OPTION_DURATION, SENDERS, "export", FIELD(delivery.timeout_ns), "10s", NS_PER_MS,
          SECONDS(3600), .argument = "TIME", .otel = "TIMEOUT", .advanced = true,
          .help = "longest time that one request may take" },
        { "export-interval", 0, OPTION_DURATION, RUN, "export", FIELD(delivery.interval_ns), "15s",
          SECONDS(1), SECONDS(3600), .argument = "TIME",
          .help = "length of one window of profiles (the first takes 0.5 s)" },
        { "stop-timeout", 0, OPTION_DURATION, RUN | RECEIVE, "export", FIELD(delivery.stop_timeout_ns), "1s",
          0, SECONDS(3600), .argument = "TIME",
          .advanced = true,
          .help = "for sending what is left at the end (the disk of a spool gets up to 3 s more)" },
        { "max-queue", 0, OPTION_SIZE, RUN | RECEIVE, "export", FIELD(delivery.max_queue_bytes), "8MiB",
          65536, MIB(1024), .argument = "SIZE",
          .advanced = true, .help = "of requests that wait for the receiver; the oldest is dropped" },
        { "spool", 0, OPTION_STRING, RUN | VERB_SPOOL, "export", FIELD(spool.directory), "",
          .argument = "DIRECTORY",
          .help = "keep what cannot be sent there, over crashes and restarts (empty: $STATE_DIRECTORY/spool "
                  "of a service manager, else in memory alone)" },
        { "spool-mode", 0, OPTION_CHOICE, RUN | VERB_SPOOL, "export", FIELD(spool.mode), "ahead",
          .choices = "ahead flush failed", .argument = "MODE",
          .advanced = true,
          .help = "when requests go to the spool: ahead of the answer (death of the daemon loses none, loss "
                  "of power those of the last 2 s); ahead and flushed (loss of power loses none); only those "
                  "that failed" },
        { "spool-max-bytes", 0, OPTION_SIZE, RUN | VERB_SPOOL, "export", FIELD(spool.max_bytes), "1GiB",
          MIB(1), MIB(UINT64_C(1) << 24), .argument = "SIZE",
          .help = "of the spool; the oldest request is dropped" },
        { "spool-max-age", 0, OPTION_DURATION, RUN | VERB_SPOOL, "export", FIELD(spool.max_age_ns), "168h",
          SECONDS(1), SECONDS(366 * UINT64_C(86400)), .argument = "TIME",
          .advanced = true, .help = "what is older is dropped from the spool" },
        { "certificate", 0, OPTION_STRING, SENDERS, "export", FIELD(delivery.certificate), "",
          .argument = "FILE", .otel = "CERTIFICATE",
          .help = "certificate authorities that the receiver must be signed by (PEM)" },
        { "client-certificate", 0, OPTION_STRING, SENDERS, "export", FIELD(delivery.client_certificate), "",
          .argument = "FILE", .otel = "CLIENT_CERTIFICATE",
          .advanced = true, .help = "certificate that we show (PEM)" },
        { "client-key", 0, OPTION_STRING, SENDERS, "export", FIELD(delivery.client_key), "",
          .argument = "FILE",
          .otel = "CLIENT_KEY", .advanced = true, .help = "key of the client certificate (PEM)" },
        { "max-export-rate", 0, OPTION_SIZE, RUN, "export", FIELD(delivery.max_rate), "0", 0, MIB(1024),
          .argument = "SIZE",
          .advanced = true, .help = "bytes a second, as sent; above it the frequency falls (0: no limit)" },
        { "validate", 0, OPTION_BOOL, RUN, "export", FIELD(delivery.validate), "off",
          .advanced = true,
          .help = "check each request against the rules of the format, and log what is wrong; for "
                  "debugging" },
        { "symbols", 0, OPTION_CHOICE, RUN, "export", FIELD(form.symbols), "remote",
          .choices = "remote local upload", .argument = "WHERE", .is_form = true,
          .help = "who names functions: the backend, by build id and address; this machine, as far as it has "
                  "symbols; or the backend, from symbols that are uploaded to it (upload-paths)" },
        { "upload-paths", 0, OPTION_LIST, RUN, "export", FIELD(names.upload.paths),
          .argument = "GLOB[,GLOB…]", .check = option_check_upload_path,
          .help = "files whose symbols may be uploaded (symbols = upload): whole paths of this host, or "
                  "container:GLOB for paths inside of containers; no others are" },
        { "upload-endpoint", 0, OPTION_URL, RUN, "export", FIELD(names.upload.endpoint), "",
          .argument = "URL",
          .advanced = true,
          .help = "base URL of who takes uploaded symbols (empty: that of endpoint); headers and "
                  "certificates are the same" },
        { "upload-budget", 0, OPTION_SIZE, RUN, "export", FIELD(names.upload.day_bytes), "256MiB", 4096,
          MIB(UINT64_C(1) << 20), .argument = "SIZE",
          .advanced = true, .help = "of uploaded symbols a day (UTC); what is over it waits for the next" },
        { "debuginfod", 0, OPTION_BOOL, RUN | REPORT | CONVERT | VERB_RECORD | VERB_STACKS, "export",
          FIELD(names.debuginfod), "off",
          .help = "get debug information that this machine lacks from the servers of DEBUGINFOD_URLS, which "
                  "learn the build ids" },
        { "jit-symbols", 0, OPTION_BOOL, RUN, "export", FIELD(names.jit_symbols), "on",
          .advanced = true,
          .help = "name code that targets make while they run, by their perf-map files, jitdumps and what they "
                  "register for debuggers: no backend could" },
        { "lines", 0, OPTION_BOOL, RUN | READERS | VERB_RECORD | VERB_STACKS, "export",
          FIELD(names.lines), "on",
          USES({ CONVERT | VERB_KEEP, "off", "add source lines and inlined functions, from DWARF and Go's own table of "
                                 "this machine" },
               { REPORT | VERB_RECORD | VERB_STACKS,
                 .help = "add source lines and inlined functions, from DWARF and Go's own table of this "
                         "machine: those that a second is enough for; with --lines=on, all" }),
          .help = "add source lines and inlined functions, from DWARF and Go's own table of this machine, "
                  "with symbols = local and within a budget of time" },
        { "timestamps", 0, OPTION_BOOL, RUN | CONVERT, "export", FIELD(form.timestamps), "on",
          .is_form = true, .advanced = true, .help = "send the time of each sample" },
        { "mapping-paths", 0, OPTION_CHOICE, RUN | CONVERT, "export", FIELD(form.mapping_paths), "full",
          .choices = "full name none", .argument = "WHAT", .is_form = true, .advanced = true,
          .help = "of mapped files send the whole path, its last part, or nothing; build ids name them in "
                  "any case" },
        { "links", 0, OPTION_CHOICE, RUN | CONVERT, "export", FIELD(form.links), "span",
          .choices = "span trace off", .argument = "WHAT", .is_form = true,
          .advanced = true,
          .help = "what samples say of their span: its trace and id (some 30 bytes for each span), the trace "
                  "alone as the attribute trace_id, or nothing" },
        { "attributes", 0, OPTION_LIST, RUN | CONVERT, "export", FIELD(form.attributes), "full",
          .argument = "full|lean[,GLOB…]", .check = option_check_glob, .is_form = true, .advanced = true,
          .help = "lean: only the service, environment, host and namespace of resources, and none of "
                  "samples, for backends that index them; and those whose key matches a GLOB" },
        { "repeat-on-samples", 0, OPTION_LIST, RUN | CONVERT, "export", FIELD(form.repeat_on_samples),
          .argument = "GLOB[,GLOB…]", .is_form = true, .advanced = true,
          .help = "attributes of resources that each sample gets, too: for Pyroscope behind a Collector, "
                  "service.name" },
        { "resource-numbers", 0, OPTION_CHOICE, RUN | CONVERT, "export", FIELD(form.resource_numbers), "keep",
          .choices = "keep text off", .argument = "HOW", .is_form = true, .advanced = true,
          .help = "attributes of resources that are numbers, such as process.pid: send them, as text, or "
                  "not" },
        { "attributes-allow", 0, OPTION_LIST, RUN, "export", FIELD(resource.allow),
          .argument = "GLOB[,GLOB…]",
          .help = "send only attributes whose key matches; of resources, samples and trace contexts" },
        { "attributes-deny", 0, OPTION_LIST, RUN, "export", FIELD(resource.deny),
          .argument = "GLOB[,GLOB…]",
          .help = "never send attributes whose key matches, whatever is allowed" },
        { "host-id", 0, OPTION_CHOICE, RUN | RECORD, "export", FIELD(resource.host_id), "hashed",
          .choices = "hashed machine none", .argument = "WHICH",
          .advanced = true,
          .help = "host.id of resources: the machine's id hashed for spanprof alone; the id of "
                  "/etc/machine-id itself, to join with other telemetry; or none" },
        { "resource-attributes", 0, OPTION_STRING, RUN | RECORD, "export", FIELD(resource.attributes), "",
          .argument = "KEY=VALUE[,…]", .check = option_check_resource_attributes, .advanced = true,
          .help = "add these to each resource, where a target says nothing else: cluster, region, node; "
                  "percent-encoded (also OTEL_RESOURCE_ATTRIBUTES of the daemon)" },
        { "coroutine-ids", 0, OPTION_BOOL, RUN | RECORD, "export", FIELD(resource.coroutine_ids), "off",
          .advanced = true,
          .help = "add coroutine.id to samples of coroutines, STATION-BIRTH, and of processes of Erlang, "
                  "<0.123.0>; and go.goroutine.id to those of goroutines: one word for a backend to group "
                  "by, and a new value for each" },

        { "duration", 'd', OPTION_DURATION, SAMPLERS | CORO | REPORT | VERB_CONTEXTS, "daemon",
          FIELD(daemon.duration_ns), "0", 0, SECONDS(366 * UINT64_C(86400)), .argument = "TIME",
          .bare_seconds = true,
          USES({ REPORT, "1s", "of a process (PID instead of files): how long to look" },
               { VERB_STACKS, "250ms", "how long threads that run are sampled" },
               { VERB_CONTEXTS,
                 .help = "with --check or --watch, how long to look (0: 3s; --watch: until the process is "
                         "gone)" }),
          .help = "stop after this time (0: run until stopped)" },
        { "control", 0, OPTION_STRING, RUN | VERB_STATUS | VERB_WATCH | VERB_KEEP | VERB_BOOST | VERB_TOP, "daemon",
          FIELD(daemon.control), "", .argument = "PATH", .advanced = true,
          .help = "socket for `spanprof status`, `keep`, `boost`, `pause` and `resume` (empty: " CONTROL_DEFAULT
                  ", if that directory is there)" },
        { "metrics", 0, OPTION_STRING, RUN, "daemon", FIELD(daemon.metrics), "",
          .argument = "ADDRESS:PORT|PATH", .check = option_check_metrics,
          .help = "serve /metrics for Prometheus, /healthz and /readyz there, e.g. 127.0.0.1:9464 (empty: "
                  "nowhere)" },
        { "max-cpu", 0, OPTION_NUMBER, RUN, "daemon", FIELD(daemon.max_cpu), "0", 0, 100000,
          .argument = "PERCENT",
          .help = "of one CPU that the daemon itself may use; above it the frequency is halved (0: no "
                  "limit)" },
        { "max-memory", 0, OPTION_SIZE, RUN | RECORD, "daemon", FIELD(daemon.max_memory_bytes), "0", 0,
          MIB(UINT64_C(1) << 20), .argument = "SIZE",
          USES({ RECORD, "2GiB", "that spanprof itself may have resident; a recording that reaches it ends "
                                 "(0: no limit)" }),
          .help = "that the daemon itself may have resident; above it sampling pauses (0: no limit)" },
        { "summary", 0, OPTION_STRING, RUN | RECORD, "daemon", FIELD(daemon.summary), "", .argument = "FILE",
          .advanced = true, .help = "write all counters to FILE as JSON at the end" },
        { "run-as", 0, OPTION_STRING, RUN | RECEIVE, "daemon", FIELD(daemon.run_as), "", .argument = "USER",
          .help = "who root's daemon becomes, by name or number; root to stay it (empty: spanprof, or nobody "
                  "where there is no such user)" },
        { "log-level", 0, OPTION_CHOICE, SAMPLERS | RECEIVE | CORO | CONVERT | VERB_SPOOL, "daemon",
          FIELD(daemon.log_level), "info", .choices = "error warning notice info debug", .argument = "LEVEL",
          .help = "least important messages to show" },

        { "port", 0, OPTION_NUMBER, RECEIVE, "receiver", FIELD(receiver.port), "4318", 0, 65535,
          .argument = "PORT",
          .help = "to listen on (0: any free one, which is printed)" },
        { "listen", 0, OPTION_STRING, RECEIVE, "receiver", FIELD(receiver.listen), "127.0.0.1",
          .argument = "ADDRESS[:PORT]", .check = option_check_listen,
          .help = "to listen on, e.g. 0.0.0.0:4318; its port stands for --port" },
        { "forward", 0, OPTION_URL, RECEIVE, "receiver", FIELD(receiver.forward), "", .argument = "URL",
          .help = "pass each request on to another OTLP/HTTP receiver" },
        { "max-request", 0, OPTION_SIZE, RECEIVE, "receiver", FIELD(receiver.max_request_bytes), "64MiB",
          1024, MIB(1024), .argument = "SIZE",
          .advanced = true, .help = "larger requests are refused (after decompression)" },
        { "max-bytes", 0, OPTION_SIZE, RECEIVE, "receiver", FIELD(receiver.max_stored_bytes), "1GiB", 0,
          MIB(UINT64_C(1) << 24), .argument = "SIZE",
          .help = "of all stored requests; what comes then is refused until there is room" },
        { "max-files", 0, OPTION_NUMBER, RECEIVE, "receiver", FIELD(receiver.max_stored_files), "100000", 0,
          100000000, .argument = "N",
          .advanced = true,
          .help = "stored files, two a request, or one a part of it; what comes then is refused" },
        { "store-layout", 0, OPTION_CHOICE, RECEIVE, "receiver", FIELD(receiver.store_layout), "flat",
          .choices = "flat partitioned", .argument = "LAYOUT", .advanced = true,
          .help = "of the directory: each request as a pair of files, or split into "
                  "DAY/SERVICE/HOST/NNNNNN.pb for many hosts" },
        { "token-file", 0, OPTION_STRING, RECEIVE, "receiver", FIELD(receiver.token_file), "",
          .argument = "FILE",
          .advanced = true,
          .help = "take only requests with one of the bearer tokens in FILE, one a line; read at the start" },
        { "output", 'o', OPTION_STRING, RECEIVE | READERS | CORO | VERB_SPOOL | VERB_WATCH | RECORD | LOOKS,
          NULL, FIELD(command.output), "", .argument = "PATH",
          USES({ RECEIVE,
                 .help = "the directory for NNNNNN.pb and NNNNNN.json (default: spanprof-received)" },
               { RECORD,
                 .help = "the file, whose suffix says the format (- for standard output; default: "
                         "spanprof.html)" },
               { VERB_WATCH, .help = "a file with a page of HTML, or JSON with --json (- for standard output)" }),
          .help = "the file, whose suffix says the format (- for standard output)" },
        { "format", 0, OPTION_CHOICE, READERS | RECORD | LOOKS, NULL, FIELD(command.format),
          "auto",
          .choices = "auto text markdown json html svg folded pprof pgo otlp speedscope firefox",
          .argument = "FORMAT",
          .help = "form of the output, whatever its suffix" },
        { "pretty", 0, OPTION_BOOL, CONVERT, NULL, FIELD(convert.pretty), "off", .help = "indent JSON" },
        { "resource", 0, OPTION_LIST, CONVERT, NULL, FIELD(convert.resources), .argument = "KEY=VALUE[,…]",
          .check = option_check_resource,
          .help = "attributes of the resource, e.g. service.name=shop; they win over the input's" },
        { "process", 0, OPTION_LIST, READERS | VERB_BOOST, NULL, FIELD(filter.processes),
          .argument = "PID|GLOB[,…]", USES({ VERB_BOOST, NULL, "the process with this id" }),
          .help = "only processes with this id, or with a matching name of program or service" },
        { "service", 0, OPTION_LIST, READERS, NULL, FIELD(filter.services), .argument = "GLOB[,…]",
          .help = "only services whose name matches" },
        { "host", 0, OPTION_LIST, READERS, NULL, FIELD(filter.hosts), .argument = "GLOB[,…]",
          .advanced = true, .help = "only hosts whose name (host.name) matches" },
        { "thread", 0, OPTION_LIST, READERS, NULL, FIELD(filter.threads), .argument = "TID|GLOB[,…]",
          .help = "only threads with this id or a matching name" },
        { "span", 0, OPTION_LIST, READERS, NULL, FIELD(filter.span_ids), .argument = "ID[,…]",
          .check = option_check_span, .help = "only samples of these spans" },
        { "trace", 0, OPTION_LIST, READERS, NULL, FIELD(filter.trace_ids), .argument = "ID[,…]",
          .check = option_check_trace, .help = "only samples of these traces" },
        { "operation", 0, OPTION_LIST, READERS, NULL, FIELD(filter.operations),
          .argument = "GLOB[,…]",
          .help = "only samples of spans with a matching operation: by --spans, or by what the samples say "
                  "(operation, http.route …)" },
        { "slower-than", 0, OPTION_DURATION, READERS, NULL, FIELD(filter.slower_ns), "0", 0, SECONDS(86400),
          .argument = "TIME", .advanced = true,
          .help = "only traces with a span, of --operation if that is given, whose samples and waits are further "
                  "apart; all of these traces" },
        { "coroutine", 0, OPTION_LIST, READERS, NULL, FIELD(filter.coroutines),
          .argument = "ID|STATION|TASK[,…]", .help = "only these coroutines: id, probe id or station; or tasks: name" },
        { "type", 0, OPTION_LIST, READERS | VERB_RECORD, NULL, FIELD(filter.types),
          .argument = "GLOB[,…]",
          .help = "only profiles of these types: samples (of the CPU), suspended (coroutines), wall, "
                  "alloc_space …" },
        { "start", 0, OPTION_STRING, READERS, NULL, FIELD(filter.start), "", .argument = "TIME",
          .help = "only events from then on: 2026-01-31T12:00:00Z, seconds since 1970, +10s from the recording's "
                  "start, or -90s back from now" },
        { "end", 0, OPTION_STRING, READERS, NULL, FIELD(filter.end), "", .argument = "TIME",
          .help = "only events before then" },
        { "include-payload", 0, OPTION_BOOL, CONVERT, NULL, FIELD(convert.include_payload), "off",
          .advanced = true,
          .help = "add each recording as it is (original_payload), but for environment, system properties "
                  "and command lines" },
        { "include-arguments", 0, OPTION_BOOL, CONVERT, NULL, FIELD(convert.include_arguments), "off",
          .advanced = true, .help = "add the command line that the recording names; it may hold secrets" },

        { "diff", 0, OPTION_BOOL, REPORT, NULL, FIELD(report.diff), "off",
          .help = "two files or directories: what the second has more and less of" },
        { "wall", 0, OPTION_BOOL, REPORT, NULL, FIELD(report.wall), "off",
          .help = "one profile of the time that threads ran and waited (record --off-cpu)" },
        { "annotate", 0, OPTION_STRING, REPORT, NULL, FIELD(report.annotate), "", .argument = "FILE",
          .help = "print this source file with what was measured beside its lines; FILE:5 those with samples "
                  "alone, and 5 around each" },
        { "fail-above", 0, OPTION_NUMBER, REPORT | VERB_RECORD, NULL, FIELD(report.fail_above), "100", 0, 100,
          .argument = "POINTS",
          .help = "with --diff or --compare: exit status 3 if a function's share grew by more, and by more "
                  "than noise" },
        { "compare", 0, OPTION_STRING, VERB_RECORD, NULL, FIELD(report.compare), "", .argument = "BASELINE",
          .help = "compare with this earlier recording, of any form; see --fail-above" },
        { "explain", 0, OPTION_BOOL, REPORT, NULL, FIELD(report.explain), "off",
          .help = "say what the words of the report mean" },
        { "sort", 's', OPTION_CHOICE, REPORT | VERB_TOP, NULL, FIELD(report.sort), "self",
          .choices = "self total", .argument = "COLUMN", .help = "what functions are sorted by" },
        { "spans", 0, OPTION_STRING, REPORT | CONVERT, NULL, FIELD(report.spans), "", .argument = "FILE",
          .help = "name operations by a list of spans: traces in OTLP, as a collector's file exporter writes "
                  "them, or CSV with span_id,operation,…" },
        { "json", 0, OPTION_BOOL,
          REPORT | VERB_TARGETS | VERB_VALIDATE | VERB_SPOOL | VERB_STATUS | VERB_WATCH | VERB_DOCTOR |
                  VERB_TOP | VERB_STACKS, NULL,
          FIELD(command.json), "off", .help = "print JSON, for programs" },
        { "probe", 0, OPTION_CHOICE, VERB_STATUS, NULL, FIELD(command.probe), "none",
          .choices = "none health ready", .argument = "WHICH",
          .help = "only whether the daemon answers, or is ready; for health checks, which need no port for "
                  "that" },
        { "for", 0, OPTION_DURATION, VERB_BOOST, NULL, FIELD(command.boost_ns), "60s", SECONDS(1), SECONDS(600),
          .argument = "TIME", .bare_seconds = true, .advanced = true, .help = "how long, 10m at most" },
        { "watch", 'w', OPTION_BOOL, VERB_CONTEXTS, NULL, FIELD(command.watch), "off",
          .help = "look again once a second, until the process is gone" },
        { "check", 0, OPTION_BOOL, VERB_CONTEXTS, NULL, FIELD(command.check), "off",
          .help = "hold what it publishes against each rule of the formats, for the time of --duration" },
        { "verbose", 'v', OPTION_BOOL, VERB_TARGETS, NULL, FIELD(command.verbose), "off",
          .help = "list the processes that are not chosen, too" },
        { "top", 0, OPTION_NUMBER, REPORT | RECORD | VERB_TOP, NULL, FIELD(report.top), "20", 1, 1000000,
          .argument = "N", .help = "rows of each table" },

        { "interval", 'i', OPTION_DURATION, VERB_TOP, NULL, FIELD(top.interval_ns), "2s", 200 * NS_PER_MS,
          SECONDS(60), .argument = "TIME", .bare_seconds = true, .help = "between two refreshes (2s)" },
        { "count", 'n', OPTION_NUMBER, VERB_TOP, NULL, FIELD(top.count), "0", 0, 1000000000, .argument = "N",
          .help = "end after so many refreshes (0: until stopped)" },
        { "view", 0, OPTION_CHOICE, VERB_TOP, NULL, FIELD(top.view), "functions",
          .choices = "functions spans threads processes coroutines tree waits operations", .argument = "VIEW",
          .help = "what to begin with, or what lines are of" },
        { "filter", 0, OPTION_STRING, VERB_TOP, NULL, FIELD(top.filter), "", .argument = "TEXT",
          .help = "only rows with this text in one of their names" },

        { "stations", 'n', OPTION_NUMBER, CORO, NULL, FIELD(coro.stations), "4096", 1, 1 << 24,
          .argument = "N",
          .help = "places for coroutines, 1 KiB each; every coroutine takes one and nobody gives one back "
                  "(4096)" },
        { "region", 0, OPTION_STRING, CORO, NULL, FIELD(coro.region), "", .argument = "FILE",
          .advanced = true,
          .help = "make the region of stations here, and the socket for wake-ups at FILE.sock (default: in a "
                  "directory of their own in /dev/shm)" },
        { "buffer", 0, OPTION_SIZE, CORO, NULL, FIELD(coro.buffer_bytes), "512MiB", 0, UINT64_C(1) << 40,
          .argument = "SIZE",
          .advanced = true,
          .help = "memory for events that come faster than lines are written, at most; never more than an "
                  "eighth of what is left here" },
        { "max-trace", 0, OPTION_SIZE, CORO, NULL, FIELD(coro.max_trace_bytes), "0", 0, UINT64_C(1) << 50,
          .argument = "SIZE",
          .advanced = true,
          .help = "largest size of its events; those that come then are counted and left out; 0 = no limit" },
        { "places", 0, OPTION_BOOL, CORO, NULL, FIELD(coro.places), "on",
          .advanced = true,
          .help = "keep in the trace where the program's code lay (paths, build ids), so that reports name "
                  "its functions" },

        { "config", 'c', OPTION_STRING, CHOOSERS | RECEIVE | VERB_CONFIG | VERB_SPOOL | VERB_STATUS | VERB_WATCH |
                  VERB_KEEP | VERB_BOOST,
          NULL,
          FIELD(command.config), "", .argument = "FILE",
          USES({ DESK, .help = "read FILE; without it no configuration is read" }),
          .help = "read FILE instead of the installed configuration" },
        { "help", 'h', OPTION_BOOL, VERB_ANY, NULL, FIELD(command.help), "off",
          .help = "show this help; with --all the advanced options, too" },
        { "version", 0, OPTION_BOOL, VERB_ANY, NULL, FIELD(command.version), "off",
          .help = "show the version" },
};

const size_t option_table_size = ARRAY_SIZE(option_table);
_Static_assert(ARRAY_SIZE(option_table) <= CONFIG_MAX_OPTIONS, "origins has one place for each option");

const Option *option_find(const char *name, size_t size) {
        for (size_t i = 0; i < ARRAY_SIZE(option_table); i++)
                if (strlen(option_table[i].name) == size && !memcmp(option_table[i].name, name, size))
                        return &option_table[i];
        return NULL;
}

const Option *option_find_letter(char letter, int verb) {
        for (size_t i = 0; i < ARRAY_SIZE(option_table); i++)
                if (letter && option_table[i].letter == letter &&
                    (option_is_for(&option_table[i], verb) || !option_is_setting(&option_table[i])))
                        return &option_table[i];
        return NULL;
}

static const OptionUse *find_use(const Option *option, int verb) {
        static const OptionUse none = { 0 };
        const OptionUse *use = option->uses ? option->uses : &none;

        while (use->verbs && !(use->verbs & verb))
                use++;
        return use;
}

const char *option_fallback(const Option *option, int verb) {
        const char *own = find_use(option, verb)->fallback;

        return own ? own : option->fallback;
}

const char *option_help(const Option *option, int verb) {
        const char *own = find_use(option, verb)->help;

        return own ? own : option->help;
}

void option_environment(const Option *option, char *to) {
        size_t n = sizeof("SPANPROF_") - 1;

        memcpy(to, "SPANPROF_", n);
        for (const char *c = option->name; *c && n < OPTION_ENVIRONMENT_MAX - 1; c++)
                to[n++] = *c == '-' ? '_' : *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
        to[n] = 0;
}

/* Edits (insert, delete, replace, swap of neighbours) from @a to @b; neither longer than DISTANCE_MAX. */
enum { DISTANCE_MAX = 48 };

static unsigned edit_distance(const char *a, const char *b) {
        unsigned rows[3][DISTANCE_MAX + 1];     /* the one before the previous, the previous, this one */
        size_t n_a = strlen(a), n_b = strlen(b);

        for (size_t j = 0; j <= n_b; j++)
                rows[1][j] = (unsigned)j;
        for (size_t i = 1; i <= n_a; i++) {
                rows[2][0] = (unsigned)i;
                for (size_t j = 1; j <= n_b; j++) {
                        unsigned best = rows[1][j - 1] + (a[i - 1] != b[j - 1]);

                        best = MIN(best, MIN(rows[1][j], rows[2][j - 1]) + 1);
                        if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                                best = MIN(best, rows[0][j - 2] + 1);
                        rows[2][j] = best;
                }
                memcpy(rows[0], rows[1], sizeof(rows[0]));
                memcpy(rows[1], rows[2], sizeof(rows[0]));
        }
        return rows[1][n_b];
}

const char *nearest_word(const char *typed, const char *const *words) {
        size_t length = strlen(typed);
        unsigned best = length < 4 ? 2 : 1 + (unsigned)length / 3;      /* farther is no misspelling */
        const char *nearest = NULL;

        if (!length || length > DISTANCE_MAX)
                return NULL;
        for (; *words; words++) {
                unsigned distance;

                if (strlen(*words) > DISTANCE_MAX)
                        continue;
                distance = length >= 3 && !strncmp(typed, *words, length) ? 1 : edit_distance(typed, *words);
                if (distance < best) {
                        best = distance;
                        nearest = *words;
                }
        }
        return nearest;
}
