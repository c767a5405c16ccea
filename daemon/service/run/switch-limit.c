/* SPDX-License-Identifier: Apache-2.0 */
#include "service/run/switch-limit.h"

int switch_limit_judge(SwitchLimit *limit, uint64_t now_ns, uint64_t n_switches, unsigned n_cpus) {
        uint64_t length_ns = now_ns - limit->since_ns;
        double rate = (double)(n_switches - limit->n_switches) / n_cpus * NS_PER_SEC / (double)length_ns;
        bool is_first = !limit->since_ns || n_switches < limit->n_switches;

        if (!limit->max || (!is_first && length_ns < SWITCH_LIMIT_INTERVAL_NS))
                return 0;
        limit->since_ns = now_ns;
        limit->n_switches = n_switches;
        if (is_first)
                return 0;
        limit->n_over = rate > (double)limit->max ? limit->n_over + 1 : 0;
        limit->n_calm = rate < (double)limit->max / 2 ? limit->n_calm + 1 : 0;
        if (!limit->holds && limit->n_over >= SWITCH_LIMIT_OVER) {
                limit->holds = true;
                return SWITCH_LIMIT_E_HOLDS;
        }
        if (limit->holds && limit->n_calm >= SWITCH_LIMIT_CALM) {
                limit->holds = false;
                return SWITCH_LIMIT_E_ENDS;
        }
        return 0;
}
