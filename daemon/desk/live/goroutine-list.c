/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sorts the samples of goroutines into groups by process and size, and prints each group with its stack and
 * labels. Before the groups of a process stands a table: how many goroutines wait for what, in which function
 * of the program.
 */

#include "desk/live/goroutine-list.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/terminal/terminal.h"
#include "core/base/terminal/text-table.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "core/base/util/text.h"
#include "desk/live/frame-list.h"
#include "desk/report/glossary.h"

enum {
        TABLE_ROWS = 20,
        UNCUT = 10000,                  /* width for programs that read the table */
};

/* Goroutines that are alike in all that is known of them. */
typedef struct Group {
        int64_t pid;
        const char *process;
        uint64_t n;
        WindowSample sample;
} Group;

struct GoroutineList {
        const Window *window;
        const GoroutinesSeen *seen;
        Group *groups;                  /* by process, the largest first */
        size_t n;
};

static size_t count_groups(const Window *window) {
        size_t n = 0;

        for (uint32_t i = 0; i < window_n_profiles(window); i++) {
                const WindowProfile *profile = window_get_profile(window, i);

                n += profile->type == PROFILE_GOROUTINES ? profile->n_samples : 0;
        }
        return n;
}

static void take_profile(GoroutineList *list, uint32_t index) {
        const WindowProfile *profile = window_get_profile(list->window, index);
        Group group = { .process = window_get_resource_text(list->window, profile->resource,
                                                            "process.executable.name") };

        window_get_resource_integer(list->window, profile->resource, "process.pid", &group.pid);
        for (uint32_t i = 0; profile->type == PROFILE_GOROUTINES && i < profile->n_samples; i++) {
                window_get_sample(list->window, index, i, &group.sample);
                group.n = (uint64_t)group.sample.value;
                list->groups[list->n++] = group;
        }
}

static int compare(const void *left, const void *right) {
        const Group *a = left, *b = right;

        if (a->pid != b->pid)
                return a->pid < b->pid ? -1 : 1;
        if (a->n != b->n)
                return a->n > b->n ? -1 : 1;
        return (a->sample.stack > b->sample.stack) - (a->sample.stack < b->sample.stack);
}

int goroutine_list_new(GoroutineList **listp, const Window *window, const GoroutinesSeen *seen) {
        _cleanup_(goroutine_list_freep) GoroutineList *list = calloc(1, sizeof(*list));

        if (list)
                list->groups = calloc(count_groups(window) + 1, sizeof(*list->groups));
        if (!list || !list->groups)
                return error_origin(-ENOMEM);
        list->window = window;
        list->seen = seen;
        for (uint32_t i = 0; i < window_n_profiles(window); i++)
                take_profile(list, i);
        qsort(list->groups, list->n, sizeof(*list->groups), compare);
        *listp = take(list);
        return 0;
}

GoroutineList *goroutine_list_free(GoroutineList *list) {
        if (!list)
                return NULL;
        free(list->groups);
        free(list);
        return NULL;
}

/* ---- labels ---- */

static bool is_label(const char *key) {
        return strncmp(key, "wait.", 5) && strcmp(key, "profile.stack.truncated");
}

/* Calls @visit for each attribute that came from the program. */
static void each_label(const GoroutineList *list, const Group *group, void *userdata,
                       void (*visit)(void *userdata, const char *key, const char *value)) {
        size_t n;
        const uint32_t *set = window_get_attribute_set(list->window, group->sample.attributes, &n);

        for (size_t i = 0; i < n; i++) {
                const WindowAttribute *row = window_get_attribute(list->window, set[i]);
                const char *key = window_get_string(list->window, row->key, NULL);

                if (row->kind == ATTRIBUTE_STRING && is_label(key))
                        visit(userdata, key, window_get_string(list->window, row->string, NULL));
        }
}

static const char *text_of(const GoroutineList *list, const Group *group, const char *key) {
        size_t n;
        const uint32_t *set = window_get_attribute_set(list->window, group->sample.attributes, &n);

        return frame_list_text(list->window, set, n, key);
}

/* ---- for people ---- */

static void print_label(void *userdata, const char *key, const char *value) {
        FILE *out = userdata;

        fprintf(out, "%*s", FRAME_LIST_INDENT, "");
        text_print(key, strlen(key), out);
        fputs(" = ", out);
        text_print(value, strlen(value), out);
        fputc('\n', out);
}

static void print_group(const GoroutineList *list, const Group *group, FILE *out) {
        const char *reason = text_of(list, group, "wait.reason");
        const char *end = text_of(list, group, "profile.stack.truncated");

        fprintf(out, "\n%" PRIu64 " goroutine%s %s", group->n, group->n == 1 ? "" : "s",
                text_of(list, group, "wait.state"));
        fprintf(out, "%s%s:\n", *reason ? " on " : "", reason);
        frame_list_print_lock(frame_list_lock(list->window, group->sample.stack), out);
        frame_list_print_link(list->window, group->sample.link, out);
        each_label(list, group, out, print_label);
        frame_list_print(list->window, group->sample.stack, out);
        if (*end)
                fprintf(out, "%*s(ends here: %s)\n", FRAME_LIST_INDENT, "", glossary_end(end));
}

/* Go's own packages, in which a goroutine waits on behalf of the program. */
static bool is_of_go(const char *function) {
        static const char *const packages[] = { "runtime.", "internal/", "sync.", "sync/", "syscall.", "time.", "net.",
                                                "os.", "os/", "io.", "bufio.", "context.", "net/http." };

        for (size_t i = 0; i < ARRAY_SIZE(packages); i++)
                if (!strncmp(function, packages[i], strlen(packages[i])))
                        return true;
        return false;
}

/* The innermost function of the program; of a goroutine of Go's own, the outermost one below its start. */
static const char *own_function(const GoroutineList *list, const Group *group) {
        const char *outermost = "";
        size_t n;
        const FrameWord *words = window_get_stack(list->window, group->sample.stack, &n);

        for (size_t i = 0; i < n; i++) {
                const char *name = frame_list_texts(list->window, words[i]).name;

                if (*name && !is_of_go(name))
                        return name;
                if (*name && strncmp(name, "runtime.goexit", strlen("runtime.goexit")))
                        outermost = name;
        }
        return outermost;
}

/* A row of the table: goroutines that wait for the same in the same function, whatever their labels are. */
typedef struct TableRow {
        const char *state, *reason, *function;
        uint64_t n;
} TableRow;

static int compare_rows(const void *left, const void *right) {
        const TableRow *a = left, *b = right;

        if (a->n != b->n)
                return a->n > b->n ? -1 : 1;
        return strcmp(a->function, b->function);
}

/* @groups: of one process. Return: how many rows there are. */
static size_t make_rows(const GoroutineList *list, const Group *groups, size_t n, TableRow *rows) {
        size_t n_rows = 0, at;

        for (size_t i = 0; i < n; i++) {
                TableRow row = { text_of(list, &groups[i], "wait.state"), text_of(list, &groups[i], "wait.reason"),
                                 own_function(list, &groups[i]), groups[i].n };

                for (at = 0; at < n_rows; at++)
                        if (!strcmp(rows[at].state, row.state) && !strcmp(rows[at].reason, row.reason) &&
                            !strcmp(rows[at].function, row.function))
                                break;
                if (at == n_rows)
                        rows[n_rows++] = row;
                else
                        rows[at].n += row.n;
        }
        qsort(rows, n_rows, sizeof(*rows), compare_rows);
        return n_rows;
}

static void print_rows(const TableRow *rows, size_t n, FILE *out) {
        static const Column columns[] = { { "goroutines", COLUMN_RIGHT }, { "wait", COLUMN_LEFT },
                                          { "in", COLUMN_NAME } };
        TextTable table;
        unsigned width = cli_output_width();
        uint64_t n_rest = 0;

        text_table_init(&table, columns, ARRAY_SIZE(columns));
        for (size_t i = 0; i < MIN(n, (size_t)TABLE_ROWS); i++) {
                text_table_add(&table, "%" PRIu64, rows[i].n);
                text_table_add(&table, "%s%s%s", rows[i].state, *rows[i].reason ? " on " : "", rows[i].reason);
                text_table_add(&table, "%s", *rows[i].function ? rows[i].function : "[unknown]");
        }
        for (size_t i = TABLE_ROWS; i < n; i++)
                n_rest += rows[i].n;
        fputc('\n', out);
        (void)text_table_print(&table, FRAME_LIST_INDENT, width ? width : UNCUT, out);
        if (n_rest)
                fprintf(out, "%*s… and %" PRIu64 " in %zu more places\n", FRAME_LIST_INDENT, "", n_rest, n - TABLE_ROWS);
        text_table_deinit(&table);
}

/* One place alone needs no table. */
static void print_table(const GoroutineList *list, size_t from, FILE *out) {
        _cleanup_(freep) TableRow *rows = NULL;
        size_t n = 0;

        while (from + n < list->n && list->groups[from + n].pid == list->groups[from].pid)
                n++;
        rows = calloc(n, sizeof(*rows));
        n = rows ? make_rows(list, &list->groups[from], n, rows) : 0;
        if (n > 1)
                print_rows(rows, n, out);
}

static void print_head(const GoroutineList *list, size_t from, FILE *out) {
        const Group *first = &list->groups[from];
        uint64_t n = 0, n_locked = 0;

        for (size_t i = from; i < list->n && list->groups[i].pid == first->pid; i++) {
                n += list->groups[i].n;
                if (frame_list_lock(list->window, list->groups[i].sample.stack))
                        n_locked += list->groups[i].n;
        }
        fprintf(out, "\npid %" PRId64 " (", first->pid);
        text_print(first->process, strlen(first->process), out);
        fprintf(out, "): %" PRIu64 " goroutine%s\n", n, n == 1 ? " waits" : "s wait");
        frame_list_print_untold("goroutine", n_locked, out);
}

static void print_left_out(const GoroutinesSeen *seen, FILE *out) {
        const struct {
                uint64_t n;
                const char *text;
        } lines[] = {
                { seen->n_running, "goroutines had a CPU" },
                { seen->n_moved, "goroutines moved while they were read, and are left out" },
                { seen->n_unreadable, "goroutines could not be read" },
                { seen->n_pending + seen->n_window_full + seen->n_not_looked_at,
                  "goroutines were left out: too many, or unwind rows were not there yet" },
                { seen->n_lists_unreadable,
                  "programs of Go do not tell where their goroutines are, or may not be read" },
        };

        for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
                if (lines[i].n)
                        fprintf(out, "\n%" PRIu64 " %s\n", lines[i].n, lines[i].text);
}

/* Goroutines of Go's own, which are there in each program: they sweep, scavenge, run finalizers. */
static bool is_of_runtime(const GoroutineList *list, const Group *group) {
        size_t n;
        const FrameWord *words = window_get_stack(list->window, group->sample.stack, &n);

        for (size_t i = 0; i < n; i++)
                if (strncmp(frame_list_texts(list->window, words[i]).name, "runtime.", strlen("runtime.")))
                        return false;
        return n;
}

void goroutine_list_print(const GoroutineList *list, FILE *out) {
        uint64_t n_of_runtime = 0;

        for (size_t i = 0; i < list->n; i++) {
                if (!i || list->groups[i].pid != list->groups[i - 1].pid) {
                        print_head(list, i, out);
                        print_table(list, i, out);
                }
                if (is_of_runtime(list, &list->groups[i]))
                        n_of_runtime += list->groups[i].n;
                else
                        print_group(list, &list->groups[i], out);
                if (i + 1 < list->n && list->groups[i].pid == list->groups[i + 1].pid)
                        continue;
                if (n_of_runtime)
                        fprintf(out, "\n%" PRIu64 " goroutine%s of Go's runtime (--json has their stacks)\n",
                                n_of_runtime, n_of_runtime == 1 ? "" : "s");
                n_of_runtime = 0;
        }
        print_left_out(list->seen, out);
}

/* ---- for programs ---- */

static void json_label(void *userdata, const char *key, const char *value) {
        json_text(userdata, key, value);
}

static void json_group(const GoroutineList *list, const Group *group, JsonWriter *json) {
        const char *reason = text_of(list, group, "wait.reason");
        const char *end = text_of(list, group, "profile.stack.truncated");

        json_open(json, NULL, '{');
        json_number(json, "pid", (uint64_t)group->pid);
        json_text(json, "process", group->process);
        json_number(json, "goroutines", group->n);
        json_text(json, "state", text_of(list, group, "wait.state"));
        if (*reason)
                json_text(json, "reason", reason);
        frame_list_json_lock(frame_list_lock(list->window, group->sample.stack), json);
        frame_list_json_link(list->window, group->sample.link, json);
        json_open(json, "labels", '{');
        each_label(list, group, json, json_label);
        json_close(json, '}');
        if (*end)
                json_text(json, "truncated", end);
        frame_list_json(list->window, group->sample.stack, json);
        json_close(json, '}');
}

void goroutine_list_json(const GoroutineList *list, JsonWriter *json) {
        const GoroutinesSeen *seen = list->seen;

        json_open(json, "goroutines", '[');
        for (size_t i = 0; i < list->n; i++)
                json_group(list, &list->groups[i], json);
        json_close(json, ']');
        json_number(json, "goroutines_running", seen->n_running);
        json_number(json, "goroutines_left_out",
                    seen->n_moved + seen->n_unreadable + seen->n_pending + seen->n_window_full +
                            seen->n_not_looked_at);
        json_number(json, "goroutine_lists_unreadable", seen->n_lists_unreadable);
}
