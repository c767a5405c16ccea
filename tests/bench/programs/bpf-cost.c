/* SPDX-License-Identifier: Apache-2.0 */

/*
 * bpf-cost VICTIM OMIT [REPETITIONS [MS [HZ DEPTH]]]: what one sample costs in BPF.
 *
 * Three programs run on the same victim (tests/victims/victim-frames on one CPU) by the
 * same kind of event, one after the other, forth and back, many times over; ours also
 * on one of the same depth without frame pointers (tests/victims/victim-omit), which it
 * walks by unwind rows. The
 * kernel's own statistics give ns a run. The ring is drained meanwhile, so that
 * every record is really written. Prints the lowest and the median repetition, and
 * the medians as ratio to bpf_get_stack(). The interrupt itself is not in it. With HZ
 * it compares at that rate and depth alone (cold.py), without what publishers cost.
 */

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "border/abi.h"
#include "bpf-cost.skel.h"
#include "host/sampling/unwind/tables/tables.h"
#include "rowless.h"
#include "sampler.skel.h"

enum {
        DEFAULT_HZ = 3999,
        RING_BYTES = 8 << 20,
        DRAIN_MS = 20,
        RING_CAPACITY = 64,             /* of the victim's context ring */
        MAX_REPETITIONS = 1000,
        N_WITHOUT_PUBLISHERS = 5,       /* variants that come first */
        OBI_ENTRIES = 16384,            /* half of them are there, as before us */
        SANE_NS = 1000000,              /* the kernel's statistics are off by 2^64 now and then */
};

typedef struct Victim {
        pid_t pid;
        uint64_t ring, module_offset;
        int64_t thread_offset;
} Victim;

typedef enum Row {
        ROW_NONE,                       /* the victim is a stranger */
        ROW_TARGET,
        ROW_TARGET_WITH_RING,
        ROW_TARGET_STATIC,              /* a thread context at an offset from the thread pointer */
        ROW_TARGET_DTV,                 /* the same in a module's block */
        ROW_TARGET_OBI,                 /* an entry in a map as OBI's */
        ROW_TARGET_OBI_MISSED,          /* the same map, without one */
} Row;

typedef struct Variant {
        const char *name;
        struct bpf_program *program;
        Row row;
        bool by_rows;                   /* runs on the victim without frame pointers */
        double ns[MAX_REPETITIONS];
        int n;
} Variant;

static unsigned hz = DEFAULT_HZ;
static struct sampler_bpf *sampler;
static struct ring_buffer *samples;

static void die(const char *what) {
        fprintf(stderr, "bpf-cost: %s: %m\n", what);
        exit(1);
}

static Victim start_victim(const char *path, char *const argv[]) {
        Victim victim = { 0 };
        int pipes[2];
        FILE *out;

        if (pipe(pipes) || (victim.pid = fork()) < 0)
                die("fork");
        if (!victim.pid) {
                cpu_set_t cpus;

                CPU_ZERO(&cpus);
                CPU_SET((size_t)sysconf(_SC_NPROCESSORS_ONLN) - 1, &cpus);
                sched_setaffinity(0, sizeof(cpus), &cpus);
                dup2(pipes[1], STDOUT_FILENO);
                execv(path, argv);
                _exit(127);
        }
        close(pipes[1]);
        out = fdopen(pipes[0], "r");
        if (!out ||
            (fscanf(out, "ring %" SCNu64 " %" SCNd64 " %" SCNu64, &victim.ring, &victim.thread_offset,
                    &victim.module_offset) != 3 &&
             fscanf(out, "frames %*u") == EOF))
                die(path);
        fclose(out);
        usleep(100000);
        return victim;
}

static void stop_victim(Victim *victim) {
        kill(victim->pid, SIGKILL);
        waitpid(victim->pid, NULL, 0);
}

/* The generation of a victim's row is its pid, as rowless_set() has it: each has nodes of its own. */
static void set_row(const Victim *victim, Row kind) {
        const struct abi_process row = {
                .generation = (uint64_t)victim->pid,
                .state = ABI_STATE_TARGET,
                .ring_address = kind == ROW_TARGET_WITH_RING ? victim->ring : 0,
                .ring_capacity = RING_CAPACITY,
                .thread_form = ABI_FORM_THREAD,
                .thread_model = kind == ROW_TARGET_STATIC ? ABI_THREAD_STATIC
                        : kind == ROW_TARGET_DTV          ? ABI_THREAD_GLIBC
                                                          : 0,
                .thread_module = kind == ROW_TARGET_DTV,
                .thread_offset = kind == ROW_TARGET_DTV ? (int64_t)victim->module_offset
                                                        : victim->thread_offset,
        };
        const uint32_t tgid = (uint32_t)victim->pid;

        if (kind == ROW_NONE)
                bpf_map__delete_elem(sampler->maps.processes, &tgid, sizeof(tgid), 0);
        else if (bpf_map__update_elem(sampler->maps.processes, &tgid, sizeof(tgid), &row, sizeof(row),
                                      BPF_ANY))
                die("row");
        sampler->data_shared->rows_version++;
}

/* OBI's map and that of entries that were there before, which are many, and not of the victim. */
static int obi_map;

static void make_obi_maps(void) {
        for (uint32_t slot = 0; slot < ABI_OBI_N_MAPS; slot++) {
                int fd = bpf_map_create(BPF_MAP_TYPE_LRU_HASH, "obi", sizeof(uint64_t),
                                        sizeof(struct abi_obi_ids), OBI_ENTRIES, NULL);
                struct bpf_map_info info = { 0 };
                uint32_t size = sizeof(info);

                for (uint64_t i = 0; i < OBI_ENTRIES / 2; i++) {
                        const struct abi_obi_ids ids = { { i, i, 1 } };

                        bpf_map_update_elem(fd, &(uint64_t){ i << 32 | i }, &ids, BPF_ANY);
                }
                if (bpf_map__update_elem(sampler->maps.obi_maps, &slot, sizeof(slot), &fd, sizeof(fd),
                                         BPF_ANY) ||
                    bpf_obj_get_info_by_fd(fd, &info, &size))
                        die("map of OBI");
                /* a pin would have one reference, and OBI another */
                obi_map = slot == ABI_OBI_MAP ? bpf_map_get_fd_by_id(info.id) : obi_map;
        }
}

static void set_obi(const Victim *victim, Row kind) {
        const uint64_t key = (uint64_t)victim->pid << 32 | (uint64_t)victim->pid;

        if (kind == ROW_TARGET_OBI)
                bpf_map_update_elem(obi_map, &key, &(struct abi_obi_ids){ { 1, 2, 3 } }, BPF_ANY);
        else
                bpf_map_delete_elem(obi_map, &key);
        sampler->data_shared->obi_on = kind == ROW_TARGET_OBI || kind == ROW_TARGET_OBI_MISSED;
}

static Tables *tables;
static ObjectCache *objects;

static void load_rows(const Victim *victim) {
        _cleanup_(process_freep) Process *process = NULL;

        if (process_new(&process, victim->pid) || process_read_mappings(process, objects))
                die("rows");
        process->generation = (uint64_t)victim->pid;
        if (tables_process(tables, process))
                die("rows");
        while (!tables_is_ready(tables, (uint32_t)victim->pid))
                if (tables_step(tables, 1 << 20) == 0)
                        usleep(1000);
}

static void read_statistics(int fd, uint64_t *nsp, uint64_t *np) {
        struct bpf_prog_info info = { 0 };
        uint32_t size = sizeof(info);

        if (bpf_obj_get_info_by_fd(fd, &info, &size))
                die("statistics");
        *nsp = info.run_time_ns;
        *np = info.run_cnt;
}

/* One repetition of one variant. Return: ns a run. */
static double measure(const Variant *variant, const Victim *victim, int ms) {
        struct perf_event_attr attr = {
                .type = PERF_TYPE_SOFTWARE,
                .size = sizeof(attr),
                .config = PERF_COUNT_SW_CPU_CLOCK,
                .sample_period = 1000000000 / hz,
                .disabled = 1,
        };
        int fd = (int)syscall(SYS_perf_event_open, &attr, victim->pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
        uint64_t ns[2], n[2];
        struct bpf_link *link;

        if (fd < 0)
                die("perf_event_open");
        set_row(victim, variant->row);
        set_obi(victim, variant->row);
        read_statistics(bpf_program__fd(variant->program), &ns[0], &n[0]);
        link = bpf_program__attach_perf_event(variant->program, fd);
        if (!link)
                die("attach");
        for (int passed = 0; passed < ms; passed += DRAIN_MS) {
                usleep(DRAIN_MS * 1000);
                ring_buffer__consume(samples);
        }
        bpf_link__destroy(link);
        close(fd);
        read_statistics(bpf_program__fd(variant->program), &ns[1], &n[1]);
        return n[1] > n[0] ? (double)(ns[1] - ns[0]) / (double)(n[1] - n[0]) : 0;
}

static int by_value(const void *a, const void *b) {
        return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static uint64_t n_records, record_frames;

static int on_record(void *context, void *data, size_t size) {
        n_records++;
        record_frames = ((struct abi_sample *)data)->n_user;
        return 0;
}

static void load(struct bpf_cost_bpf **otherp) {
        TablesConfig config = { 0 };

        sampler = sampler_bpf__open();
        if (!sampler)
                die("open");
        bpf_map__set_max_entries(sampler->maps.samples, RING_BYTES);
        sampler->rodata->setting_depth = ABI_DEFAULT_FRAMES;
        sampler->rodata->setting_watch_targets = true;
        sampler->rodata->setting_watch_non_targets = true;
        if (sampler_bpf__load(sampler))
                die("load");
        samples = ring_buffer__new(bpf_map__fd(sampler->maps.samples), on_record, NULL, NULL);
        make_obi_maps();
        *otherp = bpf_cost_bpf__open_and_load();
        config.array_fd = bpf_map__fd(sampler->maps.row_tables);
        config.nodes_fd = bpf_map__fd(sampler->maps.row_nodes);
        config.versionp = (uint64_t *)&sampler->data_shared->rows_version;
        if (object_cache_new(&objects, 64) ||
            tables_new(&tables, &config))
                die("tables");
        if (!samples || !*otherp)
                die("load");
}

static void compare(char *const paths[2], const char *depth, Variant *variants, int n_variants,
                    int n_repetitions, int ms) {
        Victim victims[] = {
                start_victim(paths[0], (char *[]){ paths[0], (char *)depth, (char *)"ring", NULL }),
                start_victim(paths[1], (char *[]){ paths[1], (char *)"depth", (char *)depth, NULL })
        };
        uint64_t n_before;
        double base;

        if (rowless_set(bpf_map__fd(sampler->maps.row_nodes), (uint32_t)victims[0].pid))
                die("node");
        load_rows(&victims[1]);
        n_records = 0;
        for (int i = 0; i < n_variants; i++)
                variants[i].n = 0;
        for (int repetition = 0; repetition < n_repetitions; repetition++)
                for (int i = 0; i < n_variants; i++) {
                        Variant *variant = &variants[repetition % 2 ? n_variants - 1 - i : i];
                        double ns;

                        /* They share a CPU: the other one sleeps. */
                        kill(victims[!variant->by_rows].pid, SIGSTOP);
                        kill(victims[variant->by_rows].pid, SIGCONT);
                        n_before = n_records;
                        ns = measure(variant, &victims[variant->by_rows], ms);
                        if (ns > 0 && ns < SANE_NS)
                                variant->ns[variant->n++] = ns;
                        if (n_records > n_before && record_frames != strtoul(depth, NULL, 10))
                                printf("! %s: the last record has %" PRIu64 " frames\n", variant->name,
                                       record_frames);
                }
        tables_forget(tables, (uint32_t)victims[1].pid);
        stop_victim(&victims[0]);
        stop_victim(&victims[1]);
        if (!n_records)
                printf("! no record\n");
        for (int i = 0; i < n_variants; i++)
                qsort(variants[i].ns, (size_t)variants[i].n, sizeof(double), by_value);
        base = variants[1].n ? variants[1].ns[variants[1].n / 2] : 0;
        for (int i = 0; i < n_variants; i++)
                if (variants[i].n && base > 0)
                        printf("| %s | %s | %.0f | %.0f | %.2f |\n", depth, variants[i].name,
                               variants[i].ns[0], variants[i].ns[variants[i].n / 2],
                               variants[i].ns[variants[i].n / 2] / base);
        fflush(stdout);
}

int main(int argc, char **argv) {
        static const char *const depths[] = { "5", "30", "100", "300" };
        const int n_repetitions = argc > 3 ? atoi(argv[3]) : 15, ms = argc > 4 ? atoi(argv[4]) : 200;
        struct bpf_cost_bpf *other;

        if (argc > 6)
                hz = (unsigned)atoi(argv[5]);
        if (argc < 3 || argc == 6 || n_repetitions > MAX_REPETITIONS || !hz) {
                fprintf(stderr, "usage: bpf-cost VICTIM OMIT [REPETITIONS [MS [HZ DEPTH]]]\n");
                return 2;
        }
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (geteuid()) {
                fprintf(stderr, "bpf-cost: needs root\n");
                return 77;
        }
        load(&other);
        if (bpf_enable_stats(BPF_STATS_RUN_TIME) < 0)
                die("enable statistics");
        printf("| depth | program | lowest ns | median ns | ratio to bpf_get_stack |\n|---|---|---|---|---|\n");
        for (size_t i = 0; i < (argc > 6 ? 1 : sizeof(depths) / sizeof(depths[0])); i++) {
                Variant variants[] = {
                        { .name = "empty", .program = other->progs.empty },
                        { .name = "bpf_get_stack (user)", .program = other->progs.get_stack },
                        { .name = "spanprof, not a target", .program = sampler->progs.sample },
                        { .name = "spanprof, target", .program = sampler->progs.sample, .row = ROW_TARGET },
                        { .name = "spanprof, target without frame pointers",
                          .program = sampler->progs.sample,
                          .row = ROW_TARGET,
                          .by_rows = true },
                        { .name = "spanprof, target with a ring",
                          .program = sampler->progs.sample,
                          .row = ROW_TARGET_WITH_RING },
                        { .name = "spanprof, target with a thread context, static",
                          .program = sampler->progs.sample,
                          .row = ROW_TARGET_STATIC },
                        { .name = "spanprof, target with a thread context, DTV",
                          .program = sampler->progs.sample,
                          .row = ROW_TARGET_DTV },
                        { .name = "spanprof, target with an entry in OBI's map",
                          .program = sampler->progs.sample,
                          .row = ROW_TARGET_OBI },
                        { .name = "spanprof, target without one, and OBI's map is there",
                          .program = sampler->progs.sample,
                          .row = ROW_TARGET_OBI_MISSED },
                };

                compare(argv + 1, argc > 6 ? argv[6] : depths[i], variants,
                        argc > 6 ? N_WITHOUT_PUBLISHERS : 10, n_repetitions, ms);
        }
        return 0;
}
