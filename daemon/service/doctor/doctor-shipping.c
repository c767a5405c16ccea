/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Where profiles go: the kill switch, the spool, names, and a request to the receiver that carries nothing.
 */

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/util/clock.h"
#include "base/util/macro.h"
#include "delivery/export/endpoint.h"
#include "delivery/export/http.h"
#include "service/config/config-exporter.h"
#include "service/doctor/doctor.h"
#include "service/run/control.h"

#define TIME_LIMIT_NS (5 * NS_PER_SEC)
#define DEBUG_DIRECTORY "/usr/lib/debug/.build-id"       /* as symbol/function/symbolizer.h */

static void check_switch(Doctor *doctor) {
        struct stat st;

        if (lstat("/etc/spanprof/disabled", &st))
                doctor_add(doctor, "kill-switch", DOCTOR_OK, NULL, "is off");
        else
                doctor_add(doctor, "kill-switch", DOCTOR_WARN, "remove /etc/spanprof/disabled",
                           "is on: nothing is sampled");
}

static void check_daemon(Doctor *doctor) {
        const char *path = *doctor->config->control ? doctor->config->control : CONTROL_DEFAULT;
        _cleanup_(text_deinit) Text answer = { 0 };
        int status;

        if (!control_ask(path, "GET", "/readyz", &status, &answer))
                doctor_add(doctor, "daemon", status == 200 ? DOCTOR_OK : DOCTOR_WARN, "see `spanprof status`",
                           "runs, and says: %.*s", (int)strcspn(answer.data ? answer.data : "", "\n"),
                           answer.data ? answer.data : "");
        else
                doctor_add(doctor, "daemon", DOCTOR_OK, NULL, "none runs (%s)", path);
}

static void check_spool(Doctor *doctor) {
        const char *path = doctor->config->spool;
        struct statvfs space;
        struct stat st;

        if (!*path)
                doctor_add(doctor, "spool", DOCTOR_OK, NULL,
                           "none is set here; the service has /var/lib/spanprof/spool");
        else if (stat(path, &st))
                doctor_add(doctor, "spool", errno == ENOENT ? DOCTOR_OK : DOCTOR_FAIL,
                           "make it, or give the daemon the right to look there",
                           errno == ENOENT ? "%s is not there yet" : "%s cannot be looked at", path);
        else if (!S_ISDIR(st.st_mode) || access(path, R_OK | W_OK | X_OK))
                doctor_add(doctor, "spool", DOCTOR_FAIL,
                           "give it to the daemon's user, or choose another with --spool",
                           "%s is no directory that we may write", path);
        else if (!statvfs(path, &space) &&
                 (uint64_t)space.f_bavail * space.f_frsize < doctor->config->spool_max_bytes)
                doctor_add(doctor, "spool", DOCTOR_WARN, "make room, or lower spool-max-bytes",
                           "%s: %" PRIu64 " MiB free, %" PRIu64 " may be used", path,
                           (uint64_t)space.f_bavail * space.f_frsize >> 20,
                           doctor->config->spool_max_bytes >> 20);
        else
                doctor_add(doctor, "spool", DOCTOR_OK, NULL, "%s", path);
}

/* ---- the receiver ---- */

typedef struct Request {
        Doctor *doctor;
        sd_event *event;
} Request;

static const char *const faults[] = {
        [HTTP_FAULT_TIMEOUT] = "no answer in time",
        [HTTP_FAULT_CONNECTION] = "the connection was closed before an answer",
        [HTTP_FAULT_PROTOCOL] = "what answers speaks no HTTP (gRPC's port is 4317, this is 4318 as a rule)",
        [HTTP_FAULT_TLS] = "TLS failed: certificates do not fit, or one side speaks none",
};

static const char *fault_text(const HttpReply *reply) {
        const char *text = (size_t)reply->fault < ARRAY_SIZE(faults) ? faults[reply->fault] : NULL;

        return text ? text : "cannot be reached";
}

static void judge_status(Doctor *doctor, int status) {
        const char *url = doctor->config->profiles_url;

        if (status >= 200 && status < 300)
                doctor_add(doctor, "endpoint", DOCTOR_OK, NULL, "%s takes profiles", url);
        else if (status == 429 || status == 502 || status == 503 || status == 504)
                doctor_add(doctor, "endpoint", DOCTOR_WARN, "look at the receiver", "%s answers %d: busy",
                           url, status);
        else
                doctor_add(doctor, "endpoint", DOCTOR_FAIL,
                           status == 401 || status == 403 ? "set headers= with the right credentials"
                                   : status == 404
                                   ? "enable the profiles signal in the receiver, or mend the path"
                                   : "look at the receiver's log",
                           "%s answers %d", url, status);
}

static void on_reply(const HttpReply *reply, void *userdata) {
        Request *request = userdata;
        const char *url = request->doctor->config->profiles_url;

        if (reply->status)
                judge_status(request->doctor, reply->status);
        else
                doctor_add(request->doctor, "endpoint", DOCTOR_FAIL,
                           "start a receiver there (`spanprof receive` is one), or set endpoint=",
                           "%s: %s%s%s", url, fault_text(reply), *reply->error ? ": " : "", reply->error);
        sd_event_exit(request->event, 0);
}

static int make_request(const Doctor *doctor, Request *request, char *why, size_t size, Http **httpp) {
        const Config *config = doctor->config;
        ExporterConfig exporter = config_exporter(config, config->profiles_url);
        HttpConfig http = {
                .url = exporter.endpoint,
                .json = exporter.convert != NULL,
                .timeout_ns = MIN(config->timeout_ns, TIME_LIMIT_NS),
                .certificate = exporter.certificate,
                .client_certificate = exporter.client_certificate,
                .client_key = exporter.client_key,
        };
        char **headers = NULL;
        int r = endpoint_check_url(exporter.endpoint, why, size);

        if (!r)
                r = endpoint_parse_headers(config->headers, &headers, why, size);
        http.headers = (const char *const *)headers;
        if (!r)
                r = http_new(httpp, request->event, &http);
        endpoint_headers_free(headers);
        return r;
}

/*
 * An empty message is a whole one in protobuf: a request that carries no profile, which any receiver may
 * take.
 */
static void check_endpoint(Doctor *doctor) {
        Request request = { .doctor = doctor };
        Http *http = NULL;
        char why[256] = "out of memory";
        const char *body = strcmp(doctor->config->protocol, "http/json") ? "" : "{}";

        if (sd_event_new(&request.event) < 0)
                return;
        if (make_request(doctor, &request, why, sizeof(why), &http) ||
            http_post(http, body, strlen(body), on_reply, &request))
                doctor_add(doctor, "endpoint", DOCTOR_FAIL, "mend endpoint= or headers=", "%s: %s",
                           doctor->config->profiles_url, why);
        else
                sd_event_loop(request.event);
        http_free(http);
        sd_event_unref(request.event);
}

/* What has no names is no failure: addresses and build ids are sent in any case. */
static void check_symbols(Doctor *doctor) {
        const char *code = doctor->config->jit_symbols
                ? "code that targets make is named by their perf-map files and jitdumps"
                : "code that targets make has no names (jit-symbols = off)";

        if (!strcmp(doctor->config->symbols, "upload"))
                doctor_add(doctor, "symbols", DOCTOR_OK, NULL,
                           "functions in files are named by the backend, from symbols that are uploaded to it (%s, "
                           "%zu patterns of paths); %s",
                           doctor->config->upload.protocol, doctor->config->upload.paths.n_items, code);
        else if (strcmp(doctor->config->symbols, "local"))
                doctor_add(doctor, "symbols", DOCTOR_OK, NULL,
                           "functions in files are named by the backend (symbols = remote); %s", code);
        else if (access(DEBUG_DIRECTORY, X_OK))
                doctor_add(doctor, "symbols", DOCTOR_WARN,
                           "install debug packages (-dbgsym, -debuginfo) of what is profiled",
                           "no " DEBUG_DIRECTORY ": of stripped files only exported functions have names; %s",
                           code);
        else
                doctor_add(doctor, "symbols", DOCTOR_OK, NULL,
                           "functions in files are named here, also by " DEBUG_DIRECTORY "; %s", code);
}

static void check_runtimes(Doctor *doctor) {
        bool java = config_has_runtime(doctor->config, "hotspot");

        doctor_add(doctor, "runtimes", DOCTOR_OK, NULL,
                   java ? "frames of Java (HotSpot 8 and newer) are walked and named without flags; `spanprof status` "
                          "names processes that are not, and why"
                        : "frames of Java are not walked (runtimes = %s)", doctor->config->runtimes);
}

void doctor_check_shipping(Doctor *doctor) {
        check_symbols(doctor);
        check_runtimes(doctor);
        check_switch(doctor);
        check_daemon(doctor);
        check_spool(doctor);
        check_endpoint(doctor);
}
