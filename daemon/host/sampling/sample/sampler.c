/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The life of sampling:
 *
 *     sampler_new      the kernel verifies and loads our half of it (kernel-half.h); nothing runs
 *     sampler_watch    the watchers are attached to tracepoints: notices of exec, exit and mappings flow
 *     sampler_start    one clock event a CPU is opened, and our program attached to its ticks: samples flow
 *     sampler_jitter   each second: new periods and dead timers (event.c), CPUs that came or went
 *     sampler_drain    reads the rings, when the caller's timer says so or a record wakes it (wake.bpf.h)
 *
 * Order of a drain. A sample can be attributed only when every mapping from before it is known, so the rings
 * are read in the order mappings, notices, samples. A record of the side-band may arrive SAMPLER_DELAY_NS
 * after its own time, so younger samples wait:
 *
 *     now 1000 ms    side-band  libz mapped at 990 ms                       → known up to 995 ms
 *                    notices    exec of 4711 at 985 ms
 *                    samples    988 ms, 993 ms → handed on; 997 ms → held for the next drain
 */

#include "host/sampling/sample/sampler.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "host/sampling/process/program-names.h"
#include "host/sampling/sample/alloc-probes.h"
#include "host/sampling/sample/event.h"
#include "host/sampling/sample/fault-events.h"
#include "host/sampling/sample/kernel-events.h"
#include "host/sampling/sample/kernel-half.h"
#include "host/sampling/sample/kernel-waits.h"
#include "host/sampling/sample/machine.h"
#include "host/sampling/sample/obi-map.h"
#include "host/sampling/sample/runtime-walk.h"
#include "host/sampling/sample/sideband.h"

enum {
        CPU_CHECK_INTERVAL = 4, /* number of sampler_jitter() calls, about seconds */
        MAX_SAMPLE_BYTES = sizeof(struct abi_sample) + sizeof(struct abi_fault) +
                (ABI_MAX_KERNEL_FRAMES + ABI_MAX_USER_WORDS) * sizeof(uint64_t) + ABI_MAX_ATTRIBUTES_SIZE +
                PYTHON_TASK_SIZE,
        HELD = -EAGAIN, /* the drain has met a sample that is too young */
};

/*
 * A runtime that is there at the start, or will be, is walked from the first tick on, if its walk is
 * loaded by then.
 */
#define RUNTIMES_WAIT_NS (4 * NS_PER_SEC)

typedef struct CpuEvent {
        Event event;
        KernelHalfLink *link;
        EventPulse pulse;
        uint32_t draw;                  /* state of event_draw_period(), 0 = not begun */
} CpuEvent;

/* The first sample that waits for the next drain. */
typedef struct Held {
        uint64_t release_ns;            /* younger samples wait */
        size_t size;                    /* 0 = none waits */
        uint64_t bytes[MAX_SAMPLE_BYTES / sizeof(uint64_t)];
} Held;

/* Arrays by number of a possible CPU. */
typedef struct Cpus {
        CpuEvent *events;
        bool *online;
        uint64_t *entries;              /* entries of the sampler, when the counters were last read */
        size_t n;
} Cpus;

/* How often a CPU is sampled. */
typedef struct Rate {
        uint64_t period_ns;             /* nominal */
        uint64_t drawn_ticks;           /* counted ticks at the last draw of periods */
        uint32_t n_draws;
        EventLimit limit;
} Rate;

struct Sampler {
        SamplerConfig config;
        KernelHalf *half;
        RuntimeWalk *runtime_walk;
        ObiMap *obi;
        KernelWaits *waits;             /* NULL = not asked for */
        FaultEvents *faults;            /* NULL = not asked for */
        KernelThreads *threads;         /* NULL = not asked for yet */
        KernelEvents *crashes;          /* NULL = not asked for */
        KernelEvents *allocs;           /* NULL = not asked for */
        AllocProbes *alloc_probes;      /* the same */
        int poll_fd;                    /* an epoll of all rings' descriptors */
        SamplerRecord on_sample, on_notice, on_stack;
        void *userdata;
        SamplerDrained drained;
        ProgramNames known_names;
        Sideband *sideband;             /* NULL = not asked for, or not possible */
        SidebandVisit on_mapping;
        SamplerPause on_mapped;
        Held held;
        Cpus cpus;
        Rate rate;
        uint64_t counted[COUNTER_N_KERNEL];     /* sums that have been added to stat */
        bool is_watching;
        bool is_running;
        enum abi_wait_limit wait_limit; /* waits that are left out */
        bool is_paused;                 /* events are closed, and stay so */
        bool has_no_threads;            /* the kernel does not list them, which was logged */
};

static bool is_too_young(const Sampler *sampler, const void *data, size_t size) {
        const struct abi_sample *header = data;

        return size >= sizeof(*header) && size <= sizeof(sampler->held.bytes) &&
                header->time_ns > sampler->held.release_ns;
}

/*
 * A copy, or a start, is in its ring before its sample is in the other one. So one that comes while the
 * samples are read is looked for again: an empty ring costs two loads.
 */
static int find_stack(Sampler *sampler, const void *data, size_t size) {
        const struct abi_sample *header = data;
        int r = size >= sizeof(*header) && (header->is_copied || header->has_start) && sampler->on_stack
                ? kernel_half_drain_stacks(sampler->half)
                : 0;

        return MIN(r, 0);
}

/*
 * The ring itself is the queue of samples that wait. The drain ends at the first one that is too young; it
 * has left the ring by then and is kept apart.
 */
static int read_sample(const void *data, size_t size, void *userdata) {
        Sampler *sampler = userdata;

        sampler->drained.n_samples++;
        sampler->drained.n_bytes += size;
        if (!sampler->on_sample)
                return 0;
        if (!is_too_young(sampler, data, size))
                return find_stack(sampler, data, size) ?: sampler->on_sample(data, size, sampler->userdata);
        memcpy(sampler->held.bytes, data, size);
        sampler->held.size = size;
        return HELD;
}

static int drain_samples(Sampler *sampler) {
        size_t size = sampler->held.size;
        int r;

        if (size && is_too_young(sampler, sampler->held.bytes, size))
                return 0;
        sampler->held.size = 0;
        r = size ? find_stack(sampler, sampler->held.bytes, size) : 0;
        if (!r && size)
                r = sampler->on_sample(sampler->held.bytes, size, sampler->userdata);
        if (r >= 0)
                r = kernel_half_drain_samples(sampler->half);
        return r == HELD ? 0 : MIN(r, 0);
}

/* Reads mappings first. Samples may be read up to the time up to which mappings are known. */
static int drain_sideband(Sampler *sampler) {
        int r;

        sampler->held.release_ns = UINT64_MAX;
        if (!sampler->sideband)
                return 0;
        if (sampler->is_running)
                sampler->held.release_ns = clock_monotonic_ns() - SAMPLER_DELAY_NS;
        r = sideband_drain(sampler->sideband, sampler->on_mapping, sampler->userdata);
        return r ? r : sampler->on_mapped(sampler->userdata);
}

static int read_notice(const void *data, size_t size, void *userdata) {
        const struct abi_notice *notice = data;
        Sampler *sampler = userdata;

        sampler->drained.n_changes += size >= sizeof(*notice) && notice->kind == ABI_NOTICE_MAPPINGS;
        return sampler->on_notice ? sampler->on_notice(data, size, sampler->userdata) : 0;
}

static int allocate_cpus(Sampler *sampler) {
        size_t n = kernel_half_n_cpus(sampler->half);

        sampler->cpus.events = calloc(n, sizeof(*sampler->cpus.events));
        sampler->cpus.online = calloc(n, sizeof(*sampler->cpus.online));
        sampler->cpus.entries = calloc(n, sizeof(*sampler->cpus.entries));
        if (!sampler->cpus.events || !sampler->cpus.online || !sampler->cpus.entries)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < n; i++)
                sampler->cpus.events[i].event = (Event)EVENT_INIT;
        sampler->cpus.n = n;
        return 0;
}

/* Page faults are as many as samples that are exported. */
static uint32_t sample_frequency(const Sampler *sampler, uint32_t frequency) {
        return MAX(frequency / MAX(sampler->config.ticks_per_sample, 1u), 1u);
}

static int poll_ring(const Sampler *sampler, int fd) {
        struct epoll_event interest = { .events = EPOLLIN };

        return epoll_ctl(sampler->poll_fd, EPOLL_CTL_ADD, fd, &interest) < 0 ? error_origin(-errno) : 0;
}

static int poll_rings(Sampler *sampler) {
        int r;

        sampler->poll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (sampler->poll_fd < 0)
                return error_origin(-errno);
        r = poll_ring(sampler, kernel_half_samples_fd(sampler->half));
        if (!r && sampler->waits)
                r = poll_ring(sampler, kernel_waits_fd(sampler->waits));
        return r ? r : poll_ring(sampler, kernel_half_notices_fd(sampler->half));
}

int sampler_new(Sampler **samplerp, const SamplerConfig *config) {
        _cleanup_(sampler_freep) Sampler *sampler = calloc(1, sizeof(*sampler));
        int r;

        if (!sampler)
                return error_origin(-ENOMEM);
        sampler->config = *config;
        sampler->poll_fd = -1;
        sampler->rate.period_ns = NS_PER_SEC / config->frequency;
        r = kernel_half_check(config->btf_path ?: SAMPLER_BTF_PATH);
        if (r)
                return r;
        r = kernel_half_new(&sampler->half, config, read_sample, read_notice, sampler);
        if (!r && config->waits)
                r = kernel_waits_new(&sampler->waits, sampler->half, config);
        if (!r && config->crashes)
                r = kernel_events_new(&sampler->crashes, KERNEL_EVENTS_CRASHES, sampler->half, config);
        if (!r && config->allocations)
                r = kernel_events_new(&sampler->allocs, KERNEL_EVENTS_ALLOCATIONS, sampler->half, config);
        if (r)
                return r;
        r = sampler->allocs ? alloc_probes_new(&sampler->alloc_probes, sampler->allocs) : 0;
        if (!r)
                r = runtime_walk_new(&sampler->runtime_walk, sampler->half);
        if (!r)
                r = obi_map_new(&sampler->obi, config->obi_map ?: "", sampler->half);
        if (!r)
                r = poll_rings(sampler);
        if (!r)
                r = allocate_cpus(sampler);
        if (!r && config->page_faults)
                r = fault_events_new(&sampler->faults, sampler->half, config->opener,
                                     sample_frequency(sampler, config->frequency));
        if (r)
                return error_fold(r);
        sampler_follow_obi(sampler);
        *samplerp = take(sampler);
        return 0;
}

Sampler *sampler_free(Sampler *sampler) {
        if (!sampler)
                return NULL;
        sampler_stop(sampler);
        kernel_waits_free(sampler->waits);
        fault_events_free(sampler->faults);
        kernel_threads_free(sampler->threads);
        kernel_events_free(sampler->crashes);
        alloc_probes_free(sampler->alloc_probes);
        kernel_events_free(sampler->allocs);
        runtime_walk_free(sampler->runtime_walk);
        obi_map_free(sampler->obi);
        kernel_half_free(sampler->half);
        sideband_free(sampler->sideband);
        closep(&sampler->poll_fd);
        free(sampler->cpus.events);
        free(sampler->cpus.online);
        free(sampler->cpus.entries);
        free(sampler);
        return NULL;
}

void sampler_set_callbacks(Sampler *sampler, SamplerRecord on_sample, SamplerRecord on_notice,
                           void *userdata) {
        sampler->on_sample = on_sample;
        sampler->on_notice = on_notice;
        sampler->userdata = userdata;
}

static int read_stack(const void *data, size_t size, void *userdata) {
        Sampler *sampler = userdata;

        sampler->drained.n_copies++;
        return sampler->on_stack(data, size, sampler->userdata);
}

void sampler_set_stacks(Sampler *sampler, SamplerRecord on_stack) {
        sampler->on_stack = on_stack;
        kernel_half_set_stacks(sampler->half, on_stack ? read_stack : NULL);
}

void sampler_set_waits(Sampler *sampler, SamplerRecord on_wait, SamplerWaitSum on_sum) {
        if (sampler->waits)
                kernel_waits_set_callbacks(sampler->waits, on_wait, on_sum, sampler->userdata);
}

int sampler_split_waits(Sampler *sampler) {
        bool are_counted = sampler->waits && sampler->wait_limit < WAIT_LIMIT_ALL;

        return are_counted ? kernel_waits_split(sampler->waits) : 0;
}

int sampler_look_at_threads(Sampler *sampler, ThreadsLook *look) {
        int r = 0;

        if (sampler->has_no_threads)
                return SAMPLER_E_UNUSABLE;
        if (!sampler->threads)
                r = kernel_threads_new(&sampler->threads, sampler->half, &sampler->config);
        sampler->has_no_threads = r == SAMPLER_E_UNUSABLE;
        return r ? r : kernel_threads_look(sampler->threads, look);
}

void sampler_runtimes_of(const Sampler *sampler, uint32_t tgid, uint64_t generation,
                         ThreadsRuntimes *runtimes) {
        kernel_threads_runtimes(sampler->half, tgid, generation, runtimes);
}

bool sampler_has_undrawn_waits(const Sampler *sampler) {
        return sampler->waits && kernel_waits_are_undrawn(sampler->waits);
}

int sampler_list_long_waits(Sampler *sampler, const struct abi_wait_longs **longsp) {
        return kernel_waits_list_long(sampler->waits, longsp);
}

int sampler_give_stack(Sampler *sampler, const struct abi_wait_long *wait, const struct abi_wait *record,
                       enum abi_wait_given *givenp) {
        return kernel_waits_give(sampler->waits, wait, record, givenp);
}

static int follow_waits(Sampler *sampler) {
        if (!sampler->waits)
                return 0;
        if (sampler->is_running && !sampler->is_paused && sampler->wait_limit < WAIT_LIMIT_ALL)
                return kernel_waits_attach(sampler->waits);
        kernel_waits_detach(sampler->waits);
        return 0;
}

/* Waits are counted, crashes and allocations told, while samples are taken. */
static int follow_objects(Sampler *sampler) {
        if (sampler->crashes && sampler->is_running && !sampler->is_paused) {
                int r = kernel_events_attach_crashes(sampler->crashes);

                if (r)
                        return r;
        } else if (sampler->crashes) {
                kernel_events_detach_crashes(sampler->crashes);
        }
        if (sampler->alloc_probes)
                alloc_probes_follow(sampler->alloc_probes, sampler->is_running && !sampler->is_paused);
        return follow_waits(sampler);
}

int sampler_probe(Sampler *sampler, const Process *process) {
        return sampler->alloc_probes ? alloc_probes_process(sampler->alloc_probes, process) : 0;
}

uint64_t sampler_lost_frees(const Sampler *sampler, uint32_t tgid, uint64_t start_time_ns) {
        return kernel_events_lost_frees(sampler->allocs, tgid, start_time_ns);
}

void sampler_forget_frees(Sampler *sampler, uint32_t tgid) {
        if (sampler->allocs)
                kernel_events_forget_frees(sampler->allocs, tgid);
}

void sampler_end_probes(Sampler *sampler) {
        if (sampler)
                sampler->alloc_probes = alloc_probes_free(sampler->alloc_probes);
}

void sampler_forget_probes(Sampler *sampler) {
        if (sampler->alloc_probes)
                alloc_probes_sweep(sampler->alloc_probes);
}

int sampler_limit_waits(Sampler *sampler, enum abi_wait_limit limit) {
        sampler->wait_limit = limit;
        if (sampler->waits)
                kernel_waits_limit(sampler->waits, limit);
        return follow_waits(sampler);
}

static int drain_waits(Sampler *sampler) {
        int r = sampler->waits ? kernel_waits_drain(sampler->waits, sampler->held.release_ns) : 0;

        sampler->drained.n_samples += (size_t)MAX(r, 0);
        return MIN(r, 0);
}

void sampler_set_sideband(Sampler *sampler, SidebandVisit on_mapping, SamplerPause on_mapped) {
        sampler->on_mapping = on_mapping;
        sampler->on_mapped = on_mapped;
}

uint64_t sampler_told_ns(const Sampler *sampler) {
        return sampler->held.release_ns;
}

static void close_clock(CpuEvent *cpu) {
        cpu->link = kernel_half_detach(cpu->link);
        event_pulse_reset(&cpu->pulse);
        event_deinit(&cpu->event);
}

static void close_cpu(Sampler *sampler, size_t cpu) {
        close_clock(&sampler->cpus.events[cpu]);
        if (sampler->faults)
                fault_events_close(sampler->faults, cpu);
}

static void close_events(Sampler *sampler, size_t cpu) {
        close_cpu(sampler, cpu);
        if (sampler->sideband)
                sideband_close(sampler->sideband, cpu);
}

static uint64_t next_period(const Sampler *sampler, CpuEvent *cpu) {
        const bool is_fine = sampler->config.ticks_per_sample > 1;
        const EventJitter jitter = is_fine ? EVENT_JITTER_NARROW : EVENT_JITTER_WIDE;

        return sampler->config.jitter ? event_draw_period(sampler->rate.period_ns, jitter, &cpu->draw)
                                      : sampler->rate.period_ns;
}

/* A CPU that goes offline between the list and the open is no error. */
static int open_cpu(Sampler *sampler, size_t i) {
        CpuEvent *cpu = &sampler->cpus.events[i];
        int r;

        r = event_init(&cpu->event, sampler->config.opener, (uint32_t)i, next_period(sampler, cpu));
        if (r == -ENODEV)
                return 0;
        if (r)
                return kernel_half_refuse("open a perf event", r);
        r = kernel_half_attach(sampler->half, cpu->event.fd, &cpu->link);
        if (!r)
                return sampler->faults ? fault_events_open(sampler->faults, i) : 0;
        close_clock(cpu);
        return kernel_half_refuse("attach to a perf event", r);
}

/* Without the side-band, new mappings are found only when a stack has left all known ones. */
static void open_sideband(Sampler *sampler, size_t cpu) {
        int r;

        if (!sampler->sideband || sideband_is_open(sampler->sideband, cpu))
                return;
        r = sideband_open(sampler->sideband, sampler->config.opener, cpu);
        if (!r || r == -ENODEV)
                return;
        log_warning("new mappings are noticed late: the kernel does not tell of them (%s)", strerror(-r));
        sampler->sideband = sideband_free(sampler->sideband);
}

/* Makes the open events those of the CPUs that are online. */
static int follow_cpus(Sampler *sampler) {
        int r;

        if (machine_online_cpus(sampler->cpus.online, sampler->cpus.n))
                memset(sampler->cpus.online, true, sampler->cpus.n);
        for (size_t i = 0; i < sampler->cpus.n; i++) {
                bool is_open = sampler->cpus.events[i].event.fd >= 0;

                if (is_open && !sampler->cpus.online[i])
                        close_events(sampler, i);
                if (is_open || !sampler->cpus.online[i])
                        continue;
                open_sideband(sampler, i);
                r = sampler->is_paused ? 0 : open_cpu(sampler, i);
                if (r)
                        return r;
        }
        return 0;
}

void sampler_pause(Sampler *sampler) {
        sampler->is_paused = true;
        for (size_t i = 0; i < sampler->cpus.n; i++)
                close_cpu(sampler, i);
        follow_objects(sampler);
}

int sampler_resume(Sampler *sampler) {
        int r;

        sampler->is_paused = false;
        r = sampler->is_running ? follow_cpus(sampler) : 0;
        return r ? r : follow_objects(sampler);
}

int sampler_renew(Sampler *sampler) {
        for (size_t i = 0; i < sampler->cpus.n; i++)
                close_events(sampler, i);
        return sampler->is_running ? follow_cpus(sampler) : 0;
}

void sampler_follow_obi(Sampler *sampler) {
        obi_map_follow(sampler->obi);
}

void sampler_set_frequency(Sampler *sampler, uint32_t frequency, uint32_t ticks_per_sample) {
        if (sampler->config.ticks_per_sample != ticks_per_sample)
                kernel_half_set_ticks(sampler->half, ticks_per_sample);
        sampler->config.ticks_per_sample = ticks_per_sample;
        sampler->rate.period_ns = NS_PER_SEC / frequency;
        sampler->rate.limit.frequency = frequency;
        if (sampler->faults)
                fault_events_set_frequency(sampler->faults, sample_frequency(sampler, frequency));
        for (size_t i = 0; i < sampler->cpus.n; i++) {
                CpuEvent *cpu = &sampler->cpus.events[i];

                if (cpu->event.fd >= 0)
                        event_set_period(&cpu->event, next_period(sampler, cpu));
        }
}

int sampler_watch(Sampler *sampler) {
        int r = kernel_half_watch(sampler->half);

        if (!r && sampler->on_mapping)
                r = sideband_new(&sampler->sideband, sampler->cpus.n,
                                 kernel_half_n_online(sampler->half));
        if (!r && sampler->sideband)
                r = poll_ring(sampler, sideband_fd(sampler->sideband));
        if (r)
                return r;
        sampler->is_watching = true;
        for (size_t i = 0; i < sampler->cpus.n; i++)
                open_sideband(sampler, i);
        return 0;
}

int sampler_start(Sampler *sampler) {
        int r = sampler->is_watching ? 0 : sampler_watch(sampler);

        if (r)
                return r;
        runtime_walk_wait(sampler->runtime_walk, clock_monotonic_ns() + RUNTIMES_WAIT_NS);
        event_limit_begin(&sampler->rate.limit, sampler->config.frequency);
        sampler->is_running = true;
        r = follow_cpus(sampler);
        return r ? r : follow_objects(sampler);
}

void sampler_stop(Sampler *sampler) {
        for (size_t i = 0; i < sampler->cpus.n; i++)
                close_cpu(sampler, i);
        sampler->is_running = false;
        follow_objects(sampler);
}

int sampler_drain(Sampler *sampler, SamplerDrained *drainedp) {
        int r;

        sampler->drained = (SamplerDrained){ 0 };
        r = drain_sideband(sampler);
        if (r >= 0)
                r = kernel_half_drain_notices(sampler->half);
        if (r >= 0)
                r = drain_samples(sampler);
        if (r >= 0)
                r = drain_waits(sampler);
        if (drainedp)
                *drainedp = sampler->drained;
        return MIN(r, 0);
}

void sampler_drained_add(SamplerDrained *sum, const SamplerDrained *more) {
        sum->n_samples += more->n_samples;
        sum->n_bytes += more->n_bytes;
        sum->n_copies += more->n_copies;
        sum->n_changes += more->n_changes;
}

size_t sampler_ring_bytes(const Sampler *sampler) {
        return kernel_half_ring_bytes(sampler->half);
}

int sampler_fd(const Sampler *sampler) {
        return sampler->poll_fd;
}

void sampler_sleep(Sampler *sampler, bool sleeps) {
        kernel_half_sleep(sampler->half, sleeps);
}

int sampler_call_fd(const Sampler *sampler) {
        return kernel_half_samples_fd(sampler->half);
}

void sampler_listen(Sampler *sampler, bool listens) {
        kernel_half_listen(sampler->half, listens);
}

int sampler_notice_fd(const Sampler *sampler) {
        return kernel_half_notices_fd(sampler->half);
}

bool sampler_has_mappings(const Sampler *sampler) {
        return sampler->sideband && sideband_has_records(sampler->sideband);
}

void sampler_hear(Sampler *sampler, bool hears) {
        kernel_half_hear(sampler->half, hears);
}

bool sampler_hears(const Sampler *sampler) {
        return kernel_half_hears(sampler->half);
}

void sampler_know_name(Sampler *sampler, const char name[ABI_COMM_SIZE]) {
        ProgramNamesChange change;

        if (program_names_know(&sampler->known_names, name, &change))
                kernel_half_change_names(sampler->half, &change);
}

void sampler_settle_name(Sampler *sampler, const struct abi_settled_name *name, bool is_settled) {
        kernel_half_settle_name(sampler->half, name, is_settled);
}

int sampler_read_counters(Sampler *sampler) {
        uint64_t sums[COUNTER_N_KERNEL];
        int r;

        for (size_t i = 0; i < sampler->cpus.n; i++)
                stat_add(COUNTER_THROTTLED, event_read_throttles(&sampler->cpus.events[i].event));
        r = kernel_half_read_counters(sampler->half, sums, sampler->cpus.entries);
        if (r)
                return error_fold(r);
        if (sums[COUNTER_TICKS] != sampler->counted[COUNTER_TICKS])
                event_limit_watch(&sampler->rate.limit);     /* before a tick the rate has done no harm */
        for (int i = 0; i < COUNTER_N_KERNEL; i++) {
                stat_add((enum counter)i, sums[i] - sampler->counted[i]);
                sampler->counted[i] = sums[i];
        }
        return 0;
}

/*
 * Opens the events of a CPU again if its timer has stopped: the CPU was offline for a moment, and took the
 * side-band with it.
 */
static int renew_stopped(Sampler *sampler) {
        uint64_t now_ns = clock_monotonic_ns();
        size_t n = 0;

        for (size_t i = 0; i < sampler->cpus.n; i++) {
                CpuEvent *cpu = &sampler->cpus.events[i];

                if (cpu->event.fd < 0 ||
                    !event_is_silent(&cpu->pulse, sampler->cpus.entries[i], now_ns, sampler->rate.period_ns))
                        continue;
                if (!event_has_stopped(&cpu->pulse, event_enabled_ns(&cpu->event)))
                        continue;
                log_notice(
                        "the timer of CPU %zu has stopped, as when the CPU goes offline for a moment: opening it anew",
                        i);
                stat_add(COUNTER_TIMERS_STOPPED, 1);
                close_events(sampler, i);
                n++;
        }
        return n ? follow_cpus(sampler) : 0;
}

int sampler_jitter(Sampler *sampler) {
        uint64_t ticks = sampler->counted[COUNTER_TICKS];
        int r;

        if (!sampler->is_running)
                return 0;
        if (sampler->faults)
                fault_events_adapt(sampler->faults, sampler->cpus.entries, clock_monotonic_ns());
        if (sampler->rate.n_draws++ % CPU_CHECK_INTERVAL == 0) {
                r = follow_cpus(sampler);
                if (r)
                        return r;
        }
        r = renew_stopped(sampler);
        if (r)
                return r;
        if (ticks == sampler->rate.drawn_ticks)
                /* nothing was sampled: a new period would cost an interrupt of each CPU for nothing */
                return 0;
        sampler->rate.drawn_ticks = ticks;
        for (size_t i = 0; i < sampler->cpus.n && sampler->config.jitter; i++) {
                CpuEvent *cpu = &sampler->cpus.events[i];

                if (cpu->event.fd >= 0)
                        event_set_period(&cpu->event, next_period(sampler, cpu));
        }
        return 0;
}

uint64_t sampler_entries(Sampler *sampler) {
        uint64_t sums[COUNTER_N_KERNEL];

        return kernel_half_read_counters(sampler->half, sums, NULL) ? 0 : sums[COUNTER_SAMPLER_ENTRIES];
}

double sampler_programmed(const Sampler *sampler) {
        double sum = 0;

        for (size_t i = 0; i < sampler->cpus.n; i++)
                sum += event_programmed(&sampler->cpus.events[i].event);
        return sum;
}

uint32_t sampler_n_cpus(const Sampler *sampler) {
        uint32_t n = 0;

        for (size_t i = 0; i < sampler->cpus.n; i++)
                n += sampler->cpus.events[i].event.fd >= 0;
        return n;
}

int sampler_set_process(Sampler *sampler, uint32_t tgid, const struct abi_process *process) {
        return kernel_half_set_process(sampler->half, tgid, process);
}

int sampler_remove_process(Sampler *sampler, uint32_t tgid) {
        return kernel_half_remove_process(sampler->half, tgid);
}

int sampler_reject_name(Sampler *sampler, const struct abi_name *name) {
        return kernel_half_reject_name(sampler->half, name);
}

int sampler_adopt(Sampler *sampler, const struct abi_adoption *adoption) {
        return kernel_half_adopt(sampler->half, adoption);
}

int sampler_processes_fd(const Sampler *sampler) {
        return kernel_half_processes_fd(sampler->half);
}

int sampler_row_tables_fd(const Sampler *sampler) {
        return kernel_half_row_tables_fd(sampler->half);
}

int sampler_row_nodes_fd(const Sampler *sampler) {
        return kernel_half_row_nodes_fd(sampler->half);
}

uint64_t *sampler_rows_version(const Sampler *sampler) {
        return kernel_half_rows_version(sampler->half);
}

int sampler_runtime_fd(const Sampler *sampler, uint32_t bit) {
        return kernel_half_runtime_fd(sampler->half, bit);
}

enum runtime_walk sampler_want_runtimes(Sampler *sampler, SamplerReadMemory read, const void *userdata) {
        return runtime_walk_want(sampler->runtime_walk, read, userdata);
}

void sampler_add_runtime(Sampler *sampler, uint32_t bit) {
        kernel_half_add_runtime(sampler->half, bit);
}

void sampler_take_losers(Sampler *sampler, SamplerLosers *losers) {
        kernel_half_take_losers(sampler->half, losers);
}

size_t sampler_map_bytes(Sampler *sampler) {
        return kernel_half_map_bytes(sampler->half) +
                (sampler->waits ? kernel_waits_map_bytes(sampler->waits) : 0) +
                (sampler->crashes ? kernel_events_map_bytes(sampler->crashes) : 0) +
                (sampler->allocs ? kernel_events_map_bytes(sampler->allocs) : 0);
}
