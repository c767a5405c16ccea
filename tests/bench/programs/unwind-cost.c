/* SPDX-License-Identifier: Apache-2.0 */

/*
 * unwind-cost [-f HZ] [-s SECONDS] [-n PROCESSES] [-w SETTLE_MS] [-d DEPTH] COMMAND [ARG…]: what walks by
 * unwind rows cost on a program as it is.
 *
 * Starts it, loads the rows of all that it has mapped as the daemon does, and samples
 * its first thread. Prints, as columns of a table: samples, frames (median), ns a
 * sample in BPF by the kernel's own statistics, share of complete stacks; time from
 * the first look at the mappings until the last table is in force; memory of the BPF
 * maps without the rings of samples and notices, and of those that rows alone need; why the other stacks
 * ended. Before it, what loading the sampler took and how many instructions the verifier followed. With -n as
 * many processes run; all have their rows, the first is sampled. SECONDS and SETTLE_MS are of the command's
 * own CPU time, so that the same part of its work is sampled however busy the machine is.
 *
 * With -p it samples a process that runs already. Several builds can do so at the same time, at rates that
 * differ by some Hz: what the process does and who else works is then the same for all (cold.py pairs).
 *
 * Built with PARTS as sample-parts it has a sampler with clocks in it, and prints a table of the parts of a
 * sample (parts.h) instead.
 */

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "border/abi.h"
#include "core/base/util/clock.h"
#include "host/sampling/unwind/tables/tables.h"
#ifdef PARTS
#include "parts.h"
#include "parts.skel.h"
#else
#include "sampler.skel.h"
#endif

enum {
        RING_BYTES = 8 << 20,
        DRAIN_MS = 20,
        MAX_PROCESSES = 1000,
        MAX_SAMPLES = 1 << 20,
        OTHERS_SETTLE_MS = 20,
        MAX_IDLE = 250,                 /* looks without any progress: it sleeps */
        STEP_BUDGET = 256 << 10,        /* as the daemon */
};

typedef struct Options {
        unsigned hz, seconds, n, settle_ms, depth;
        pid_t pid;                      /* of a process that runs already; 0 = the command is started */
} Options;

static struct sampler_bpf *sampler;
static struct ring_buffer *ring;
static Tables *tables;
static ObjectCache *objects;
static uint32_t depths[MAX_SAMPLES];
static uint32_t n_samples, n_user, ends[ABI_STACK_END_N];

static const char *const end_names[ABI_STACK_END_N] = {
        [ABI_STACK_NO_MAPPING] = "no_mapping",
        [ABI_STACK_NO_ROWS] = "no_rows",
        [ABI_STACK_FAULT] = "fault",
        [ABI_STACK_BAD_CFA] = "bad_cfa",
        [ABI_STACK_UNSUPPORTED] = "unsupported",
        [ABI_STACK_DEPTH] = "depth",
        [ABI_STACK_FP_END] = "fp_end",
        [ABI_STACK_STALE] = "stale",
        [ABI_STACK_INTERNAL] = "internal",
        [ABI_STACK_PENDING] = "pending",
        [ABI_STACK_LONG] = "long",
        [ABI_STACK_MALFORMED] = "malformed",
        [ABI_STACK_RUNTIME] = "runtime",
        [ABI_STACK_UNPROVED] = "unproved",
};

static void die(const char *what) {
        fprintf(stderr, "unwind-cost: %s: %m\n", what);
        exit(1);
}

static int on_record(void *context, void *data, size_t size) {
        const struct abi_sample *sample = data;

        if (sample->stack_end == ABI_STACK_NO_USER || n_samples == MAX_SAMPLES)
                return 0;
        n_user++;
        ends[MIN(sample->stack_end, (unsigned)ABI_STACK_INTERNAL)]++;
        depths[n_samples++] = sample->n_user;
        return 0;
}

static void load(unsigned depth) {
        struct bpf_prog_info info = { 0 }, runtimes = { 0 };
        uint32_t size = sizeof(info);
        uint64_t begin = clock_monotonic_ns();
        TablesConfig config = { 0 };

        sampler = sampler_bpf__open();
        if (!sampler)
                die("open");
        bpf_map__set_max_entries(sampler->maps.samples, RING_BYTES);
        sampler->rodata->setting_depth = depth;
        sampler->rodata->setting_watch_targets = true;
        sampler->rodata->setting_watch_non_targets = true;
        if (sampler_bpf__load(sampler))
                die("load");
        if (bpf_obj_get_info_by_fd(bpf_program__fd(sampler->progs.sample), &info, &size) ||
            bpf_obj_get_info_by_fd(bpf_program__fd(sampler->progs.sample_runtimes), &runtimes, &size))
                die("info");
        printf("all programs loaded in %.1f ms; the sampler has %u verified instructions, with runtimes %u\n",
               (double)(clock_monotonic_ns() - begin) / 1e6, info.verified_insns, runtimes.verified_insns);
        ring = ring_buffer__new(bpf_map__fd(sampler->maps.samples), on_record, NULL, NULL);
        config.array_fd = bpf_map__fd(sampler->maps.row_tables);
        config.nodes_fd = bpf_map__fd(sampler->maps.row_nodes);
        config.versionp = (uint64_t *)&sampler->data_shared->rows_version;
        if (!ring || object_cache_new(&objects, 1024) ||
            tables_new(&tables, &config))
                die("tables");
}

static pid_t start(char **argv) {
        pid_t pid = fork();

        if (pid < 0)
                die("fork");
        if (pid == 0) {
                int null = open("/dev/null", O_RDWR);

                prctl(PR_SET_PDEATHSIG, SIGKILL);
                dup2(null, STDIN_FILENO);
                dup2(null, STDOUT_FILENO);
                dup2(null, STDERR_FILENO);
                execvp(argv[0], argv);
                _exit(127);
        }
        return pid;
}

/* The CPU time that its first process has used: what it works on then does not depend on who else works. */
static uint64_t cpu_ns(pid_t pid) {
        struct timespec time = { 0 };
        clockid_t clock;

        if (clock_getcpuclockid(pid, &clock) == 0)
                clock_gettime(clock, &time);
        return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* Return: false if it has slept or ended instead. */
static bool await_cpu(pid_t pid, uint64_t until_ns) {
        uint64_t before = 0, now, idle = 0;

        while ((now = cpu_ns(pid)) < until_ns && idle < MAX_IDLE) {
                idle = now == before ? idle + 1 : 0;
                before = now;
                usleep(DRAIN_MS * 1000);
                ring_buffer__consume(ring);
        }
        return now >= until_ns;
}

/* Until every table is in force. */
static void load_rows(pid_t pid) {
        _cleanup_(process_freep) Process *process = NULL;

        if (process_new(&process, pid) || process_read_mappings(process, objects))
                die("rows: has the command ended?");
        process->generation = 1;
        if (tables_process(tables, process))
                die("rows");
        while (!tables_is_ready(tables, (uint32_t)pid)) {
                struct pollfd fd = { .fd = tables_fd(tables), .events = POLLIN };

                if (tables_step(tables, STEP_BUDGET) == 0 && !tables_is_ready(tables, (uint32_t)pid))
                        poll(&fd, 1, 100);
        }
}

static void make_target(pid_t pid) {
        const struct abi_process row = { .generation = 1, .state = ABI_STATE_TARGET };
        const uint32_t tgid = (uint32_t)pid;

        if (bpf_map__update_elem(sampler->maps.processes, &tgid, sizeof(tgid), &row, sizeof(row), BPF_ANY))
                die("row");
}

typedef struct MapBytes {
        uint64_t all, rows;             /* without rings; those of rows: tables, nodes, caches */
} MapBytes;

/* Programs and events have information of other kinds. */
static bool is_map(const char *name) {
        char path[64], target[64] = "";

        snprintf(path, sizeof(path), "/proc/self/fd/%.32s", name);
        return readlink(path, target, sizeof(target) - 1) > 0 && strstr(target, "bpf-map");
}

/* What the kernel says of one of our descriptors, if it is a map and no ring. */
static void add_map(MapBytes *bytes, const char *name) {
        struct bpf_map_info info = { 0 };
        unsigned long long memlock = 0;
        char path[64], line[128];
        uint32_t size = sizeof(info);
        FILE *file;

        if (bpf_obj_get_info_by_fd(atoi(name), &info, &size) || info.type == BPF_MAP_TYPE_RINGBUF)
                return;
        snprintf(path, sizeof(path), "/proc/self/fdinfo/%.32s", name);
        file = fopen(path, "re");
        if (!file)
                return;
        while (fgets(line, sizeof(line), file))
                sscanf(line, "memlock: %llu", &memlock);
        fclose(file);
        bytes->all += memlock;
        if (strncmp(info.name, "row_", 4) == 0)
                bytes->rows += memlock;
}

static MapBytes map_bytes(void) {
        DIR *directory = opendir("/proc/self/fdinfo");
        struct dirent *entry;
        MapBytes bytes = { 0 };

        while (directory && (entry = readdir(directory)))
                if (is_map(entry->d_name))
                        add_map(&bytes, entry->d_name);
        closedir(directory);
        return bytes;
}

static void read_statistics(uint64_t *nsp, uint64_t *np) {
        struct bpf_prog_info info = { 0 };
        uint32_t size = sizeof(info);

        if (bpf_obj_get_info_by_fd(bpf_program__fd(sampler->progs.sample), &info, &size))
                die("statistics");
        *nsp = info.run_time_ns;
        *np = info.run_cnt;
}

/* Return: ns a run. */
static double measure(pid_t pid, const Options *options) {
        struct perf_event_attr attr = {
                .type = PERF_TYPE_SOFTWARE,
                .size = sizeof(attr),
                .config = PERF_COUNT_SW_CPU_CLOCK,
                .sample_period = 1000000000 / options->hz,
                .disabled = 1,
        };
        int fd = (int)syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
        uint64_t ns[2], n[2];
        struct bpf_link *link;

        if (fd < 0)
                die("perf_event_open");
        read_statistics(&ns[0], &n[0]);
        link = bpf_program__attach_perf_event(sampler->progs.sample, fd);
        if (!link)
                die("attach");
        await_cpu(pid,
                  options->pid ? cpu_ns(pid) + options->seconds * 1000000000ULL
                               : (options->settle_ms + options->seconds * 1000ULL) * 1000000);
        ring_buffer__consume(ring);
        bpf_link__destroy(link);
        close(fd);
        read_statistics(&ns[1], &n[1]);
        return n[1] > n[0] ? (double)(ns[1] - ns[0]) / (double)(n[1] - n[0]) : 0;
}

static int by_value(const void *a, const void *b) {
        return (*(const uint32_t *)a > *(const uint32_t *)b) - (*(const uint32_t *)a < *(const uint32_t *)b);
}

#ifdef PARTS
static const char *const part_texts[PART_N] = {
#define PARTS_TEXT(_name, _text) [PART_##_name] = _text,
        PARTS_EACH(PARTS_TEXT)
#undef PARTS_TEXT
};

static uint32_t median_of(const struct part_log *logs, size_t n, size_t member) {
        static uint32_t values[PARTS_MAX_SAMPLES];

        for (size_t i = 0; i < n; i++)
                memcpy(&values[i], (const char *)&logs[i] + member, sizeof(values[0]));
        qsort(values, n, sizeof(values[0]), by_value);
        return values[n / 2];
}

static void print_parts(void) {
        const struct part_log *logs = sampler->data_parts->parts_logs;
        size_t n = MIN(sampler->data_parts->parts_n, (uint64_t)PARTS_MAX_SAMPLES);
        double all = 0;

        printf("| part | median ns | mean ns | first time, median ns | times a sample |\n|---|---|---|---|---|\n");
        for (size_t part = 0; part < PART_N && n; part++) {
                double sum = 0, times = 0;

                for (size_t i = 0; i < n; i++) {
                        sum += logs[i].ns[part];
                        times += logs[i].n[part];
                }
                all += sum;
                printf("| %s | %u | %.0f | %u | %.2f |\n", part_texts[part],
                       median_of(logs, n, offsetof(struct part_log, ns[part])), sum / (double)n,
                       median_of(logs, n, offsetof(struct part_log, first_ns[part])), times / (double)n);
        }
        printf("| all of %zu samples | – | %.0f | – | – |\n", n, n ? all / (double)n : 0);
}
#else
static void print_parts(void) {
}
#endif

static void run(const Options *options, char **argv) {
        static pid_t pids[MAX_PROCESSES];
        uint64_t begin, ready = 0;
        MapBytes bytes;
        double ns;

        for (unsigned i = 0; i < options->n; i++) {
                if (options->pid) {
                        pids[i] = options->pid;
                        continue;
                }
                pids[i] = start(argv);
                await_cpu(pids[i],
                          (i ? MIN(options->settle_ms, (unsigned)OTHERS_SETTLE_MS) : options->settle_ms) *
                                  1000000ULL);
                kill(pids[i], SIGSTOP);
        }
        for (unsigned i = 0; i < options->n; i++) {
                begin = clock_monotonic_ns();
                load_rows(pids[i]);
                make_target(pids[i]);
                ready = i ? ready : clock_monotonic_ns() - begin;
        }
        kill(pids[0], SIGCONT);
        ns = measure(pids[0], options);
        bytes = map_bytes();
        qsort(depths, n_samples, sizeof(depths[0]), by_value);
        printf("| command | processes | samples | frames | ns a sample | complete | rows ready, ms | maps, KiB | of rows, KiB | others |\n"
               "|---|---|---|---|---|---|---|---|---|---|\n");
        printf("| %s | %u | %u | %u | %.0f | %.2f %% | %.1f | %" PRIu64 " | %" PRIu64 " |", options->pid ? "-p" : argv[0],
               options->n, n_samples, n_samples ? depths[n_samples / 2] : 0, ns,
               n_user ? 100.0 * ends[ABI_STACK_COMPLETE] / n_user : 0, (double)ready / 1e6, bytes.all >> 10,
               bytes.rows >> 10);
        for (unsigned i = 0; i < ABI_STACK_END_N; i++)
                if (ends[i] && end_names[i])
                        printf(" %s %u", end_names[i], ends[i]);
        printf(" |\n");
        print_parts();
        for (unsigned i = 0; i < options->n && !options->pid; i++) {
                kill(pids[i], SIGKILL);
                waitpid(pids[i], NULL, 0);
        }
}

int main(int argc, char **argv) {
        Options options = { .hz = 199, .seconds = 8, .n = 1, .settle_ms = 700, .depth = ABI_DEFAULT_FRAMES };
        int option;

        while ((option = getopt(argc, argv, "+f:s:n:w:d:p:")) >= 0) {
                unsigned value = optarg ? (unsigned)strtoul(optarg, NULL, 10) : 0;

                switch (option) {
                case 'f': options.hz = value; break;
                case 's': options.seconds = value; break;
                case 'n': options.n = value; break;
                case 'w': options.settle_ms = value; break;
                case 'd': options.depth = value; break;
                case 'p': options.pid = (pid_t)value; break;
                default: return 2;
                }
        }
        if ((optind == argc && !options.pid) || !options.hz || !options.n || !options.depth ||
            options.depth > ABI_MAX_FRAMES || options.n > MAX_PROCESSES) {
                fprintf(stderr,
                        "usage: unwind-cost [-f HZ] [-s SECONDS] [-n PROCESSES] [-w SETTLE_MS] [-d DEPTH] COMMAND [ARG…]\n"
                        "       unwind-cost [-f HZ] [-s SECONDS] [-d DEPTH] -p PID\n");
                return 2;
        }
        if (geteuid()) {
                fprintf(stderr, "unwind-cost: needs root\n");
                return 77;
        }
        load(options.depth);
        if (bpf_enable_stats(BPF_STATS_RUN_TIME) < 0)
                die("enable statistics");
        run(&options, argv + optind);
        return n_samples ? 0 : 1;
}
