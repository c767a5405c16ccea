/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sampler
 *
 * Has the kernel half (kernel-half.h) loaded, opens one cpu-clock event per CPU,
 * drains the rings in the order that attribution needs, copies the kernel's
 * counters into stat.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "border/abi.h"
#include "border/wait_long_abi.h"
#include "core/base/util/macro.h"
#include "host/sampling/process/process.h"
#include "host/sampling/sample/kernel-threads.h"
#include "host/sampling/sample/sampler-config.h"
#include "host/sampling/sample/sideband.h"

typedef struct Sampler Sampler;

/* Loads and verifies; nothing runs yet. Return: 0, SAMPLER_E_UNUSABLE, -errno. */
int sampler_new(Sampler **samplerp, const SamplerConfig *config);
Sampler *sampler_free(Sampler *sampler);
DEFINE_CLEANUP(Sampler, sampler_free)

/* Callbacks for samples and notices; set before sampler_start(). */
void sampler_set_callbacks(Sampler *sampler, SamplerRecord on_sample, SamplerRecord on_notice,
                           void *userdata);

/*
 * Sets what takes copies of stacks (struct abi_stack, SamplerConfig.stack_bytes); before sampler_start(). A
 * drain hands over each before the sample that it belongs to; both name CPU and time. @userdata of
 * sampler_set_callbacks().
 */
void sampler_set_stacks(Sampler *sampler, SamplerRecord on_stack);

/*
 * Sets what takes waits (SamplerConfig.waits): records of bpf/border/offcpu_abi.h, and sums. A drain hands
 * them over last. @userdata of sampler_set_callbacks().
 */
void sampler_set_waits(Sampler *sampler, SamplerRecord on_wait, SamplerWaitSum on_sum);

/*
 * Has waits that go on counted up to now, and the rest comes at their end. Sums until here have come with the
 * next drain. Return: 0, or the negative value of a callback.
 */
int sampler_split_waits(Sampler *sampler);

/*
 * Looks at what each thread of the targets does now. The first call loads the program for it. Return: 0,
 * SAMPLER_E_UNUSABLE, -errno.
 */
int sampler_look_at_threads(Sampler *sampler, ThreadsLook *look);

/* As kernel_threads_runtimes(). */
void sampler_runtimes_of(const Sampler *sampler, uint32_t tgid, uint64_t generation,
                         ThreadsRuntimes *runtimes);

/* As functions of kernel-waits.h; the last two where waits are asked for. */
bool sampler_has_undrawn_waits(const Sampler *sampler);
int sampler_list_long_waits(Sampler *sampler, const struct abi_wait_longs **longsp);
int sampler_give_stack(Sampler *sampler, const struct abi_wait_long *wait, const struct abi_wait *record,
                       enum abi_wait_given *givenp);

/*
 * With allocations: the mappings of a target are known, or have changed. Return: 0, -ENOMEM. And: probes of
 * files that nobody runs any more are left, each second.
 */
int sampler_probe(Sampler *sampler, const Process *process);
void sampler_forget_probes(Sampler *sampler);

/* As kernel_events_lost_frees(), with allocations. And: the process is no target any more; at all times. */
uint64_t sampler_lost_frees(const Sampler *sampler, uint32_t tgid, uint64_t start_time_ns);
void sampler_forget_frees(Sampler *sampler, uint32_t tgid);

/* Leaves all probes, for good: what they hold of processes' files is given back. NULL is allowed. */
void sampler_end_probes(Sampler *sampler);

/*
 * Leaves waits out from here on. With WAIT_LIMIT_ALL, waits that go on end there; those that go on as
 * counting begins again are not known. Return: 0, SAMPLER_E_UNUSABLE, -errno.
 */
int sampler_limit_waits(Sampler *sampler, enum abi_wait_limit limit);

/* Called between two kinds of records. Return: 0, or negative to end the drain. */
typedef int (*SamplerPause)(void *userdata);

/*
 * Asks for the kernel's notices of executable mappings; before sampler_start(). A drain hands them over
 * first, then calls @on_mapped, then goes on to notices and samples, and leaves samples that are younger than
 * what is known of mappings to the next drain. @userdata of sampler_set_callbacks().
 */
void sampler_set_sideband(Sampler *sampler, SidebandVisit on_mapping, SamplerPause on_mapped);

/* Up to which time these notices were handed over, as far as none was lost; MONOTONIC. Of the last drain. */
uint64_t sampler_told_ns(const Sampler *sampler);

/*
 * Attaches the watchers (notices flow; targets may be looked for), and the events (samples flow). The latter
 * does the former if it has not been done. Return: 0, SAMPLER_E_UNUSABLE, -errno.
 */
int sampler_watch(Sampler *sampler);
int sampler_start(Sampler *sampler);

/*
 * Takes the events off and back on; notices of processes and mappings go on. Paused before sampler_start(),
 * nothing is sampled until sampler_resume(). Return of the latter: 0, SAMPLER_E_UNUSABLE, -errno.
 */
void sampler_pause(Sampler *sampler);
int sampler_resume(Sampler *sampler);

/*
 * Opens all events again, side-band included, after the machine has slept: the kernel took every CPU but the
 * first away and gave it back unseen, and an event whose CPU went away never ticks again. Drain before:
 * unread records of the side-band are dropped. Return: 0, SAMPLER_E_UNUSABLE, -errno.
 */
int sampler_renew(Sampler *sampler);

/* As obi_map_follow(). sampler_new() has done it once. */
void sampler_follow_obi(Sampler *sampler);

/* Sets another nominal frequency of ticks from now on, and how many of them there are for a sample. */
void sampler_set_frequency(Sampler *sampler, uint32_t frequency, uint32_t ticks_per_sample);

/* Detaches the events: no sample is taken after it. Idempotent. */
void sampler_stop(Sampler *sampler);

/* Row of a process. Return: 0, SAMPLER_E_FULL, -errno. */
int sampler_set_process(Sampler *sampler, uint32_t tgid, const struct abi_process *process);
int sampler_remove_process(Sampler *sampler, uint32_t tgid);

/*
 * From now on no tick is taken of processes of this name that have no row (`names` of the config says what of
 * it counts). Return: 0, -errno.
 */
int sampler_reject_name(Sampler *sampler, const struct abi_name *name);

/*
 * Tells of a thread that was there before its process' ring was found (host/sampling/context/adopt.h).
 * Return: 0,
 * -errno.
 */
int sampler_adopt(Sampler *sampler, const struct abi_adoption *adoption);

/*
 * Map that holds those rows, to tell it from maps of other profilers (other-profilers.h). The sampler keeps
 * the descriptor.
 */
int sampler_processes_fd(const Sampler *sampler);

/*
 * Maps that hold unwind rows (bpf/walk/tables.bpf.h), for daemon/host/sampling/unwind. The sampler keeps the
 * descriptors.
 */
int sampler_row_tables_fd(const Sampler *sampler);
int sampler_row_nodes_fd(const Sampler *sampler);
/*
 * Version of the nodes: add 1 to it after a change of a node (bpf/walk/settings.bpf.h). Lives as long as the
 * sampler.
 */
uint64_t *sampler_rows_version(const Sampler *sampler);

/*
 * Map of the processes of one runtime (bpf/border/runtime_abi.h). @bit: RUNTIME_HAS_*. Return: -1 = it has
 * none.
 */
int sampler_runtime_fd(const Sampler *sampler, uint32_t bit);

/* There is a process with a runtime, as runtime_walk_want() has it. */
enum runtime_walk sampler_want_runtimes(Sampler *sampler, SamplerReadMemory read, const void *userdata);

/* There is a process of this one, RUNTIME_HAS_*: its entry is looked up from now on. */
void sampler_add_runtime(Sampler *sampler, uint32_t bit);

/*
 * A record of the side-band may arrive this much later than its own time, if its writer was interrupted. A
 * drain leaves younger samples to the next one.
 */
#define SAMPLER_DELAY_NS UINT64_C(5000000)

typedef struct SamplerDrained {
        uint64_t n_samples;
        uint64_t n_bytes;               /* bytes of the samples, in their ring */
        uint64_t n_copies;              /* copies of stacks */
        /* notices of changed mappings; a process that posts them often goes on to do so */
        uint64_t n_changes;
} SamplerDrained;

void sampler_drained_add(SamplerDrained *sum, const SamplerDrained *more);

/*
 * Reads the rings until they are empty: mappings, notices, samples. @drainedp: may be NULL. Return: 0 or the
 * callback's code.
 */
int sampler_drain(Sampler *sampler, SamplerDrained *drainedp);

/* Room of the samples' ring. */
size_t sampler_ring_bytes(const Sampler *sampler);

/*
 * A descriptor that is readable while there are samples or notices, and once after much was mapped. A waiter
 * on it is woken only after sampler_sleep(true), and then by the next sample or notice of a target alone. The
 * sampler keeps it.
 */
int sampler_fd(const Sampler *sampler);
void sampler_sleep(Sampler *sampler, bool sleeps);

/*
 * A descriptor on which a call is an edge: the first sample after sampler_listen(true) that finds a target in
 * memory that its nodes do not know. The next drain will tell of a new mapping. The sampler keeps it.
 */
int sampler_call_fd(const Sampler *sampler);
void sampler_listen(Sampler *sampler, bool listens);

/*
 * News of a target call at once, once after sampler_hear(true): an edge on sampler_call_fd() or
 * sampler_notice_fd(), after which sampler_hears() is false. The sampler keeps the descriptors.
 */
int sampler_notice_fd(const Sampler *sampler);
void sampler_hear(Sampler *sampler, bool hears);
bool sampler_hears(const Sampler *sampler);

/* Whether there are notices of mappings, of any process. Costs no system call. */
bool sampler_has_mappings(const Sampler *sampler);

/* A program of this name is a target: the next one likely is, too, and calls as it begins. */
void sampler_know_name(Sampler *sampler, const char name[ABI_COMM_SIZE]);

/* First samples of a program of this name wait for the next drain, or call again (bpf/walk/start.bpf.h). */
void sampler_settle_name(Sampler *sampler, const struct abi_settled_name *name, bool is_settled);

/*
 * Adds the kernel's counts since the last call to stat, throttling and a lowered perf_event_max_sample_rate
 * included. Call it about once a second.
 */
int sampler_read_counters(Sampler *sampler);

/*
 * Draws a new period for every event (jitter), if there were ticks since the last draw; opens timers again
 * that have ceased to tick; now and then follows CPUs that came online or went. Call it about once a second,
 * at random moments, after sampler_read_counters().
 */
int sampler_jitter(Sampler *sampler);

/*
 * Entries of the sampler on all CPUs since start, idle tasks and non-targets included: the base of the true
 * period.
 */
uint64_t sampler_entries(Sampler *sampler);

/* Entries that the periods in force stand for, on all CPUs since start, whether they came or not. */
double sampler_programmed(const Sampler *sampler);

/* CPUs that are sampled. */
uint32_t sampler_n_cpus(const Sampler *sampler);

/* Takes the processes whose samples were lost to a full ring since the last call. */
void sampler_take_losers(Sampler *sampler, SamplerLosers *losers);

/* Sum of the memory of all BPF maps, bytes (memlock of fdinfo). */
size_t sampler_map_bytes(Sampler *sampler);
