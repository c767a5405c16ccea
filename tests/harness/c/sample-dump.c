/* SPDX-License-Identifier: Apache-2.0 */

/*
 * sample-dump: the kernel half alone, driven line by line.
 *
 *     sample-dump [frequency=99] [depth=512] [kernel=0] [jitter=0] [default=0] [watch=0]
 *                 [ring=BYTES] [spare=TGID] [btf=PATH] [stack-bytes=0]
 *
 * watch=1: changes of mappings are told of targets and of all others; 2: of targets alone.
 *
 * Prints one JSON object a line: {"ready":…}, then samples, copies of stacks and notices as they are
 * drained (every 20 ms). Reads commands from standard input, and answers each with
 * {"done":COMMAND} once it is in force:
 *
 *     row TGID START RING CAPACITY STATE GENERATION
 *     remove TGID
 *     unshared TGID       take its share of the table of slots away, as if there had been no room for it
 *     rows TGID           read its mappings (again), load their unwind tables, until all are in force
 *     norows TGID         take them out again
 *     rowless TGID        say that no rows exist for any of its code: it is walked by frame pointers
 *     churn A B N         write the nodes of two processes N times, one after the other, while samples go on
 *     hold 0|1            do not drain (to fill the ring)
 *     jitter              draw new periods
 *     runtimes            want the walk over runtimes' frames; the result is enum runtime_walk
 *     sleep               drain, ask to be woken, print {"asleep":1}, wait for that up to a minute, print
 *                         {"woken":0|1}
 *     counters            print all counters and sizes
 *     stop                stop sampling, drain the rest, print the counters, exit 0
 *
 * Exit status: 0; 78 = SAMPLER_E_UNUSABLE; 1 = anything else.
 */

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "host/sampling/sample/decode.h"
#include "host/sampling/sample/sampler.h"
#include "host/sampling/unwind/tables/tables.h"
#include "rowless.h"

enum {
        EXIT_UNUSABLE = 78,
        DRAIN_INTERVAL_MS = 20,
        SLEEP_MAX_MS = 60000,
};

static uint64_t n_malformed;

static void print_comm(const char *comm) {
        printf(",\"comm\":\"");
        for (const char *p = comm; *p; p++)
                printf("\\u%04x", (unsigned char)*p);
        printf("\"");
}

static void print_addresses(const char *name, const uint64_t *addresses, size_t n) {
        printf(",\"%s\":[", name);
        for (size_t i = 0; i < n; i++)
                printf("%s%" PRIu64, i ? "," : "", addresses[i]);
        printf("]");
}

static int on_sample(const void *data, size_t size, void *userdata) {
        const struct abi_sample *header;
        Sample sample;

        if (decode_sample(data, size, &sample)) {
                n_malformed++;
                return 0;
        }
        header = sample.header;
        printf("{\"sample\":1,\"time\":%" PRIu64 ",\"value\":%" PRIu64 ",\"start\":%" PRIu64
               ",\"generation\":%" PRIu64
               ",\"tgid\":%u,\"tid\":%u,\"ns_tid\":%u,\"cpu\":%u,\"kind\":%u,\"end\":%u,\"interrupted\":%u,\"context\":%u,\"slot\":[%" PRIu64
               ",%" PRIu64 ",%" PRIu64 "],\"form\":%u,\"copied\":%u",
               header->time_ns, header->value, header->start_time_ns, header->generation, header->tgid,
               header->tid, header->ns_tid, header->cpu, header->kind, header->stack_end, header->interrupted,
               header->context, header->span.trace_high, header->span.trace_low, header->span.span,
               header->form, header->is_copied);
        print_comm(header->comm);
        print_addresses("kernel", sample.kernel, header->n_kernel);
        print_addresses("user", sample.user, header->n_user);
        printf("}\n");
        return 0;
}

static void print_words(const char *name, const uint8_t *bytes, uint32_t n) {
        printf(",\"%s\":[", name);
        for (uint32_t i = 0; i < n; i += 8) {
                uint64_t word;

                memcpy(&word, bytes + i, sizeof(word));
                printf("%s%" PRIu64, i ? "," : "", word);
        }
        printf("]");
}

static int on_stack(const void *data, size_t size, void *userdata) {
        const struct abi_stack *stack;

        if (decode_stack(data, size, &stack)) {
                n_malformed++;
                return 0;
        }
        printf("{\"stack\":1,\"time\":%" PRIu64 ",\"tgid\":%u,\"cpu\":%u,\"pc\":%" PRIu64 ",\"sp\":%" PRIu64
               ",\"bp\":%" PRIu64 ",\"address\":%" PRIu64 ",\"far\":%" PRIu64 ",\"cut\":%u,\"size\":%zu",
               stack->time_ns, stack->tgid, stack->cpu, stack->pc, stack->sp, stack->bp, stack->address,
               stack->far_address, stack->is_cut, size);
        print_words("words", stack->bytes, stack->n_bytes);
        print_words("far_words", stack->bytes + stack->far_begin, stack->n_far);
        printf("}\n");
        return 0;
}

static int on_notice(const void *data, size_t size, void *userdata) {
        const struct abi_notice *notice;

        if (decode_notice(data, size, &notice)) {
                n_malformed++;
                return 0;
        }
        printf("{\"notice\":%u,\"time\":%" PRIu64 ",\"start\":%" PRIu64 ",\"value\":%" PRIu64 ",\"tgid\":%u",
               notice->kind, notice->time_ns, notice->start_time_ns, notice->value, notice->tgid);
        print_comm(notice->comm);
        printf("}\n");
        return 0;
}

static void print_counters(Sampler *sampler) {
        static const char *const names[COUNTER_N] = {
#define X(name, metric, label, help) [COUNTER_##name] = #name,
                COUNTERS_KERNEL(X) COUNTERS_DAEMON(X)
#undef X
        };

        sampler_read_counters(sampler);
        printf("{\"counters\":{");
        for (int i = 0; i < COUNTER_N; i++)
                printf("\"%s\":%" PRIu64 ",", names[i], stat_get((enum counter)i));
        printf("\"malformed\":%" PRIu64 "},\"lost\":%" PRIu64 ",\"entries\":%" PRIu64
               ",\"cpus\":%u,\"map_bytes\":%zu}\n",
               n_malformed, stat_lost(), sampler_entries(sampler), sampler_n_cpus(sampler),
               sampler_map_bytes(sampler));
}

typedef struct Driver {
        Sampler *sampler;
        ObjectCache *objects;
        Tables *tables;
        bool is_held;
        bool is_stopped;
} Driver;

static int tell_slot(Driver *driver, uint32_t tgid, uint64_t tid, uint64_t slot) {
        return sampler_adopt(driver->sampler, &(struct abi_adoption){ tgid, tid, slot });
}

static int set_row(Driver *driver, const char *line) {
        struct abi_process row = { 0 };
        uint32_t tgid;
        int r = 0;

        if (sscanf(line, "row %u %" SCNu64 " %" SCNu64 " %u %u %" SCNu64, &tgid, &row.start_time_ns,
                   &row.ring_address, &row.ring_capacity, &row.state, &row.generation) != 6)
                return -1;
        if (row.ring_address)
                r = tell_slot(driver, tgid, abi_adoption_share(1, 1), ABI_ADOPTION_SHARE);
        return r ?: sampler_set_process(driver->sampler, tgid, &row);
}

static int open_tables(Driver *driver) {
        TablesConfig config = { .array_fd = sampler_row_tables_fd(driver->sampler),
                                .nodes_fd = sampler_row_nodes_fd(driver->sampler),
                                .versionp = sampler_rows_version(driver->sampler) };
        int r = object_cache_new(&driver->objects, 1024);

        return r ? r : tables_new(&driver->tables, &config);
}

/* Its rows are for the row of the kernel's table that has its id as generation. */
static int read_program(Driver *driver, Process *process) {
        process->generation = process->pid;
        return process_read_mappings(process, driver->objects);
}

static int load_rows(Driver *driver, unsigned tgid) {
        _cleanup_(process_freep) Process *process = NULL;
        int r = driver->tables ? 0 : open_tables(driver);

        if (!r)
                r = process_new(&process, (pid_t)tgid);
        if (!r)
                r = read_program(driver, process);
        if (!r)
                r = tables_process(driver->tables, process);
        while (!r && !tables_is_ready(driver->tables, tgid)) {
                struct pollfd fd = { .fd = tables_fd(driver->tables), .events = POLLIN };

                r = tables_step(driver->tables, 1 << 20);
                if (r == TABLES_E_AGAIN)
                        r = 0;
                else if (!r && !tables_is_ready(driver->tables, tgid))
                        poll(&fd, 1, 100);
        }
        return r;
}

/*
 * The kernel gives the memory of each replaced node to the next one, be it of the same process or of the
 * other.
 */
static int churn(Driver *driver, unsigned a, unsigned b, unsigned n) {
        _cleanup_(process_freep) Process *first = NULL;
        _cleanup_(process_freep) Process *second = NULL;
        int r = process_new(&first, (pid_t)a);

        if (!r)
                r = process_new(&second, (pid_t)b);
        if (!r)
                r = read_program(driver, first);
        if (!r)
                r = read_program(driver, second);
        for (unsigned i = 0; i < n && !r; i++) {
                Process *process = i % 2 ? second : first;

                process->maps_serial += 1 << 20;        /* as if other mappings had been found */
                r = tables_process(driver->tables, process);
                if (!r && i % 2048 == 0)
                        r = sampler_drain(driver->sampler, NULL);
        }
        return r;
}

/* Does what the daemon's loop does when it has found nothing. */
static int sleep_until_woken(Driver *driver) {
        struct pollfd fd = { .fd = sampler_fd(driver->sampler), .events = POLLIN };
        int r = sampler_drain(driver->sampler, NULL);

        sampler_sleep(driver->sampler, true);
        printf("{\"asleep\":1}\n");
        fflush(stdout);
        printf("{\"woken\":%d}\n", poll(&fd, 1, SLEEP_MAX_MS));
        sampler_sleep(driver->sampler, false);
        return r;
}

static int set_rowless(Driver *driver, unsigned n) {
        int r = rowless_set(sampler_row_nodes_fd(driver->sampler), n);

        __atomic_fetch_add(sampler_rows_version(driver->sampler), 1, __ATOMIC_RELEASE);
        return r;
}

static int obey(Driver *driver, const char *line) {
        unsigned n, a, b;

        if (sscanf(line, "churn %u %u %u", &a, &b, &n) == 3 && driver->tables)
                return churn(driver, a, b, n);

        if (!strncmp(line, "row ", 4))
                return set_row(driver, line);
        if (sscanf(line, "remove %u", &n) == 1)
                return sampler_remove_process(driver->sampler, n);
        if (sscanf(line, "unshared %u", &n) == 1)
                return tell_slot(driver, n, 0, ABI_ADOPTION_ENDS);
        if (sscanf(line, "rowless %u", &n) == 1)
                return set_rowless(driver, n);
        if (sscanf(line, "rows %u", &n) == 1)
                return load_rows(driver, n);
        if (sscanf(line, "norows %u", &n) == 1 && driver->tables) {
                tables_forget(driver->tables, n);
                return 0;
        }
        if (sscanf(line, "hold %u", &n) == 1)
                driver->is_held = n;
        else if (!strcmp(line, "jitter"))
                return sampler_read_counters(driver->sampler) ?: sampler_jitter(driver->sampler);
        else if (!strcmp(line, "runtimes"))
                return (int)sampler_want_runtimes(driver->sampler, NULL, NULL);
        else if (!strcmp(line, "sleep"))
                return sleep_until_woken(driver);
        else if (!strcmp(line, "listen"))
                sampler_listen(driver->sampler, true);
        else if (!strcmp(line, "counters"))
                print_counters(driver->sampler);
        else if (!strcmp(line, "stop"))
                driver->is_stopped = true;
        else
                return -1;
        return 0;
}

/* Obeys every whole line that has arrived; the end of input means stop. */
static void read_commands(Driver *driver) {
        static char text[65536];
        static size_t used;
        char *line = text, *end;
        ssize_t n = read(STDIN_FILENO, text + used, sizeof(text) - used - 1);

        if (n <= 0) {
                driver->is_stopped = true;
                return;
        }
        text[used += (size_t)n] = 0;
        while ((end = strchr(line, '\n'))) {
                int r;

                *end = 0;
                r = obey(driver, line);
                printf("{\"done\":\"%s\",\"result\":%d}\n", line, r);
                line = end + 1;
        }
        used -= (size_t)(line - text);
        memmove(text, line, used);
}

static int drive(Driver *driver) {
        struct pollfd commands = { .fd = STDIN_FILENO, .events = POLLIN };
        int r = 0;

        printf("{\"ready\":1}\n");
        while (!driver->is_stopped && !r) {
                fflush(stdout);
                if (poll(&commands, 1, DRAIN_INTERVAL_MS) > 0)
                        read_commands(driver);
                if (!driver->is_held)
                        r = sampler_drain(driver->sampler, NULL);
        }
        sampler_stop(driver->sampler);
        if (!r)
                r = sampler_drain(driver->sampler, NULL);
        print_counters(driver->sampler);
        return r;
}

static uint32_t option(int argc, char **argv, const char *name, uint32_t otherwise) {
        size_t length = strlen(name);

        for (int i = 1; i < argc; i++)
                if (!strncmp(argv[i], name, length) && argv[i][length] == '=')
                        return (uint32_t)strtoul(argv[i] + length + 1, NULL, 0);
        return otherwise;
}

static const char *option_text(int argc, char **argv, const char *name) {
        size_t length = strlen(name);

        for (int i = 1; i < argc; i++)
                if (!strncmp(argv[i], name, length) && argv[i][length] == '=')
                        return argv[i] + length + 1;
        return NULL;
}

int main(int argc, char **argv) {
        _cleanup_(sampler_freep) Sampler *sampler = NULL;
        const char *const spared[] = { option_text(argc, argv, "spare-children"), NULL };
        const SamplerConfig config = {
                .frequency = option(argc, argv, "frequency", 99),
                .depth = option(argc, argv, "depth", ABI_DEFAULT_FRAMES),
                .kernel_stacks = option(argc, argv, "kernel", 0),
                .jitter = option(argc, argv, "jitter", 0),
                .default_state = option(argc, argv, "default", ABI_STATE_REJECTED),
                .watch_targets = option(argc, argv, "watch", 0),
                .watch_non_targets = option(argc, argv, "watch", 0) == 1,
                .self_tgid = option(argc, argv, "spare", (uint32_t)getpid()),
                .helper_comms = spared,
                .ring_bytes = option(argc, argv, "ring", 0),
                .btf_path = option_text(argc, argv, "btf"),
                .stack_bytes = option(argc, argv, "stack-bytes", 0),
        };
        Driver driver = { 0 };
        int r;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getenv("DEBUG"))
                log_set_level(LOG_LEVEL_DEBUG);
        r = sampler_new(&sampler, &config);
        if (!r) {
                sampler_set_callbacks(sampler, on_sample, on_notice, NULL);
                sampler_set_stacks(sampler, on_stack);
                r = sampler_start(sampler);
        }
        if (r)
                return r == SAMPLER_E_UNUSABLE ? EXIT_UNUSABLE : EXIT_FAILURE;
        driver.sampler = sampler;
        r = drive(&driver);
        tables_free(driver.tables);
        object_cache_free(driver.objects);
        return r ? EXIT_FAILURE : EXIT_SUCCESS;
}
