/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Volume
 *
 * How much is sent: decides, from the bytes and samples of the windows that were closed, at which frequency
 * they stay within their budget. Numbers in, decisions out; daemon-govern.c carries them out.
 */

#include <stdbool.h>
#include <stdint.h>

typedef struct Volume {
        uint64_t max_rate;              /* bytes a second, as sent; 0 = no limit */
        uint64_t max_samples;           /* of one process in one window; 0 = no limit */
        uint64_t interval_ns;           /* of a window; shorter ones are judged together */
        uint32_t nominal, frequency;    /* Hz: as configured, now */
        /* since the last verdict; samples: the most of one process and window */
        uint64_t length_ns, n_bytes, n_samples;
        uint32_t n_calm;                /* verdicts far below both limits, one after the other */
        bool by_rate;                   /* which of the two decided the last fall */
} Volume;

enum {
        _VOLUME_E_SUCCESS,
        VOLUME_E_LOWERED,               /* `frequency` is what the budget allows, at most half */
        VOLUME_E_RAISED,                /* at most twice */
};

enum { VOLUME_CALM_WINDOWS = 4 };

void volume_init(Volume *volume, uint32_t frequency, uint64_t max_rate, uint64_t max_samples,
                 uint64_t interval_ns);

/* A window was closed. @n_samples: the most of one process. Return: 0, VOLUME_E_*. */
int volume_window(Volume *volume, uint64_t length_ns, uint64_t n_bytes, uint64_t n_samples);
