/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Volume
 *
 * How much is sent: decides, from the bytes of the windows that were closed, at which frequency
 * they stay within their budget. Numbers in, decisions out; daemon-govern.c carries them out.
 */

#include <stdint.h>

typedef struct Volume {
        uint64_t max_rate;              /* bytes a second, as sent; 0 = no limit */
        uint64_t interval_ns;           /* length of a window; shorter ones are judged together */
        uint32_t nominal, frequency;    /* Hz: as configured, now */
        uint64_t length_ns, n_bytes;    /* since the last verdict */
        uint32_t n_calm;                /* verdicts far below the limit, one after the other */
} Volume;

enum {
        _VOLUME_E_SUCCESS,
        VOLUME_E_LOWERED,               /* `frequency` is what the budget allows, at most half */
        VOLUME_E_RAISED,                /* at most twice */
};

enum { VOLUME_CALM_WINDOWS = 4 };

void volume_init(Volume *volume, uint32_t frequency, uint64_t max_rate, uint64_t interval_ns);

/* A window was closed. Return: 0, VOLUME_E_*. */
int volume_window(Volume *volume, uint64_t length_ns, uint64_t n_bytes);
