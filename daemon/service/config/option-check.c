/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Mistakes that would otherwise show late: as a process that is silently not profiled, or when the first
 * request is sent.
 */

#include <errno.h>
#include <string.h>

#include "base/util/error.h"
#include "delivery/export/endpoint.h"
#include "service/config/config-selector.h"
#include "service/config/option.h"

static int refuse(Text *problem) {
        return problem->failed ? error_origin(-ENOMEM) : OPTION_E_INVALID;
}

/* The kernel cuts a comm at 15 bytes: a longer plain name would never match. */
int option_check_comm(const char *item, Text *problem) {
        enum { COMM_MAX = 15 };

        if (strlen(item) <= COMM_MAX || item[strcspn(item, "*?[\\")])
                return 0;
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
                text_printf(problem, "`%s` names nobody", item);
        if (r)
                return refuse(problem);
        return rule.kind == SELECTOR_KIND_COMM ? option_check_comm(rule.pattern, problem) : 0;
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
