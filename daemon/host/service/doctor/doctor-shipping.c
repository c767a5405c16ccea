/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Where profiles go: the kill switch, names, and a request to the receiver that carries nothing.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/util/clock.h"
#include "core/base/util/macro.h"
#include "core/http/endpoint.h"
#include "core/http/http.h"
#include "host/delivery/export/certificate.h"
#include "host/runtime/go/go-layout.h"
#include "host/runtime/jvm/other-jvm.h"
#include "host/service/config/backend.h"
#include "host/service/config/config-exporter.h"
#include "host/service/control/control.h"
#include "host/service/control/nameless.h"
#include "host/service/doctor/doctor.h"

enum { NAMELESS_PERCENT = 5 };          /* samples that lack a name they could have: worth a warning */

#define TIME_LIMIT_NS (5 * NS_PER_SEC)
#define DEBUG_DIRECTORY "/usr/lib/debug/.build-id"       /* as core/symbol/function/symbolizer.h */

static void check_switch(Doctor *doctor) {
        struct stat st;

        if (lstat("/etc/spanprof/disabled", &st))
                doctor_add(doctor, "kill-switch", DOCTOR_OK, NULL, "is off");
        else
                doctor_add(doctor, "kill-switch", DOCTOR_WARN, "sudo rm /etc/spanprof/disabled",
                           "is on: nothing is sampled");
}

void doctor_judge_nameless(Doctor *doctor, const char *line) {
        bool is_much = nameless_curable_in(line) >= NAMELESS_PERCENT;
        bool is_sound = !is_much && strtod(line, NULL) >= NAMELESS_PERCENT;

        doctor_add(doctor, "nameless", is_much ? DOCTOR_WARN : DOCTOR_OK, is_much ? nameless_fix_in(line) : NULL,
                   "%s%s", line, is_sound ? "; counts are sound, and there is nothing to mend" : "");
}

/* Takes coverage, the share of samples without a name, and boosts, that the running daemon reports. */
static void check_samples(Doctor *doctor, const char *path) {
        _cleanup_(text_deinit) Text answer = { 0 };
        char line[DOCTOR_MAX_LINE];
        int status;

        if (control_ask(path, "GET", "/status", &status, &answer) || status != 200 || !answer.data)
                return;
        if (doctor_find_line(answer.data, "coverage", line)) {
                CoverageCause cause = coverage_cause_in(line);

                doctor_add(doctor, "coverage", cause ? DOCTOR_WARN : DOCTOR_OK, coverage_cause_fix(cause), "%s",
                           line);
        }
        if (doctor_find_line(answer.data, "nameless", line))
                doctor_judge_nameless(doctor, line);
        doctor_judge_boosts(doctor, answer.data);
}

/* Where packages and administrators put it. */
static bool has_unit(void) {
        static const char *const paths[] = {
                "/etc/systemd/system/spanprof.service",
                "/usr/lib/systemd/system/spanprof.service",
                "/lib/systemd/system/spanprof.service",
        };

        for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
                if (!access(paths[i], F_OK))
                        return true;
        return false;
}

static void check_daemon(Doctor *doctor) {
        const char *path = config_control(doctor->config);
        _cleanup_(text_deinit) Text answer = { 0 };
        int status, r = control_ask(path, "GET", "/readyz", &status, &answer);

        if (!r) {
                doctor_add(doctor, "daemon", status == 200 ? DOCTOR_OK : DOCTOR_WARN, "spanprof status",
                           "runs, and says: %.*s", (int)strcspn(answer.data ? answer.data : "", "\n"),
                           answer.data ? answer.data : "");
                if (!doctor->view.pid)
                        doctor_add(doctor, "sandbox", DOCTOR_WARN, "sudo systemctl restart spanprof && sudo spanprof doctor",
                                   "the daemon that runs does not say what it can read: it is older than this command");
                check_samples(doctor, path);
        } else if (errno == EACCES) {
                doctor_add(doctor, "daemon", DOCTOR_WARN, "sudo spanprof doctor",
                           "%s is for root and the group of the daemon: all this is as this command sees it", path);
        } else {
                doctor_add(doctor, "daemon", DOCTOR_OK, NULL, "none runs (%s): all this is as this command sees it", path);
                if (has_unit())
                        doctor_add(doctor, "sandbox", DOCTOR_OK, NULL,
                                   "that of the unit may hold back what this command has: `sudo systemctl start spanprof`, then "
                                   "`sudo spanprof doctor` asks the service");
        }
}

/* ---- certificates ---- */

static bool is_https(const Doctor *doctor) {
        return !strncasecmp(doctor->config->delivery.profiles_url, "https:", strlen("https:"));
}

void doctor_judge_certificate(Doctor *doctor, const char *name, const char *what, const char *fix, time_t end,
                              time_t now) {
        char date[sizeof("2026-11-23 12:00:00")] = "";
        struct tm tm;

        strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S", gmtime_r(&end, &tm));
        if (end <= now)
                doctor_add(doctor, name, DOCTOR_FAIL, fix, "%s has ended: %s UTC", what, date);
        else
                doctor_add(doctor, name, end - now < CERTIFICATE_SOON_S ? DOCTOR_WARN : DOCTOR_OK, fix,
                           "%s ends %s UTC, in %lld days", what, date, (long long)(end - now) / (24 * 3600));
}

static void check_certificate(Doctor *doctor, const char *name, const char *path, CertificatesOf of) {
        char fix[DOCTOR_CURE_MAX];
        time_t end;

        snprintf(fix, sizeof(fix),
                 "sudo install -m 600 NEW.pem %s.new && sudo mv %s.new %s   # it is read at the next connection",
                 path, path, path);
        switch (certificate_end(path, of, &end)) {
        case 0:
                doctor_judge_certificate(doctor, name, path, fix, end, time(NULL));
                return;
        case CERTIFICATE_E_UNREADABLE:
                doctor_add(doctor, name, DOCTOR_FAIL, fix, "%s: %s", path, strerror(errno));
                return;
        case CERTIFICATE_E_NONE:
                snprintf(fix, sizeof(fix), "openssl x509 -in %s -noout -enddate", path);
                doctor_add(doctor, name, DOCTOR_FAIL, fix, "%s holds no certificate in PEM", path);
                return;
        default:
                doctor_add(doctor, name, DOCTOR_WARN, "sudo apt-get install libssl3 || sudo dnf install openssl-libs",
                           "%s cannot be read without it", path);
        }
}

static void check_certificates(Doctor *doctor) {
        const Config *config = doctor->config;

        if (is_https(doctor) && *config->delivery.certificate)
                check_certificate(doctor, "certificate", config->delivery.certificate, CERTIFICATES_AUTHORITIES);
        if (is_https(doctor) && *config->delivery.client_certificate)
                check_certificate(doctor, "client-certificate", config->delivery.client_certificate, CERTIFICATES_CHAIN);
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
        const char *url = doctor->config->delivery.shown_url;
        char fix[DOCTOR_CURE_MAX];

        snprintf(fix, sizeof(fix), "curl -v -X POST -H 'Content-Type: application/x-protobuf' '%s'   # %s", url,
                 status == 401 || status == 403 ? "needs credentials: set headers= with the right ones"
                         : status == 404 ? "its profiles signal must be enabled, or the path of endpoint= mended"
                                         : "and see the receiver's log");
        if (status >= 200 && status < 300)
                doctor_add(doctor, "endpoint", DOCTOR_OK, NULL, "%s takes profiles", url);
        else if (status == 429 || status == 502 || status == 503 || status == 504)
                doctor_add(doctor, "endpoint", DOCTOR_WARN, fix, "%s answers %d: busy", url, status);
        else
                doctor_add(doctor, "endpoint", DOCTOR_FAIL, fix, "%s answers %d", url, status);
}

/*
 * The variable of the environment by which libcurl finds a proxy for @url; NULL = none. A name in no_proxy
 * goes without one; here only `*` and the whole name are known.
 */
static const char *proxy_for(const char *url) {
        static const char *const https[] = { "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", NULL },
                          *const http[] = { "http_proxy", "all_proxy", "ALL_PROXY", NULL };
        const char *none = getenv("no_proxy") ?: getenv("NO_PROXY") ?: "", *host = strstr(url, "://");
        _cleanup_(freep) char *name = host ? strndup(host + 3, strcspn(host + 3, ":/")) : NULL;

        if (!name || !strcmp(none, "*") || (*none && strstr(none, name)))
                return NULL;
        for (const char *const *at = strncasecmp(url, "https", 5) ? http : https; *at; at++)
                if (getenv(*at) && *getenv(*at))
                        return *at;
        return NULL;
}

static const char *fix_of_proxy(const char *proxy, const char *url) {
        static char fix[DOCTOR_CURE_MAX];

        snprintf(fix, sizeof(fix), "curl -v -x \"$%s\" '%s'   # tries it; or start without it: env -u %s", proxy,
                 url, proxy);
        return fix;
}

static void judge_reply(Doctor *doctor, const HttpReply *reply) {
        char fix[DOCTOR_CURE_MAX];

        judge_status(doctor, reply->status);
        snprintf(fix, sizeof(fix), "curl -v '%s'   # shows the chain; who runs the receiver renews it",
                 doctor->config->delivery.shown_url);
        if (reply->certificate_end)
                doctor_judge_certificate(doctor, "receiver-certificate", "the receiver's certificate", fix,
                                         reply->certificate_end, time(NULL));
}

static void on_reply(const HttpReply *reply, void *userdata) {
        Request *request = userdata;
        const Config *config = request->doctor->config;
        const char *url = config->delivery.shown_url, *proxy = proxy_for(config->delivery.profiles_url);
        Text shown = { 0 };

        if (reply->status) {
                judge_reply(request->doctor, reply);
        } else if (proxy) {
                endpoint_append_shown(&shown, getenv(proxy));
                doctor_add(request->doctor, "endpoint", DOCTOR_FAIL, fix_of_proxy(proxy, url),
                           "%s by the proxy %s of %s: %s%s%s", url, shown.data ? shown.data : "", proxy,
                           fault_text(reply), *reply->error ? ": " : "", reply->error);
                text_deinit(&shown);
        } else {
                doctor_add(request->doctor, "endpoint", DOCTOR_FAIL,
                           "spanprof receive --port 4318 -o profiles/   # is a receiver for a try; or set endpoint=",
                           "%s: %s%s%s", url, fault_text(reply), *reply->error ? ": " : "", reply->error);
        }
        sd_event_exit(request->event, 0);
}

static int make_request(const Doctor *doctor, Request *request, char *why, size_t size, Http **httpp) {
        const Config *config = doctor->config;
        ExporterConfig exporter = config_exporter(config, config->delivery.profiles_url);
        HttpConfig http = {
                .url = exporter.endpoint,
                .json = exporter.convert != NULL,
                .timeout_ns = MIN(config->delivery.timeout_ns, TIME_LIMIT_NS),
                .certificate = exporter.certificate,
                .client_certificate = exporter.client_certificate,
                .client_key = exporter.client_key,
        };
        char **headers = NULL;
        int r = endpoint_check_url(exporter.endpoint, why, size);

        if (!r)
                r = endpoint_parse_headers(config->delivery.headers, &headers, why, size);
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
        const char *body = strcmp(doctor->config->delivery.protocol, "http/json") ? "" : "{}";

        if (sd_event_new(&request.event) < 0)
                return;
        if (make_request(doctor, &request, why, sizeof(why), &http) ||
            http_post(http, body, strlen(body), on_reply, &request))
                doctor_add(doctor, "endpoint", DOCTOR_FAIL, "spanprof config show | grep -E 'endpoint|headers'   # says where they come from", "%s: %s",
                           doctor->config->delivery.shown_url, why);
        else
                sd_event_loop(request.event);
        http_free(http);
        sd_event_unref(request.event);
}

/* A lack of names is no failure: addresses and build ids are sent in any case. */
static void check_symbols(Doctor *doctor) {
        const char *code = doctor->config->names.jit_symbols
                ? "code that targets make is named by their perf-map files and jitdumps"
                : "code that targets make has no names (jit-symbols = off)";

        if (doctor->config->names.debuginfod && !backend_wants_names(doctor->config))
                doctor_add(doctor, "symbols", DOCTOR_WARN, "symbols = local",
                           "debuginfod = on does nothing with symbols = %s; %s", doctor->config->form.symbols, code);
        else if (doctor->config->names.debuginfod)
                doctor_add(doctor, "symbols", DOCTOR_OK, NULL,
                           "functions in files are named here; debug files that this machine lacks are asked of "
                           "the servers of DEBUGINFOD_URLS, which learn the build ids; %s", code);
        else if (!strcmp(doctor->config->form.symbols, "upload"))
                doctor_add(doctor, "symbols", DOCTOR_OK, NULL,
                           "functions in files are named by the backend, from symbols that are uploaded to it (%s, "
                           "%zu patterns of paths); %s",
                           backend_uploads(doctor->config), doctor->config->names.upload.paths.n_items,
                           code);
        else if (strcmp(doctor->config->form.symbols, "local"))
                doctor_add(doctor, "symbols", DOCTOR_OK, NULL,
                           "functions in files are named by the backend (symbols = remote); %s", code);
        else if (access(DEBUG_DIRECTORY, X_OK))
                doctor_add(doctor, "symbols", DOCTOR_WARN,
                           "sudo apt-get install libc6-dbg || sudo dnf debuginfo-install glibc   # and the same for what is profiled",
                           "no " DEBUG_DIRECTORY ": of stripped files only exported functions have names; %s",
                           code);
        else
                doctor_add(doctor, "symbols", DOCTOR_OK, NULL,
                           "functions in files are named here, also by " DEBUG_DIRECTORY "; %s", code);
}

static void check_runtimes(Doctor *doctor) {
        bool java = config_has_runtime(doctor->config, "hotspot");
        bool python = config_has_runtime(doctor->config, "python");
        bool v8 = config_has_runtime(doctor->config, "v8");
        bool php = config_has_runtime(doctor->config, "php");
        bool beam = config_has_runtime(doctor->config, "beam");
        bool ruby = config_has_runtime(doctor->config, "ruby");

        if (config_has_runtime(doctor->config, "go"))
                doctor_add(doctor, "go", DOCTOR_OK, NULL,
                           "labels of goroutines are read of Go 1.%d to 1.%d; `spanprof status` names versions",
                           GO_FIRST_MINOR, GO_LAST_MINOR);
        if (!java && !python && !v8 && !php && !beam && !ruby)
                doctor_add(doctor, "runtimes", DOCTOR_OK, NULL, "frames of runtimes are not walked (runtimes = %s)",
                           doctor->config->sampling.runtimes);
        else
                doctor_add(doctor, "runtimes", DOCTOR_OK, NULL,
                           "frames of %s%s%s%s%s%s%s%s%s%s%s are walked and named without flags%s; `spanprof status` names "
                           "processes that are not, and why",
                           java ? "Java (HotSpot 8 and newer)" : "", java && python ? ", " : "",
                           python ? "Python (CPython 3.8 and newer)" : "", (java || python) && v8 ? ", " : "",
                           v8 ? "Node.js (18 and newer)" : "", (java || python || v8) && php ? ", " : "",
                           php ? "PHP (7.4 and newer)" : "", (java || python || v8 || php) && beam ? ", " : "",
                           beam ? "Erlang and Elixir (OTP 25, 27, 29)" : "",
                           (java || python || v8 || php || beam) && ruby ? ", " : "", ruby ? "Ruby (2.7, 3.1, 3.3)" : "",
                           config_has_runtime(doctor->config, other_jvm_runtime.name)
                                   ? ", those of OpenJ9, Zing and native-image are walked natively"
                                   : "");
}

void doctor_check_shipping(Doctor *doctor) {
        check_symbols(doctor);
        check_runtimes(doctor);
        check_switch(doctor);
        check_daemon(doctor);
        check_certificates(doctor);
        check_endpoint(doctor);
}
