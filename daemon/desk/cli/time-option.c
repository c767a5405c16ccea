/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Parses a date by its fixed form, a number of seconds, or an offset from the beginning, or back from now.
 */

#include "desk/cli/time-option.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/util/clock.h"
#include "core/base/util/log.h"
#include "core/base/util/text.h"
#include "host/cli/cli.h"

/* Digits and a fraction of up to nine more. */
static int parse_seconds(const char *text, uint64_t *nsp) {
        size_t n = strspn(text, "0123456789"), n_fraction = 0;
        uint64_t seconds, fraction = 0;
        char digits[24];

        if (!n || n >= sizeof(digits))
                return 1;
        memcpy(digits, text, n);
        digits[n] = 0;
        if (text_u64(digits, UINT64_MAX / NS_PER_SEC, &seconds))
                return 1;
        if (text[n] == '.') {
                n_fraction = strspn(text + n + 1, "0123456789");
                for (size_t i = 0; i < 9; i++)
                        fraction = fraction * 10 + (i < n_fraction ? (uint64_t)(text[n + 1 + i] - '0') : 0);
                n += 1 + n_fraction;
        }
        if (text[n] && strcmp(text + n, "s"))
                return 1;
        *nsp = seconds * NS_PER_SEC + fraction;
        return 0;
}

/* 2026-01-31T12:00:00[.5]Z or with +01:00; without either it is UTC. */
static int parse_date(const char *text, uint64_t *nsp) {
        struct tm tm = { 0 };
        const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
        int hours, minutes, used = 0;
        uint64_t fraction = 0;
        time_t seconds;
        char sign;

        if (!rest)
                return 1;
        if (*rest == '.') {
                size_t n = strspn(rest + 1, "0123456789");

                for (size_t i = 0; i < 9; i++)
                        fraction = fraction * 10 + (i < n ? (uint64_t)(rest[1 + i] - '0') : 0);
                rest += 1 + n;
        }
        seconds = timegm(&tm);
        if (sscanf(rest, "%c%2d:%2d%n", &sign, &hours, &minutes, &used) == 3 && strchr("+-", sign) &&
            !rest[used])
                seconds -= (sign == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
        else if (*rest && strcmp(rest, "Z"))
                return 1;
        if (seconds < 0)
                return 1;
        *nsp = (uint64_t)seconds * NS_PER_SEC + fraction;
        return 0;
}

int time_option_parse(const char *option, const char *text, uint64_t *nsp, bool *relativep) {
        const uint64_t now_ns = clock_read_ns(CLOCK_REALTIME);
        uint64_t ago_ns;

        *relativep = *text == '+';
        if (*text == '-' && !parse_seconds(text + 1, &ago_ns) && ago_ns <= now_ns) {
                *nsp = now_ns - ago_ns;
                return 0;
        }
        if (!*text || !parse_seconds(text + *relativep, nsp) || (!*relativep && !parse_date(text, nsp)))
                return 0;
        log_error("--%s: `%s` is no time (2026-01-31T12:00:00Z, 1769860800, +10s, -90s)", option, text);
        return STATUS_USAGE;
}
