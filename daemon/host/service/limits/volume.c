/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Compares the bytes of each window with its budget, lowers the frequency by what is over it, and raises it
 * again far below.
 */

#include "host/service/limits/volume.h"

#include "core/base/util/clock.h"
#include "core/base/util/macro.h"

void volume_init(Volume *volume, uint32_t frequency, uint64_t max_rate, uint64_t interval_ns) {
        *volume = (Volume){
                .max_rate = max_rate,
                .interval_ns = interval_ns,
                .nominal = frequency,
                .frequency = frequency,
        };
}

/*
 * @fill: how full the budget is, 1 = to the brim. Bytes do not fall as fast as samples, since each window
 * repeats its tables: so it falls to what the budget would allow, and never by less than half. The way back
 * is open only far below the limit, and only after a while.
 */
static int judge(Volume *volume, double fill) {
        volume->n_calm = fill < 1.0 / 3 ? volume->n_calm + 1 : 0;
        if (fill > 1 && volume->frequency > 1) {
                volume->frequency = MAX(1u, MIN(volume->frequency / 2, (uint32_t)(volume->frequency / fill)));
                return VOLUME_E_LOWERED;
        }
        if (volume->n_calm < VOLUME_CALM_WINDOWS || volume->frequency == volume->nominal)
                return 0;
        volume->n_calm = 0;
        volume->frequency = MIN(volume->frequency * 2, volume->nominal);
        return VOLUME_E_RAISED;
}

int volume_window(Volume *volume, uint64_t length_ns, uint64_t n_bytes) {
        double rate;

        volume->length_ns += length_ns;
        volume->n_bytes += n_bytes;
        /* the first window is short, and so are those that a clock step or a change of frequency ends */
        if (!volume->max_rate || volume->length_ns < volume->interval_ns / 10 * 9)
                return 0;
        rate = (double)volume->n_bytes * (double)NS_PER_SEC / (double)volume->length_ns;
        volume->length_ns = volume->n_bytes = 0;
        return judge(volume, rate / (double)volume->max_rate);
}
