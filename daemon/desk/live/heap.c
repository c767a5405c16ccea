/* SPDX-License-Identifier: Apache-2.0 */

/*
 * `heap`: reads the heap profile that a program of Go keeps of itself, and lists it by function.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/data/intern.h"
#include "core/base/sandbox/zygotes.h"
#include "core/base/terminal/terminal.h"
#include "core/base/terminal/text-table.h"
#include "core/base/util/array.h"
#include "core/base/util/clock.h"
#include "core/base/util/log.h"
#include "core/base/util/text.h"
#include "desk/cli/inputs.h"
#include "desk/cli/outputs.h"
#include "desk/convert/convert.h"
#include "host/cli/cli.h"
#include "host/heap/heap-window.h"
#include "host/sampling/process/object.h"

enum {
        ZYGOTE_WAIT_MS = 5000,
        MAX_OBJECTS = 64,
        TABLE_ROWS = 30,                /* the file has all */
        UNCUT = 10000,                  /* width for programs that read the table */
        MAX_FUNCTIONS = 1 << 20,
};

typedef struct Heap {
        Cli *cli;
        Process *process;
        ObjectCache *objects;
        Zygotes *zygotes;
        GoHeapAnswer answer;
        const Mapping *mapping;
        uint64_t time_ns;               /* REALTIME, of the look */
        const ConvertWriter *writer;    /* NULL = no file is wanted */
} Heap;

/* ---- the look ---- */

static int deny(uint64_t pid) {
        log_error("heap: process %" PRIu64 ": its memory is not readable for us%s", pid,
                  geteuid() ? ": run it as root" : "");
        return STATUS_FAILURE;
}

/* Return: enum status, -errno. */
static int find_process(Heap *heap) {
        const char *argument = heap->cli->arguments[0];
        uint64_t pid;
        int r;

        if (text_u64(argument, INT32_MAX, &pid) || !pid) {
                log_error("heap: `%s` is no process id", argument);
                return STATUS_USAGE;
        }
        r = object_cache_new(&heap->objects, MAX_OBJECTS);
        if (!r)
                r = process_new(&heap->process, (pid_t)pid);
        if (!r)
                r = process_read_identity(heap->process,
                                          IDENTITY_EXE | IDENTITY_CGROUP | IDENTITY_ENVIRONMENT, true);
        if (!r)
                r = process_read_mappings(heap->process, heap->objects);
        if (r <= 0)
                return r;
        if (r == PROCESS_E_DENIED)
                return deny(pid);
        log_error("heap: process %" PRIu64 ": there is none", pid);
        return STATUS_FAILURE;
}

static int make_workers(Heap *heap) {
        int r = zygotes_new(&heap->zygotes);

        if (!r)
                r = zygotes_wait(heap->zygotes, ZYGOTE_WAIT_MS);
        if (!r)
                return 0;
        log_error("heap: there is no process without rights to read memory of others (%s)", strerror(-r));
        return STATUS_FAILURE;
}

static int look(Heap *heap) {
        static const char *const words[] = {
                [GO_HEAP_ASK_E_NONE] = "it is no program of Go, whose heap profile alone is read",
                [GO_HEAP_ASK_E_WORKER] = "the process that reads it has failed, or took more than 30 seconds",
        };
        const GoHeapSaid *said = &heap->answer.said;
        uint32_t pid = heap->process->pid;
        int r;

        r = go_heap_ask(heap->zygotes, heap->process, &heap->answer, &heap->mapping);
        heap->time_ns = clock_read_ns(CLOCK_REALTIME);
        if (r < 0)
                return r;
        if (r == GO_HEAP_ASK_E_DENIED)
                return deny(pid);
        if (r)
                log_error("heap: process %" PRIu32 ": %s", pid, words[r]);
        else if (said->result)
                log_error("heap: process %" PRIu32 "%s%s%s: %s", pid, *said->version ? " (" : "", said->version,
                          *said->version ? ")" : "", go_heap_text(said->result));
        return r || said->result ? STATUS_FAILURE : 0;
}

/* ---- the table ---- */

static const Column columns[] = {
        { "IN USE", COLUMN_RIGHT },
        { "OBJECTS", COLUMN_RIGHT },
        { "ALLOCATED", COLUMN_RIGHT },
        { "FUNCTION", COLUMN_NAME },
};

typedef struct Row {
        const char *name;
        GoHeapValues values;
} Row;

static int compare_rows(const void *a, const void *b) {
        const GoHeapValues *x = &((const Row *)a)->values, *y = &((const Row *)b)->values;

        if (x->inuse_bytes != y->inuse_bytes)
                return x->inuse_bytes > y->inuse_bytes ? -1 : 1;
        if (x->alloc_bytes != y->alloc_bytes)
                return x->alloc_bytes > y->alloc_bytes ? -1 : 1;
        return strcmp(((const Row *)a)->name, ((const Row *)b)->name);
}

/* Makes a row for each function that allocates itself. */
static int sum_up(const GoHeapAnswer *answer, Row **rowsp, uint32_t *np, GoHeapValues *all) {
        static GoHeapLine lines[GO_HEAP_MAX_LINES];
        _cleanup_(freep) Row *rows = NULL;
        uint32_t n = 0, room = 0;
        Intern names;
        int r = 0;

        intern_init(&names, MAX_FUNCTIONS);
        for (uint32_t i = 0; i < answer->profile.n.n_samples && r >= 0; i++) {
                const GoHeapSample *sample = &answer->profile.samples[i];
                size_t n_lines = go_heap_profile_stack(&answer->profile, sample, lines);
                const char *name = n_lines && lines[0].name ? lines[0].name : "(code that is not Go's)";
                GoHeapValues values = go_heap_values(sample, answer->said.rate);
                uint32_t row;

                r = intern_add(&names, name, strlen(name), &row);
                if (!r)
                        r = array_reserve_zero(&rows, &room, row + 1u, 256);
                if (r < 0 || r == INTERN_E_FULL)
                        break;
                n = MAX(n, row + 1);
                rows[row].name = name;
                go_heap_values_add(&rows[row].values, &values);
                go_heap_values_add(all, &values);
        }
        intern_deinit(&names);
        if (r < 0)
                return r;
        if (n)
                qsort(rows, n, sizeof(*rows), compare_rows);
        *rowsp = take(rows);
        *np = n;
        return 0;
}

/* 12.3 MiB. */
static void add_bytes(TextTable *table, int64_t bytes) {
        static const char *const units[] = { "KiB", "MiB", "GiB", "TiB" };
        double number = (double)bytes / 1024;
        size_t i = 0;

        if (bytes < 1024) {
                text_table_add(table, "%" PRId64 " B", bytes);
                return;
        }
        for (; number >= 1024 && i + 1 < ARRAY_SIZE(units); i++)
                number /= 1024;
        text_table_add(table, "%.1f %s", number, units[i]);
}

static void add_row(TextTable *table, const GoHeapValues *values, const char *name) {
        add_bytes(table, values->inuse_bytes);
        text_table_add(table, "%" PRId64, values->inuse_objects);
        add_bytes(table, values->alloc_bytes);
        text_table_add(table, "%s", name);
}

#define EARLY "before Go has published counts: they are of now, and not of one moment"

static void print_head(const Heap *heap) {
        const GoHeapSaid *said = &heap->answer.said;

        printf("process %" PRIu32 " (", heap->process->pid);
        text_print(heap->process->comm, strlen(heap->process->comm), stdout);
        printf("), %s, one sample in %" PRId64 " bytes, ", said->version, said->rate);
        if (said->is_early)
                printf(EARLY "\n");
        else if (!said->cycle)
                printf("from before the first garbage collection\n");
        else
                printf("as of the end of a garbage collection (cycle %" PRIu32 ")\n", said->cycle);
}

static int print(const Heap *heap) {
        _cleanup_(freep) Row *rows = NULL;
        GoHeapValues all = { 0 };
        unsigned width = cli_output_width();
        TextTable table;
        uint32_t n;
        int r = sum_up(&heap->answer, &rows, &n, &all);

        if (r)
                return r;
        text_table_init(&table, columns, ARRAY_SIZE(columns));
        add_row(&table, &all, "(all)");
        for (uint32_t i = 0; i < n && i < TABLE_ROWS; i++)
                add_row(&table, &rows[i].values, rows[i].name);
        print_head(heap);
        r = text_table_print(&table, 0, width ? width : UNCUT, stdout);
        if (!r && n > TABLE_ROWS)
                printf("… and %" PRIu32 " functions more; a file (-o) has all\n", n - TABLE_ROWS);
        text_table_deinit(&table);
        fflush(stdout);
        return r;
}

/* ---- the file ---- */

static int write_file(Heap *heap) {
        /* the file says what runs on the machine */
        Outputs outputs = { .path = heap->cli->config.command.output, .mode = 0600, .file = OUTFILE_NONE };
        ConvertOptions options = { .end_ns = UINT64_MAX, .filter = { .end_ns = UINT64_MAX },
                                   .version = SPANPROF_VERSION };
        const HeapSince from_begin = { 0 };
        Publication publication = { 0 };
        const Program program = { .process = heap->process, .publication = &publication };
        const HeapLook filled = { .program = &program, .mapping = heap->mapping, .answer = &heap->answer,
                                  .since = &from_begin };
        Convert convert;
        uint32_t n_lost = 0;
        int r = convert_init(&convert, &options);

        if (!r)
                r = heap_window_fill(convert.window, &filled, &n_lost);
        if (n_lost)
                log_warning("%s: %" PRIu32 " stacks are left out for want of room", outputs.path, n_lost);
        if (!r) {
                convert_cover(&convert, heap->time_ns, heap->time_ns);
                r = convert_close(&convert);
        }
        if (!r)
                r = outputs_write(&outputs, heap->writer, &convert);
        convert_deinit(&convert);
        return r;
}

static int check_output(Heap *heap) {
        const Config *config = &heap->cli->config;

        if (!*config->command.output)
                return 0;
        heap->writer = outputs_find_writer(config->command.output, config->command.format);
        return heap->writer ? 0 : STATUS_USAGE;
}

static int run_heap(Heap *heap) {
        bool to_file = strcmp(heap->cli->config.command.output, "-");
        int r = check_output(heap);

        if (!r)
                r = find_process(heap);
        if (!r)
                r = make_workers(heap);
        if (!r)
                r = look(heap);
        if (!r && to_file)
                r = print(heap);
        else if (!r && heap->answer.said.is_early)
                log_warning("heap: process %" PRIu32 ": " EARLY, heap->process->pid);
        if (!r && heap->writer)
                r = write_file(heap);
        return r;
}

static int run(Cli *cli) {
        Heap heap = { .cli = cli };
        int r;

        if (!inputs_is_set(&cli->config, "log-level"))
                log_set_level(LOG_LEVEL_WARNING);
        r = run_heap(&heap);
        if (r < 0)
                log_error("heap: stopped by an error: %s", strerror(-r));
        go_heap_answer_deinit(&heap.answer);
        zygotes_free(heap.zygotes);
        process_free(heap.process);
        object_cache_free(heap.objects);
        return r < 0 ? STATUS_FAILURE : r;
}

const Verb verb_heap = {
        .name = "heap",
        .bit = VERB_HEAP,
        .arguments = "PID",
        .min_arguments = 1,
        .max_arguments = 1,
        .summary = "show what memory a program of Go uses, by function",
        .description =
                "Reads the heap profile that Go's runtime keeps of itself, as the program's own /debug/pprof/heap has it,\n"
                "without a line of code in the program: nothing is stopped, called or written there. Stripped programs and\n"
                "position-independent ones are read, too; Go 1.18 to 1.27 on x86-64. The numbers are those of the last\n"
                "collection, scaled up from the samples as `go tool pprof` has them: of each function that allocates, what\n"
                "is in use, and what was allocated since the program began.\n"
                "\n"
                "A look that meets the runtime at its work is made again, and no number of it is shown. With -o the whole\n"
                "profile goes to a file: four types, with stacks, inlined functions and lines. Exit status 1 says that\n"
                "there is no profile, and why: in many programs Go's linker has switched it off.\n"
                "\n"
                "  spanprof heap 4711                             a table\n"
                "  spanprof heap 4711 -o heap.pb.gz               and a file for `go tool pprof`\n"
                "  spanprof heap 4711 -o heap.html                to look at, or to send\n",
        .run = run,
};
