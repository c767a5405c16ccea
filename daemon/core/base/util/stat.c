/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Has the text of each counter (family, label, help) beside its value, made from the list in counters.h.
 */

#include "core/base/util/stat.h"

#include <string.h>

uint64_t stat_values[COUNTER_N];

typedef struct Description {
        const char *metric, *label, *help;
} Description;

static const Description descriptions[COUNTER_N] = {
#define X(name, metric, label, help) [COUNTER_##name] = { metric, label, help },
        COUNTERS_KERNEL(X) COUNTERS_DAEMON(X)
#undef X
};

const char *stat_metric(enum counter counter) {
        return descriptions[counter].metric;
}

const char *stat_label(enum counter counter) {
        return descriptions[counter].label;
}

const char *stat_help(enum counter counter) {
        return descriptions[counter].help;
}

uint64_t stat_lost(void) {
        uint64_t sum = 0;

        for (int i = 0; i < COUNTER_N; i++)
                if (!strcmp(descriptions[i].metric, "lost_total"))
                        sum += stat_values[i];
        return sum;
}

uint64_t stat_pending(void) {
        uint64_t ticks = stat_get(COUNTER_TICKS), ended = stat_get(COUNTER_SAMPLES_DELIVERED) + stat_lost();

        return ended < ticks ? ticks - ended : 0;
}
