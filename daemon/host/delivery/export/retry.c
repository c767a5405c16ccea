/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sorts an outcome into success, retry and refusal, and computes the wait: what the receiver asked for,
 * else a growing one that chance spreads.
 */

#include "host/delivery/export/retry.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/util/clock.h"
#include "core/base/util/text.h"

/* Longer than this no receiver means it, and a wrong header must not silence us for ever. */
#define RETRY_AFTER_MAX_S UINT64_C(3600)

/*
 * Waits grow by half from first_ns to CEILING and are spread by a fifth up and down, so that machines
 * that lost the same receiver at the same time do not come back together. At the top: 20 s to 30 s.
 */
#define RETRY_CEILING_NS (25 * NS_PER_SEC)

static uint64_t backoff(const RetryPolicy *policy, unsigned n_failures, uint32_t random) {
        uint64_t wait_ns = policy->first_ns;

        for (unsigned i = 0; i < n_failures && wait_ns < RETRY_CEILING_NS; i++)
                wait_ns += wait_ns / 2;
        /* A first wait that was configured above the ceiling stays. */
        wait_ns = MIN(wait_ns, MAX(policy->first_ns, RETRY_CEILING_NS));
        return wait_ns - wait_ns / 5 + (uint64_t)((double)wait_ns * 0.4 * ((double)random / UINT32_MAX));
}

/* Sun, 06 Nov 1994 08:49:37 GMT */
static int parse_date(const char *text, int64_t *secondsp) {
        static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
        struct tm tm = { 0 };
        char month[4], zone[4];
        const char *found;
        int end = 0;

        if (sscanf(text, "%*3[A-Za-z], %2d %3[A-Za-z] %4d %2d:%2d:%2d %3s%n", &tm.tm_mday, month, &tm.tm_year,
                   &tm.tm_hour, &tm.tm_min, &tm.tm_sec, zone, &end) != 7 ||
            text[end] || strcmp(zone, "GMT"))
                return 1;
        found = strstr(months, month);
        if (!found || (found - months) % 3 || strlen(month) != 3 || tm.tm_year < 1900)
                return 1;
        if (tm.tm_mday < 1 || tm.tm_mday > 31 || tm.tm_hour < 0 || tm.tm_hour > 23 || tm.tm_min < 0 ||
            tm.tm_min > 59 || tm.tm_sec < 0 || tm.tm_sec > 60)
                return 1;
        tm.tm_mon = (int)(found - months) / 3;
        tm.tm_year -= 1900;
        *secondsp = timegm(&tm);
        return 0;
}

int retry_after_parse(const char *text, int64_t now_s, uint64_t *secondsp) {
        uint64_t seconds;
        int64_t date;

        if (*text && strspn(text, "0123456789") == strlen(text)) {
                *secondsp = text_u64(text, RETRY_AFTER_MAX_S, &seconds) ? RETRY_AFTER_MAX_S : seconds;
                return 0;
        }
        if (parse_date(text, &date))
                return 1;
        *secondsp = date > now_s ? MIN((uint64_t)(date - now_s), RETRY_AFTER_MAX_S) : 0;
        return 0;
}

static RetryVerdict classify(const RetryPolicy *policy, const RetryAttempt *attempt) {
        if (attempt->fault)
                return RETRY_LATER;
        /* The specification names 200; a 202 or 204 of some gateway is no reason to send everything twice. */
        if (attempt->status >= 200 && attempt->status < 300)
                return RETRY_ACCEPTED;
        switch (attempt->status) {
        case 500:
                return attempt->age_ns < policy->starting_ns ? RETRY_LATER : RETRY_REFUSED;
        case 429:
        case 502:
        case 503:
        case 504:
                return RETRY_LATER;
        default:
                return attempt->wants_upgrade ? RETRY_LATER : RETRY_REFUSED;
        }
}

RetryVerdict retry_judge(const RetryPolicy *policy, const RetryAttempt *attempt, uint64_t *wait_nsp) {
        RetryVerdict verdict = classify(policy, attempt);
        uint64_t wait_ns, seconds;

        if (verdict != RETRY_LATER)
                return verdict;
        wait_ns = backoff(policy, attempt->n_failures, attempt->random);
        if (attempt->retry_after && !retry_after_parse(attempt->retry_after, attempt->now_s, &seconds))
                wait_ns = MAX(wait_ns, seconds * NS_PER_SEC);
        *wait_nsp = wait_ns;
        return attempt->age_ns > policy->max_age_ns ? RETRY_TOO_OLD : RETRY_LATER;
}
