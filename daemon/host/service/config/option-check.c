/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks of one value, beyond what its kind says. Mistakes are refused here that would otherwise show late:
 * as a process that is silently not profiled, or when the first request is sent.
 */

#include "host/service/config/option-check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "core/http/endpoint.h"
#include "host/runtime/all-runtimes.h"
#include "host/sampling/process/environment.h"
#include "host/service/config/config-selector.h"
#include "host/service/config/host-share.h"
#include "host/service/config/option.h"

static int refuse(Text *problem) {
        return problem->failed ? error_origin(-ENOMEM) : OPTION_E_INVALID;
}

int option_split_address(const char *text, char *host, size_t size, uint16_t *portp) {
        const char *colon = strrchr(text, ':');
        size_t length = colon ? (size_t)(colon - text) : 0;
        uint64_t port;

        if (!length || length >= size || text_u64(colon + 1, 65535, &port))
                return 1;
        if (*text == '[' && colon[-1] == ']') {
                text++;
                length -= 2;
        }
        snprintf(host, size, "%.*s", (int)length, text);
        *portp = (uint16_t)port;
        return 0;
}

int option_check_metrics(const char *value, Text *problem) {
        char host[256];
        uint16_t port;

        if (!*value || *value == '/' || !option_split_address(value, host, sizeof(host), &port))
                return 0;
        text_printf(problem, "`%s` is neither ADDRESS:PORT nor a path", value);
        if (!value[strspn(value, "0123456789")])
                text_printf(problem, "; for this machine alone: 127.0.0.1:%s", value);
        return refuse(problem);
}

int option_check_address(const char *value, Text *problem) {
        char host[256];
        uint16_t port;

        if (!*value || !option_split_address(value, host, sizeof(host), &port))
                return 0;
        text_printf(problem, "`%s` is not ADDRESS:PORT", value);
        return refuse(problem);
}

int option_split_listen(const char *text, char *host, size_t size, bool *has_portp, uint16_t *portp) {
        const char *first = strchr(text, ':'), *end = text + strlen(text);
        bool is_bracketed = *text == '[' && end[-1] == ']';

        if (*text && (!first || is_bracketed || (*text != '[' && first != strrchr(text, ':')))) {
                size_t length = (size_t)(end - text) - 2 * is_bracketed;

                if (length >= size)
                        return 1;
                snprintf(host, size, "%.*s", (int)length, text + is_bracketed);
                *has_portp = false;
                return 0;
        }
        if ((*text == '[' && !strstr(text, "]:")) || option_split_address(text, host, size, portp))
                return 1;
        *has_portp = true;
        return 0;
}

int option_check_listen(const char *value, Text *problem) {
        char host[256];
        bool has_port;
        uint16_t port;

        if (!option_split_listen(value, host, sizeof(host), &has_port, &port))
                return 0;
        text_printf(problem, "`%s` is neither ADDRESS nor ADDRESS:PORT, e.g. 127.0.0.1:4318 or [::1]:4318", value);
        return refuse(problem);
}

/* The end of a set that begins at @at; NULL = it has none. A `]` right at its start is one of its bytes. */
static const char *end_of_set(const char *at) {
        at++;
        at += *at == '!' || *at == '^';
        at += *at == ']';
        return strchr(at, ']');
}

int option_check_glob(const char *item, Text *problem) {
        for (const char *at = item; *at; at++) {
                if (*at == '\\' && !at[1]) {
                        text_printf(problem, "`%s` ends with a backslash, which quotes what follows", item);
                        return refuse(problem);
                }
                if (*at == '\\')
                        at++;
                else if (*at == '[' && !(at = end_of_set(at))) {
                        text_printf(problem, "`%s` has a `[` without its `]`; for the byte itself write `\\[`",
                                    item);
                        return refuse(problem);
                }
        }
        return 0;
}

/* The kernel cuts a comm at 15 bytes: a longer plain name would never match. */
int option_check_comm(const char *item, Text *problem) {
        enum { COMM_MAX = 15 };

        if (strlen(item) <= COMM_MAX || item[strcspn(item, "*?[\\")])
                return option_check_glob(item, problem);
        text_printf(problem, "`%s` is longer than the %d bytes that the kernel keeps of a name; use `%.*s`",
                    item, COMM_MAX, COMM_MAX, item);
        return refuse(problem);
}

int option_check_user(const char *item, Text *problem) {
        uint32_t uid;

        if (!config_find_user(item, &uid))
                return 0;
        text_printf(problem, "there is no user `%s`", item);
        return refuse(problem);
}

int option_check_exclude(const char *item, Text *problem) {
        SelectorRule rule;
        int r = config_parse_rule(item, &rule);

        if (r == 1)
                text_printf(
                        problem,
                        "`%s` is not KIND=PATTERN with KIND one of pid, comm, exe, cgroup, container, user, unit",
                        item);
        else if (r)
                text_printf(problem, "`%s` chooses no process", item);
        if (r)
                return refuse(problem);
        if (rule.kind == SELECTOR_KIND_PID || rule.kind == SELECTOR_KIND_USER)
                return 0;
        return rule.kind == SELECTOR_KIND_COMM ? option_check_comm(rule.pattern, problem) :
                                                 option_check_glob(rule.pattern, problem);
}

static int check_id(const char *item, size_t digits, const char *what, Text *problem) {
        size_t n = strspn(item, "0123456789abcdefABCDEF");

        if (n && !item[n] && n <= digits)
                return 0;
        text_printf(problem, "`%s` is no id of a %s: up to %zu hexadecimal digits", item, what, digits);
        return refuse(problem);
}

int option_check_span(const char *item, Text *problem) {
        return check_id(item, 16, "span", problem);
}

int option_check_trace(const char *item, Text *problem) {
        return check_id(item, 32, "trace", problem);
}

int option_check_resource(const char *item, Text *problem) {
        const char *equals = strchr(item, '=');

        if (equals && equals > item)
                return 0;
        text_printf(problem, "`%s` is not KEY=VALUE", item);
        return refuse(problem);
}

int option_check_headers(const char *value, Text *problem) {
        char **headers = NULL, why[128];
        int r = endpoint_parse_headers(value, &headers, why, sizeof(why));

        endpoint_headers_free(headers);
        if (r <= 0)
                return r;
        text_printf(problem, "%s", why);
        return refuse(problem);
}

int option_check_pods_url(const char *value, Text *problem) {
        if (!*value || !strncasecmp(value, "https://", 8) || !strncasecmp(value, "http://", 7))
                return 0;
        text_printf(problem, "is no URL: https://HOST[:PORT]/PATH");
        return refuse(problem);
}

static bool is_name(const char *name, const char *item, size_t size) {
        return strlen(name) == size && !memcmp(item, name, size);
}

static bool names_runtimes(const char *item, size_t size) {
        for (size_t i = 0; i < ARRAY_SIZE(all_runtimes); i++)
                if (is_name(all_runtimes[i]->name, item, size))
                        return true;
        return is_name("all", item, size) || is_name("off", item, size);
}

int option_check_runtimes(const char *value, Text *problem) {
        for (const char *item = value;; item += strcspn(item, ",") + 1) {
                size_t size = strcspn(item, ",");

                if (!names_runtimes(item, size)) {
                        text_printf(problem, "`%.*s` is no runtime that spanprof knows:", (int)size, item);
                        for (size_t i = 0; i < ARRAY_SIZE(all_runtimes); i++)
                                text_printf(problem, "%s %s", i ? "," : "", all_runtimes[i]->name);
                        text_printf(problem, "; or all, off");
                        return refuse(problem);
                }
                if (!item[size])
                        return 0;
        }
}

int option_check_resource_attributes(const char *value, Text *problem) {
        Environment environment;
        int r = environment_read_attributes(value, &environment);
        size_t n_invalid = environment.n_invalid;

        environment_deinit(&environment);
        if (r || !n_invalid)
                return r;
        text_printf(problem, "%zu of its items are not KEY=VALUE, percent-encoded as in OTEL_RESOURCE_ATTRIBUTES",
                    n_invalid);
        return refuse(problem);
}

int option_check_sample_hosts(const char *value, Text *problem) {
        HostShare share;

        if (!host_share_parse(value, &share))
                return 0;
        text_printf(problem, "`%s` is not PERCENT%%/TIME, such as 10%%/1h (0.01 to 100 %%; s, m, h or d)", value);
        return refuse(problem);
}

/* A header's value, which names a directory in some backends. */
int option_check_tenant(const char *value, Text *problem) {
        enum { TENANT_MAX = 150 };
        static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!-_.*'()|";

        if (strspn(value, allowed) == strlen(value) && strlen(value) <= TENANT_MAX)
                return 0;
        text_printf(problem, "a tenant has letters, digits and !-_.*'()| alone, and at most %d of them",
                    TENANT_MAX);
        return refuse(problem);
}

int option_check_upload_path(const char *item, Text *problem) {
        const char *path = strncmp(item, "container:", 10) ? item : item + 10;

        if (*path == '/')
                return 0;
        text_printf(problem, "`%s` is no path from / (nor container: and one)", item);
        return refuse(problem);
}
