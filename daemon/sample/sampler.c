/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How the kernel half comes to life: settings are written into the object's
 * constants, maps get their sizes, the kernel verifies and loads the programs
 * (sampler_new). Then the watchers are attached to their tracepoints, and one
 * clock event a CPU is opened and given the program that it runs at each tick
 * (sampler_start). From there on all is pull: nobody is woken by a sample, the
 * daemon drains the rings when its own timer says so.
 */

#include "sample/sampler.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "sample/event.h"
#include "sample/kernel-types.h"
#include "sample/machine.h"
#include "sample/sideband.h"
#include "sample/refusal.h"
#include "sampler.skel.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/log.h"
#include "util/stat.h"

enum {
        MIN_RING_BYTES = 128 << 10,     /* a dozen of the longest records */
        MAX_RING_BYTES = 64 << 20,
        MEAN_RECORD_BYTES = 1024,       /* about 110 frames: deep for native code, usual for managed */
        NOTICE_RING_BYTES_PER_CPU = 64 << 10,   /* 1,170 notices: more than a CPU can fork and exit in 100 ms */
        MAX_NOTICE_RING_BYTES = 1 << 20,
        PREALLOCATED_PROCESSES = 4096,  /* rows where they must be preallocated (below Linux 6.1) */
        PREALLOCATED_NODES = 1024,      /* the same for nodes, of 0.8 KiB each */
        CPU_CHECK_INTERVAL = 4,         /* calls of sampler_jitter(), about seconds */
        MAX_SAMPLE_BYTES = sizeof(struct abi_sample) + (ABI_MAX_KERNEL_FRAMES + ABI_MAX_FRAMES) * sizeof(uint64_t),
        HELD = -EAGAIN,                 /* the drain has met a sample that is too young */
};

/* A record of the side-band may show up this much later than its own time: its writer was interrupted meanwhile. */
#define SIDEBAND_DELAY_NS (5 * NS_PER_MS)

typedef struct CpuEvent {
        Event event;
        struct bpf_link *link;
        uint32_t draw;                  /* state of draw_period(), 0 = not begun */
} CpuEvent;

_Static_assert((int)REFUSAL_E_UNUSABLE == (int)SAMPLER_E_UNUSABLE, "passed up as it is");

struct Sampler {
        SamplerConfig config;
        struct sampler_bpf *skeleton;
        struct ring_buffer *samples, *notices;
        SamplerRecord on_sample, on_notice;
        void *userdata;
        uint64_t n_drained;
        Sideband *sideband;             /* NULL = not asked for, or not possible */
        SidebandVisit on_mapping;
        SamplerPause on_mapped;
        uint64_t release_ns;            /* younger samples wait for the next drain */
        size_t held_size;               /* the first one that does; 0 = none */
        uint64_t held[MAX_SAMPLE_BYTES / sizeof(uint64_t)];
        CpuEvent *cpus;                 /* n_possible entries */
        bool *online;                   /* the same */
        size_t n_possible;
        uint64_t period_ns;             /* nominal */
        uint64_t counted[COUNTER_N_KERNEL];     /* what has been added to stat */
        uint64_t jittered_ticks;        /* counted ticks at the last draw */
        uint32_t n_jitters;
        int64_t max_rate;               /* perf_event_max_sample_rate at the last look */
        bool is_running;
};

/* libbpf's own words are for developers: one debug line each. */
static int print_debug(enum libbpf_print_level level, const char *format, va_list args) {
        char text[8192], *line, *rest = text;

        if (log_level() < LOG_LEVEL_DEBUG)
                return 0;
        vsnprintf(text, sizeof(text), format, args);
        while ((line = strsep(&rest, "\n")))
                if (*line)
                        log_debug("%s", line);
        return 0;
}

static uint64_t power_of_two(uint64_t at_least) {
        uint64_t size = 1;

        while (size < at_least)
                size *= 2;
        return size;
}

/* Half full after a quarter of a second without a drain. */
static uint32_t sample_ring_bytes(const SamplerConfig *config, size_t n_cpus) {
        uint64_t bytes = 2 * (uint64_t)config->frequency * n_cpus * MEAN_RECORD_BYTES / 4;

        if (config->ring_bytes)
                return config->ring_bytes;
        return (uint32_t)power_of_two(MIN(MAX(bytes, (uint64_t)MIN_RING_BYTES), (uint64_t)MAX_RING_BYTES));
}

static uint32_t notice_ring_bytes(size_t n_cpus) {
        return (uint32_t)power_of_two(MIN(n_cpus * NOTICE_RING_BYTES_PER_CPU, (size_t)MAX_NOTICE_RING_BYTES));
}

static int configure(Sampler *sampler) {
        struct sampler_bpf *skeleton = sampler->skeleton;
        const SamplerConfig *config = &sampler->config;
        uint32_t namespace = 0;

        if (machine_namespace(&namespace))
                log_warning("cannot read our PID namespace (/proc/self/ns/pid): taken for the first one");
        skeleton->rodata->setting_depth = config->depth;
        skeleton->rodata->setting_kernel_stacks = config->kernel_stacks;
        skeleton->rodata->setting_default_state = config->default_state;
        skeleton->rodata->setting_watch_strangers = config->watch_strangers;
        skeleton->rodata->setting_self_tgid = config->self_tgid;
        skeleton->rodata->setting_namespace = namespace;
        bpf_map__set_max_entries(skeleton->maps.samples, sample_ring_bytes(config, sampler->n_possible));
        bpf_map__set_max_entries(skeleton->maps.notices, notice_ring_bytes(sampler->n_possible));
        if (!config->watch_strangers)
                bpf_map__set_max_entries(skeleton->maps.strangers, 1);
        /* Rows outside of the preallocated pool are allowed in perf event programs since 6.1. */
        if (machine_version() < MACHINE_VERSION(6, 1)) {
                bpf_map__set_map_flags(skeleton->maps.processes, 0);
                bpf_map__set_max_entries(skeleton->maps.processes, PREALLOCATED_PROCESSES);
                bpf_map__set_map_flags(skeleton->maps.row_nodes, 0);
                bpf_map__set_max_entries(skeleton->maps.row_nodes, PREALLOCATED_NODES);
        }
        return 0;
}

/* How deep our PID namespace is cannot be seen from inside: the kernel half looks, in our own context. */
static int identify(Sampler *sampler) {
        LIBBPF_OPTS(bpf_test_run_opts, options);
        int r;

        if (!sampler->skeleton->rodata->setting_namespace)
                return 0;
        r = bpf_prog_test_run_opts(bpf_program__fd(sampler->skeleton->progs.identify), &options);
        return r ? refusal_explain("find our PID namespace", r) : 0;
}

/* What bpf/kernel.bpf.h declares, and the enum that it asks for helpers. */
static const char *const kernel_types[] = {
        "atomic_t", "bpf_func_id", "mm_struct", "ns_common", "pid", "pid_namespace", "pt_regs", "sched_entity",
        "signal_struct", "task_struct", "upid",
};

/* The types that the loader needs, as a file of their own; if that fails, it gets all of them. */
static const char *open_types(Sampler *sampler, int *fdp, char *path, size_t path_size) {
        const char *btf = sampler->config.btf_path ?: REFUSAL_BTF_PATH;

        if (kernel_types_open(btf, kernel_types, ARRAY_SIZE(kernel_types), fdp)) {
                log_debug("%s is read as a whole", btf);
                return sampler->config.btf_path;
        }
        snprintf(path, path_size, "/proc/self/fd/%d", *fdp);
        return path;
}

static int load(Sampler *sampler) {
        LIBBPF_OPTS(bpf_object_open_opts, options);
        _cleanup_(closep) int types = -1;
        char path[32];
        int r;

        options.btf_custom_path = open_types(sampler, &types, path, sizeof(path));
        sampler->skeleton = sampler_bpf__open_opts(&options);
        if (!sampler->skeleton)
                return refusal_explain("open the kernel half", -errno);
        r = configure(sampler);
        if (r)
                return error_fold(r);
        r = sampler_bpf__load(sampler->skeleton);
        if (r)
                return refusal_explain("load the kernel half (BPF)", r);
        return identify(sampler);
}

static bool is_too_young(const Sampler *sampler, const void *data, size_t size) {
        const struct abi_sample *header = data;

        return size >= sizeof(*header) && size <= sizeof(sampler->held) && header->time_ns > sampler->release_ns;
}

/*
 * A sample may be attributed only when every mapping from before it is known. The ring itself is the queue of those
 * that wait: the drain ends at the first one that is too young, which has left the ring by then and is kept apart.
 */
static int read_sample(void *context, void *data, size_t size) {
        Sampler *sampler = context;

        sampler->n_drained++;
        if (!sampler->on_sample)
                return 0;
        if (!is_too_young(sampler, data, size))
                return sampler->on_sample(data, size, sampler->userdata);
        memcpy(sampler->held, data, size);
        sampler->held_size = size;
        return HELD;
}

static int drain_samples(Sampler *sampler) {
        size_t size = sampler->held_size;
        int r;

        if (size && is_too_young(sampler, sampler->held, size))
                return 0;
        sampler->held_size = 0;
        r = size ? sampler->on_sample(sampler->held, size, sampler->userdata) : 0;
        if (r >= 0)
                r = ring_buffer__consume(sampler->samples);
        return r == HELD ? 0 : MIN(r, 0);
}

/* First what was mapped: the time up to which that is known is the time up to which samples may be read. */
static int drain_sideband(Sampler *sampler) {
        int r;

        sampler->release_ns = UINT64_MAX;
        if (!sampler->sideband)
                return 0;
        if (sampler->is_running)
                sampler->release_ns = clock_monotonic_ns() - SIDEBAND_DELAY_NS;
        r = sideband_drain(sampler->sideband, sampler->on_mapping, sampler->userdata);
        return r ? r : sampler->on_mapped(sampler->userdata);
}

static int read_notice(void *context, void *data, size_t size) {
        Sampler *sampler = context;

        return sampler->on_notice ? sampler->on_notice(data, size, sampler->userdata) : 0;
}

static int open_rings(Sampler *sampler) {
        struct sampler_bpf *skeleton = sampler->skeleton;

        sampler->samples = ring_buffer__new(bpf_map__fd(skeleton->maps.samples), read_sample, sampler, NULL);
        if (!sampler->samples)
                return error_origin(-errno);
        sampler->notices = ring_buffer__new(bpf_map__fd(skeleton->maps.notices), read_notice, sampler, NULL);
        return sampler->notices ? 0 : error_origin(-errno);
}

static int allocate_cpus(Sampler *sampler) {
        int n = libbpf_num_possible_cpus();

        if (n < 0)
                return error_origin(n);
        sampler->cpus = calloc((size_t)n, sizeof(*sampler->cpus));
        sampler->online = calloc((size_t)n, sizeof(*sampler->online));
        if (!sampler->cpus || !sampler->online)
                return error_origin(-ENOMEM);
        for (int i = 0; i < n; i++)
                sampler->cpus[i].event = (Event)EVENT_INIT;
        sampler->n_possible = (size_t)n;
        return 0;
}

int sampler_new(Sampler **samplerp, const SamplerConfig *config) {
        _cleanup_(sampler_freep) Sampler *sampler = calloc(1, sizeof(*sampler));
        int r;

        if (!sampler)
                return error_origin(-ENOMEM);
        sampler->config = *config;
        sampler->period_ns = NS_PER_SEC / config->frequency;
        libbpf_set_print(print_debug);
        r = refusal_check(config->btf_path ?: REFUSAL_BTF_PATH);
        if (r)
                return r;
        r = allocate_cpus(sampler);
        if (r)
                return error_fold(r);
        r = load(sampler);
        if (r)
                return r;
        r = open_rings(sampler);
        if (r)
                return error_fold(r);
        *samplerp = take(sampler);
        return 0;
}

Sampler *sampler_free(Sampler *sampler) {
        if (!sampler)
                return NULL;
        sampler_stop(sampler);
        ring_buffer__free(sampler->samples);
        ring_buffer__free(sampler->notices);
        sampler_bpf__destroy(sampler->skeleton);
        sideband_free(sampler->sideband);
        free(sampler->cpus);
        free(sampler->online);
        free(sampler);
        return NULL;
}

void sampler_set_callbacks(Sampler *sampler, SamplerRecord on_sample, SamplerRecord on_notice, void *userdata) {
        sampler->on_sample = on_sample;
        sampler->on_notice = on_notice;
        sampler->userdata = userdata;
}

void sampler_set_sideband(Sampler *sampler, SidebandVisit on_mapping, SamplerPause on_mapped) {
        sampler->on_mapping = on_mapping;
        sampler->on_mapped = on_mapped;
}

static void close_cpu(CpuEvent *cpu) {
        bpf_link__destroy(cpu->link);
        cpu->link = NULL;
        event_deinit(&cpu->event);
}

/*
 * 0.75 … 1.25 × a mean, so that work in step with the nominal period is not always seen at the same place. Each period
 * lasts for about a second, so the rate is the mean of 1/x for x from 0.75 to 1.25, which is ln(1.25 ÷ 0.75) ÷ 0.5 =
 * 1.0217; and each new period throws away half of one that had begun. The mean makes up for both: the rate is nominal.
 * Draws of one CPU step through the range by the golden ratio from a random start: spread as evenly as can be after any
 * number of them, so that short runs have the nominal rate too.
 */
static uint64_t draw_period(const Sampler *sampler, uint32_t *drawp) {
        uint64_t mean_ns = sampler->period_ns + sampler->period_ns * 217 / 10000;

        if (!*drawp && getrandom(drawp, sizeof(*drawp), GRND_NONBLOCK) != sizeof(*drawp))
                *drawp = (uint32_t)clock_monotonic_ns() << 12;
        *drawp += 0x9E3779B9;           /* 2^32 ÷ the golden ratio */
        mean_ns -= MIN(mean_ns, NS_PER_SEC / 4) * mean_ns / (2 * NS_PER_SEC);
        return mean_ns - mean_ns / 4 + (mean_ns / 2 * *drawp >> 32);
}

/* A CPU that goes offline between the list and the open is no error. */
static int open_cpu(Sampler *sampler, size_t i) {
        CpuEvent *cpu = &sampler->cpus[i];
        int r;

        r = event_init(&cpu->event, (uint32_t)i, sampler->config.jitter ? draw_period(sampler, &cpu->draw) : sampler->period_ns);
        if (r == -ENODEV)
                return 0;
        if (r)
                return refusal_explain("open a perf event", r);
        cpu->link = bpf_program__attach_perf_event(sampler->skeleton->progs.sample, cpu->event.fd);
        if (cpu->link)
                return 0;
        r = -errno;
        close_cpu(cpu);
        return refusal_explain("attach to a perf event", r);
}

/* Without it mappings are still found, but only when a stack has left all those that are known. */
static void open_sideband(Sampler *sampler, size_t cpu) {
        int r;

        if (!sampler->sideband || sideband_is_open(sampler->sideband, cpu))
                return;
        r = sideband_open(sampler->sideband, cpu);
        if (!r || r == -ENODEV)
                return;
        log_warning("new mappings are noticed late: the kernel does not tell of them (%s)", strerror(-r));
        sampler->sideband = sideband_free(sampler->sideband);
}

static int start_sideband(Sampler *sampler) {
        return sampler->on_mapping ? sideband_new(&sampler->sideband, sampler->n_possible) : 0;
}

/* Makes the open events those of the CPUs that are online. */
static int follow_cpus(Sampler *sampler) {
        int r;

        if (machine_online_cpus(sampler->online, sampler->n_possible))
                memset(sampler->online, true, sampler->n_possible);
        for (size_t i = 0; i < sampler->n_possible; i++) {
                bool is_open = sampler->cpus[i].event.fd >= 0;

                if (is_open && !sampler->online[i]) {
                        close_cpu(&sampler->cpus[i]);
                        if (sampler->sideband)
                                sideband_close(sampler->sideband, i);
                }
                if (is_open || !sampler->online[i])
                        continue;
                open_sideband(sampler, i);
                r = open_cpu(sampler, i);
                if (r)
                        return r;
        }
        return 0;
}

static int attach_watchers(Sampler *sampler) {
        struct sampler_bpf *skeleton = sampler->skeleton;

        skeleton->links.watch_exec = bpf_program__attach(skeleton->progs.watch_exec);
        if (!skeleton->links.watch_exec)
                return refusal_explain("watch exec", -errno);
        skeleton->links.watch_exit = bpf_program__attach(skeleton->progs.watch_exit);
        return skeleton->links.watch_exit ? 0 : refusal_explain("watch exit", -errno);
}

int sampler_start(Sampler *sampler) {
        int r;

        if (!machine_setting("perf_event_max_sample_rate", &sampler->max_rate) &&
            sampler->max_rate < sampler->config.frequency)
                log_warning("kernel.perf_event_max_sample_rate is %lld: below the %u Hz asked for, samples will be lost",
                            (long long)sampler->max_rate, sampler->config.frequency);
        r = attach_watchers(sampler);
        if (!r)
                r = start_sideband(sampler);
        if (r)
                return r;
        sampler->is_running = true;
        return follow_cpus(sampler);
}

void sampler_stop(Sampler *sampler) {
        for (size_t i = 0; i < sampler->n_possible; i++)
                close_cpu(&sampler->cpus[i]);
        sampler->is_running = false;
}

int sampler_set_process(Sampler *sampler, uint32_t tgid, const struct abi_process *process) {
        int r = bpf_map__update_elem(sampler->skeleton->maps.processes, &tgid, sizeof(tgid), process,
                                     sizeof(*process), BPF_ANY);

        /* Out of atomic memory is the same to the caller: there is no room for this row now. */
        if (r == -E2BIG || r == -ENOMEM)
                return SAMPLER_E_FULL;
        return r ? error_origin(r) : 0;
}

int sampler_remove_process(Sampler *sampler, uint32_t tgid) {
        int r = bpf_map__delete_elem(sampler->skeleton->maps.processes, &tgid, sizeof(tgid), 0);

        return r && r != -ENOENT ? error_origin(r) : 0;
}

int sampler_processes_fd(const Sampler *sampler) {
        return bpf_map__fd(sampler->skeleton->maps.processes);
}

int sampler_row_tables_fd(const Sampler *sampler) {
        return bpf_map__fd(sampler->skeleton->maps.row_tables);
}

int sampler_row_nodes_fd(const Sampler *sampler) {
        return bpf_map__fd(sampler->skeleton->maps.row_nodes);
}

int sampler_drain(Sampler *sampler, uint64_t *n_samplesp) {
        int r;

        sampler->n_drained = 0;
        r = drain_sideband(sampler);
        if (r >= 0)
                r = ring_buffer__consume(sampler->notices);
        if (r >= 0)
                r = drain_samples(sampler);
        *n_samplesp = sampler->n_drained;
        return MIN(r, 0);
}

static int sum_counters(Sampler *sampler, uint64_t sums[COUNTER_N_KERNEL]) {
        const size_t size = sampler->n_possible * COUNTER_N_KERNEL * sizeof(uint64_t);
        _cleanup_(freep) uint64_t *values = malloc(size);
        const uint32_t zero = 0;
        int r;

        if (!values)
                return error_origin(-ENOMEM);
        r = bpf_map__lookup_elem(sampler->skeleton->maps.counters, &zero, sizeof(zero), values, size, 0);
        if (r)
                return error_origin(r);
        memset(sums, 0, COUNTER_N_KERNEL * sizeof(*sums));
        for (size_t i = 0; i < sampler->n_possible * COUNTER_N_KERNEL; i++)
                sums[i % COUNTER_N_KERNEL] += values[i];
        return 0;
}

/* The kernel lowers the rate by itself when interrupts take too long; an administrator may, too. */
static void watch_rate(Sampler *sampler) {
        int64_t rate;

        if (machine_setting("perf_event_max_sample_rate", &rate))
                return;
        if (rate < sampler->max_rate) {
                stat_add(COUNTER_RATE_LOWERED, 1);
                log_warning("kernel.perf_event_max_sample_rate fell from %lld to %lld%s", (long long)sampler->max_rate,
                            (long long)rate, rate < sampler->config.frequency ? ": samples will be lost" : "");
        }
        sampler->max_rate = rate;
}

int sampler_read_counters(Sampler *sampler) {
        uint64_t sums[COUNTER_N_KERNEL];
        int r;

        watch_rate(sampler);
        for (size_t i = 0; i < sampler->n_possible; i++)
                stat_add(COUNTER_THROTTLED, event_read_throttles(&sampler->cpus[i].event));
        r = sum_counters(sampler, sums);
        if (r)
                return error_fold(r);
        for (int i = 0; i < COUNTER_N_KERNEL; i++) {
                stat_add((enum counter)i, sums[i] - sampler->counted[i]);
                sampler->counted[i] = sums[i];
        }
        return 0;
}

int sampler_jitter(Sampler *sampler) {
        uint64_t ticks = sampler->counted[COUNTER_TICKS];
        int r;

        if (!sampler->is_running)
                return 0;
        if (sampler->n_jitters++ % CPU_CHECK_INTERVAL == 0) {
                r = follow_cpus(sampler);
                if (r)
                        return r;
        }
        if (ticks == sampler->jittered_ticks)
                return 0;               /* nobody was sampled: a new period would cost an interrupt of each CPU for nothing */
        sampler->jittered_ticks = ticks;
        for (size_t i = 0; i < sampler->n_possible && sampler->config.jitter; i++)
                if (sampler->cpus[i].event.fd >= 0)
                        event_set_period(&sampler->cpus[i].event, draw_period(sampler, &sampler->cpus[i].draw));
        return 0;
}

uint64_t sampler_entries(Sampler *sampler) {
        uint64_t sums[COUNTER_N_KERNEL];

        return sum_counters(sampler, sums) ? 0 : sums[COUNTER_SAMPLER_ENTRIES];
}

double sampler_programmed(const Sampler *sampler) {
        double sum = 0;

        for (size_t i = 0; i < sampler->n_possible; i++)
                sum += event_programmed(&sampler->cpus[i].event);
        return sum;
}

uint32_t sampler_n_cpus(const Sampler *sampler) {
        uint32_t n = 0;

        for (size_t i = 0; i < sampler->n_possible; i++)
                n += sampler->cpus[i].event.fd >= 0;
        return n;
}

size_t sampler_map_bytes(Sampler *sampler) {
        struct bpf_map *map;
        size_t sum = 0;

        bpf_object__for_each_map(map, sampler->skeleton->obj)
                if (bpf_map__fd(map) >= 0)
                        sum += machine_memlock(bpf_map__fd(map));
        return sum;
}
