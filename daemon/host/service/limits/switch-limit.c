/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Compares the rate of switches with the steps of the limit. It moves after several judgements in a row: up
 * as far as all of them asked for, down only where twice the rate would still be allowed.
 */

#include "host/service/limits/switch-limit.h"

#include "core/base/util/macro.h"

/* Where a step begins, of the limit. */
static const double begins[] = {
        [WAIT_LIMIT_WALKS] = 1, [WAIT_LIMIT_LONG] = 1.5, [WAIT_LIMIT_SPANS] = 2, [WAIT_LIMIT_ALL] = 3
};

static enum abi_wait_limit step_of(const SwitchLimit *limit, double rate) {
        enum abi_wait_limit step = WAIT_LIMIT_NONE;

        while (step < limit->most && rate > begins[step + 1] * (double)limit->max)
                step++;
        return step;
}

static int judge(SwitchLimit *limit, double rate) {
        enum abi_wait_limit step = step_of(limit, rate), calm = step_of(limit, 2 * rate);

        if (step > limit->step)
                limit->over = limit->n_over++ ? MIN(limit->over, step) : step;
        else
                limit->n_over = 0;
        if (calm < limit->step)
                limit->calm = limit->n_calm++ ? MAX(limit->calm, calm) : calm;
        else
                limit->n_calm = 0;
        if (limit->n_over >= SWITCH_LIMIT_OVER) {
                limit->step = limit->over;
                limit->n_over = limit->n_calm = 0;
                return SWITCH_LIMIT_E_LESS;
        }
        if (limit->n_calm >= SWITCH_LIMIT_CALM) {
                limit->step = limit->calm;
                limit->n_calm = 0;
                return SWITCH_LIMIT_E_MORE;
        }
        return 0;
}

int switch_limit_judge(SwitchLimit *limit, uint64_t now_ns, uint64_t n_switches, unsigned n_cpus) {
        uint64_t length_ns = now_ns - limit->since_ns;
        double rate = (double)(n_switches - limit->n_switches) / n_cpus * NS_PER_SEC / (double)length_ns;
        bool is_first = !limit->since_ns || n_switches < limit->n_switches;

        if (!limit->max || (!is_first && length_ns < SWITCH_LIMIT_INTERVAL_NS))
                return 0;
        limit->since_ns = now_ns;
        limit->n_switches = n_switches;
        return is_first ? 0 : judge(limit, rate);
}
