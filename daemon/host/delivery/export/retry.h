/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Retry Rules
 *
 * What becomes of a batch after an attempt, as the OTLP specification says: success is final, 429, 502, 503
 * and 504 are tried again, every other status is a refusal, unless an upgrade of the receiver would end it.
 * An attempt without an HTTP answer is tried again whatever the fault was: a wrong certificate, or another
 * program on that port, is a matter of the rollout and not of the batch. Pure: outcome and chance in,
 * verdict out.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/http/transport.h"

typedef enum RetryVerdict {
        RETRY_ACCEPTED,                 /* done; a partial success is the caller's to read */
        RETRY_LATER,                    /* the same batch again, after the wait */
        RETRY_REFUSED,                  /* will never be taken: drop it */
        RETRY_TOO_OLD,                  /* worth trying again, but it was tried for long enough: drop it */
} RetryVerdict;

typedef struct RetryPolicy {
        uint64_t first_ns;              /* mean wait after the first failure */
        uint64_t max_age_ns;            /* from a batch's first attempt on */
        /* a 500 is tried again for so long: the receiver says so while it starts; 0 = never */
        uint64_t starting_ns;
} RetryPolicy;

typedef struct RetryAttempt {
        HttpFault fault;
        int status;                     /* 0 with a fault */
        bool wants_upgrade;             /* another version of the receiver would take it */
        const char *retry_after;        /* the header's text, "" = none */
        int64_t now_s;                  /* REALTIME, for a Retry-After that is a date */
        unsigned n_failures;            /* in a row before this attempt */
        uint32_t random;
        uint64_t age_ns;                /* since the batch's first attempt */
} RetryAttempt;

/* *wait_nsp is set unless the verdict is RETRY_ACCEPTED or RETRY_REFUSED. */
RetryVerdict retry_judge(const RetryPolicy *policy, const RetryAttempt *attempt, uint64_t *wait_nsp);

/* Seconds or an HTTP date (RFC 9110, 10.2.3) → seconds from @now_s on. Return: 0, or 1 = neither. */
int retry_after_parse(const char *text, int64_t now_s, uint64_t *secondsp);
