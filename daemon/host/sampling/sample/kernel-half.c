/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Computes the sizes of rings and maps, opens the skeleton, loads it, and explains in words what the kernel
 * refused.
 */

#include "host/sampling/sample/kernel-half.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "host/sampling/sample/kernel-needs.h"
#include "host/sampling/sample/kernel-types.h"
#include "host/sampling/sample/machine.h"
#include "sampler.skel.h"

enum {
        /* descriptors that the load has open at once: maps, programs, links */
        DESCRIPTORS = 64,
        MIN_RING_BYTES = 128 << 10,     /* a dozen of the longest records */
        MAX_RING_BYTES = 64 << 20,
        FAULT_BUDGET = 10,              /* samples of page faults at most, for each tick of the clock */
        ALLOC_RING_BYTES = 512 << 10,   /* allocations and frees that a process may tell of in two seconds */
        MEAN_RECORD_BYTES = 1024,       /* about 110 frames: deep for native code, usual for managed */
        /* 2,340 notices: as many as a CPU can post by fork, exec and exit in half a second */
        NOTICE_RING_BYTES_PER_CPU = 128 << 10,
        MAX_NOTICE_RING_BYTES = 1 << 20,
        MEAN_STACK_BYTES = 8 << 10,
        MIN_STACK_RING_BYTES = 256 << 10,
        MAX_STACK_RING_BYTES = 4 << 20,
        MAX_PATIENT_STACK_RING_BYTES = 16 << 20,
        PATIENT = 16,                   /* both rings are so many times larger */
        PREALLOCATED_PROCESSES = 4096,  /* processes where entries must be preallocated (below Linux 6.1) */
        PREALLOCATED_LEAVERS = 1024,    /* entries of exiting targets, of 0.1 KiB each, there */
        PREALLOCATED_NODES = 1024,      /* nodes, of 0.8 KiB each, there */
        PREALLOCATED_FORKS = 1024,      /* forked children of targets, there */
        PREALLOCATED_RINGS = 8192,      /* threads of processes with a ring and their slots, there */
        TYPES_PATH_SIZE = 32,
};

struct KernelHalf {
        struct sampler_bpf *skeleton;
        struct ring_buffer *samples, *notices, *stacks;
        char *btf_path;                 /* path from the configuration; NULL = SAMPLER_BTF_PATH */
        SamplerRecord on_sample, on_notice, on_stack;
        void *userdata;
        size_t n_cpus;                  /* CPUs that the machine may ever have */
        size_t n_online;                /* as it was opened */
};

/* ---- refusals ---- */

const char *kernel_half_error_text(int r, char *text, size_t size) {
        libbpf_strerror(r, text, size);
        return text;
}

int kernel_half_check(const char *btf_path) {
        if (access(btf_path, R_OK) < 0) {
                log_error(
                        "the kernel's type information is missing (%s: %m): it needs CONFIG_DEBUG_INFO_BTF=y",
                        btf_path);
                return SAMPLER_E_UNUSABLE;
        }
        return 0;
}

/* Every capability is there, so something else forbids it. */
static void explain_permission(const char *what, int r) {
        int64_t paranoid;

        if (machine_setting("perf_event_paranoid", &paranoid))
                paranoid = -1;
        log_error(
                "the kernel refused to %s (%s): seccomp filter, lockdown, or kernel.perf_event_paranoid = %lld?%s `spanprof "
                "doctor` tells which",
                what, strerror(-r), (long long)paranoid,
                paranoid > 2 ? " Debian's kernels since 6.12 let CAP_SYS_ADMIN alone pass 3: start it with that, which it gives "
                               "up, or sudo sysctl -w kernel.perf_event_paranoid=2."
                             : "");
}

/*
 * libbpf asks the kernel what it can, and takes an EMFILE there for a no: the load fails later, as if it were
 * malformed. So it is tried how many there are. Return: 0 = as many as a load has, -EMFILE, -ENFILE.
 */
static int missing_descriptors(void) {
        int fds[DESCRIPTORS], r = 0;
        size_t n = 0;

        while (!r && n < ARRAY_SIZE(fds)) {
                fds[n] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
                if (fds[n] < 0)
                        r = errno == EMFILE || errno == ENFILE ? -errno : 0;
                if (fds[n++] < 0)
                        break;
        }
        while (n)
                closep(&fds[--n]);
        return r;
}

/* Nothing is wrong with the kernel, and a later start may have more: that is no reason to stay down. */
static int refuse_descriptors(const char *what, int r) {
        struct rlimit limit = { 0 };

        getrlimit(RLIMIT_NOFILE, &limit);
        if (r == -EMFILE)
                log_error("out of file descriptors to %s: this process may have %llu, and some 80 and 8 for each CPU "
                          "are needed (LimitNOFILE= of the unit, `ulimit -n`)",
                          what, (unsigned long long)limit.rlim_cur);
        else
                log_error("out of file descriptors to %s: the machine has none left (`sysctl fs.file-nr`, fs.file-max)",
                          what);
        return error_origin(r);
}

/*
 * The kernel is asked now, when it has refused: a start that goes well asks it nothing. Its verifier refuses
 * by EACCES, too, which is no permission then.
 */
static bool explain_kernel(const char *what) {
        char lacked[1024];

        if (!kernel_needs_missing(lacked, sizeof(lacked)))
                return false;
        log_error("this kernel cannot %s: it lacks %s; `spanprof doctor` lists what it has", what,
                  lacked);
        return true;
}

int kernel_half_refuse(const char *what, int r) {
        char missing[64], text[128];

        if (r == -ENOMEM)
                return error_origin(r);
        if (r == -EINVAL)
                r = missing_descriptors() ?: r;
        if (r == -EMFILE || r == -ENFILE)
                return refuse_descriptors(what, r);
        machine_missing_capabilities(missing, sizeof(missing));
        if ((r == -EPERM || r == -EACCES) && *missing)
                log_error("not permitted to %s: missing %s (run as root or grant them)", what, missing);
        else if (explain_kernel(what))
                return SAMPLER_E_UNUSABLE;
        else if (r != -EPERM && r != -EACCES)
                log_error("this kernel cannot %s (%s); log-level = debug shows its reasons", what,
                          kernel_half_error_text(r, text, sizeof(text)));
        else
                explain_permission(what, r);
        return SAMPLER_E_UNUSABLE;
}

/* ---- loading ---- */

/* Messages of libbpf are for developers: each becomes a debug line. */
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

/* Size of the samples' ring: half full after a quarter of a second without a drain, or after four. */
static uint32_t sample_ring_bytes(const SamplerConfig *config, size_t n_cpus) {
        const uint64_t n_kinds = config->page_faults ? 3 : 1;   /* ticks, minor and major faults */
        uint64_t bytes = 2 * n_kinds * config->frequency * n_cpus * MEAN_RECORD_BYTES / 4;

        bytes += config->allocations ? ALLOC_RING_BYTES : 0;
        if (config->is_patient)
                bytes *= PATIENT;
        if (config->ring_bytes)
                return config->ring_bytes;
        return (uint32_t)power_of_two(MIN(MAX(bytes, (uint64_t)MIN_RING_BYTES), (uint64_t)MAX_RING_BYTES));
}

/* Size of the stacks' ring: as many as a tenth of a second has, on all CPUs, or sixteen times that. */
static uint32_t stack_ring_bytes(const SamplerConfig *config, size_t n_cpus) {
        uint64_t bytes = (uint64_t)config->frequency * n_cpus * MEAN_STACK_BYTES / 10;

        if (config->is_patient)
                bytes *= PATIENT;
        if (!config->stack_bytes)
                return (uint32_t)sysconf(_SC_PAGESIZE);
        return (uint32_t)power_of_two(
                MIN(MAX(bytes, (uint64_t)MIN_STACK_RING_BYTES),
                    (uint64_t)(config->is_patient ? MAX_PATIENT_STACK_RING_BYTES : MAX_STACK_RING_BYTES)));
}

static uint32_t notice_ring_bytes(size_t n_cpus) {
        return (uint32_t)power_of_two(MIN(n_cpus * NOTICE_RING_BYTES_PER_CPU, (size_t)MAX_NOTICE_RING_BYTES));
}

void kernel_half_preallocate(const KernelHalfMap *maps) {
        if (machine_version() >= MACHINE_VERSION(6, 1))
                return;
        for (; maps->map; maps++) {
                bpf_map__set_map_flags(maps->map, 0);
                if (maps->max_entries)
                        bpf_map__set_max_entries(maps->map, maps->max_entries);
        }
}

static void configure(KernelHalf *half, const SamplerConfig *config) {
        struct sampler_bpf *skeleton = half->skeleton;
        const KernelHalfMap maps[] = { { skeleton->maps.processes, PREALLOCATED_PROCESSES },
                                       { skeleton->maps.leavers, PREALLOCATED_LEAVERS },
                                       { skeleton->maps.row_nodes, PREALLOCATED_NODES },
                                       { skeleton->maps.forks, PREALLOCATED_FORKS },
                                       { skeleton->maps.known_names, 0 },
                                       { skeleton->maps.settled_names, 0 },
                                       { skeleton->maps.hotspot_processes, 0 },
                                       { skeleton->maps.go_processes, 0 },
                                       { skeleton->maps.python_processes, 0 },
                                       { skeleton->maps.v8_processes, 0 },
                                       { skeleton->maps.php_processes, 0 },
                                       { skeleton->maps.beam_processes, 0 },
                                       { skeleton->maps.ruby_processes, 0 },
                                       { skeleton->maps.ring_threads, PREALLOCATED_RINGS },
                                       { skeleton->maps.ring_slots, PREALLOCATED_RINGS },
                                       { skeleton->maps.ring_holders, PREALLOCATED_PROCESSES },
                                       { NULL, 0 } };
        const uint32_t n_ticks = MAX(config->ticks_per_sample, 1u);
        uint32_t namespace = 0;

        if (machine_namespace(&namespace))
                log_warning("cannot read our PID namespace (/proc/self/ns/pid): taken for the first one");
        skeleton->rodata->setting_depth = config->depth;
        skeleton->rodata->setting_kernel_stacks = config->kernel_stacks;
        skeleton->rodata->setting_default_state = config->default_state;
        skeleton->rodata->setting_faults = config->page_faults;
        skeleton->rodata->setting_fault_samples = (uint64_t)FAULT_BUDGET * config->frequency / n_ticks;
        if (config->page_faults)
                machine_huge_pages((uint64_t *)&skeleton->rodata->setting_huge_bytes,
                                   (bool *)&skeleton->rodata->setting_huge_always);
        skeleton->rodata->setting_names = config->names;
        skeleton->rodata->setting_watch_targets = config->watch_targets;
        skeleton->rodata->setting_watch_non_targets = config->watch_non_targets;
        skeleton->rodata->setting_recorder = config->recorder;
        skeleton->data_shared->ticks_per_sample = n_ticks;
        skeleton->rodata->setting_run_ticks = config->waits;
        skeleton->rodata->setting_allocated = config->allocated;
        skeleton->rodata->setting_stack_bytes = config->stack_bytes;
        skeleton->rodata->setting_names_choose = config->names_choose;
        skeleton->rodata->setting_starts = config->starts;
        skeleton->rodata->setting_start_wait_ns = config->start_wait_ns;
        skeleton->rodata->setting_self_tgid = config->self_tgid;
        for (size_t i = 0; config->helper_comms && config->helper_comms[i] && i < ABI_HELPER_NAMES; i++) {
                char *name = (char *)skeleton->rodata->setting_helper_comms[i];

                memcpy(name, config->helper_comms[i], strnlen(config->helper_comms[i], ABI_COMM_SIZE - 1));
        }
        skeleton->rodata->setting_namespace = namespace;
        bpf_map__set_max_entries(skeleton->maps.samples, sample_ring_bytes(config, half->n_online));
        bpf_map__set_max_entries(skeleton->maps.stacks, stack_ring_bytes(config, half->n_online));
        bpf_map__set_max_entries(skeleton->maps.notices, notice_ring_bytes(half->n_online));
        if (!config->watch_targets && !config->watch_non_targets)
                bpf_map__set_max_entries(skeleton->maps.non_targets, 1);
        if (config->names == ABI_NAMES_NONE)
                bpf_map__set_max_entries(skeleton->maps.rejected_names, 1);
        kernel_half_preallocate(maps);
        skeleton->rodata->setting_leavers = bpf_map__max_entries(skeleton->maps.leavers);
        skeleton->rodata->setting_ring_entries = bpf_map__max_entries(skeleton->maps.ring_slots);
}

/*
 * Finds the depth of our PID namespace. It cannot be seen from inside, so the kernel half looks, in our own
 * context.
 */
static int identify(KernelHalf *half) {
        LIBBPF_OPTS(bpf_test_run_opts, options);
        int r;

        if (!half->skeleton->rodata->setting_namespace)
                return 0;
        r = bpf_prog_test_run_opts(bpf_program__fd(half->skeleton->progs.identify), &options);
        return r ? kernel_half_refuse("find our PID namespace", r) : 0;
}

/* Types that the kernel half declares, and the enum that it asks for helpers. */
static const char *const kernel_types[] = {
        "atomic_t",      "bpf_func_id", "cred",         "kuid_t",        "mm_struct",   "ns_common",     "pid",
        "pid_namespace", "pt_regs",     "sched_entity", "signal_struct", "task_struct", "thread_struct", "upid",
        /* obi.bpf.h's */
        "atomic64_t", "bpf_map",
        /* start.bpf.h's */
        "nsproxy", "mnt_namespace",
        /* return probes, tables.bpf.h's */
        "return_instance", "uprobe_task", "uprobes_state", "xol_area",
        /* wait-file.bpf.h's */
        "dentry", "fdtable", "file", "files_struct", "inode", "path", "qstr", "sock", "sock_common", "socket",
        "super_block",
        /* crash.bpf.c's */
        "k_sigaction", "mm_rss_stat", "percpu_counter", "sigaction", "sigpending", "sigset_t",
        /* faults.bpf.h's, and some of those */
        "vm_area_struct",
};

/* If it fails to make the file, the loader gets all types. */
const char *kernel_half_open_types(const char *custom, int *fdp, char *path, size_t path_size) {
        const char *btf = custom ?: SAMPLER_BTF_PATH;

        if (kernel_types_open(btf, kernel_types, ARRAY_SIZE(kernel_types), fdp)) {
                log_debug("%s is read as a whole", btf);
                return custom;
        }
        snprintf(path, path_size, "/proc/self/fd/%d", *fdp);
        return path;
}

/* Opens the object. What the kernel's types are is read for it, and kept in *typesp while it is loaded. */
static struct sampler_bpf *open_skeleton(const char *btf_path, int *typesp, char path[TYPES_PATH_SIZE]) {
        LIBBPF_OPTS(bpf_object_open_opts, options);

        options.btf_custom_path = kernel_half_open_types(btf_path, typesp, path, TYPES_PATH_SIZE);
        return sampler_bpf__open_opts(&options);
}

/* Programs of page faults go on in the sampler (bpf/walk/faults.bpf.h). */
static int link_faults(struct sampler_bpf *skeleton) {
        const uint32_t slot = 1;
        const int fd = bpf_program__fd(skeleton->progs.sample);

        return bpf_map__update_elem(skeleton->maps.runtime_sampler, &slot, sizeof(slot), &fd, sizeof(fd),
                                    BPF_ANY);
}

static int load(KernelHalf *half, const SamplerConfig *config) {
        _cleanup_(closep) int types = -1;
        char path[TYPES_PATH_SIZE];
        int r;

        if (!machine_has_own_time(NULL)) {
                log_error("this process is in a time namespace with an offset (/proc/self/timens_offsets): its clocks are "
                          "not those of samples and processes; start it outside (`sudo nsenter --target 1 --time` in front)");
                return SAMPLER_E_UNUSABLE;
        }
        half->skeleton = open_skeleton(config->btf_path, &types, path);
        if (!half->skeleton)
                return kernel_half_refuse("open the kernel half", -errno);
        configure(half, config);
        bpf_program__set_autoload(half->skeleton->progs.sample_runtimes, false);
        bpf_program__set_autoload(half->skeleton->progs.page_fault_minor, config->page_faults);
        bpf_program__set_autoload(half->skeleton->progs.page_fault_major, config->page_faults);
        r = sampler_bpf__load(half->skeleton);
        if (!r && config->page_faults)
                r = link_faults(half->skeleton);
        if (r)
                return kernel_half_refuse("load the kernel half (BPF)", r);
        return identify(half);
}

/*
 * A second copy of the object: its maps are those of the first one, its only program is sample_runtimes. The
 * array holds that program once the copy is gone.
 */
static int load_runtimes(const KernelHalf *half, struct sampler_bpf *copy) {
        const struct sampler_bpf *first = half->skeleton;
        const uint32_t zero = 0;
        struct bpf_program *program;
        struct bpf_map *map;
        int r = 0, fd;

        bpf_object__for_each_program(program, copy->obj)
                bpf_program__set_autoload(program, program == copy->progs.sample_runtimes);
        bpf_object__for_each_map(map, copy->obj) {
                const struct bpf_map *shared = bpf_object__find_map_by_name(first->obj, bpf_map__name(map));

                r = shared ? bpf_map__reuse_fd(map, bpf_map__fd(shared)) : -ENOENT;
                if (r)
                        return r;
        }
        r = sampler_bpf__load(copy);
        if (r)
                return r;
        fd = bpf_program__fd(copy->progs.sample_runtimes);
        return bpf_map__update_elem(first->maps.runtime_sampler, &zero, sizeof(zero), &fd, sizeof(fd),
                                    BPF_ANY);
}

int kernel_half_load_runtimes(KernelHalf *half) {
        _cleanup_(closep) int types = -1;
        char path[TYPES_PATH_SIZE];
        struct sampler_bpf *copy = open_skeleton(half->btf_path, &types, path);
        int r = copy ? load_runtimes(half, copy) : -errno;

        if (copy)
                sampler_bpf__destroy(copy);
        if (!r)
                __atomic_store_n(&half->skeleton->data_shared->runtimes_on, true, __ATOMIC_RELEASE);
        return r;
}

static int read_sample(void *context, void *data, size_t size) {
        KernelHalf *half = context;

        return half->on_sample(data, size, half->userdata);
}

static int read_notice(void *context, void *data, size_t size) {
        KernelHalf *half = context;

        return half->on_notice(data, size, half->userdata);
}

static int read_stack(void *context, void *data, size_t size) {
        KernelHalf *half = context;

        return half->on_stack ? half->on_stack(data, size, half->userdata) : 0;
}

static int open_rings(KernelHalf *half) {
        struct sampler_bpf *skeleton = half->skeleton;

        half->samples = ring_buffer__new(bpf_map__fd(skeleton->maps.samples), read_sample, half, NULL);
        if (!half->samples)
                return error_origin(-errno);
        half->notices = ring_buffer__new(bpf_map__fd(skeleton->maps.notices), read_notice, half, NULL);
        if (!half->notices)
                return error_origin(-errno);
        half->stacks = ring_buffer__new(bpf_map__fd(skeleton->maps.stacks), read_stack, half, NULL);
        return half->stacks ? 0 : error_origin(-errno);
}

int kernel_half_new(KernelHalf **halfp, const SamplerConfig *config, SamplerRecord on_sample,
                    SamplerRecord on_notice, void *userdata) {
        _cleanup_(kernel_half_freep) KernelHalf *half = calloc(1, sizeof(*half));
        int r;

        if (!half)
                return error_origin(-ENOMEM);
        half->on_sample = on_sample;
        half->on_notice = on_notice;
        half->userdata = userdata;
        if (config->btf_path && !(half->btf_path = strdup(config->btf_path)))
                return error_origin(-ENOMEM);
        libbpf_set_print(print_debug);
        r = libbpf_num_possible_cpus();
        if (r < 0)
                return error_origin(r);
        half->n_cpus = (size_t)r;
        half->n_online = (size_t)MAX(MIN(sysconf(_SC_NPROCESSORS_ONLN), (long)r), 1);
        r = load(half, config);
        if (r)
                return r;
        r = open_rings(half);
        if (r)
                return error_fold(r);
        *halfp = take(half);
        return 0;
}

KernelHalf *kernel_half_free(KernelHalf *half) {
        if (!half)
                return NULL;
        ring_buffer__free(half->samples);
        ring_buffer__free(half->notices);
        ring_buffer__free(half->stacks);
        sampler_bpf__destroy(half->skeleton);
        free(half->btf_path);
        free(half);
        return NULL;
}

void kernel_half_take_losers(KernelHalf *half, SamplerLosers *losers) {
        int fd = bpf_map__fd(half->skeleton->maps.lost_ticks);
        struct abi_lost_ticks lost;
        uint32_t n_max = bpf_map__max_entries(half->skeleton->maps.lost_ticks), pid;

        *losers = (SamplerLosers){ 0 };
        for (uint32_t i = 0; i < n_max && !bpf_map_get_next_key(fd, NULL, &pid); i++) {
                if (bpf_map_lookup_elem(fd, &pid, &lost) || bpf_map_delete_elem(fd, &pid))
                        break;
                losers->n_processes++;
                if (lost.n <= losers->most.n)
                        continue;
                losers->most = lost;
                losers->most.comm[sizeof(lost.comm) - 1] = 0;
                losers->most_pid = pid;
        }
}

int kernel_half_map_fd(const KernelHalf *half, const char *name) {
        const struct bpf_map *map = bpf_object__find_map_by_name(half->skeleton->obj, name);

        return map ? bpf_map__fd(map) : -1;
}

static bool is_scratch(const struct bpf_map *map) {
        return !strcmp(bpf_map__name(map), "scratches");
}

/* The map that takes @map's place; −1 = none. */
static int find_shared(const KernelHalf *half, const struct bpf_map *map, const struct bpf_object *first,
                       bool (*is_own)(const struct bpf_map *map)) {
        const char *name = bpf_map__name(map);
        const struct bpf_map *known = first ? bpf_object__find_map_by_name(first, name) : NULL;

        if (known)
                return bpf_map__fd(known);
        return is_own(map) ? -1 : kernel_half_map_fd(half, name);
}

int kernel_half_join(const KernelHalf *half, struct bpf_object *object, const struct bpf_object *first,
                     bool (*is_own)(const struct bpf_map *map)) {
        struct bpf_program *program;
        struct bpf_map *map;

        bpf_object__for_each_program(program, object)
                if (bpf_object__find_program_by_name(half->skeleton->obj, bpf_program__name(program)))
                        bpf_program__set_autoload(program, false);
        bpf_object__for_each_map(map, object) {
                int fd = find_shared(half, map, first, is_own ?: is_scratch);
                int r = fd < 0 ? 0 : bpf_map__reuse_fd(map, fd);

                if (r)
                        return kernel_half_refuse("share a table between two BPF objects", r);
        }
        return 0;
}

uint32_t kernel_half_namespace(const KernelHalf *half) {
        return half->skeleton->rodata->setting_namespace;
}

size_t kernel_half_n_cpus(const KernelHalf *half) {
        return half->n_cpus;
}

size_t kernel_half_n_online(const KernelHalf *half) {
        return half->n_online;
}

int kernel_half_watch(KernelHalf *half) {
        struct sampler_bpf *skeleton = half->skeleton;

        skeleton->links.watch_exec = bpf_program__attach(skeleton->progs.watch_exec);
        if (!skeleton->links.watch_exec)
                return kernel_half_refuse("watch exec", -errno);
        skeleton->links.watch_exit = bpf_program__attach(skeleton->progs.watch_exit);
        if (!skeleton->links.watch_exit)
                return kernel_half_refuse("watch exit", -errno);
        skeleton->links.watch_thread = bpf_program__attach(skeleton->progs.watch_thread);
        if (!skeleton->links.watch_thread)
                return kernel_half_refuse("watch threads", -errno);
        skeleton->links.watch_fork = bpf_program__attach(skeleton->progs.watch_fork);
        if (!skeleton->links.watch_fork)
                return kernel_half_refuse("watch forks", -errno);
        skeleton->links.watch_free = bpf_program__attach(skeleton->progs.watch_free);
        return skeleton->links.watch_free ? 0 : kernel_half_refuse("watch what exit leaves", -errno);
}

static int attach(const struct bpf_program *program, int event_fd, KernelHalfLink **linkp) {
        struct bpf_link *link = bpf_program__attach_perf_event(program, event_fd);

        if (!link)
                return -errno;
        *linkp = link;
        return 0;
}

int kernel_half_attach(KernelHalf *half, int event_fd, KernelHalfLink **linkp) {
        return attach(half->skeleton->progs.sample, event_fd, linkp);
}

int kernel_half_attach_faults(KernelHalf *half, int event_fd, bool is_major, KernelHalfLink **linkp) {
        return attach(is_major ? half->skeleton->progs.page_fault_major
                               : half->skeleton->progs.page_fault_minor,
                      event_fd, linkp);
}

KernelHalfLink *kernel_half_detach(KernelHalfLink *link) {
        bpf_link__destroy(link);
        return NULL;
}

int kernel_half_drain_samples(KernelHalf *half) {
        return ring_buffer__consume(half->samples);
}

void kernel_half_set_stacks(KernelHalf *half, SamplerRecord on_stack) {
        half->on_stack = on_stack;
}

int kernel_half_drain_stacks(KernelHalf *half) {
        return ring_buffer__consume(half->stacks);
}

int kernel_half_drain_notices(KernelHalf *half) {
        return ring_buffer__consume(half->notices);
}

/* After a change: what CPUs have read of rows before is void. */
static void rows_changed(KernelHalf *half) {
        __atomic_fetch_add(&half->skeleton->data_shared->rows_version, 1, __ATOMIC_RELEASE);
}

int kernel_half_set_process(KernelHalf *half, uint32_t tgid, const struct abi_process *process) {
        int r = bpf_map__update_elem(half->skeleton->maps.processes, &tgid, sizeof(tgid), process,
                                     sizeof(*process), BPF_ANY);

        rows_changed(half);
        /* Lack of atomic memory means the same to the caller: there is no room for this row now. */
        if (r == -E2BIG || r == -ENOMEM)
                return SAMPLER_E_FULL;
        return r ? error_origin(r) : 0;
}

/* *saidp: what the kernel half returns. */
static int adopt(KernelHalf *half, const struct abi_adoption *adoption, uint32_t *saidp) {
        LIBBPF_OPTS(bpf_test_run_opts, options, .ctx_in = adoption, .ctx_size_in = sizeof(*adoption));
        int r = bpf_prog_test_run_opts(bpf_program__fd(half->skeleton->progs.adopt), &options);

        *saidp = options.retval;
        return r ? error_origin(r) : 0;
}

int kernel_half_adopt(KernelHalf *half, const struct abi_adoption *adoption) {
        uint32_t said;

        return adopt(half, adoption, &said);
}

/*
 * Gives back what the process holds, and forgets slots whose counts the kernel half keeps: also those of a
 * ring that is gone by now, or that had another size.
 */
static void forget_slots(KernelHalf *half, uint32_t tgid) {
        const struct abi_adoption ends = { .tgid = tgid, .slot = ABI_ADOPTION_ENDS };
        const uint32_t size = ABI_KEPT_SLOTS / ABI_KEPT_BLOCKS;
        uint32_t key[2] = { tgid }, blocks;

        if (adopt(half, &ends, &blocks))
                return;
        for (key[1] = 0; blocks && key[1] < ABI_KEPT_SLOTS; key[1]++)
                if (blocks >> key[1] / size & 1)
                        bpf_map__delete_elem(half->skeleton->maps.ring_slots, key, sizeof(key), 0);
}

int kernel_half_remove_process(KernelHalf *half, uint32_t tgid) {
        int r = bpf_map__delete_elem(half->skeleton->maps.processes, &tgid, sizeof(tgid), 0);

        rows_changed(half);
        forget_slots(half, tgid);       /* a thread that is being born takes its own back: it has no row */
        return r && r != -ENOENT ? error_origin(r) : 0;
}

int kernel_half_reject_name(KernelHalf *half, const struct abi_name *name) {
        const uint8_t value = 0;
        int r = bpf_map__update_elem(half->skeleton->maps.rejected_names, name, sizeof(*name), &value,
                                     sizeof(value), BPF_ANY);

        return r && r != -ENOMEM ? error_origin(r) : 0;
}

int kernel_half_processes_fd(const KernelHalf *half) {
        return bpf_map__fd(half->skeleton->maps.processes);
}

int kernel_half_row_tables_fd(const KernelHalf *half) {
        return bpf_map__fd(half->skeleton->maps.row_tables);
}

uint64_t *kernel_half_rows_version(const KernelHalf *half) {
        return (uint64_t *)&half->skeleton->data_shared->rows_version;
}

int kernel_half_row_nodes_fd(const KernelHalf *half) {
        return bpf_map__fd(half->skeleton->maps.row_nodes);
}

int kernel_half_runtime_fd(const KernelHalf *half, uint32_t bit) {
        switch (bit) {
        case RUNTIME_HAS_HOTSPOT:
                return bpf_map__fd(half->skeleton->maps.hotspot_processes);
        case RUNTIME_HAS_GO:
                return bpf_map__fd(half->skeleton->maps.go_processes);
        case RUNTIME_HAS_PYTHON:
                return bpf_map__fd(half->skeleton->maps.python_processes);
        case RUNTIME_HAS_V8:
                return bpf_map__fd(half->skeleton->maps.v8_processes);
        case RUNTIME_HAS_PHP:
                return bpf_map__fd(half->skeleton->maps.php_processes);
        case RUNTIME_HAS_BEAM:
                return bpf_map__fd(half->skeleton->maps.beam_processes);
        case RUNTIME_HAS_RUBY:
                return bpf_map__fd(half->skeleton->maps.ruby_processes);
        default:
                return -1;
        }
}

void kernel_half_set_ticks(KernelHalf *half, uint32_t ticks_per_sample) {
        __atomic_store_n(&half->skeleton->data_shared->ticks_per_sample, ticks_per_sample, __ATOMIC_RELAXED);
}

void kernel_half_add_runtime(KernelHalf *half, uint32_t bit) {
        __atomic_or_fetch(&half->skeleton->data_shared->runtime_kinds, bit, __ATOMIC_RELAXED);
}

int kernel_half_read_counters(const KernelHalf *half, uint64_t sums[COUNTER_N_KERNEL], uint64_t *entries) {
        /* behind the counters of a CPU comes what is the sampler's own */
        const size_t words = bpf_map__value_size(half->skeleton->maps.counters) / sizeof(uint64_t),
                     size = half->n_cpus * words * sizeof(uint64_t);
        _cleanup_(freep) uint64_t *values = malloc(size);
        const uint32_t zero = 0;
        int r;

        if (!values)
                return error_origin(-ENOMEM);
        r = bpf_map__lookup_elem(half->skeleton->maps.counters, &zero, sizeof(zero), values, size, 0);
        if (r)
                return error_origin(r);
        memset(sums, 0, COUNTER_N_KERNEL * sizeof(*sums));
        for (size_t cpu = 0; cpu < half->n_cpus; cpu++)
                for (size_t i = 0; i < COUNTER_N_KERNEL; i++)
                        sums[i] += values[cpu * words + i];
        for (size_t cpu = 0; entries && cpu < half->n_cpus; cpu++)
                entries[cpu] = values[cpu * words + COUNTER_SAMPLER_ENTRIES];
        return 0;
}

void kernel_half_sleep(KernelHalf *half, bool sleeps) {
        /* The store must come before the look at the rings that follows. */
        __atomic_store_n(&half->skeleton->data_shared->daemon_sleeps, sleeps, __ATOMIC_SEQ_CST);
}

void kernel_half_listen(KernelHalf *half, bool listens) {
        __atomic_store_n(&half->skeleton->data_shared->daemon_listens, listens, __ATOMIC_RELAXED);
}

void kernel_half_hear(KernelHalf *half, bool hears) {
        __atomic_store_n(&half->skeleton->data_shared->daemon_hears, hears, __ATOMIC_RELAXED);
}

bool kernel_half_hears(const KernelHalf *half) {
        return __atomic_load_n(&half->skeleton->data_shared->daemon_hears, __ATOMIC_RELAXED);
}

void kernel_half_read_obi(KernelHalf *half, bool reads) {
        __atomic_store_n(&half->skeleton->data_shared->obi_on, reads, __ATOMIC_RELEASE);
}

void kernel_half_mark_obi(KernelHalf *half, const uint64_t *keys, size_t n) {
        memset((void *)half->skeleton->data_shared->obi_marks, 0, ABI_OBI_MARKS);
        for (size_t i = 0; i < n; i++)
                half->skeleton->data_shared->obi_marks[abi_obi_mark(keys[i])] = 1;
}

bool kernel_half_reads_obi(const KernelHalf *half) {
        return __atomic_load_n(&half->skeleton->data_shared->obi_on, __ATOMIC_RELAXED);
}

bool kernel_half_obi_is_held(const KernelHalf *half) {
        LIBBPF_OPTS(bpf_test_run_opts, options);

        return !bpf_prog_test_run_opts(bpf_program__fd(half->skeleton->progs.obi_look), &options) &&
                options.retval;
}

/* Without memory for it in the kernel, programs of that name are found by the daemon's own clock. */
void kernel_half_change_names(KernelHalf *half, const ProgramNamesChange *change) {
        const struct bpf_map *names = half->skeleton->maps.known_names;
        const uint32_t one = 1;

        if (*change->removed.comm)
                bpf_map__delete_elem(names, change->removed.comm, ABI_COMM_SIZE, 0);
        bpf_map__update_elem(names, change->added.comm, ABI_COMM_SIZE, &one, sizeof(one), BPF_ANY);
}

/* Without memory for it in the kernel, the next program of that name calls. */
void kernel_half_settle_name(KernelHalf *half, const struct abi_settled_name *name, bool is_settled) {
        const struct bpf_map *names = half->skeleton->maps.settled_names;
        const uint32_t one = 1;

        if (is_settled)
                bpf_map__update_elem(names, name, sizeof(*name), &one, sizeof(one), BPF_ANY);
        else
                bpf_map__delete_elem(names, name, sizeof(*name), 0);
}

int kernel_half_samples_fd(const KernelHalf *half) {
        return bpf_map__fd(half->skeleton->maps.samples);
}

size_t kernel_half_ring_bytes(const KernelHalf *half) {
        return bpf_map__max_entries(half->skeleton->maps.samples);
}

int kernel_half_notices_fd(const KernelHalf *half) {
        return bpf_map__fd(half->skeleton->maps.notices);
}

size_t kernel_half_map_bytes(const KernelHalf *half) {
        struct bpf_map *map;
        size_t sum = 0;

        bpf_object__for_each_map(map, half->skeleton->obj)
                if (bpf_map__fd(map) >= 0)
                        sum += machine_memlock(bpf_map__fd(map));
        return sum;
}
