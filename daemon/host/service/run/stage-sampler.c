/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Loads the kernel half: tells it what of the configuration it needs, and where its records go
 * (daemon-flow.h).
 */

#include "host/service/run/stages.h"

#include <stdlib.h>
#include <unistd.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "host/sampling/aggregate/wait-reason.h"
#include "host/sampling/sample/machine.h"
#include "host/service/run/daemon-flow.h"
#include "host/service/run/own-helpers.h"

enum {
        /* room for stack copies, each CPU: 1,000 small or 400 large ones; at 199 Hz never all of it */
        STACK_BYTES_PER_SECOND = 4 << 20,
        START_WAIT_SAMPLES = 9,
};

/*
 * Most programs of a settled name are gone at this age. Those that publish have none (program-names.h), so
 * nothing that the search would find is missed by waiting.
 */
#define START_WAIT_NS (90 * NS_PER_MS)

/* The kernel half knows users by their ids in the first user namespace. */
enum abi_names daemon_names(const Daemon *daemon) {
        enum abi_names names = selector_names(daemon->selector);

        return names == ABI_NAMES_COMM_USER && !machine_has_all_users() ? ABI_NAMES_NONE : names;
}

/*
 * Whether new processes say who they are with their first sample, so that it can wait. Waits are counted of
 * processes with a row alone, and each selector but --all may need what only a living process tells.
 */
enum abi_starts daemon_starts(const Daemon *daemon) {
        if (!selector_is_all_alone(daemon->selector) || daemon->config->waits.off_cpu)
                return ABI_STARTS_NONE;
        return daemon->config->targets.environment ? ABI_STARTS_TEXTS : ABI_STARTS_GROUPS;
}

static int make(Daemon *daemon) {
        const Config *config = daemon->config;
        const uint32_t frequency = (uint32_t)config->sampling.frequency * config_ticks_per_sample(config);
        uint64_t file_calls[WAIT_FILE_CALLS_WORDS];
        SamplerConfig sampler = {
                .frequency = frequency,
                .ticks_per_sample = config_ticks_per_sample(config),
                .recorder = config_ticks_per_sample(config) > 1,
                .depth = (uint32_t)config->sampling.depth,
                .kernel_stacks = config->sampling.kernel_stacks,
                .page_faults = config->sampling.page_faults,
                .allocated = config->sampling.allocated_bytes,
                .jitter = config->sampling.jitter,
                .default_state = selector_is_by_name(daemon->selector) ? ABI_STATE_UNDECIDED
                                                                       : ABI_STATE_REJECTED,
                .names = daemon_names(daemon),
                .watch_targets = true, /* a chosen target may start to publish later, too */
                .watch_non_targets = selector_takes_publishers(daemon->selector),
                /* under --all a program is read at its first sample */
                .names_choose = selector_is_by_name(daemon->selector) && !daemon->selector->all,
                .starts = daemon_starts(daemon),
                /* each sample that waits is walked here, which costs more than a row after some of them */
                .start_wait_ns = MIN(START_WAIT_NS,
                                     START_WAIT_SAMPLES * NS_PER_SEC / frequency),
                .self_tgid = (uint32_t)getpid(),
                .helper_comms = own_helper_comms,
                .opener = daemon->totals->opener,
                .obi_map = config->sampling.obi_map,
                .btf_path = getenv("SPANPROF_BTF"),
                .is_patient = daemon->sink,
                .stack_bytes = STACK_BYTES_PER_SECOND,
                .crashes = config->sampling.crashes,
                .allocations = config->sampling.allocations,
                .waits = config->waits.off_cpu,
                .wait_walks = (uint32_t)config->waits.walks,
                .wait_long_ns = config->waits.long_wait_ns,
                .wait_file_calls = file_calls,
        };
        int r;

        wait_file_calls(file_calls);
        r = sampler_new(&daemon->stages.sampler, &sampler);
        if (r)
                return r > 0 ? DAEMON_E_UNUSABLE : error_fold(r);
        sampler_set_callbacks(daemon->stages.sampler, daemon_on_sample, daemon_on_notice, daemon);
        sampler_set_sideband(daemon->stages.sampler, daemon_on_mapping, daemon_on_mappings_end);
        sampler_set_stacks(daemon->stages.sampler, daemon_on_kept);
        sampler_set_waits(daemon->stages.sampler, daemon_on_wait, daemon_on_wait_sum);
        return 0;
}

static int second(Daemon *daemon) {
        sampler_follow_obi(daemon->stages.sampler);
        sampler_forget_probes(daemon->stages.sampler);
        return 0;
}

static void describe(Daemon *daemon, Metrics *metrics) {
        Sampler *sampler = daemon->stages.sampler;

        if (!daemon->stop.time_ns)
                sampler_read_counters(sampler);
        metrics->n_cpus = sampler_n_cpus(sampler);
        metrics->map_bytes += sampler_map_bytes(sampler);
}

static void release(Daemon *daemon) {
        sampler_free(daemon->stages.sampler);
}

const Stage stage_sampler = {
        .name = "sampler", .make = make, .second = second, .describe = describe, .release = release
};
