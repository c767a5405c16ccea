/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A table: why a sample is lost, and the counter of its kind.
 */

#include "host/sampling/sample/sample-loss.h"

#include "core/base/util/stat.h"

void sample_lose(const struct abi_sample *header, SampleLoss why) {
        static const struct {
                enum counter tick, fault, crash, fine, allocation;
        } counters[SAMPLE_LOSS_N] = {
                [SAMPLE_LOSS_NOT_TARGET] = { COUNTER_LOST_NOT_TARGET, COUNTER_FAULT_SAMPLES_NOT_TARGET,
                                             COUNTER_CRASHES_NOT_TARGET, COUNTER_FINE_NOT_TARGET,
                                             COUNTER_ALLOCATIONS_NOT_TARGET },
                [SAMPLE_LOSS_DEFERRED] = { COUNTER_LOST_DEFERRED, COUNTER_FAULT_SAMPLES_GONE,
                                           COUNTER_CRASHES_GONE, COUNTER_FINE_GONE,
                                           COUNTER_ALLOCATIONS_GONE },
                [SAMPLE_LOSS_WINDOW_FULL] = { COUNTER_LOST_WINDOW_FULL, COUNTER_FAULT_SAMPLES_WINDOW_FULL,
                                              COUNTER_CRASHES_WINDOW_FULL, COUNTER_FINE_WINDOW_FULL,
                                              COUNTER_ALLOCATIONS_WINDOW_FULL },
        };

        switch (header->kind) {
        case ABI_KIND_FAULT:
                stat_add(counters[why].fault, 1);
                break;
        case ABI_KIND_CRASH:
                stat_add(counters[why].crash, 1);
                break;
        case ABI_KIND_ALLOC:
                stat_add(counters[why].allocation, 1);
                break;
        case ABI_KIND_FINE:
                stat_add(counters[why].fine, 1);
                break;
        default:
                stat_add(counters[why].tick, 1);
        }
}
